"""A capture of a whole server is one screen, however much there was and whatever was lost."""

import re
from collections.abc import Sequence

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from busy_server import (
    ASKED,
    AWAY,
    LOSSES,
    MOST_LOST,
    NOT_MEASURED,
    SERVERS,
    TYPES,
    server,
)
from pgtrace import units
from pgtrace.engines import OPERATIONS
from pgtrace.model.capture import (
    Capture,
    Lost,
    Operation,
)
from pgtrace.reporters.document import Table, Value
from pgtrace.reporters.sections.server import sections
from pgtrace.reporters.terminal import capture_report, server_report
from pgtrace.reporters.view import ORDERS, Choice, Order

LINES, WIDTH = 60, 80


@pytest.mark.parametrize("lost", [None, LOSSES], ids=["whole", "with losses"])
@pytest.mark.parametrize("light", [True, False], ids=["light", "full"])
@pytest.mark.parametrize("operations", ASKED, ids="+".join)
@pytest.mark.parametrize("times", [False, True], ids=["without times", "with times"])
def test_a_busy_server_is_one_screen(
    operations: Sequence[Operation], light: bool, lost: Lost | None, times: bool
) -> None:
    capture = server(operations, light=light, lost=lost, times=times)
    lines = server_report.render(capture).splitlines()
    assert max(map(len, lines)) <= WIDTH
    assert len(lines) <= LINES


MISSING = [
    *NOT_MEASURED,
    "names: the role may not connect to " + ", ".join(f"database_{n}" for n in range(40)),
    "queries of the server started since: no probe could be put into /usr/lib/postgresql/18/bin/pg",
    "io_uring: the kernel has no tracepoint io_uring_submit_req",
    "processes that neither read nor ran a query: there was no room for all backends",
]
FAILED = [
    f"MemoryError in charging.py, line {n}, while the backends were looked at" for n in range(27)
]


@settings(max_examples=25, deadline=None)
@given(
    SERVERS,
    st.sampled_from(ORDERS),
    st.lists(st.sampled_from(MISSING), unique=True),
    st.lists(st.sampled_from(FAILED), unique=True),
)
@example(server(lost=MOST_LOST, gaps=AWAY, times=True), "device", MISSING, FAILED)
def test_whatever_else_there_was_it_is_one_screen(
    capture: Capture, order: Order, missing: list[str], failed: list[str]
) -> None:
    """In each order, whatever was not measured, and whatever failed."""
    capture.probes.not_measured, capture.partial = missing, failed
    lines = server_report.render(capture, Choice(order=order)).splitlines()
    assert max(map(len, lines)) <= WIDTH
    assert len(lines) <= LINES
    words = " ".join(" ".join(lines).split())
    assert all(each[:80] in words for each in missing[:3])
    assert len(missing) <= 3 or f"{len(missing) - 3} more, in --backends" in words
    told = words.count("Partial, because of")
    more = re.search(r"(\d+) more such errors", words)
    assert told + int(more[1] if more else 0) == len(failed)


@settings(max_examples=60, deadline=None)
@given(SERVERS)
@example(server(lost=MOST_LOST, gaps=AWAY))
@example(server(lost=MOST_LOST, gaps=AWAY, light=False))
@example(server(lost=MOST_LOST, gaps=AWAY, times=True))
@example(server(lost=MOST_LOST, gaps=AWAY, light=False, times=True))
def test_whatever_there_is_and_is_lost_is_in_one_screen(capture: Capture) -> None:
    """And each loss is told in it, with its number."""
    text = server_report.render(capture)
    lines, words = text.splitlines(), " ".join(text.split())
    assert max(map(len, lines)) <= WIDTH
    assert len(lines) <= LINES
    for sentence in capture_report.lost_of(capture):
        assert sentence in words
    for operation, number in capture.lost.in_flight.items():
        assert not number or f"{units.count(number)} {operation}" in words
    for missing in capture.probes.not_measured:
        assert missing in words
    away = words.count("No connections after a crash")
    told = re.search(r"(\d+) more such times, in --backends", words)
    assert away + int(told[1] if told else 0) == len(capture.gaps)


def rows_of(capture: Capture, name: str, choice: Choice) -> list[tuple[str, Sequence[Value]]]:
    (section,) = (each for each in sections(capture, choice) if each.name == name)
    (table,) = (block for block in section.blocks if isinstance(block, Table))
    return [*table.rows]


@given(
    st.integers(1, 20),
    st.booleans(),
    st.sets(st.sampled_from(TYPES)),
    st.sampled_from(("top-relations", "top-writes", "processes")),
)
@settings(max_examples=60, deadline=None)
def test_rows_and_that_of_the_rest_are_all(
    most: int, exact: bool, idle: set[str], name: str
) -> None:
    capture = server(clients=5, idle=idle)
    rows = rows_of(capture, name, Choice(most, exact=exact))
    every = rows_of(capture, name, Choice(1_000, exact=True))
    more = re.fullmatch(r"\((\d+) more\)", rows[-1][0])
    assert len(rows) <= most + 1
    assert not exact or len(rows) - bool(more) == min(most, len(every))
    assert len(rows) - bool(more) + int(more[1] if more else 0) == len(every)
    assert rows[: len(rows) - bool(more)] == every[: len(rows) - bool(more)]
    for column in {"top-relations": [0, 2, 5], "top-writes": [0, 1], "processes": range(7)}[name]:
        sums = [sum(int(values[column] or 0) for _, values in each) for each in (rows, every)]
        assert sums[0] == sums[1]


def test_as_many_rows_as_are_asked_for_are_shown() -> None:
    """Also where a screen has no room for them, and of what did nothing."""
    text = server_report.render(server(lost=LOSSES), Choice(15, exact=True))
    assert len(text.splitlines()) > LINES
    assert text.count("  (25 more)\n") == 2, "statements and relations"
    processes = text[text.index("type of process") :]
    assert [name for name in TYPES if f"  {name[:15]}" not in processes] == []


def test_of_reads_alone_there_are_more_rows_than_where_writes_have_tables() -> None:
    def statements(*operations: Operation) -> int:
        return server_report.render(server(operations)).count("  select o.id")

    assert statements("read") > statements(*OPERATIONS) >= 3


def test_types_that_did_nothing_have_one_row() -> None:
    rows = rows_of(server(idle=TYPES[1:]), "processes", Choice())
    assert [name for name, _ in rows] == [
        "client backend (36)", "autovacuum launcher", f"({len(TYPES) - 1} more)"
    ]  # fmt: skip
    assert [*rows[-1][1]] == [0] * 7
    one = rows_of(server(idle=TYPES[:1]), "processes", Choice(20))
    assert one[-1][0] == TYPES[0], "a row of the rest would be no shorter"


@pytest.mark.parametrize(("order", "column"), [("reads", 2), ("p99", 3), ("device", 0)])
def test_types_of_processes_come_in_the_order_that_is_asked_for(order: Order, column: int) -> None:
    rows = rows_of(server(("read",)), "processes", Choice(20, order=order, exact=True))
    values = [float(row[column] or 0) for _, row in rows]  # type: ignore[arg-type]
    assert values == sorted(values, reverse=True)
    assert len(set(values)) > 1
