"""Ctrl-C before anything was captured: the program ends at once, and cleans up where it has to. And
the handlers of those who have their own way with signals.

An exception that a signal's handler raises comes anywhere: in a callback of Python's imports, which
prints and forgets it; in a class's body, which makes another error of it; in a library that then
uses a null pointer, as msgspec 0.22 does when it looks at types. So none is raised where nothing
has to be cleaned up.
"""

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

INTERRUPTED = 130

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
    """Of SIGINT, SIGTERM and SIGHUP, once they are installed. Under nohup SIGHUP stays ignored."""

    def __init__(self, handle: Callable[[int, FrameType | None], None]) -> None:
        self._handle = handle
        numbers = [signal.SIGINT, signal.SIGTERM]
        if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
            numbers.append(signal.SIGHUP)
        self._previous = {number: signal.getsignal(number) for number in numbers}

    def install(self) -> None:
        """A signal may come as soon as the first is in place: what `handle` needs is there."""
        for number in self._previous:
            signal.signal(number, self._handle)

    def let_go(self) -> None:
        """Let the next signal end the process."""
        for number in self._previous:
            signal.signal(number, signal.SIG_DFL)

    def restore(self) -> None:
        """Put them back as they were."""
        for number, handler in self._previous.items():
            signal.signal(number, handler)
