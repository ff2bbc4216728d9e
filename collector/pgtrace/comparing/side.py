"""One side of a comparison: what was done there, in pieces and as a whole."""

from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from ..model.capture import (
    Capture,
    Heaviest,
    Interval,
    Io,
    Kind,
    Operation,
    Pattern,
    Source,
    of_operation,
)
from ..model.histogram import Histogram
from ..stats.batch_means import Sum
from ..terminal_text import without_end
from . import selection as selections
from .pieces import Piece, Stratum
from .selection import Selection, SelectionError

_WHOLE = 0.95
"""Share of a statement's time that intervals have to tell of, for them to be its series."""
_MOST_GAPS = 1000
"""Pieces that stand for one time in which nothing was done, whatever a file says of its length."""

Powers = dict[tuple[Operation, Source], dict[int, int]]
Reads = tuple[Pattern, Kind, str | None]
"""In which order, of what kind of file, and of which relation, if that is known."""


@dataclass(slots=True)
class Statement:
    """What calls of one did together, in all backends."""

    text: str
    query_ids: set[int] = field(default_factory=set)
    calls: int | None = None
    """None: not measured, or not of this part."""
    blocks: int = 0
    total_ns: int = 0
    reads: Counter[Reads] = field(default_factory=Counter)
    """Blocks, by how they were read, and of what."""


@dataclass(slots=True)
class Side:
    """A capture, or a part of it."""

    capture: Capture
    selection: Selection
    seconds: float
    pieces: list[Piece] = field(default_factory=list)
    """None of a part whose course is not known."""
    no_pieces: str | None = None
    """Why."""
    powers: list[Powers] = field(default_factory=list)
    """Of each piece of the whole how long each took, coarsely; none of other parts."""
    io: list[Io] = field(default_factory=list)
    """None of an interval: of that only pieces are known."""
    counts: dict[tuple[Operation, Source], dict[int, int]] = field(default_factory=dict)
    """The same, how many by bucket."""
    statements: dict[object, Statement] = field(default_factory=dict)
    series: dict[str, list[Piece]] = field(default_factory=dict)
    """By text, of statements of which nearly all is known by interval."""


def side_of(capture: Capture, selection: Selection | None = None) -> Side:
    """Raises SelectionError if the capture has nothing of what is selected."""
    selection = selection or Selection()
    chosen = selections.intervals(capture, selection)
    first, last = selections.span(capture, selection)
    side = Side(capture, selection, last - first)
    if selection.interval is None:
        side.io = _io(capture, selection)
        side.counts = _counts(side.io)
        side.statements = _statements(capture, selection)
        _check(side)
    timed = _with_gaps(chosen, first, last)
    if _is_whole(selection):
        side.pieces = [_piece(each, length, capture, selection) for each, length in timed]
        if selection.tablespace is None:
            side.powers = [_powers(each) for each, _ in timed]
    else:
        side.no_pieces = f"the course of one {_kind(selection)} is not kept"
        _take_series(side, timed)
    if selection.interval is None and not side.no_pieces:
        side.series = _series(side, timed)
    return side


def _check(side: Side) -> None:
    if side.selection != Selection() and not side.io:
        raise SelectionError(f"the capture has nothing of {side.selection.words()}")


def _is_whole(selection: Selection) -> bool:
    """Whether it is of everybody. Backends that ended, added up, have the pid 0."""
    parts = selection.backend, selection.statement, selection.relation
    return all(part is None for part in parts)


def _kind(selection: Selection) -> str:
    if selection.backend is not None:
        return "backend"
    return "relation" if selection.relation else "statement"


def _io(capture: Capture, selection: Selection) -> list[Io]:
    found: list[Io] = []
    for backend in capture.backends:
        if selection.backend not in (None, backend.pid):
            continue
        if selection.statement is None:
            found += filter(selection.has, backend.io)
        else:
            for query in filter(selection.calls, backend.queries):
                found += filter(selection.has, query.io)
    return found


def _counts(io: Sequence[Io]) -> dict[tuple[Operation, Source], dict[int, int]]:
    of: defaultdict[tuple[Operation, Source], list[Io]] = defaultdict(list)
    for each in io:
        of[each.operation, each.source].append(each)
    return {told: Histogram.of(several).counts for told, several in of.items()}


def _statements(capture: Capture, selection: Selection) -> dict[object, Statement]:
    found: dict[object, Statement] = {}
    for backend in capture.backends:
        if selection.backend not in (None, backend.pid):
            continue
        for query in filter(selection.calls, backend.queries):
            # Files of before kept the semicolon at the end where pg_stat_statements told no text
            text = without_end(query.text or "")
            # By its text, which is the same in another session, and on another server; its id may
            # not be
            key = text or query.query_id or query.text_hash
            each = found.setdefault(key, Statement(text or "(text not known)"))
            if query.query_id is not None:
                each.query_ids.add(query.query_id)
            if query.calls is not None:
                each.calls = (each.calls or 0) + query.calls
            for io in filter(selection.has, of_operation(query.io)):
                each.blocks += io.blocks
                each.total_ns += io.total_ns
                each.reads[io.pattern, io.kind, io.relation] += io.blocks
    if selection.backend is not None:
        return found  # what pg_stat_statements counts are calls of the whole server
    executed = {each.query_id: each.calls for each in capture.executions}
    for each in found.values():
        counted = [executed[number] for number in each.query_ids if number in executed]
        if each.calls is None and counted:
            each.calls = sum(counted)
    return found


