"""Files that others own, read so that nobody can make pgtrace wait, swell, or tell a secret.

Whoever may write into a directory chooses what a name in it is: a FIFO that nobody writes to, a
link to a file that only root may read, a file of any size. So a name is looked up relative to
a directory, links are not followed, and what is there is only opened once it is known to be a
regular file of the user that the directory is said to be of.
"""

import errno
import itertools
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

MOST_BYTES = 4096
MOST_NAMES = 4096
"""Of one directory: `global` has less than a hundred, `pg_tblspc` one for each tablespace."""
_LOOK = os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC
READ = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY
"""How to open what is anybody's: at once, whatever it is."""


def read(
    directory: Path | str, name: str, uid: int, most: int = MOST_BYTES, begin: int = 0
) -> bytes:
    """Read the `most` bytes from `begin` on of a file, such as `global/1`, that is user `uid`'s.

    `directory` itself may be a link, such as `/proc/PID/cwd`. Raise OSError where there is no
    such file, also if it is another user's or no regular file.
    """
    with opened(directory, name, uid) as handle:
        return os.pread(handle, most, begin)


@contextmanager
def opened(directory: Path | str, name: str, uid: int | None = None) -> Iterator[int]:
    """A descriptor to read such a file by, of whatever user if that is None. Raise OSError."""
    with _looked_up(directory, name) as found:
        _check(os.fstat(found), name, uid)
        # By its descriptor: what the name leads to may be another file by now
        handle = os.open(f"/proc/self/fd/{found}", READ)
    try:
        yield handle
    finally:
        os.close(handle)


def status(directory: Path | str, name: str, uid: int) -> os.stat_result:
    """Its size and times; it is not opened. Raise OSError as read()."""
    with _looked_up(directory, name) as found:
        return _check(os.fstat(found), name, uid)


def _check(found: os.stat_result, name: str, uid: int | None) -> os.stat_result:
    if not stat.S_ISREG(found.st_mode) or uid not in {None, found.st_uid}:
        raise FileNotFoundError(errno.ENOENT, "no regular file of its own user", name)
    return found


def read_descriptor(path: str, most: int = MOST_BYTES) -> bytes:
    """Read the first `most` bytes of what is no name that others chose: a file of /proc.

    Raise OSError as read().
    """
    handle = os.open(path, READ)
    try:
        return os.read(handle, most)
    finally:
        os.close(handle)


def inode(path: Path | str) -> tuple[int, int] | None:
    """Device and inode of what a name of /proc leads to; None once it is gone."""
    try:
        status = os.stat(path)  # noqa: PTH116  # of thousands: a Path of each takes longer
    except OSError:
        return None
    return status.st_dev, status.st_ino


def is_file(directory: Path | str, name: str) -> bool:
    """Whether there is a regular file of this name, which is not opened. Raise PermissionError."""
    try:
        return stat.S_ISREG(os.lstat(f"{directory}/{name}").st_mode)
    except PermissionError:
        raise
    except OSError:
        return False


def names(directory: Path | str, name: str = "", most: int = MOST_NAMES) -> list[str]:
    """What a directory holds, in order: `most` names of it. Raise OSError as read()."""
    with _looked_up(directory, name) as found:
        handle = os.open(f"/proc/self/fd/{found}", READ | os.O_DIRECTORY)
        try:
            with os.scandir(handle) as entries:
                return sorted(entry.name for entry in itertools.islice(entries, most))
        finally:
            os.close(handle)


@contextmanager
def _looked_up(directory: Path | str, name: str) -> Iterator[int]:
    """A descriptor that says what a name is, and opens nothing."""
    found = os.open(directory, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        parts = [part for part in name.split("/") if part]
        for at, part in enumerate(parts, 1):
            inner = os.open(part, _LOOK | (os.O_DIRECTORY if at < len(parts) else 0), dir_fd=found)
            os.close(found)
            found = inner
        yield found
    finally:
        os.close(found)
