"""Who pays: every read a query causes is its own, whichever process performs it.

A table of so many blocks that the catalogs which a parallel worker reads at its start (25 blocks,
in no EXPLAIN) are less than half a percent of them.
"""

import json
import os
import re
import sys
import time
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

from child import Child, stopped, wait_for, wait_until_gone
from copied_cluster import CopiedCluster
from fix_cluster import Connection, Server, make_cold
from fix_markers import PG_VERSION
from pgtrace import trace
from pgtrace.engines.libbpf_engine import LibbpfEngine
from pgtrace.lab.core.private_cluster import PrivateCluster
from pgtrace.model.capture import Backend, Capture, Io, Query
from pgtrace.postgres import discovery
from preloaded import preloaded
from scans import ATTEMPTS, anything_lost

UNTIL_TOLD = "tracepoint:syscalls:sys_enter_getpgid /pid == $2/ { exit(); }\n"
"""bpftrace overlooks a signal that comes while it does not wait."""
WITNESS = 'tracepoint:syscalls:sys_enter_getsid /pid == $2/ {{ printf("{}"); }}\n'
"""bpftrace says how many probes it attaches before it does, in the order of the text or against it:
all are there once both the first and the last tell of something."""
ORACLES = Path(__file__).parents[1] / "oracles"
SETTINGS = {"max_connections": 250, "max_worker_processes": 16, "autovacuum_naptime": "1s"}
BLOCKS = 30_000
FEWER_BLOCKS = 8_000
ROWS_PER_BLOCK = 4
HALF_PERCENT = 0.005
CATALOGS = 60
"""More blocks of them than a parallel worker reads at its start."""
PATIENCE_S = 180
CONNECTIONS = 1000
CLIENTS, TIMES = 200, 30

METHODS = (
    [pytest.param({}, id="17", marks=pytest.mark.pg("17"))]
    + [
        pytest.param({"io_method": method}, id=method, marks=pytest.mark.pg(">= 18"))
        for method in ("worker", "sync", "io_uring")
    ]
)  # fmt: skip
SCANS = {
    "sequential": ("select * from {}", ()),
    "bitmap": ("select * from {} where id > 950000", ("enable_seqscan", "enable_indexscan")),
    "index": ("select * from {} where id < 50000", ("enable_seqscan", "enable_bitmapscan")),
}
NODES = {"sequential": "Seq Scan", "bitmap": "Bitmap Heap Scan", "index": "Index Scan"}


def create(connection: Connection, table: str, blocks: int) -> None:
    """A table of that many blocks, with an index on a random id below a million."""
    if connection.execute("select to_regclass(%s)", (table,)).fetchone() != (None,):
        return
    connection.execute("select setseed(0.003)")
    connection.execute(
        f"create table {table} as select (random() * 1000000)::int as id, repeat('x', 1900) as "
        f"filler from generate_series(1, {blocks * ROWS_PER_BLOCK})"
    )
    connection.execute(f"alter table {table} set (parallel_workers = 4)")
    connection.execute(f"create index on {table} (id)")
    connection.execute(f"vacuum (freeze, analyze) {table}")


@pytest.fixture
def charged(server: Server) -> PrivateCluster:
    """The server of the version under test, with the tables `large` and `small`."""
    cluster = server(**SETTINGS)
    with cluster.connect() as connection:
        create(connection, "large", BLOCKS)
        create(connection, "small", FEWER_BLOCKS)
    return cluster


@pytest.fixture
def backend(charged: PrivateCluster) -> Iterator[Connection]:
    with charged.connect() as connection:
        yield connection


def prepare(
    cluster: PrivateCluster, connection: Connection, query: str, table: str, **settings: object
) -> None:
    """Have the session plan it, and its table be cold."""
    for name, value in settings.items():
        connection.execute(f"set {name} = {value}")
    connection.execute(f"explain {query}")
    make_cold(cluster, connection, table)


def explain(connection: Connection, query: str) -> dict[str, Any]:
    """The plan as it was executed; `Shared Read Blocks`, workers' and planning's included.

    From PostgreSQL 19 on with `I/O Count`: as many reads as a node's read stream had made for it.
    """
    options = "analyze, io, buffers" if PG_VERSION >= 19 else "analyze, buffers"
    row = connection.execute(f"explain ({options}, format json) {query}").fetchone()
    assert row is not None
    ((explained,),) = row
    plan: dict[str, Any] = explained["Plan"]
    plan["Shared Read Blocks"] += explained.get("Planning", {}).get("Shared Read Blocks", 0)
    return plan


