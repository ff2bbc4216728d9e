"""What of a document is shown."""

from dataclasses import dataclass, field
from typing import Literal, get_args

Order = Literal["device", "reads", "bytes", "calls", "p99"]
ORDERS: tuple[Order, ...] = get_args(Order)
Part = Literal["statements", "relations", "backends"]
PARTS: tuple[Part, ...] = get_args(Part)
WIDTH = 80


@dataclass(frozen=True, slots=True)
class Choice:
    """How many rows tables have, None for all, and which come first."""

    most: int | None = 10
    order: Order = "device"
    exact: bool = False
    """Neither fewer, where a screen has no room for them, or some did nothing, nor one more."""

    def rows(self, number: int) -> int:
        """How many of so many have a row of their own, and are not in that of the rest."""
        if self.most is None:
            return number
        alone = number == self.most + 1 and not self.exact
        return number if alone else min(number, self.most)


@dataclass(frozen=True, slots=True)
class View:
    """The whole, unless one of the last five is given; text fits `width` columns."""

    width: int = WIDTH
    choice: Choice = field(default_factory=Choice)
    part: Part | None = None
    """Of this kind all, a row each; backends in full."""
    backend: int | None = None
    """This process alone, in full."""
    statement: str | None = None
    """In full those with this query id, or with these words in their text."""
    since: str | None = None
    """From this time of day on, in UTC: what was done in a part of the session."""
    until: str | None = None
    """Until then."""
