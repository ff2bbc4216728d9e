"""In which file the kernel has the probes of a program: below an overlay, as each container of one
image has, it is the same file for all of them."""

import ctypes
import functools
import os
from pathlib import Path

_OVERLAY = 0x794C7630  # OVERLAYFS_SUPER_MAGIC, include/uapi/linux/magic.h
_MOST = 256
"""More than the bytes of a struct statfs."""

Identity = tuple[int, ...]


def identity(path: Path | str) -> Identity | None:
    """What tells this program, `/proc/PID/exe`, from all others; None once the process is gone.

    With all layers on one file system the inode's number is that of the file below
    (Documentation/filesystems/overlayfs.rst, "Inode properties"). When that changed last tells it
    from what was copied up from it; the process's user, from what others may show there.
    """
    try:
        status = os.stat(path)  # noqa: PTH116  # of thousands: a Path of each takes longer
        if not _is_overlaid(path):
            return status.st_dev, status.st_ino
        uid = os.stat(os.path.dirname(path)).st_uid  # noqa: PTH116, PTH120
    except OSError:
        return None
    return status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns, uid


def _is_overlaid(path: Path | str) -> bool:
    """Whether its file system is one of others that lie below. Raise OSError."""
    found = ctypes.create_string_buffer(_MOST)
    if _libc().statfs(os.fsencode(path), found):
        error = ctypes.get_errno()
        raise OSError(error, os.strerror(error))
    return ctypes.c_long.from_buffer(found).value == _OVERLAY  # f_type comes first


@functools.cache
def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)
