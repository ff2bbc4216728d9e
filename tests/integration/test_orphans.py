"""A server whose postmaster dies: its children go on for a while, and none is lost."""

import ctypes
import os
import re
import signal
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import psycopg
import pytest

from child import state_of
from copied_cluster import CopiedCluster
from pgtrace import trace
from pgtrace.engines.libbpf_engine import LibbpfEngine
from pgtrace.lab.core.private_cluster import PrivateCluster
from pgtrace.postgres import discovery, proc
from pgtrace.tracing.targets import Target
from pgtrace.tracing.tracer import Tracer
from pgtrace_command import wait_for

PR_SET_CHILD_SUBREAPER = 36  # include/uapi/linux/prctl.h
SOME = 100 << 20
"""Bytes."""
MADE = "create table scanned as select g, repeat('x', 500) from generate_series(1, 60000) g"
SCANS = """do $$ begin
  for i in 1..1000 loop perform count(*) from scanned; end loop;
end $$"""


@pytest.fixture
def doomed() -> Iterator[PrivateCluster]:
    """A server of its own, whose one table is larger than its buffers."""
    with CopiedCluster({"shared_buffers": "1MB", "jit": "off", "autovacuum": "off"}) as cluster:
        with cluster.connect() as connection:
            connection.execute(MADE)
            connection.execute("checkpoint")
        yield cluster


def test_children_of_a_postmaster_that_died_are_traced_on(doomed: PrivateCluster) -> None:
    """The backend that was there before, seen by its new parent, still counts its reads."""
    connection = doomed.connect()
    pid = connection.info.backend_pid
    connection.execute("set max_parallel_workers_per_gather = 0")
    with trace(doomed.postmaster_pid) as tracer:
        connection.pgconn.send_query(SCANS.encode())
        wait_for(lambda: tracer.counts()["read"] > 1000)
        postmaster = doomed.postmaster_pid
        os.kill(postmaster, signal.SIGKILL)
        wait_for(lambda: proc.parent(pid) != postmaster)
        before = tracer.counts()["read"]
        wait_for(lambda: tracer.counts()["read"] > before + 1000)
        os.kill(pid, signal.SIGKILL)
        wait_for(lambda: has_ended(pid))
    taken = tracer.capture()
    assert taken.lost.read == 0
    assert pid in {backend.pid for backend in taken.backends}
    with pytest.raises(psycopg.Error):
        connection.execute("select 1")


@pytest.fixture
def sub_reaper() -> Iterator[None]:
    """Orphans below this process become its children, as below `systemd --user` or a container's
    `tini -s`."""
    prctl = ctypes.CDLL(None, use_errno=True).prctl
    assert prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == 0
    yield
    assert prctl(PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0) == 0


def read_by(pid: int) -> int:
    """The bytes that a process read, as the kernel counts them; of a zombie, too."""
    text = Path(f"/proc/{pid}/io").read_text()
    return int(re.findall(r"^rchar: (\d+)$", text, re.MULTILINE)[0])


def has_ended(pid: int) -> bool:
    try:
        return state_of(pid) == "Z"
    except (FileNotFoundError, ProcessLookupError):
        return True


@pytest.mark.usefixtures("sub_reaper")
def test_no_read_is_lost_under_a_sub_reaper(doomed: PrivateCluster) -> None:
    """A backend that gets another parent in the middle of its query has all of its reads."""
    postmaster = doomed.postmaster_pid
    connection = doomed.connect()
    pid = connection.info.backend_pid
    connection.execute("set max_parallel_workers_per_gather = 0")
    with trace(postmaster) as tracer:
        before = read_by(pid)
        connection.pgconn.send_query(SCANS.replace("1000", "100").encode())
        wait_for(lambda: read_by(pid) > before + SOME)
        os.kill(postmaster, signal.SIGKILL)
        wait_for(lambda: proc.parent(pid) == os.getpid())
        at_death = read_by(pid)
        # It ends by itself once it is idle, and stays until we collect it
        wait_for(lambda: state_of(pid) == "Z")
        after = read_by(pid)
    os.waitpid(pid, 0)
    os.waitpid(postmaster, 0)
    taken = tracer.capture()
    assert after > at_death + SOME
    assert (taken.lost.read, taken.lost.backends) == (0, 0)
    (backend,) = (backend for backend in taken.backends if backend.pid == pid)
    counted = sum(one.bytes for one in backend.io) + backend.short["read"].bytes
    # Signals are read too, from what is no file
    assert 0 <= after - before - counted < 8192


def test_of_a_server_that_stays_away_nothing_is_left_but_its_place(doomed: PrivateCluster) -> None:
    """Nobody is looked up for its children once there are none, and who gets its pid is nobody's
    postmaster. Started again, it is traced as before, and all the time the one beside it is.
    """

    def scan(cluster: PrivateCluster) -> int:
        with cluster.connect() as connection:
            connection.execute("set max_parallel_workers_per_gather = 0")
            connection.execute("select count(*) from scanned")
            return connection.info.backend_pid

    def polled(is_so: Callable[[], bool]) -> bool:
        tracer.poll()
        return is_so()

    beside_it = {"shared_buffers": "1MB", "jit": "off", "autovacuum": "off"}
    with CopiedCluster(beside_it) as other:
        with other.connect() as connection:
            connection.execute(MADE)
            connection.execute("checkpoint")
        servers = [discovery.server(each.postmaster_pid) for each in (other, doomed)]
        with closing(Tracer(Target.of_servers(servers))) as tracer:
            engine = tracer.engine
            assert isinstance(engine, LibbpfEngine)  # whose memory is let go of: none is kept
            scanned, gone = [scan(doomed)], doomed.postmaster_pid
            doomed.stop()
            wait_for(lambda: polled(lambda: gone not in list(engine._live.postmasters)))
            assert not engine._live.orphans
            scanned.append(scan(other))
            tracer.poll()
            assert not engine._live.orphans
            doomed.start()
            again = doomed.postmaster_pid
            wait_for(lambda: polled(lambda: again in list(engine._live.postmasters)))
            scanned.append(scan(doomed))
            taken = tracer.stop()
    read = {backend.pid: sum(io.bytes for io in backend.io) for backend in taken.backends}
    assert all(read[pid] > SOME // 5 for pid in scanned), (scanned, read)
    (gap,) = taken.gaps
    assert gap.ended
