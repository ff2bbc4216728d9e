"""One measured run of one query, on a traced backend.

`EXPLAIN (ANALYZE, BUFFERS, TIMING OFF)` executes the query and throws its rows away in the server:
what is measured is neither the formatting of rows nor the client. It asks no clock per row, and
says how many blocks were found in shared buffers and how many were not. A COPY has no EXPLAIN: its
rows travel, and are thrown away here.
"""

import contextlib
import select
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from ...engines import ProbeType
from ...errors import PgtraceError
from ...linux.block_device import device_counts
from ...model.lab_result import QueryCell, Repeat
from ...tracing.tracer import trace
from .interruption import Interruption
from .private_server import LabServer
from .session_totals import Kept
from .tables import State, Table

if TYPE_CHECKING:
    import psycopg
    from psycopg.pq.abc import PGconn, PGresult

C = TypeVar("C", bound=QueryCell)
_EXPLAIN = "explain (analyze, buffers, timing off, format json) "
_IO_TIMING = ("I/O Read Time", "Shared I/O Read Time")
"""Of blocks in shared buffers; the second name from PostgreSQL 17 on. Milliseconds."""


class RunResult(NamedTuple):
    """What executing a query told; None is what it could not."""

    rows: int
    shared_hits: int | None = None
    shared_reads: int | None = None
    client_cpu_s: float | None = None
    io_timing_s: float | None = None


@dataclass(frozen=True, slots=True)
class Query:
    """What is run. `options` are settings for the session, such as `-c enable_seqscan=off`."""

    text: str
    options: str = ""
    again: int = 0
    """How often it is executed once more afterwards, untraced, by the same backend."""

    def plan(self, backend: "psycopg.Connection[Any]") -> None:
        """Let the session read of catalogs what it will need."""
        backend.execute(f"explain {self.text}".encode())

    def execute(self, backend: "psycopg.Connection[Any]") -> RunResult:
        """Do it, without its rows leaving the server."""
        row = backend.execute(f"{_EXPLAIN}{self.text}".encode()).fetchone()
        assert row is not None
        explained = row[0][0]
        parts = explained["Plan"], explained.get("Planning", {})
        hits, reads = (
            sum(part.get(f"Shared {what} Blocks", 0) for part in parts) for what in ("Hit", "Read")
        )
        timed = [part[key] for part in parts for key in _IO_TIMING if key in part]
        return RunResult(
            int(parts[0]["Actual Rows"]),
            hits,
            reads,
            io_timing_s=sum(timed) / 1e3 if timed else None,
        )


@dataclass(frozen=True, slots=True)
class Copy(Query):
    """`copy … to stdout`, whose rows are thrown away as they come."""

    planned: str = ""
    """A COPY of nothing that needs the same of the catalogs."""

    def plan(self, backend: "psycopg.Connection[Any]") -> None:
        """As of Query."""
        self._execute(backend, self.planned)

    def execute(self, backend: "psycopg.Connection[Any]") -> RunResult:
        """Do it; rows are those that came."""
        began = time.thread_time()
        rows = self._execute(backend, self.text)
        return RunResult(rows, client_cpu_s=time.thread_time() - began)

    @staticmethod
    def _execute(backend: "psycopg.Connection[Any]", text: str) -> int:
        # By libpq itself: psycopg's own loop takes several times as long for a row, and the
        # server would wait for it. But libpq does not wait: it would not hear of Ctrl-C, however
        # long a backend is stopped.
        libpq = backend.pgconn
        libpq.send_query(text.encode())
        begun = _result(libpq)
        if begun is None or begun.status != libpq_status().COPY_OUT:
            why = (begun.error_message if begun else b"").decode(errors="replace").strip()
            raise PgtraceError(f"{text}: {why}")
        fetch, rows = libpq.get_copy_data, 0
        while (size := fetch(1)[0]) >= 0:
            if size:
                rows += 1
            else:
                _hear(libpq)
        ended = _result(libpq)
        if ended is None or ended.status != libpq_status().COMMAND_OK:
            why = libpq.error_message.decode(errors="replace").strip()
            raise PgtraceError(f"{text}: {why}")
        while _result(libpq):
            pass
        return rows


