"""A part of a session: what was done from one time of day to another, and what took longest."""

from collections.abc import Sequence
from typing import NamedTuple

from ... import units
from ...errors import UsageError
from ...model.capture import Capture, Heaviest, Interval, Operation
from ...model.time_of_day import is_time, moment, second_of
from ..document import Column, Paragraph, Section, Table, Value
from ..view import Choice
from .over_time import called, has_course, texts_of
from .sums import PLURALS, SOURCES

_ALL = 0.95
"""Share of a span in which something was done, from which on nobody is told that it was not all."""


class Span(NamedTuple):
    """Times of day as they were typed; None: the start, or the end."""

    since: str | None
    until: str | None


def check(span: Span) -> None:
    """Raise UsageError if a time is none."""
    for option, text in zip(("--since", "--until"), span, strict=True):
        if text is not None and not is_time(text):
            raise UsageError(f"{option} {text} is no time of day: say it as in {option} 14:05:30")


def sections(capture: Capture, span: Span, choice: Choice) -> list[Section]:
    """Return what was done in it.

    Raises UsageError if the session was not then, or its file has no seconds.
    """
    first, end = _seconds(capture, span)
    chosen = [i for i in capture.intervals if i.second < end and i.second + (i.length or 0) > first]
    if not chosen:
        return [Section("span", [Paragraph("Nothing was read, written or synced then.")])]
    ends = [min(i.second + (i.length or 0), capture.duration_s) for i in chosen]
    seconds = sum(max(end - i.second, 0) for i, end in zip(chosen, ends, strict=True))
    length = ends[-1] - chosen[0].second
    busy = f", in {units.duration(1e9 * seconds)} of it" if seconds < _ALL * length else ""
    said = (
        f"From {moment(capture, chosen[0].second)} to {moment(capture, ends[-1])}, "
        f"{units.duration(1e9 * length)}{busy}:"
    )
    kept = "Of each second the five that took longest are known; all else is in the sums alone."
    return [
        Section("span", [Paragraph(said), _sums(chosen)]),
        Section("heaviest", [_heaviest(capture, chosen, choice), Paragraph(kept)]),
    ]


def _seconds(capture: Capture, span: Span) -> tuple[float, float]:
    if not has_course(capture, least_s=0):
        raise UsageError("the capture was not kept second by second: leave --since and --until")
    first = 0.0 if span.since is None else _second(capture, span.since)
    end = capture.duration_s if span.until is None else _second(capture, span.until)
    if first >= capture.duration_s or end <= 0 or first >= end:
        raise UsageError(
            f"the capture lasted from {moment(capture, 0)} to "
            f"{moment(capture, capture.duration_s)} (UTC): --since and --until lie within that, "
            "one after the other"
        )
    return first, end


def _second(capture: Capture, text: str) -> float:
    try:
        return second_of(capture, text)
    except ValueError as error:
        raise UsageError(str(error)) from error


def _sums(chosen: Sequence[Interval]) -> Table:
    sums: dict[tuple[Operation, str], list[int]] = {}
    for io in (io for interval in chosen for io in interval.io):
        own = sums.setdefault((io.operation, io.source), [0, 0, 0])
        for at, number in enumerate((io.total_ns, io.count, io.bytes)):
            own[at] += number
    whole = sum(own[0] for own in sums.values())
    columns = [Column("time", "ns"), Column("share", "share"), Column("calls"),
               Column("bytes", "bytes")]  # fmt: skip
    rows: list[tuple[str, list[Value]]] = [
        (_named(operation, source), [took, took / max(1, whole), count, _bytes(operation, size)])
        for (operation, source), (took, count, size) in sorted(
            sums.items(), key=lambda item: -item[1][0]
        )
    ]
    return Table("What was done", "what, served where", columns, rows)


def _bytes(operation: Operation, size: int) -> Value:
    """Of an fsync there are none: nobody knows how many it had written."""
    return "" if operation == "fsync" else size


def _named(operation: Operation, source: str) -> str:
    plural = PLURALS[operation]
    if source == "unknown":
        return plural
    return f"{plural}, {SOURCES.get(source, source)}"


def _heaviest(capture: Capture, chosen: Sequence[Interval], choice: Choice) -> Table:
    """What writes and fsyncs waited for is not known; nor, on some file systems, what reads did."""
    texts = texts_of(capture)
    known = any(
        io.operation == "read" and io.source != "unknown" for each in chosen for io in each.io
    )
    found: dict[str, list[Heaviest]] = {}
    for one in (one for interval in chosen for one in interval.heaviest):
        found.setdefault(f"{PLURALS[one.operation]}, {called(one, texts)}", []).append(one)
    rows: list[tuple[str, list[Value]]] = [
        (
            name,
            [
                sum(one.total_ns for one in own),
                sum(one.device_ns for one in own) if known and own[0].operation == "read" else None,
                sum(one.count for one in own),
                _bytes(own[0].operation, sum(one.bytes for one in own)),
            ],
        )
        for name, own in found.items()
    ]
    rows.sort(key=lambda row: -(row[1][0] or 0))  # type: ignore[operator]
    columns = [Column("time", "ns"), Column("device", "ns"), Column("calls"),
               Column("bytes", "bytes")]  # fmt: skip
    return Table("What took longest", "what, for whom", columns, rows[: choice.most])
