"""A capture less an earlier one of its session is what was measured between them."""

from typing import Any

from hypothesis import example, given
from hypothesis import strategies as st

from captures import some_capture
from pgtrace.model.buckets import Buckets, bucket_bounds, bucket_index
from pgtrace.model.capture import Backend, Capture, Excluded, Interval, IntervalIo, Io, Lost, Query
from pgtrace.model.histogram import Histogram
from pgtrace.model.since import since

_SOURCES = st.sampled_from(["page_cache", "device", "readahead_issued"])
_EVENT = st.tuples(
    st.integers(1, 4),  # whose
    st.sampled_from([None, 7, 8]),  # of which statement
    _SOURCES,
    st.sampled_from(["read", "write"]),
    st.integers(0, 1 << 41),  # how long
)


def taken(events: list[tuple[Any, ...]], seconds: float) -> Capture:
    """What a session had measured after these."""
    backends = []
    for pid in sorted({event[0] for event in events}):
        own = [event for event in events if event[0] == pid]
        queries = [
            Query(
                text=f"select {number}",
                query_id=number,
                protocol="simple",
                calls=sum(event[1] == number for event in own),
                errors=0,
                latency=histogram(e[4] for e in own if e[1] == number).to_data(),
                io=io([event for event in own if event[1] == number]),
            )
            for number in sorted({event[1] for event in own} - {None})
        ]
        failed = {"read": Excluded(len(own), 8192 * len(own), 0, 5 * len(own))}
        backends.append(Backend(pid=pid, io=io(own), queries=queries, failed=failed))
    each = [Interval(float(s), [], 1.0, [IntervalIo("read", "device", 1, 8192, 9)]) for s in
            range(round(seconds))]  # fmt: skip
    return some_capture(*backends, duration_s=seconds, lost=Lost(read=len(events)), intervals=each)


def histogram(latencies: Any) -> Histogram:
    found = Histogram()
    for ns in latencies:
        found.add(ns)
    return found


def io(events: list[tuple[Any, ...]]) -> list[Io]:
    found = []
    for source, operation in sorted({(event[2], event[3]) for event in events}):
        own = [event[4] for event in events if event[2:4] == (source, operation)]
        size = 8192 * len(own)
        found.append(
            Io(source, "random", "1", "query", size, len(own), size, histogram(own).to_data(),
               operation)
        )  # fmt: skip
    return found


def known(rows: list[Io]) -> set[tuple[Any, ...]]:
    """All of them but for what is not known of a difference."""
    return {
        (r.source, r.operation, r.bytes, r.blocks, r.device_bytes, r.count, r.total_ns,
         str(Buckets(r.latency.buckets)))
        for r in rows
    }  # fmt: skip


@given(st.lists(_EVENT), st.lists(_EVENT))
def test_what_came_after_is_left(first: list[Any], second: list[Any]) -> None:
    found = since(taken(first + second, 9.0), taken(first, 5.0))
    alone = {backend.pid: backend for backend in taken(second, 4.0).backends}
    assert found.started == "2026-01-31T12:00:05.000000Z"
    assert found.duration_s == 4.0
    assert [interval.second for interval in found.intervals] == [0.0, 1.0, 2.0, 3.0]
    assert found.lost.read == len(second)
    for backend in found.backends:
        true = alone.get(backend.pid, Backend(pid=backend.pid))
        assert known(backend.io) == known(true.io)
        queries = {query.query_id: query for query in backend.queries}
        truth = {query.query_id: query for query in true.queries}
        assert queries.keys() == truth.keys()
        for number, query in queries.items():
            assert query.calls == truth[number].calls
            assert known(query.io) == known(truth[number].io)
        assert backend.failed["read"].count == sum(event[0] == backend.pid for event in second)
    assert found.totals["read"].count == sum(event[3] == "read" for event in second)


@given(st.lists(_EVENT, min_size=1), st.lists(_EVENT, min_size=1))
def test_the_longest_is_at_most_in_its_bucket(first: list[Any], second: list[Any]) -> None:
    found = since(taken(first + second, 9.0), taken(first, 5.0))
    for backend in found.backends:
        for each in backend.io:
            latencies = [
                event[4]
                for event in second
                if event[0] == backend.pid and event[2:4] == (each.source, each.operation)
            ]
            true = max(latencies)
            assert true <= each.latency.max
            assert each.latency.max < max(true * 17 / 16 + 1, 16) or true >= 1 << 40
            assert each.latency.min in (None, min(latencies))


def test_nothing_since_is_nothing() -> None:
    whole = some_capture(Backend(pid=1, io=io([(1, None, "device", "read", 5)])))
    found = since(whole, whole)
    assert found.duration_s == 0
    assert all(not backend.io for backend in found.backends)
    assert found.totals["read"].count == 0


def test_who_was_added_up_since_is_not_counted_twice() -> None:
    """Of 2,000 backends that ended the rest is told together: what they did before stays before."""
    before = io([(1, None, "device", "read", 5)] * 10)
    now = io([(1, None, "device", "read", 5)] * 25)
    kind = {"backend_type": "client backend", "datname": "d", "usename": "u"}
    earlier = some_capture(Backend(pid=77, began="2026-01-31T12:00:01.000000Z", io=before, **kind))
    later = some_capture(Backend(pid=0, merged=3, io=now, **kind), duration_s=20.0)
    (merged,) = since(later, earlier).backends
    assert merged.io[0].count == 15


