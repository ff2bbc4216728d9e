"""Where the time goes of whole servers: of clients that come and go, that sleep all the while, and
of servers of several versions at once.
"""

import contextlib
import itertools
import os
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path

import psycopg
import pytest
from test_time_cases import by_name
from test_times import once_asleep

from child import children_of, state_of, wait_for
from copied_cluster import CopiedCluster
from fix_cluster import SETTINGS, Connection, bindir, data_directory
from fix_markers import PG_VERSION
from pgtrace.engines import Tier
from pgtrace.lab.core.private_cluster import PrivateCluster
from pgtrace.model.capture import Backend, Capture
from pgtrace.postgres import discovery
from pgtrace.reporters.sections.time_parts import is_idle
from pgtrace.tracing import charging
from pgtrace.tracing.options import TraceOptions
from pgtrace.tracing.targets import Target
from pgtrace.tracing.tracer import Tracer, trace
from time_watch import MS, PROBE_TYPE, counting, watching

TIERS: tuple[Tier, ...] = "light", "full"
ANOTHER = 18 if PG_VERSION == 15 else 15
CLIENTS, CALLS = 8, 40


def storm(server: PrivateCluster, script: str) -> None:
    """Clients each of whose calls has a connection of its own. They end before their backends: one
    that ended while probes are let go of would lack what it did meanwhile.
    """
    before = {*children_of(server.postmaster_pid)}
    options = ("-n", "-C", "-c", f"{CLIENTS}", "-t", f"{CALLS}", "-f", "-")
    command = server.command("pgbench", *options)
    subprocess.run(command, input=script, text=True, check=True, capture_output=True)
    wait_for(lambda: not {*children_of(server.postmaster_pid)} - before)


def clients(taken: Capture) -> list[Backend]:
    return [each for each in taken.backends if each.backend_type == "client backend"]


@pytest.mark.parametrize("tier", TIERS)
def test_clients_that_come_and_go_have_all_their_time(cluster: PrivateCluster, tier: Tier) -> None:
    with trace(cluster.postmaster_pid, probe_type=PROBE_TYPE, times=True, queries=tier) as tracer:
        storm(cluster, "select pg_sleep(0.01);\n")
    taken = tracer.capture()
    assert not taken.lost.times
    assert not taken.lost.backends
    # One that was first seen before its title was there, and ended soon, has no type
    came = [b for b in taken.backends if b.began and b.backend_type in {None, "client backend"}]
    assert sum(each.merged or 1 for each in came) >= CLIENTS * CALLS
    spent: Counter[str] = sum((by_name(each.times) for each in came), Counter())
    calls = CLIENTS * CALLS * 10 * MS
    assert calls <= spent["timeout:pgsleep"] <= 2 * calls
    told = [each for each in came if each.ended and not each.merged]
    for each in told:
        assert each.began
        assert each.ended
        lived = datetime.fromisoformat(each.ended) - datetime.fromisoformat(each.began)
        whole = sum(t.total_ns for t in each.times)
        missing = lived.total_seconds() * 1e9 - whole
        assert abs(missing) <= max(0.01 * whole, MS / 10), (missing, each)


@contextmanager
def asleep(server: PrivateCluster, text: str) -> Iterator[Connection]:
    """A backend that runs it until the end of the block."""
    with server.connect() as connection:

        def run() -> None:
            with contextlib.suppress(psycopg.Error):
                connection.execute(text)

        thread = threading.Thread(target=run)
        thread.start()
        with server.connect() as other:
            event = "select wait_event from pg_stat_activity where pid = %s"
            pid = connection.info.backend_pid
            wait_for(lambda: other.execute(event, [pid]).fetchone() == ("PgSleep",))
        wait_for(lambda: state_of(pid) == "S")
        yield connection
        connection.cancel()
        thread.join()


@contextmanager
def idle_backend(server: PrivateCluster) -> Iterator[Connection]:
    """It has told its client that it is there, and waits for what that wants."""
    with server.connect() as connection:
        wait_for(lambda: state_of(connection.info.backend_pid) == "S")
        yield connection


