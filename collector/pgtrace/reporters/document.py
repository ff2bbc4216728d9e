"""Reports as data: sections of sentences and tables, which each form of a report draws.

Values stay numbers until they are drawn; text is escaped there, and nowhere before.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from .. import units

Unit = Literal["text", "count", "bytes", "ns", "ns, 2 digits", "share"]
Value = int | float | str | None
"""None: not measured."""
_SHOWN: dict[Unit, Callable[[float], str]] = {
    "count": lambda value: units.count(int(value)),
    "bytes": units.size,
    "ns": units.duration,
    "ns, 2 digits": lambda value: units.duration(value, 2),
    "share": units.share,
}


@dataclass(frozen=True, slots=True)
class Column:
    """What stands under a head, and in which unit: nanoseconds, bytes, a part of one."""

    title: str
    unit: Unit = "count"

    def show(self, value: Value, unknown: str) -> str:
        """The value as people read it; `unknown` where it was not measured."""
        if value is None:
            return unknown
        if isinstance(value, str):
            return value
        return _SHOWN[self.unit](value) if value else "0"


@dataclass(frozen=True, slots=True)
class Table:
    """Rows begin with what they are of; `first` is the head of that."""

    caption: str
    first: str
    columns: Sequence[Column]
    rows: Sequence[tuple[str, Sequence[Value]]]


@dataclass(frozen=True, slots=True)
class Paragraph:
    """Sentences."""

    text: str


@dataclass(frozen=True, slots=True)
class Over:
    """A value for each piece of a session, drawn over its time."""

    caption: str
    unit: Unit
    pieces: Sequence[tuple[float, float, float]]
    """When each began, how long it was, both in seconds, and its value; what there is none of is
    0."""
    duration_s: float
    began: str
    ended: str
    """Times of day."""


Block = Table | Paragraph | Over


@dataclass(frozen=True, slots=True)
class Section:
    """What belongs together; `name` is its anchor on a page."""

    name: str
    blocks: Sequence[Block]
