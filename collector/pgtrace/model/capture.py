"""The capture: what one tracing session measured.

Its file (encoding.py) is JSON, schema "pgtrace.capture/2". Keys may be added, never changed in
meaning. Times are nanoseconds, sizes bytes; `[low, high, count]` means low <= value < high.
What is kept by operation has no key for an operation that was not asked for.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Annotated, Literal, Self

import msgspec

from .buckets import MAX_BITS, Bucket, Buckets

SCHEMA = "pgtrace.capture/2"

Operation = Literal["read", "write", "fsync"]
Call = Literal["fsync", "fdatasync", "sync_file_range"]
"""Which system call an operation `fsync` was."""
READ_ALONE: tuple[Operation, ...] = ("read",)
Source = Literal["page_cache", "readahead_issued", "device", "wait", "unknown"]
Pattern = Literal["sequential", "near", "random", "first", "unknown"]
Size = Literal["1", "2-4", "5-15", "16+"]
Performer = Literal["backend", "parallel worker", "io worker", "io_uring"]
Scope = Literal["query", "outside"]
TimeKind = Literal["cpu", "run_queue", "sleep", "stolen"]
"""What a process does: it runs, or could and waits for a CPU, or it sleeps. stolen: it would run,
but the hypervisor has taken the CPU; or, where the kernel counts these apart, interrupts have."""
PieceKind = Literal[TimeKind, "run_queue_in_read"]
"""The same, and waiting for a CPU in the midst of a read apart."""
Kind = Literal[
    "relation",
    "heap",
    "index",
    "toast",
    "visibility map",
    "free space map",
    "temporary",
    "wal",
    "slru",
    "other",
    "unknown",
]
"""What a file holds. relation: a heap, an index, TOAST or a sequence; which, is known only with a
database connection."""
RELATIONS: frozenset[Kind] = frozenset(
    {"relation", "heap", "index", "toast", "visibility map", "free space map"}
)
"""What shared buffers hold, or may."""
EngineName = Literal["libbpf", "bcc"]
GapReason = Literal["stop", "crash"]
Protocol = Literal["simple", "extended", "unknown"]
"""unknown: the query began before tracing did, and nothing has told since; or, without USDT probes,
no message of its kind had been right before; or it is of the light tier."""
QueryId = Annotated[int, msgspec.Meta(ge=-(1 << 63), le=(1 << 63) - 1)]
"""Within a word. Of longer numbers thousands can be made that have one hash, and every table of
statements would take hours to fill; so it is with the next."""
Power = Annotated[int, msgspec.Meta(ge=3, le=MAX_BITS)]

COUNT_CALLS = ("usdt", "uprobe")
"""Of Probes.queries those by which calls are counted."""


class Host(msgspec.Struct):
    """Where it was measured."""

    kernel: str
    cpus: int


class Server(msgspec.Struct):
    """The server of the traced backends; None is what could not be found out."""

    version: str | None = None
    postmaster_pid: int | None = None
    data_directory: str | None = None
    block_size: int = 8192


class Probes(msgspec.Struct):
    """How it was measured, and what was not."""

    engine: EngineName
    type: Literal["fentry", "kprobe", "tracepoint"]
    """Of probes for reads, writes and fsyncs."""
    queries: Literal["usdt", "uprobe", "memory", "none"]
    """memory: the light tier. How often each was called is not known then, nor how long it took."""
    not_measured: list[str] = []
    no_query_ids: str | None = None
    """Why no query has a query_id; None if they have."""
    times: bool = False
    """It was measured where the time of processes went."""
    no_calls: str | None = None
    """In the light tier, why calls are not known of all statements; None if they are."""
    no_buffers: str | None = None
    """Where there was a connection, why it is not known what those who were traced found in
    shared_buffers."""
    shortest_ns: int | None = None
    """The shortest read seen: what is shorter, this probe type cannot show."""
    operations: list[Operation] = msgspec.field(default_factory=lambda: [*READ_ALONE])
    """What was asked for; the others are not measured."""


class Lost(msgspec.Struct):
    """Events that happened and are in no number of this capture, except as counted here."""

    read: int = 0
    write: int = 0
    fsync: int = 0
    in_flight: dict[Operation, int] = {}
    """Still under way when tracing stopped."""
    queries: int = 0
    backends: int = 0
    """Processes that there was no room for: nothing of theirs was counted."""
    statements: int = 0
    """Calls, or in the light tier reads, writes and fsyncs, that are counted, but not with their
    statement: there was no room for its name."""
    no_slot: int = 0
    """Of the reads, writes and fsyncs, how many because no slot was left."""
    no_chunk: int = 0
    """The same for want of a chunk of a histogram."""
    unplaced: int = 0
    """Reads, writes and fsyncs that are counted, but only by the kind of their file, although each
    file was asked for: there was no room."""
    latencies: int = 0
    """Calls that are counted, but in no histogram of latencies."""
    times: int = 0
    """Pieces of processes' time that are in no number: there was no room."""
    missed: int = 0
    """Times that the kernel ran no program, because that was interrupted on the same CPU: each may
    be a read, write, fsync or query of the server's, or of any other process of the host."""

    def __add__(self, other: Self) -> Self:
        sums = {
            name: getattr(self, name) + getattr(other, name)
            for name in self.__struct_fields__
            if name != "in_flight"
        }
        in_flight = Counter(self.in_flight)
        in_flight.update(other.in_flight)
        return type(self)(**sums, in_flight=dict(in_flight))