@pytest.mark.parametrize("tier", TIERS)
def test_who_sleeps_all_the_while_is_in_the_capture(cluster: PrivateCluster, tier: Tier) -> None:
    """In its statement, and in each second: no switch was seen of it."""
    with (
        asleep(cluster, "select pg_sleep(600)") as sleeper,
        idle_backend(cluster) as idle,
        trace(cluster.postmaster_pid, probe_type=PROBE_TYPE, times=True, queries=tier) as tracer,
    ):
        time.sleep(2.5)
        pids = sleeper.info.backend_pid, idle.info.backend_pid
        tracer.stop()
    taken = tracer.capture()
    backend, other = (next(each for each in taken.backends if each.pid == pid) for pid in pids)
    (spent,) = backend.times
    assert (spent.wait_event, spent.scope) == ("PgSleep", "query")
    assert spent.total_ns == pytest.approx(taken.duration_s * 1e9, rel=0.02)
    (query,) = backend.queries
    assert (query.text or "").startswith("select pg_sleep(")
    assert sum(each.total_ns for each in query.times) == spent.total_ns
    (spent,) = other.times
    assert (spent.wait_event, spent.scope) == ("ClientRead", "outside")
    slept = [each for interval in taken.intervals for each in interval.times]
    assert sum(e.total_ns for e in slept if e.wait_event_type == "Timeout") == pytest.approx(
        taken.duration_s * 1e9, rel=0.02
    )


@pytest.mark.parametrize("most_ended", [charging.MOST_ENDED, 0])
def test_servers_of_several_versions_have_names_of_their_own(
    cluster: PrivateCluster,
    disk_directory: Path,
    monkeypatch: pytest.MonkeyPatch,
    most_ended: int,
) -> None:
    """Numbers of events differ between them, also of those who ended long ago and are told of
    together. And who is idle is so in each.
    """
    monkeypatch.setattr(charging, "MOST_ENDED", most_ended)
    where = data_directory(ANOTHER, disk_directory)
    settings = SETTINGS | {"fsync": True, "synchronous_commit": True}
    with (
        CopiedCluster(settings, bindir=bindir(ANOTHER), directory=where) as another,
        CopiedCluster(
            settings,
            bindir=bindir(PG_VERSION),
            directory=data_directory(PG_VERSION, disk_directory),
        ) as own,
    ):
        both = own, another
        target = Target.of_servers([discovery.server(each.postmaster_pid) for each in both])
        tracer = Tracer(target, TraceOptions(probe_type=PROBE_TYPE, times=True))
        try:
            for each in both:
                with each.connect() as connection:
                    connection.execute("create table if not exists t as select 1 as a")
                    for _ in range(20):
                        connection.execute("update t set a = a + 1")

            def are_told_together() -> bool:
                tracer.poll()
                return any(each.merged == 2 for each in clients(tracer.capture()))

            if not most_ended:
                wait_for(are_told_together)
        finally:
            taken = tracer.stop()
    times = [each for backend in taken.backends for each in backend.times]
    assert not [each for each in times if (each.wait_event or "").startswith("event ")]
    versions = {PG_VERSION, ANOTHER}
    names = {"WALSync" if version < 17 else "WalSync" for version in versions}
    told = {each.wait_event for each in times if each.wait_event}
    assert {name for name in told if name.lower() == "walsync"} == names
    client = [each for backend in clients(taken) for each in backend.times]
    waits = [t for t in client if t.wait_event == "ClientRead" and t.scope == "outside"]
    assert waits
    assert all(is_idle(each) for each in waits)
    assert not [e for i in taken.intervals for e in i.times if e.wait_event_type == "Activity"]


def test_who_is_moved_from_cpu_to_cpu_loses_no_time(cluster: PrivateCluster) -> None:
    with watching(cluster) as watched:
        there = threading.Event()

        def move() -> None:
            for cpu in itertools.cycle(sorted(os.sched_getaffinity(0))):
                if there.wait(0.003):
                    return
                os.sched_setaffinity(watched.pid, {cpu})

        mover = threading.Thread(target=move)
        mover.start()
        before, known = once_asleep(watched)
        watched.connection.execute(f"{counting(6_000_000)} /* moved */")
        watched.query("moved")  # which holds the sum against the clock
        after, now = once_asleep(watched)
        there.set()
        mover.join()
    ran, waited = (b - a for a, b in zip(before, after, strict=True))
    gained = sum(now[kind] - known[kind] for kind in ("cpu", "run_queue"))
    assert gained == pytest.approx(ran + waited, rel=0.02)
