"""What was measured since an earlier moment of the same session: a capture less an earlier one.

Everything in a capture that is counted only grows, so that this is exact, but for three things: the
shortest of some latencies is not known, the longest at most that of their highest bucket, and which
of several relations was meant where their files got other names between the two moments: what is
taken off may then be another's, whose latencies are in the same buckets, but not the same.
"""

from collections import defaultdict
from collections.abc import Container, Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import cache
from operator import attrgetter
from typing import TypeVar

import msgspec

from ..units import stamp
from .buckets import Buckets, bucket_bounds
from .capture import (
    Backend,
    Capture,
    Excluded,
    Gap,
    Interval,
    Io,
    Latencies,
    Lost,
    Operation,
    Query,
    Time,
)
from .moved import paired

_S = TypeVar("_S", bound=msgspec.Struct)
_MEASURED = frozenset(
    {"latency", "calls", "errors", "waited_ns", "io", "times", "text", "text_cut"}
)
"""Fields that are counted, or that follow from what tells rows apart."""


def since(later: Capture, earlier: Capture) -> Capture:
    """Return what `later` has and `earlier`, which the same session took before, had not."""
    seconds = earlier.duration_s
    began = datetime.fromisoformat(later.started).astimezone(UTC) + timedelta(seconds=seconds)
    before = _by_who(earlier.backends, {_who(backend) for backend in later.backends})
    found = msgspec.structs.replace(
        later,
        started=stamp(began),
        duration_s=max(later.duration_s - seconds, 0.0),
        lost=_lost(later.lost, earlier.lost),
        totals={},
        backends=[
            each
            for backend in later.backends
            if not _ended_before(each := _backend(backend, before.get(_who(backend), [])), began)
        ],
        gaps=[gap for gap in later.gaps if _reaches(gap, began)],
        intervals=[
            _moved(interval, seconds)
            for interval in later.intervals
            if interval.second >= seconds - 0.001
        ],
        buffers=[],
        executions=[],
    )
    return found.add_up()


def _by_who(backends: Iterable[Backend], known: set[object]) -> dict[object, list[Backend]]:
    """Who is not known later one by one was added up with others of its kind."""
    found: defaultdict[object, list[Backend]] = defaultdict(list)
    for backend in backends:
        who = _who(backend)
        found[who if who in known else _kind(backend)].append(backend)
    return found


def _kind(backend: Backend) -> object:
    return backend.backend_type, backend.datname, backend.usename


def _who(backend: Backend) -> object:
    if backend.merged:
        return _kind(backend)
    return backend.pid, backend.began


def _ended_before(backend: Backend, began: datetime) -> bool:
    if not backend.ended or backend.io or backend.queries:
        return False
    return datetime.fromisoformat(backend.ended) < began


def _backend(backend: Backend, before: Sequence[Backend]) -> Backend:
    return msgspec.structs.replace(
        backend,
        io=_io(backend.io, [io for each in before for io in each.io]),
        times=_times(backend.times, [time for each in before for time in each.times]),
        failed=_excluded(backend.failed, [each.failed for each in before]),
        short=_excluded(backend.short, [each.short for each in before]),
        queries=_queries(backend.queries, [q for each in before for q in each.queries]),
    )


def _rows(rows: Iterable[_S]) -> dict[object, list[_S]]:
    found: dict[object, list[_S]] = {}
    for row in rows:
        found.setdefault(_told(row), []).append(row)
    return found


def _told(row: msgspec.Struct) -> object:
    return _telling(type(row))(row)


@cache
def _telling(kind: type[msgspec.Struct]) -> "attrgetter[object]":
    return attrgetter(*(name for name in kind.__struct_fields__ if name not in _MEASURED))


def _io(rows: Sequence[Io], before: Sequence[Io]) -> list[Io]:
    found = []
    for row, old in ((pair.row, pair.before) for pair in paired(rows, before)):
        latency = _latencies(row.latency, [each.latency for each in old])
        if latency.count <= 0:
            continue
        found.append(
            msgspec.structs.replace(
                row,
                latency=latency,
                bytes=max(row.bytes - sum(each.bytes for each in old), 0),
                blocks=max(row.blocks - sum(each.blocks for each in old), 0),
                device_bytes=max(row.device_bytes - sum(each.device_bytes for each in old), 0),
                queued_ns=_less(row.queued_ns, [each.queued_ns for each in old]),
            )
        )
    return found