class Excluded(msgspec.Struct):
    """Reads, or writes or fsyncs, that failed or came short: in no histogram."""

    count: int = 0
    bytes: int = 0
    device_bytes: int = 0
    total_ns: int = 0


class Total(msgspec.Struct):
    """Sums of one operation over every backend."""

    count: int = 0
    bytes: int = 0
    blocks: int = 0
    device_bytes: int = 0
    total_ns: int = 0
    failed: int = 0
    short: int = 0


class Latencies(msgspec.Struct, gc=False):
    """How long each took, as every histogram is stored: only the buckets that are not empty."""

    count: int = 0
    sum: int = 0
    min: int | None = None
    """None: not known, or there is none."""
    max: int = 0
    unit: Literal["ns"] = "ns"
    buckets: Sequence[Bucket] = ()

    def __post_init__(self) -> None:
        self.buckets = Buckets(self.buckets)


class Io(msgspec.Struct, gc=False):
    """Reads that agree in everything a report can tell apart, with their latencies; or writes, or
    fsyncs."""

    source: Source
    pattern: Pattern
    size: Size | None
    """None for an fsync, which has none."""
    scope: Scope
    bytes: int
    blocks: int
    device_bytes: int
    latency: Latencies
    operation: Operation = "read"
    call: Call | None = None
    kind: Kind = "unknown"
    tablespace: str | None = None
    """Its name, or its oid where no connection told it; None for what lies in none."""
    relation: str | None = None
    """`schema.relation`, or the path within the data directory; None with `--by kind`."""
    performed_by: Performer = "backend"
    queued_ns: int | None = None
    """How long the requests lay waiting for an I/O worker, in all; not in the latency."""
    direct: bool = False

    @property
    def count(self) -> int:
        """How many there were."""
        return self.latency.count

    @property
    def total_ns(self) -> int:
        """How long they took in all."""
        return self.latency.sum


class Time(msgspec.Struct, gc=False):
    """Where time went: how long a process ran, waited for a CPU, or slept, in pieces. Those of the
    backend itself (`performed_by`) add up to the time that passed; those of others overlap it."""

    kind: PieceKind
    scope: Scope
    latency: Latencies
    """Of each piece, how long it was: of running, until it slept or another took the CPU."""
    wait_event_type: str | None = None
    """Of a sleep, as pg_stat_activity has it; `Kernel` where the server showed none."""
    wait_event: str | None = None
    performed_by: Performer = "backend"

    @property
    def total_ns(self) -> int:
        """How long they took in all."""
        return self.latency.sum


