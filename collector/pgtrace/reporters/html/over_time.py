"""The session over its time: a heat map of latencies, whose time it was, and what ran when.

Drawn here as SVG, as there is nothing to be hidden or compared: each cell tells its numbers, and
leads to what ran then. course.js lets a moment be picked in all charts at once.
"""

import math
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from ... import units
from ...model.capture import Capture, Heaviest, Interval, Operation
from ...model.time_of_day import moment
from ..sections.over_time import (
    called,
    doing,
    has_course,
    heaviest_of,
    length_of,
    measures,
    of_interval,
    seconds_of,
    texts_of,
    worst,
)
from ..sections.sums import PLURALS
from ..sections.time_parts import NAMES
from .flame import COLOURS, OTHERS
from .parts import Item, Row, escaped, table

MOST_COLUMNS = 240
_WIDTH, _LEFT, _ROW, _HEIGHT = 960, 76, 16, 140
_COLOURS = 5
_OTHERS = "everything else"
_CLASSES = COLOURS | {_OTHERS: OTHERS}
_FAINT = 0.15
_TICKS = (0.25, 0.5, 0.75)
"""Of the session's length, where its time is told, beside both ends."""
Anchors = Callable[[Heaviest], str]
"""Where on the page there is more of what one did, if there is: else ""."""


class _Column(NamedTuple):
    """Intervals that are drawn as one."""

    number: int
    """Of the first."""
    intervals: list[Interval]

    @property
    def second(self) -> float:
        return self.intervals[0].second

    @property
    def end(self) -> float:
        return self.intervals[-1].second + (self.intervals[-1].length or 0)


def over_time(capture: Capture, anchors: Anchors) -> str:
    """Return the chapter; "" of a session that is too short."""
    if not has_course(capture):
        return ""
    measured = measures(capture)
    columns = _columns(capture)
    texts = texts_of(capture)
    figures = [
        drawn
        for operation, waiting in measured
        for drawn in (
            _heat(capture, columns, operation),
            _whose(capture, columns, operation, texts, waiting=waiting),
        )
    ]
    charts = "\n".join([*figures, _spent(capture, columns)])
    numbers = _numbers(capture, measured, texts, anchors)
    # Told first: when most was waited for the device, or done
    first = worst(capture, measured[0][0], waiting=measured[0][1]) if measured else 0
    return (
        f'<div class="course" data-pieces="{_pieces(capture)}" data-first="{first}">\n'
        f"{charts}\n</div>\n{numbers}"
    )


def _pieces(capture: Capture) -> str:
    """Where each interval begins and how wide it is, for page scripts."""
    pieces = (_Column(n, [interval]) for n, interval in enumerate(capture.intervals))
    return " ".join("{:.1f},{:.1f}".format(*_place(capture, piece)) for piece in pieces)


def _columns(capture: Capture) -> list[_Column]:
    at_once = math.ceil(len(capture.intervals) / MOST_COLUMNS)
    listed = capture.intervals
    return [_Column(n, listed[n : n + at_once]) for n in range(0, len(listed), at_once)]


def _heat(capture: Capture, columns: Sequence[_Column], operation: Operation) -> str:
    """How long each took: a row for each power of two, stronger where there were more."""
    counted = [
        _powers(io.powers for i in c.intervals for io in i.io if io.operation == operation)
        for c in columns
    ]
    powers = sorted({power for counts in counted for power in counts})
    if not powers:
        return ""
    rows = range(powers[-1], powers[0] - 1, -1)
    most = max(max(counts.values(), default=0) for counts in counted)
    cells = []
    for column, counts in zip(columns, counted, strict=True):
        place, span = _x(capture, column), _span(capture, column)
        cells.append(_link(column))
        for number, power in enumerate(rows):
            if count := counts.get(power):
                shade = _FAINT + (1 - _FAINT) * math.log1p(count) / math.log1p(most)
                upto = units.bucket(1 << (power + 1))
                told = f"{span}, {_from(power)} to {upto}: {units.count(count)}"
                cells.append(
                    f'<rect {place} y="{number * _ROW}" height="{_ROW - 1}" '
                    f'fill-opacity="{shade:.2f}"><title>{escaped(told)}</title></rect>'
                )
        cells.append("</a>")
    labels = [
        f'<text x="{_LEFT - 6}" y="{number * _ROW + 12}">{escaped(_from(power))}</text>'
        for number, power in enumerate(rows)
    ]
    return _figure(
        f"{PLURALS[operation].capitalize()} by latency over time, stronger where there were more",
        [f'<g class="heat">{"".join(cells)}</g>', *labels],
        len(rows) * _ROW,
        capture,
    )


