"""Reads that a backend leaves to io_uring are its own, whichever thread they complete in.

With few in flight PostgreSQL's requests complete in the backend; with more it asks for asynchronous
execution, and they complete in threads of the backend's process, `iou-wrk-PID`.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import Any

import pytest
from test_charging import blocks, create, explain, of, performers, read_bytes, the_query

from child import wait_until_gone
from fix_cluster import Connection, Server, make_cold
from pgtrace.lab.core.private_cluster import PrivateCluster
from pgtrace.model.capture import Backend, Capture
from pgtrace.tracing.options import TraceOptions
from pgtrace.tracing.targets import Target
from pgtrace.tracing.tracer import Tracer
from scans import anything_lost

pytestmark = pytest.mark.pg(">= 18")
SETTINGS = {"io_method": "io_uring", "max_connections": 60, "shared_buffers": "128MB"}
"""With few buffers to each backend it may not have many requests in flight."""
BLOCKS = 2500
TABLES = ("one", "two")
CONCURRENCY = (1, 4, 8, 16, 100)
AT_ONCE, LATER, ROOM = 28, 20, 40
SCANS = {
    "bitmap": "select length(filler) from {} where id > 930000 and {} = {}",
    "sequential": "select length(filler) from {} where {} = {}",
}
Tracing = Callable[..., Tracer]


@pytest.fixture
def uring(server: Server) -> PrivateCluster:
    """A server that reads by io_uring, with the tables."""
    cluster = server(**SETTINGS)
    with cluster.connect() as connection:
        connection.execute("create extension if not exists pg_buffercache")
        for table in TABLES:
            create(connection, table, BLOCKS)
    return cluster


@pytest.fixture
def tracing() -> Iterator[Tracing]:
    """Return a tracer of these processes; `tracing(pids, **options)`, as Tracer has them."""
    with ExitStack() as stack:

        def start(pids: Sequence[int], **options: Any) -> Tracer:
            tracer = Tracer(Target.of_pids(pids), TraceOptions(literals=True, **options))
            stack.callback(tracer.stop)
            return tracer

        yield start


def empty(cluster: PrivateCluster, connection: Connection, table: str) -> None:
    """Have none of the table in memory, neither the server's nor the kernel's."""
    connection.execute("select pg_buffercache_evict_relation(%s)", (table,))
    make_cold(cluster, connection, table)


def scan(cluster: PrivateCluster, connection: Connection, table: str) -> list[tuple[str, int]]:
    """Read the table cold, by each kind of scan at each concurrency; what EXPLAIN counted."""
    found = []
    connection.execute("set enable_indexscan = off")
    for kind, form in SCANS.items():
        connection.execute(f"set enable_seqscan = {'on' if kind == 'sequential' else 'off'}")
        for concurrency in CONCURRENCY:
            query = form.format(table, concurrency, concurrency)
            connection.execute(f"set effective_io_concurrency = {concurrency}")
            connection.execute(f"explain {query} ")
            empty(cluster, connection, table)
            found.append((query, int(explain(connection, query)["Shared Read Blocks"])))
    return found


def check(backend: Backend, counted: Sequence[tuple[str, int]]) -> None:
    """Each query has exactly the blocks that EXPLAIN counted."""
    for query, expected in counted:
        reads = the_query(backend, query).io
        print(f"{blocks(reads)} of {expected}, {performers(reads)}: {query}")
        assert expected > BLOCKS / 10
    assert [blocks(the_query(backend, query).io) for query, _ in counted] == [
        expected for _, expected in counted
    ]
    assert "io_uring" in performers(backend.io)


def settled(tracer: Tracer) -> Capture:
    """What it measured, with the records of the last queries."""
    time.sleep(0.3)
    capture = tracer.stop()
    assert not anything_lost(capture), capture.lost
    assert not [reason for reason in capture.probes.not_measured if "io_uring" in reason]
    return capture


@pytest.mark.parametrize(
    ("who", "charge", "per_query"),
    [
        pytest.param("one", True, False, id="one"),
        pytest.param("two", True, False, id="two"),
        pytest.param("all", True, False, id="all"),
        pytest.param("one", True, True, id="attach"),
        pytest.param("one", False, True, id="attach --no-charge"),
        pytest.param("all", False, False, id="all --no-charge"),
    ],
)
def test_every_block_is_counted(
    uring: PrivateCluster, tracing: Tracing, who: str, charge: bool, per_query: bool
) -> None:
    """With one, two and all backends traced, at each concurrency; also where nobody is charged,
    because nobody else has to be: the requests are the backend's own."""
    with ExitStack() as stack, ThreadPoolExecutor(len(TABLES)) as pool:
        scanning = {}
        for table in TABLES[: 1 if who == "one" else 2]:
            connection = stack.enter_context(uring.connect())
            scanning[connection.info.backend_pid] = (connection, table)
        traced = [uring.postmaster_pid] if who == "all" else list(scanning)
        tracer = tracing(traced, charge=charge, per_query=per_query)
        running = {
            pid: pool.submit(scan, uring, connection, table)
            for pid, (connection, table) in scanning.items()
        }
        counted = {pid: future.result() for pid, future in running.items()}
        capture = settled(tracer)
    for pid, each in counted.items():
        check(of(capture, pid), each)