def launched(plan: dict[str, Any]) -> int:
    """How many parallel workers it had."""
    below: list[dict[str, Any]] = plan.get("Plans", [])
    return int(plan.get("Workers Launched", 0)) + sum(map(launched, below))


def of(capture: Capture, pid: int) -> Backend:
    """The backend with this pid."""
    (found,) = [backend for backend in capture.backends if backend.pid == pid]
    return found


def the_query(backend: Backend, text: str) -> Query:
    """The one record of the one query that ends so."""
    found = [query for query in backend.queries if (query.text or "").endswith(text)]
    assert [(q.calls, q.errors, q.unfinished) for q in found] == [(1, 0, False)], backend.queries
    return found[0]


def blocks(reads: Iterable[Io], performed_by: str | None = None) -> int:
    """How many blocks these are, or those of them that one kind of process read."""
    return sum(r.blocks for r in reads if performed_by in (None, r.performed_by))


def performers(reads: Iterable[Io]) -> set[str]:
    return {one.performed_by for one in reads}


def all_reads(backend: Backend) -> int:
    """How many reads, those included that are in no histogram."""
    return (
        sum(one.count for one in backend.io)
        + backend.failed["read"].count
        + backend.short["read"].count
    )


def check(capture: Capture) -> None:
    """Nothing is lost, and only what an I/O worker read has lain in its queue."""
    assert not anything_lost(capture), capture.lost
    for backend in capture.backends:
        for one in [*backend.io, *(r for q in backend.queries for r in q.io)]:
            assert (one.queued_ns is not None) == (one.performed_by == "io worker")
            assert one.queued_ns != 0


def assert_all(reads: Iterable[Io], shared_read: int) -> None:
    """No block that EXPLAIN counts is missing, and there are at most half a percent more."""
    found = blocks(reads)
    print(f"{found} blocks, {shared_read} by EXPLAIN")
    assert 0 <= found - shared_read <= HALF_PERCENT * shared_read, f"{found} of {shared_read}"


@contextmanager
def bpftrace(script: str, cluster: PrivateCluster, directory: Path) -> Iterator[dict[str, Any]]:
    """Run an oracle; its maps are in what this yields, once the block has ended."""
    file = directory / script
    text = (ORACLES / script).read_text().replace("POSTGRES", str(cluster.binary))
    file.write_text(WITNESS.format("first") + text + WITNESS.format("last") + UNTIL_TOLD)
    arguments = map(str, (cluster.postmaster_pid, os.getpid()))
    maps: dict[str, Any] = {}
    with Child("bpftrace", "-f", "json", file, *arguments) as process:

        def attached() -> bool:
            os.getsid(0)
            return {'"first"', '"last"'} <= {*re.findall(r'"(?:first|last)"', process.out)}

        wait_for(lambda: attached() or process.code is not None)
        assert process.code is None, "bpftrace ended"
        yield maps
        wait_for(lambda: os.getpgid(0) and process.code is not None)
        assert process.ended().code == 0
    for line in filter(None, process.out.split("\n")):
        printed = json.loads(line)
        if printed["type"] in ("map", "hist"):
            maps |= printed["data"]


def read_bytes(pids: Iterable[int]) -> int:
    """What these processes ever had their devices read."""
    texts = [Path(f"/proc/{pid}/io").read_text() for pid in pids]
    return sum(int(re.findall(r"^read_bytes: (\d+)$", text, re.MULTILINE)[0]) for text in texts)


def with_io_workers(connection: Connection) -> list[int]:
    """The pids of a backend and of all I/O workers of its server."""
    rows = connection.execute("select pid from pg_stat_activity where backend_type = 'io worker'")
    return [connection.info.backend_pid, *(pid for (pid,) in rows)]


