"""`pgtrace lab readahead` on devices of known latency: what it measures, and that every device has
its read-ahead again at whatever end."""

import os
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from statistics import geometric_mean
from typing import NamedTuple

import pytest

from child import children_of
from copied_cluster import CopiedCluster
from fix_awake import timed
from fix_storage import Request, Simulated, SimulatedSsd, private_mounts
from lab_runs import in_memory, lab, loaded, of, usable
from pgtrace.errors import UnsupportedError
from pgtrace.lab.core.storages import Place
from pgtrace.lab.readahead.device_settings import ReadAhead, read_ahead
from pgtrace.lab.readahead.knee import NEAR
from pgtrace.model.capture import Io
from pgtrace.model.lab_result import Cell, Finding, Result
from pgtrace_command import Pgtrace, run, wait_for
from scans import ATTEMPTS, histogram
from servers_user import attack

pytestmark = pytest.mark.pg("15")

ROWS = 6_000
STEPS = (0, 16, 64, 256, 2048)
RUNS = 2
SECTOR = 512


class Measured(NamedTuple):
    """What was found on a device."""

    device: SimulatedSsd
    result: Result
    stderr: str


@pytest.fixture(scope="module", autouse=True)
def own_mounts() -> Iterator[None]:
    """Servers of tests beside these, in mount namespaces made meanwhile, would keep a device."""
    with private_mounts():
        yield


@pytest.fixture(scope="module", params=[2000, 200], ids=["2ms", "200us"])
def measured(
    request: pytest.FixtureRequest, simulated: Simulated, tmp_path_factory: pytest.TempPathFactory
) -> Measured:
    """The sweep on one, and on tmpfs, which cannot be measured."""
    device = simulated(latency_us=request.param)
    file = tmp_path_factory.mktemp("lab") / "readahead.json"
    before = ahead_of(device).sectors()
    with in_memory() as tmpfs:
        ended = lab(
            "readahead", "--storage", f"ssd={usable(device.directory)}",
            "--storage", f"shm={tmpfs}", "--sectors", ",".join(map(str, STEPS)),
            "--rows", ROWS, "--runs", RUNS, "-o", file,
        )  # fmt: skip
    assert ahead_of(device).sectors() == before, "after a normal end"
    return Measured(device, loaded(file), ended.stderr)


def ahead_of(device: SimulatedSsd) -> ReadAhead:
    return read_ahead(Place("ssd", device.directory))


def scans(result: Result, sectors: int) -> list[Cell]:
    return [c for c in of(result, "ssd", "sequential") if c.read_ahead_sectors == sectors]


def finding(result: Result, name: str) -> Finding:
    (found,) = [f for f in result.findings if f.name == name]
    return found


def from_device(reads: list[Io]) -> int:
    return sum(r.device_bytes for r in reads if r.source in ("device", "readahead_issued"))


def requests_of(measured: Measured, cell: Cell) -> list[Request]:
    """Its device's reads while it ran; the clocks of the log and of the result agree to 5 ms."""
    assert cell.began_s is not None
    offset = time.time() - time.monotonic()
    began = datetime.fromisoformat(measured.result.started).timestamp() + cell.began_s - offset
    first, last = (began - 0.005) * 1e9, (began + cell.elapsed_s + 0.005) * 1e9
    all_of_them = measured.device.requests()
    return [r for r in all_of_them if r.kind == "read" and first <= r.start_ns <= last]


@timed
def test_both_queries_ran_cold_at_each_step_in_every_run(measured: Measured) -> None:
    cells = measured.result.cells
    for number in range(1, RUNS + 1):
        made = [(c.read_ahead_sectors, c.pattern) for c in cells if c.run == number]
        assert sorted(made, key=str) == sorted(
            ((s, p) for s in STEPS for p in ("sequential", "random")), key=str
        )
    assert {c.resident_before for c in cells} == {0}
    assert {c.rows for c in cells if c.pattern == "sequential"} == {ROWS}


@timed
def test_the_bytes_asked_of_the_device_are_the_tables(measured: Measured) -> None:
    table = measured.result.options.table_bytes
    for cell in of(measured.result, "ssd", "sequential"):
        assert from_device(cell.io) == pytest.approx(table, rel=0.01)
    assert finding(measured.result, "bytes").value == pytest.approx(1, abs=0.01)
    assert "exactly that at every step" in finding(measured.result, "bytes").verdict


