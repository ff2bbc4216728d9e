"""`pgtrace lab pages` on simulated storage, in memory and on tmpfs: what it measures, and that
another user can look at it again."""

import itertools
import subprocess
import sys
import time
from collections import Counter
from datetime import datetime
from pathlib import Path
from statistics import mean

import pytest

from fix_storage import Request, Simulated, SimulatedSsd, SimulatedStorage, lower_quartile
from lab_results import details
from lab_runs import BLOCK, blocks, in_memory, lab, loaded, of, usable
from pgtrace.lab.core import benchmark_table
from pgtrace.lab.core.page_cache import residency
from pgtrace.model import encoding
from pgtrace.model.histogram import Histogram
from pgtrace.model.lab_result import Cell, Finding, Result
from pgtrace_command import run
from scans import histogram

# Experiments measure time, on a CPU of their own
pytestmark = [pytest.mark.pg("15"), pytest.mark.alone, pytest.mark.usefixtures("awake_cpus")]

ROWS = 50_000
RUNS = 3
SSD_US = 500


@pytest.fixture(scope="module")
def ssd(simulated: Simulated) -> SimulatedSsd:
    return simulated(latency_us=SSD_US)


@pytest.fixture(scope="module")
def measured(
    ssd: SimulatedSsd, simulated_hdd: SimulatedStorage, tmp_path_factory: pytest.TempPathFactory
) -> Result:
    """A simulated HDD, a simulated SSD under two names, memory and tmpfs, in one run."""
    file = tmp_path_factory.mktemp("lab") / "pages.json"
    with in_memory() as tmpfs:
        places = {
            "hdd": usable(simulated_hdd.directory),
            "ssd": usable(ssd.directory),
            "again": usable(ssd.directory),
            "tmpfs": tmpfs,
        }
        named = itertools.chain.from_iterable(
            ("--storage", f"{name}={place}") for name, place in places.items()
        )
        sizes = "--rows", ROWS, "--runs", RUNS
        ended = lab("pages", *named, "--memory", *sizes, "-o", file)
        for place in places.values():
            assert list(place.iterdir()) == []
    assert "Wrote" in ended.stderr
    return loaded(file)


def requests_of(result: Result, device: SimulatedStorage, cell: Cell) -> list[Request]:
    """Its device's reads while it ran; the clocks of the log and of the result agree to 5 ms."""
    assert cell.began_s is not None
    offset = time.time() - time.monotonic()
    began = datetime.fromisoformat(result.started).timestamp() + cell.began_s - offset
    first, last = (began - 0.005) * 1e9, (began + cell.elapsed_s + 0.005) * 1e9
    return [r for r in device.requests() if r.kind == "read" and first <= r.start_ns <= last]


def mode_ns(found: Histogram) -> int:
    """Where the octave with most reads begins."""
    buckets = found.to_data().buckets
    return max(
        (low for low, _, _ in buckets),
        key=lambda edge: sum(n for low, _, n in buckets if edge <= low < edge * 2),
    )


def test_every_run_measures_every_storage_by_both_queries(measured: Result) -> None:
    names = ["hdd", "ssd", "again", "tmpfs", "memory"]
    assert [storage.name for storage in measured.storages] == names
    wanted = set(itertools.product(names, ("sequential", "random")))
    orders = []
    for number in range(1, RUNS + 1):
        order = [(c.storage, c.pattern) for c in measured.cells if c.run == number]
        assert set(order) == wanted
        assert len(order) == len(wanted)
        orders.append(order)
    assert [[tuple(each) for each in order] for order in measured.options.order] == orders
    assert len({tuple(order) for order in orders}) > 1, "drawn anew for each run"
    assert not measured.partial


def test_reads_are_the_blocks_that_explain_counts(measured: Result) -> None:
    for cell in measured.cells:
        own = [r for r in cell.io if r.kind in ("heap", "index")]
        assert blocks(own) == blocks(cell.io) == cell.shared_reads
        assert {r.tablespace for r in own} == {cell.storage}
        assert {r.scope for r in cell.io} == {"query"}
        kinds = {"heap"} if cell.pattern == "sequential" else {"heap", "index"}
        assert {r.kind for r in own} == kinds
        assert cell.rows == (ROWS if cell.pattern == "sequential" else pytest.approx(5000, rel=0.1))
        assert 0 < sum(r.total_ns for r in own) < cell.elapsed_s * 1e9
        assert cell.cpu_s is not None and 0 < cell.cpu_s < cell.elapsed_s
    sequential = of(measured, "ssd", "sequential")[0]
    assert blocks(sequential.io) * BLOCK == measured.options.table_bytes
    assert measured.probes.shortest_ns == min(r.latency.min for c in measured.cells for r in c.io)
    assert measured.lost.read == measured.lost.queries == 0