# On a CPU of theirs, which is emulated, 7.2 leaves out some of several tasks' reads
@pytest.mark.kernel("< 7.2")
@pytest.mark.vm
@pytest.mark.parametrize("whole", [False, True], ids=["backend", "server"])
@pytest.mark.parametrize("workers", [2, 4])
def test_parallel_workers_read_for_their_leaders_query(
    charged: PrivateCluster, backend: Connection, workers: int, whole: bool
) -> None:
    """All that EXPLAIN counts, and at most what the workers' starts read beside it."""
    query = "select sum(length(filler)) from large"
    pid = backend.info.backend_pid
    settings = {"parallel_setup_cost": 0, "parallel_tuple_cost": 0}
    for _ in range(ATTEMPTS):  # on a busy host the leader may be through before its workers come
        prepare(
            charged, backend, query, "large", max_parallel_workers_per_gather=workers, **settings
        )  # fmt: skip
        with trace(charged.postmaster_pid if whole else pid, literals=True) as tracer:
            plan = explain(backend, query)
        capture = tracer.capture()
        check(capture)
        assert launched(plan) == workers
        assert plan["Shared Read Blocks"] > 0.9 * BLOCKS
        leader = of(capture, pid)
        traced = the_query(leader, query)
        assert_all(traced.io, plan["Shared Read Blocks"])
        assert blocks(leader.io, "parallel worker") == blocks(traced.io, "parallel worker")
        assert "parallel worker" not in {one.backend_type for one in capture.backends}
        of_workers = blocks(traced.io, "parallel worker")
        if PG_VERSION >= 18 or of_workers > workers * BLOCKS / 20:
            break
    if PG_VERSION < 18:
        assert performers(traced.io) == {"backend", "parallel worker"}
        assert of_workers > workers * BLOCKS / 20
    else:
        assert blocks(traced.io, "io worker") > BLOCKS / 20


