"""Figures of the pages experiment are sums over its cells, and only over those that count."""

from itertools import permutations
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

import lab_results
from pgtrace.lab import result_file
from pgtrace.lab.core import figures, valid_runs
from pgtrace.lab.pages.result import PagesResult
from pgtrace.model.buckets import bucket_bounds, bucket_index
from pgtrace.model.histogram import Histogram
from pgtrace.model.lab_result import QueryCell

PUBLISHED = Path(__file__).parents[2] / "docs" / "experiments"
SOME = st.builds(
    lab_results.pages_result,
    storages=st.sampled_from(
        [
            list(chosen)
            for n in (1, 2)
            for chosen in permutations([lab_results.HDD, lab_results.DISK, lab_results.MEMORY], n)
        ]
    ),
    runs=st.integers(0, 2),
    seed=st.integers(0, 9),
)


@given(SOME)
def test_parts_add_up_to_the_whole(result: PagesResult) -> None:
    for each in figures.figures(result):
        for parts in (each.by_source, each.by_kind, each.by_size, each.by_order, each.by_performer):
            assert sum(part.reads for part in parts.values()) == each.all.reads
            assert sum(part.bytes for part in parts.values()) == each.all.bytes
            assert sum(part.total_ns for part in parts.values()) == each.all.total_ns


@given(SOME)
def test_nothing_is_left_out_of_all_figures_together(result: PagesResult) -> None:
    reads = [r for cell in result.cells for r in cell.io]
    found = figures.figures(result)
    assert sum(each.all.reads for each in found) == sum(r.count for r in reads)
    assert sum(each.all.total_ns for each in found) == sum(r.total_ns for r in reads)
    assert sum(each.runs for each in found) == len(result.cells)


def with_cell(**changes: object) -> PagesResult:
    """A result whose first cell, hdd's sequential run 1, is changed."""
    result = lab_results.pages_result([lab_results.HDD], runs=2)
    result.cells[0] = msgspec.structs.replace(result.cells[0], **changes)
    return result


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"resident_before": 0.34}, "34.0 % of its pages were cached when it began, not cold"),
        ({"resident_before": 0.0101}, "1.0 % of its pages were cached when it began, not cold"),
        (
            {"state": "cached", "resident_before": 0.5},
            "50.0 % of its pages were cached when it began, not all",
        ),
    ],
)
def test_a_run_that_did_not_begin_as_it_should_is_left_out(
    changes: dict[str, object], why: str
) -> None:
    result = with_cell(**changes)
    assert [(out.cell.run, out.why) for out in valid_runs.left_out(result)] == [(1, why)]
    assert [each.runs for each in figures.figures(result)] == [1, 2]


@pytest.mark.parametrize(
    "changes", [{"resident_before": 0.01}, {"state": "cached", "resident_before": 0.99}]
)
def test_a_run_at_the_edge_counts(changes: dict[str, object]) -> None:
    assert valid_runs.left_out(with_cell(**changes)) == []


def test_a_run_that_nobody_looked_at_counts_and_is_told() -> None:
    result = with_cell(resident_before=None)
    assert [cell.run for cell in valid_runs.unproven(result)] == [1]
    assert [each.runs for each in figures.figures(result)] == [2, 2]


def test_cells_of_the_planners_sweep_are_none_of_these() -> None:
    result = result_file.load_any(PUBLISHED / "random_page_cost.json")
    assert isinstance(result, PagesResult)
    assert (len(result.cells), len(result.plans)) == (10, 840)
    assert [each.runs for each in figures.figures(result)] == [5, 5]
    assert valid_runs.left_out(result) == []


def test_a_block_is_8_kib_whatever_the_servers_is() -> None:
    (reads,) = lab_results.pages_result([lab_results.MEMORY], runs=1).cells[0].io
    large = msgspec.structs.replace(reads, bytes=4 * reads.bytes, blocks=reads.blocks)
    cell = QueryCell("x", 1, elapsed_s=1.0, pattern="random", cpu_s=0.5, rows=1000, io=[large])
    assert valid_runs.block_ns(cell) == pytest.approx(reads.total_ns / (4 * reads.count))
    assert valid_runs.page_ns(cell) == pytest.approx(1e9 / (4 * reads.count))
    assert valid_runs.tuple_ns(cell) == pytest.approx(500_000)


@given(st.lists(st.integers(1, 10**9), min_size=1, max_size=50))
def test_the_median_lies_in_its_bucket(times: list[int]) -> None:
    latencies = Histogram()
    for ns in times:
        latencies.add(ns)
    (reads,) = lab_results.pages_result([lab_results.MEMORY], runs=1).cells[0].io
    cell = QueryCell(
        "x",
        1,
        1.0,
        pattern="random",
        io=[msgspec.structs.replace(reads, latency=latencies.to_data())],
    )
    low, high = bucket_bounds(bucket_index(sorted(times)[(len(times) - 1) // 2]))
    assert low <= (valid_runs.median_ns(cell) or 0) <= high
    assert valid_runs.median_ns(QueryCell("x", 1, 1.0, pattern="random")) is None


def test_reads_outside_the_query_and_writes_do_not_count() -> None:
    (reads,) = lab_results.pages_result([lab_results.MEMORY], runs=1).cells[0].io
    outside = msgspec.structs.replace(reads, scope="outside")
    write = msgspec.structs.replace(reads, operation="write")
    assert valid_runs.reads_of(
        QueryCell("x", 1, 1.0, pattern="random", io=[outside, reads, write])
    ) == [reads]
    assert (
        valid_runs.block_ns(QueryCell("x", 1, 1.0, pattern="random", io=[outside, write])) is None
    )
    assert valid_runs.page_ns(QueryCell("x", 1, 1.0, pattern="random")) is None
