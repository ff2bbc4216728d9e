"""The buffers experiment's arithmetic: the ring of a scan, and what is found in made-up runs."""

import re
from typing import Any

import pytest

import html_page
from lab_results import details
from pgtrace.lab import result_report
from pgtrace.lab.buffers.figures import has_ring, ring
from pgtrace.lab.buffers.findings import findings
from pgtrace.lab.buffers.measuring import STATES
from pgtrace.lab.buffers.result import BuffersCell, BuffersOptions, BuffersResult
from pgtrace.model.capture import Host, Io, Lost, Probes, Server, Source
from pgtrace.model.histogram import Histogram
from pgtrace.model.lab_result import Finding, Repeat, Storage

BLOCKS = 1000
IN_18 = {
    "io_combine_limit": "16", "io_max_combine_limit": "16", "effective_io_concurrency": "16",
    "max_connections": "100", "autovacuum_worker_slots": "16", "max_worker_processes": "8",
    "max_wal_senders": "0",
}  # fmt: skip


def made_of(cells: list[BuffersCell], version: str = "15.18", **options: Any) -> BuffersResult:
    sizes = {"128kB": 16, "1MB": 128}
    return BuffersResult(
        partial=False,
        started="2026-11-21T12:00:00.000000Z",
        duration_s=1,
        host=Host("6.1", 2),
        server=Server(version),
        probes=Probes("libbpf", "tracepoint", "usdt"),
        lost=Lost(),
        options=BuffersOptions(shared_buffers=sizes, clock_ns=40.0, **options),
        storages=[Storage("disk", "/srv")],
        cells=cells,
    )


def read(blocks: int, block_ns: int, source: Source = "page_cache", name: str = "t") -> Io:
    latencies = Histogram()
    for _ in range(blocks):
        latencies.add(block_ns)
    return Io(
        source, "sequential", "1", "query", blocks * 8192, blocks, 0,
        latencies.to_data(), kind="heap", relation=name,
    )  # fmt: skip


def cell(size: str, state: Any, run: int, *, factor: float = 1, hits: int = 0) -> BuffersCell:
    reads = BLOCKS - hits
    return BuffersCell(
        "disk", run, BLOCKS * 10e-6 * factor, pattern="sequential", shared_buffers=size,
        state=state, resident_before=0 if state == "cold" else 1, shared_hits=hits,
        shared_reads=reads, io_timing_s=reads * (1500 + run) / 1e9,
        io=[read(reads, 1000), read(3, 9000, name="pg_class")],
        again=[Repeat(0.01, 2 * turn, BLOCKS - 2 * turn, (BLOCKS - 2 * turn) * 1200 / 1e9)
               for turn in (1, 2)],
    )  # fmt: skip


@pytest.fixture
def result() -> BuffersResult:
    slow = {"cold": 20.0, "cached": 2.0, "prewarmed": 1.0}
    return made_of([
        cell(size, state, run, factor=slow[state] * (1 + run / 1000))
        for size in ("128kB", "1MB") for state in STATES for run in range(1, 6)
    ])  # fmt: skip


def named(result: BuffersResult, name: str, **wanted: object) -> list[Finding]:
    every = [f for f in findings(result) if f.name == name]
    return [f for f in every if wanted.items() <= details(f).items()]


@pytest.mark.parametrize(
    ("version", "buffers", "expected"),
    [
        ("15.18", 16, 2),  # an eighth of all
        ("15.18", 128, 16),
        ("15.18", 65_536, 32),  # 256 kB
        ("17.6", 65_536, 32),
        ("18.1", 16, 2),
        ("18.1", 4_096, 32),  # a backend may pin 4,096 / 164 = 24: no more than the least
        ("18.1", 20_000, 121),  # as many as it may pin
        ("18.1", 1 << 20, 32 + 16 * 16),
    ],
)
def test_a_ring_has_the_size_that_the_server_gives_it(
    version: str, buffers: int, expected: int
) -> None:
    settings = IN_18 if version.startswith("18") else {}
    assert ring(made_of([], version, settings=settings), buffers) == expected


