"""Charts of an HTML page: what page.js draws, and each chart's table with the same numbers."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from math import log10
from typing import Any

from ... import units
from ...model.buckets import MAX_BITS
from ...model.histogram import Histogram
from ..document import Group, Layer, Lines
from .parts import Row, figure, table, text

_ENDS: dict[float, str] = {0: "min", 100: "max"}
PERCENTILES = (0, 10, 25, 50, 75, 90, 95, 99, 99.9, 99.99, 99.999, 100)


@dataclass(slots=True)
class Charts:
    """The charts of one page, in the order in which they were made."""

    data: list[dict[str, Any]] = field(default_factory=list)

    def latencies(
        self, title: str, groups: Sequence[Group], *, opened: bool = True, what: str = "reads"
    ) -> str:
        """A histogram: reads, or `what` they are, by powers of two of their latency, and what
        share of the time each power of two took. Times within a bar are estimates, which add up
        to the exact sum.
        """
        folded = [
            [{low: rest for low, *rest in layer.latencies.fold_time()} for layer in group.layers]
            for group in groups
        ]
        lows = sorted({low for group in folded for rows in group for low in rows})
        lows = _without_gaps(lows)
        layers, rows = [], [Row(units.bucket(low)) for low in lows]
        heads: list[tuple[str, list[str]]] = []
        for number, group in enumerate(groups):
            total = max(1, group.total_ns)
            columns = [[rows.get(low, [0, 0, 0])[1:] for low in lows] for rows in folded[number]]
            for layer, column in zip(group.layers, columns, strict=True):
                shares = [round(100 * time / total, 4) for _, time in column]
                layers.append(
                    _drawn(layer, group=number, counts=[n for n, _ in column], shares=shares)
                )
            for at, row in enumerate(rows):
                counts, times = zip(*(column[at] for column in columns), strict=True)
                several = len(columns) > 1
                row.cells += [units.count(n) for n in _with_sum(counts, several)]
                row.cells += [units.share(ns / total) for ns in _with_sum(times, several)]
                row.cells.append(units.duration(sum(times)))
            names = [layer.keys[0] for layer in group.layers]
            names += ["all"] if len(names) > 1 else []
            heads += [
                (f"{group.name} {what}".strip(), names),
                (f"{group.name} share of the time".strip(), names),
                (group.name, ["time"]),
            ]
        above = "more" if lows[-1] >= 1 << MAX_BITS else units.bucket(2 * lows[-1] or 1)
        edges = [*(units.bucket(low) for low in lows), above]
        content = table(
            f"{what.capitalize()} by latency, from … up to the next row", "from", heads, rows
        )
        return self._chart(
            "latencies", title, heads=heads, content=content, opened=opened, layers=layers,
            edges=edges, what=what,
        )  # fmt: skip

    def percentiles(self, title: str, layers: Sequence[Layer], *, opened: bool = True) -> str:
        """Latency against percentile, whose distance to 100 % is drawn to a logarithmic scale."""
        most = max(layer.latencies.count for layer in layers)
        shown = [p for p in PERCENTILES if p in (0, 50, 100) or _tells(most, p)]
        rows = [Row(_ENDS.get(p, f"{p:g} %")) for p in shown]
        for layer in layers:
            for p, row in zip(shown, rows, strict=True):
                row.cells.append(_percentile(layer.latencies, p))
        heads = [("", [", ".join(layer.keys) for layer in layers])]
        content = table("Percentiles of a read's latency", "percentile", heads, rows)
        drawn = [_drawn(layer, points=_curve(layer.latencies)) for layer in layers]
        end = log10(2 * most)
        places = [end if p == 100 else log10(100 / (100 - p)) for p in shown]
        return self._chart(
            "percentiles", title, heads=heads, content=content, opened=opened, layers=drawn,
            rows=places,
        )  # fmt: skip

    def lines(self, of: Lines, content: str) -> str:
        """Lines over a logarithmic x, one panel above the other; `content` is their table."""
        layers = [
            {
                "keys": [line.name],
                "colour": line.colour,
                "outlined": False,
                "panel": number,
                "points": line.points,
                "intervals": line.intervals,
            }
            for number, panel in enumerate(of.panels)
            for line in panel.lines
        ]
        panels = [
            {"name": p.name, "unit": p.unit, "marks": p.marks, "band": p.band} for p in of.panels
        ]
        heads = [(name, [column.title for column in own]) for name, own in of.table.groups()]
        return self._chart(
            "lines", of.title, heads=heads, content=content, opened=True, layers=layers,
            x=of.x, unit=of.unit, panels=panels,
        )  # fmt: skip

    def _chart(
        self,
        kind: str,
        title: str,
        *,
        heads: Sequence[tuple[str, Sequence[str]]],
        content: str,
        opened: bool,
        layers: Sequence[dict[str, Any]],
        **more: Any,
    ) -> str:
        columns = [f"{group} {name}".strip() for group, names in heads for name in names]
        drawn = {"kind": kind, "title": title, "columns": columns, "layers": layers}
        self.data.append(drawn | more)
        return figure(len(self.data) - 1, kind, title, content, opened)

    def json(self) -> str:
        """All of them, fit to stand inside a <script>: nothing in it can end that."""
        encoded = json.dumps(self.data, separators=(",", ":"))
        for sign in "<>&":
            encoded = encoded.replace(sign, f"\\u{ord(sign):04x}")
        return encoded


def _drawn(layer: Layer, **more: Any) -> dict[str, Any]:
    return {
        "keys": [text(key) for key in layer.keys],
        "colour": layer.colour,
        "outlined": layer.outlined,
    } | more


def _with_sum(numbers: Sequence[int], several: bool) -> Sequence[int]:
    return [*numbers, sum(numbers)] if several else numbers


def _without_gaps(lows: Sequence[int]) -> list[int]:
    """Every power of two from the first to the last."""
    if not lows:
        return [0]
    found = [lows[0]]
    while found[-1] < lows[-1]:
        found.append(found[-1] * 2 or 1)
    return found


def _tells(count: int, p: float) -> bool:
    """Are there reads enough for one to be beyond this percentile?"""
    return count * (100 - p) >= 100


def _percentile(latencies: Histogram, p: float) -> str:
    """Right within 3.2 %, so that two digits do; what few reads cannot tell is left out."""
    if not latencies.count or not (p in (0, 50, 100) or _tells(latencies.count, p)):
        return "-"
    ns = latencies.min_ns if p == 0 else latencies.percentile(p)
    return units.duration(ns or 0, 2)


def _curve(latencies: Histogram) -> list[tuple[float, int]]:
    """Corners of the steps: (log10 of 1 / the share above, ns), up to half a read below 100 %."""
    count, below, points = latencies.count, 0, []
    for index, n in sorted(latencies.counts.items()):
        ns = latencies.midpoint(index)
        for upto in (below, min(below + n, count - 1)):
            points.append((round(log10(count / (count - upto)), 4), ns))
        below += n
    if count:
        last = latencies.max_ns or 0
        points += [(points[-1][0], last), (round(log10(2 * count), 4), last)]
    return points
