"""Tables of a capture as comma-separated values."""

import csv
import io

import pytest
from hypothesis import given
from hypothesis import strategies as st

from captures import CACHED, DEVICE, some_backend, some_capture, some_query, some_reads
from pgtrace.errors import UsageError
from pgtrace.model.capture import Backend, Capture
from pgtrace.reporters.csv_form import report
from pgtrace.reporters.view import ORDERS, Choice, Order, Part, View
from pgtrace.terminal_text import escape


def rows(
    capture: Capture, part: Part | None = None, view: View | None = None
) -> list[dict[str, str]]:
    text = "".join(report(capture, view or View(part=part)))
    assert all(line.endswith("\r") for line in text.split("\n")[:-1]), "RFC 4180"
    return list(csv.DictReader(io.StringIO(text, newline="")))


def test_statements_have_numbers_without_units() -> None:
    slow = some_query(text="select 1", query_id=1, io=[DEVICE], calls=7)
    fast = some_query(text="select 2", query_id=2, io=[CACHED], calls=None, latency=None)
    first, second = rows(some_capture(some_backend(queries=[fast, slow])))
    assert (first["statement"], second["statement"]) == ("select 1", "select 2")
    assert int(first["device_ns"]) == DEVICE.total_ns
    assert (float(first["share"]), int(first["reads"])) == (1, DEVICE.count)
    assert (first["calls"], second["calls"]) == ("7", "")
    assert float(first["per_call_ns"]) == DEVICE.total_ns / 7


def test_each_kind_of_row_has_its_table_whole() -> None:
    many = [
        some_reads([(1000, 1)], source="device", kind="heap", relation=f"public.t{n}")
        for n in range(25)
    ]
    taken = some_capture(some_backend(io=many), Backend(8, "walwriter"))
    relations = rows(taken, "relations")
    assert [row["relation"] for row in relations] == sorted(
        f"public.t{n} (heap)" for n in range(25)
    )
    backends = rows(taken, "backends")
    assert [row["pid"] for row in backends] == ["5167", "8"]
    assert [row["datname"] for row in backends] == ["digoal", ""]
    assert [row["reads"] for row in backends] == ["25", "0"]


@pytest.mark.parametrize("order", ORDERS)
def test_relations_and_backends_have_the_mean_of_their_reads_and_bytes(order: Order) -> None:
    """Both, whatever they are sorted by; and of no reads there is no mean."""
    reads = [
        some_reads([(1_000, 3)], kind="heap", relation="public.t"),
        some_reads([(9_000, 1)], source="device", kind="heap", relation="public.t"),
    ]
    taken = some_capture(some_backend(io=reads), Backend(8, "walwriter"))
    (relation,) = rows(taken, view=View(part="relations", choice=Choice(order=order)))
    busy, idle = rows(taken, view=View(part="backends", choice=Choice(order=order)))
    for row in relation, busy:
        assert (float(row["per_read_ns"]), int(row["bytes"])) == (3_000, 4 * 8192)
    assert (idle["reads"], idle["per_read_ns"], idle["bytes"]) == ("0", "", "0")


def test_what_was_not_measured_is_empty_and_not_0() -> None:
    unknown = some_query(io=[some_reads([(1000, 1)], source="unknown")])
    (row,) = rows(some_capture(some_backend(queries=[unknown])))
    assert row["device_ns"] == row["share"] == ""


def test_rows_are_in_the_order_that_is_asked_for() -> None:
    often = some_query(text="often", query_id=1, io=[CACHED], calls=9)
    slow = some_query(text="slow", query_id=2, io=[DEVICE], calls=1)
    taken = some_capture(some_backend(queries=[slow, often]))
    found = rows(taken, view=View(choice=Choice(order="calls")))
    assert [row["statement"] for row in found] == ["often", "slow"]


@given(st.text(st.characters(exclude_categories=["Cs"]), min_size=1))
def test_no_text_of_others_is_run_by_a_spreadsheet_or_breaks_a_row(name: str) -> None:
    (row,) = rows(some_capture(some_backend(application_name=name)), "backends")
    shown = row["application_name"]
    assert not shown.startswith(("=", "+", "-", "@", "\t", "\r"))
    assert shown.removeprefix("'") == escape(name).removeprefix("'")


def test_a_table_without_rows_is_said() -> None:
    with pytest.raises(UsageError, match="no statements in it"):
        list(report(some_capture(), View()))
