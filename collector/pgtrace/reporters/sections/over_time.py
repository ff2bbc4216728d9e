"""When it was: the session from its start to its end, its worst moment, and who pushed whom out of
the page cache.
"""

from collections import Counter
from collections.abc import Sequence
from itertools import islice, pairwise
from typing import NamedTuple

from ... import units
from ...model.capture import Capture, Heaviest, Interval, IntervalIo, Operation
from ...model.time_of_day import moment
from ...terminal_text import shown
from ..document import Block, Over, Paragraph
from .answer import short

LEAST_S = 4.0
"""A session that is shorter has no course of time to be shown."""
SHORTEST_S = 0.1
_ENOUGH = 50
"""Reads by others that waited while one read most, for that to be told."""
_NOTABLE = 0.01
"""Share of the time that others waited then, at least."""
_TIMES = 3
"""So much more than at other times."""
_MUCH = 100 << 20
"""Bytes that one reads, at least, to be said to have pushed others out."""
_COURSES = 2
"""That text draws."""
_LEAST_OF_MOST = 0.1
"""Of the longest, what another is drawn from on."""
_BUSY = 0.1
"""Share of its busiest interval from which on one is said to read."""
_SUSPECTS = 5
"""Of who read most in a single interval, so many may be said to have pushed others out."""


def has_course(capture: Capture, *, least_s: float = LEAST_S) -> bool:
    """Whether it lasted so long, and each second in which something was done was kept."""
    kept = bool(capture.intervals) and all(i.length for i in capture.intervals)
    return kept and capture.duration_s >= least_s


def over_time(capture: Capture) -> list[Block]:
    """Return what is said of it; nothing of a session that is too short."""
    if not has_course(capture):
        return []
    texts = texts_of(capture)
    courses = [
        block
        for operation, waiting in _longest(capture)
        for block in _course(capture, operation, texts, waiting=waiting)
    ]
    return [*courses, *map(Paragraph, _pushed_out(capture, texts))]


def seconds_of(interval: Interval) -> float:
    """How long it was, to divide by: the last may be too short to say anything of a second."""
    return max(interval.length or 0, SHORTEST_S)


def of_interval(interval: Interval, operation: Operation, *, waiting: bool) -> list[IntervalIo]:
    """What of it is drawn."""
    return [
        io
        for io in interval.io
        if io.operation == operation and (io.source == "device" or not waiting)
    ]


def called(one: Heaviest, texts: dict[object, str]) -> str:
    """Whose that was, and of what."""
    told = one.query_id or one.text_hash
    text = texts.get(told) if told else None
    who = short(text) if text else one.backend_type or "a process"
    if one.query_id is None and one.text_hash is None:
        who = f"{who}, outside queries" if who == "client backend" else who
    return f"{who} ({one.kind if one.kind == 'wal' else one.relation or one.kind})"


def length_of(one: Heaviest, *, waiting: bool) -> int:
    """Nanoseconds of what is drawn."""
    return one.device_ns if waiting else one.total_ns


def heaviest_of(interval: Interval, operation: Operation) -> list[Heaviest]:
    """Of one operation, what took longest in it."""
    return [one for one in interval.heaviest if one.operation == operation]


def texts_of(capture: Capture) -> dict[object, str]:
    """The texts of statements that intervals name, by what tells them there."""
    wanted = {one.query_id or one.text_hash for i in capture.intervals for one in i.heaviest}
    found: dict[object, str] = {}
    for query in (query for backend in capture.backends for query in backend.queries):
        told = query.query_id or query.text_hash
        if told in wanted and told not in found:
            found[told] = shown(query.text, cut=query.text_cut)
    return found


def measures(capture: Capture) -> list[tuple[Operation, bool]]:
    """What has a course: each operation of which there was any, and whether that is of its waiting
    for the device: of reads it is where anybody did wait. What a write or an fsync waits for is
    not known, and all of it is time that somebody waited. What took longest comes first.
    """
    found: dict[Operation, bool] = {}
    for io in (io for interval in capture.intervals for io in interval.io if io.total_ns):
        device = io.operation == "read" and io.source == "device"
        found[io.operation] = found.get(io.operation, False) or device
    asked = [(each, found[each]) for each in capture.probes.operations if each in found]
    return sorted(asked, key=lambda each: -_whole(capture, each))


def _longest(capture: Capture) -> list[tuple[Operation, bool]]:
    """Those of which text has room for the course, the longest first; not what was little beside
    it."""
    listed = measures(capture)[:_COURSES]
    return [
        each
        for each in listed
        if _whole(capture, each) >= _LEAST_OF_MOST * _whole(capture, listed[0])
    ]


def _whole(capture: Capture, measured: tuple[Operation, bool]) -> int:
    operation, waiting = measured
    return sum(_ns(interval, operation, waiting=waiting) for interval in capture.intervals)


def _ns(interval: Interval, operation: Operation, *, waiting: bool) -> int:
    return sum(io.total_ns for io in of_interval(interval, operation, waiting=waiting))


def _rate(interval: Interval, operation: Operation, *, waiting: bool) -> float:
    return _ns(interval, operation, waiting=waiting) / seconds_of(interval)


def _course(
    capture: Capture, operation: Operation, texts: dict[object, str], *, waiting: bool
) -> list[Block]:
    most = capture.intervals[worst(capture, operation, waiting=waiting)]
    return [
        _drawn(capture, operation, waiting=waiting),
        Paragraph(_worst(capture, most, operation, texts, waiting=waiting)),
    ]


