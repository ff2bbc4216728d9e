"""Who the traced threads are: backends, their helpers, and what each of them did in all."""

from dataclasses import dataclass, field

from . import statement
from .engines import ApartCounts, QueryEvent, ReadsByKey, TaskSnapshot, add_reads
from .postgres import titles
from .statements import Statements

CLIENTS = frozenset({"client backend", "walsender"})
"""Types whose open statement is a query: the others show a text and run no portal."""


@dataclass(slots=True)
class Person:
    """One process that was traced. Times are CLOCK_MONOTONIC, in nanoseconds."""

    serial: int
    pid: int
    inner_pid: int
    postmaster: int
    title: titles.Title
    began_ns: int
    ended_ns: int = 0
    was_there: bool = False
    """It ran when tracing began."""
    was_idle: bool = False
    """It ran no query then."""
    before: tuple[bytes | None, bool] | None = None
    """The text, and whether it was cut, of the query that ran when tracing began."""
    application_name: bytes = b""
    """Of its last query."""
    statements: Statements | None = None
    final: TaskSnapshot | None = None
    """What it did in all, once it ended."""
    leader: "Person | None" = None
    """Who pays for what it reads, if it is a parallel worker."""
    helpers: list["Person"] = field(default_factory=list)
    """Parallel workers whose reads its running query pays."""
    helped: ReadsByKey = field(default_factory=dict)
    """Reads of the parallel workers of its queries that ended."""
    apart: tuple[ApartCounts, ApartCounts] = field(
        default_factory=lambda: (ApartCounts(), ApartCounts())
    )
    """Failed and short reads of those workers."""

    @property
    def is_client(self) -> bool:
        """Whether what it runs is a query. Of whom nothing is known, it is."""
        return self.title.backend_type is None or self.title.backend_type in CLIENTS

    def named(self, event: QueryEvent) -> QueryEvent:
        """The event with the text that the kernel did not see."""
        if event.begun_before and self.before:
            event.text, event.text_cut = self.before
        return event


def silent(pid: int, began_ns: int, ended_ns: int) -> Person:
    """One who ended, and of whom nothing but that is known."""
    nothing = TaskSnapshot(0, pid, pid, 0, 0, b"", began_ns, ended_ns)
    return Person(0, pid, 0, 0, titles.Title(), began_ns, ended_ns, final=nothing)


def title_of(raw: bytes, cluster: str | None, major: int | None) -> titles.Title:
    """A title as the kernel kept it, perhaps cut."""
    return titles.parse(statement.decode(raw).rstrip(), cluster, major)


def helper_reads(snapshot: TaskSnapshot) -> ReadsByKey:
    """All that a parallel worker read: its leader's query's."""
    reads: ReadsByKey = {}
    for key, counts in snapshot.reads.items():
        itself = key.performed_by == "backend"
        add_reads(
            reads,
            {key: counts},
            scope="query",
            performed_by="parallel worker" if itself else None,
        )
    return reads


def add_apart(into: ApartCounts, counts: ApartCounts) -> None:
    """Add reads that are in no histogram."""
    into.count += counts.count
    into.bytes += counts.bytes
    into.device_bytes += counts.device_bytes
    into.total_ns += counts.total_ns
