"""A program's file that is held open, and what is believed of it."""

import os
from pathlib import Path

import pytest

from pgtrace.errors import TargetError
from pgtrace.linux import program_file
from pgtrace.linux.program_file import Program
from pgtrace.postgres import binary, program
from pgtrace.postgres.binary import Programs

SELF = Path("/proc/self/exe")


@pytest.mark.parametrize("kind", ["directory", "fifo", "device"])
def test_what_is_no_regular_file_is_let_go_of(tmp_path: Path, kind: str) -> None:
    path = {"directory": tmp_path, "fifo": tmp_path / "fifo", "device": Path("/dev/null")}[kind]
    if kind == "fifo":
        os.mkfifo(path)
    before = os.listdir("/proc/self/fd")  # noqa: PTH208
    with pytest.raises(OSError, match="no regular file"):
        Program(path)
    with Programs() as programs, pytest.raises(TargetError, match=f"{path} cannot be read"):
        programs.of(path)
    assert os.listdir("/proc/self/fd") == before  # noqa: PTH208


def test_each_is_open_once_until_all_are_done(tmp_path: Path) -> None:
    link = tmp_path / "link"
    link.symlink_to(SELF.resolve())
    with Programs() as programs:
        found, again = programs.of(SELF), programs.of(link)
        assert found is again
        assert not os.get_inheritable(found.file)
        assert (str(found), found.identity) == (str(SELF), program_file.identity(SELF))
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(found.file)


def test_what_is_held_open_is_what_is_looked_into(tmp_path: Path) -> None:
    """Also once its name leads to another program, or to none."""
    path = tmp_path / "program"
    path.write_bytes(SELF.read_bytes())
    with Programs() as programs:
        found = programs.of(path)
        path.unlink()
        path.write_text("no program")
        assert not binary.is_foreign(found)
        assert binary.unreadable(found) is None
        assert binary.unreadable(path)
        path.unlink()
        assert binary.has_symbol(found, "Py_BytesMain") == binary.has_symbol(SELF, "Py_BytesMain")


@pytest.mark.skipif(not Path("/dev/shm").is_mount(), reason="needs a file system without a device")
def test_where_the_kernel_makes_devices_up_only_what_the_file_itself_told_is_believed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The next file system that is mounted may have the same number, and the same file."""
    looks = []
    looked = program._look
    monkeypatch.setattr(program, "_look", lambda *each: looks.append(each) or looked(*each))
    monkeypatch.setattr(program, "_known", {})
    path = Path(f"/dev/shm/pgtrace-{os.getpid()}")
    path.write_bytes(SELF.read_bytes())
    try:
        for _ in range(2):
            program.look(path)
            assert len(looks) == 1
        for expected in (2, 3):
            with Programs() as programs:
                for _ in range(2):
                    program.look(programs.of(path))
                    assert len(looks) == expected
    finally:
        path.unlink()
