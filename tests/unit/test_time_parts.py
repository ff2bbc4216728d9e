"""Where time went, divided into parts that add up, and in a sentence."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from captures import some_backend, some_capture, some_query, some_reads
from pgtrace.model.capture import Io, Tablespace, Time
from pgtrace.reporters.sections import answer
from pgtrace.reporters.sections.statements import statements
from pgtrace.reporters.sections.time_parts import blocks, in_words, is_idle, parts
from pgtrace.reporters.view import Choice
from some_times import MS, probes, spent, times

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


def test_other_waits_are_not_the_devices() -> None:
    io = [some_reads([(ms * MS, 1)], source=s) for ms, s in ((9, "device"), (5, "wait"))]
    spent_ = [spent("sleep", 14 * MS, ("IO", "DataFileRead")), spent("cpu", 86 * MS)]
    (reading, *_) = (p for p in parts(spent_, io, 100 * MS) if p.name == "reading")
    assert reading.detail == "device 9.00 ms, other waits 5.00 ms"


def test_what_is_little_is_summed_up() -> None:
    spent_ = [spent("cpu", 1000 * MS), spent("stolen", MS), spent("sleep", MS, ("IO", "WALSync"))]
    (cpu, rest) = parts(spent_, [], 1002 * MS)
    assert (cpu.name, rest) == ("CPU", ("other", 2 * MS, ""))


def test_a_server_is_not_busy_with_waiting_for_work() -> None:
    idle = spent("sleep", 9000 * MS, ("Client", "ClientRead"), scope="outside")
    copying = spent("sleep", 10 * MS, ("Client", "ClientRead"))
    assert (is_idle(idle), is_idle(copying)) == (True, False)
    taken = some_capture(some_backend(times=[idle, copying]), probes=probes())
    _, table = blocks(taken.backends, Choice())
    assert [row[0] for row in table.rows] == ["Client:ClientRead"]  # type: ignore[union-attr]
    assert blocks([some_backend()], Choice()) == []


DEVICE = Tablespace("pg_default", device="sda")


def told(times: list[Time], io: list[Io], **fields: object) -> str:
    """The first sentence of the answer."""
    usual: dict[str, object] = {"probes": probes(), "tablespaces": [DEVICE]}
    query = some_query(times=times, io=io)
    idle = spent("sleep", 10**12, ("Client", "ClientRead"), scope="outside")
    backend = some_backend(times=[*times, idle], io=io, queries=[query])
    capture = some_capture(backend, **(usual | fields))
    return answer.verdict(capture, statements(capture))[0]


def test_the_answer_begins_with_what_weighs_most() -> None:
    locks = [("Lock", "transactionid"), ("Lock", "tuple")]
    slow = some_reads([(110 * MS, 10)], source="device", tablespace="pg_default")
    weighed = [
        spent("cpu", 6_200 * MS),
        spent("sleep", 1_980 * MS, locks[0]),
        spent("sleep", 20 * MS, locks[1]),
        spent("sleep", 1_100 * MS, ("IO", "DataFileRead")),
        spent("sleep", 600 * MS, ("Client", "ClientWrite")),
        spent("run_queue", 100 * MS),
    ]
    assert told(weighed, [slow]) == (
        "Of 10.0 s in statements 62 % was CPU, 20 % Lock:transactionid, 11 % waiting for the "
        "device sda, 6 % waiting for the client."
    )


@pytest.mark.parametrize(
    ("spent_", "io", "said"),
    [
        (
            [spent("sleep", 50 * MS, ("Lock", name)) for name in ("tuple", "object")],
            [],
            "100 % was locks.",
        ),
        (
            [spent("sleep", 100 * MS, ("IO", "DataFileRead"))],
            [
                some_reads([(30 * MS, 1)], source="device"),
                some_reads([(70 * MS, 1)], source="wait"),
            ],
            "70 % was waiting for other reads, 30 % waiting for the device.",
        ),
        (
            [spent("cpu", 90 * MS), spent("run_queue", 10 * MS)],
            [some_reads([(40 * MS, 1)])],
            "50 % was CPU, 40 % reading from the page cache, 10 % waiting for a CPU.",
        ),
        (
            [spent("sleep", 100 * MS, ("IO", "DataFileRead"))],
            [],
            "100 % was waiting for reads.",
        ),
        (
            [spent("sleep", 97 * MS, ("IO", "WALSync")), spent("cpu", 3 * MS)],
            [],
            "97 % was IO:WALSync.",
        ),
    ],
    ids=["several locks", "read-ahead", "page cache", "reads not measured", "others are little"],
)  # fmt: skip
def test_classes_of_the_answer(spent_: list[Time], io: list[Io], said: str) -> None:
    assert told(spent_, io) == f"Of 100 ms in statements {said}"


def test_waiting_for_a_cpu_in_a_read_is_reading() -> None:
    """It is no work, and taken off the wait for a CPU alone, not off the CPU."""
    own = [
        spent("cpu", 100 * MS),
        spent("run_queue", 50 * MS),
        spent("run_queue_in_read", 60 * MS),
        spent("sleep", 40 * MS, ("IO", "DataFileRead")),
    ]
    found = parts(own, [some_reads([(110 * MS, 1)], source="device")], 250 * MS)
    assert [(part.name, part.ns) for part in found] == [
        ("reading", 110 * MS), ("CPU", 90 * MS), ("waiting for a CPU", 50 * MS)
    ]  # fmt: skip


def test_without_times_the_answer_begins_with_reading() -> None:
    assert told([], [some_reads([(MS, 1)])]).startswith("Statements ran for")


@given(st.lists(times, max_size=8), st.lists(reads, max_size=5))
def test_shares_of_the_answer_are_at_most_the_whole(spent_: list[Time], io: list[Io]) -> None:
    said = told(spent_, io)
    inside = [t for t in spent_ if t.scope == "query" and t.performed_by == "backend"]
    assert said.startswith("Of ") == bool(inside)
    if inside:
        shares = [int(share) for share in re.findall(r"(\d+) %", said)]
        assert 1 <= len(shares) <= 4
        assert sum(shares) <= 102, "rounded"
        assert shares == sorted(shares, reverse=True)
        # Of many little ones the first is told at least
        assert len(shares) == 1 or min(shares) >= 5