def _with_gaps(
    chosen: Sequence[Interval], first: float, last: float
) -> list[tuple[Interval, float]]:
    """With intervals in which nothing was done, each with its length in seconds."""
    if not chosen or any(each.length is None for each in chosen):
        return [(each, 0.0) for each in chosen]
    usual = sorted(each.length or 0 for each in chosen)[len(chosen) // 2] or 1.0
    found: list[tuple[Interval, float]] = []
    at = first

    def fill(until: float) -> None:
        nonlocal at
        number = min(round(max(until - at, 0) / usual), _MOST_GAPS)
        length = (until - at) / number if number else 0.0
        found.extend((Interval(at + n * length, [], length), length) for n in range(number))

    for each in chosen:
        fill(each.second)
        found.append((each, each.length or 0.0))
        at = max(at, each.second + (each.length or 0.0))
    fill(last)
    return found


def _piece(interval: Interval, length: float, capture: Capture, selection: Selection) -> Piece:
    sums: defaultdict[Stratum, Sum] = defaultdict(Sum)
    known: defaultdict[Source, Sum] = defaultdict(Sum)
    for cost in interval.costs:
        each = Sum(cost.blocks, cost.reads, cost.total_ns)
        known[cost.source] = known[cost.source].plus(each)
        if selection.tablespace in (None, cost.tablespace):
            key = Stratum(
                "read", cost.source, cost.pattern, cost.size, cost.tablespace, cost.performed_by
            )
            sums[key] = sums[key].plus(each)
    for io in interval.io if selection.tablespace is None else ():
        blocks = io.count if io.operation == "fsync" else -(-io.bytes // capture.server.block_size)
        each = Sum(blocks, io.count, io.total_ns)
        if io.operation == "read":  # those of other files than relations
            less = known[io.source]
            each = Sum(*(max(a - b, 0) for a, b in zip(each, less, strict=True)))
        if each.reads:
            key = Stratum(io.operation, io.source)
            sums[key] = sums[key].plus(each)
    return Piece(length, dict(sums))


def _powers(interval: Interval) -> Powers:
    return {(io.operation, io.source): io.powers for io in interval.io}


def _take_series(side: Side, timed: Sequence[tuple[Interval, float]]) -> None:
    """What the heaviest of each interval tell of a statement, or a relation, if that is nearly all
    that it did."""
    chosen = side.selection
    if chosen.interval or chosen.backend is not None or (chosen.statement and chosen.relation):
        return
    whole = sum(io.total_ns for io in side.io if io.operation == "read")
    ids = {number for each in side.statements.values() for number in each.query_ids}

    def wanted(one: Heaviest) -> bool:
        if chosen.tablespace not in {None, one.tablespace}:
            return False
        if chosen.relation:
            return one.relation == chosen.relation
        return one.query_id is not None and one.query_id in ids

    pieces = _of_heaviest(side.capture, timed, wanted)
    if whole and sum(piece.whole.total_ns for piece in pieces) >= _WHOLE * whole:
        side.pieces, side.no_pieces = pieces, None


def _series(side: Side, timed: Sequence[tuple[Interval, float]]) -> dict[str, list[Piece]]:
    found = {}
    named = {one.query_id for each, _ in timed for one in each.heaviest} - {None}
    for key, statement in side.statements.items():
        if key != statement.text:  # nobody knows whether it is the same on the other side
            continue
        if not statement.query_ids & named or not statement.total_ns:
            continue
        ids = statement.query_ids
        pieces = _of_heaviest(side.capture, timed, lambda one, ids=ids: one.query_id in ids)  # type: ignore[misc]
        if sum(piece.whole.total_ns for piece in pieces) >= _WHOLE * statement.total_ns:
            found[statement.text] = pieces
    return found


def _of_heaviest(
    capture: Capture,
    timed: Sequence[tuple[Interval, float]],
    wanted: Callable[[Heaviest], bool],
) -> list[Piece]:
    pieces = []
    for interval, length in timed:
        total = Sum()
        for one in interval.heaviest:
            if one.operation == "read" and wanted(one):
                blocks = -(-one.bytes // capture.server.block_size)
                total = total.plus(Sum(blocks, one.count, one.total_ns))
        sums = {Stratum("read", "unknown", statement=""): total} if total.reads else {}
        pieces.append(Piece(length, sums))
    return pieces