@timed
def test_a_backend_reads_ahead_as_far_as_was_set_for_it(measured: Measured) -> None:
    """Also where the one before it read further: the largest requests are the proof."""
    for sectors in STEPS:
        for cell in scans(measured.result, sectors):
            sizes = [r.length for r in requests_of(measured, cell)]
            assert len(sizes) == cell.device_requests
            assert sum(sizes) == cell.device_read_bytes
            # 4 KiB without read-ahead; a block is read as one request, whatever the read-ahead
            assert max(sizes) == max(sectors * SECTOR, 4096)


@timed
def test_throughput_rises_to_the_knee_that_a_reader_would_name(measured: Measured) -> None:
    times = [geometric_mean(c.elapsed_s for c in scans(measured.result, s)) for s in STEPS]
    # From each step to the next there are a half or a third as many requests, which of 2 ms are
    # nearly all of the time; of 200 µs 126 requests are not: 64 sectors took 19 to 82 ms in twelve
    # scans, 256 sectors 12 to 47
    last = 3 if measured.device.latency_ns > 1_000_000 else 2
    assert times[: last + 1] == sorted(times[: last + 1], reverse=True)
    named = next(s for s, t in zip(STEPS, times, strict=True) if t <= NEAR * min(times))
    knee = finding(measured.result, "knee")
    assert knee.value == named
    assert knee.value in STEPS[last:]
    assert knee.low is not None and knee.high is not None
    assert knee.low <= knee.value <= knee.high
    for name in "turn", "limit":
        assert finding(measured.result, name).verdict


@timed
def test_without_read_ahead_one_hump_tells_the_latency(measured: Measured, tmp_path: Path) -> None:
    """A host that takes the CPU away for longer than a read makes another hump, or a read whose
    process never slept: such a sweep is run once more, of a smaller table.
    """
    seen = []
    for number in range(ATTEMPTS):
        if not (wrong := told_amiss(measured)):
            return
        seen.append(wrong)
        measured = again(measured.device, tmp_path / f"{number}.json")
    pytest.fail(f"{seen}")


def told_amiss(measured: Measured) -> str | None:
    """What the reads without read-ahead tell otherwise than a program that times its own."""
    cells = scans(measured.result, 0)
    reads = [r for c in cells for r in c.io]
    each = sum(c.device_requests or 0 for c in cells) / sum(r.count for r in reads)
    assert each == 2, "of 4 KiB"
    if (sources := {r.source for r in reads}) != {"device"}:
        return f"reads by {sources}"
    humps = [f for f in measured.result.findings if f.name == "hump" and f.details.sectors == 0]
    assert {s for f in humps for s in f.details.by_source} == {"device"}
    # Where a busy host stalled a few, these hold time: no hump of reads
    count = sum(r.count for r in reads)
    large = [f.details.reads for f in humps if f.details.reads > 0.01 * count]
    if len(large) != 1 or large[0] <= 0.97 * count:
        return f"humps of {large} of {count} reads"
    # What a busy host adds is longer reads
    found, timed = histogram(reads).percentile(25), measured.device.timed(4096).reader_ns
    if found != pytest.approx(each * timed, rel=0.1):
        return f"reads of {found} ns, of {each} requests of {timed} ns"
    return None


def again(device: SimulatedSsd, file: Path) -> Measured:
    """The same once more, of a smaller table."""
    place = usable(device.directory)
    few = "--sectors", "0,8", "--rows", 2_000, "--runs", 1
    ended = lab("readahead", "--storage", f"ssd={place}", *few, "-o", file)
    return Measured(device, loaded(file), ended.stderr)


@timed
def test_what_cannot_be_measured_was_said_and_the_other_went_on(measured: Measured) -> None:
    assert "--storage shm: read-ahead cannot be set" in measured.stderr
    assert "tmpfs is memory" in measured.stderr
    assert [s.name for s in measured.result.storages] == ["ssd"]
    assert "tmpfs" in measured.result.options.left_out["shm"]


