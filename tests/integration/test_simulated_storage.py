"""scripts/storage: a simulated device is as fast as was said, tells all, and leaves nothing."""

import mmap
import os
import random
import signal
import subprocess
import time
from pathlib import Path
from statistics import median

import pytest

from fix_storage import SCRIPT, SimulatedStorage, run_storage, simulated_device
from pgtrace.postgres.storage import storage
from pgtrace_command import wait_for
from scans import ATTEMPTS

BLOCK = 8192
BLOCKS = 2048
READS = 331
TOLERANCE = 0.15


def filled(directory: Path) -> Path:
    """A file with nothing but data that is on the device."""
    path = directory / "file"
    with path.open("wb") as file:
        os.posix_fallocate(file.fileno(), 0, BLOCKS * BLOCK)
        file.write(os.urandom(BLOCKS * BLOCK))
        os.fsync(file.fileno())
    return path


def read_direct(path: Path, blocks: list[int], size: int = BLOCK) -> list[int]:
    """Read past the page cache; the nanoseconds of each read."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECT)
    times = []
    with mmap.mmap(-1, size) as buffer:
        for block in blocks:
            begin = time.monotonic_ns()
            assert os.preadv(descriptor, [buffer], block * size) == size
            times.append(time.monotonic_ns() - begin)
    os.close(descriptor)
    return times


def is_left(directory: Path) -> list[str]:
    """What there still is of a simulated device at a directory."""
    name = os.fsencode(directory)
    left = [
        line for line in Path("/proc/mounts").read_text().splitlines() if f" {directory} " in line
    ]
    left += [
        str(process)
        for process in Path("/proc").glob("[0-9]*")
        if b"\0ssd\0" in (line := command_line(process)) and name in line
    ]
    return left + loops()


def command_line(process: Path) -> bytes:
    try:
        return (process / "cmdline").read_bytes()
    except OSError:
        return b""  # ended meanwhile


def loops() -> list[str]:
    """The simulated loop devices of this machine."""
    found = []
    for file in Path("/sys/block").glob("loop*/loop/backing_file"):
        try:
            if "simulated-" in file.read_text():
                found.append(str(file))
        except OSError:
            continue  # detached meanwhile
    return found


@pytest.fixture
def others() -> list[str]:
    """Devices that are there before: other tests', and those of who uses this machine too."""
    return loops()


