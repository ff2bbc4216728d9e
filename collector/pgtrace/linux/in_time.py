"""Looks into other processes, which none of them can make last.

Whoever has a FUSE file system of its own serves there what is asked at any time, or never: page
faults in what a process maps of it, and look-ups where an overlay over it lets others in. Who asks
waits, and not even SIGKILL ends that; a process of which one thread waits there does not end
either. So a child looks. If it takes too long it is left where it is, and whoever it looked at is
not looked at for a while; others are, by another child.

/proc/PID/cmdline is memory as well. It is read under a lock of the process's, which a reader of its
memory who waits holds: then already a process that maps something keeps all others out.
"""

import errno
import marshal
import os
import select
import signal
import socket
import stat
import threading
import time
from collections.abc import Callable
from typing import Any

from . import capabilities, foreign_files, forked
from .process_user import who_answers_for

_MEMORY_S = 0.5
"""A page that comes from swap takes some milliseconds."""
_FILE_S = 5.0
"""A disk that has much to do may take seconds."""
_REST = 20
"""So many times as long as that took nothing is looked at of the same user."""
_MOST_LEFT = 16
"""Children that wait for ever: two for a user at most, as whoever has one is left alone."""
_MOST = 128 << 10
"""Bytes of an answer; a socket takes more."""

Facts = tuple[int, int, int, int, int]
"""Device, inode, size, and when the file was written and changed."""


def memory(pid: int, address: int, size: int) -> bytes:
    """At most `size` bytes, up to 64 KiB, fewer where the mapping ends.

    Raise OSError, or OverflowError where there can be no such address.
    """
    return bytes(_ask(pid, _MEMORY_S, "pread", f"/proc/{pid}/mem", size, address))


def command_line(pid: int, size: int) -> bytes:
    """The first `size` bytes of a process's arguments. Raise OSError."""
    return bytes(_ask(pid, _MEMORY_S, "pread", f"/proc/{pid}/cmdline", size, 0))


def is_file(pid: int, name: str) -> bool:
    """As foreign_files has it, in the directory in which a process works. Raise PermissionError, or
    TimeoutError."""
    return bool(_ask(pid, _FILE_S, "is_file", f"/proc/{pid}/cwd", name))


def read(pid: int, name: str, uid: int, most: int = foreign_files.MOST_BYTES) -> bytes:
    """As foreign_files has it, in the same directory."""
    return bytes(_ask(pid, _FILE_S, "read", f"/proc/{pid}/cwd", name, uid, most))


def names(pid: int, name: str) -> list[str]:
    """As foreign_files has it, in the same directory."""
    return list(_ask(pid, _FILE_S, "names", f"/proc/{pid}/cwd", name))


def inode(pid: int, name: str) -> tuple[int, int] | None:
    """As foreign_files has it, of what a name in /proc/PID leads to; None also if that lasts."""
    try:
        found: tuple[int, int] | None = _ask(pid, _FILE_S, "inode", f"/proc/{pid}/{name}")
    except OSError:
        return None
    return found


def program(pid: int) -> Facts:
    """What the file is that a process runs. Raise OSError, also if it is no regular one."""
    found: Facts = _ask(pid, _FILE_S, "program", f"/proc/{pid}/exe")
    return found


def facts(file: int) -> Facts:
    """The same of an open file. Raise OSError."""
    found = os.fstat(file)
    if not stat.S_ISREG(found.st_mode):
        raise OSError(errno.EACCES, "no regular file")
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns


def _program(path: str) -> Facts:
    file = os.open(path, foreign_files.READ)
    try:
        return facts(file)
    finally:
        os.close(file)


def _pread(path: str, size: int, offset: int) -> bytes:
    file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        return os.pread(file, min(size, 64 << 10), offset)
    finally:
        os.close(file)


_WORKS: dict[str, Callable[..., Any]] = {
    "pread": _pread,
    "is_file": foreign_files.is_file,
    "read": foreign_files.read,
    "names": foreign_files.names,
    "inode": foreign_files.inode,
    "program": _program,
}


