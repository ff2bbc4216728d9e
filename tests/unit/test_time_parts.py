"""Where time went, divided into parts that add up; and as folded stacks."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from captures import some_backend, some_capture, some_histogram, some_query, some_reads
from pgtrace.errors import TargetError
from pgtrace.model.capture import Io, Probes, Time
from pgtrace.reporters import folded
from pgtrace.reporters.sections.time_parts import blocks, in_words, is_idle, parts
from pgtrace.reporters.view import Choice, View

MS = 10**6
SCOPES = st.sampled_from(["query", "outside"])
EVENTS = st.sampled_from(
    [("IO", "DataFileRead"), ("IO", "WALSync"), ("Lock", "relation"), ("Client", "ClientRead"),
     ("Activity", "WalWriterMain"), ("Kernel", "other sleep"), ("0x0F", "event 7")]
)  # fmt: skip


def spent(kind: str, ns: int, event: tuple[str, str] | None = None, **more: object) -> Time:
    latency = some_histogram([(ns, 1)]).to_data()
    type_, name = event or (None, None)
    fields = {"kind": kind, "scope": "query", "wait_event_type": type_, "wait_event": name}
    return Time(latency=latency, **(fields | more))  # type: ignore[arg-type]


def probes(*, times: bool = True) -> Probes:
    return Probes("libbpf", "tracepoint", "usdt", times=times)


times = st.one_of(
    st.builds(
        spent, st.sampled_from(["cpu", "run_queue", "stolen"]), st.integers(1, 10**10),
        scope=SCOPES, performed_by=st.sampled_from(["backend", "parallel worker"]),
    ),
    st.builds(spent, st.just("sleep"), st.integers(1, 10**10), EVENTS, scope=SCOPES),
)  # fmt: skip
reads = st.builds(
    lambda ns, source: some_reads([(ns, 1)], source=source),
    st.integers(1, 10**9),
    st.sampled_from(["device", "page_cache", "wait", "unknown", "readahead_issued"]),
)


@given(st.lists(times, max_size=12), st.lists(reads, max_size=5), st.integers(1, 10**11))
def test_the_parts_add_up_to_the_time_or_what_is_missing_is_said(
    spent: list[Time], io: list[Io], elapsed_ns: int
) -> None:
    found = parts(spent, io, elapsed_ns)
    own = sum(each.total_ns for each in spent if each.performed_by == "backend")
    if not own:
        assert found == []
        return
    told = {part.name: part.ns for part in found}
    whole = sum(part.ns for part in found)
    assert whole == pytest.approx(elapsed_ns, rel=0.001, abs=1)
    rest = told.pop("unaccounted", 0)
    read = sum(r.total_ns for r in io)
    # Reads that took longer than was measured at all cannot be taken off anything
    assert elapsed_ns - rest == pytest.approx(own, rel=0.001, abs=1) or read > own / 2
    assert in_words(found, elapsed_ns)


def test_a_read_that_waits_and_the_servers_wait_for_it_are_one() -> None:
    waited = some_reads([(9 * MS, 10)], source="device")
    cached = some_reads([(1 * MS, 5)], source="page_cache")
    # Of a read that waits, the system call is work of the CPU, too
    spent_ = [spent("sleep", 88 * MS, ("IO", "DataFileRead")), spent("cpu", 12 * MS)]
    found = {part.name: part.ns for part in parts(spent_, [waited, cached], 100 * MS)}
    assert found == {"reading": 95 * MS, "CPU": 5 * MS}


def test_what_is_little_is_summed_up() -> None:
    spent_ = [spent("cpu", 1000 * MS), spent("stolen", MS), spent("sleep", MS, ("IO", "WALSync"))]
    (cpu, rest) = parts(spent_, [], 1002 * MS)
    assert (cpu.name, rest) == ("CPU", ("other", 2 * MS, ""))


def test_a_server_is_not_busy_with_waiting_for_work() -> None:
    idle = spent("sleep", 9000 * MS, ("Client", "ClientRead"), scope="outside")
    copying = spent("sleep", 10 * MS, ("Client", "ClientRead"))
    assert (is_idle(idle), is_idle(copying)) == (True, False)
    taken = some_capture(some_backend(times=[idle, copying]), probes=probes())
    _, table = blocks(taken, Choice())
    assert [row[0] for row in table.rows] == ["Client:ClientRead"]  # type: ignore[union-attr]
    assert blocks(some_capture(some_backend()), Choice()) == []


@given(st.lists(times, max_size=6), st.lists(times, max_size=6), st.text(max_size=30))
def test_stacks_have_all_time_once(of_query: list[Time], others: list[Time], text: str) -> None:
    query = some_query(text=text or "x", query_id=5, times=of_query)
    taken = some_capture(
        some_backend(datname="shop", times=[*of_query, *others], queries=[query]), probes=probes()
    )
    sums: Counter[str] = Counter()
    for line in folded.report(taken, View()):
        assert line.count("\n") == 1
        assert line.endswith("\n")
        stack, _, count = line.rstrip("\n").rpartition(" ")
        first, statement, *ends = stack.split(";")
        assert first == "shop"
        assert statement
        assert 1 <= len(ends) <= 3
        sums[";".join(ends)] += int(count)
    busy = [each for each in (*of_query, *others) if not is_idle(each)]
    whole = sum(each.total_ns for each in busy) / 1000
    assert whole - 2 * len(busy) - 2 <= sum(sums.values()) <= whole


def test_without_times_there_are_no_stacks() -> None:
    with pytest.raises(TargetError, match="--time"):
        list(folded.report(some_capture(some_backend()), View()))
