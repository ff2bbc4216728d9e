"""Devices of a test's own: a loop device, and a simulated one whose requests can be looked at."""

import ctypes
import os
import random
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import cache
from pathlib import Path
from typing import Literal, NamedTuple

import pytest

from fix_engines import IN_VM

READ_AHEAD_KIB = 128
CLONE_NEWNS, CLONE_FS = 0x20000, 0x200
SCRIPT = Path(__file__).parents[2] / "scripts/storage"
LAB_STATE = Path("/run/pgtrace")


class Request(NamedTuple):
    """One request of the device, as its log has it: CLOCK_MONOTONIC, bytes, nanoseconds.

    model_ns is how long it should have taken, by the model.
    """

    start_ns: int
    kind: Literal["read", "write", "flush"]
    offset: int
    length: int
    duration_ns: int
    model_ns: int


class SimulatedStorage:
    """An ext4 file system on a simulated device, mounted at `directory`."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.log = directory.with_name(f"{directory.name}.simulated-requests")

    @property
    def pid(self) -> int:
        """The program that answers the requests."""
        for process in Path("/proc").glob("[0-9]*"):
            try:
                if os.fsencode(self.log) in (process / "cmdline").read_bytes().split(b"\0"):
                    return int(process.name)
            except OSError:
                continue
        raise LookupError(f"nothing serves {self.directory}")

    def requests(self) -> list[Request]:
        """All requests so far."""
        found = []
        for line in self.log.read_text().splitlines():
            start, kind, *numbers = line.split()
            found.append(Request(int(start), kind, *map(int, numbers)))  # type: ignore[arg-type]
        return found

    def reads_since(self, mark: int) -> list[Request]:
        """The reads after the first `mark` requests."""
        return [request for request in self.requests()[mark:] if request.kind == "read"]

    def reads_between(self, begin_s: float, end_s: float) -> list[Request]:
        """The reads that began meanwhile; seconds since 1970, to a few milliseconds."""
        offset = time.time() - time.monotonic()
        first, last = ((moment - offset) * 1e9 for moment in (begin_s, end_s))
        return [r for r in self.requests() if r.kind == "read" and first <= r.start_ns <= last]

    def read_ahead(self, kib: int) -> None:
        """Set the read-ahead of files that are opened from now on."""
        number = self.directory.stat().st_dev
        queue = f"/sys/dev/block/{os.major(number)}:{os.minor(number)}/queue"
        Path(queue, "read_ahead_kb").write_text(f"{kib}")


class Timed(NamedTuple):
    """How long the same reads took: nanoseconds."""

    reader_ns: int
    device_ns: int


class SimulatedSsd(SimulatedStorage):
    """One whose requests take the same time, wherever they are and however long."""

    def __init__(self, directory: Path, latency_ns: int) -> None:
        super().__init__(directory)
        self.latency_ns = latency_ns

    def timed(self, length: int) -> Timed:
        """The lower quartile of reads of so many bytes, which come in one request, as who reads
        them sees it: the device, and what this host takes at the moment to sleep and to wake.
        """
        count, mark = 300, len(self.requests())
        with tempfile.NamedTemporaryFile(dir=self.directory) as file:
            file.write(os.urandom(length * count))
            file.flush()
            os.fsync(file.fileno())
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_RANDOM)
            times = []
            for number in random.sample(range(count), count):
                began = time.perf_counter_ns()
                os.pread(file.fileno(), length, number * length)
                times.append(time.perf_counter_ns() - began)
        own = [r.duration_ns for r in self.reads_since(mark) if r.length == length]
        assert len(own) == count
        return Timed(lower_quartile(times), lower_quartile(own))


def lower_quartile(times_ns: Sequence[int]) -> int:
    """A host only adds to what a device takes."""
    return sorted(times_ns)[len(times_ns) // 4]


Simulated = Callable[..., SimulatedSsd]


def run_storage(*arguments: object) -> subprocess.CompletedProcess[str]:
    """Run scripts/storage."""
    command = [str(SCRIPT), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@contextmanager
def _mounted(kind: str, directory: Path, *options: str) -> Iterator[None]:
    started = run_storage(kind, directory, *options)
    if started.returncode != 0:
        pytest.skip(f"no simulated device: {started.stderr.strip()[-1000:]}")
    directory.chmod(0o755)
    try:
        yield
    finally:
        stopped = run_storage("stop", directory)
        assert stopped.returncode == 0, stopped.stderr


@contextmanager
def simulated_device(
    directory: Path, latency_us: int = 200, size: str = "2G"
) -> Iterator[SimulatedSsd]:
    """Mount a simulated SSD at a directory; nothing is left of it after the block."""
    with _mounted("ssd", directory, "--latency", f"{latency_us}us", "--size", size):
        yield SimulatedSsd(directory, latency_us * 1000)


@contextmanager
def simulated_disk(directory: Path, *options: str) -> Iterator[SimulatedStorage]:
    """Mount a simulated HDD at a directory; nothing is left of it after the block."""
    with _mounted("hdd", directory, *options):
        yield SimulatedStorage(directory)


@pytest.fixture(scope="module")
def simulated(disk_directory: Path) -> Iterator[Simulated]:
    """Return the simulated SSD of this latency, which is kept until the end of the module.

    Not longer: servers in mount namespaces of their own, which were made meanwhile, would keep
    it mounted.
    """
    with ExitStack() as stack:

        @cache
        def get(latency_us: int = 200) -> SimulatedSsd:
            return stack.enter_context(
                simulated_device(disk_directory / f"ssd-{latency_us}us", latency_us)
            )

        yield get


@pytest.fixture(scope="module")
def simulated_ssd(simulated: Simulated) -> SimulatedSsd:
    """A simulated SSD with 200 µs for each request, and read-ahead of 128 KiB."""
    return simulated()


@pytest.fixture(scope="module")
def simulated_hdd(disk_directory: Path) -> Iterator[SimulatedStorage]:
    """A simulated disk of 10,000 rpm and 2 GiB, until the end of the module, as above."""
    with simulated_disk(disk_directory / "hdd") as disk:
        yield disk


@contextmanager
def private_mounts() -> Iterator[None]:
    """What is mounted here, this process and its children alone see: it goes with the last of
    them, at whatever end."""
    libc = ctypes.CDLL(None, use_errno=True)

    def check(result: int, what: str) -> None:
        if result != 0:
            raise OSError(ctypes.get_errno(), what)

    outside = os.open("/proc/self/ns/mnt", os.O_RDONLY | os.O_CLOEXEC)
    directory = Path.cwd()
    try:
        check(libc.unshare(CLONE_NEWNS), "unshare(CLONE_NEWNS)")
        try:
            subprocess.run(["mount", "--make-rslave", "/"], check=True)
            yield
        finally:
            # A thread that was begun here, and is there yet, shares its root with this one, with
            # which setns() goes nowhere
            check(libc.unshare(CLONE_FS), "unshare(CLONE_FS)")
            check(libc.setns(outside, CLONE_NEWNS), "setns")
            os.chdir(directory)
    finally:
        os.close(outside)


@contextmanager
def no_experiment_of_others() -> Iterator[None]:
    """What other experiments of this host left, or are at, is not seen here, nor tried to be
    undone."""
    LAB_STATE.mkdir(mode=0o700, exist_ok=True)
    with private_mounts():
        subprocess.run(["mount", "-t", "tmpfs", "-o", "mode=700", "tmpfs", LAB_STATE], check=True)
        yield


@pytest.fixture
def own_state() -> Iterator[None]:
    with no_experiment_of_others():
        yield


@pytest.fixture(scope="module")
def storage(disk_directory: Path) -> Iterator[Path]:
    """ext4 on a loop device of its own, with 128 KiB read-ahead; in a virtual machine on its disk,
    which has that."""
    if IN_VM:
        yield disk_directory
        return
    image, directory = disk_directory / "image", disk_directory / "loop"
    directory.mkdir()
    with image.open("wb") as file:
        file.truncate(1 << 30)
    subprocess.run(["mkfs.ext4", "-qF", image], check=True)
    with private_mounts():
        # The mount frees the loop device at its own end
        subprocess.run(["mount", "-o", "loop,nodev,nosuid", image, directory], check=True)
        try:
            image.unlink()
            device = directory.stat().st_dev
            bdi = Path(f"/sys/class/bdi/{os.major(device)}:{os.minor(device)}")
            (bdi / "read_ahead_kb").write_text(f"{READ_AHEAD_KIB}")
            directory.chmod(0o755)
            yield directory
        finally:
            subprocess.run(["umount", directory], check=True)
    directory.rmdir()
