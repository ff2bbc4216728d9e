"""From a request to running probes: what an engine is, and what it hands over."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple, Protocol

from ..failures import Failures
from ..model.capture import Call, Kind, Operation, Pattern, Performer, Scope, Size, Source
from ..model.capture import EngineName as EngineName
from ..model.capture import Protocol as ProtocolName

ProbeType = Literal["fentry", "kprobe", "tracepoint"]
"""A probe type for reads, and for other operations."""
OPERATIONS: tuple[Operation, ...] = ("read", "write", "fsync")
QuerySource = Literal["usdt", "uprobe", "memory", "none"]
"""memory: looked up in that of their backends, where these read."""
Tier = Literal["full", "light", "none"]
"""How much of queries is measured. light: no probe waits in the server, and what a query read is
known, but neither how often it was called nor how long it took."""


class Key(NamedTuple):
    """What is told apart of reads, writes and fsyncs."""

    scope: Scope
    performed_by: Performer
    direct: bool
    size: Size
    pattern: Pattern
    source: Source
    file: int = 0
    """Its number in Engine.files()."""
    operation: Operation = "read"
    call: Call | None = None
    """Of an fsync, which it was. It has no size, and no pattern."""


class File(NamedTuple):
    """What the kernel knows of a file that was read; or of all of one kind in one tablespace."""

    kind: Kind
    device: tuple[int, int] = (0, 0)
    """Major and minor number of the file system's."""
    inode: int = 0
    """0 where it stands for many: then the path is that of the first."""
    space: int = 0
    """Inode of the directory that stands for the tablespace: base, global, PG_15_202209061; 0:
    none."""
    path: tuple[str, ...] = ()
    """Its last components, at most four, outermost first; of one that stands for others its
    name."""
    gone: bool = False
    """It stands for files that are gone."""


UNKNOWN_FILE = File("unknown")
"""There was no room for more."""


@dataclass(slots=True)
class Counts:
    """Reads, or writes or fsyncs, of one key: nanoseconds and bytes.

    `buckets` maps a bucket's index to its count.
    """

    count: int = 0
    bytes: int = 0
    device_bytes: int = 0
    total_ns: int = 0
    min_ns: int = 0
    """0: not known. No read takes so little."""
    max_ns: int = 0
    queued_ns: int = 0
    """How long those that another process performed lay waiting for it."""
    buckets: dict[int, int] = field(default_factory=dict)

    def add(self, other: "Counts") -> None:
        """Count the other's reads too."""
        if other.count:
            # One that is not known leaves that of both unknown
            self.min_ns = min(self.min_ns, other.min_ns) if self.count else other.min_ns
            self.max_ns = max(self.max_ns, other.max_ns)
        self.count += other.count
        self.bytes += other.bytes
        self.device_bytes += other.device_bytes
        self.total_ns += other.total_ns
        self.queued_ns += other.queued_ns
        for index, count in other.buckets.items():
            self.buckets[index] = self.buckets.get(index, 0) + count


ReadsByKey = dict[Key, Counts]


def fold_files(reads: ReadsByKey, instead: Mapping[int, int]) -> None:
    """Count what was of some files on those that stand for them."""
    for key in [key for key in reads if key.file in instead]:
        counts = reads.pop(key)
        reads.setdefault(key._replace(file=instead[key.file]), Counts()).add(counts)


def add_reads(
    into: ReadsByKey,
    reads: ReadsByKey,
    *,
    scope: Scope | None = None,
    performed_by: Performer | None = None,
) -> None:
    """Add reads to others, under another scope or performer if one is given."""
    for key, counts in reads.items():
        if scope:
            key = key._replace(scope=scope)  # noqa: PLW2901
        if performed_by:
            key = key._replace(performed_by=performed_by)  # noqa: PLW2901
        into.setdefault(key, Counts()).add(counts)


@dataclass(slots=True)
class QueryEvent:
    """One query as the client sees it. Times are CLOCK_MONOTONIC, in nanoseconds."""

    serial: int
    """Of the task that ran it."""
    text: bytes | None
    """None if it began before and cannot be asked for."""
    text_cut: bool
    protocol: ProtocolName
    error: bool
    executed: bool
    begun_before: bool
    start_ns: int
    end_ns: int
    """0 while it runs."""
    reads: ReadsByKey
    application_name: bytes = b""
    query_id: int = 0
    """As the server computed it, signed; 0 if it did not, or for several statements at once."""
    waited_ns: int = 0
    """How long it waited for asynchronous reads."""
    statement: int = 0
    """As StatementTotal has it; 0 if that is not known yet."""
    pid: int = 0
    """Of the process that ran it; for whoever knows the serial to fill in."""

    @property
    def is_call(self) -> bool:
        """False for a prepare: a scope in which nothing ran and nothing failed."""
        return self.executed or self.error or self.protocol == "simple"