@pytest.mark.parametrize("latency_us", [200, 2000])
def test_each_request_takes_what_was_chosen(tmp_path: Path, latency_us: int) -> None:
    """By the clock of the reader and by the log. What the way to the device takes is measured
    when it is made, which others on this machine may disturb.
    """
    tried = []
    for _ in range(ATTEMPTS):
        with simulated_device(tmp_path / "ssd", latency_us, "128M") as device:
            path = filled(device.directory)
            times = {}
            for size in (4096, BLOCK, 16 * BLOCK):
                blocks = [random.randrange(BLOCKS * BLOCK // size) for _ in range(READS)]
                times[f"{size}"] = median(read_direct(path, blocks, size))
                logged = [read for read in device.requests()[-READS:] if read.length == size]
                times[f"{size} logged"] = median(read.duration_ns for read in logged)
        if all(abs(ns / device.latency_ns - 1) <= TOLERANCE for ns in times.values()):
            return
        tried.append(times)
    pytest.fail(f"median times in ns: {tried}")


def test_the_log_has_each_request(simulated_ssd: SimulatedStorage) -> None:
    path = filled(simulated_ssd.directory)
    read_direct(path, [0])  # where the file lies has been read, then
    blocks = [random.randrange(BLOCKS) for _ in range(READS)]
    mark = len(simulated_ssd.requests())
    begin = time.monotonic_ns()
    read_direct(path, blocks)
    end = time.monotonic_ns()
    reads = simulated_ssd.reads_since(mark)
    assert [read.length for read in reads] == [BLOCK] * READS
    starts = {read.offset - block * BLOCK for read, block in zip(reads, blocks, strict=True)}
    assert len(starts) == 1  # where the file begins on the device
    assert all(begin < read.start_ns < end for read in reads)
    took = sum(read.duration_ns for read in reads)
    assert (1 - TOLERANCE) * took < end - begin

    said = run_storage("log", simulated_ssd.directory, "--after", mark)
    assert f"simulated read count {READS} bytes {READS * BLOCK} mean_us" in said.stdout
    assert all(line.startswith("simulated ") for line in said.stdout.splitlines())


def test_without_read_ahead_a_block_is_two_requests(simulated_ssd: SimulatedStorage) -> None:
    path = filled(simulated_ssd.directory)
    simulated_ssd.read_ahead(0)
    try:
        with path.open("rb", buffering=0) as file:
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
            mark = len(simulated_ssd.requests())
            for block in range(READS):
                os.pread(file.fileno(), BLOCK, block * BLOCK)
    finally:
        simulated_ssd.read_ahead(128)
    assert [read.length for read in simulated_ssd.reads_since(mark)] == [BLOCK // 2] * READS * 2


def test_requests_overlap(simulated_ssd: SimulatedStorage) -> None:
    """As those of an SSD do: eight readers are served in little more time than one."""
    path = filled(simulated_ssd.directory)
    mark = len(simulated_ssd.requests())
    readers = [
        subprocess.Popen(
            ["dd", f"if={path}", "of=/dev/null", "bs=8k", "iflag=direct", "status=none"]
        )
        for _ in range(8)
    ]
    assert [reader.wait() for reader in readers] == [0] * 8
    reads = simulated_ssd.reads_since(mark)
    assert len(reads) == 8 * BLOCKS
    took = max(read.start_ns for read in reads) - min(read.start_ns for read in reads)
    assert took < len(reads) * simulated_ssd.latency_ns / 2


def test_it_is_known_as_simulated(simulated_ssd: SimulatedStorage) -> None:
    device = storage(simulated_ssd.directory).device
    assert device is not None
    assert (device.simulated, device.rotational) == (True, False)
    real = storage(Path("/var/tmp")).device
    assert real is None or not real.simulated


def test_nothing_is_left(tmp_path: Path, others: list[str]) -> None:
    directory = tmp_path / "ssd"
    started = run_storage("ssd", directory)
    assert started.returncode == 0, started.stderr
    assert all("simulated" in line for line in started.stdout.splitlines())
    assert f"{directory}.simulated-requests" in started.stdout
    assert run_storage("ssd", directory).returncode == 1  # it is there already
    assert is_left(directory)
    assert run_storage("stop", directory).returncode == 0
    wait_for(lambda: set(is_left(directory)) <= set(others), 10)
    assert run_storage("stop", directory).returncode == 0


def test_nothing_is_left_after_the_program_was_killed(tmp_path: Path, others: list[str]) -> None:
    with simulated_device(tmp_path / "ssd", 20_000) as device:
        path = filled(device.directory)
        reader = subprocess.Popen(
            ["dd", f"if={path}", "of=/dev/null", "bs=8k", "iflag=direct"], stderr=subprocess.PIPE
        )
        mark = len(device.requests())
        wait_for(lambda: len(device.requests()) > mark)
        os.kill(device.pid, signal.SIGKILL)
        assert b"Input/output error" in reader.communicate(timeout=60)[1]
    wait_for(lambda: set(is_left(device.directory)) <= set(others), 10)


@pytest.mark.parametrize("after_s", [0.1, 0.2, 0.4])
def test_nothing_is_left_after_the_start_was_killed(
    tmp_path: Path, others: list[str], after_s: float
) -> None:
    directory = tmp_path / "ssd"
    starting = subprocess.Popen([SCRIPT, "ssd", directory], stdout=subprocess.DEVNULL)
    time.sleep(after_s)
    starting.kill()
    starting.wait()
    assert run_storage("stop", directory).returncode == 0
    # Where it was not mounted yet, all of it goes by itself.
    wait_for(lambda: set(is_left(directory)) <= set(others), 10)


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["ssd", "DIR", "--latency", "5"], 1, "--latency 200us"),
        (["ssd", "DIR", "--size", "1k"], 1, "--size 2G"),
        (["ssd", "/etc"], 1, "/etc is not empty"),
        (["log", "DIR"], 1, "there is no"),
        (["tape", "DIR"], 2, "usage"),
        (["ssd"], 2, "usage"),
    ],
)
def test_bad_input(tmp_path: Path, arguments: list[str], code: int, said: str) -> None:
    ended = run_storage(*(str(tmp_path / "ssd") if word == "DIR" else word for word in arguments))
    assert (ended.returncode, ended.stdout) == (code, "")
    assert said in ended.stderr


def test_what_is_not_simulated_is_not_unmounted() -> None:
    assert run_storage("stop", "/").returncode == 0
    assert Path("/proc").is_mount()
