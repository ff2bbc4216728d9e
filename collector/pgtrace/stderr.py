"""What is said beside the data. That it cannot be said costs nobody the data: a terminal may have
gone, a disk be full, and nobody read what goes into a pipe.
"""

import contextlib
import sys


def say(text: str, *, end: str = "\n") -> None:
    """Print it on stderr, if there is one that can be written."""
    if sys.stderr is None:
        return
    with contextlib.suppress(OSError):
        print(text, end=end, file=sys.stderr, flush=True)


def is_terminal() -> bool:
    """Whether somebody may look at it."""
    return sys.stderr is not None and sys.stderr.isatty()
