"""A backend whose time is looked at, query by query."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from child import wait_for
from fix_cluster import Connection
from pgtrace.engines import ProbeType, QueryEvent
from pgtrace.lab.core.private_cluster import PrivateCluster
from pgtrace.model.capture import Time
from pgtrace.reporters.sections.time_parts import parts
from pgtrace.tracing.options import TraceOptions
from pgtrace.tracing.targets import Target
from pgtrace.tracing.tracer import Tracer

MS = 10**6
PROBE_TYPE: ProbeType = "tracepoint"


def counting(rows: int) -> str:
    """A query that runs on a CPU alone. Rows of a function that stands in `from` are kept in a
    temporary file from 4 MB on, with which one slept 1.2 s of 1.8 on a busy machine, in no wait
    event.
    """
    return f"select count(*) from (select generate_series(1, {rows})) one"


def kind_of(time: Time) -> str:
    """Waiting for a CPU is one, in a read or not."""
    return time.kind.removesuffix("_in_read")


class Watched:
    """A backend that is traced, and what it waited for."""

    def __init__(self, connection: Connection, tracer: Tracer) -> None:
        self.connection = connection
        self.server = connection.pgconn
        self.pid = connection.info.backend_pid
        self.tracer = tracer
        self._events: list[QueryEvent] = []

    def query(self, containing: str) -> QueryEvent:
        """The one with this in its text that ended since the last call; held against the clock."""

        def seen() -> bool:
            self._events += self.tracer.poll()
            return any(containing.encode() in (event.text or b"") for event in self._events)

        wait_for(seen)
        (found,) = (event for event in self._events if containing.encode() in (event.text or b""))
        self._events = []
        elapsed = found.end_ns - found.start_ns
        own = [each for each in self.times(found) if each.performed_by == "backend"]
        total_ns = sum(each.total_ns for each in own)
        assert total_ns == pytest.approx(elapsed, rel=0.01, abs=20_000), own
        shown = parts(self.times(found), self.tracer.assembly.reads(found.reads), elapsed)
        assert sum(part.ns for part in shown) == pytest.approx(elapsed, rel=0.01, abs=20_000)
        return found

    def times(self, event: QueryEvent) -> list[Time]:
        return self.tracer.assembly.times(event.reads)

    def waits(self, event: QueryEvent) -> dict[str, int]:
        """Nanoseconds by wait event, and by what else the backend did."""
        found: dict[str, int] = {}
        for each in self.times(event):
            if each.performed_by == "backend":
                name = f"{each.wait_event_type}:{each.wait_event}"
                name = name if each.wait_event else kind_of(each)
                found[name] = found.get(name, 0) + each.total_ns
        return found


@contextmanager
def tracing(pid: int, **options: Any) -> Iterator[Tracer]:
    """Each query of that backend, and where its time goes, none of which is lost."""
    options = {"probe_type": PROBE_TYPE, "per_query": True, "times": True} | options
    tracer = Tracer(Target.find(pid), TraceOptions(**options))
    try:
        yield tracer
    finally:
        taken = tracer.stop()
    assert not taken.lost.times


@contextmanager
def watching(cluster: PrivateCluster, **options: Any) -> Iterator[Watched]:
    with (
        cluster.connect() as connection,
        tracing(connection.info.backend_pid, **options) as tracer,
    ):
        yield Watched(connection, tracer)


def schedstat(pid: int) -> tuple[int, int]:
    """Nanoseconds on a CPU, and waiting for one."""
    ran, waited, _ = Path(f"/proc/{pid}/schedstat").read_text().split()
    return int(ran), int(waited)