@dataclass(slots=True)
class StatementTotal:
    """All calls of one statement by one task. Of those for which there was no room, together,
    `text` is None.
    """

    text: bytes | None
    text_cut: bool
    protocol: ProtocolName
    begun_before: bool
    application_name: bytes
    query_id: int
    """Signed, as the server shows it; 0: none."""
    errors: int
    latency: Counts
    """Its `count` are the calls."""
    waited_ns: int
    reads: ReadsByKey
    statement: int
    """A number that it has while its task is there."""


@dataclass(slots=True)
class ExcludedCounts:
    """Reads that are in no histogram."""

    count: int = 0
    bytes: int = 0
    device_bytes: int = 0
    total_ns: int = 0


@dataclass(slots=True)
class TaskSnapshot:
    """All that one traced thread did, and had others do, since it was first seen."""

    serial: int
    tid: int
    tgid: int
    inner_tgid: int
    """As its own PID namespace has it."""
    postmaster: int
    title: bytes
    began_ns: int
    ended_ns: int
    """0 while it runs."""
    exit_code: int = 0
    """As waitpid() has it; 0: it left by itself, or runs."""
    reads: ReadsByKey = field(default_factory=dict)
    failed: ExcludedCounts = field(default_factory=ExcludedCounts)
    short: ExcludedCounts = field(default_factory=ExcludedCounts)
    failed_writes: ExcludedCounts = field(default_factory=ExcludedCounts)
    short_writes: ExcludedCounts = field(default_factory=ExcludedCounts)
    failed_fsyncs: ExcludedCounts = field(default_factory=ExcludedCounts)
    lost_reads: int = 0
    lost_writes: int = 0
    lost_fsyncs: int = 0
    lost_queries: int = 0
    in_flight: Operation | None = None
    """What it is in the midst of."""
    requests: int = 0
    """Reads that it left to io_uring, which are not there yet."""
    application_name: bytes = b""
    """As its last query found it."""
    running: QueryEvent | None = None
    statements: list[StatementTotal] = field(default_factory=list)
    """Without Request.per_query."""
    started_for: int = 0
    """Of a parallel worker, which of its leader's statements; 0: not known."""


Sums = dict[Key, tuple[int, int, int]]
"""Count, bytes, nanoseconds."""
ByPower = dict[tuple[Operation, Source], dict[int, int]]
"""How many there were of each power of two of nanoseconds, as IntervalIo.powers."""


class StatementName(NamedTuple):
    """What tells a statement from others: its id, or where there is none its text."""

    query_id: int
    text: bytes | None
    text_cut: bool = False


class Losses(NamedTuple):
    """What was lost, of all threads together."""

    read: int
    write: int
    fsync: int
    queries: int
    backends: int
    no_slot: int
    """Of the first three, how many because no slot was left."""
    no_chunk: int
    latencies: int
    by_kind: int
    """Not lost: counted on all files of a kind, because there was no room for each."""


class InUse(NamedTuple):
    """What the kernel half has taken of the room that it got."""

    tasks: int
    statements: int
    slots: int
    chunks: int
    files: int


class CheckpointTimes(NamedTuple):
    """When phases of the last checkpoint began: CLOCK_MONOTONIC in ns, 0 is what was not seen."""

    begin_ns: int
    write_ns: int
    """Writing of buffers."""
    sync_ns: int
    """Syncing of their files."""
    synced_ns: int
    end_ns: int


class Member(NamedTuple):
    """A thread that runs already; 0 is what is not known of it."""

    tid: int
    pid: int
    inner_pid: int = 0
    """As its own PID namespace has it."""
    postmaster: int = 0


class Postmaster(NamedTuple):
    """What the kernel has to know of a server."""

    pid: int
    application_name: int = 0
    """Where in its processes' memory the pointer to it is; 0: not known."""
    io_workers: bool = False
    """Its backends leave reads to them."""
    io_uring: bool = False
    """Its backends leave reads to it."""
    entry: int = 0
    """As application_name: to what it shows of itself in pg_stat_activity, MyBEEntry."""
    text: int = 0
    """As application_name: to the text of the statement that it runs, debug_query_string."""


@dataclass(frozen=True, kw_only=True)
class EngineOptions:
    """How to trace, as its user asks."""

    probe_type: ProbeType | None = None
    """A probe type that is forced; None takes the best that loads."""
    engine: EngineName | None = None
    """One that is forced; None takes libbpf, and bcc where there is no BTF."""
    operations: tuple[Operation, ...] = ("read",)
    """What is measured."""
    literals: bool = False
    """Texts that differ in them are different statements, where there are no query ids."""
    per_query: bool = False
    """Hand over each query by poll(), instead of adding them up by statement in the kernel."""
    most_statements: int = 5000
    """Kept apart, of all backends together; more are added up for each backend."""
    emit_durations: bool = False
    """Hand over how long each read took, one by one."""