def test_every_table_holds_the_same_bytes(measured: Result) -> None:
    for pattern in "sequential", "random":
        sizes = {sum(r.bytes for r in c.io) for c in measured.cells if c.pattern == pattern}
        assert len(sizes) == 1
        assert len({c.rows for c in measured.cells if c.pattern == pattern}) == 1


def test_cold_and_cached_are_proven_before_each_run(measured: Result) -> None:
    for cell in measured.cells:
        on_device = cell.storage in ("hdd", "ssd", "again")
        assert cell.state == ("cold" if on_device else "cached")
        assert cell.resident_before == (0 if on_device else 1)
        sources = {r.source for r in cell.io}
        assert ("device" in sources) == on_device
        device_bytes = sum(r.device_bytes for r in cell.io)
        assert device_bytes >= sum(r.bytes for r in cell.io) if on_device else not device_bytes


def test_device_reads_are_those_that_the_device_logged(
    measured: Result, ssd: SimulatedSsd, simulated_hdd: SimulatedStorage
) -> None:
    for name, device in (("ssd", ssd), ("again", ssd), ("hdd", simulated_hdd)):
        for pattern in "sequential", "random":
            for cell in of(measured, name, pattern):
                logged = requests_of(measured, device, cell)
                assert sum(r.device_bytes for r in cell.io) == sum(r.length for r in logged)
                assert cell.device_requests == len(logged) > 0


def random_device_reads(result: Result, storage: str) -> Histogram:
    return histogram(
        [r for c in of(result, storage, "random") for r in c.io if r.source == "device"]
    )


def test_the_ssds_time_is_that_of_its_random_reads(measured: Result, ssd: SimulatedSsd) -> None:
    """What the device's own log has of them, and what this host adds, as a program sees it that
    times its own reads; the lower quartile.
    """
    timed = ssd.timed(BLOCK)
    assert SSD_US * 1000 * 0.95 <= timed.device_ns <= SSD_US * 1000 * 1.3
    added = timed.reader_ns - timed.device_ns
    logged = lower_quartile(
        [
            request.duration_ns
            for cell in of(measured, "ssd", "random")
            for request in requests_of(measured, ssd, cell)
            if request.length == BLOCK
        ]
    )
    found = random_device_reads(measured, "ssd").percentile(25)
    assert found == pytest.approx(logged + added, rel=0.1)


def test_the_hdds_times_are_those_of_the_distances_that_were_read(
    measured: Result, simulated_hdd: SimulatedStorage
) -> None:
    """The mode, of requests of one block: longer ones were read ahead of need. And all of them
    together, as a disk with one head serves one after the other, while somebody waits.
    """
    model, found, together = Histogram(), Histogram(), []
    for cell in of(measured, "hdd", "random"):
        requests = requests_of(measured, simulated_hdd, cell)
        for request in requests:
            if request.length == BLOCK:
                model.add(request.model_ns)
        waiting = [r for r in cell.io if r.source in ("device", "wait")]
        found += histogram([r for r in waiting if r.source == "device"])
        together.append(sum(r.total_ns for r in waiting) / sum(r.model_ns for r in requests))
    assert mode_ns(found) == pytest.approx(mode_ns(model), rel=0.2)
    assert min(together) == pytest.approx(1, rel=0.2), "of the run that was disturbed least"


def test_a_sequential_scan_of_a_disk_has_a_hump_of_the_cache_and_a_tail_of_the_device(
    measured: Result,
) -> None:
    counts: Counter[str] = Counter()
    times: Counter[str] = Counter()
    for reads in (r for c in of(measured, "hdd", "sequential") for r in c.io):
        counts[reads.source] += reads.count
        times[reads.source] += reads.total_ns
    waited = {"device", "wait"}
    share_of_reads = sum(counts[s] for s in waited) / counts.total()
    share_of_time = sum(times[s] for s in waited) / times.total()
    assert share_of_reads < 0.1
    assert share_of_time > 0.5
    (served,) = [
        f
        for f in measured.findings
        if (f.name, f.storage, details(f).get("pattern")) == ("served", "hdd", "sequential")
    ]
    assert "waited for the device" in served.verdict


