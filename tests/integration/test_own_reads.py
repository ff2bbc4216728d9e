"""PostgreSQL 18's reads that a backend makes itself, of which nothing is noted for I/O workers."""

import psycopg
import pytest
from test_charging import (
    SCANS,
    assert_all,
    blocks,
    check,
    explain,
    of,
    prepare,
    the_query,
)
from test_charging import charged as charged  # noqa: PLC0414  # a fixture

from fix_cluster import Connection
from pgtrace import trace
from pgtrace.engines import layout
from pgtrace.engines.libbpf_engine import LibbpfEngine
from pgtrace.lab.core.private_cluster import PrivateCluster
from pgtrace.tracing.tracer import Tracer

pytestmark = pytest.mark.pg(">= 18")


@pytest.fixture
def cluster(charged: PrivateCluster) -> PrivateCluster:
    with charged.connect() as connection:
        connection.execute("create extension if not exists pg_buffercache")
        forget(connection)
    return charged


def forget(connection: Connection) -> None:
    """Have both tables in no shared buffer."""
    for table in "small", "large":
        connection.execute("select pg_buffercache_evict_relation(%s::regclass)", (table,))


def of_its_reads(tracer: Tracer) -> layout.Charge:
    """What is noted of the reads of the one backend that is traced."""
    assert isinstance(tracer.engine, LibbpfEngine)
    tasks = tracer.engine._tasks
    charge: layout.Charge = tasks.read(tasks._serials[0]).charge
    return charge


@pytest.mark.parametrize("tier", ["light", "full"])
def test_a_read_that_a_backend_makes_itself_is_not_noted(
    cluster: PrivateCluster, tier: str
) -> None:
    """Its pattern is that of the read, which is the same as that of asking."""
    form, off = SCANS["index"]
    query = form.format("small")
    with cluster.connect() as backend:
        pid = backend.info.backend_pid
        prepare(cluster, backend, query, "small", **dict.fromkeys(off, "off"))
        with trace(pid, literals=True, queries=tier) as tracer:
            plan = explain(backend, query)
            charge = of_its_reads(tracer)
        capture = tracer.capture()
    check(capture)
    assert plan["Shared Read Blocks"] > 1000
    assert_all(of(capture, pid).io, plan["Shared Read Blocks"])
    assert (charge.asks, charge.known, charge.expected, charge.doubted) == (1, 0, 0, 0)
    assert {"random", "near"} & {one.pattern for one in of(capture, pid).io}


def test_after_a_read_that_did_not_come_each_is_noted(cluster: PrivateCluster) -> None:
    """A relation's file is gone, when its block is asked for: an error, and no read."""
    scan = "select * from small"
    with cluster.connect(prepare_threshold=None) as backend, cluster.connect() as other:
        pid = backend.info.backend_pid
        backend.execute("set plan_cache_mode = force_generic_plan")
        backend.execute("set enable_seqscan = off; set enable_bitmapscan = off")
        backend.execute("set enable_indexonlyscan = off; set max_parallel_workers_per_gather = 0")
        backend.execute("prepare one as select id from large where id = $1")
        prepare(cluster, backend, scan, "small")
        (path,) = other.execute("select pg_relation_filepath('large')").fetchone() or ()
        file, away = cluster.datadir / path, cluster.datadir / f"{path}.away"
        (one,), *ids = other.execute("select id from large limit 100").fetchall()
        forget(other)
        with trace(pid, literals=True) as tracer:
            backend.execute(f"execute one ({one})")
            assert of_its_reads(tracer).asks
            assert not of_its_reads(tracer).doubted
            # Have all backends close their files, so that this one is opened again
            other.execute("create database passing")
            other.execute("drop database passing")
            file.rename(away)
            try:
                with pytest.raises(psycopg.errors.UndefinedFile):
                    for (each,) in ids:
                        backend.execute(f"execute one ({each})")
            finally:
                away.rename(file)
            assert of_its_reads(tracer).expected
            plan = explain(backend, f"{scan} order by id limit 2000")
            assert of_its_reads(tracer).doubted
            backend.execute("set enable_seqscan = on; set enable_indexscan = off")
            whole = explain(backend, scan)
        capture = tracer.capture()
    check(capture)
    traced = the_query(of(capture, pid), "order by id limit 2000")
    assert plan["Shared Read Blocks"] > 100
    assert_all(traced.io, plan["Shared Read Blocks"])
    traced = the_query(of(capture, pid), scan)
    assert_all(traced.io, whole["Shared Read Blocks"])
    assert blocks(traced.io, "io worker") > 0