def _result(libpq: "PGconn") -> "PGresult | None":
    """The next one, waited for here."""
    while libpq.is_busy():
        _hear(libpq)
    return libpq.get_result()


def _hear(libpq: "PGconn") -> None:
    """Wait for more, and take it in."""
    poll = select.poll()
    poll.register(libpq.socket, select.POLLIN)
    poll.poll()
    libpq.consume_input()


def libpq_status() -> Any:
    """psycopg's names of what libpq returns."""
    from psycopg.pq import ExecStatus

    return ExecStatus


@dataclass
class Runner:
    """Makes runs on a server, and keeps what holds for all of them together."""

    server: LabServer
    interruption: Interruption
    started: datetime
    probe_type: ProbeType | None = None
    prepare: Callable[[], None] = lambda: None
    """Called when a query may begin, before its table is made cold or warm."""
    kept: Kept = field(default_factory=Kept)

    def run(self, table: Table, query: Query, state: State, cell: C) -> C:
        """Measure it once, and fill the cell, which knows what is varied: seconds and blocks, None
        where something could not be measured. The time is as the client saw it, planning included.
        The session has planned it before: catalogs are not in its reads.
        """
        with contextlib.closing(self.server.fresh(f"{table.options} {query.options}")) as backend:
            pid = backend.info.backend_pid
            with self.interruption.allowed():
                query.plan(backend)
            with trace(pid, probe_type=self.probe_type, by_relation=True) as tracer:
                with self.interruption.allowed():
                    self.prepare()
                    resident = table.bring(state)
                    device, cpu = device_counts(table.files[0]), _cpu(pid)
                    faults = _page_faults(pid)
                    began_s = (datetime.now(UTC) - self.started).total_seconds()
                    began = time.perf_counter()
                    ran = query.execute(backend)
                    elapsed = time.perf_counter() - began
                device_after, cpu_after = device_counts(table.files[0]), _cpu(pid)
                faults_after = _page_faults(pid)
                # probes that are still there would slow the executions that are not traced
                capture = tracer.stop(wait=query.again > 0)
            with self.interruption.allowed():
                again = [_again(query, backend) for _ in range(query.again)]
        self.kept.keep(capture)
        requests, read_bytes, busy_ms = _less(device_after, device)
        cpu_s, cpu_wait_s = _less(cpu_after, cpu)
        cell.began_s, cell.elapsed_s, cell.rows = began_s, elapsed, ran.rows
        cell.cpu_s, cell.cpu_wait_s, cell.client_cpu_s = cpu_s, cpu_wait_s, ran.client_cpu_s
        cell.shared_hits, cell.shared_reads = ran.shared_hits, ran.shared_reads
        cell.device_requests, cell.device_read_bytes = requests, read_bytes
        # The kernel keeps 32 bits of it, which are full after 50 days
        cell.device_busy_s = None if busy_ms is None else busy_ms % (1 << 32) / 1e3
        cell.page_faults = faults_after - faults
        cell.io_timing_s = ran.io_timing_s
        cell.resident_before = resident
        cell.io = table.named([r for b in capture.backends for r in b.io if b.pid == pid])
        cell.again = again
        return cell


def _again(query: Query, backend: "psycopg.Connection[Any]") -> Repeat:
    began = time.perf_counter()
    ran = query.execute(backend)
    elapsed_s = time.perf_counter() - began
    return Repeat(elapsed_s, ran.shared_hits, ran.shared_reads, ran.io_timing_s)


def _page_faults(pid: int) -> int:
    """Minor ones: minflt, the tenth field of proc_pid_stat(5)."""
    text = Path(f"/proc/{pid}/stat").read_text()
    return int(text.rpartition(")")[2].split()[7])


def _cpu(pid: int) -> tuple[float, float] | tuple[None, None]:
    """Seconds on a CPU, and waiting for one: Documentation/scheduler/sched-stats.rst. None if they
    are not counted."""
    try:
        on, waited = map(int, Path(f"/proc/{pid}/schedstat").read_text().split()[:2])
    except OSError:
        return None, None
    return (on / 1e9, waited / 1e9) if on else (None, None)


def _less(after: tuple[Any, ...], before: tuple[Any, ...]) -> list[Any]:
    return [None if a is None or b is None else a - b for a, b in zip(after, before, strict=True)]
