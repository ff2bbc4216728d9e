"""From a request to running probes: what an engine is, and what it hands over."""

from dataclasses import dataclass, field
from typing import Literal, NamedTuple, Protocol

from ..capture import Pattern, Scope, Size, Source
from ..capture import Protocol as ProtocolName

ReadsWay = Literal["fentry", "kprobe", "tracepoint"]
QueriesWay = Literal["usdt", "uprobe", "none"]


class Key(NamedTuple):
    """What is told apart of reads."""

    scope: Scope
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
        for index, count in other.buckets.items():
            self.buckets[index] = self.buckets.get(index, 0) + count


ReadsByKey = dict[Key, Counts]


def add_reads(into: ReadsByKey, reads: ReadsByKey, scope: Scope | None = None) -> None:
    """Add reads to others, under another scope if one is given."""
    for key, counts in reads.items():
        into.setdefault(key._replace(scope=scope) if scope else key, Counts()).add(counts)


@dataclass(slots=True)
class QueryEvent:
    """One query as the client sees it. Times are CLOCK_MONOTONIC, in nanoseconds."""

    tid: int
    text: bytes
    text_cut: bool
    protocol: ProtocolName
    error: bool
    executed: bool
    begun_before: bool
    start_ns: int
    end_ns: int
    """0 while it runs."""
    reads: ReadsByKey

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
    """All that one thread did since tracing began."""

    reads: ReadsByKey = field(default_factory=dict)
    failed: ApartCounts = field(default_factory=ApartCounts)
    short: ApartCounts = field(default_factory=ApartCounts)
    lost_reads: int = 0
    lost_queries: int = 0
    in_flight: bool = False
    running: QueryEvent | None = None


@dataclass(frozen=True, slots=True)
class Request:
    """What to trace, decided before anything is loaded."""

    pid: int
    reads: ReadsWay | None = None
    """A way in that is forced; None takes the best that loads."""
    queries: bool = True
    all_threads: bool = False
    block_size: int = 8192
    near_window: int = 128 << 10
    emit_durations: bool = False


class Engine(Protocol):
    """Probes that run in the kernel."""

    name: Literal["libbpf", "bcc"]
    reads_way: ReadsWay
    queries_way: QueriesWay
    not_measured: list[str]

    def poll(self) -> list[QueryEvent]:
        """The queries that ended since the last call; does not wait."""

    def was_idle(self, tid: int) -> None:
        """That thread ran no query when tracing began: what it read then was outside."""

    def snapshot(self) -> dict[int, TaskSnapshot]:
        """What each traced thread did so far, by thread id."""

    def durations(self) -> list[int]:
        """Each read's time since the last call, if the request asked for them."""

    def detach(self) -> None:
        """Stop measuring; what was measured can still be read."""

    def close(self) -> None:
        """Leave nothing behind in the kernel."""
