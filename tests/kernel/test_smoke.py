"""Under each kernel of Debian's: every probe type loads, attaches and counts, and doctor knows it.

What is measured, and how exactly, tests/integration shows; what differs between kernels is in
bpf/kernel.bpf.h.
"""

import json
import os
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import product
from pathlib import Path
from typing import Any, get_args

import pytest

from child import state_of, wait_for
from copied_cluster import CopiedCluster
from fix_cluster import SETTINGS, bindir
from fix_engines import RELEASE, engines, ways
from fix_markers import PG_VERSION, matches
from fix_reader import Reader
from pgtrace import trace
from pgtrace.engines import (
    OPERATIONS,
    EngineName,
    EngineOptions,
    Member,
    Postmaster,
    ProbeType,
    Request,
    TaskSnapshot,
    select,
)
from pgtrace.lab.core.private_cluster import PrivateCluster
from pgtrace.model.capture import Call, Operation, of_operation, sums_of
from pgtrace.tracing.options import TraceOptions
from pgtrace.tracing.targets import Target
from pgtrace.tracing.tracer import Tracer
from pgtrace_command import patched, run
from processes import Processes

pytestmark = [pytest.mark.vm(tracepoints=True), pytest.mark.core]
OLD = matches(RELEASE, "< 5.17")


@pytest.fixture(scope="module")
def server(disk_directory: Path) -> Iterator[PrivateCluster]:
    """With no table: what takes time takes far more of it in an emulated machine."""
    with CopiedCluster(SETTINGS, bindir=bindir(PG_VERSION), directory=disk_directory) as server:
        yield server


def asked_for(way: ProbeType, engine: EngineName) -> ProbeType | None:
    """Nobody has to ask for the best one."""
    return None if way == ways(engine)[0] else way


def test_way_counts_each_read(
    reader: Callable[..., Reader], data_file: Path, engine: EngineName, way: ProbeType
) -> None:
    asked = asked_for(way, engine)
    with reader(data_file) as one, trace(one.pid, any_process=True, probe_type=asked) as tracer:
        assert one.go().full == 1000
    taken = tracer.capture()
    assert (taken.probes.engine, taken.probes.type) == (engine, way)
    assert (taken.totals["read"].count, taken.totals["read"].bytes) == (1000, 1000 * 8192)
    assert (taken.totals["read"].failed, taken.totals["read"].short) == (0, 0)
    assert (taken.lost.read, taken.lost.in_flight) == (0, {"read": 0})


def test_no_read_passes_by_unseen_where_others_sleep_in_reads(
    reader: Callable[..., Reader], data_file: Path, engine: EngineName, way: ProbeType
) -> None:
    """As of a pipe, which keeps a kretprobe's few places: what that misses is lost, and said so."""
    pipes = [os.pipe() for _ in range(40)]
    sleepers = [threading.Thread(target=os.read, args=(end, 1)) for end, _ in pipes]
    with reader(data_file) as one, trace(one.pid, any_process=True, probe_type=way) as tracer:
        for sleeper in sleepers:
            sleeper.start()
        wait_for(lambda: all(state_of(each.native_id or 0) == "S" for each in sleepers))
        assert one.go().full == 1000
    for end in (end for pair in pipes for end in reversed(pair)):
        os.close(end)
    taken = tracer.capture()
    counted, lost = taken.totals["read"].count, taken.lost
    assert counted + lost.read + lost.in_flight["read"] == 1000
    assert way == "kprobe" or counted == 1000


def test_way_divides_the_time(
    reader: Callable[..., Reader], data_file: Path, engine: EngineName, way: ProbeType
) -> None:
    asked = asked_for(way, engine)
    with (
        reader(data_file) as one,
        trace(one.pid, any_process=True, probe_type=asked, times=True) as tracer,
    ):
        one.go()
    taken = tracer.capture()
    (backend,) = taken.backends
    assert taken.probes.times
    assert {each.kind for each in backend.times} >= {"cpu", "sleep"}
    whole = sum(each.total_ns for each in backend.times)
    assert whole == pytest.approx(taken.duration_s * 1e9, rel=0.05)