def _whose(
    capture: Capture,
    columns: Sequence[_Column],
    operation: Operation,
    texts: dict[object, str],
    *,
    waiting: bool,
) -> str:
    """Whose time it was: what took most of it, and the rest."""
    times: Counter[str] = Counter()
    of_columns: list[Counter[str]] = []
    for column in columns:
        here: Counter[str] = Counter()
        for interval in column.intervals:
            io = of_interval(interval, operation, waiting=waiting)
            here[_OTHERS] += sum(each.total_ns for each in io)
            for one in heaviest_of(interval, operation):
                took = length_of(one, waiting=waiting)
                here[called(one, texts)] += took
                here[_OTHERS] -= took
        of_columns.append(here)
        times.update({name: ns for name, ns in here.items() if name != _OTHERS})
    names = [name for name, ns in times.most_common(_COLOURS) if ns]
    colours = {name: f"s{number}" for number, name in enumerate(names)}
    parts = []
    for here in of_columns:
        rest = here.total() - sum(here[name] for name in names)
        parts.append([*((name, here[name]) for name in names), (_OTHERS, rest)])
    title = f"{doing(operation, waiting=waiting).capitalize()} over time, by who did"
    return _stacked(capture, columns, parts, [*colours.items(), (_OTHERS, OTHERS)], title)


def _spent(capture: Capture, columns: Sequence[_Column]) -> str:
    """What all processes together did, and waited for; "" where that was not measured."""
    if not any(interval.times for interval in capture.intervals):
        return ""
    parts = []
    for column in columns:
        sums = _classes(column.intervals)
        parts.append([(name, sums[name]) for name in _CLASSES])
    title = "Where the time of all processes went, but for waits for work"
    return _stacked(capture, columns, parts, [*_CLASSES.items()], title)


def _classes(intervals: Iterable[Interval]) -> Counter[str]:
    found: Counter[str] = Counter()
    for each in (each for interval in intervals for each in interval.times):
        name = NAMES.get(each.kind) or each.wait_event_type or _OTHERS
        found[name if name in COLOURS else _OTHERS] += each.total_ns
    return found


def _stacked(
    capture: Capture,
    columns: Sequence[_Column],
    parts: Sequence[Sequence[tuple[str, int]]],
    colours: Sequence[tuple[str, str]],
    title: str,
) -> str:
    """Nanoseconds of each second, of each column one upon the other; "" if there are none."""
    most = max(
        _rate(column, sum(ns for _, ns in here))
        for column, here in zip(columns, parts, strict=True)
    )
    if not most:
        return ""
    cells, of = [], dict(colours)
    for column, here in zip(columns, parts, strict=True):
        below, place, span = 0.0, _x(capture, column), _span(capture, column)
        cells.append(_link(column))
        for name, ns in here:
            height = _HEIGHT * _rate(column, ns) / most
            if height < 0.1:
                continue
            below += height
            told = f"{span}: {units.duration(ns)}, {name}"
            cells.append(
                f'<rect class="{of[name]}" {place} y="{_HEIGHT - below:.1f}" '
                f'height="{height:.1f}"><title>{escaped(told)}</title></rect>'
            )
        cells.append("</a>")
    label = f'<text x="{_LEFT - 6}" y="12">{escaped(units.duration(most))}/s</text>'
    legend = "".join(
        f'<li><svg width="12" height="12" aria-hidden="true"><rect class="{colour}" width="12" '
        f'height="12"/></svg> {escaped(name)}</li>'
        for name, colour in colours
    )
    return _figure(title, [*cells, label], _HEIGHT, capture, f'<ul class="keys">{legend}</ul>')


