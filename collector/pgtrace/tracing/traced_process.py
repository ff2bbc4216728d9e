"""Who the traced threads are: backends, their helpers, and what each of them did in all."""

import functools
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TypeVar

from .. import engines, terminal_text
from ..engines import (
    ExcludedCounts,
    QueryEvent,
    ReadsByKey,
    StatementTotal,
    TaskSnapshot,
    add_reads,
)
from ..model.capture import Lost, Operation, Scope
from ..postgres import titles
from ..postgres.catalog import Name
from .statements import Statements

_Named = TypeVar("_Named", QueryEvent, StatementTotal)

EXCLUDED = ("failed", "short", "failed_writes", "short_writes", "failed_fsyncs")
"""What a TaskSnapshot counts apart."""
CLIENTS = frozenset({"client backend", "walsender"})
"""Types whose open statement is a query: the others show a text and run no portal."""


@dataclass(slots=True)
class TracedProcess:
    """One process that was traced. Times are CLOCK_MONOTONIC, in nanoseconds."""

    serial: int
    pid: int
    inner_pid: int
    postmaster: int
    title: titles.Title
    began_ns: int
    ended_ns: int = 0
    born_ns: int = 0
    """When the process began, which was traced later; 0: before tracing."""
    called: Name | None = None
    """What the database said of it, all of which was taken over."""
    is_own: bool | None = None
    """Whether it served pgtrace alone; None while that is not settled."""
    is_stranger: bool = False
    """No process of the server's, though a child of its postmaster."""
    leader_is_inner: bool = True
    """Its title has the leader's pid in the server's own PID namespace, as the server wrote it."""
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
    leader: "TracedProcess | None" = None
    """Who pays for what it reads, if it is a parallel worker."""
    helpers: list["TracedProcess"] = field(default_factory=list)
    """Parallel workers whose reads its running query pays."""
    helped: ReadsByKey = field(default_factory=dict)
    """Reads of the parallel workers of its queries that ended."""
    helped_by: dict[int, ReadsByKey] = field(default_factory=dict)
    """The same by statement, where those are added up in the kernel."""
    excluded: list[ExcludedCounts] = field(
        default_factory=lambda: [ExcludedCounts() for _ in EXCLUDED]
    )
    """What of those workers is in no histogram, in the order of EXCLUDED."""

    @property
    def is_client(self) -> bool:
        """Whether what it runs is a query. Of whom nothing is known, it is."""
        return self.title.backend_type is None or self.title.backend_type in CLIENTS

    @property
    def scope(self) -> Scope:
        """Where reads for what it runs belong."""
        return "query" if self.is_client else "outside"

    def named(self, event: _Named) -> _Named:
        """The event with the text that the kernel did not see."""
        if event.begun_before and self.before:
            event.text, event.text_cut = self.before
        return event


def silent(
    pid: int,
    began_ns: int,
    ended_ns: int = 0,
    *,
    inner_pid: int = 0,
    postmaster: int = 0,
    title: titles.Title | None = None,
) -> TracedProcess:
    """One who neither read nor ran a query. Of who ended nothing more is known."""
    nothing = TaskSnapshot(0, pid, inner_pid or pid, postmaster, 0, b"", began_ns, ended_ns)
    title = title or titles.Title()
    return TracedProcess(0, pid, inner_pid, postmaster, title, began_ns, ended_ns, final=nothing)


def cut_off(process: TracedProcess, final: TaskSnapshot) -> QueryEvent | None:
    """The query in the midst of which a backend ended, which is an error: it was terminated, it
    crashed, or its client left before a Sync. None where there was none.
    """
    running = final.running
    if running is None or not process.is_client or not (final.exit_code or running.is_call):
        return None
    final.running = None
    running.error, running.end_ns, running.pid = True, final.ended_ns, process.pid
    return process.named(running)


@functools.lru_cache(maxsize=1024)
def title_of(raw: bytes, cluster: str | None, major: int | None) -> titles.Title:
    """A title as the kernel kept it, perhaps cut."""
    return titles.parse(terminal_text.decode(raw).rstrip(), cluster, major)


def helper_reads(snapshot: TaskSnapshot, scope: Scope = "query") -> ReadsByKey:
    """All that a parallel worker read: its leader's query's."""
    reads: ReadsByKey = {}
    for key, counts in snapshot.reads.items():
        itself = key.performed_by == "backend"
        add_reads(
            reads,
            {key: counts},
            scope=scope,
            performed_by="parallel worker" if itself else None,
        )
    return reads


def fold_helpers(leader: TracedProcess, running: QueryEvent | None) -> None:
    """Let the leader have what those workers read that ended, but for its query that runs."""
    for helper in list(leader.helpers):
        final = helper.final
        if final is None or (running and running.start_ns <= helper.began_ns):
            continue
        reads = take_over(leader, helper, final)
        add_reads(leader.helped_by.setdefault(final.started_for, {}), reads)


def take_over(leader: TracedProcess, helper: TracedProcess, final: TaskSnapshot) -> ReadsByKey:
    """Let the leader have what a worker did in all, and return it."""
    leader.helpers.remove(helper)
    reads = helper_reads(final, leader.scope)
    add_reads(leader.helped, reads)
    add_excluded(leader.excluded, excluded(final))
    return reads


def fold_files(process: TracedProcess, instead: Mapping[int, int]) -> None:
    """Count what was of some files, for one who ended or so far, on those that stand for them."""
    engines.fold_files(process.helped, instead)
    for reads in process.helped_by.values():
        engines.fold_files(reads, instead)
    if process.final:
        engines.fold_files(process.final.reads, instead)
    if process.statements:
        process.statements.fold_files(instead)


def excluded(task: TaskSnapshot) -> list[ExcludedCounts]:
    """What of a task is in no histogram, in the order of EXCLUDED."""
    return [getattr(task, name) for name in EXCLUDED]


def add_excluded(into: Iterable[ExcludedCounts], more: Iterable[ExcludedCounts]) -> None:
    """Add what is in no histogram, kind by kind."""
    for total, counts in zip(into, more, strict=True):
        total.count += counts.count
        total.bytes += counts.bytes
        total.device_bytes += counts.device_bytes
        total.total_ns += counts.total_ns


def add_lost(lost: Lost, task: TaskSnapshot) -> None:
    """Add what of a task is in no number."""
    lost.read += task.lost_reads
    lost.write += task.lost_writes
    lost.fsync += task.lost_fsyncs
    lost.queries += task.lost_queries


def add_in_flight(lost: Lost, task: TaskSnapshot) -> None:
    """Add what it has not done yet."""
    several: tuple[tuple[Operation | None, int], ...] = (task.in_flight, 1), ("read", task.requests)
    for operation, number in several:
        if operation and number:
            lost.in_flight[operation] = lost.in_flight.get(operation, 0) + number
