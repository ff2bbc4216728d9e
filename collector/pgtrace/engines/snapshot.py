"""What an engine hands over: of one thread, of one query, of everything."""

from dataclasses import dataclass, field
from typing import NamedTuple, Self

from ..model.capture import Operation
from ..model.capture import Protocol as ProtocolName
from .counts import Counts, ReadsByKey


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
    born_ns: int = 0
    """When its process began; 0: before tracing."""
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
    asleep: int | None = None
    """For what it sleeps, as TimeKey.event; None if it does not, or that is not measured."""
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


class StatementName(NamedTuple):
    """What tells a statement from others: its id, or where there is none its text."""

    query_id: int
    text: bytes | None
    text_cut: bool = False

    @classmethod
    def of(cls, query_id: int, text: bytes | None, text_cut: bool) -> Self:
        """Of a statement as it was seen, which may have both."""
        return cls(query_id, None) if query_id else cls(query_id, text, text_cut)


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
    times: int
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