def test_only_a_table_of_more_than_a_quarter_has_one() -> None:
    assert not has_ring(16_384, 65_536)
    assert has_ring(16_385, 65_536)


def test_blocks_of_other_relations_are_in_no_level(result: BuffersResult) -> None:
    (finding,) = named(result, "blocks")
    assert (details(finding), finding.units) == ({"unlike": 0}, 30)
    result.cells[0].io[0].blocks -= 1
    (finding,) = named(result, "blocks")
    assert details(finding) == {"unlike": 1}
    assert "999 blocks were seen, EXPLAIN counts 1,000" in finding.verdict


def test_states_and_sizes_are_compared_over_paired_runs(result: BuffersResult) -> None:
    (finding,) = named(result, "state", shared_buffers="128kB", against="cached")
    assert finding.value == pytest.approx(10)
    assert finding.verdict.startswith("cold takes 10.0 to 10.0 times as long as cached")
    for finding in named(result, "size"):
        assert finding.verdict == "no difference larger than 1 %"


def test_the_slower_one_is_named_whichever_it_is(result: BuffersResult) -> None:
    for each in result.cells:
        if each.shared_buffers == "1MB":
            each.elapsed_s *= 3
    (finding,) = named(result, "size", state="cold")
    assert finding.value == pytest.approx(1 / 3)
    assert finding.verdict.startswith("1MB takes 3.00 to 3.00 times as long as 128kB")


def test_explains_timing_is_held_against_the_reads_of_the_table(result: BuffersResult) -> None:
    (finding,) = named(result, "io_timing", shared_buffers="1MB", state="cached")
    assert finding.value == pytest.approx(503)
    assert finding.details.traced_ns == pytest.approx(1000)
    assert finding.details.tracer_ns[0] == pytest.approx(303)
    assert "501 ns to 505 ns more" in finding.verdict


def test_the_growth_of_hits_is_compared_with_the_ring(result: BuffersResult) -> None:
    small, large = named(result, "ring")
    assert (small.value, small.details.computed) == (2, 2)
    assert "as computed" in small.verdict
    assert (large.value, large.details.computed) == (2, 16)
    assert "not the 16 computed" in large.verdict


def test_a_report_fits_and_names_what_was_not_measured(result: BuffersResult) -> None:
    lines = result_report.render(result).splitlines()
    assert max(map(len, lines)) <= 80
    text = "\n".join(lines)
    # no CPU was free: not measured in any state of both sizes
    assert len(re.findall(r"^  \w+ .* \?$", text, re.MULTILINE)) == 2 * len(STATES)
    assert "cached: 0, 2, 4." in text


def test_a_run_that_was_not_cold_is_left_out(result: BuffersResult) -> None:
    result.cells[0].resident_before = 0.5
    assert "Left out: disk, 128kB, cold, run 1" in result_report.render(result)
    (finding,) = named(result, "elapsed", shared_buffers="128kB", state="cold")
    assert finding.units == 4


def test_the_page_has_each_sizes_levels_and_what_was_found(result: BuffersResult) -> None:
    page = html_page.render(result).replace("&nbsp;", " ")
    for size in "128kB", "1MB":
        assert f"disk, shared_buffers {size}: where blocks were found" in page
        assert f"disk, shared_buffers {size}: latencies of reads" in page
    assert page.count(">touched<") == 2
    for finding in findings(result):
        if finding.name != "elapsed":
            words = finding.verdict[1:].replace("'", "&#x27;")
            assert words in page, finding.verdict


def test_what_was_found_on_a_simulated_device_says_so(result: BuffersResult) -> None:
    result.storages[0].simulated = True
    assert all(f.verdict.startswith("simulated: ") for f in findings(result))