def mean_ns(cells: list[Cell]) -> float:
    reads = [r for c in cells for r in c.io]
    return sum(r.total_ns for r in reads) / blocks(reads)


def test_random_reads_take_longer_on_the_ssd_than_in_memory_and_longest_on_the_hdd(
    measured: Result,
) -> None:
    """By their median, outside the interval: a busy host makes some reads wait anywhere."""
    means = [mean_ns(of(measured, name, "random")) for name in ("memory", "ssd", "hdd")]
    assert means == sorted(means)
    for slow, fast in (("ssd", "memory"), ("hdd", "ssd"), ("hdd", "memory")):
        finding = between(measured, {slow, fast}, "random", "p50 of a read")
        assert finding.storage == slow
        assert finding.low is not None
        assert finding.low > 1
        assert finding.units == RUNS


def between(
    result: Result, names: set[str | None], pattern: str, by: str = "mean per 8 KiB"
) -> Finding:
    (found,) = [
        f
        for f in result.findings
        if f.name == "between"
        and {f.storage, details(f).get("against")} == names
        and (details(f).get("pattern"), details(f).get("by")) == (pattern, by)
    ]
    return found


def test_a_storage_under_two_names_is_not_different(ssd: SimulatedSsd, tmp_path: Path) -> None:
    """By the median: a busy host makes some reads wait, whatever the storage."""
    verdicts = []
    for number in range(3):
        file = tmp_path / f"{number}.json"
        named = [f"--storage={name}={usable(ssd.directory)}" for name in ("one", "other")]
        lab("pages", *named, "--rows", 100_000, "--runs", 4, "-o", file)
        found = between(loaded(file), {"one", "other"}, "random", "p50 of a read")
        verdicts.append(found.verdict)
        if "no difference" in found.verdict:
            return
    pytest.fail(f"{verdicts}")


@pytest.mark.alone  # tests beside it would lose what they look for
def test_dropping_caches_empties_those_of_others_too(
    ssd: SimulatedSsd, disk_directory: Path, tmp_path: Path
) -> None:
    file = disk_directory / "of-others"
    file.write_bytes(bytes(1 << 20))
    subprocess.run(["sync", file], check=True)
    place = usable(ssd.directory)
    options = "--drop-caches", "--rows", 10_000, "--runs", 1, "-o", tmp_path / "F"
    for dropped, given in ((False, options[1:]), (True, (*options, "--force"))):
        file.read_bytes()
        lab("pages", "--storage", f"ssd={place}", *given)
        assert (residency(file)[0] == 0) == dropped
        result = loaded(tmp_path / "F")
        assert result.options.drop_caches == dropped
        assert {cell.resident_before for cell in result.cells} == {0}


def test_what_a_storage_is_was_found_out(measured: Result) -> None:
    kinds = {s.name: s for s in measured.storages}
    assert {name for name, s in kinds.items() if s.simulated} == {"hdd", "ssd", "again"}
    assert {s.medium for s in measured.storages} == {"device", "memory", "tmpfs"}
    hdd, ssd = kinds["hdd"].device, kinds["ssd"].device
    assert hdd and ssd
    assert (hdd.rotational, ssd.rotational) == (True, False)
    assert (ssd.filesystem, ssd.read_ahead_kb) == ("ext4", 128)
    assert ssd.queue_depth


def test_another_user_reads_the_file_without_root(measured: Result, tmp_path: Path) -> None:
    """The text is that of root, and the file says the same in every form."""
    file = tmp_path / "again.json"
    file.write_bytes(encoding.encode(measured))
    own = run("report", file)
    assert own.code == 0, own.err
    for word in ("simulated", "hdd", "tmpfs", "memory", benchmark_table.TABLE):
        assert word in own.out
    by_nobody = subprocess.run(
        [sys.executable, "-m", "pgtrace", "report", "-"],
        input=file.read_bytes(),
        capture_output=True,
        user="nobody",
        extra_groups=[],
        check=True,
    )
    assert by_nobody.stdout.decode() == own.out
    assert mean([cell.elapsed_s for cell in measured.cells]) > 0
