"""Streams in the place of a file: only one's own, and nobody waits for ever that somebody reads."""

import errno
import fcntl
import os
import re
import select
import stat
import time
from pathlib import Path

from ..errors import UsageError
from ..linux import whose_path

_DESCRIPTOR = re.compile(r"/(?:dev|proc/self)/fd/(\d{1,9})", re.ASCII)
_NAMES = {"/dev/stdin": 0, "/dev/stdout": 1, "/dev/stderr": 2}
_OPEN = os.O_WRONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_NOCTTY | os.O_CLOEXEC
_PIECE = select.PIPE_BUF
"""So much a pipe takes at once if poll() says that it takes something."""
_PATIENCE_S = 30.0
_PATIENCE_TO_OPEN_S = 3.0


def descriptor(path: Path | str) -> int | None:
    """Which open descriptor a path stands for: what the shell opened, or pgtrace's stdout."""
    found = _DESCRIPTOR.fullmatch(str(path))
    return int(found[1]) if found else _NAMES.get(str(path))


def check(number: int) -> None:
    """Raise UsageError if a descriptor cannot be written to."""
    try:
        mode = fcntl.fcntl(number, fcntl.F_GETFL) & os.O_ACCMODE
    except (OSError, OverflowError):
        raise UsageError(
            f"descriptor {number} is not open: sudo closes all from 3 on, then let the shell write "
            "stdout: -o /dev/stdout > FILE"
        ) from None
    if mode == os.O_RDONLY:
        raise UsageError(f"descriptor {number} was not opened for writing")


def check_named(path: Path, directory: int, status: os.stat_result) -> None:
    """Raise UsageError for a FIFO or device that others may have laid there."""
    if not _is_ours(directory, status):
        what = "FIFO" if stat.S_ISFIFO(status.st_mode) else "device"
        raise UsageError(
            f"{path} is a {what} which is not this user's own, or lies where others may write; to "
            f"mean it, let the shell open it: -o /dev/stdout > {path}"
        )


def is_one(directory: int, name: str) -> bool:
    """Whether a name is a FIFO or a device. Raises OSError."""
    try:
        mode = os.stat(name, dir_fd=directory, follow_symlinks=False).st_mode
    except FileNotFoundError:
        return False
    return stat.S_ISCHR(mode) or stat.S_ISFIFO(mode)


def write_named(directory: int, name: str, data: bytes) -> None:
    """Write into a FIFO or device of one's own. Raises OSError, also if nobody reads from it."""
    number = _opened(directory, name)
    try:
        if not _is_ours(directory, os.fstat(number)):
            raise PermissionError(errno.EPERM, os.strerror(errno.EPERM))
        write(number, data)
    finally:
        os.close(number)


def write(number: int, data: bytes) -> None:
    """Write to a descriptor. Raises OSError, also if nobody reads for half a minute."""
    ready = select.poll()
    ready.register(number, select.POLLOUT)
    left = memoryview(data)
    while left:
        if not ready.poll(_PATIENCE_S * 1000):
            raise OSError(errno.ETIMEDOUT, f"nobody reads from it, for {_PATIENCE_S:g} s")
        left = left[os.write(number, left[:_PIECE]) :]


def _opened(directory: int, name: str) -> int:
    end = time.monotonic() + _PATIENCE_TO_OPEN_S
    while True:
        try:
            return os.open(name, _OPEN, dir_fd=directory)
        except OSError as error:
            if error.errno != errno.ENXIO:
                raise
            if time.monotonic() > end:
                raise OSError(errno.ENXIO, "nobody reads from it") from None
        time.sleep(0.05)


def _is_ours(directory: int, status: os.stat_result) -> bool:
    """No other user made it, nor gave it this name."""
    own = {0, os.geteuid()}
    if os.fstat(directory).st_uid not in own or whose_path.is_shared(directory):
        return False
    if stat.S_ISFIFO(status.st_mode):
        return status.st_uid == os.geteuid()
    return stat.S_ISCHR(status.st_mode) and status.st_uid in own
