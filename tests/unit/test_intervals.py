"""Costs over time: nothing gets lost when intervals are cut, put together, and listed."""

from collections.abc import Mapping
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pgtrace.engines import UNKNOWN_FILE, ByPower, File, Key, StatementName, Sums, TimeSums
from pgtrace.model.capture import Interval, IntervalTime, Operation, Performer, Scope, TimeKind
from pgtrace.postgres.wait_events import WaitEvent
from pgtrace.tracing import timeline
from pgtrace.tracing.file_names import Place
from pgtrace.tracing.heaviest import Telling
from pgtrace.tracing.timeline import LENGTH_S, MOST, Intervals

SECOND = 10**9
SERIAL = 7
TELLING = Telling(lambda name: (name.query_id or None, None), lambda file: Place("unknown"))
CLIENT_READ, TRANSACTION, TUPLE, MAIN = 0x06000000, 0x03000004, 0x03000005, 0x05000001
NAMES = {
    CLIENT_READ: WaitEvent("Client", "ClientRead"),
    TRANSACTION: WaitEvent("Lock", "transactionid"),
    TUPLE: WaitEvent("Lock", "tuple"),
    MAIN: WaitEvent("Activity", "CheckpointerMain"),
}
EVENTS = NAMES.__getitem__
LISTED = [
    UNKNOWN_FILE,
    File("relation", (8, 1), 0, 11),
    File("visibility map", (8, 1), 0, 11),
    File("relation", (8, 2), 0, 22),
    *(File(kind, (8, 1), 0, 11) for kind in ("temporary", "wal", "slru", "other")),
]
FILES = dict(enumerate(LISTED))


def first(count: int) -> dict[int, File]:
    return dict(enumerate(LISTED[:count]))


def key(file: int, performed_by: Performer = "backend", operation: Operation = "read") -> Key:
    return Key("query", performed_by, False, "1", "random", "device", file, operation)


class Counting:
    """Reads by hand; a look takes `costs_ns`."""

    def __init__(self, costs_ns: int = 0) -> None:
        self.now_ns = 0
        self.looks = 0
        self.costs_ns = costs_ns
        self.counted: dict[Key, tuple[int, int, int]] = {}
        self.spent: TimeSums = {}
        self.is_meant = True
        self.intervals = Intervals(
            self,
            0,
            is_meant=lambda serial: self.is_meant,
            clock=lambda: self.now_ns,
            busy_clock=lambda: self.now_ns,
        )

    def files(self) -> Mapping[int, File]:
        return FILES

    def sums(self) -> dict[int, dict[int, Sums]]:
        self.looks += 1
        self.now_ns += self.costs_ns
        return {SERIAL: {0: dict(self.counted)}}

    def by_power(self) -> dict[int, ByPower]:
        return {}

    def time_sums(self, until_ns: int) -> dict[int, TimeSums]:
        return {SERIAL: dict(self.spent)}

    def statement(self, serial: int, query: int) -> StatementName | None:
        return None

    def read(self, file: int, count: int = 1, performed_by: Performer = "backend") -> None:
        found = key(file, performed_by)
        before = self.counted.get(found, (0, 0, 0))
        more = (count, count * 8192, count * 1000)
        self.counted[found] = (before[0] + more[0], before[1] + more[1], before[2] + more[2])

    def wait(self, seconds: float) -> None:
        """Look as a tracer does, every 50 ms."""
        end = self.now_ns + seconds * SECOND
        while self.now_ns < end:
            self.now_ns += 50_000_000
            self.intervals.look()

    def listed(self) -> list[Interval]:
        return self.intervals.listed(
            8192, {1: "one", 2: "one", 3: "two"}.get, TELLING, EVENTS, self.now_ns
        )


def costs(listed: list[Interval]) -> list[tuple[str | None, int, int, int]]:
    return [(c.tablespace, c.reads, c.blocks, c.total_ns) for i in listed for c in i.costs]


def test_each_second_with_reads_is_an_interval() -> None:
    counting = Counting()
    counting.read(1, 3)
    counting.wait(1)
    counting.wait(2)
    counting.read(1, 5)
    counting.wait(1.5)
    counting.read(3, 7)
    listed = counting.listed()
    assert [round(i.second, 3) for i in listed] == [0, 3, 4]
    assert costs(listed) == [("one", 3, 3, 3000), ("one", 5, 5, 5000), ("two", 7, 7, 7000)]


