"""`pgtrace lab buffers` with a small table: each block is found at one of three levels, the ring of
a scan has the size that PostgreSQL's own rules give it, and what cannot go well is refused at once.
"""

import os
import pwd
import signal
import subprocess
from pathlib import Path

import pytest

from child import OWN_MOUNTS
from lab_results import details
from pgtrace.lab import result_file
from pgtrace.lab.buffers.figures import hits_of_scans, seen, table_reads, touched
from pgtrace.model import encoding
from pgtrace.model.lab_result import Cell, Finding, Result
from pgtrace_command import PGTRACE, Pgtrace, run

pytestmark = pytest.mark.pg("15")

ROWS = 2_000
RUNS = 2
BLOCK = 8192
SIZES = {"128kB": 16, "4MB": 512, "64MB": 8192}
STATE = Path("/run/pgtrace")
CONTROL = Path("/usr/share/postgresql/15/extension/pg_prewarm.control")


@pytest.fixture(scope="module")
def result(disk_directory: Path) -> Result:
    place = disk_directory / "buffers"
    place.mkdir()
    user = pwd.getpwnam("postgres")
    os.chown(place, user.pw_uid, user.pw_gid)
    file = disk_directory / "buffers.json"
    sizes = ",".join(SIZES)
    command = [*PGTRACE, "lab", "buffers", "--shared-buffers", sizes, "--rows", f"{ROWS}"]
    command += ["--runs", f"{RUNS}", "--storage", f"disk={place}", "-o", str(file)]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=900, check=False)
    assert ended.returncode == 0, ended.stderr
    assert list(place.iterdir()) == []
    place.rmdir()
    found = result_file.load_any(file)
    file.unlink()
    assert isinstance(found, Result)
    return found


def cells(result: Result, size: str, state: str) -> list[Cell]:
    found = [c for c in result.cells if (c.shared_buffers, c.state) == (size, state)]
    assert [cell.run for cell in found] == list(range(1, RUNS + 1))
    return found


def named(result: Result, name: str, **wanted: object) -> list[Finding]:
    every = [f for f in result.findings if f.name == name]
    return [f for f in every if wanted.items() <= details(f).items()]


def test_in_each_cell_hits_and_blocks_read_are_those_that_the_query_touched(
    result: Result,
) -> None:
    assert len(result.cells) == RUNS * len(SIZES) * 3
    for cell in result.cells:
        assert seen(cell) == touched(cell) == ROWS
        assert sum(read.blocks for read in table_reads(cell)) == cell.shared_reads
    (finding,) = named(result, "blocks")
    assert details(finding) == {"unlike": 0}


def test_levels_are_those_that_each_state_implies(result: Result) -> None:
    for size in SIZES:
        for cell in cells(result, size, "cold"):
            assert cell.resident_before == 0
            asked = sum(read.device_bytes for read in table_reads(cell))
            assert asked == pytest.approx(ROWS * BLOCK, rel=0.01)
            assert cell.shared_hits == 0
        for state in "cached", "prewarmed":
            for cell in cells(result, size, state):
                assert cell.resident_before == 1
                assert not any(read.device_bytes for read in table_reads(cell))


def test_where_the_table_fits_a_prewarmed_scan_reads_nothing(result: Result) -> None:
    for cell in cells(result, "64MB", "prewarmed"):
        assert (cell.shared_hits, cell.shared_reads, cell.io) == (ROWS, 0, [])
        assert cell.io_timing_s == 0


def test_16_buffers_never_give_more_hits_than_explain_shows(result: Result) -> None:
    for cell in (c for c in result.cells if c.shared_buffers == "128kB"):
        assert cell.shared_hits is not None
        read = sum(read.blocks for read in table_reads(cell))
        assert ROWS - read <= cell.shared_hits < SIZES["128kB"]
    # What pg_prewarm put there last, 14 pages as in the published experiment, is found
    assert all(c.shared_hits for c in cells(result, "128kB", "prewarmed"))


def test_explains_timing_encloses_the_reads(result: Result) -> None:
    for cell in result.cells:
        took_s = sum(read.total_ns for read in table_reads(cell)) / 1e9
        assert cell.io_timing_s is not None
        assert cell.io_timing_s > took_s if took_s else cell.io_timing_s == 0
    for size in SIZES:
        (finding,) = named(result, "io_timing", shared_buffers=size, state="cached")
        traced, explained = finding.details.traced_ns, finding.details.explained_ns
        assert finding.value == pytest.approx(explained - traced)
        assert finding.details.blocks_a_read == pytest.approx(1)
        assert 1 < finding.details.clock_ns < 100_000


