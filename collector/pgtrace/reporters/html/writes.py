"""What an HTML page shows of writes and fsyncs: their histogram, and which they were."""

from collections.abc import Sequence
from itertools import cycle
from typing import get_args

from ... import units
from ...model.capture import Call, Io, Operation, of_operation
from ...model.histogram import Histogram
from ..document import Group, Layer
from ..sections.sums import time_of
from .charts import Charts
from .parts import Row, table

_CALLS = ("write", *get_args(Call))
_COLOURS = ("s4", "sync", "s0", "s2")
_COLUMNS = ("calls", "bytes", "time", "mean", "p50", "p99", "max")
_HEADS: dict[Operation, tuple[str, tuple[str, ...]]] = {
    "write": ("its writes", ("writes", "bytes", "time")),
    "fsync": ("its fsyncs", ("fsyncs", "time", "p99")),
}


def view(charts: Charts, title: str, first: str, found: Sequence[tuple[str, list[Io]]]) -> str:
    """Return the histogram of those that written() or written_in() found, and a row for each;
    "" if there are none. `first` is what a row is of.
    """
    if not found:
        return ""
    every = [r for _, some in found for r in some]
    layers = [
        Layer((call,), colour, Histogram.of(own))
        for call, colour in zip(_CALLS, cycle(_COLOURS), strict=False)
        if (own := [r for r in every if (r.call or r.operation) == call])
    ]
    rows = [_row(name, calls) for name, calls in found]
    return "\n".join(
        [
            charts.latencies(f"{title}: how long a call took", [Group("", layers)], what="calls"),
            table(f"{title}: which they were", first, [("", _COLUMNS)], rows),
        ]
    )


def _row(name: str, calls: Sequence[Io]) -> Row:
    total = Histogram.of(calls)
    sized = calls[0].operation == "write"
    return Row(
        name,
        [
            units.count(total.count),
            units.size(sum(r.bytes for r in calls)) if sized else "-",
            units.duration(total.total_ns),
            units.duration(total.total_ns / total.count),
            units.duration(total.percentile(50) or 0, 2),
            units.duration(total.percentile(99) or 0, 2),
            units.duration(total.max_ns or 0, 2),
        ],
    )


def heads(operations: Sequence[Operation]) -> list[tuple[str, Sequence[str]]]:
    """The columns of cells(), in a table whose rows have reads as well: none of what was not
    measured.
    """
    return [_HEADS[each] for each in _HEADS if each in operations]


def cells(every: Sequence[Io], operations: Sequence[Operation]) -> list[str]:
    """How many of each, and how long they took."""
    found: list[str] = []
    for operation in (each for each in _HEADS if each in operations):
        own = of_operation(every, operation)
        count = sum(r.count for r in own)
        took = units.duration(time_of(own))
        if operation == "write":
            found += [units.count(count), units.size(sum(r.bytes for r in own)), took]
        else:
            p99 = units.duration(Histogram.of(own).percentile(99) or 0, 2) if count else "-"
            found += [units.count(count), took, p99]
    return found
