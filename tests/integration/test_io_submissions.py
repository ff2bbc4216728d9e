"""I/O workers of PostgreSQL 18: who asked for a read is told where it is handed to them, once it is
known where that says what is to be read. Reads that a backend makes itself meet no probe then."""

import itertools
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest
from test_charging import (
    SETTINGS,
    assert_all,
    blocks,
    check,
    create,
    explain,
    of,
    prepare,
    the_query,
)
from test_no_usdt import without

import bpf_left
from child import wait_for
from fix_cluster import Connection, Server
from pgtrace import trace
from pgtrace.engines import layout
from pgtrace.lab.core.private_cluster import PrivateCluster
from pgtrace.model.capture import Io
from pgtrace.postgres import discovery
from pgtrace.tracing.options import TraceOptions
from pgtrace.tracing.targets import Target
from pgtrace.tracing.tracer import Tracer

pytestmark = pytest.mark.pg(">= 18")

BLOCKS = 8_000
SCAN = "select * from looked_up"
LOOK_UP = "select id from looked_up where ctid = '({},1)'"
ASKED, SUBMITTED = "pgt_a_ask", "pgt_a_submit"
ROWS = (number * 2909 % BLOCKS for number in itertools.count())
MORE = {"shared_buffers": "16MB"}


@pytest.fixture
def cluster(server: Server) -> PrivateCluster:
    """A server whose table does not fit into its memory."""
    found = server(**SETTINGS | MORE)
    with found.connect() as connection:
        create(connection, "looked_up", BLOCKS)
    return found


@pytest.fixture
def backend(cluster: PrivateCluster) -> Iterator[Connection]:
    with cluster.connect() as connection:
        connection.execute("set max_parallel_workers_per_gather = 0")
        yield connection


def probed() -> set[str]:
    """The programs of this process that are attached."""
    held = bpf_left.held_by()
    names = {one["id"]: one["name"] for one in bpf_left.show("prog")}
    links = [one for one in bpf_left.show("link") if f"link {one['id']}" in held]
    return {names.get(one["prog_id"], "") for one in links}


def look_up(connection: Connection, times: int) -> None:
    """Rows in blocks that were not looked up before, so that most have to be read."""
    for number in itertools.islice(ROWS, times):
        connection.execute(LOOK_UP.format(number))


def patterns(reads: Iterable[Io]) -> Counter[str]:
    found: Counter[str] = Counter()
    for one in reads:
        found[one.pattern] += one.count
    return found


@pytest.mark.parametrize("whole", [False, True], ids=["backend", "server"])
def test_single_rows_are_looked_up_without_a_probe(
    cluster: PrivateCluster, backend: Connection, whole: bool
) -> None:
    """Which is known after a few of them; a scan's reads are its query's all the same."""
    pid = backend.info.backend_pid
    prepare(cluster, backend, SCAN, "looked_up")
    with trace(cluster.postmaster_pid if whole else pid, literals=True) as tracer:
        assert probed() >= {ASKED, SUBMITTED}
        look_up(backend, 20)
        wait_for(lambda: ASKED not in probed())
        assert SUBMITTED in probed()
        look_up(backend, 20)
        plan = explain(backend, SCAN)
    capture = tracer.capture()
    check(capture)
    assert capture.probes.not_measured == []
    query = the_query(of(capture, pid), SCAN)
    assert_all(query.io, plan["Shared Read Blocks"])
    assert blocks(query.io, "io worker") > BLOCKS / 2


@pytest.mark.parametrize("whole", [False, True], ids=["backend", "server"])
def test_each_read_of_a_scan_in_which_it_becomes_known_is_noted_once(
    cluster: PrivateCluster, backend: Connection, whole: bool
) -> None:
    """First where it is asked for, then where it is handed over: none is missing, and no second
    look takes a read for one at random."""
    pid = backend.info.backend_pid
    for _ in range(5):
        prepare(cluster, backend, SCAN, "looked_up")
        with trace(cluster.postmaster_pid if whole else pid, literals=True) as tracer:
            plan = explain(backend, SCAN)
        capture = tracer.capture()
        check(capture)
        query = the_query(of(capture, pid), SCAN)
        assert_all(query.io, plan["Shared Read Blocks"])
        by_workers = [each for each in query.io if each.performed_by == "io worker"]
        assert blocks(by_workers) > BLOCKS / 2
        found = patterns(by_workers)
        assert found["random"] <= 1, found  # that of a catalog's
        assert found["sequential"] > 0.95 * found.total(), found


def handles(tracer: Tracer) -> layout.Handles:
    """What is known of those of the one server."""
    (found,) = [each for each in tracer.engine._live.handles if each.submitted or each.place]  # type: ignore[attr-defined]
    return found


def test_handles_of_which_no_two_agree_are_not_believed(
    cluster: PrivateCluster, backend: Connection
) -> None:
    """Then each read is noted where it is asked for, as before."""
    pid = backend.info.backend_pid
    prepare(cluster, backend, SCAN, "looked_up")
    with trace(pid, literals=True) as tracer:
        handles(tracer).place = layout.CERTAIN * 4
        look_up(backend, 20)
        tracer.capture()
        assert (handles(tracer).submitted, handles(tracer).agreed) == (0, 0)
        plan = explain(backend, SCAN)
        assert ASKED in probed()
    capture = tracer.capture()
    check(capture)
    query = the_query(of(capture, pid), SCAN)
    assert_all(query.io, plan["Shared Read Blocks"])
    assert blocks(query.io, "io worker") > BLOCKS / 2


@pytest.mark.parametrize("lacking", ["pgaio_worker_ops", "pgaio_submit_staged"])
def test_a_binary_that_does_not_tell_where_reads_are_handed_over(
    disk_directory: Path, lacking: str
) -> None:
    """The same, for good."""
    with (
        without(disk_directory, notes=True, lacking=[lacking]) as own,
        own.connect() as connection,
    ):
        create(connection, "looked_up", BLOCKS)
        connection.execute("set max_parallel_workers_per_gather = 0")
        prepare(own, connection, SCAN, "looked_up")
        with trace(own.postmaster_pid, literals=True) as tracer:
            look_up(connection, 20)
            plan = explain(connection, SCAN)
            tracer.capture()
            assert ASKED in probed()
            assert SUBMITTED not in probed()
        query = the_query(of(tracer.capture(), connection.info.backend_pid), SCAN)
    assert_all(query.io, plan["Shared Read Blocks"])
    assert blocks(query.io, "io worker") > BLOCKS / 2


def test_what_one_server_showed_is_known_of_another(
    cluster: PrivateCluster, server: Server
) -> None:
    """If both run the same program: the probe goes from both, also where one has read nothing."""
    other = server(**SETTINGS)
    with other.connect() as idle, cluster.connect() as busy:
        create(idle, "looked_up", BLOCKS)
        idle.execute("set max_parallel_workers_per_gather = 0")
        prepare(other, idle, SCAN, "looked_up")
        servers = [discovery.server(each.postmaster_pid) for each in (cluster, other)]
        tracer = Tracer(Target.of_servers(servers), TraceOptions(literals=True))
        try:
            look_up(busy, 20)
            wait_for(lambda: tracer.capture() and ASKED not in probed())
            plan = explain(idle, SCAN)
        finally:
            taken = tracer.stop()
        query = the_query(of(taken, idle.info.backend_pid), SCAN)
    check(taken)
    assert_all(query.io, plan["Shared Read Blocks"])
    assert blocks(query.io, "io worker") > BLOCKS / 2
