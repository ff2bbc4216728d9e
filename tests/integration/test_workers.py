"""PostgreSQL 19's I/O workers, which come and go, and autovacuum, which leads parallel workers."""

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import pytest
from test_charging import (
    PATIENCE_S,
    assert_all,
    blocks,
    check,
    create,
    explain,
    make_cold,
    of,
    performers,
    prepare,
    the_query,
    wait_for,
)

from fix_cluster import Connection, Server
from pgtrace import trace
from pgtrace.lab.core.private_cluster import PrivateCluster
from scans import ATTEMPTS

pytestmark = pytest.mark.pg(">= 19")

BLOCKS = 8000
SCAN = "select * from small"
PLACES_FOR_HELPERS = 64
"""What a tracer of one backend has, beside those that run already: targets.py."""
COME_AND_GO = {
    "io_method": "worker",
    "io_min_workers": 1,
    "io_max_workers": 8,
    "io_worker_launch_interval": 0,
    "io_worker_idle_timeout": "200ms",
    # Room for so many reads under way that one worker is too few
    "shared_buffers": "128MB",
}
PARALLEL_AUTOVACUUM = {
    "autovacuum_naptime": "1s",
    "autovacuum_max_parallel_workers": 2,
    "min_parallel_index_scan_size": 0,
}


@pytest.fixture
def restless(server: Server) -> PrivateCluster:
    """A server whose I/O workers come in the middle of a scan, and go as it ends."""
    cluster = server(**COME_AND_GO)
    with cluster.connect() as connection:
        create(connection, "small", BLOCKS)
        connection.execute("create extension if not exists pg_buffercache")
    return cluster


@pytest.fixture
def observer(restless: PrivateCluster) -> Iterator[Connection]:
    with restless.connect() as connection:
        yield connection


def is_cold(cluster: PrivateCluster, connection: Connection) -> bool:
    """False while the kernel's read-ahead of the scan before is under way."""
    try:
        make_cold(cluster, connection, "small")
    except AssertionError:
        return False
    return True


def io_workers(connection: Connection) -> set[int]:
    rows = connection.execute("select pid from pg_stat_activity where backend_type = 'io worker'")
    return {pid for (pid,) in rows}


@pytest.mark.parametrize("whole", [False, True], ids=["backend", "server"])
def test_io_workers_that_come_and_go(
    restless: PrivateCluster, observer: Connection, whole: bool
) -> None:
    """They are traced from their first read, their places are given back, and nothing is lost.

    More of them than there are places. As many blocks and as many reads as EXPLAIN says of the
    scans, all of which the first of them would not make alone.
    """
    with restless.connect(prepare_threshold=None) as connection:
        pid = connection.info.backend_pid
        prepare(restless, connection, SCAN, "small")
        wait_for(lambda: len(io_workers(observer)) == 1)
        (first,) = io_workers(observer)
        seen: set[int] = set()
        plans = []
        with trace(restless.postmaster_pid if whole else pid, literals=True) as tracer:
            deadline = time.monotonic() + PATIENCE_S
            while len(seen) <= PLACES_FOR_HELPERS:
                assert time.monotonic() < deadline, f"only {len(seen)} workers came"
                plans.append(explain(connection, SCAN))
                seen |= io_workers(observer) - {first}
                wait_for(lambda: io_workers(observer) == {first})
                # A scan's ring leaves some more blocks in shared buffers each time
                observer.execute("select pg_buffercache_evict_relation('small')")
                wait_for(lambda: is_cold(restless, observer))
    capture = tracer.capture()
    check(capture)
    assert capture.probes.not_measured == []
    (query,) = [q for q in of(capture, pid).queries if (q.text or "").endswith(SCAN)]
    assert query.calls == len(plans)
    assert performers(query.io) <= {"io worker", "backend"}
    assert blocks(query.io, "io worker") > 0
    assert_all(query.io, sum(plan["Shared Read Blocks"] for plan in plans))
    assert sum(r.count for r in query.io) == sum(plan["I/O Count"] for plan in plans)
    if whole:
        of_them = {b.pid: b for b in capture.backends if b.backend_type == "io worker"}
        # One that was given nothing to read is known by its start and end alone
        silent = {b.pid for b in capture.backends if b.backend_type is None and not b.io}
        assert seen <= set(of_them) | silent
        assert all(of_them[worker].ended for worker in seen & set(of_them))
        assert all(blocks(worker.io) == 0 for worker in of_them.values())