@timed
def test_random_reads_are_measured_by_the_same_sweep(measured: Measured) -> None:
    cells = of(measured.result, "ssd", "random")
    assert len(cells) == len(STEPS) * RUNS
    assert {c.rows for c in cells} == {cells[0].rows}
    without = [c for c in cells if c.read_ahead_sectors == 0]
    others = [c for c in cells if c.read_ahead_sectors]
    assert min(c.device_requests or 0 for c in without) > max(
        c.device_requests or 0 for c in others
    ), "two requests for a block"
    assert finding(measured.result, "random").verdict


@pytest.mark.apart  # read-ahead is set of the disk that all tests use
def test_on_the_hosts_own_disk_what_cannot_depend_on_its_speed(
    disk_directory: Path, tmp_path: Path
) -> None:
    place = usable(disk_directory)
    try:
        before = read_ahead(Place("disk", place)).sectors()
    except UnsupportedError as error:
        pytest.skip(str(error))
    file = tmp_path / "F"
    lab(
        "readahead", "--storage", f"disk={place}", "--shared-host", "--sectors", "0,256",
        "--rows", ROWS, "--runs", 1, "-o", file,
    )  # fmt: skip
    assert read_ahead(Place("disk", place)).sectors() == before
    result = loaded(file)
    assert not result.storages[0].simulated
    without, ahead = sorted(
        of(result, "disk", "sequential"), key=lambda c: c.read_ahead_sectors or 0
    )
    for cell in without, ahead:
        assert from_device(cell.io) == pytest.approx(result.options.table_bytes, rel=0.01)
    assert {r.source for r in without.io} == {"device"}
    # The device's requests are of anybody
    assert (without.device_requests or 0) >= 2 * sum(r.count for r in without.io)
    assert sum(r.count for r in ahead.io if r.source == "page_cache") > 0
    humps = [f for f in result.findings if f.name == "hump" and f.details.sectors == 0]
    assert humps
    assert all("page_cache" not in f.details.by_source for f in humps)
    place.rmdir()


@pytest.fixture(scope="module")
def quick(simulated: Simulated) -> SimulatedSsd:
    """Mounted before any private namespace is made."""
    return simulated(latency_us=200)


@pytest.fixture
def device(quick: SimulatedSsd, own_state: None) -> SimulatedSsd:
    """One with a read-ahead that no step has."""
    assert ahead_of(quick).disk.name.startswith("loop"), "and not the host's own disk"
    quick.read_ahead(72)
    return quick


def sweep(place: Path, file: Path) -> Pgtrace:
    return Pgtrace(
        "lab", "readahead", "-v", "--storage", f"ssd={place}", "--sectors", "16,64,256",
        "--rows", 1000, "--runs", 3, "-o", file,
    )  # fmt: skip


def changed(device: SimulatedSsd) -> bool:
    return int(ahead_of(device).sectors()) != 144


def disturb(device: SimulatedSsd) -> None:
    """Set what nobody else does, unless it is so: the experiment notices, but between its steps."""
    if int(ahead_of(device).sectors()) not in (144, 160):
        device.read_ahead(80)


@pytest.mark.parametrize("end", ["Ctrl-C", "an exception", "kill -9"])
def test_read_ahead_comes_back(device: SimulatedSsd, tmp_path: Path, end: str) -> None:
    place = usable(device.directory)
    with sweep(place, tmp_path / "F") as started:
        started.wait_for("2 of")
        assert changed(device)
        if end == "an exception":
            wait_for(lambda: disturb(device) or started.code is not None)
        else:
            started.send(signal.SIGINT if end == "Ctrl-C" else signal.SIGKILL)
        ended = started.ended()
    if end == "kill -9":
        assert ended.code == -signal.SIGKILL
        assert changed(device)
        restored = run("lab", "restore")
        assert restored.code == 0, restored.err
        assert "read_ahead_kb to 72 again" in restored.out
    elif end == "an exception":
        assert ended.code == 1
        assert "somebody else sets it" in ended.err
    else:
        assert ended.code == 130, ended.err
    assert not changed(device)
    assert list(place.iterdir()) == []
    place.rmdir()