def test_a_query_that_had_not_ended_is_counted_once() -> None:
    running = Query(
        text="select 1", query_id=1, protocol="simple", calls=0, errors=0, unfinished=True,
        latency=histogram([]).to_data(), io=io([(1, 1, "device", "read", 5)] * 10),
    )  # fmt: skip
    ended = Query(
        text="select 1", query_id=1, protocol="simple", calls=1, errors=0,
        latency=histogram([99]).to_data(), io=io([(1, 1, "device", "read", 5)] * 12),
    )  # fmt: skip
    earlier = some_capture(Backend(pid=1, io=running.io, queries=[running]))
    later = some_capture(Backend(pid=1, io=ended.io, queries=[ended]), duration_s=20.0)
    (backend,) = since(later, earlier).backends
    (query,) = backend.queries
    assert (query.calls, query.io[0].count, backend.io[0].count) == (1, 2, 2)


_FILE = st.integers(0, 5)
_NAME = st.sampled_from(["a", "b", "c", "(gone)"])
_NAMES = st.lists(st.tuples(_NAME, st.sampled_from(["relation", "heap"])), min_size=6, max_size=6)
_READ = st.tuples(_FILE, st.sampled_from(["page_cache", "device"]), st.integers(0, 99_999))


def of_files(reads: list[tuple[Any, ...]], names: list[tuple[Any, ...]]) -> list[Io]:
    """Reads of files, as they are told while these have such names."""
    found = []
    for told in sorted({(*names[file], source) for file, source, _ in reads}):
        own = [ns for file, source, ns in reads if (*names[file], source) == told]
        size = 8192 * len(own)
        latency = histogram(own).to_data()
        name, kind, source = told
        found.append(
            Io(source, "random", "1", "query", size, len(own), size // 2, latency,
               kind=kind, tablespace="pg_default", relation=name)
        )  # fmt: skip
    return found


def session(reads: list[tuple[Any, ...]], names: list[tuple[Any, ...]]) -> Capture:
    own = of_files(reads, names)
    query = Query(text="select 1", protocol="simple", calls=1, errors=0, latency=None, io=own)
    return some_capture(Backend(pid=1, io=own, queries=[query]), duration_s=9.0)


def sums(rows: list[Io]) -> dict[str, tuple[Any, ...]]:
    """By source, as one file would have had them; their latencies' sums are sums_ns()."""
    found = {}
    for source in {row.source for row in rows}:
        own = [row for row in rows if row.source == source]
        buckets = Buckets.sums(Buckets(row.latency.buckets) for row in own)
        figures = [(r.count, r.bytes, r.blocks, r.device_bytes) for r in own]
        found[source] = (*map(sum, zip(*figures, strict=True)), buckets)
    return found


def sums_ns(rows: list[Io]) -> dict[str, int]:
    return {each.source: sum(r.total_ns for r in rows if r.source == each.source) for each in rows}


def unsure_ns(ns: int) -> int:
    """How much another latency, which is in the same bucket, may differ."""
    low, high = bucket_bounds(bucket_index(ns))
    return high - low


@given(st.lists(_READ), st.lists(_READ), _NAMES, _NAMES)
@example(
    [(3, "page_cache", 98304)],
    [(0, "page_cache", 98305)],
    [("a", "relation")] * 6,
    [*[("a", "relation")] * 3, ("a", "heap"), *[("a", "relation")] * 2],
)
def test_what_files_are_called_meanwhile_changes_no_sum(
    first: list[Any], second: list[Any], before: list[Any], now: list[Any]
) -> None:
    """Relations are dropped, written anew, renamed; a connection tells their names at last."""
    found = since(session(first + second, now), session(first, before))
    (backend,) = found.backends
    true = of_files(second, now)
    assert sums(backend.io) == sums(true)
    # What is taken off may be another relation's, with latencies of the same buckets
    unsure = sum(unsure_ns(ns) for _, _, ns in first)
    for source, total_ns in sums_ns(true).items():
        assert abs(sums_ns(backend.io)[source] - total_ns) <= unsure
    for query in backend.queries:
        assert sums(query.io) == sums(true)
    for row in backend.io:
        assert row.count == sum(count for _, _, count in row.latency.buckets) > 0
        assert row.bytes == 8192 * row.count
        assert min(row.total_ns, row.device_bytes) >= 0


@given(st.lists(_READ, min_size=1), st.lists(_READ), _NAMES)
def test_files_that_keep_their_names_are_told_as_they_are(
    first: list[Any], second: list[Any], names: list[Any]
) -> None:
    (backend,) = since(session(first + second, names), session(first, names)).backends
    found, true = (
        {(r.relation, r.kind, r.source): (r.count, r.total_ns) for r in rows}
        for rows in (backend.io, of_files(second, names))
    )
    assert found == true


def test_what_was_read_of_a_table_before_it_was_dropped_was_not_read_since() -> None:
    first = [(0, "device", 100)] * 1000 + [(1, "device", 100)] * 5
    names = [("orders", "heap"), ("(gone)", "heap")]
    now = [("(gone)", "heap")] * 2
    (backend,) = since(session([*first, (1, "device", 100)], now), session(first, names)).backends
    assert [(row.relation, row.count) for row in backend.io] == [("(gone)", 1)]


def test_a_statement_whose_id_was_not_known_is_not_counted_twice() -> None:
    """In the light tier, what it read while it was parsed."""
    reads = io([(1, None, "device", "read", 5)] * 10)
    usual: dict[str, Any] = {"text": "select 1", "protocol": "simple"}
    usual |= dict.fromkeys(("calls", "errors", "latency"))
    then = Query(**usual, text_hash="00ff", io=reads)
    now = Query(**usual, query_id=7, io=io([(1, None, "device", "read", 5)] * 12))
    earlier = some_capture(Backend(pid=1, io=reads, queries=[then]))
    later = some_capture(Backend(pid=1, io=now.io, queries=[now]), duration_s=20.0)
    (backend,) = since(later, earlier).backends
    assert [(query.query_id, query.io[0].count) for query in backend.queries] == [(7, 2)]
