"""Which statements changed: counted, not estimated, and so said only beyond what chance makes."""

from collections import defaultdict
from math import log, sqrt

from ... import units
from ...comparing.comparison import Access, Comparison, StatementChange
from .answer import ended, short
from .comparison_words import listed

_NOTABLE = 0.1
"""Of the time of reading on one side, the part that a statement has to have to be told of."""
_MOST = 3
_LEAST_CALLS = 3
_MUCH = 0.5
"""Of a change, the part that one statement has to have for it to be its."""
_ANOTHER_WAY = 0.5
"""Of its blocks, so many that are read in another order are of another plan, most likely."""
_PATTERNS = {"sequential": "in sequence", "near": "nearly in sequence", "random": "at random"}


def statements(of: Comparison) -> list[str]:
    """Those that take up much of the time of reading, and changed."""
    a_whole = sum(each.a_ns_per_s for each in of.statements)
    b_whole = sum(each.b_ns_per_s for each in of.statements)
    said = []
    for each in of.statements:
        share = max(each.a_ns_per_s / (a_whole or 1), each.b_ns_per_s / (b_whole or 1))
        if share >= _NOTABLE:
            said += _change(of, each)
    return said[:_MOST]


def _change(of: Comparison, each: StatementChange) -> list[str]:
    name, text = _name(each), ended(short(each.text))
    if not each.a_ns_per_s or not each.b_ns_per_s:
        return [f"{name} read in {'B' if each.b_ns_per_s else 'A'} alone: {text}"]
    way = _way(each)
    blocks = _counted(of, each, each.a_blocks_per_call, each.b_blocks_per_call)
    calls = _counted(of, each, each.a_calls_per_s, each.b_calls_per_s)
    said = []
    if blocks:
        ways = f", and in another order: {way}" if way else ""
        said.append(
            f"{name} reads {units.number(blocks)} times as many blocks a call "
            f"({units.number(each.b_blocks_per_call or 0)}, in A "
            f"{units.number(each.a_blocks_per_call or 0)}){ways}: {_cause(way)}. It is {text}"
        )
    elif way:
        said.append(f"{name} reads in another order: {way}: {_cause(way)}. It is {text}")
    rate = next((f for f in of.findings if f.metric == "blocks_per_second"), None)
    moved = rate is not None and rate.outcome in ("more", "less")
    if calls and moved and (each.part_of_change or 0) > _MUCH:
        said.append(
            f"{name} was called {units.number(calls)} times as often "
            f"({units.number(each.b_calls_per_s or 0)} a second, in A "
            f"{units.number(each.a_calls_per_s or 0)}): {text}"
        )
    return said


def _name(each: StatementChange) -> str:
    """By its id, if that is one on both sides."""
    return "One statement" if each.query_id is None else f"Statement {each.query_id}"


def _cause(way: str) -> str:
    if way:
        return "its plan has probably changed"
    return "its plan, its data, or what shared_buffers hold of them has changed"


def _counted(
    of: Comparison, each: StatementChange, a: float | None, b: float | None
) -> float | None:
    """B's by A's, if that is beyond the margin, and beyond what chance makes of so many calls, did
    they differ among themselves by as much as they read; None if not.
    """
    calls = [
        (each.a_calls_per_s or 0) * of.a.seconds,
        (each.b_calls_per_s or 0) * of.b.seconds,
    ]
    if not a or not b or min(calls) < _LEAST_CALLS:
        return None
    chance = 3 * sqrt(sum(1 / number for number in calls))
    return b / a if abs(log(b / a)) > max(chance, log(of.margin)) else None


def _way(each: StatementChange) -> str:
    """In which order it reads now, if most of that is another; "" if not."""
    shares: defaultdict[str, list[float]] = defaultdict(lambda: [0.0, 0.0])
    for access in each.reads:
        if access.pattern in _PATTERNS:
            shares[access.pattern][0] += access.a
            shares[access.pattern][1] += access.b
    moved = max(shares.items(), key=lambda of: of[1][1] - of[1][0], default=None)
    if moved is None or moved[1][1] - moved[1][0] < _ANOTHER_WAY:
        return ""
    a, b = moved[1]
    words = [f"{units.share(b)} {_PATTERNS[moved[0]]}, in A {units.share(a)}"]
    return listed([*words, *_objects(each.reads)])


def _objects(reads: list[Access]) -> list[str]:
    """Relations that it reads on one side alone, if their names are known."""
    shares: defaultdict[tuple[str, str], list[float]] = defaultdict(lambda: [0.0, 0.0])
    for access in reads:
        if access.relation:
            shares[access.kind, access.relation][0] += access.a
            shares[access.kind, access.relation][1] += access.b
    return [
        f"{kind} {relation} {'no more' if a else 'in B alone'}"
        for (kind, relation), (a, b) in shares.items()
        if (not a or not b) and max(a, b) >= _NOTABLE
    ]