@pytest.mark.parametrize("per_query", [False, True])
def test_requests_of_io_uring(
    uring_reader: Callable[..., Reader], data_file: Path, engine: EngineName, per_query: bool
) -> None:
    """Each is counted, whichever thread of the process it completes in; or said not to be."""
    with uring_reader(data_file, "inline,async", 1000) as one:
        request = Request(
            EngineOptions(per_query=per_query),
            (Member(one.pid, one.pid, 0, os.getpid()),),
            (Postmaster(os.getpid(), io_uring=True),),
            only=one.pid,
            io_uring=True,
        )
        started = select.start(request)
        try:
            for made, how in ((1000, "inline"), (2000, "async")):
                counts = one.go()
                assert (counts.full, counts.executors > 0) == (1000, how == "async")
                (task,) = started.snapshot()
                _is_counted(task, made, started.not_measured, engine)
        finally:
            started.close()


def _is_counted(task: TaskSnapshot, made: int, not_measured: list[str], engine: EngineName) -> None:
    missing = [reason for reason in not_measured if "io_uring" in reason]
    assert (task.lost_reads, task.requests, task.failed.count, task.short.count) == (0, 0, 0, 0)
    if matches(RELEASE, "< 6.0") or engine == "bcc":
        assert (task.reads, len(missing)) == ({}, 1)
        return
    assert not missing
    assert {key.performed_by for key in task.reads} == {"io_uring"}
    assert sum(each.count for each in task.reads.values()) == made
    assert sum(each.bytes for each in task.reads.values()) == made * 8192


def test_way_counts_each_write_and_fsync(
    writer: Callable[..., Reader], disk_directory: Path, way: ProbeType
) -> None:
    """A write into a file opened with O_DSYNC is one, and no fsync."""
    file = disk_directory / f"written by {way}"
    wanted: dict[int, tuple[int, dict[str | None, int]]] = {}
    writers = []
    for call, sync in product(("pwrite", "pwritev"), get_args(Call)):
        options = ("--call", call, "--count", 100, "--sync", sync)
        writers.append(writer(file, *options))
        wanted[writers[-1].pid] = (100, {sync: 10})
    writers.append(writer(file, "--dsync", "--count", 20))
    wanted[writers[-1].pid] = (20, {})
    tracer = Tracer(Processes(tuple(wanted)), TraceOptions(probe_type=way, operations=OPERATIONS))
    try:
        for one in writers:
            one.go()
    finally:
        taken = tracer.stop()
    assert taken.probes.type == way
    assert (taken.lost.write, taken.lost.fsync) == (0, 0)
    assert {backend.pid for backend in taken.backends} == wanted.keys()
    for backend in taken.backends:
        totals = sums_of([backend], OPERATIONS)
        writes, fsyncs = wanted[backend.pid]
        found: Counter[str | None] = Counter()
        for each in of_operation(backend.io, "fsync"):
            found[each.call] += each.count
        assert (totals["write"].count, totals["write"].bytes) == (writes, writes * 8192)
        assert (totals["fsync"].count, found) == (sum(fsyncs.values()), fsyncs)
        assert (totals["read"].count, totals["write"].failed, totals["fsync"].failed) == (0, 0, 0)


def reading(file: Path) -> str:
    """A query that reads 80 blocks, of a file that it makes."""
    file.write_bytes(bytes(80 * 8192))
    file.chmod(0o644)
    for parent in file.parents[:3]:
        parent.chmod(0o755)
    return f"select length(pg_read_binary_file('{file}', 0, {80 * 8192}))"


def test_backend(
    server: PrivateCluster, engine: EngineName, way: ProbeType, tmp_path: Path
) -> None:
    """Reads are in the query that made them: those of a file, and no others."""
    read = reading(tmp_path / "file")
    with server.connect() as connection:
        connection.execute(read)
        asked = asked_for(way, engine)
        with trace(connection.info.backend_pid, probe_type=asked, literals=True) as tracer:
            connection.execute(read)
            connection.pgconn.exec_(b"select 1/0")
    taken = tracer.capture()
    (backend,) = taken.backends
    probes = taken.probes
    assert (probes.type, probes.queries, probes.not_measured) == (way, "usdt", [])
    assert {(q.text, q.calls, q.errors) for q in backend.queries} == {
        (read, 1, 0),
        ("select 1/0", 1, 1),
    }
    (query,) = (query for query in backend.queries if query.text == read)
    assert sum(reads.bytes for reads in query.io) == 80 * 8192


def test_whole_server(server: PrivateCluster, engine: EngineName) -> None:
    """A backend that comes is named, and its queries are told, by the probe type that is best."""
    with trace(server.postmaster_pid, literals=True) as tracer, server.connect() as connection:
        pid = connection.info.backend_pid
        connection.execute("select 'here'")
    taken = tracer.capture()
    assert taken.probes.type == ways(engine)[0]
    # There USDT probes reach no process to come, but those of functions do
    assert taken.probes.queries == ("uprobe" if OLD else "usdt")
    (backend,) = (backend for backend in taken.backends if backend.pid == pid)
    assert (backend.backend_type, backend.usename) == ("client backend", "postgres")
    assert "select 'here'" in [query.text for query in backend.queries]
    assert taken.totals["read"].count > 0
    assert (taken.lost.read, taken.lost.queries, taken.lost.backends) == (0, 0, 0)


