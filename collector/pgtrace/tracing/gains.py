"""What was counted between two looks at an engine's sums, and for whom.

Sums of a thread only grow, but for two things: what a query that runs has counted becomes its
statement's when it ends, and a thread that ended is looked at for the last time.
"""

from collections.abc import Callable, Container, Mapping
from typing import NamedTuple

from ..engines import (
    ByPower,
    Key,
    QueryEvent,
    ReadsByKey,
    StatementName,
    StatementTotal,
    Sums,
    TaskSnapshot,
)
from ..engines.layout import OTHERS
from ..engines.slot_sums import add_reads_sums, add_sum

Totals = tuple[int, int, int]
"""Count, bytes, nanoseconds."""
Told = tuple[int, int]
"""A thread's serial and a query of its, as Engine.sums() has them."""
_LAST = -1
"""The query that a thread ran when it ended."""


class Gain(NamedTuple):
    """So much more."""

    told: Told
    key: Key
    totals: Totals


class Gains(NamedTuple):
    """What one thread did between two looks."""

    more: list[Gain]
    became: dict[int, int]
    """Queries that ended, and what they are counted under now."""


def gains(
    serial: int,
    now: Mapping[int, Sums],
    before: Mapping[int, Sums],
    name: Callable[[int], StatementName | None] = lambda query: None,
) -> Gains:
    """The differences of one thread. What a query had counted that ended is none of its
    statement's: that of the same name, or where names do not tell, the one that has most of it,
    and never the query that runs by now.
    """
    more = {
        query: _more(sums, before.get(query, {}))
        for query, sums in now.items()
        if sums is not before.get(query)
    }
    became: dict[int, int] = {}
    for query in before.keys() - now.keys():
        if not _runs(query) or not before[query]:
            continue
        left, called = before[query], name(query)
        sizes = {each: _common(left, sums) for each, sums in more.items() if not _runs(each)}
        same = [each for each, size in sizes.items() if size and called and name(each) == called]
        most = max(same or sizes, key=lambda each: sizes[each], default=0)
        if sizes.get(most):
            became[query] = most
            _take(more[most], left)
    listed = [
        Gain((serial, query), key, sums)
        for query, found_sums in more.items()
        for key, sums in found_sums.items()
        if any(sums)
    ]
    return Gains(listed, became)


def of_final(final: TaskSnapshot) -> tuple[dict[int, Sums], dict[int, StatementName]]:
    """What a thread that was let go of did in all, as Engine.sums() had it, and the names."""
    sums: dict[int, Sums] = {}
    names: dict[int, StatementName] = {}
    rest = _sums_of(final.reads)
    parts: list[tuple[int, StatementTotal | QueryEvent]]
    parts = [(total.statement, total) for total in final.statements]
    if final.running:
        parts.append((_LAST, final.running))
    for query, named in parts:
        sums[query] = _sums_of(named.reads)
        names[query] = StatementName.of(named.query_id, named.text, named.text_cut)
        _take(rest, sums[query])
    sums[0] = rest
    return sums, names


def more_by_power(now: ByPower, before: ByPower) -> ByPower:
    """The differences of what is told coarsely."""
    more: ByPower = {}
    for told, powers in now.items():
        earlier = before.get(told, {})
        if powers != earlier:
            gained = {power: count - earlier.get(power, 0) for power, count in powers.items()}
            more[told] = {power: count for power, count in gained.items() if count > 0}
    return more


def of_files(sums: Sums, files: Container[int] | None = None) -> Sums:
    """Those of these files, or all, as gains() takes them: a read may be found to have been outside
    queries only later. Mostly these are the same, and are not copied.
    """
    if all(key.scope == "query" and (files is None or key.file in files) for key in sums):
        return sums
    found: Sums = {}
    for key, each in sums.items():
        if files is None or key.file in files:
            add_sum(found, key if key.scope == "query" else key._replace(scope="query"), *each)
    return found


def are_of(by_query: Mapping[int, Sums], files: Container[int]) -> bool:
    """Whether all of it is of these files."""
    return all(key.file in files for sums in by_query.values() for key in sums)


def _sums_of(reads: ReadsByKey) -> Sums:
    sums: Sums = {}
    add_reads_sums(sums, reads)
    return of_files(sums)


def _more(now: Sums, before: Sums) -> Sums:
    """A count may be one ahead of its sums while it grows, and what is being moved to its
    statement is seen twice or not at all."""
    found: Sums = {}
    for key, sums in now.items():
        earlier = before.get(key)
        if earlier is None:
            found[key] = sums
        elif earlier != sums:
            found[key] = _less(sums, earlier)
    return found


def _runs(query: int) -> bool:
    """Whether it has a number of its own, and is not what is kept of a statement, or of others."""
    return 0 < query < OTHERS


def _common(left: Sums, right: Sums) -> int:
    """How much of the one is in the other. Of reads, bytes and nanoseconds alike: so nothing has
    more than one that has all of it, from which all can be taken.
    """
    return sum(sum(map(min, sums, right[key])) for key, sums in left.items() if key in right)


def _take(of: Sums, away: Sums) -> None:
    for key, sums in away.items():
        if key in of:
            of[key] = _less(of[key], sums)


def _less(totals: Totals, away: Totals) -> Totals:
    return max(totals[0] - away[0], 0), max(totals[1] - away[1], 0), max(totals[2] - away[2], 0)


def with_files(sums: Sums, instead: Mapping[int, int]) -> Sums:
    """The same, where some files stand for others."""
    if not any(key.file in instead for key in sums):
        return sums
    found: Sums = {}
    for key, each in sums.items():
        add_sum(found, key._replace(file=instead.get(key.file, key.file)), *each)
    return found
