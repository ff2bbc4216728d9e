"""One measured run of one query: by EXPLAIN, so that no row has to travel, on a traced backend.

`EXPLAIN (ANALYZE, BUFFERS, TIMING OFF)` executes the query and throws its rows away in the server:
what is measured is neither the formatting of rows nor the client. It asks no clock per row, and
says how many blocks were found in shared buffers and how many were not.
"""

import contextlib
import os
import time
from collections.abc import Callable
from dataclasses import dataclass, field, fields
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from ..capture import Capture, Lost, Probes, Reads
from ..engines import ReadsWay
from ..tracer import trace
from .interruption import Interruption
from .server import LabServer
from .tables import State, Table

_EXPLAIN = "explain (analyze, buffers, timing off, format json) "


@dataclass(frozen=True, slots=True)
class Query:
    """What is run. `options` are settings for the session, such as `-c enable_seqscan=off`."""

    text: str
    options: str = ""


@dataclass(frozen=True, slots=True)
class Measured:
    """What one run took. Seconds, blocks; None is what could not be measured."""

    began_s: float
    elapsed_s: float
    """As the client saw it, planning included."""
    rows: int
    cpu_s: float | None
    """Of the backend: what I/O workers took is not in it."""
    shared_hits: int
    shared_reads: int
    device_requests: int | None
    resident_before: float
    reads: list[Reads]

    def as_cell(self) -> dict[str, Any]:
        """By the names that a result's Cell has for them."""
        return {each.name: getattr(self, each.name) for each in fields(self)}


@dataclass
class Runner:
    """Makes runs on a server, and keeps what holds for all of them together."""

    server: LabServer
    interruption: Interruption
    started: datetime
    reads_way: ReadsWay | None = None
    prepare: Callable[[], None] = lambda: None
    """Called when a query may begin, before its table is made cold or warm."""
    probes: Probes | None = None
    lost: Lost = field(default_factory=Lost)

    def run(self, table: Table, query: Query, state: State) -> Measured:
        """Measure it once. The session has planned it before: catalogs are not in its reads."""
        with contextlib.closing(self.server.fresh(f"{table.options} {query.options}")) as backend:
            pid = backend.info.backend_pid
            backend.execute(f"explain {query.text}".encode())
            with trace(pid, reads=self.reads_way, by_relation=True) as tracer:
                with self.interruption.allowed():
                    self.prepare()
                    resident = table.bring(state)
                    requests, cpu = _requests(table), _cpu_ns(pid)
                    began_s = (datetime.now(UTC) - self.started).total_seconds()
                    began = time.perf_counter()
                    row = backend.execute(f"{_EXPLAIN}{query.text}".encode()).fetchone()
                    elapsed = time.perf_counter() - began
                requests_after, cpu_after = _requests(table), _cpu_ns(pid)
            capture = tracer.capture()
        assert row is not None
        explained = row[0][0]
        parts = explained["Plan"], explained.get("Planning", {})
        self._keep(capture)
        spent = _less(cpu_after, cpu)
        return Measured(
            began_s=began_s,
            elapsed_s=elapsed,
            rows=int(parts[0]["Actual Rows"]),
            cpu_s=None if spent is None else spent / 1e9,
            shared_hits=sum(part.get("Shared Hit Blocks", 0) for part in parts),
            shared_reads=sum(part.get("Shared Read Blocks", 0) for part in parts),
            device_requests=_less(requests_after, requests),
            resident_before=resident,
            reads=table.named([r for b in capture.backends for r in b.reads if b.pid == pid]),
        )

    def _keep(self, capture: Capture) -> None:
        """The best of what was seen, and all that was lost."""
        probes, lost = capture.probes, capture.lost
        if self.probes:
            seen = [p.shortest_ns for p in (self.probes, probes) if p.shortest_ns is not None]
            probes.shortest_ns = min(seen, default=None)
            known = [*self.probes.not_measured, *probes.not_measured]
            probes.not_measured = list(dict.fromkeys(known))
        self.probes = probes
        self.lost = Lost(
            self.lost.reads + lost.reads,
            self.lost.queries + lost.queries,
            self.lost.in_flight + lost.in_flight,
            self.lost.backends + lost.backends,
        )


def _requests(table: Table) -> int | None:
    """Reads that the device of its first file completed, of anybody: Documentation/block/stat.rst.
    None where no device is behind it."""
    number = table.files[0].stat().st_dev
    file = Path(f"/sys/dev/block/{os.major(number)}:{os.minor(number)}/stat")
    try:
        return int(file.read_text().split()[0])
    except OSError:
        return None


def _cpu_ns(pid: int) -> int | None:
    """Nanoseconds on a CPU: Documentation/scheduler/sched-stats.rst. None if it is not counted."""
    try:
        return int(Path(f"/proc/{pid}/schedstat").read_text().split()[0]) or None
    except OSError:
        return None


def _less(after: int | None, before: int | None) -> int | None:
    return None if after is None or before is None else after - before
