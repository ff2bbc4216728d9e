"""Results of the pages experiment made up for tests: the same every time, with known means."""

from collections.abc import Iterable, Sequence
from random import Random
from typing import Any

import msgspec

from pgtrace.lab.pages.result import PagesResult
from pgtrace.lab.planner.result import Crossing, CrossingDetails, SweepOptions
from pgtrace.model.capture import Host, Io, Lost, Probes, Server, Source
from pgtrace.model.histogram import Histogram
from pgtrace.model.lab_result import Device, Finding, QueryCell, Storage

HDD = Storage("hdd", "/mnt/hdd", simulated=True, device=Device(
    "loop", "ext4", name="loop0", rotational=True, read_ahead_kb=128, scheduler="none",
    queue_depth=1))  # fmt: skip
SSD = Storage("ssd", "/mnt/ssd", simulated=True, device=Device(
    "loop", "ext4", name="loop1", rotational=False, read_ahead_kb=128,
    scheduler="none"))  # fmt: skip
DISK = Storage("disk", "/srv/disk", device=Device(
    "virtio", "ext4", name="vda", rotational=True, read_ahead_kb=8192, scheduler="mq-deadline",
    queue_depth=256, virtual=True))  # fmt: skip
MEMORY = Storage("memory", "/srv/disk", medium="memory", device=DISK.device)
TMPFS = Storage("tmpfs", "/dev/shm/t", medium="tmpfs", device=Device("none", "tmpfs"))

DEVICE_NS = {"hdd": 5_000_000, "ssd": 200_000, "disk": 500_000}
"""A request's time. What is not here is never read from a device."""
CACHE_NS = 4_000


def reads(
    rng: Random, source: Source, pattern: str, count: int, mean_ns: float, *, kind: str = "heap"
) -> Io:
    """Reads of one block, whose times vary by a quarter."""
    latencies = Histogram()
    for _ in range(count):
        latencies.add(max(1, round(mean_ns * rng.lognormvariate(0, 0.25))))
    return Io(
        source=source,
        pattern=pattern,  # type: ignore[arg-type]
        size="1",
        scope="query",
        bytes=count * 8192,
        blocks=count,
        device_bytes=count * 8192 if source == "device" else 0,
        latency=latencies.to_data(),
        kind=kind,  # type: ignore[arg-type]
    )


def cell(rng: Random, storage: Storage, pattern: str, run: int, noise: float) -> QueryCell:
    """One run: sequential waits for the device in one read of 16, random in all but the index's."""
    factor = rng.lognormvariate(0, noise)
    device_ns = DEVICE_NS.get(storage.directory.removeprefix("/mnt/").removeprefix("/srv/"))
    if storage.medium != "device":
        device_ns = None
    if pattern == "sequential":
        heap, index, waits = 1_600, 0, 100
    else:
        heap, index, waits = 400, 20, 400
    if device_ns is None:
        waits = 0
    parts = [reads(rng, "page_cache", pattern, heap - waits, CACHE_NS * factor)] * (heap > waits)
    if waits:
        parts.append(reads(rng, "device", pattern, waits, (device_ns or 0) * factor))
    if index:
        parts.append(reads(rng, "page_cache", "random", index, CACHE_NS * factor, kind="index"))
    rows = 100_000 if pattern == "sequential" else 400
    cpu_s = rows * 190e-9
    held = storage.medium != "device"
    return QueryCell(
        storage.name,
        run,
        elapsed_s=sum(r.total_ns for r in parts) / 1e9 + cpu_s,
        pattern=pattern,  # type: ignore[arg-type]
        state="cached" if held else "cold",
        rows=rows,
        cpu_s=cpu_s,
        resident_before=1.0 if held else 0.0,
        io=parts,
    )


def pages_result(
    storages: Sequence[Storage] = (HDD, SSD, MEMORY), runs: int = 5, noise: float = 0.03,
    seed: int = 2,
) -> PagesResult:  # fmt: skip
    """A whole result, but for its findings; `noise` is between runs, of the logarithm."""
    rng = Random(seed)
    cells = [
        cell(rng, storage, pattern, run, noise)
        for run in range(1, runs + 1)
        for storage in storages
        for pattern in ("sequential", "random")
    ]
    return PagesResult(
        partial=False,
        started="2026-01-31T12:00:00.000000Z",
        duration_s=95.3,
        host=Host("6.1.0", 2),
        server=Server("15.14"),
        probes=Probes("libbpf", "tracepoint", "usdt", shortest_ns=shortest(cells)),
        lost=Lost(),
        options=SweepOptions(
            rows=100_000,
            runs=runs,
            seed=seed,
            shared_buffers="32MB",
            cold_by="posix_fadvise",
            queries={
                "sequential": "select * from tbl_cost_align",
                "random": "select * from tbl_cost_align where id > 1992000000",
            },
        ),
        storages=list(storages),
        cells=cells,
    )


def named(storage: Storage, name: str) -> Storage:
    """The same under another name."""
    return msgspec.structs.replace(storage, name=name)


def shortest(cells: Iterable[QueryCell]) -> int | None:
    return min((r.latency.min for c in cells for r in c.io), default=None)


def details(finding: Finding) -> dict[str, Any]:
    """Those of a finding, as the file has them; none of one without."""
    found: dict[str, Any] = msgspec.to_builtins(finding.details) or {}
    return found


def crossing_details() -> dict[str, Any]:
    """Of a finding of the planner's sweep, as the file has them."""
    plans = {"index": [0.01, 2.0], "sequential": [1.0, 1.0]}
    return {
        "first": "index",
        "then": "sequential",
        "believed": 0.05,
        "circumstance": {"column": "scattered", "cached": 0.0, "io_concurrency": 1, "clients": 1},
        "selectivities": [0.001, 0.1],
        "seconds": plans,
        "costs": {"index": [10.0, 5000.0], "sequential": [900.0, 900.0]},
    }


def crossing(*numbers: float, **changes: object) -> Crossing:
    """One on hdd, with these numbers and changed details."""
    known = msgspec.convert(crossing_details() | changes, CrossingDetails)
    return Crossing("up to 3 %", "hdd", *numbers, details=known)