def test_bytes_of_devices_are_those_that_the_kernel_counts(
    uring: PrivateCluster, tracing: Tracing
) -> None:
    """Also where threads of the process ask the device, of which each tells its own."""
    for concurrency in CONCURRENCY:
        query = f"select length(filler) from one where {concurrency} = {concurrency}"
        with uring.connect() as connection:
            pid = connection.info.backend_pid
            connection.execute(f"set effective_io_concurrency = {concurrency}")
            connection.execute(f"explain {query}")
            empty(uring, connection, "one")
            before = read_bytes([pid])
            tracer = tracing([pid])
            explain(connection, query)
            grown = read_bytes([pid]) - before
            capture = settled(tracer)
        print(f"{capture.totals['read'].device_bytes} of {grown} bytes at {concurrency}")
        assert 0.97 * grown <= capture.totals["read"].device_bytes <= grown
        sources = {one.source for one in of(capture, pid).io if one.performed_by == "io_uring"}
        assert {"device"} <= sources <= {"device", "unknown"}


def test_threads_of_a_backend_are_no_backends(uring: PrivateCluster, tracing: Tracing) -> None:
    """They take no places: 28 clients are all there, and so are 20 that come later."""
    with uring.connect() as connection:
        for i in range(AT_ONCE):
            create(connection, f"of_{i}", BLOCKS // 10)
        before = connection.info.backend_pid
    wait_until_gone(before)

    def use(i: int) -> tuple[int, int, str]:
        with uring.connect() as connection:
            pid = connection.info.backend_pid
            connection.execute("set enable_seqscan = off; set enable_indexscan = off")
            query = f"select length(filler) from of_{i} where id > 0 and {pid} = {pid}"
            connection.execute(f"explain {query} ")
            empty(uring, connection, f"of_{i}")
            return pid, explain(connection, query)["Shared Read Blocks"], query

    def use_at_once(count: int) -> list[tuple[int, int, str]]:
        with ThreadPoolExecutor(count) as pool:
            found = list(pool.map(use, range(count)))
        wait_until_gone(*(pid for pid, _, _ in found), seconds=30)
        for _ in range(6):  # until their accounts were read
            time.sleep(0.1)
            tracer.poll()
        return found

    tracer = tracing([uring.postmaster_pid], most_backends=ROOM)
    counted = [*use_at_once(AT_ONCE), *use_at_once(LATER)]
    capture = settled(tracer)
    clients = [one for one in capture.backends if one.backend_type == "client backend"]
    assert sorted(one.pid for one in clients) == sorted(pid for pid, _, _ in counted)
    for pid, expected, query in counted:
        assert blocks(the_query(of(capture, pid), query).io) == expected > BLOCKS / 20
    assert all("io_uring" in performers(one.io) for one in clients)