def _times(rows: Sequence[Time], before: Sequence[Time]) -> list[Time]:
    earlier, found = _rows(before), []
    for key, (row, *_) in _rows(rows).items():
        latency = _latencies(row.latency, [each.latency for each in earlier.get(key, [])])
        if latency.count or latency.sum:
            found.append(msgspec.structs.replace(row, latency=latency))
    return found


def _queries(rows: Sequence[Query], before: Sequence[Query]) -> list[Query]:
    now, ids = _rows(rows), defaultdict[str | None, set[int]](set)
    for row in rows:
        if row.query_id and row.text:
            ids[row.text].add(row.query_id)
    earlier, found = _rows(_as_now(q, now, ids.get(q.text, set())) for q in before), []
    for key, (row, *_) in now.items():
        old = earlier.get(key, [])
        latency = row.latency and _latencies(row.latency, [q.latency for q in old if q.latency])
        new = msgspec.structs.replace(
            row,
            calls=_less(row.calls, [each.calls for each in old]),
            errors=_less(row.errors, [each.errors for each in old]),
            waited_ns=_less(row.waited_ns, [each.waited_ns for each in old]),
            latency=latency,
            io=_io(row.io, [io for each in old for io in each.io]),
            times=_times(row.times, [time for each in old for time in each.times]),
        )
        if new.calls or new.io or new.times or row.unfinished:
            found.append(new)
    return found


def _as_now(query: Query, now: Container[object], ids: set[int]) -> Query:
    """One that had not ended then is a call of its statement now, and one whose id was not known
    yet has that of the only one with its text.
    """
    ended = msgspec.structs.replace(query, unfinished=False)
    found = [query, ended]
    if not query.query_id and len(ids) == 1:
        found.append(msgspec.structs.replace(ended, query_id=next(iter(ids)), text_hash=None))
    return next((each for each in found if _told(each) in now), query)


def _less(number: int | None, before: Iterable[int | None]) -> int | None:
    return None if number is None else max(number - sum(each or 0 for each in before), 0)


def _latencies(now: Latencies, before: Sequence[Latencies]) -> Latencies:
    if not before:
        return now
    counts = Buckets.sums([Buckets(now.buckets)])
    for index, number in Buckets.sums(Buckets(each.buckets) for each in before).items():
        counts[index] = counts.get(index, 0) - number
    left = {index: number for index, number in counts.items() if number > 0}
    highest = bucket_bounds(max(left))[1] - 1 if left else 0
    count = now.count - sum(each.count for each in before)
    return Latencies(
        count=max(count, sum(left.values())),  # of a sleep that went on, the begin was one
        sum=max(now.sum - sum(each.sum for each in before), 0),
        min=None,
        max=min(now.max, highest) if left else 0,
        buckets=Buckets.counted(left),
    )


def _excluded(
    now: Mapping[Operation, Excluded], before: Sequence[Mapping[Operation, Excluded]]
) -> dict[Operation, Excluded]:
    return {
        operation: Excluded(
            *(
                getattr(each, name)
                - sum(getattr(old.get(operation, Excluded()), name) for old in before)
                for name in Excluded.__struct_fields__
            )
        )
        for operation, each in now.items()
    }


def _lost(now: Lost, before: Lost) -> Lost:
    """What is under way is so now."""
    left = {
        name: max(getattr(now, name) - getattr(before, name), 0)
        for name in Lost.__struct_fields__
        if name != "in_flight"
    }
    return Lost(**left, in_flight=now.in_flight)


def _reaches(gap: Gap, began: datetime) -> bool:
    return gap.ended is None or datetime.fromisoformat(gap.ended) > began


def _moved(interval: Interval, seconds: float) -> Interval:
    return msgspec.structs.replace(interval, second=max(interval.second - seconds, 0.0))
