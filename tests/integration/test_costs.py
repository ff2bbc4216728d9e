"""Costs over time and hits of shared_buffers, as a capture of a real server has them."""

import time

import pytest

from child import wait_for
from fix_cluster import Server
from pgtrace import trace
from pgtrace.lab.core import benchmark_table
from pgtrace.lab.core.private_cluster import PrivateCluster
from pgtrace.model.capture import Capture

pytestmark = pytest.mark.alone  # they compare times

RELATIONS = {"relation", "heap", "index", "toast", "visibility map", "free space map"}


@pytest.fixture
def small(server: Server) -> PrivateCluster:
    """A server whose scans always read."""
    return server(shared_buffers="1MB")


def scans(cluster: PrivateCluster, intervals: int) -> Capture:
    """A whole server with sequential scans in so many intervals and more, and with a connection
    for names. An interval is a second, or longer where to look takes long.
    """
    with (
        cluster.connect() as connection,
        trace(cluster.postmaster_pid, dsn=cluster.dsn(), own_queries=True) as tracer,
    ):
        assert tracer.names
        tracer.names.require()  # what the server counted until now is known
        cuts = {tracer.intervals.cut_ns}

        def scan() -> bool:
            connection.execute(f"select max(info) from {benchmark_table.TABLE}")
            cuts.add(tracer.intervals.cut_ns)
            return len(cuts) > intervals

        wait_for(scan)
        time.sleep(1.2)  # a backend reports to pg_stat_database once a second
        connection.execute("select 1")
        time.sleep(0.2)
    return tracer.capture()


def test_intervals_add_up_to_all_reads_of_relations(small: PrivateCluster) -> None:
    capture = scans(small, 3)
    reads = [r for b in capture.backends for r in b.io if r.kind in RELATIONS]
    costs = [cost for interval in capture.intervals for cost in interval.costs]
    assert sum(c.reads for c in costs) == sum(r.count for r in reads) > 0
    assert sum(c.blocks for c in costs) == sum(r.blocks for r in reads)
    assert sum(c.total_ns for c in costs) == sum(r.total_ns for r in reads)
    assert {c.tablespace for c in costs} >= {"pg_default"}
    assert len(capture.intervals) >= 3
    seconds = [interval.second for interval in capture.intervals]
    assert seconds == sorted(seconds)


def test_blocks_in_shared_buffers_and_not_are_those_of_the_session(
    small: PrivateCluster,
) -> None:
    capture = scans(small, 2)
    (found,) = [b for b in capture.buffers if b.datname == "postgres"]
    blocks = sum(c.blocks for i in capture.intervals for c in i.costs)
    assert found.read >= blocks * 0.98  # those of others of this database, too
    assert found.hit > 0
