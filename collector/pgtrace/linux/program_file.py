"""In which file the kernel has the probes of a program: below an overlay, as each container of one
image has, it is the same file for all of them.

A process may run another program at any moment, by execve() or PR_SET_MM_EXE_FILE. So nothing that
was found out by its name in /proc is used by that name again: a file is opened once, and kept open.
"""

import ctypes
import functools
import itertools
import os
import stat
from pathlib import Path

from . import foreign_files

_OVERLAY = 0x794C7630  # OVERLAYFS_SUPER_MAGIC, include/uapi/linux/magic.h
_MOST = 256
"""More than the bytes of a struct statfs."""

Identity = tuple[int, ...]


class Program:
    """A program's file, held open: probes go into the file from which their offsets come."""

    _numbers = itertools.count()

    def __init__(self, path: Path | str) -> None:
        """`path` is `/proc/PID/exe`, or of pgtrace's own choice. Raise OSError."""
        self.name = str(path)
        """As its user knows it."""
        self.number = next(self._numbers)
        """No other's, also once it is closed."""
        self.file = os.open(path, foreign_files.READ)
        try:
            if not stat.S_ISREG(os.fstat(self.file).st_mode):
                raise OSError(f"{path} is no regular file")
            self.identity = _identity(self.file, path)
        except BaseException:
            self.close()
            raise

    def __str__(self) -> str:
        return self.name

    def close(self) -> None:
        """Let go of the file; the kernel keeps it as long as there are probes in it."""
        os.close(self.file)


def identity(path: Path | str) -> Identity | None:
    """What tells this program, `/proc/PID/exe`, from all others; None once the process is gone.

    With all layers on one file system the inode's number is that of the file below
    (Documentation/filesystems/overlayfs.rst, "Inode properties"). When that changed last tells it
    from what was copied up from it; the process's user, from what others may show there.
    """
    try:
        file = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        return _identity(file, path)
    except OSError:
        return None
    finally:
        os.close(file)


def _identity(file: int, path: Path | str) -> Identity:
    """The same of a file that is open. Raise OSError."""
    status = os.fstat(file)
    if not _is_overlaid(file):
        return status.st_dev, status.st_ino
    uid = os.stat(os.path.dirname(path)).st_uid  # noqa: PTH116, PTH120  # thousands: a Path is slow
    return status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns, uid


def _is_overlaid(file: int) -> bool:
    """Whether its file system is one of others that lie below. Raise OSError."""
    found = ctypes.create_string_buffer(_MOST)
    if _libc().fstatfs(file, found):
        error = ctypes.get_errno()
        raise OSError(error, os.strerror(error))
    return ctypes.c_long.from_buffer(found).value == _OVERLAY  # f_type comes first


@functools.cache
def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)