def _numbers(
    capture: Capture,
    measured: Sequence[tuple[Operation, bool]],
    texts: dict[object, str],
    anchors: Anchors,
) -> str:
    """Interval by interval."""
    rows = []
    classes = any(interval.times for interval in capture.intervals)
    for number, interval in enumerate(capture.intervals):
        cells: list[str | list[Item]] = [units.duration((interval.length or 0) * 1e9)]
        for operation, waiting in measured:
            cells += _done(interval, operation, waiting=waiting)
        ran = [
            Item(_told(one, texts, several=len(measured) > 1), anchors(one))
            for operation, waiting in measured
            for one in heaviest_of(interval, operation)
        ]
        sums = _classes([interval])
        cells += [ran or "-", *(units.duration(sums[name]) for name in _CLASSES if classes)]
        where = f"interval-{number}"
        rows.append(Row(moment(capture, interval.second), cells, anchor=where))
    heads: list[tuple[str, list[str]]] = [("", ["length"])]
    for operation, waiting in measured:
        sized = ["bytes"] if operation != "fsync" else []
        device = ["device"] if waiting else []
        heads.append((PLURALS[operation], ["calls", *sized, "time", *device]))
    heads.append(("", ["what took longest"]))
    heads += [("where the time went", [*_CLASSES])] if classes else []
    drawn = table("Interval by interval", "from", heads, rows, words=["what took longest"])
    return f"<details><summary>The numbers of these charts</summary>\n{drawn}</details>"


def _done(interval: Interval, operation: Operation, *, waiting: bool) -> list[str]:
    """How much of one operation."""
    every = of_interval(interval, operation, waiting=False)
    cells = [units.count(sum(each.count for each in every))]
    if operation != "fsync":
        cells.append(units.size(sum(each.bytes for each in every)))
    cells.append(units.duration(sum(each.total_ns for each in every)))
    if waiting:
        device = of_interval(interval, operation, waiting=True)
        cells.append(units.duration(sum(each.total_ns for each in device)))
    return cells


def _told(one: Heaviest, texts: dict[object, str], *, several: bool) -> str:
    what = f"{doing(one.operation, waiting=False)}: " if several else ""
    device = f", {units.duration(one.device_ns)} of it waiting for the device"
    return (
        f"{what}{called(one, texts)}: {units.duration(one.total_ns)}"
        f"{device if one.device_ns else ''}"
    )


def _link(column: _Column) -> str:
    """To what ran then. Not for the keyboard, which has the slider above, or without scripts the
    links of the table."""
    return f'<a href="#interval-{column.number}" tabindex="-1">'


def _powers(every: Iterable[dict[int, int]]) -> Counter[int]:
    found: Counter[int] = Counter()
    for powers in every:
        found.update(powers)
    return found


def _rate(column: _Column, ns: int) -> float:
    return ns / sum(map(seconds_of, column.intervals))


def _from(power: int) -> str:
    return units.bucket(1 << power)


def _span(capture: Capture, column: _Column) -> str:
    return f"{moment(capture, column.second)} to {moment(capture, column.end)}"


def _x(capture: Capture, column: _Column) -> str:
    left, width = _place(capture, column)
    return f'x="{left:.1f}" width="{width:.1f}"'


def _place(capture: Capture, column: _Column) -> tuple[float, float]:
    """Where it begins in a chart, and how wide it is."""
    scale = (_WIDTH - _LEFT) / max(capture.duration_s, 1e-9)
    width = max((column.end - column.second) * scale - 0.5, 0.5)
    return _LEFT + column.second * scale, width


def _figure(
    title: str, drawn: Sequence[str], height: int, capture: Capture, below: str = ""
) -> str:
    began, ended = moment(capture, 0), moment(capture, capture.duration_s)
    ticks = "".join(
        f'<text class="tick" x="{_LEFT + share * (_WIDTH - _LEFT):.1f}" y="{height + 16}">'
        f"{moment(capture, share * capture.duration_s)}</text>"
        for share in _TICKS
    )
    times = (
        f'<text class="first" x="{_LEFT}" y="{height + 16}">{began} UTC</text>{ticks}'
        f'<text x="{_WIDTH}" y="{height + 16}">{ended}</text>'
    )
    return (
        f'<figure class="time"><figcaption>{escaped(title)}</figcaption>\n'
        f'<div class="wide" tabindex="0" role="group" aria-label="{escaped(title)}">'
        f'<svg role="img" aria-label="{escaped(title)}; the numbers are in the table below" '
        f'viewBox="0 0 {_WIDTH} {height + 20}"><g aria-hidden="true">{"".join(drawn)}{times}</g>'
        f"</svg></div>{below}</figure>"
    )
