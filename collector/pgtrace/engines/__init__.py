"""From a request to running probes: what an engine is, and what it hands over."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple, Protocol

from ..capture import Pattern, Performer, Scope, Size, Source
from ..capture import Protocol as ProtocolName

ReadsWay = Literal["fentry", "kprobe", "tracepoint"]
QueriesWay = Literal["usdt", "uprobe", "none"]


class Key(NamedTuple):
    """What is told apart of reads."""

    scope: Scope
    performed_by: Performer
    direct: bool
    size: Size
    pattern: Pattern
    source: Source


@dataclass(slots=True)
class Counts:
    """Reads of one key: nanoseconds and bytes; `buckets` maps a bucket's index to its count."""

    count: int = 0
    bytes: int = 0
    device_bytes: int = 0
    total_ns: int = 0
    min_ns: int = 0
    max_ns: int = 0
    queued_ns: int = 0
    """How long those that another process performed lay waiting for it."""
    buckets: dict[int, int] = field(default_factory=dict)

    def add(self, other: "Counts") -> None:
        """Count the other's reads too."""
        if other.count:
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
    pid: int = 0
    """Of the process that ran it; for whoever knows the serial to fill in."""

    @property
    def is_call(self) -> bool:
        """False for a prepare: a scope in which nothing ran and nothing failed."""
        return self.executed or self.error or self.protocol == "simple"


@dataclass(slots=True)
class ApartCounts:
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
    reads: ReadsByKey = field(default_factory=dict)
    failed: ApartCounts = field(default_factory=ApartCounts)
    short: ApartCounts = field(default_factory=ApartCounts)
    lost_reads: int = 0
    lost_queries: int = 0
    in_flight: bool = False
    running: QueryEvent | None = None


class Member(NamedTuple):
    """A thread that runs already; 0 is what is not known of it."""

    tid: int
    pid: int
    inner_pid: int = 0
    """As its own PID namespace has it."""
    postmaster: int = 0


@dataclass(frozen=True, slots=True)
class Request:
    """What to trace, decided before anything is loaded."""

    members: tuple[Member, ...] = ()
    """Traced from the start."""
    postmasters: tuple[tuple[int, int], ...] = ()
    """Their children are traced, those to come too: pid, and where in their memory the pointer
    to application_name is, or 0."""
    binaries: tuple[tuple[str, int], ...] = ()
    """Where to put the probes of queries: the file, and the process or -1 for all that run it."""
    reads: ReadsWay | None = None
    """A way in that is forced; None takes the best that loads."""
    only: int = 0
    """The thread of the first member, if it matters most: it is found first."""
    listed: bool = False
    """Some members are no children of the postmasters."""
    askers: tuple[tuple[str, int], ...] = ()
    """As binaries: where reads are left to I/O workers, of PostgreSQL 18."""
    performers: tuple[tuple[str, int], ...] = ()
    """As binaries: where those workers run."""
    ignored: tuple[int, ...] = ()
    """Children of the postmasters that run already and are of no interest."""
    helpers_only: bool = False
    """Of the children to come, only parallel workers and I/O workers."""
    aio: bool = False
    """The server may leave reads to I/O workers or io_uring."""
    block_size: int = 8192
    near_window: int = 128 << 10
    most_tasks: int = 64
    emit_durations: bool = False
    unfollowed: frozenset[int] = frozenset()
    """Postmasters whose children's queries are not measured."""
    not_measured: tuple[str, ...] = ()
    """What is known beforehand, each with its reason."""


class Engine(Protocol):
    """Probes that run in the kernel."""

    name: Literal["libbpf", "bcc"]
    reads_way: ReadsWay
    queries_way: QueriesWay
    not_measured: list[str]

    def poll(self, *, settled: bool = True) -> list[QueryEvent]:
        """The queries that ended since the last call; does not wait.

        Unless `settled`, also those that ended a moment ago, of which reads that others made
        may come to be counted yet.
        """

    def serials(self) -> list[tuple[int, int, int]]:
        """(serial, thread, when it ended or 0) of each traced thread: cheap.

        One whose queries were not all fetched has not ended yet.
        """

    def task(self, serial: int) -> TaskSnapshot:
        """One of them, without its reads."""

    def snapshot(self) -> list[TaskSnapshot]:
        """What each traced thread did so far. Poll first."""

    def release(self, serials: Sequence[int]) -> list[TaskSnapshot]:
        """What each of these threads did in all; their places are free for others.

        Together they cost little more than one.
        """

    def ignore(self, serial: int) -> None:
        """Count nothing more of this thread."""

    def was_idle(self, serial: int) -> None:
        """That thread ran no query when tracing began: what it read then was outside."""

    def follow_postmaster(
        self, old: int, pid: int, application_name: int, binary: str | None
    ) -> None:
        """Trace the children of this postmaster in place of those of one that is gone.

        `binary` is what it runs, if probes have to be put there first.
        """

    def lost_tasks(self) -> int:
        """Threads that there was no room for."""

    def durations(self) -> list[int]:
        """Each read's time since the last call, if the request asked for them."""

    def detach(self) -> None:
        """Stop measuring; what was measured can still be read."""

    def close(self) -> None:
        """Leave nothing behind in the kernel."""
