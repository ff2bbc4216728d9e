"""Files of others: what is read of them, and what they cannot do to who reads them."""

import fcntl
import os
import signal
import time
from pathlib import Path

import pytest

from pgtrace.linux import foreign_files, forked, unprivileged

UID = os.getuid()


def test_the_beginning_of_an_own_file(tmp_path: Path) -> None:
    (tmp_path / "global").mkdir()
    (tmp_path / "global/1").write_bytes(b"x" * 5000)
    assert foreign_files.read(tmp_path, "global/1", UID) == b"x" * 4096
    assert foreign_files.read(tmp_path, "global/1", UID, 3) == b"xxx"
    assert foreign_files.names(tmp_path, "global") == ["1"]
    assert foreign_files.is_file(tmp_path, "global/1")


def test_what_is_no_own_file_is_not_opened(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("secret")
    (tmp_path / "link").symlink_to("file")
    (tmp_path / "directory").mkdir()
    (tmp_path / "led").symlink_to("directory")
    (tmp_path / "directory/file").write_text("secret")
    os.mkfifo(tmp_path / "fifo")
    began = time.monotonic()
    for name in "link", "directory", "led/file", "fifo", "none", "../x":
        with pytest.raises(OSError):
            foreign_files.read(tmp_path, name, UID)
    for name in "link", "directory", "fifo", "none", "file/below":
        assert not foreign_files.is_file(tmp_path, name)
    with pytest.raises(FileNotFoundError):
        foreign_files.read(tmp_path, "file", UID + 1)
    with pytest.raises(NotADirectoryError):
        foreign_files.names(tmp_path, "led")
    assert time.monotonic() - began < 5


def test_a_link_leads_only_to_the_directory_itself(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "real/file").write_text("content")
    (tmp_path / "cwd").symlink_to("real")
    assert foreign_files.read(tmp_path / "cwd", "file", UID) == b"content"


def test_a_directory_without_end(tmp_path: Path) -> None:
    for number in range(20):
        (tmp_path / str(number)).touch()
    assert len(foreign_files.names(tmp_path, most=7)) == 7


def test_a_lease_delays_nobody(tmp_path: Path) -> None:
    """Its owner is asked for it, and has 45 seconds to give it back."""
    file = tmp_path / "file"
    file.write_text("content")
    with file.open("r+") as held:
        before = signal.signal(signal.SIGIO, lambda *_: None)
        fcntl.fcntl(held, fcntl.F_SETLEASE, fcntl.F_WRLCK)
        began = time.monotonic()
        try:
            with pytest.raises(BlockingIOError):
                foreign_files.read(tmp_path, "file", UID)
        finally:
            signal.signal(signal.SIGIO, before)
        assert time.monotonic() - began < 5


# --- the child


def children() -> set[str]:
    """Of this process, ended ones included; tests before may have left some."""
    return set(Path(f"/proc/self/task/{os.getpid()}/children").read_text().split())


@pytest.fixture
def file(tmp_path: Path) -> int:
    (tmp_path / "foreign").write_text("content")
    return os.open(tmp_path / "foreign", os.O_RDONLY)


def test_it_tells_what_it_reads(file: int) -> None:
    assert unprivileged.told(lambda it, tell: tell(os.pread(it, 99, 0) * 2), file) == b"content" * 2


def test_it_has_no_privilege(file: int) -> None:
    def work(_: int, tell: forked.Tell) -> None:
        tell(f"{os.getresuid()} {os.getresgid()} {os.getgroups()}".encode())
        for name in "/etc/passwd", "/proc/self/status":
            try:
                os.open(name, os.O_RDONLY)
                tell(b" opened")
            except OSError as error:
                tell(f" {error.errno}".encode())
        try:
            os.fork()
            tell(b" forked")
        except OSError as error:
            tell(f" {error.errno}".encode())

    ids = (unprivileged.NOBODY,) * 3 if os.geteuid() == 0 else os.getresuid()
    said = unprivileged.told(work, file).decode()
    assert said == f"{ids} {ids} {[]} 24 24 11"


def test_the_kernel_says_the_same_of_it(file: int) -> None:
    def work(_: int, tell: forked.Tell) -> None:
        tell(b"x" * forked.MOST_TOLD)  # more than a pipe holds: it waits to be read
        time.sleep(60)

    seen: dict[str, str] = {}
    before, others = os.read, children()

    def read_late(pipe: int, size: int) -> bytes:
        if not seen:
            (child,) = children() - others
            for line in Path(f"/proc/{child}/status").read_text().splitlines():
                key, _, value = line.partition(":")
                seen[key] = value.strip()
            files = [str(each.readlink()) for each in Path(f"/proc/{child}/fd").iterdir()]
            seen["fds"] = str(sum(name != "/dev/null" for name in files))
        return before(pipe, size)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(unprivileged.os, "read", read_late)
        unprivileged.told(work, file)
    for name in "CapInh", "CapPrm", "CapEff", "CapAmb":
        assert int(seen[name], 16) == 0, name
    assert seen["NoNewPrivs"] == "1"
    assert seen["fds"] == "2"
    if os.geteuid() == 0:
        assert seen["Uid"].split() == seen["Gid"].split() == [str(unprivileged.NOBODY)] * 4
        assert int(seen["CapBnd"], 16) == 0
        assert seen["Groups"] == ""


def test_its_memory_and_time_are_bounded(file: int, monkeypatch: pytest.MonkeyPatch) -> None:
    def swell(_: int, tell: forked.Tell) -> None:
        tell(b"began ")
        bytearray(2 * unprivileged.MOST_MEMORY)  # of the parent's it may have freed some
        tell(b"swelled")

    def spin(_: int, tell: forked.Tell) -> None:
        tell(b"began ")
        while True:
            pass

    def talk(_: int, tell: forked.Tell) -> None:
        while True:
            tell(b"x" * 4096)

    monkeypatch.setattr(unprivileged, "MOST_SECONDS", 1)
    assert unprivileged.told(swell, file) == b"began "
    began = time.monotonic()
    assert unprivileged.told(spin, file) == b"began "
    assert unprivileged.told(lambda *_: time.sleep(60), file) == b""
    assert time.monotonic() - began < 20
    assert len(unprivileged.told(talk, file)) < 2 * forked.MOST_TOLD


def test_whatever_it_raises_is_its_own(file: int, capfd: pytest.CaptureFixture[str]) -> None:
    others = children()
    assert unprivileged.told(lambda *_: 1 // 0, file) == b""  # type: ignore[arg-type,return-value]
    assert capfd.readouterr() == ("", "")
    assert children() == others


def test_a_busy_host_costs_nothing_that_it_tells() -> None:
    """Nor does a child that waits for others, or says little for long, hold up anybody."""

    def compute(tell: forked.Tell) -> None:
        end = time.process_time() + 0.6
        while time.process_time() < end:
            pass
        tell(b"done")

    def dribble(tell: forked.Tell) -> None:
        while True:
            tell(b"x")
            time.sleep(0.01)

    assert forked.told(compute, (), 0.5) == b"done"
    began = time.monotonic()
    assert forked.told(lambda _: time.sleep(60), (), 0.2) == b""
    assert len(forked.told(dribble, (), 0.2)) > 1
    assert time.monotonic() - began < 20