@pytest.mark.parametrize(("size", "ring"), [("128kB", 2), ("4MB", 32)])
def test_hits_grow_by_the_ring_of_the_scan_before(result: Result, size: str, ring: int) -> None:
    """256 kB, 32 blocks, and never more than an eighth of the buffers."""
    for state in "cold", "cached":
        for cell in cells(result, size, state):
            assert hits_of_scans(cell)[:3] == [0, ring, 2 * ring]
    (finding,) = named(result, "ring", shared_buffers=size)
    assert (finding.value, finding.details.computed) == (ring, ring)
    assert "as computed" in finding.verdict


def test_a_table_of_a_quarter_or_less_has_no_ring(result: Result) -> None:
    for cell in cells(result, "64MB", "cached"):
        assert hits_of_scans(cell) == [0, *[ROWS] * 4]
    (finding,) = named(result, "ring", shared_buffers="64MB")
    assert "no ring" in finding.verdict
    assert "which is all" in finding.verdict


def test_first_touches_of_memory_are_counted_where_there_is_no_ring(result: Result) -> None:
    """Two pages of memory to a buffer; in a ring of 32 buffers only theirs."""
    for cell in cells(result, "64MB", "cached"):
        assert cell.page_faults is not None
        assert cell.page_faults >= ROWS
    for cell in cells(result, "4MB", "cached"):
        assert cell.page_faults is not None
        assert cell.page_faults < ROWS / 2


def test_every_two_states_and_sizes_are_compared(result: Result) -> None:
    assert len(named(result, "state")) == 2 * len(SIZES)
    assert len(named(result, "size")) == 3 * 3
    assert all(f.units == RUNS for f in named(result, "state") + named(result, "size"))


def test_the_report_has_levels_and_scans(result: Result, tmp_path: Path) -> None:
    file = tmp_path / "again.json"
    file.write_bytes(encoding.encode(result))
    shown = run("report", file)
    assert shown.code == 0, shown.err
    for words in (
        "disk, shared_buffers 128kB\n  16 buffers; ",
        f"In all {len(result.cells)} scans hits and blocks read are the blocks",
        "cached: 0, 32, 64, 96, 128.",
        "One look at the clock",
    ):
        assert words in shown.out
    assert run("report", "--format", "html", file).code == 0


# What cannot go well


@pytest.mark.parametrize(
    ("size", "words"),
    [
        ("many", 'PostgreSQL says: invalid value for parameter "shared_buffers": "many"'),
        ("64kB", 'outside the valid range for parameter "shared_buffers"'),
        ("", "argument --shared-buffers: it is empty"),
        ("512GB", "is more than the memory that is available"),
        ("1MB,1024kB", "are one size"),
    ],
)
def test_a_size_that_cannot_be_is_refused_before_any_work(size: str, words: str) -> None:
    ended = run("-v", "lab", "buffers", "--shared-buffers", size)
    assert (ended.code, ended.out) == (2, "")
    assert words in ended.err
    assert "Preparing" not in ended.err


def test_a_table_that_the_page_cache_cannot_hold_is_refused() -> None:
    ended = run("lab", "buffers", "--shared-buffers", "1MB", "--rows", 1 << 32)
    assert ended.code == 2
    assert "--rows" in ended.err


def test_a_directory_in_memory_is_refused() -> None:
    ended = run("lab", "buffers", "--storage", "ram=/dev/shm")
    assert ended.code == 2
    assert "nothing is ever cold" in ended.err


@pytest.mark.skipif(not CONTROL.is_file(), reason=f"there is no {CONTROL}")
def test_without_pg_prewarm_the_package_is_named() -> None:
    """Hidden in a mount namespace of pgtrace's own."""
    hidden = f'mount --bind /dev/null {CONTROL}; exec "$@"'
    command = [*OWN_MOUNTS, "sh", "-ec", hidden, "sh", *PGTRACE]
    ended = run("lab", "buffers", "--rows", 10, command=command)
    assert ended.code == 5
    assert f"no pg_prewarm.control in {CONTROL.parent}" in ended.err
    assert "postgresql-15" in ended.err
    assert "postgresql15-contrib" in ended.err


def test_an_interrupted_one_keeps_the_runs_that_were_whole(tmp_path: Path) -> None:
    file = tmp_path / "partial.json"
    options = "--shared-buffers", "1MB", "--rows", 100, "--runs", 50, "-o", file
    with Pgtrace("-v", "lab", "buffers", *options) as started:
        started.wait_for("run 2, server")
        ended = started.stop(signal.SIGINT)
    assert ended.code == 0, ended.err
    found = result_file.load_any(file)
    assert isinstance(found, Result)
    assert found.partial
    assert {cell.run for cell in found.cells} == {1}
    assert len(found.cells) == 3
    assert not (STATE / f"lab-{started.pid}.json").exists()
