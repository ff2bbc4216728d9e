"""Memory of other processes, read so that none of them can make pgtrace wait.

Whoever maps a file of a FUSE file system of its own serves the page faults there itself: at any
time, or never. Who reads there waits, and not even SIGKILL ends that; a process of which one
thread waits there does not end either. So a child reads. If it takes too long it is left where it
is, and whoever it read of is not asked for a while; others are, by another child.

/proc/PID/cmdline is memory as well. It is read under a lock of the process's, which a reader of its
memory who waits holds: then already a process that maps something keeps all others out.
"""

import errno
import os
import select
import signal
import socket
import struct
import threading
import time

from . import capabilities, forked
from .process_user import who_answers_for

_PATIENCE_S = 0.5
"""A page that comes from swap takes some milliseconds."""
_AGAIN_S = 10.0
"""From one that did not come in time to the next read of the same user."""
_MOST_LEFT = 16
"""Children that wait for ever: each of another user, as of whoever has one nothing is read."""
_MOST = 64 << 10
_REQUEST = struct.Struct("=IIQq")
"""Pid, which file, how many bytes, from where on."""
_FILES = ("mem", "cmdline")


def read(pid: int, address: int, size: int) -> bytes:
    """At most `size` bytes, up to 64 KiB, fewer where the mapping ends.

    Raise OSError, or ValueError where there can be no such address.
    """
    return _read(pid, "mem", address, size)


def command_line(pid: int, size: int) -> bytes:
    """The first `size` bytes of a process's arguments. Raise OSError."""
    return _read(pid, "cmdline", 0, size)


class _Reader:
    """A child that reads what it is told to, until this end is closed."""

    def __init__(self) -> None:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            self.pid = forked.left_running(lambda: _serve(theirs.fileno()), {theirs.fileno()})
        self._channel = ours.detach()
        self._poll = select.poll()
        self._poll.register(self._channel, select.POLLIN)

    def answer(self, request: bytes) -> bytes | None:
        """None if it takes too long. Empty, or a BrokenPipeError, if the child is gone."""
        os.write(self._channel, request)
        if not forked.comes(self._poll, self.pid, _PATIENCE_S):
            return None
        return os.read(self._channel, _MOST + 4)

    def close(self) -> None:
        os.close(self._channel)
        os.kill(self.pid, signal.SIGKILL)  # in vain if it waits for a page


class _Readers:
    def __init__(self) -> None:
        """Also in a child of ours: what there is is its parent's."""
        self.lock = threading.Lock()
        self.reader: _Reader | None = None
        self.left: dict[int, tuple[int, float]] = {}
        """By users of whom one waits: that child, and when it may be tried again."""


_readers = _Readers()
os.register_at_fork(after_in_child=lambda: _Readers.__init__(_readers))


def _read(pid: int, name: str, offset: int, size: int) -> bytes:
    try:
        request = _REQUEST.pack(pid, _FILES.index(name), min(size, _MOST), offset)
    except struct.error as error:
        raise ValueError(str(error)) from error
    with _readers.lock:
        _refuse(pid)
        answer = _answer(request)
        if answer is None:
            _leave(pid)
            raise _too_late()
    if number := int.from_bytes(answer[:4], "little"):
        raise OSError(number, os.strerror(number))
    return answer[4:]


def _answer(request: bytes) -> bytes | None:
    for _ in range(2):
        if _readers.reader is None:
            _readers.reader = _Reader()
        try:
            answer = _readers.reader.answer(request)
        except (BrokenPipeError, ConnectionResetError):
            answer = b""
        if answer != b"":
            return answer
        # Somebody ended it, such as the kernel for want of memory
        _readers.reader.close()
        os.waitpid(_readers.reader.pid, 0)
        _readers.reader = None
    raise OSError(errno.ECHILD, "the child that reads memory is ended again and again")


def _leave(pid: int) -> None:
    reader, _readers.reader = _readers.reader, None
    if reader:
        reader.close()
        _readers.left[who_answers_for(pid)] = reader.pid, time.monotonic() + _AGAIN_S


def _refuse(pid: int) -> None:
    """Raise TimeoutError if a read of that user's waits, or did a moment ago."""
    if not _readers.left:
        return
    for uid, (child, until) in list(_readers.left.items()):
        if time.monotonic() >= until and os.waitpid(child, os.WNOHANG)[0]:
            del _readers.left[uid]
    if len(_readers.left) >= _MOST_LEFT or (
        _readers.left and who_answers_for(pid) in _readers.left
    ):
        raise _too_late()


def _too_late() -> TimeoutError:
    return TimeoutError(errno.ETIMEDOUT, "its memory does not come in time")


def _serve(channel: int) -> None:
    capabilities.keep(capabilities.LOOKING)
    while request := os.read(channel, _REQUEST.size):
        pid, which, size, offset = _REQUEST.unpack(request)
        number, data = 0, b""
        try:
            file = os.open(f"/proc/{pid}/{_FILES[which]}", os.O_RDONLY | os.O_CLOEXEC)
            try:
                data = os.pread(file, size, offset)
            finally:
                os.close(file)
        except OSError as error:
            number = error.errno or errno.EIO
        os.write(channel, number.to_bytes(4, "little") + data)
