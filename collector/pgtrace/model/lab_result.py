"""What an experiment measured: its result, and what was found in it.

Its file is JSON, schema "pgtrace.lab/2" (encoding.py). Keys may be added, never changed in
meaning. Times are nanoseconds where a key says so, else seconds; sizes are bytes. A key that an
experiment does not vary, or could not measure, is left out.
"""

from typing import Any, Literal

import msgspec

from .capture import Host, Io, Lost, Probes, Server

SCHEMA = "pgtrace.lab/2"

Experiment = Literal["pages", "readahead", "buffers", "sync"]
Pattern = Literal["sequential", "random"]
"""In which the pages of a query lie: what it was made for, and not how each read was found."""
Medium = Literal["device", "memory", "tmpfs"]
"""memory: a device whose pages are held in the page cache while they are measured."""


class Device(msgspec.Struct, omit_defaults=True):
    """What is below a storage's directory, as /sys has it; None is what it does not say."""

    kind: str
    filesystem: str
    name: str | None = None
    rotational: bool | None = None
    read_ahead_kb: int | None = None
    scheduler: str | None = None
    queue_depth: int | None = None
    virtual: bool | None = None
    """It is one of a virtual machine, or made of other devices: what is below is not seen."""


class Storage(msgspec.Struct, omit_defaults=True):
    """A place that is compared with others."""

    name: str
    directory: str
    simulated: bool = False
    medium: Medium = "device"
    device: Device | None = None


class Repeat(msgspec.Struct, omit_defaults=True):
    """A query executed once more by the same backend of the same server life, and not traced."""

    elapsed_s: float
    shared_hits: int | None = None
    shared_reads: int | None = None
    io_timing_s: float | None = None


class DeviceWork(msgspec.Struct, omit_defaults=True):
    """What a device did meanwhile, for anybody: differences of /sys/dev/block/*/stat."""

    writes: int
    merges: int
    """Writes that were merged with others before the device got them."""
    bytes: int
    busy_s: float
    """In which it had requests."""
    flushes: int | None = None
    """None before Linux 5.5."""


class Checkpoint(msgspec.Struct, omit_defaults=True):
    """Phases of an explicit checkpoint, seconds; None is what was not measured.

    What begins with `logged_` is from the server's own line, to its millisecond.
    """

    total_s: float | None = None
    """Of CreateCheckPoint(), by uprobe."""
    write_s: float | None = None
    """Writing of buffers, by USDT: from buffer__checkpoint__start to __sync__start."""
    sync_s: float | None = None
    """Syncing of their files: from there to buffer__checkpoint__done."""
    logged_write_s: float | None = None
    logged_sync_s: float | None = None
    logged_total_s: float | None = None
    buffers: int | None = None
    files: int | None = None
    """That were synced."""


class Cell(msgspec.Struct, omit_defaults=True):
    """One run of one query or load. Of what varies, only the keys of its experiment are there."""

    storage: str
    run: int
    elapsed_s: float
    pattern: Pattern | None = None
    state: Literal["cold", "cached", "prewarmed"] | None = None
    read_ahead_sectors: int | None = None
    shared_buffers: str | None = None
    server: str | None = None
    load: Literal["wide", "narrow", "bulk"] | None = None
    phase: Literal["load", "checkpoint"] | None = None
    """The load itself, or the checkpoint after it."""
    plan: Literal["sequential", "bitmap", "index"] | None = None
    point: int | None = None
    """Which point of a sweep: an index into Result.options["points"]."""
    began_s: float | None = None
    """When, after Result.started."""
    rows: int | None = None
    """That the query returned."""
    stopped: bool = False
    """It was not waited for: it takes longer than `elapsed_s`."""
    cpu_s: float | None = None
    """Of the backend, user and system."""
    cpu_wait_s: float | None = None
    """That it could have run, and no CPU was free."""
    client_cpu_s: float | None = None
    """Of the client, for rows that it received."""
    shared_hits: int | None = None
    """Blocks found in shared_buffers, as EXPLAIN (BUFFERS) counts them."""
    shared_reads: int | None = None
    device_requests: int | None = None
    """Reads that the device completed meanwhile, /sys/block/*/stat: of anybody."""
    device_read_bytes: int | None = None
    """Of these."""
    device_busy_s: float | None = None
    """For how long it had a request, as the kernel's clock tick sees it."""
    page_faults: int | None = None
    """Of the backend, those that no device served: first touches of memory."""
    io_timing_s: float | None = None
    """EXPLAIN's own I/O timing of reads, with track_io_timing."""
    resident_before: float | None = None
    """Share of the relation's pages that the page cache held when the run began (mincore)."""
    io: list[Io] = []
    again: list[Repeat] = []
    tps: float | None = None
    """Of the writers, as pgbench counts."""
    reading_tps: float | None = None
    checkpoint: Checkpoint | None = None
    by_backend_type: dict[str, list[Io]] = {}
    """Writes and fsyncs of a whole server."""
    devices: dict[str, DeviceWork] = {}
    """By the name of the storage."""


class Finding(msgspec.Struct, omit_defaults=True):
    """What follows from the cells: a number with its 95 % interval, and what to say of it."""

    name: str
    verdict: str
    storage: str | None = None
    value: float | None = None
    low: float | None = None
    high: float | None = None
    units: int | None = None
    """How many independent observations stand behind it, such as paired runs."""
    details: dict[str, Any] = {}


class Result(msgspec.Struct):
    """One run of an experiment. `started` is UTC, ISO 8601."""

    experiment: Experiment
    partial: bool
    """It was interrupted: the cells are those that were finished."""
    started: str
    duration_s: float
    host: Host
    server: Server
    probes: Probes
    lost: Lost
    options: dict[str, Any]
    """What was asked for, and what was chosen: rows, runs, queries, order, pinned CPUs."""
    storages: list[Storage]
    cells: list[Cell]
    findings: list[Finding] = []
    schema: str = SCHEMA
