"""Numbers for what is told often, so that its name is told once."""

from collections.abc import Set
from typing import Generic, TypeVar

_What = TypeVar("_What")


class Numbers(Generic[_What]):
    """Gives each thing a number, from 1; `news` are those that nobody was told of."""

    def __init__(self) -> None:
        self._numbers: dict[_What, int] = {}
        self._last = 0
        self.news: dict[int, _What] = {}

    def __len__(self) -> int:
        return len(self._numbers)

    def of(self, what: _What) -> int:
        """Its number."""
        if what not in self._numbers:
            self._last += 1
            self._numbers[what] = self._last
            self.news[self._last] = what
        return self._numbers[what]

    def known(self, what: _What) -> int:
        """The same, but 0 if it has none."""
        return self._numbers.get(what, 0)

    def take(self) -> dict[int, _What]:
        """The news."""
        news, self.news = self.news, {}
        return news

    def forget(self, old: Set[int]) -> None:
        """Of what has one of these numbers: it would be news again, under another."""
        self._numbers = {what: n for what, n in self._numbers.items() if n not in old}
