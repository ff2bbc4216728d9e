"""What an experiment measured, and what was found: what the results of all have in common.

Its file is JSON, schema "pgtrace.lab/2" (encoding.py). What one experiment alone measures, asks for
and finds is in its own folder, lab/NAME/result.py, as structs that are derived from these; which
experiment a file is of, its key `experiment` says. Keys may be added, never changed in meaning.
Times are nanoseconds where a key says so, else seconds; sizes are bytes. A key that could not be
measured is left out.
"""

from collections.abc import Sequence
from typing import Literal

import msgspec

from .capture import Host, Io, Lost, Probes, Server

SCHEMA = "pgtrace.lab/2"

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


class Cell(msgspec.Struct, omit_defaults=True):
    """One run. What an experiment varies stands in a struct of its own, derived from this."""

    storage: str
    run: int
    elapsed_s: float


class QueryCell(Cell, kw_only=True):
    """One run of one query, traced."""

    pattern: Pattern
    state: Literal["cold", "cached", "prewarmed"] | None = None
    began_s: float | None = None
    """When, after Result.started."""
    rows: int | None = None
    """That the query returned."""
    cpu_s: float | None = None
    """Of the backend, user and system: what I/O workers took is not in it."""
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


class Details(msgspec.Struct, omit_defaults=True, kw_only=True):
    """What else there is to a finding; those of most have more."""

    simulated: bool = False
    """A storage of it is."""


class Finding(msgspec.Struct, omit_defaults=True, tag_field="name"):
    """What follows from the cells: a number with its 95 % interval, and what to say of it.

    Of what it is, its class says: the tag of each is its name in the file.
    """

    verdict: str
    storage: str | None = None
    value: float | None = None
    low: float | None = None
    high: float | None = None
    units: int | None = None
    """How many independent observations stand behind it, such as paired runs."""
    details: Details | None = None

    @property
    def name(self) -> str:
        """What it is, as the file has it."""
        return str(self.__struct_config__.tag)


class Options(msgspec.Struct, kw_only=True):
    """What was asked for, and what was chosen."""

    runs: int | None = None
    seed: int | None = None
    """The order was drawn with it."""


class TableOptions(Options, kw_only=True):
    """Of experiments that read a table on each storage."""

    rows: int | None = None
    shared_buffers: str | dict[str, int] | None = None
    restarted: bool = False
    """The server was, before each run."""
    table_bytes: int | None = None
    """Of its heap."""
    index_bytes: int | None = None
    cold_by: str | None = None
    direct_io: bool = False
    drop_caches: bool = False
    pg_bin: str | None = None
    cpu_server: int | None = None
    cpu_tracer: int | None = None
    queries: dict[str, str] = {}
    """Their texts, by what they are for."""
    order: list[list[tuple[str | int, ...]]] = []
    """Of the measurements of each run, by what was varied."""


class Result(msgspec.Struct, kw_only=True, tag_field="experiment"):
    """One run of an experiment. `started` is UTC, ISO 8601."""

    partial: bool
    """It was interrupted, or an error ended it: the cells are those that were finished."""
    started: str
    duration_s: float
    host: Host
    server: Server
    probes: Probes
    lost: Lost
    options: Options
    storages: list[Storage]
    cells: Sequence[Cell]
    findings: Sequence[Finding] = []
    schema: str = SCHEMA

    @property
    def experiment(self) -> str:
        """Its name, which is that of its folder."""
        return str(self.__struct_config__.tag)


class TableResult(Result, kw_only=True):
    """That of an experiment which reads a table on each storage."""

    options: TableOptions
    cells: Sequence[QueryCell]