def test_who_is_not_meant_is_in_no_interval() -> None:
    """As --datname leaves out, once that is known."""
    counting = Counting()
    counting.is_meant = False
    counting.read(1, 3)
    counting.wait(1.5)
    counting.is_meant = True
    counting.read(1, 5)
    counting.wait(1)
    assert costs(counting.listed()) == [("one", 5, 5, 5000)]


def test_the_last_interval_ends_with_tracing_however_long_it_takes_to_add_up() -> None:
    counting = Counting()
    counting.read(1)
    counting.wait(1.5)
    counting.read(1)
    ended_ns = counting.now_ns
    counting.intervals.end()
    counting.wait(3)
    counting.read(1)
    listed = counting.intervals.listed(8192, {1: "one"}.get, TELLING, EVENTS, ended_ns)
    assert sum(each.length or 0 for each in listed) == pytest.approx(1.5)
    assert sum(reads for _, reads, _, _ in costs(listed)) == 3


def test_only_relations_count_with_their_forks() -> None:
    counting = Counting()
    for file in range(len(FILES)):
        counting.read(file)
    assert costs(counting.listed()) == [("one", 2, 2, 2000), ("two", 1, 1, 1000)]


def test_reads_by_others_are_told_apart() -> None:
    counting = Counting()
    performers: tuple[Performer, ...] = ("backend", "io worker", "io_uring")
    for performer in performers:
        counting.read(1, performed_by=performer)
    (interval,) = counting.listed()
    assert [cost.performed_by for cost in interval.costs] == [*performers]


def test_looking_takes_little_of_the_time() -> None:
    """A look of 0.5 s: every 10.5 s."""
    counting = Counting(costs_ns=SECOND // 2)
    counting.wait(100)
    assert 8 <= counting.looks <= 10


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(1, 50)), max_size=60), st.integers(2, 9))
def test_putting_intervals_together_changes_no_sum(reads: list[tuple[int, int]], most: int) -> None:
    original, timeline.MOST = timeline.MOST, most
    try:
        counting = Counting()
        for seconds, count in reads:
            counting.read(1, count)
            counting.wait(seconds)
        listed = counting.listed()
        assert len(listed) <= most + 1
        every = [c for i in listed for c in i.costs]
        assert sum(c.reads for c in every) == sum(count for _, count in reads)
        assert sum(c.total_ns for c in every) == 1000 * sum(count for _, count in reads)
        seconds_of = [i.second for i in listed]
        assert seconds_of == sorted(set(seconds_of))
    finally:
        timeline.MOST = original


def test_a_long_session_has_intervals_of_equal_length() -> None:
    counting = Counting()
    for _ in range(2 * MOST + 100):
        counting.read(1)
        counting.now_ns += round(LENGTH_S * SECOND)
        counting.intervals.look()
    listed = counting.listed()
    assert MOST / 2 <= len(listed) <= MOST
    lengths = {round(b.second - a.second) for a, b in pairwise(listed[:-1])}
    assert lengths == {4}


def test_writes_are_in_no_interval() -> None:
    """They are no part of what a block costs to read."""
    counting = Counting()
    counting.read(1, 3)
    counting.counted[key(1, operation="write")] = (5, 5 * 8192, 5000)
    counting.counted[key(1, operation="fsync")] = (1, 0, 10**6)
    counting.wait(1.5)
    assert [cost.reads for each in counting.listed() for cost in each.costs] == [3]


class Asleep(Counting):
    """A backend that waits for one thing from the start on."""

    def time_sums(self, until_ns: int) -> dict[int, TimeSums]:
        return {SERIAL: {("sleep", "query", TUPLE): until_ns}}