class _Looker:
    """A child that looks where it is told to, until this end is closed."""

    def __init__(self) -> None:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            self.pid = forked.left_running(lambda: _serve(theirs), {theirs.fileno()})
        self._channel = ours
        self._poll = select.poll()
        self._poll.register(ours, select.POLLIN)

    def answer(self, request: bytes, seconds: float) -> bytes | None:
        """None if it takes too long. Empty, or a BrokenPipeError, if the child is gone."""
        self._channel.send(request)
        if not forked.comes(self._poll, self.pid, seconds):
            return None
        return self._channel.recv(_MOST)

    def close(self) -> None:
        self._channel.close()
        os.kill(self.pid, signal.SIGKILL)  # in vain if it waits for a file system


class _Lookers:
    def __init__(self) -> None:
        """Also in a child of ours: what there is is its parent's."""
        self.lock = threading.Lock()
        self.there: _Looker | None = None
        self.left: dict[tuple[int, float], tuple[int, float]] = {}
        """By users at whom one looks in vain, and how long it may, which tells memory from files:
        that child, and when it may be tried again."""


_lookers = _Lookers()
os.register_at_fork(after_in_child=lambda: _Lookers.__init__(_lookers))


def _ask(pid: int, seconds: float, work: str, *arguments: int | str) -> Any:
    request = marshal.dumps((work, arguments))
    with _lookers.lock:
        _refuse(pid, seconds)
        answer = _answer(request, seconds)
        if answer is None:
            _leave(pid, seconds)
            raise _too_late()
    number, found = marshal.loads(answer)  # a child of ours wrote it
    if number:
        raise (
            OverflowError("no such address") if number < 0 else OSError(number, os.strerror(number))
        )
    return found


def _answer(request: bytes, seconds: float) -> bytes | None:
    for _ in range(2):
        if _lookers.there is None:
            _lookers.there = _Looker()
        try:
            answer = _lookers.there.answer(request, seconds)
        except (BrokenPipeError, ConnectionResetError):
            answer = b""
        if answer != b"":
            return answer
        # Somebody ended it, such as the kernel for want of memory
        _lookers.there.close()
        os.waitpid(_lookers.there.pid, 0)
        _lookers.there = None
    raise OSError(errno.ECHILD, "the child that looks there is ended again and again")


def _leave(pid: int, seconds: float) -> None:
    looker, _lookers.there = _lookers.there, None
    if looker:
        looker.close()
        until = time.monotonic() + _REST * seconds
        _lookers.left[who_answers_for(pid), seconds] = looker.pid, until


def _refuse(pid: int, seconds: float) -> None:
    """Raise TimeoutError if a look at that user's lasts, or did a moment ago."""
    if not _lookers.left:
        return
    for key, (child, until) in list(_lookers.left.items()):
        if time.monotonic() >= until and os.waitpid(child, os.WNOHANG)[0]:
            del _lookers.left[key]
    if len(_lookers.left) >= _MOST_LEFT or (who_answers_for(pid), seconds) in _lookers.left:
        raise _too_late()


def _too_late() -> TimeoutError:
    return TimeoutError(errno.ETIMEDOUT, "it does not come in time")


def _serve(channel: socket.socket) -> None:
    names = [*capabilities.LOOKING]
    if capabilities.missing(["CAP_DAC_READ_SEARCH"]):
        names.append("CAP_DAC_OVERRIDE")  # which reads, too: containers have it by default
    capabilities.keep(names)
    # Not read(2): who waits in that has a place of the kretprobe at vfs_read (--probe kprobe), of
    # which there may be as few as processors
    while request := channel.recv(_MOST):
        number, found = 0, None
        try:
            work, arguments = marshal.loads(request)
            found = _WORKS[work](*arguments)
        except OverflowError:
            number = -1
        except OSError as error:
            number = error.errno or errno.EIO
        answer = marshal.dumps((number, found))
        channel.send(answer if len(answer) <= _MOST else marshal.dumps((errno.EMSGSIZE, None)))
