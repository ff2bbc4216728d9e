"""What an experiment does now, how far it is, and about how long it still takes: on stderr."""

import time
from collections.abc import Callable, Sequence

from ... import stderr
from ...terminal_text import escape


class Progress:
    """On a terminal one line that is written over; with `verbose`, lines; with `quiet`, nothing."""

    def __init__(self, *, quiet: bool = False, verbose: bool = False) -> None:
        self._quiet = quiet
        self._lines = verbose and not quiet
        self._over = stderr.is_terminal() and not quiet and not verbose
        self._steps = self._done = 0
        self._began = 0.0

    def say(self, what: str) -> None:
        """Something is begun whose end is not known."""
        self._show(f"{what} …")

    def tell(self, line: str) -> None:
        """Say something that stays, unless `quiet`."""
        if not self._quiet:
            self.clear()
            stderr.say(escape(line))

    def loads(self, rows: int, storage: str) -> Callable[[int], None]:
        """What to call with how many of the rows are there."""
        what, began = f"Loading {rows:,} rows into {storage}", time.monotonic()

        def told(done: int) -> None:
            left = (time.monotonic() - began) * (rows - done) / done if done else 0.0
            how_far = f": {done / rows:.0%} are there, about {duration(left)} for the rest"
            self.say(f"{what}{how_far if done else ''}")

        return told

    def plan(self, steps: int) -> None:
        """From now on there are that many steps, about equally long."""
        self._steps, self._done, self._began = steps, 0, time.monotonic()

    def step(self, what: str) -> None:
        """The next step begins."""
        left = ""
        if self._done:
            each = (time.monotonic() - self._began) / self._done
            left = f", about {duration(each * (self._steps - self._done))} left"
        self._show(f"{self._done + 1} of {self._steps}: {what}{left}")
        self._done += 1

    def clear(self) -> None:
        """Leave the line to others."""
        if self._over:
            stderr.say("\r\033[K", end="")

    def _show(self, line: str) -> None:
        if self._over:
            stderr.say(f"\r\033[K{escape(line)}", end="")
        elif self._lines:
            stderr.say(escape(line))


def duration(seconds: float) -> str:
    """A guess, as it is told."""
    parts: Sequence[tuple[int, str]] = ((3600, "h"), (60, "min"))
    for size, unit in parts:
        if seconds >= 1.5 * size:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds:.0f} s"
