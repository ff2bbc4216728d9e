"""What pg_stat_statements counted between two looks, and the table of it."""

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from captures import DEVICE, some_backend, some_capture, some_query, some_reads
from pgtrace.model.capture import Buffers, Executions, Probes
from pgtrace.postgres import database_stats
from pgtrace.postgres.executions import Row, between
from pgtrace.reporters.html.opening import opening
from pgtrace.reporters.sections import answer
from pgtrace.reporters.sections.statements import statements
from pgtrace.reporters.terminal import capture_report, executed

NOW = 1_767_225_600.0
keys = st.tuples(st.integers(-3, 3).filter(bool), st.integers(1, 2), st.integers(10, 11))
counts = st.tuples(st.integers(0, 10**9), st.integers(0, 10**9))
looks = st.dictionaries(keys, st.tuples(counts, counts, st.booleans()), max_size=8)
IDS = range(-3, 4)


def rows(found: dict[tuple[int, int, int], tuple[int, int]]) -> list[Row]:
    return [Row(*key, calls, float(ms)) for key, (calls, ms) in found.items()]


@given(looks)
def test_each_statement_has_what_came_between_over_all_databases_and_roles(
    seen: dict[tuple[int, int, int], tuple[tuple[int, int], tuple[int, int], bool]],
) -> None:
    first = {key: before for key, (before, _, new) in seen.items() if not new}
    last = {
        key: more if new else (before[0] + more[0], before[1] + more[1])
        for key, (before, more, new) in seen.items()
    }
    expected: dict[int, tuple[int, int]] = {}
    for (query_id, _, _), (_, more, _) in seen.items():
        calls, ms = expected.get(query_id, (0, 0))
        expected[query_id] = calls + more[0], ms + more[1]
    found = between(rows(first), rows(last), IDS)
    assert {e.query_id: (e.calls, e.total_ns) for e in found} == {
        query_id: (calls, ms * 10**6) for query_id, (calls, ms) in expected.items()
    }
    assert [e.total_ns for e in found] == sorted((e.total_ns for e in found), reverse=True)


def test_nobody_asked_for_others_and_some_may_not_be_seen() -> None:
    last = [Row(1, 1, 10, 5, 1.0), Row(2, 1, 10, 5, 1.0), Row(None, 1, 10, 5, 1.0)]
    assert between([], last, [2]) == [Executions(2, 5, 1_000_000)]


@pytest.mark.parametrize("row", [Row(1, 2, 10, 1 << 62, 1.0), Row(1, 2, 10, 1, 1e99)])
def test_what_no_server_counts_is_left_out(row: Row) -> None:
    """A file that says such a number is read by nobody."""
    last = [row, row._replace(dbid=3), Row(2, 1, 10, 5, 1.0)]
    assert between([], last, [1, 2]) == [Executions(2, 5, 1_000_000)]


@given(st.integers(0, 4), st.integers(0, 4))
def test_a_statement_that_was_reset_in_one_database_is_left_out(calls: int, ms: int) -> None:
    first = [Row(1, 1, 10, 5, 5.0), Row(1, 2, 10, 5, 5.0)]
    last = [Row(1, 1, 10, calls, float(ms)), Row(1, 2, 10, 9, 9.0)]
    assert between(first, last, [1]) == []


def shown(executions: Sequence[Executions], width: int = 80) -> list[str]:
    queries = [
        some_query(text=f"select {e.query_id}\n from t", query_id=e.query_id, io=[DEVICE])
        for e in executions
    ]
    capture = some_capture(some_backend(queries=queries))
    capture.executions = list(executions)
    return executed.table(capture, width)


def test_the_table_has_ten_and_adds_up_the_others() -> None:
    lines = shown([Executions(i, 1000 * i, 10**9) for i in range(1, 14)])
    assert lines[0].split() == ["calls", "executing", "its", "reads", "device", "statement"]
    assert lines[1].split() == [
        "1,000",
        "1.00",
        "s",
        *lines[1].split()[3:7],
        *["select", "1", "from", "t"],
    ]
    assert len(lines) == 12
    assert lines[-1].split() == ["36,000", "3.00", "s", *["(3", "more,", "in", "--format", "json)"]]
    assert max(map(len, lines)) <= 80
    assert shown([]) == []


def test_a_long_statement_ends_at_the_width() -> None:
    (_, line) = shown([Executions(10**70, 1, 1)])
    assert len(line) == 80
    assert line.endswith("…")


