"""Drives a tracer until a signal, a time, or the end of the traced process."""

import contextlib
import os
import select
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from types import FrameType
from typing import Literal

from . import interrupts
from .errors import LeftError, NothingCapturedError, TargetError
from .failures import Failures
from .tracer import POLL_S

Reason = Literal["signal", "duration", "backend ended", "error"]

_NOTHING = "interrupted before anything was captured"
_LEFT = "interrupted before everything was shown"
_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Stopper:
    """Turns the first Ctrl-C, SIGTERM or SIGHUP into a wish to stop; a second leaves at once.

    With `keeps`, the second only hurries: `hurry` is called, and what may_leave() holds is left by
    LeftError, so that what was captured can still be written; a third leaves at once. While
    `start()` has not been called, nothing was captured: NothingCapturedError. Under nohup SIGHUP
    stays ignored.
    """

    def __init__(self, *, keeps: bool = False) -> None:
        self.asked = False
        self.hurry: Callable[[], None] = lambda: None
        self._keeps = keeps
        self._hurried = self._may_leave = False
        self._started = False
        nohup = signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
        numbers = _SIGNALS[:-1] if nohup else _SIGNALS
        self._previous = {s: signal.signal(s, self._handle) for s in numbers}

    def start(self) -> None:
        """From now on there is something to report. Raises NothingCapturedError if too late."""
        self._started = True
        if self.asked:
            raise NothingCapturedError(_NOTHING)

    def restore(self) -> None:
        """Put the handlers back as they were."""
        for number, handler in self._previous.items():
            signal.signal(number, handler)

    @contextlib.contextmanager
    def may_leave(self) -> Iterator[None]:
        """What is in the block is left by LeftError at a signal that says so."""
        self._may_leave = True
        try:
            if self._hurried:
                raise LeftError(_LEFT)
            yield
        finally:
            self._may_leave = False

    def _handle(self, number: int, _frame: FrameType | None) -> None:
        again, self.asked = self.asked, True
        if again or not self._keeps or not self._started:
            for each in self._previous:
                signal.signal(each, signal.SIG_DFL)
        if not self._started:
            interrupts.leave(_NOTHING)
            raise NothingCapturedError(_NOTHING)
        if again or self._may_leave:
            self._hurried = True
            self.hurry()
        if self._may_leave:
            raise LeftError(_LEFT)


class Watched:
    """The processes that are traced, held by pidfds: their pids cannot become others'."""

    def __init__(self, pids: Sequence[int]) -> None:
        self._fds: list[int] = []
        for pid in pids:
            try:
                self._fds.append(os.pidfd_open(pid))
            except ProcessLookupError:
                self.close()
                raise TargetError(
                    f"no process {pid}; `pgtrace list` shows PostgreSQL's processes"
                ) from None

    def ended(self, wait_s: float) -> bool:
        """Wait that long for the end of all; True if it came. Of no processes it never does."""
        if not self._fds:
            time.sleep(wait_s)
            return False
        poll = select.poll()  # select() takes no descriptor above 1023
        for fd in self._fds:
            poll.register(fd, select.POLLIN)
        for fd, _ in poll.poll(wait_s * 1000):
            self._fds.remove(fd)
            os.close(fd)
        return not self._fds

    def close(self) -> None:
        """Let go of them."""
        while self._fds:
            os.close(self._fds.pop())


def run(
    stopper: Stopper,
    watched: Watched,
    duration_s: float | None,
    tick: Callable[[], None],
    failures: Failures,
) -> Reason:
    """Call `tick` about every 50 ms until there is a reason to stop, and return it.

    An error is one, and noted: what was measured until then is there. BrokenPipeError is raised,
    as nobody looks any more.
    """
    try:
        for reason in _reasons(stopper, watched, duration_s):
            tick()
            if reason:
                return reason
    except BrokenPipeError:
        raise
    except Exception as error:
        failures.add("tracing ended early", error)
    return "error"


def _reasons(
    stopper: Stopper, watched: Watched, duration_s: float | None
) -> Iterator[Reason | None]:
    end = None if duration_s is None else time.monotonic() + duration_s
    while True:
        left = POLL_S if end is None else min(POLL_S, end - time.monotonic())
        if watched.ended(max(left, 0)):
            yield "backend ended"
        elif stopper.asked:
            yield "signal"
        else:
            yield "duration" if end is not None and time.monotonic() >= end else None
