"""One tracing session: a process and an engine, snapshots of what they did, and the capture."""

import contextlib
import os
import platform
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta

from . import statements
from .capture import Apart, Backend, Capture, Host, Lost, Probes, Server, Totals
from .engines import ApartCounts, Engine, QueryEvent, ReadsWay, Request, TaskSnapshot
from .engines import choice as engines
from .errors import PgtraceError
from .postgres import binary, processes

POLL_S = 0.05
"""How often the records of queries are fetched; the kernel keeps about 5,000 between."""


@dataclass(frozen=True, slots=True)
class Target:
    """The process to trace, and what is known of it."""

    pid: int
    backend: processes.Backend | None = None
    server: processes.Server | None = None

    @classmethod
    def find(cls, pid: int) -> "Target":
        """A PostgreSQL process. Raises TargetError or PermissionDeniedError if it is none."""
        backend = processes.backend(pid)
        server = processes.server(pid) if backend.postmaster_pid else None
        return cls(pid, backend, server)


class Tracer:
    """Attached from the start; `capture()` may be asked for at any time, also after `stop()`.

    Raises TargetError, PermissionDeniedError or UnsupportedError if it cannot attach.
    """

    def __init__(
        self,
        target: Target,
        *,
        reads: ReadsWay | None = None,
        literals: bool = False,
        emit_durations: bool = False,
    ) -> None:
        self.target = target
        self._literals = literals
        server = target.server
        self.block_size = (server and server.block_size) or 8192
        self._statements: dict[int, statements.Statements] = {}
        self._events: list[QueryEvent] = []
        self._lock = threading.Lock()
        self._finished: Capture | None = None
        self.started = datetime.now(UTC)
        self.engine: Engine = engines.start(
            Request(
                target.pid,
                reads,
                queries=target.backend is not None,
                all_threads=target.backend is None,
                block_size=self.block_size,
                emit_durations=emit_durations,
            )
        )
        self.started_ns = time.monotonic_ns()
        self._before = self._running_text()
        """The text, and whether it was cut, of the query that ran when tracing began."""

    def poll(self) -> list[QueryEvent]:
        """Fetch and count the queries that ended; return those of since the last call."""
        with self._lock:
            self._poll()
            events, self._events = self._events, []
            return events

    def wall_time(self, monotonic_ns: int) -> datetime:
        """When that was, in UTC."""
        return self.started + timedelta(microseconds=(monotonic_ns - self.started_ns) / 1000)

    def durations(self) -> list[int]:
        """Each read's nanoseconds since the last call, if they were asked for."""
        return self.engine.durations()

    def snapshot(self) -> dict[int, TaskSnapshot]:
        """What each traced thread did so far, by thread id."""
        with self._lock:
            self._poll()
            return self._snapshot()

    def capture(self) -> Capture:
        """Everything measured so far, or, once stopped, in all."""
        with self._lock:
            if self._finished:
                return self._finished
            self._poll()
            return self._capture(self._snapshot(), time.monotonic_ns())

    def stop(self) -> Capture:
        """Detach, leave nothing in the kernel, and return what was measured."""
        with self._lock:
            if self._finished:
                return self._finished
            ended_ns = time.monotonic_ns()
            self.engine.detach()
            self._poll()
            try:
                self._finished = self._capture(self._snapshot(), ended_ns)
            finally:
                self.engine.close()
            return self._finished

    def _poll(self) -> None:
        for event in self.engine.poll():
            if not event.is_call and not event.begun_before:
                continue
            named = self._named(event)
            of_task = self._statements.get(named.tid)
            if of_task is None:
                of_task = statements.Statements(literals=self._literals)
                self._statements[named.tid] = of_task
            of_task.add(named)
            self._events.append(named)

    def _snapshot(self) -> dict[int, TaskSnapshot]:
        found = self.engine.snapshot()
        for snapshot in found.values():
            if snapshot.running:
                snapshot.running = self._named(snapshot.running)
        return found

    def _named(self, event: QueryEvent) -> QueryEvent:
        if event.begun_before and self._before:
            return replace(event, text=self._before[0], text_cut=self._before[1])
        return event

    def _running_text(self) -> tuple[bytes, bool] | None:
        if self.target.backend is None or self.engine.queries_way == "none":
            return None
        try:
            running = binary.running_query(self.target.pid)
        except PgtraceError as error:
            self.engine.not_measured.append(f"text of the query that ran before: {error}")
            return None
        if running is None:
            self.engine.was_idle(self.target.pid)
        return running

    def _capture(self, snapshots: dict[int, TaskSnapshot], ended_ns: int) -> Capture:
        server, engine = self.target.server, self.engine
        return Capture(
            started=self.started.strftime("%Y-%m-%dT%H:%M:%S.%fZ"),
            duration_s=(ended_ns - self.started_ns) / 1e9,
            host=Host(platform.release(), os.cpu_count() or 1),
            server=Server(
                server.version if server else None,
                server.postmaster_pid if server else None,
                server.data_directory if server else None,
                self.block_size,
            ),
            probes=Probes(
                engine.name, engine.reads_way, engine.queries_way, list(engine.not_measured)
            ),
            lost=Lost(
                sum(s.lost_reads for s in snapshots.values()),
                sum(s.lost_queries for s in snapshots.values()),
                sum(s.in_flight for s in snapshots.values()),
            ),
            totals=Totals(),
            backends=[self._backend(tid, snapshot) for tid, snapshot in snapshots.items()],
        ).add_up()

    def _backend(self, tid: int, snapshot: TaskSnapshot) -> Backend:
        known, size = self.target.backend, self.block_size
        of_task = self._statements.get(tid)
        queries = of_task.queries(size) if of_task else []
        if snapshot.running:
            queries.append(statements.unfinished(snapshot.running, size, literals=self._literals))
        return Backend(
            pid=tid,
            backend_type=known.backend_type if known else None,
            datname=known.datname if known else None,
            usename=known.usename if known else None,
            reads=statements.reads_list(snapshot.reads, size),
            failed=_apart(snapshot.failed),
            short=_apart(snapshot.short),
            queries=queries,
        )


def _apart(counts: ApartCounts) -> Apart:
    return Apart(counts.count, counts.bytes, counts.device_bytes, counts.total_ns)


@contextlib.contextmanager
def trace(
    pid: int,
    *,
    any_process: bool = False,
    reads: ReadsWay | None = None,
    literals: bool = False,
    emit_durations: bool = False,
) -> Iterator[Tracer]:
    """Trace a backend while the block runs; `capture()` of what it yields has the result.

    With `any_process`, the reads of a process that need not be PostgreSQL, all of the threads
    that it has now. Errors as Tracer.
    """
    target = Target(pid) if any_process else Target.find(pid)
    tracer = Tracer(target, reads=reads, literals=literals, emit_durations=emit_durations)
    leave = threading.Event()

    def fetch() -> None:
        while not leave.wait(POLL_S):
            tracer.poll()

    thread = threading.Thread(target=fetch, name="pgtrace", daemon=True)
    thread.start()
    try:
        yield tracer
    finally:
        leave.set()
        thread.join()
        tracer.stop()
