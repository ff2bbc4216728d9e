"""Ctrl-C before anything was captured: the program ends at once, and cleans up where it has to. And
the handlers of those who have their own way with signals.

An exception that a signal's handler raises comes anywhere: in a callback of Python's imports, which
prints and forgets it; in a class's body, which makes another error of it; in a library that then
uses a null pointer, as msgspec 0.22 does when it looks at types. So none is raised where nothing
has to be cleaned up.
"""

import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

INTERRUPTED = 130
_ONE_END_S = 1.0

is_program = False
"""False where pgtrace is a library of somebody's program, which is not ours to end."""
_blocks = 0


@contextmanager
def cleaned_up() -> Iterator[None]:
    """A block that is left by exceptions, because it cleans up."""
    global _blocks  # noqa: PLW0603
    _blocks += 1
    try:
        yield
    finally:
        _blocks -= 1


def leave(words: str = "") -> None:
    """End the program, unless something has to be cleaned up: then the caller raises."""
    if is_program and not _blocks:
        if words:
            os.write(2, f"pgtrace: {words}\n".encode())
        os._exit(INTERRUPTED)


def handle(_number: int, _frame: FrameType | None) -> None:
    """What SIGINT does until a session or an experiment has its own way."""
    leave()
    raise KeyboardInterrupt


class Handlers:
    """Of SIGINT, SIGTERM and SIGHUP, once they are installed. Under nohup SIGHUP stays ignored.

    Nobody types SIGTERM and SIGHUP: those of one second are one, of which `handle` is told once. A
    connection that breaks sends SIGHUP up to four times, as bash does to its jobs and the kernel
    at bash's end, and sudo passes on what it gets of both; the end of a session SIGTERM and SIGHUP.
    """

    def __init__(self, handle: Callable[[int, FrameType | None], None]) -> None:
        self._handle = handle
        self._told_s = float("-inf")
        """When it was told of one that nobody types."""
        self._ends = False
        numbers = [signal.SIGINT, signal.SIGTERM]
        if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
            numbers.append(signal.SIGHUP)
        self._previous = {number: signal.getsignal(number) for number in numbers}

    def install(self) -> None:
        """A signal may come as soon as the first is in place: what `handle` needs is there."""
        for number in self._previous:
            signal.signal(number, self._hear)

    def let_go(self) -> None:
        """Let the next signal end the process, but not what still comes of the same end."""
        self._ends = True
        for number in self._previous:
            if number == signal.SIGINT or not self._is_same_end():
                signal.signal(number, signal.SIG_DFL)

    def restore(self) -> None:
        """Put them back as they were."""
        for number, handler in self._previous.items():
            signal.signal(number, handler)

    def _hear(self, number: int, frame: FrameType | None) -> None:
        if number != signal.SIGINT:
            if self._is_same_end():
                return
            self._told_s = time.monotonic()
        if self._ends:
            signal.signal(number, signal.SIG_DFL)
            signal.raise_signal(number)
        self._handle(number, frame)

    def _is_same_end(self) -> bool:
        """Of those that nobody types. From the first of them: who sends one after the other, each
        within a second, is heard as well."""
        return time.monotonic() - self._told_s < _ONE_END_S