def test_two_backends_that_want_the_same_blocks(restless: PrivateCluster) -> None:
    """Who waits for another's read has a hit, in EXPLAIN too: each read is one backend's."""
    # Until both are at it at the same time, which a busy host does not grant at once
    wait_for(lambda: hits_of_two(restless) > BLOCKS / 20)


def hits_of_two(restless: PrivateCluster) -> int:
    restless.restart()  # so that nothing else is a hit
    with restless.connect() as one, restless.connect() as two, ThreadPoolExecutor(2) as pool:
        pids = [connection.info.backend_pid for connection in (one, two)]
        for connection in one, two:
            connection.execute(f"explain {SCAN}")
            make_cold(restless, one, "small")
        with trace(restless.postmaster_pid, literals=True) as tracer:
            plans = list(pool.map(lambda connection: explain(connection, SCAN), (one, two)))
    capture = tracer.capture()
    check(capture)
    for pid, plan in zip(pids, plans, strict=True):
        query = the_query(of(capture, pid), SCAN)
        assert_all(query.io, plan["Shared Read Blocks"])
        assert query.waited_ns
    return sum(plan["Shared Hit Blocks"] for plan in plans)


def test_autovacuum_leads_parallel_workers(server: Server) -> None:
    """What they read is the autovacuum worker's; they are no backends of their own."""
    cluster = server(**PARALLEL_AUTOVACUUM)
    with cluster.connect() as connection:
        connection.execute("drop table if exists worn")
        create(connection, "worn", 4000)
        connection.execute("create index on worn (id, md5(filler))")
        connection.execute("create index on worn (md5(id::text))")
        connection.execute("alter table worn set (autovacuum_parallel_workers = 2)")
        connection.execute("update worn set id = id + 1 where id < 500000")
        make_cold(cluster, connection, "worn")
        workers: set[tuple[int, int]] = set()

        def vacuumed(times: int) -> bool:
            # Catalogs have indexes too: their autovacuum workers lead others
            running = connection.execute(
                "select worker.pid, leader_pid from pg_stat_activity worker "
                "join pg_stat_progress_vacuum leader on leader.pid = leader_pid "
                "where backend_type = 'parallel worker' and relid = 'worn'::regclass"
            ).fetchall()
            workers.update(running)
            row = connection.execute(
                "select autovacuum_count from pg_stat_user_tables where relname = 'worn'"
            ).fetchone()
            return bool(row and row[0] >= times)

        def at_rest() -> bool:
            running = "select 1 from pg_stat_activity where backend_type like 'autovacuum %'"
            return connection.execute(running).fetchone() is None

        try:
            with trace(cluster.postmaster_pid) as tracer:
                connection.execute("alter system set autovacuum = on")
                connection.execute("alter system set autovacuum_vacuum_cost_delay = 2")
                connection.execute("select pg_reload_conf()")
                for times in range(1, ATTEMPTS + 1):
                    wait_for(partial(vacuumed, times))
                    if workers:
                        break
                    # On a busy host nobody looked while they were there
                    connection.execute("update worn set id = id + 1 where id < 500000")
                connection.execute("alter system set autovacuum = off")
                connection.execute("select pg_reload_conf()")
                wait_for(at_rest)
        finally:
            connection.execute("alter system reset all")
            connection.execute("select pg_reload_conf()")
    capture = tracer.capture()
    check(capture)
    assert workers
    (leader_pid,) = {leader for _, leader in workers}
    leader = of(capture, leader_pid)
    assert (leader.backend_type, leader.datname) == ("autovacuum worker", "postgres")
    assert {r.scope for r in leader.io} == {"outside"}
    assert {"backend", "parallel worker"} <= performers(leader.io)
    assert blocks(leader.io) > 4000
    assert not {pid for pid, _ in workers} & {b.pid for b in capture.backends}
    assert "parallel worker" not in {b.backend_type for b in capture.backends}
