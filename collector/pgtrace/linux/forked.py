"""A forked child that does one thing and tells of it, in bounded time."""

import ctypes
import os
import select
import signal
import time
from collections.abc import Callable, Iterable
from typing import NoReturn

MOST_TOLD = 1 << 20
_LOOK_S = 0.1
_MOST_BUSY = 12
"""So many times the seconds that it has to wait in are all that it gets."""

_PR_SET_PDEATHSIG, _PR_SET_DUMPABLE = 1, 4  # include/uapi/linux/prctl.h
_LIBC = ctypes.CDLL(None)  # here, for a child may not be able to load anything

Tell = Callable[[bytes], None]


def told(work: Callable[[Tell], None], kept: Iterable[int], seconds: float) -> bytes:
    """What `work` tells in a child, until it ends or is ended.

    It has so many seconds to wait for others in. Those in which it waits for a processor are not
    its own: then the host is busy. Of all that is open it has `kept` alone.

    Raise OSError when there can be no child.
    """
    ours, theirs = os.pipe2(os.O_CLOEXEC)
    try:
        child = left_running(lambda: work(lambda data: _write(theirs, data)), {*kept, theirs})
    except BaseException:
        os.close(ours)
        raise
    finally:
        os.close(theirs)
    try:
        return _all_of(ours, child, seconds)
    finally:
        os.close(ours)
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


def left_running(work: Callable[[], None], kept: Iterable[int]) -> int:
    """The pid of a child that does `work` and ends; of all that is open it has `kept` alone.

    Raise OSError when there can be no child.
    """
    # No signal finds the child with the parent's ways to deal with it
    before = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
    try:
        child = os.fork()
        if child == 0:
            _work(work, kept)
        return child
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _all_of(pipe: int, child: int, seconds: float) -> bytes:
    heard, left, end = bytearray(), seconds, time.monotonic() + _MOST_BUSY * seconds
    poll = select.poll()
    poll.register(pipe, select.POLLIN)
    while len(heard) < MOST_TOLD and left > 0 and time.monotonic() < end:
        if poll.poll(_LOOK_S * 1000):
            data = os.read(pipe, 1 << 16)
            if not data:
                break
            heard += data
        elif not _is_runnable(child):
            left -= _LOOK_S
    return bytes(heard)


def close_up() -> None:
    """In a child that has become who it is to be: other processes of that user may not look into
    it, and the end of the thread that made it ends it."""
    _LIBC.prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)
    _LIBC.prctl(_PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0)


def _is_runnable(child: int) -> bool:
    with open(f"/proc/{child}/stat", "rb") as file:  # noqa: PTH123
        return file.read().rpartition(b")")[2].split()[0] == b"R"


def _work(work: Callable[[], None], kept: Iterable[int]) -> NoReturn:
    try:
        import gc

        gc.disable()  # nothing of the parent's is to be closed, nor unloaded
        for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}:
            signal.signal(number, signal.SIG_DFL)
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT):
            signal.signal(number, signal.SIG_IGN)  # the terminal's are the parent's
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)  # as Python has it: to write is an error
        signal.set_wakeup_fd(-1)
        _close_all_but(kept)
        signal.pthread_sigmask(signal.SIG_SETMASK, ())
        work()
    except BaseException:
        os._exit(1)
    os._exit(0)


def _write(pipe: int, data: bytes) -> None:
    while data:
        data = data[os.write(pipe, data) :]


def _close_all_but(kept: Iterable[int]) -> None:
    first = 0
    for number in sorted(kept):
        if number:  # closerange(0, 0) closes all there is: CPython 3.11, Python/fileutils.c
            os.closerange(first, number)
        first = number + 1
    os.closerange(first, max(first, *(int(name) for name in os.listdir("/proc/self/fd"))) + 1)  # noqa: PTH208