def called(pid: int) -> bytes:
    """Nothing, if it has ended, as pg_ctl soon does."""
    with suppress(FileNotFoundError, ProcessLookupError):
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    return b""


def test_it_comes_back_while_the_servers_user_keeps_the_server(
    device: SimulatedSsd, tmp_path: Path
) -> None:
    """By stopping what removes it. Once that goes on, nothing is left."""
    place = usable(device.directory)
    with sweep(place, tmp_path / "F") as started:
        started.wait_for("2 of")
        assert changed(device)
        (keeper,) = [
            child for child in children_of(started.pid)
            if b"pgtrace-keeper" in called(child)
        ]  # fmt: skip
        attack('kill -STOP "$1"', keeper)
        started.send(signal.SIGINT)
        wait_for(lambda: not changed(device), seconds=60)
        assert started.code is None
        attack('kill -CONT "$1"', keeper)
        ended = started.ended()
    assert ended.code == 130, ended.err
    assert not changed(device)
    assert list(place.iterdir()) == []
    place.rmdir()


def test_a_server_that_was_there_gets_a_fresh_backend_for_each_step(
    quick: SimulatedSsd, tmp_path: Path
) -> None:
    """One whose shared buffers hold no more than a part of the table."""
    file, place = tmp_path / "F", usable(quick.directory)
    with CopiedCluster({"shared_buffers": "1MB"}, directory=Path("/var/tmp")) as server:
        to = "readahead", "--dsn", server.dsn(), "--storage", f"ssd={place}"
        ended = run("lab", *map(str, to), "--rows", "1000", "--sectors", "0,64")
        assert ended.code == 2
        assert "would hold most of the table" in ended.err
        lab(*to, "--sectors", "0,64", "--rows", 20_000, "--runs", 2, "-o", file)
    result = loaded(file)
    assert result.options.restarted is False
    for sectors in (0, 64):
        for cell in scans(result, sectors):
            own = sum(r.bytes for r in cell.io if r.kind == "heap")
            assert own > 0
            assert from_device(cell.io) == pytest.approx(own, rel=0.05), "no other was missing"
            sizes = [r.length for r in requests_of(Measured(quick, result, ""), cell)]
            assert max(sizes) == max(sectors * SECTOR, 4096)
    rows = [c.rows for c in of(result, "ssd", "random")]
    assert len(set(rows)) > 1, "each reads rows of its own"
    assert list(place.iterdir()) == []
    place.rmdir()


def refused(*arguments: object) -> tuple[int, str]:
    ended = run("lab", "readahead", *arguments)
    assert ended.out == ""
    return ended.code, ended.err


def test_a_device_that_others_use_is_refused(tmp_path: Path) -> None:
    code, said = refused("--storage", f"here={tmp_path}")
    assert code == 2, said
    assert "--shared-host" in said
    assert "is also used by the system itself, /" in said


def test_another_file_system_on_the_device_is_another_user(
    quick: SimulatedSsd, tmp_path: Path
) -> None:
    """Not a second mount of the same one."""
    from pgtrace.lab.readahead.device_settings import users

    device = quick
    ahead, number = ahead_of(device), device.directory.stat().st_dev
    assert list(users(ahead.disk, number)) == []
    with private_mounts():
        subprocess.run(["mount", "--bind", device.directory, tmp_path], check=True)
        assert list(users(ahead.disk, number)) == []
        assert list(users(ahead.disk, os.makedev(0, 0))) == sorted(
            map(str, (device.directory, tmp_path))
        )


def test_storages_without_a_device_are_refused_by_name(tmp_path: Path) -> None:
    lower, upper, work, merged = (tmp_path / n for n in ("lower", "upper", "work", "merged"))
    for directory in (lower, upper, work, merged):
        directory.mkdir()
    with in_memory() as tmpfs, private_mounts():
        options = f"lowerdir={lower},upperdir={upper},workdir={work}"
        subprocess.run(["mount", "-t", "overlay", "-o", options, "o", merged], check=True)
        code, said = refused("--storage", f"a={tmpfs}", "--storage", f"b={merged}")
    assert code == 5, said
    assert "tmpfs is memory" in said
    assert "overlay" in said
    assert "name a directory on a block device" in said
