"""Reports as data: sections of sentences and tables, which each form of a report draws.

Values stay numbers until they are drawn; text is escaped there, and nowhere before.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Literal

from .. import units
from ..model.histogram import Histogram

Unit = Literal["text", "words", "count", "number", "bytes", "ns", "ns, 2 digits", "share"]
"""Words are sentences."""
Value = int | float | str | None
"""None: not measured."""
_SHOWN: dict[Unit, Callable[[float], str]] = {
    "count": lambda value: units.count(int(value)),
    "number": units.number,
    "bytes": units.size,
    "ns": units.duration,
    "ns, 2 digits": lambda value: units.duration(value, 2),
    "share": units.share,
}


@dataclass(frozen=True, slots=True)
class Column:
    """What stands under a head, and in which unit: nanoseconds, bytes, a part of one.

    `group` stands above neighbours that have the same one. What is a `detail` is left out where
    there is little room: in text of 80 columns.
    """

    title: str
    unit: Unit = "count"
    group: str = ""
    detail: bool = False

    def show(self, value: Value, unknown: str) -> str:
        """The value as people read it; `unknown` where it was not measured."""
        if value is None:
            return unknown
        if isinstance(value, str):
            return value
        return _SHOWN[self.unit](value) if value else "0"


@dataclass(frozen=True, slots=True)
class Table:
    """Rows begin with what they are of; `first` is the head of that.

    What they are of is a statement or the like, unless it is `named`: then it is a few words, a
    row without values is the heading of those below it, and the caption is told in text, too.
    """

    caption: str
    first: str
    columns: Sequence[Column]
    rows: Sequence[tuple[str, Sequence[Value]]]
    named: bool = False

    def groups(self) -> list[tuple[str, list[Column]]]:
        """Columns by what stands above them."""
        return [(name, list(own)) for name, own in groupby(self.columns, lambda c: c.group)]


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


@dataclass(frozen=True, slots=True)
class Layer:
    """Latencies that are drawn alike, filled or as an outline.

    `keys` are what the legend can hide it by. `colour` is the name of one in page.css.
    """

    keys: tuple[str, ...]
    colour: str
    latencies: Histogram
    outlined: bool = False


@dataclass(frozen=True, slots=True)
class Group:
    """Layers whose shares are of their sum: one query's sources, for example."""

    name: str
    layers: Sequence[Layer]

    @property
    def total_ns(self) -> int:
        """How long all of it took."""
        return sum(layer.latencies.total_ns for layer in self.layers)

    @property
    def all(self) -> Histogram:
        """Its layers together."""
        return sum((layer.latencies for layer in self.layers), Histogram())


@dataclass(frozen=True, slots=True)
class Latencies:
    """How many of `what` took how long, by powers of two; groups are laid over each other, or stand
    side by side. What is a `detail` is on a page alone.
    """

    title: str
    groups: Sequence[Group]
    what: str = "reads"
    opened: bool = False
    detail: bool = False


@dataclass(frozen=True, slots=True)
class Percentiles:
    """Latencies over percentiles: on a page alone."""

    title: str
    layers: Sequence[Layer]


@dataclass(frozen=True, slots=True)
class Line:
    """Points (x, y) that belong together, by x."""

    name: str
    colour: str
    points: Sequence[tuple[float, float]]
    intervals: Sequence[tuple[float, float] | None] = ()
    """Of each point, between what its y certainly is, if that is known; or of none."""


@dataclass(frozen=True, slots=True)
class Panel:
    """Lines that share an axis: `unit` is "time" (ns), "percent" or "number"."""

    name: str
    unit: str
    lines: Sequence[Line]
    marks: Sequence[tuple[float, str]] = ()
    """Places in x to be marked, such as where lines cross."""
    band: tuple[float, float] | None = None
    """A range of x to be shaded."""


@dataclass(frozen=True, slots=True)
class Lines:
    """Panels over a logarithmic `x`, one above the other: on a page alone. The table has the same
    numbers, a row for each x of the first line.
    """

    title: str
    panels: Sequence[Panel]
    x: str
    unit: str
    table: Table


@dataclass(frozen=True, slots=True)
class Part:
    """A part of a section; on a page, one to open and close."""

    title: str
    blocks: "Sequence[Block]"
    opened: bool = True


Block = Table | Paragraph | Over | Latencies | Percentiles | Lines | Part


@dataclass(frozen=True, slots=True)
class Section:
    """What belongs together; `name` is its anchor on a page."""

    name: str
    blocks: Sequence[Block]
    title: str = ""
