"""Ctrl-C before anything was captured: the program ends at once, and cleans up where it has to.

An exception that a signal's handler raises comes anywhere: in a callback of Python's imports, which
prints and forgets it; in a class's body, which makes another error of it; in a library that then
uses a null pointer, as msgspec 0.22 does when it looks at types. So none is raised where nothing
has to be cleaned up.
"""

import os
from collections.abc import Iterator
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