def worst(capture: Capture, operation: Operation, *, waiting: bool) -> int:
    """In which interval it took longest, for its length; with `waiting`, was waited for longest."""
    rates = [_rate(each, operation, waiting=waiting) for each in capture.intervals]
    return rates.index(max(rates))


def _drawn(capture: Capture, operation: Operation, *, waiting: bool) -> Over:
    what = doing(operation, waiting=waiting).capitalize()
    several = len(capture.backends) > 1
    return Over(
        f"{what} each second, of all processes together" if several else f"{what} each second",
        "ns",
        [
            (i.second, i.length or 0.0, _rate(i, operation, waiting=waiting))
            for i in capture.intervals
        ],
        capture.duration_s,
        moment(capture, 0),
        moment(capture, capture.duration_s),
    )


def doing(operation: Operation, *, waiting: bool) -> str:
    """What is drawn, in a word or two."""
    what = {"read": "reading", "write": "writing", "fsync": "fsync"}[operation]
    return "waiting for the device" if waiting else what


def _worst(
    capture: Capture,
    worst: Interval,
    operation: Operation,
    texts: dict[object, str],
    *,
    waiting: bool,
) -> str:
    took = _ns(worst, operation, waiting=waiting)
    said = (
        f"Most at {moment(capture, worst.second)}: {units.duration(took)} of "
        f"{doing(operation, waiting=waiting)} in {units.duration((worst.length or 0) * 1e9)}"
    )
    own = [(length_of(one, waiting=waiting), one) for one in heaviest_of(worst, operation)]
    most, one = max(own, key=lambda each: each[0], default=(0, None))
    if not one or not most:
        return f"{said}."
    return f"{said}, {units.percent(most, took)} of it for {called(one, texts)}."


def _pushed_out(capture: Capture, texts: dict[object, str]) -> list[str]:
    """While one reads very much, others may wait for what was in the page cache before. One process
    alone has no others: its statements come one after the other.
    """
    if sum(backend.merged or 1 for backend in capture.backends) < 2:
        return []
    # Who reads most of all may well be one of those that suffer
    found = (_pushed_out_by(whose, capture, texts) for whose in _suspects(capture))
    return [*islice(filter(None, found), 1)]


def _pushed_out_by(whose: "_Whose", capture: Capture, texts: dict[object, str]) -> str:
    """What is said of it, if it is the one."""
    sizes = [sum(one.bytes for one in _own(i, whose)) for i in capture.intervals]
    if sum(sizes) < _MUCH:
        return ""
    busy = [size > _BUSY * max(sizes) for size in sizes]
    felt = _felt(capture.intervals, busy)
    then = _others(capture, whose, felt)
    # In much of the rest nothing may have been done, which is in no interval
    rest_s = max(capture.duration_s - then.seconds, 0.0)
    otherwise = _others(capture, whose, [not each for each in felt])._replace(seconds=rest_s)
    if not otherwise.seconds or then.waits < _ENOUGH or then.rate < _NOTABLE * 1e9:
        return ""
    if then.rate < _TIMES * otherwise.rate:
        return ""
    spans = [i for i, reads in zip(capture.intervals, busy, strict=True) if reads]
    some = next(iter(_own(spans[0], whose)))
    end = spans[-1].second + (spans[-1].length or 0)
    return (
        f"While {called(some, texts)} read {units.size(sum(sizes))}, between "
        f"{moment(capture, spans[0].second)} and {moment(capture, end)}, and just after it, all "
        f"others waited for the device for {units.duration(then.rate)} each second, otherwise for "
        f"{units.duration(otherwise.rate)}."
    )


def _felt(intervals: Sequence[Interval], busy: Sequence[bool]) -> list[bool]:
    """Also the next: what a scan of a moment pushes out at an interval's end is missed there. But
    not what comes after a pause: intervals in which nothing was done are not in the list.
    """
    found = list(busy)
    for i, (one, after) in enumerate(pairwise(intervals)):
        length = one.length or 0
        found[i + 1] |= busy[i] and after.second <= one.second + 2 * length
    return found


class _Others(NamedTuple):
    """Reads of all but one that waited for the device."""

    waits: int
    total_ns: int
    seconds: float

    @property
    def rate(self) -> float:
        """Nanoseconds of waiting in a second."""
        return self.total_ns / max(self.seconds, SHORTEST_S)


def _others(capture: Capture, whose: "_Whose", chosen: Sequence[bool]) -> _Others:
    waits = total = 0
    seconds = 0.0
    for interval, counts in zip(capture.intervals, chosen, strict=True):
        if counts:
            own = _own(interval, whose)
            io = of_interval(interval, "read", waiting=True)
            waits += sum(each.count for each in io) - sum(one.device_count for one in own)
            total += sum(each.total_ns for each in io) - sum(one.device_ns for one in own)
            seconds += interval.length or 0
    return _Others(max(waits, 0), max(total, 0), seconds)


_Whose = tuple[int | None, str | None, str | None]


def _whose(one: Heaviest) -> _Whose:
    return one.query_id, one.text_hash, one.backend_type


def _own(interval: Interval, whose: _Whose) -> list[Heaviest]:
    return [one for one in heaviest_of(interval, "read") if _whose(one) == whose]


def _suspects(capture: Capture) -> list[_Whose]:
    """Those that read most in a single interval, first who read most."""
    most: dict[_Whose, int] = {}
    for interval in capture.intervals:
        sizes = Counter[_Whose]()
        for one in heaviest_of(interval, "read"):
            sizes[_whose(one)] += one.bytes
        for whose, size in sizes.items():
            most[whose] = max(size, most.get(whose, 0))
    return sorted(most, key=lambda each: most[each], reverse=True)[:_SUSPECTS]
