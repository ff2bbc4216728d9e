"""A server whose postmaster dies: its children go on for a while, and none is lost."""

import os
import signal
import time
from collections.abc import Iterator

import psycopg
import pytest

from pgtrace import trace
from pgtrace.postgres.cluster import PrivateCluster

SCANS = """do $$ begin
  for i in 1..1000 loop perform count(*) from scanned; end loop;
end $$"""


@pytest.fixture
def doomed() -> Iterator[PrivateCluster]:
    """A server of its own, whose one table is larger than its buffers."""
    with PrivateCluster({"shared_buffers": "1MB", "jit": "off", "autovacuum": "off"}) as cluster:
        with cluster.connect() as connection:
            connection.execute(
                "create table scanned as"
                " select g, repeat('x', 500) from generate_series(1, 60000) g"
            )
            connection.execute("checkpoint")
        yield cluster


def test_children_of_a_postmaster_that_died_are_traced_on(doomed: PrivateCluster) -> None:
    """The backend that was there before, seen by its new parent, still counts its reads."""
    connection = doomed.connect()
    pid = connection.info.backend_pid
    connection.execute("set max_parallel_workers_per_gather = 0")
    with trace(doomed.postmaster_pid) as tracer:
        connection.pgconn.send_query(SCANS.encode())
        time.sleep(0.5)
        os.kill(doomed.postmaster_pid, signal.SIGKILL)
        time.sleep(0.3)
        before = tracer.read_count()
        time.sleep(0.5)
        after = tracer.read_count()
        os.kill(pid, signal.SIGKILL)
        time.sleep(0.5)
    taken = tracer.capture()
    assert before > 1000
    assert after > before + 1000
    assert taken.lost.reads == 0
    assert pid in {backend.pid for backend in taken.backends}
    with pytest.raises(psycopg.Error):
        connection.execute("select 1")
