"""Numbers for what is told often, so that its name is told once."""

import time
from typing import Generic, TypeVar

_What = TypeVar("_What")
_KEPT_S = 700.0
"""What was not heard of for so long is on no screen any more."""


class Numbers(Generic[_What]):
    """Gives each thing a number, from 1; `news` are those that nobody was told of."""

    def __init__(self) -> None:
        self._numbers: dict[_What, int] = {}
        self._used: dict[_What, float] = {}
        self._last = 0
        self.news: dict[int, _What] = {}

    def of(self, what: _What) -> int:
        """Its number."""
        self._used[what] = time.monotonic()
        if what not in self._numbers:
            self._last += 1
            self._numbers[what] = self._last
            self.news[self._last] = what
        return self._numbers[what]

    def known(self, what: _What) -> int:
        """The same, but 0 if it has none."""
        return self._numbers.get(what, 0)

    def take(self) -> dict[int, _What]:
        """The news; and what was not used for long is forgotten: it would be news again."""
        news, self.news = self.news, {}
        end = time.monotonic() - _KEPT_S
        for what in [what for what, used in self._used.items() if used < end]:
            del self._used[what], self._numbers[what]
        return news
