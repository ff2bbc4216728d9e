"""What went wrong of our own while tracing: it costs its part of the capture, and no other."""

import contextlib
import traceback
from collections.abc import Iterator
from pathlib import Path

from .errors import PgtraceError

_MOST = 20
"""Reasons that are told one by one: an error that differs each time must not fill the memory."""


class Failures:
    """Each is noted once, with how often it came."""

    def __init__(self) -> None:
        self._times: dict[str, int] = {}
        self._others = 0
        self._news: list[tuple[str, str]] = []

    def __bool__(self) -> bool:
        return bool(self._times)

    @contextlib.contextmanager
    def kept(self, what: str) -> Iterator[None]:
        """Do what is in the block; if it fails, note that, and go on after it."""
        try:
            yield
        except Exception as error:
            self.add(what, error)

    def add(self, what: str, error: Exception) -> None:
        """Note that `what` failed.

        What an unexpected error says stays out of files: it may be of somebody's query.
        """
        expected = isinstance(error, PgtraceError)
        words = str(error).strip().partition("\n")[0]
        reason = f"{what}: {words if expected else _where(error)}"
        if reason not in self._times and len(self._times) >= _MOST:
            self._others += 1
            return
        if reason not in self._times:
            said = reason if expected or not words else f"{reason}: {words}"
            self._news.append((said, "".join(traceback.format_exception(error))))
        self._times[reason] = self._times.get(reason, 0) + 1

    def reasons(self) -> list[str]:
        """All so far, for a file."""
        found = [f"{reason} ({n} times)" if n > 1 else reason for reason, n in self._times.items()]
        return [*found, f"other errors: {self._others}"] if self._others else found

    def news(self) -> list[tuple[str, str]]:
        """Those that came since the last call, for the screen: what it was, and the traceback."""
        found, self._news = self._news, []
        return found


def _where(error: Exception) -> str:
    """Its class, and the line of ours, or else of whoever's, in which it came."""
    lines = [line for line in traceback.extract_tb(error.__traceback__) if not _is_here(line)]
    package = Path(__file__).parent
    ours = [line for line in lines if Path(line.filename).is_relative_to(package)] or lines
    places = [f" in {Path(line.filename).name}, line {line.lineno}" for line in ours[-1:]]
    return type(error).__name__ + "".join(places)


def _is_here(line: traceback.FrameSummary) -> bool:
    return line.filename == __file__
