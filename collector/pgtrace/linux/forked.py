"""A forked child that does one thing and tells of it, in bounded time."""

import ctypes
import os
import select
import signal
import time
from collections.abc import Callable, Iterable
from typing import NamedTuple, NoReturn, TypeVar

MOST_TOLD = 1 << 20
_MOST_SAID = 1 << 12
"""Of a child that is listened to once it has ended: a pipe holds more."""
_DONE = b"\0"
_FIRST_S = 30.0
_LOOK_S = 0.1
_SLEEP_S = 0.01
_END_S = 1.0
"""For one that was killed to end in."""
_MOST_BUSY = 12
"""So many times the seconds that it has to wait in are all that it gets."""

_PR_SET_PDEATHSIG, _PR_SET_DUMPABLE = 1, 4  # include/uapi/linux/prctl.h
_LIBC = ctypes.CDLL(None)  # here, for a child may not be able to load anything

Tell = Callable[[bytes], None]
_T = TypeVar("_T")


def told(work: Callable[[Tell], None], kept: Iterable[int], seconds: float) -> bytes:
    """What `work` tells in a child, until it ends or is ended.

    It has so many seconds to wait for others in. Those in which it waits for a processor are not
    its own: then the host is busy. Of all that is open it has `kept` alone.

    Raise OSError when there can be no child.
    """
    child, ours = _telling(lambda pipe: work(lambda data: _write(pipe, data)), kept)
    try:
        return _all_of(ours, child, seconds)
    finally:
        os.close(ours)
        os.kill(child, signal.SIGKILL)
        _collect(child)


class End(NamedTuple):
    """How a child ended."""

    said: bytes
    status: int
    """As waitpid(2) has it."""
    cpu_s: float


class Beside:
    """A child that does something while this goes on, and tells a little of it at its end."""

    def __init__(self, first: Callable[[], _T], then: Callable[[_T], bytes]) -> None:
        """What is done `first` sees all that is open, and nothing changes meanwhile, as it is
        waited for; `then` it has nothing open any more. Raises OSError when there can be no child.
        """

        def work(pipe: int) -> None:
            try:
                found = first()
                _close_all_but({pipe})
                _write(pipe, _DONE)
                said = then(found)
            except Exception as error:
                said = f"an unexpected {type(error).__name__}".encode()
            _write(pipe, said)

        self._pid, self._pipe = _telling(work, None)
        poll = select.poll()
        poll.register(self._pipe, select.POLLIN)
        if not poll.poll(_FIRST_S * 1000):
            os.kill(self._pid, signal.SIGKILL)

    def ended(self, *, within_s: float = 0.0) -> End | None:
        """None while it runs, for so long at most. Once it has ended it is asked no more."""
        end = time.monotonic() + within_s
        while not (found := os.wait4(self._pid, os.WNOHANG))[0]:
            if time.monotonic() >= end:
                return None
            time.sleep(_SLEEP_S)
        _, status, usage = found
        try:
            said = os.read(self._pipe, _MOST_SAID).removeprefix(_DONE)
        finally:
            os.close(self._pipe)
        return End(said, status, usage.ru_utime + usage.ru_stime)

    def kill(self) -> bool:
        """End it. False if that does not end it, as who waits for a disk that does not answer."""
        os.kill(self._pid, signal.SIGKILL)
        return self.ended(within_s=_END_S) is not None


def left_running(work: Callable[[], None], kept: Iterable[int] | None) -> int:
    """The pid of a child that does `work` and ends; of all that is open it has `kept` alone, if
    that is given.

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


def _telling(work: Callable[[int], None], kept: Iterable[int] | None) -> tuple[int, int]:
    """The pid of a child that has a pipe to write to, and where that is read."""
    ours, theirs = os.pipe2(os.O_CLOEXEC)
    try:
        child = left_running(lambda: work(theirs), None if kept is None else {*kept, theirs})
    except BaseException:
        os.close(ours)
        raise
    finally:
        os.close(theirs)
    return child, ours


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


def comes(poll: select.poll, child: int, seconds: float, most_busy: float = _MOST_BUSY) -> bool:
    """Whether there is something to read from a child in time, or it has ended. It has so many
    seconds to wait for others in; those in which it waits for a processor, or has one, are not
    counted, up to `most_busy` times as many.
    """
    left, end = seconds, time.monotonic() + most_busy * seconds
    while not (ready := bool(poll.poll(_LOOK_S * 1000))) and left > 0 and time.monotonic() < end:
        if not _is_runnable(child):
            left -= _LOOK_S
    return ready


def _collect(child: int) -> None:
    """Once it has ended. One that waits for a file system of others may never do."""
    handle = os.pidfd_open(child)
    try:
        poll = select.poll()
        poll.register(handle, select.POLLIN)
        poll.poll(_END_S * 1000)
    finally:
        os.close(handle)
    os.waitpid(child, os.WNOHANG)


def close_up() -> None:
    """In a child that has become who it is to be: other processes of that user may not look into
    it, and the end of the thread that made it ends it."""
    _LIBC.prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)
    end_with_parent()


def end_with_parent() -> None:
    """In a child that has become who it is to be, which takes it back."""
    _LIBC.prctl(_PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0)


def _is_runnable(child: int) -> bool:
    with open(f"/proc/{child}/stat", "rb") as file:  # noqa: PTH123
        return file.read().rpartition(b")")[2].split()[0] == b"R"


def _work(work: Callable[[], None], kept: Iterable[int] | None) -> NoReturn:
    try:
        import gc

        gc.disable()  # nothing of the parent's is to be closed, nor unloaded
        for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}:
            signal.signal(number, signal.SIG_DFL)
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT):
            signal.signal(number, signal.SIG_IGN)  # the terminal's are the parent's
        for number in (signal.SIGXFSZ, signal.SIGPIPE):
            signal.signal(number, signal.SIG_IGN)  # as Python has it: to write is an error
        signal.set_wakeup_fd(-1)
        if kept is not None:
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
    """What libraries take for stdin, stdout and stderr is no other file meanwhile: where it was the
    socket to a server, libpq sent its warnings there.
    """
    null, first = os.open("/dev/null", os.O_RDWR | os.O_CLOEXEC), 0
    for number in {0, 1, 2}.difference(kept):
        os.dup2(null, number)
    for number in sorted({0, 1, 2, *kept}):
        if number:  # closerange(0, 0) closes all there is: CPython 3.11, Python/fileutils.c
            os.closerange(first, number)
        first = number + 1
    os.closerange(first, max(first, *(int(name) for name in os.listdir("/proc/self/fd"))) + 1)  # noqa: PTH208
