"""Drives a tracer until a signal, a time, or the end of the traced process."""

import os
import select
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from types import FrameType
from typing import Literal

from .errors import NothingCapturedError, TargetError
from .tracer import POLL_S

Reason = Literal["signal", "duration", "backend ended"]

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Stopper:
    """Turns the first Ctrl-C, SIGTERM or SIGHUP into a wish to stop; a second leaves at once.

    While `start()` has not been called, nothing was captured: NothingCapturedError. Under nohup
    SIGHUP stays ignored.
    """

    def __init__(self) -> None:
        self.asked = False
        self._started = False
        nohup = signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
        numbers = _SIGNALS[:-1] if nohup else _SIGNALS
        self._previous = {s: signal.signal(s, self._handle) for s in numbers}

    def start(self) -> None:
        """From now on there is something to report. Raises NothingCapturedError if too late."""
        self._started = True
        if self.asked:
            raise NothingCapturedError("interrupted before anything was captured")

    def restore(self) -> None:
        """Put the handlers back as they were."""
        for number, handler in self._previous.items():
            signal.signal(number, handler)

    def _handle(self, number: int, _frame: FrameType | None) -> None:
        self.asked = True
        for each in self._previous:
            signal.signal(each, signal.SIG_DFL)
        if not self._started:
            raise NothingCapturedError("interrupted before anything was captured")


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
        for fd in select.select(self._fds, [], [], wait_s)[0]:
            self._fds.remove(fd)
            os.close(fd)
        return not self._fds

    def close(self) -> None:
        """Let go of them."""
        while self._fds:
            os.close(self._fds.pop())


def run(
    stopper: Stopper, watched: Watched, duration_s: float | None, tick: Callable[[], None]
) -> Reason:
    """Call `tick` about every 50 ms until there is a reason to stop, and return it."""
    for reason in _reasons(stopper, watched, duration_s):
        tick()
        if reason:
            return reason
    raise AssertionError("unreachable")


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
