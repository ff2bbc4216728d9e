"""Reads by fentry and by kprobe, which the host's kernel may refuse: under Debian's 6.1 and 6.12.

Every test of the modules below runs here too, by both; only what they stand on differs: the
machine's own disk is a virtio device with 128 KiB read-ahead. Time is emulated, so that of two
times only the order is looked at. Of the tracepoints, which the host tests, it is shown that
they count under this kernel as well.
"""

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import test_buckets
import test_patterns
import test_reads
import test_sources
import test_writes

from bpf_left import leftovers, ours, raised
from child import Child
from fix_cluster import Connection
from fix_markers import ENGINE
from fix_reader import Reader
from pgtrace import trace
from pgtrace.engines import ReadsWay
from pgtrace.postgres.cluster import PrivateCluster
from pgtrace_command import wait_for

pytestmark = pytest.mark.kernel(">= 6.1")

for module in test_reads, test_patterns, test_sources, test_buckets, test_writes:
    shared = {name: each for name, each in vars(module).items() if name.startswith("test_")}
    assert shared, f"no tests in {module}"
    assert not shared.keys() & globals().keys(), f"two tests of one name: {shared}"
    globals().update(shared)
worker, holes = test_reads.worker, test_patterns.holes
written, process = test_writes.written, test_writes.process


@pytest.fixture(params=["fentry", "kprobe"] if ENGINE == "libbpf" else ["kprobe"])
def way(request: pytest.FixtureRequest) -> ReadsWay:
    return request.param


@pytest.fixture(scope="session")
def storage(disk_directory: Path) -> Path:
    return disk_directory


@pytest.fixture(scope="session")
def scanned(cluster: PrivateCluster) -> PrivateCluster:
    with cluster.connect() as connection:
        test_sources.make_table(connection)
    return cluster


@pytest.mark.parametrize("call", test_reads.CALLS)
def test_every_read_is_counted_by_tracepoints_too(
    reader: Callable[..., Reader], data_file: Path, call: str
) -> None:
    test_reads.test_every_read_is_counted(reader, data_file, "tracepoint", call)


def test_reads_are_told_apart_by_tracepoints_too(
    worker: test_reads.Worker, data_file: Path
) -> None:
    """By what they returned, by their position, and by what kind of file they are of."""
    test_reads.test_failed_and_short_reads_are_counted_apart(worker, data_file, "tracepoint")
    test_reads.test_each_pattern(worker, data_file, "tracepoint")
    test_reads.test_only_files_count(worker, data_file, "tracepoint")


def test_writes_and_fsyncs_are_counted_by_tracepoints_too(
    writer: Callable[..., Reader], process: test_writes.Worker, written: Path
) -> None:
    for call in test_writes.WRITE_CALLS:
        test_writes.test_every_write_is_counted(writer, written, "tracepoint", call)
        written.unlink()
    for call in test_writes.SYNCS:
        test_writes.test_every_fsync_is_counted(writer, written, "tracepoint", call)
    test_writes.test_a_write_with_o_dsync_is_counted_once(writer, written, "tracepoint")
    test_writes.test_a_directory_is_synced(process, written, "tracepoint")


def test_the_best_way_is_chosen(
    reader: Callable[..., Reader], data_file: Path, connection: Connection
) -> None:
    """Nobody has to ask for it, neither for a backend nor for another process."""
    best = "fentry" if ENGINE == "libbpf" else "kprobe"
    with reader(data_file) as one, trace(one.pid, any_process=True) as tracer:
        assert one.go().full == 1000
    assert tracer.capture().probes.reads == best
    assert tracer.capture().totals.reads == 1000
    with trace(connection.info.backend_pid) as tracer:
        connection.execute("select 1")
    probes = tracer.capture().probes
    assert (probes.reads, probes.queries, probes.not_measured) == (best, "usdt", [])


KILLED = """
import sys, time
from pgtrace import trace
with trace(int(sys.argv[1]), reads=sys.argv[2]):
    print(flush=True)
    time.sleep(600)
"""
PROGRAMS = {"fentry": "pgt_f_read", "kprobe": "pgt_k_read"}


@pytest.fixture
def nothing_left(connection: Connection) -> Iterator[None]:
    """No program, map, link, raised semaphore or kprobe is there after that was not before."""
    probes = Path("/sys/kernel/tracing/kprobe_events")
    before, probes_before = ours(), probes.read_text()
    yield
    assert leftovers(before) == {}
    # From 6.12 on a semaphore is lowered after its link has gone
    wait_for(lambda: raised(connection.info.backend_pid) == {}, 30)
    assert probes.read_text() == probes_before


@pytest.mark.usefixtures("nothing_left")
def test_nothing_is_left_after_an_end(connection: Connection, way: ReadsWay) -> None:
    """While it runs there are the programs and a raised semaphore, so that they would be seen."""
    pid = connection.info.backend_pid
    with trace(pid, reads=way):
        assert PROGRAMS[way] in ours().values()
        assert raised(pid)["query__start"] == 1


@pytest.mark.usefixtures("nothing_left")
def test_nothing_is_left_after_kill_9(connection: Connection, way: ReadsWay) -> None:
    pid = connection.info.backend_pid
    with Child(sys.executable, "-c", KILLED, pid, way) as tracer:
        assert tracer.line() == "\n"
        assert PROGRAMS[way] in ours().values()
        assert raised(pid)["query__start"] == 1