def test_a_worker_that_is_met_before_its_leader_reads_for_it(
    charged: PrivateCluster, backend: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Places are in no order once those of a thousand that ended are taken again: here the last
    comes first, and nobody looks before both are there."""
    serials = LibbpfEngine.serials
    monkeypatch.setattr(LibbpfEngine, "serials", lambda one: serials(one)[::-1])
    monkeypatch.setattr("pgtrace.tracing.tracer.POLL_S", 60)
    query = "select sum(length(filler)) from large"
    prepare(charged, backend, query, "large")
    with trace(charged.postmaster_pid, literals=True) as tracer, charged.connect() as leader:
        leader.execute("set parallel_setup_cost = 0; set parallel_tuple_cost = 0")
        leader.execute("set max_parallel_workers_per_gather = 2")
        plan = explain(leader, query)
        pid = leader.info.backend_pid
        capture = tracer.capture()
    assert launched(plan) >= 1
    assert_all(the_query(of(capture, pid), query).io, plan["Shared Read Blocks"])
    assert "parallel worker" not in {one.backend_type for one in capture.backends}


def test_who_comes_after_the_end_is_in_no_number(charged: PrivateCluster) -> None:
    """Which may be seconds before all is detached, when names are still asked for."""
    with trace(charged.postmaster_pid) as tracer, charged.connect() as before:
        before.execute("select count(*) from pg_class")
        tracer.engine.detach()
        with charged.connect() as late:
            late.execute("select count(*) from pg_class")
            pids = before.info.backend_pid, late.info.backend_pid
    # Where it knows their start to a hundredth of a second it may say that they were there
    did = {each.pid for each in tracer.capture().backends if each.io or each.queries}
    assert [pid in did for pid in pids] == [True, False]


READS_FIRST = """
#include <fcntl.h>
#include <pthread.h>
#include <unistd.h>
static void child(void)
{
    char bytes[16];
    int file = open("/dev/urandom", O_RDONLY);
    if (read(file, bytes, sizeof(bytes)) < 0)
        _exit(1);
    close(file);
}
__attribute__((constructor)) static void here(void) { pthread_atfork(0, 0, child); }
"""


@pytest.mark.pg("15")
def test_parallel_workers_that_read_before_they_have_a_title(disk_directory: Path) -> None:
    """As all do of a server that was built without OpenSSL: InitProcessGlobals()."""
    query = "select sum(length(filler)) from small"
    with ExitStack() as stack:
        with preloaded(READS_FIRST, disk_directory):
            server = stack.enter_context(CopiedCluster(SETTINGS, directory=disk_directory))
        backend = stack.enter_context(server.connect())
        create(backend, "small", FEWER_BLOCKS)
        settings = {"parallel_setup_cost": 0, "parallel_tuple_cost": 0}
        prepare(server, backend, query, "small", max_parallel_workers_per_gather=2, **settings)
        with trace(backend.info.backend_pid, literals=True) as tracer:
            plan = explain(backend, query)
        traced = the_query(of(tracer.capture(), backend.info.backend_pid), query)
    assert launched(plan) == 2
    assert 0 <= blocks(traced.io) - plan["Shared Read Blocks"] <= 2 * CATALOGS
    assert "parallel worker" in performers(traced.io)


@pytest.mark.pg("15")
def test_what_processes_do_that_nobody_asked_for_is_not_under_way(disk_directory: Path) -> None:
    """By its title another backend may be a helper: it is looked at, and told of no more."""
    with CopiedCluster({"cluster_name": "a worker x"}, directory=disk_directory) as server:
        file = server.datadir / "large"
        file.touch()
        os.truncate(file, 500 << 20)
        file.chmod(0o644)
        with server.connect() as mine, ThreadPoolExecutor() as threads:
            for _ in range(5):
                with trace(mine.info.backend_pid) as tracer, server.connect() as other:
                    read = "select length(pg_read_binary_file('large'))"
                    reading = threads.submit(other.execute, read)
                    time.sleep(0.1)
                    taken = tracer.stop()
                    reading.result()
                assert [each.pid for each in taken.backends] == [mine.info.backend_pid]
                assert not anything_lost(taken), taken.lost


@pytest.mark.parametrize("scan", SCANS)
@pytest.mark.parametrize("method", METHODS)
def test_reads_of_every_way_to_read(
    server: Server, tmp_path: Path, method: dict[str, str], scan: str
) -> None:
    """As many blocks as EXPLAIN counts, as many reads as bpftrace counts, as many bytes of the
    device as the kernel counts of the processes that read."""
    # The default is one of them, so that it shares the server of the other tests
    own = {} if method.get("io_method") == "worker" else method
    cluster = server(**SETTINGS | own)
    form, off = SCANS[scan]
    query = form.format("small")
    script = "aio_worker_owner.bt" if method.get("io_method") == "worker" else "aio_uring.bt"
    with cluster.connect() as backend:
        create(backend, "small", FEWER_BLOCKS)
        assert backend.execute("select current_setting('io_method', true)").fetchone() == (
            method.get("io_method"),
        )
        pid = backend.info.backend_pid
        settings: dict[str, object] = dict.fromkeys(off, "off")
        if method.get("io_method") in (None, "sync"):
            # What posix_fadvise asks the device for is no read's
            settings["effective_io_concurrency"] = 0
        prepare(cluster, backend, query, "small", **settings)
        performing = with_io_workers(backend)
        with bpftrace(script, cluster, tmp_path) as oracle:
            before = read_bytes(performing)
            with trace(pid, literals=True) as tracer:
                plan = explain(backend, query)
            grown = read_bytes(performing) - before
    capture = tracer.capture()
    check(capture)
    assert plan["Node Type"] == NODES[scan]
    assert plan["Shared Read Blocks"] > 1000
    traced = the_query(of(capture, pid), query)
    assert_all(traced.io, plan["Shared Read Blocks"])
    if PG_VERSION >= 19 and scan != "index":  # which has no read stream
        # An index is read block by block, where it does not lie in shared_buffers any more
        of_indexes = sum(below["Shared Read Blocks"] for below in plan.get("Plans", []))
        assert sum(one.count for one in traced.io) == plan["I/O Count"] + of_indexes

    if scan == "index" or method.get("io_method") in (None, "sync"):
        assert performers(traced.io) == {"backend"}
    elif method["io_method"] == "worker":
        assert {"io worker"} <= performers(traced.io) <= {"io worker", "backend"}
    else:
        assert {"io_uring"} <= performers(traced.io) <= {"io_uring", "backend"}

    if script == "aio_worker_owner.bt":
        theirs = sum(bucket["count"] for bucket in oracle["@by_owner"][str(pid)])
    else:
        theirs = sum(
            n for key, n in oracle.get("@reads", {}).items() if key.split(",")[0] == str(pid)
        )
        theirs += sum(bucket["count"] for bucket in oracle.get("@ns", {}).get(str(pid), ()))
    assert all_reads(of(capture, pid)) == theirs

    assert 0.97 * grown <= capture.totals["read"].device_bytes <= grown


@pytest.mark.pg(">= 18")
def test_two_backends_through_the_same_io_workers(charged: PrivateCluster) -> None:
    """Each is charged its own table's blocks."""
    pids, plans = {}, {}
    with charged.connect() as one, charged.connect() as two, ThreadPoolExecutor(2) as pool:
        both = {"large": one, "small": two}
        for table, connection in both.items():
            pids[table] = connection.info.backend_pid
            prepare(charged, connection, f"select * from {table}", table)
        with trace(charged.postmaster_pid, literals=True) as tracer:
            running = {
                table: pool.submit(explain, connection, f"select * from {table}")
                for table, connection in both.items()
            }
            plans = {table: future.result() for table, future in running.items()}
    capture = tracer.capture()
    check(capture)
    for table, plan in plans.items():
        traced = the_query(of(capture, pids[table]), f"select * from {table}")
        assert plan["Shared Read Blocks"] > 1000
        assert_all(traced.io, plan["Shared Read Blocks"])
        assert blocks(traced.io, "io worker") > 0
    for backend in capture.backends:
        assert backend.backend_type != "io worker" or blocks(backend.io) == 0


@pytest.mark.pg(">= 18")
def test_the_same_numbers_in_two_databases(charged: PrivateCluster, backend: Connection) -> None:
    """A copy of a database has its files by the same names: each backend is charged its own."""
    query = "select * from copied"
    backend.execute("create database original")
    try:
        with charged.connect(dbname="original") as original:
            create(original, "copied", FEWER_BLOCKS)
        backend.execute("create database copy template original")
        with (
            charged.connect(dbname="original") as one,
            charged.connect(dbname="copy") as two,
            ThreadPoolExecutor(2) as pool,
        ):
            both = one, two
            numbers = [each.execute("select pg_relation_filenode('copied')") for each in both]
            assert numbers[0].fetchone() == numbers[1].fetchone()
            for each in both:
                prepare(charged, each, query, "copied")
            with trace(charged.postmaster_pid, literals=True) as tracer:
                plans = list(pool.map(lambda each: explain(each, query), both))
            capture = tracer.capture()
            pids = [each.info.backend_pid for each in both]
    finally:
        for name in "copy", "original":
            backend.execute(f"drop database if exists {name} with (force)")
    check(capture)
    for pid, plan in zip(pids, plans, strict=True):
        traced = the_query(of(capture, pid), query)
        assert plan["Shared Read Blocks"] > 1000
        assert_all(traced.io, plan["Shared Read Blocks"])
        assert blocks(traced.io, "io worker") > 0
        in_order = sum(r.count for r in traced.io if r.pattern == "sequential")
        assert in_order > 0.9 * sum(r.count for r in traced.io)


@pytest.mark.pg(">= 18")
def test_who_reads_the_same_file_in_another_way_takes_nothing(
    charged: PrivateCluster, backend: Connection
) -> None:
    """As pg_prewarm does, while what a scan has asked for lies in the queue of the I/O workers."""
    query, pid = "select * from large", backend.info.backend_pid
    state = f"select wait_event_type from pg_stat_activity where pid = {pid}"
    with charged.connect() as other, ThreadPoolExecutor(1) as pool:
        others = other.info.backend_pid
        for name in "pg_prewarm", "pg_buffercache":
            other.execute(f"create extension if not exists {name}")
        other.execute("select pg_buffercache_evict_relation('small')")
        prepare(charged, backend, query, "large")
        _, *workers = with_io_workers(other)
        with trace(charged.postmaster_pid, literals=True) as tracer:
            assert explain(other, "select * from small")["Shared Read Blocks"] > 1000
            before = tracer.capture()
            with stopped(*workers):
                scanning = pool.submit(explain, backend, query)
                wait_for(lambda: other.execute(state).fetchone() == ("IO",))
                other.execute("select pg_prewarm('large', 'read')")
            plan = scanning.result()
    capture = tracer.capture()
    check(capture)
    traced = the_query(of(capture, pid), query)
    assert_all(traced.io, plan["Shared Read Blocks"])
    assert blocks(traced.io, "io worker") > 0
    read = blocks(of(capture, others).io, "backend") - blocks(of(before, others).io, "backend")
    assert read >= BLOCKS


def test_without_charging_reads_stay_where_they_ran(
    charged: PrivateCluster, backend: Connection
) -> None:
    """Every process has its own; together they are the query's."""
    query = "select sum(length(filler)) from large"
    settings = {"parallel_setup_cost": 0, "parallel_tuple_cost": 0}
    for _ in range(ATTEMPTS):  # on a busy host the leader may be through before its workers come
        prepare(charged, backend, query, "large", max_parallel_workers_per_gather=2, **settings)
        with trace(charged.postmaster_pid, literals=True, charge=False) as tracer:
            plan = explain(backend, query)
        capture = tracer.capture()
        check(capture)
        leader = of(capture, backend.info.backend_pid)
        traced = the_query(leader, query)
        if blocks(traced.io) < 0.9 * plan["Shared Read Blocks"]:
            break
    others = [one for one in capture.backends if one.io and one is not leader]
    assert performers(r for one in capture.backends for r in one.io) == {"backend"}
    workers = [one for one in others if one.backend_type == "parallel worker"]
    assert len(workers) == 2
    assert blocks(traced.io) < 0.9 * plan["Shared Read Blocks"]
    assert_all([r for one in [leader, *others] for r in one.io], plan["Shared Read Blocks"])
    if PG_VERSION >= 18:
        io_workers = [one for one in others if one.backend_type == "io worker"]
        assert io_workers
        assert {r.scope for one in io_workers for r in one.io} == {"outside"}


def test_a_thousand_connections_of_one_query_each(charged: PrivateCluster, tmp_path: Path) -> None:
    """Each is in the capture with its names, its query and its reads; none is lost."""

    def use(_: int) -> int:
        with charged.connect(application_name="many") as connection:
            connection.execute("select count(*) from pg_class")
            return connection.info.backend_pid

    with (
        bpftrace("server_reads.bt", charged, tmp_path) as oracle,
        trace(charged.postmaster_pid) as tracer,
    ):
        with ThreadPoolExecutor(4) as pool:
            pids = list(pool.map(use, range(CONNECTIONS)))
        # A backend reads a little more after its client has gone
        wait_until_gone(*pids)
    capture = tracer.capture()
    check(capture)
    clients = [one for one in capture.backends if one.backend_type == "client backend"]
    assert sorted(one.pid for one in clients) == sorted(pids)
    assert {(one.datname, one.usename) for one in clients} == {("postgres", "postgres")}
    assert [sum(query.calls for query in one.queries) for one in clients] == [1] * CONNECTIONS
    assert {q.application_name for one in clients for q in one.queries} == {"many"}
    assert all(one.began and one.ended and one.began < one.ended for one in clients)
    assert sum(all_reads(one) for one in capture.backends) == oracle["@reads"]
    of_short = sum(one.short["read"].bytes for one in capture.backends)
    assert capture.totals["read"].bytes + of_short == oracle["@bytes"]


COLLECTOR = """
import sys
import msgspec
from pgtrace import trace

with trace(int(sys.argv[1])) as tracer:
    print("attached", flush=True)
    sys.stdin.read()
capture = tracer.capture()
calls = sum(query.calls for backend in capture.backends for query in backend.queries)
clients = sum(
    backend.merged or 1 for backend in capture.backends if backend.backend_type == "client backend"
)
print(msgspec.json.encode([msgspec.to_builtins(capture.lost), calls, clients]).decode())
"""


def resident(pid: int) -> int:
    """The memory that a process has of its own, in KiB."""
    text = Path(f"/proc/{pid}/status").read_text()
    return int(re.findall(r"^VmRSS:\s+(\d+) kB$", text, re.MULTILINE)[0])


@pytest.mark.pg("15")
def test_clients_that_come_and_go(charged: PrivateCluster, tmp_path: Path) -> None:
    """Two hundred at once, each query in a backend of its own: nothing is lost, and the memory
    of the collector levels off once backends are added up."""
    script = tmp_path / "one.sql"
    script.write_text("select count(*) from pg_class;\n")
    path = os.environ | {"PYTHONPATH": ":".join(sys.path)}
    with Child(sys.executable, "-c", COLLECTOR, charged.postmaster_pid, env=path) as collector:
        assert collector.line() == "attached\n"
        samples = []
        with Child(
            charged.bindir / "pgbench", "-n", "-C", "-c", CLIENTS, "-j", "4",
            "-t", TIMES, "-f", script, charged.dsn(),
        ) as pgbench:  # fmt: skip
            while pgbench.code is None:
                samples.append(resident(collector.pid))
                time.sleep(0.1)
        assert pgbench.code == 0
        # A backend reads a little more after its client has gone
        server = discovery.server(charged.postmaster_pid)
        wait_for(lambda: all(b.backend_type != "client backend" for b in server.backends()))
        collector.end_input()
        lost, calls, clients = json.loads(collector.line())
    print(f"{len(samples)} samples, KiB: {samples[:: len(samples) // 30]}")
    assert not any(lost.pop("in_flight").values())
    assert not any(lost.values()), lost
    assert calls == CLIENTS * TIMES
    assert clients >= CLIENTS * TIMES
    assert samples[-1] - samples[len(samples) * 2 // 3] < 0.05 * samples[-1], samples


def test_a_server_that_is_started_again(charged: PrivateCluster) -> None:
    """The new one is traced too, and the capture tells when there was none."""
    first = charged.postmaster_pid
    with trace(first, literals=True) as tracer:
        with charged.connect() as connection:
            connection.execute("select 'before'")
        charged.restart()
        gaps = wait_for(lambda: [gap for gap in tracer.capture().gaps if gap.ended])
        with charged.connect() as connection:
            connection.execute("select 'after'")
            pid = connection.info.backend_pid
    assert charged.postmaster_pid != first
    capture = tracer.capture()
    check(capture)
    assert capture.gaps == gaps
    (gap,) = gaps
    assert gap.data_directory == str(charged.datadir)
    assert capture.started < gap.began < gap.ended
    texts = [query.text for backend in capture.backends for query in backend.queries]
    assert sorted(filter(None, texts)) == ["select 'after'", "select 'before'"]
    assert of(capture, pid).began > gap.ended


def test_autovacuum_reads_outside_of_queries(charged: PrivateCluster, backend: Connection) -> None:
    """It shows the text of what it does, which is no query; its reads are its own."""
    backend.execute("drop table if exists worn")
    create(backend, "worn", 2000)
    backend.execute("update worn set id = id + 1 where id < 500000")
    make_cold(charged, backend, "worn")

    def vacuumed() -> bool:
        seen = backend.execute(
            "select autovacuum_count from pg_stat_user_tables where relname = 'worn'"
        ).fetchone()
        return bool(seen and seen[0])

    def at_rest() -> bool:
        running = "select 1 from pg_stat_activity where backend_type like 'autovacuum %'"
        return backend.execute(running).fetchone() is None

    try:
        with trace(charged.postmaster_pid) as tracer:
            backend.execute("alter system set autovacuum = on")
            # Its usual rests: one that is over at once may be gone before its name was asked for
            backend.execute("alter system set autovacuum_vacuum_cost_delay = 2")
            backend.execute("select pg_reload_conf()")
            # Looked at so often, a worker is met before its database stands in its title
            deadline = time.monotonic() + PATIENCE_S
            while not vacuumed():
                assert time.monotonic() < deadline
                tracer.poll()
                tracer.poll()
            backend.execute("alter system set autovacuum = off")
            backend.execute("select pg_reload_conf()")
            wait_for(at_rest)  # or a read of theirs may be under way at the end
    finally:
        backend.execute("alter system reset all")
        backend.execute("select pg_reload_conf()")
    capture = tracer.capture()
    check(capture)
    workers = [one for one in capture.backends if one.backend_type == "autovacuum worker"]
    vacuuming = [one for one in workers if blocks(one.io) > 2000]
    assert {one.datname for one in vacuuming} == {"postgres"}
    assert blocks(r for one in workers for r in one.io) > 2000
    assert {r.scope for one in workers for r in one.io} == {"outside"}
    assert {one.backend_type for one in capture.backends if one.queries} == {"client backend"}