@dataclass(frozen=True, slots=True)
class Request:
    """What to trace, decided before anything is loaded."""

    options: EngineOptions = EngineOptions()

    members: tuple[Member, ...] = ()
    """Traced from the start."""
    postmasters: tuple[Postmaster, ...] = ()
    """Their children are traced, those to come too."""
    binaries: tuple[tuple[str, int], ...] = ()
    """Where to put the probes of queries: the file, and the process or -1 for all that run it."""
    checkpoints: tuple[tuple[str, int], ...] = ()
    """As binaries: where to see when the phases of checkpoints begin."""
    only: int = 0
    """The thread of the first member, if it matters most: it is found first."""
    listed: bool = False
    """Some members are no children of the postmasters."""
    askers: tuple[tuple[str, int], ...] = ()
    """As binaries: where reads are asked for, and made, if there are I/O workers."""
    ignored: tuple[int, ...] = ()
    """Children of the postmasters that run already and are of no interest."""
    helpers_only: bool = False
    """Of the children to come, only parallel workers and I/O workers."""
    aio: bool = False
    """The server may leave reads to others, and they are charged to who asked."""
    io_uring: bool = False
    """The server may leave reads to io_uring."""
    block_size: int = 8192
    segment_bytes: int = 1 << 30
    """Of a relation's files, all but the last are this long."""
    most_tasks: int = 64
    by_file: bool = False
    """Each file has an entry of its own in Engine.files()."""
    query_ids: bool = False
    """The server computes them."""
    light: bool = False
    """Queries are looked up in their backends' memory: `binaries` is empty then."""
    calibrate: tuple[tuple[str, int], ...] = ()
    """As binaries: where to find out what lies where in that memory."""
    unfollowed: frozenset[int] = frozenset()
    """Postmasters whose children's queries are not measured."""
    not_measured: tuple[str, ...] = ()
    """What is known beforehand, each with its reason."""


class Engine(Protocol):
    """Probes that run in the kernel."""

    name: EngineName
    note: str | None
    """What its user should know of why it was taken."""
    probe_type: ProbeType
    query_source: QuerySource
    not_measured: list[str]
    operations: tuple[Operation, ...]
    """What is measured, all by one probe type."""
    failures: Failures
    """What went wrong while tracing: of one query or one task, the others are not touched."""

    def poll(self, *, settled: bool = True) -> list[QueryEvent]:
        """With Request.per_query the queries that ended since the last call; does not wait.

        Unless `settled`, also those that ended a moment ago, of which reads that others made
        may come to be counted yet.
        """

    def serials(self) -> list[tuple[int, int, int]]:
        """(serial, thread, when it ended or 0) of each traced thread: cheap.

        One whose queries were not all fetched has not ended yet.
        """

    def task(self, serial: int) -> TaskSnapshot:
        """One of them, without its reads."""

    def running(self, serial: int) -> QueryEvent | None:
        """What it runs now, without its reads; None if it is idle."""

    def snapshot(self) -> list[TaskSnapshot]:
        """What each traced thread did so far. Poll first."""

    def release(self, serials: Sequence[int]) -> list[TaskSnapshot]:
        """What each of these threads did in all; their places are free for others.

        Together they cost little more than one.
        """

    def ignore(self, serial: int) -> None:
        """Count nothing more of this thread."""

    def was_idle(self, serial: int, *, for_ever: bool = False) -> None:
        """That thread ran no query when tracing began: what it read then was outside. `for_ever`:
        it is of a kind that runs none, so that nothing would close the scope.
        """

    def follow_postmaster(self, old: int, new: Postmaster, binary: str | None) -> None:
        """Trace the children of this postmaster in place of those of one that is gone.

        `binary` is what it runs, if probes have to be put there first.
        """

    def files(self) -> Mapping[int, File]:
        """What was read so far and is not forgotten; 0 is UNKNOWN_FILE, no number comes twice."""

    def forget(self, gone: Mapping[int, File]) -> dict[int, int]:
        """These files are gone. What was counted of each, and still is, counts for the one that
        stands for it, which has the number that is returned.
        """

    def sums(self) -> dict[int, dict[int, Sums]]:
        """Of the threads that are there, by serial and query, all that was measured since tracing
        began: cheap. The same object again, if nothing was since.
        """

    def by_power(self) -> dict[int, ByPower]:
        """The same by serial: how long everything took, coarsely."""

    def statement(self, serial: int, query: int) -> StatementName | None:
        """What sums() has under this number; None if it is no query, or not known any more."""

    def checkpoint(self) -> CheckpointTimes:
        """The last one that was traced, if the request asked for it."""

    def losses(self) -> Losses:
        """What was lost so far: cheap."""

    def statements_full(self) -> bool:
        """Whether there is no room for another statement now."""

    def in_use(self) -> InUse:
        """How much is taken now: what ended gives its own back."""

    def durations(self) -> list[int]:
        """Each read's time since the last call, if the request asked for them."""

    def detach(self) -> None:
        """Stop measuring; what was measured can still be read."""

    def close(self, *, wait: bool = False) -> None:
        """Leave nothing behind in the kernel: within seconds, with `wait` when it returns."""