def waits_for_work(scope: Scope, wait_event_type: str | None, wait_event: str | None) -> bool:
    """Whether a sleep is a wait for something to do: of a client's backend for its next statement,
    of another process for its next task.
    """
    if wait_event_type == "Client":
        return wait_event == "ClientRead" and scope == "outside"
    return wait_event_type == "Activity"


class Query(msgspec.Struct):
    """One statement, with all its calls and what they read, wrote and synced."""

    text: str | None
    protocol: Protocol
    calls: int | None
    """None, as of the errors and the latency: not measured, which is so in the light tier."""
    errors: int | None
    latency: Latencies | None
    io: list[Io] = []
    times: list[Time] = []
    query_id: QueryId | None = None
    """The server's own; None where it computes none, or for several statements in one query."""
    text_hash: str | None = None
    """Of the text without its literals: the same text has the same, in this capture."""
    waited_ns: int | None = None
    """How long its backend waited for asynchronous reads; None where that is not measured."""
    text_cut: bool = False
    begun_before: bool = False
    """Its one call began before tracing did: the latency counts from the start of tracing."""
    application_name: str | None = None
    """Of the client that ran it: behind a pooler one backend serves many."""
    unfinished: bool = False
    """Its one call had not ended when tracing did: calls is 0, and there is no latency."""


class Backend(msgspec.Struct):
    """One server process. None is what could not be found out."""

    pid: int
    backend_type: str | None = None
    datname: str | None = None
    usename: str | None = None
    application_name: str | None = None
    io: list[Io] = []
    times: list[Time] = []
    failed: dict[Operation, Excluded] = {}
    short: dict[Operation, Excluded] = {}
    queries: list[Query] = []
    began: str | None = None
    """When it was first seen, and when it ended, if that was while tracing; UTC, ISO 8601."""
    ended: str | None = None
    merged: int | None = None
    """How many backends that ended are added up here; their pids are not told."""


class Tablespace(msgspec.Struct):
    """Where files that were read lie. `name` is that of Io.tablespace."""

    name: str
    location: str | None = None
    filesystem: str | None = None
    device: str | None = None
    rotational: bool | None = None
    read_ahead_kb: int | None = None
    simulated: bool = False
    """Its device is one of `scripts/storage`."""


class Cost(msgspec.Struct):
    """Reads of one second that agree in what decides their cost: blocks are the server's."""

    tablespace: str | None
    pattern: Pattern
    source: Source
    size: Size
    blocks: int
    total_ns: int
    reads: int
    performed_by: Performer = "backend"
    """Parallel workers read for themselves here: only what overlaps with the backend's work is
    told apart."""


class IntervalIo(msgspec.Struct, gc=False):
    """What all processes did in one interval, by operation and source."""

    operation: Operation
    source: Source
    count: int
    bytes: int
    total_ns: int
    powers: dict[Power, int] = {}
    """How long each took, coarsely: of n, how many took 2^n ns and longer, but less than 2^(n+1).
    Of 3 also what was shorter, of 40 also what was longer."""


class Heaviest(msgspec.Struct, gc=False):
    """What took longest in one interval: one operation, of one kind of file, by one statement, or
    where it was for none by one type of processes.
    """

    operation: Operation
    count: int
    bytes: int
    total_ns: int
    device_count: int = 0
    """Of the reads those that waited for the device."""
    device_ns: int = 0
    query_id: QueryId | None = None
    """As Query.query_id; where that and text_hash are missing, it was outside queries, or its
    statement is not known."""
    text_hash: str | None = None
    """As Query.text_hash."""
    backend_type: str | None = None
    """None: of several types, or not known."""
    kind: Kind = "unknown"
    tablespace: str | None = None
    relation: str | None = None


