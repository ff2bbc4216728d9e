"""A process of another user that pretends to be a PostgreSQL server, and what it lays out."""

import io
import os
import shutil
import struct
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from elftools.elf.elffile import ELFFile

from child import OWN_MOUNTS, Child

UID = 61234
"""Nobody's and no account's."""
SECRET = "pgtrace-secret-5f1c"


def compiled(to: Path, version: str | None = "15.18", *, changes: bool = False) -> Path:
    """The program; without a version, the one that is asked for is in PG_VERSION. One that
    `changes` has what is probed, and runs what is called `other` on SIGUSR1.
    """
    options = [f'-DVERSION="{version}"'] if version else []
    options += ["-DCHANGES"] if changes else []
    source = Path(__file__).with_name("hostile.c")
    subprocess.run(
        ["gcc", "-w", "-pthread", "-rdynamic", "-Wl,--hash-style=gnu", *options, "-o", to, source],
        check=True,
    )
    return to


def section(data: bytearray, name: str, field: int, value: int) -> None:
    """Change a number in the header of a section: 0x18 is where it is, 0x20 its size."""
    elf = ELFFile(io.BytesIO(bytes(data)))
    number = elf.get_section_index(name)
    at = elf["e_shoff"] + number * elf["e_shentsize"] + field
    data[at : at + 8] = struct.pack("=Q", value)


@contextmanager
def pretended(program: Path, uid: int = UID) -> Iterator["Pretended"]:
    """A data directory of another user's, in which nothing runs yet."""
    place = Path(tempfile.mkdtemp(prefix="pgtrace-hostile-", dir="/tmp"))
    try:
        shutil.copy(program, place / "postgres")
        (place / "global").mkdir()
        for each in place, place / "global", place / "postgres":
            each.chmod(0o755)
            os.chown(each, uid, uid)
        yield Pretended(place, uid)
    finally:
        shutil.rmtree(place)


def with_memory_that_never_comes(*more: str) -> tuple[object, ...]:
    """A command for running(): page faults in two variables of the process are served by a FUSE
    daemon of the same user, which does not answer. With a word more the process reads there itself.
    """
    daemon = Path(__file__).with_name("never_answers.py")
    return (*OWN_MOUNTS, sys.executable, daemon, UID, "./postgres", *more)


def in_a_directory_that_never_answers() -> tuple[object, ...]:
    """A command for running(): a look for `postmaster.pid` where it works asks that daemon."""
    return (sys.executable, Path(__file__).with_name("overlaid.py"), UID, "postgres")


class Pretended:
    """Its files are made by name, as what an attacker would choose."""

    def __init__(self, place: Path, uid: int) -> None:
        self.place = place
        self._uid = uid

    @property
    def program(self) -> Path:
        """What its process runs."""
        return self.place / "postgres"

    def write(self, name: str, text: str | bytes) -> None:
        """What a server has."""
        data = text.encode() if isinstance(text, str) else text
        (self.place / name).write_bytes(data)
        os.chown(self.place / name, self._uid, self._uid)

    def put(self, kind: str, name: str) -> None:
        """`fifo`, `huge`, `link` or `root's`: the last two to a file that only root may read."""
        path = self.place / name
        path.unlink(missing_ok=True)
        if kind == "fifo":
            os.mkfifo(path)
            os.chown(path, self._uid, self._uid)
        elif kind == "huge":
            self.write(name, b"")
            os.truncate(path, 3 << 30)
        elif kind == "directory":
            path.mkdir()
            os.chown(path, self._uid, self._uid)
        else:
            secret = self.place / "secret"
            secret.write_text(f"{SECRET}\n")
            secret.chmod(0o600)
            if kind == "link":
                path.symlink_to(secret)
            else:  # as protected_hardlinks=0 permits
                os.link(secret, path)

    @contextmanager
    def running(
        self, *children: str, by: tuple[object, ...] = (), **settings: Any
    ) -> Iterator[Child]:
        """Its process, which the lock file names unless something is there by that name.

        It has children of these titles; of a path that begins with a slash they run that. `by`
        is a command that becomes its user and starts it, in the place of the usual one.
        """
        ids = f"--reuid={self._uid}", f"--regid={self._uid}"
        usual = ("setpriv", *ids, "--clear-groups", "./postgres")
        with Child(*(by or usual), *children, cwd=self.place, **settings) as child:
            for _ in range(1 + len(children)):
                assert child.line() == "ready\n"
            if not os.path.lexists(self.place / "postmaster.pid"):
                lines = child.pid, self.place, 1, 61234, self.place, "*", "", "ready"
                self.write("postmaster.pid", "".join(f"{line}\n" for line in lines))
            yield child
