"""Drives a tracer until a signal, a time, or the end of the traced process."""

import contextlib
import math
import os
import select
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from types import FrameType
from typing import Literal

from .. import interrupts, sudo
from ..errors import LeftError, NothingCapturedError, TargetError
from ..failures import Failures
from .tracer import POLL_S

Reason = Literal["signal", "duration", "backend ended", "error"]

_NOTHING = "interrupted before anything was captured"
_LEFT = "interrupted before everything was shown"


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
        self.wakes = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        """Readable once it is asked to stop: Python goes on waiting after a signal."""
        self._handlers = interrupts.Handlers(self._handle)
        self._handlers.install()

    def start(self) -> None:
        """From now on there is something to report. Raises NothingCapturedError if too late."""
        self._started = True
        if self.asked:
            raise NothingCapturedError(_NOTHING)

    def stop(self) -> None:
        """Ask for it without a signal."""
        self.asked = True
        os.eventfd_write(self.wakes, 1)

    def restore(self) -> None:
        """Put the handlers back as they were."""
        self._handlers.restore()
        os.close(self.wakes)

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
        os.eventfd_write(self.wakes, 1)
        if again or not self._keeps or not self._started:
            self._handlers.let_go()
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
                    f"no process {pid}; `{sudo.as_root('list')}` shows PostgreSQL's processes"
                ) from None

    def ended(self, wait_s: float, *wakes: int) -> bool:
        """Wait that long for the end of all; True if it came. Of no processes it never does.

        What can be read of `wakes` ends the wait as well.
        """
        some = bool(self._fds)
        poll = select.poll()  # select() takes no descriptor above 1023
        for fd in (*self._fds, *wakes):
            poll.register(fd, select.POLLIN)
        for fd, _ in poll.poll(wait_s * 1000):
            if fd in self._fds:
                self._fds.remove(fd)
                os.close(fd)
        return some and not self._fds

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
    *,
    rest: Callable[[], tuple[float, Collection[int]]] = lambda: (0.0, ()),
) -> Reason:
    """Call `tick` about every 50 ms until there is a reason to stop, and return it.

    While nothing happens, less often: `rest` says until when (time.monotonic()) the next call can
    wait, and what can be read as soon as something happens.

    An error is a reason, and noted: what was measured until then is there. BrokenPipeError is
    raised, as nobody looks any more.
    """
    try:
        for reason in _reasons(stopper, watched, duration_s, rest):
            tick()
            if reason:
                return reason
    except BrokenPipeError:
        raise
    except Exception as error:
        failures.add("tracing ended early", error)
    return "error"


def _reasons(
    stopper: Stopper,
    watched: Watched,
    duration_s: float | None,
    rest: Callable[[], tuple[float, Collection[int]]],
) -> Iterator[Reason | None]:
    end = math.inf if duration_s is None else time.monotonic() + duration_s

    def pause(until: float, *wakes: int) -> bool:
        return watched.ended(max(min(until, end) - time.monotonic(), 0), stopper.wakes, *wakes)

    while True:
        soonest, ended = time.monotonic() + POLL_S, False
        while not (ended or stopper.asked):
            until, wakes = rest()
            if min(until, end) <= max(soonest, time.monotonic()):
                ended = pause(soonest)
                break
            # What others do wakes as well; what comes at once is heard together
            ended = pause(until, *wakes) or pause(min(time.monotonic() + POLL_S, until))
        if ended:
            yield "backend ended"
        elif stopper.asked:
            yield "signal"
        else:
            yield "duration" if time.monotonic() >= end else None