class IntervalTime(msgspec.Struct, gc=False):
    """How long all processes together did one thing in one interval, but for waits for something to
    do."""

    kind: TimeKind
    total_ns: int
    wait_event_type: str | None = None
    """As Time.wait_event_type."""


class Interval(msgspec.Struct):
    """What was done in about one second of the session; `second` counts from its start."""

    second: float
    costs: list[Cost]
    """Of reads of relations."""
    length: float | None = None
    """Seconds; None in files of before there was `io`."""
    io: list[IntervalIo] = []
    heaviest: list[Heaviest] = []
    """The five that took longest; where intervals were put together, the five that took longest of
    those that were among the five of one of them."""
    times: list[IntervalTime] = []
    """Where the time went, what took longest first."""


class Buffers(msgspec.Struct):
    """What one database asked shared_buffers for during the session, as pg_stat_database has it."""

    datname: str | None
    """None: relations that all databases share."""
    hit: int
    """Blocks that were found there."""
    read: int
    """Blocks that were not."""


class Executions(msgspec.Struct, gc=False):
    """How often one statement ran while tracing, of anybody on the server."""

    query_id: QueryId
    calls: int
    """Those that ended."""
    total_ns: int
    """They took to be executed: without parsing and planning."""


class Gap(msgspec.Struct):
    """A server was away: from its postmaster's end until its next one was traced, or from the
    crash of one of its processes until those that it started anew let clients in.
    """

    data_directory: str
    """Of several servers whose directories have one name, as in containers, with its postmaster's
    pid."""
    began: str
    ended: str | None
    """None: it did not come back."""
    reason: GapReason = "stop"


class Capture(msgspec.Struct):
    """Everything one session measured. `started` is UTC, ISO 8601."""

    started: str
    duration_s: float
    host: Host
    server: Server
    probes: Probes
    lost: Lost
    totals: dict[Operation, Total]
    backends: list[Backend]
    gaps: list[Gap] = []
    tablespaces: list[Tablespace] = []
    intervals: list[Interval] = []
    """The session in pieces, those in which nothing was done left out."""
    buffers: list[Buffers] = []
    """With a connection; only what the server said at the start and at the end."""
    executions: list[Executions] = []
    """In the light tier, of statements that read: with a connection, by pg_stat_statements. Those
    that took longest first."""
    partial: list[str] = []
    """What could not be finished, each with its reason: errors of pgtrace's own. The rest is
    true."""
    so_far: bool = False
    """Written while tracing went on: what came later is in no number. It is all there is if pgtrace
    was killed."""
    schema: str = SCHEMA

    def add_up(self) -> Self:
        """Set what follows from the backends' operations, and return the capture."""
        reads = of_operation(r for backend in self.backends for r in backend.io)
        self.totals = sums_of(self.backends, self.probes.operations)
        least = (r.latency.min for r in reads if r.latency.min)
        self.probes.shortest_ns = min(least, default=None)
        return self


def of_operation(io: Iterable[Io], operation: Operation = "read") -> list[Io]:
    """Those of one operation: reads are kept with writes and fsyncs, and never added to them."""
    return [each for each in io if each.operation == operation]


def sums_of(
    backends: Sequence[Backend], operations: Iterable[Operation] = READ_ALONE
) -> dict[Operation, Total]:
    """What these backends did in all, of each of these operations."""
    totals = {operation: Total() for operation in operations}
    for backend in backends:
        for each in backend.io:
            if total := totals.get(each.operation):
                total.count += each.count
                total.bytes += each.bytes
                total.blocks += each.blocks
                total.device_bytes += each.device_bytes
                total.total_ns += each.total_ns
        for operation, total in totals.items():
            total.failed += backend.failed.get(operation, Excluded()).count
            total.short += backend.short.get(operation, Excluded()).count
    return totals