def test_a_capture_without_calls_says_why() -> None:
    capture = some_capture(some_backend())
    capture.probes.queries, capture.probes.no_calls = "memory", "a reason"
    assert (
        "Calls of statements and their latency are not measured (a reason); --queries full adds "
        "them." in " ".join(capture_report.render(capture).split())
    )
    capture.executions, capture.probes.no_calls = [Executions(1, 1, 1)], None
    assert (
        "Calls of statements and their time are those of pg_stat_statements; --queries full adds "
        "errors and latencies." in " ".join(capture_report.render(capture).split())
    )


def test_reads_of_a_statement_that_is_in_no_backend_are_not_known() -> None:
    """Its time of reading is no 0."""
    capture = some_capture(some_backend(queries=[]))
    capture.executions = [Executions(1, 5, 2_000_000)]
    (_, line) = executed.table(capture, 80)
    assert line.split() == ["5", "2.00", "ms", "?", "?", "(text", "not", "known)"]


def test_of_calls_that_did_not_end_well_neither_reads_nor_time_are_in_the_answer() -> None:
    """The server counts a call once it has ended. One statement was cancelled each time, and one
    still runs after others that were short.
    """
    reads = {1: 400, 2: 2_000, 3: 900}
    queries = [
        some_query(
            text=f"select {number}",
            query_id=number,
            calls=None,
            latency=None,
            errors=None,
            io=[some_reads([(ms * 10**6, 1)])],
        )
        for number, ms in reads.items()
    ]
    capture = some_capture(
        some_backend(queries=queries, io=[each for query in queries for each in query.io]),
        probes=Probes("libbpf", "fentry", "memory"),
        executions=[
            Executions(1, 3, 10**9),
            Executions(2, 0, 0),
            Executions(3, 7, 50 * 10**6),
        ],
        duration_s=10.0,
    )
    found = {each.text: each for each in statements(capture)}
    assert (found["select 2"].calls, found["select 2"].elapsed_ns) == (None, None)
    assert answer.verdict(capture, statements(capture))[0].startswith(
        "Statements whose calls ended ran for 1.00 s in 10.0 s: they read for 0.40 s of that (40 %)"
    )


@pytest.mark.parametrize(
    ("read_ms", "words"),
    [
        (990, "Statements that read ran for 1.00 s in 10.0 s: they read for 0.99 s of that (99 %)"),
        (1_050, "Statements that read ran for at least 1.05 s in 10.0 s: they read for 1.05 s of"),
        (2_050, "All processes together read for 2.05 s in 10.0 s"),
    ],
)
def test_what_the_server_had_not_counted_at_either_end_keeps_no_statement_out_of_the_answer(
    read_ms: int, words: str
) -> None:
    """A statement that does nothing but read, of which a call was before the server was asked for
    the first time, or goes on.
    """
    io = [some_reads([(read_ms * 10**6, 1)])]
    query = some_query(query_id=1, calls=None, latency=None, errors=None, io=io)
    capture = some_capture(
        some_backend(queries=[query], io=io),
        some_backend(queries=[], io=[]),
        probes=Probes("libbpf", "fentry", "memory"),
        executions=[Executions(1, 20, 10**9)],
        duration_s=10.0,
    )
    assert answer.verdict(capture, statements(capture))[0].startswith(words)
    assert opening(capture)


BUFFERS = [database_stats.Row(0, None, None, 5, 5), database_stats.Row(7, NOW, "shop", 100, 10)]


@pytest.mark.parametrize(
    ("last", "found"),
    [
        ((7, NOW, "shop", 130, 11), Buffers("shop", 30, 1)),
        ((8, NOW, "new", 20, 2), Buffers("new", 20, 2)),
        ((7, NOW + 1, "shop", 130, 11), None),  # pg_stat_reset()
        ((7, NOW, "shop", 20, 11), None),  # a backend crashed
        ((0, NOW, None, 9, 9), None),
    ],
)
def test_what_was_found_in_shared_buffers_is_not_known_if_numbers_were_reset(
    last: tuple[int, float, str | None, int, int], found: Buffers | None
) -> None:
    rows = [row for row in BUFFERS if row.datid != last[0]] + [database_stats.Row(*last)]
    listed = database_stats.between(BUFFERS, rows)
    assert found in listed if found else listed == []