@pytest.mark.parametrize("operations", [("read",), OPERATIONS])
def test_whole_server_by_its_backends_memory(
    server: PrivateCluster, tmp_path: Path, operations: tuple[Operation, ...]
) -> None:
    """The light tier knows the statement of each read, also once it knows the fields."""
    read = reading(tmp_path / "file")
    with server.connect() as connection:
        pid = connection.info.backend_pid
        connection.execute(read)
        with trace(
            server.postmaster_pid, literals=True, queries="light", operations=operations
        ) as tracer:
            for _ in range(12):
                connection.execute(read)
                tracer.poll()
    taken = tracer.capture()
    assert (taken.probes.queries, taken.probes.not_measured) == ("memory", [])
    (backend,) = (backend for backend in taken.backends if backend.pid == pid)
    (query,) = (query for query in backend.queries if query.text == read)
    bytes_read = sum(reads.bytes for reads in query.io if reads.operation == "read")
    assert bytes_read == 12 * 80 * 8192
    assert query.calls is None
    assert tracer.engine.query_source == "memory"


def test_two_backends(server: PrivateCluster) -> None:
    """Each is told its own queries, and no third's are told."""
    with server.connect() as one, server.connect() as two, server.connect() as three:
        pids = [each.info.backend_pid for each in (one, two)]
        tracer = Tracer(Target.of_pids(pids), TraceOptions(literals=True))
        try:
            for each in one, two, three:
                each.execute(f"select {each.info.backend_pid}")
                each.pgconn.exec_(b"select 1/0")
        finally:
            taken = tracer.stop()
    # There USDT probes reach one process only, but those of functions several
    assert taken.probes.queries == ("uprobe" if OLD else "usdt")
    assert taken.probes.not_measured == []
    found = {b.pid: {(q.text, q.calls, q.errors) for q in b.queries} for b in taken.backends}
    assert found == {pid: {(f"select {pid}", 1, 0), ("select 1/0", 1, 1)} for pid in pids}


@pytest.mark.kernel("< 5.17")
def test_fentry_is_refused_before_anything_is_loaded(server: PrivateCluster) -> None:
    ended = run("capture", server.postmaster_pid, "--probe", "fentry", "--duration", 1)
    assert (ended.code, ended.out) == (5, "")
    assert "before Linux 5.17" in ended.err


def test_doctor_where_bcc_is_installed(server: PrivateCluster, engine: EngineName) -> None:
    """Beside libbpf it works too, or it stands in. Not in every run: the compiler is emulated."""
    told = abilities(server, engine)
    assert told["engine bcc"]["ok"] is (True if "bcc" in engines() else None)


@pytest.mark.vm(tracepoints=True, engines=("libbpf",))
def test_doctor(server: PrivateCluster, engine: EngineName) -> None:
    told = abilities(server, engine, command=patched("import sys\nsys.modules['bcc'] = None"))
    assert told["engine bcc"]["ok"] is None


def abilities(server: PrivateCluster, engine: EngineName, **settings: Any) -> dict[str, Any]:
    """Of doctor, by name. It says that reads and queries can be traced, and by which ways."""
    ended = run("doctor", "--json", "--pid", server.postmaster_pid, **settings)
    assert ended.code == 0, ended
    answer = json.loads(ended.out)
    told = {one["name"]: one for group in answer["groups"] for one in group["abilities"]}
    assert told["kernel"]["reason"].startswith(RELEASE)
    for name in (*ways(engine), "reads", "uprobes", "engine", "query probes", "version"):
        assert told[name]["ok"] is True, told[name]
    assert told["reads"]["reason"].startswith(f"by {ways(engine)[0]}, the best probe type here")
    if "fentry" not in ways(engine):
        assert told["fentry"]["ok"] is None
        why = "the kernel's own BTF" if engine == "bcc" else "before Linux 5.17"
        assert why in told["fentry"]["reason"]
    there = engine == "libbpf"
    assert told["engine"]["reason"].startswith(f"{engine}, ")
    assert (told["BTF"]["ok"], told["engine libbpf"]["ok"]) == (
        (True, True) if there else (None, None)
    )
    assert "PID namespace" not in told
    return told