def test_an_interval_has_no_more_of_a_sleep_than_it_is_long() -> None:
    """However long it takes to look."""
    counting = Asleep(costs_ns=SECOND // 20)
    counting.wait(3.5)
    listed = counting.listed()
    assert len(listed) == 4
    for interval in listed:
        (slept,) = interval.times
        assert slept.total_ns == round((interval.length or 0) * SECOND)


class Growing(Counting):
    """A server that reads from a new file while somebody looks."""

    def __init__(self) -> None:
        super().__init__()
        self.known = 1

    def files(self) -> Mapping[int, File]:
        return first(self.known)

    def sums(self) -> dict[int, dict[int, Sums]]:
        self.read(self.known)
        self.known += 1
        return super().sums()


def test_a_file_that_is_new_between_two_looks_counts() -> None:
    counting = Growing()
    counting.wait(2)
    assert costs(counting.listed()) == [
        ("one", 1, 1, 1000),
        ("one", 1, 1, 1000),
        ("two", 1, 1, 1000),
    ]


def test_a_file_whose_entry_is_late_counts_once_it_is_there() -> None:
    """One that another CPU is filling is not there yet."""
    counting = Growing()
    counting.wait(1)
    counting.known = 1
    counting.read(3)
    counting.files = lambda: first(2)  # type: ignore[method-assign]
    counting.wait(1)
    counting.files = lambda: FILES  # type: ignore[method-assign]
    assert sum(reads for _, reads, _, _ in costs(counting.listed())) == 4


def test_a_tablespace_keeps_its_name_when_the_file_that_told_it_is_gone() -> None:
    counting = Counting()
    counting.read(1)
    counting.wait(1)
    counting.intervals.fold_files({1: 9})
    assert {
        cost[0]
        for cost in costs(
            counting.intervals.listed(8192, {9: "one"}.get, TELLING, EVENTS, counting.now_ns)
        )
    } == {"one"}


def spent(listed: list[Interval]) -> list[list[IntervalTime]]:
    return [each.times for each in listed]


def test_times_are_told_by_class_and_waits_for_work_are_not() -> None:
    counting = Counting()
    counting.wait(1)
    counting.spent = {
        ("cpu", "query", 0): 100,
        ("cpu", "outside", 0): 50,
        ("sleep", "query", TRANSACTION): 500,
        ("sleep", "query", TUPLE): 1,
        ("sleep", "query", CLIENT_READ): 30,
        ("sleep", "outside", CLIENT_READ): 9 * SECOND,
        ("sleep", "outside", MAIN): 9 * SECOND,
    }
    counting.wait(2)
    counting.spent["cpu", "query", 0] += 7
    counting.wait(1)
    assert [round(each.second) for each in counting.listed()] == [1, 3], "none without anything"
    assert spent(counting.listed()) == [
        [
            IntervalTime("sleep", 501, "Lock"),
            IntervalTime("cpu", 150),
            IntervalTime("sleep", 30, "Client"),
        ],
        [IntervalTime("cpu", 7)],
    ]


def test_a_sleep_that_ended_in_waiting_for_a_cpu_is_never_less_than_was_told() -> None:
    """What goes on is told as sleep; how long it was to be woken is known once it ran again."""
    counting = Counting()
    counting.spent = {("sleep", "query", TUPLE): 1000}
    counting.wait(1)
    counting.spent = {("sleep", "query", TUPLE): 900, ("run_queue", "query", 0): 100}
    counting.wait(1)
    counting.spent["sleep", "query", TUPLE] = 1500
    counting.wait(1)
    assert spent(counting.listed()) == [
        [IntervalTime("sleep", 1000, "Lock")],
        [IntervalTime("run_queue", 100)],
        [IntervalTime("sleep", 500, "Lock")],
    ]


KINDS: st.SearchStrategy[tuple[TimeKind, Scope, int]] = st.sampled_from(
    [("cpu", "query", 0), ("run_queue", "query", 0), ("cpu", "outside", 0),
     ("sleep", "query", TUPLE), ("sleep", "query", CLIENT_READ)]
)  # fmt: skip


@given(
    st.lists(st.tuples(KINDS, st.integers(1, SECOND), st.integers(0, 3)), max_size=60),
    st.integers(2, 9),
)
def test_putting_intervals_together_loses_no_time(
    pieces: list[tuple[tuple[TimeKind, Scope, int], int, int]], most: int
) -> None:
    original, timeline.MOST = timeline.MOST, most
    try:
        counting = Counting()
        for told, ns, seconds in pieces:
            counting.spent[told] = counting.spent.get(told, 0) + ns
            counting.wait(seconds)
        times = [each for interval in counting.listed() for each in interval.times]
        assert sum(each.total_ns for each in times) == sum(ns for _, ns, _ in pieces)
        kinds = {(each.kind, each.wait_event_type) for each in times}
        assert all(len(interval.times) <= len(kinds) for interval in counting.listed())
    finally:
        timeline.MOST = original
