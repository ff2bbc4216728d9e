"""A simulated storage device of known speed, whose every request can be looked at."""

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal, NamedTuple

import pytest

SCRIPT = Path(__file__).parents[1] / "scripts/storage"


class Request(NamedTuple):
    """One request of the device, as its log has it: CLOCK_MONOTONIC, bytes, nanoseconds."""

    start_ns: int
    kind: Literal["read", "write", "flush"]
    offset: int
    length: int
    duration_ns: int


class SimulatedStorage:
    """An ext4 file system on a simulated device, mounted at `directory`."""

    def __init__(self, directory: Path, latency_ns: int) -> None:
        self.directory = directory
        self.latency_ns = latency_ns
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

    def read_ahead(self, kib: int) -> None:
        """Set the read-ahead of files that are opened from now on."""
        number = self.directory.stat().st_dev
        queue = f"/sys/dev/block/{os.major(number)}:{os.minor(number)}/queue"
        Path(queue, "read_ahead_kb").write_text(f"{kib}")


def storage(*arguments: object) -> subprocess.CompletedProcess[str]:
    """Run scripts/storage."""
    command = [str(SCRIPT), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@contextmanager
def simulated_device(
    directory: Path, latency_us: int = 200, size: str = "2G"
) -> Iterator[SimulatedStorage]:
    """Mount a simulated SSD at a directory; nothing is left of it after the block."""
    started = storage("ssd", directory, "--latency", f"{latency_us}us", "--size", size)
    if started.returncode != 0:
        pytest.skip(f"no simulated device: {started.stderr.strip()[-1000:]}")
    directory.chmod(0o755)
    try:
        yield SimulatedStorage(directory, latency_us * 1000)
    finally:
        stopped = storage("stop", directory)
        assert stopped.returncode == 0, stopped.stderr


@pytest.fixture(scope="session")
def simulated_ssd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SimulatedStorage]:
    """A simulated SSD with 200 µs for each request, read-ahead of 128 KiB."""
    base = tmp_path_factory.mktemp("simulated")
    for above in (base, base.parent, base.parent.parent):
        above.chmod(0o755)  # a server's user must come through
    with simulated_device(base / "ssd") as device:
        yield device
