"""Writes and fsyncs of a server: as many as strace counts, of the right files, in the right query.

The server's settings are its own: those of the other tests call no fsync.
"""

import re
import shutil
import signal
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from child import Child
from copied_cluster import CopiedCluster
from fix_cluster import SETTINGS, bindir
from fix_markers import PG_VERSION
from pgtrace import trace
from pgtrace.engines import OPERATIONS
from pgtrace.files.documents import load, write
from pgtrace.lab.core.private_cluster import PrivateCluster
from pgtrace.model.capture import Capture, of_operation
from pgtrace.postgres import discovery
from pgtrace_command import run, wait_for

LASTING = SETTINGS | {"fsync": True, "synchronous_commit": True}
CALLS = {
    "write": "write",
    "pwrite64": "write",
    "writev": "write",
    "pwritev": "write",
    "pwritev2": "write",
    "fsync": "fsync",
    "fdatasync": "fdatasync",
    "sync_file_range": "sync_file_range",
}
_LINE = re.compile(
    rf"^(\d+) +(?:<\.\.\. )?({'|'.join(CALLS)})(?: resumed>|\(\d+<(/[^>]*)>)(?!.*unfinished)"
)
_UNFINISHED = re.compile(rf"^(\d+) +({'|'.join(CALLS)})\(\d+<(/[^>]*)>.*<unfinished")


@contextmanager
def lasting(disk_directory: Path, **settings: object) -> Iterator[PrivateCluster]:
    with CopiedCluster(
        LASTING | settings, bindir=bindir(PG_VERSION), directory=disk_directory
    ) as server:
        with server.connect() as connection:
            connection.execute("create table t (i int, padding text)")
            connection.execute(
                "insert into t select i, repeat('x', 500) from generate_series(1, 5000) i"
            )
            connection.execute("checkpoint")
        yield server


@pytest.fixture(scope="module")
def durable(disk_directory: Path) -> Iterator[PrivateCluster]:
    with lasting(disk_directory) as server:
        yield server


def work(server: PrivateCluster) -> int:
    """Commits, a checkpoint, and a query whose sort does not fit in memory; the backend's pid."""
    with server.connect() as connection:
        for i in range(50):
            connection.execute(f"insert into t values ({i})")
        connection.execute("update t set i = i + 1 where i < 1000")
        connection.execute("set work_mem = '64kB'")
        connection.execute("select count(*) from (select * from t order by padding, i offset 0) x")
        connection.execute("checkpoint")
        return connection.info.backend_pid


def counted(capture: Capture) -> Counter[tuple[int, str]]:
    """By process and call."""
    found: Counter[tuple[int, str]] = Counter()
    for backend in capture.backends:
        for each in backend.io:
            found[backend.pid, each.call or each.operation] += each.count
        for name, apart in (
            ("write", backend.failed["write"]),
            ("write", backend.short["write"]),
            ("fsync", backend.failed["fsync"]),
        ):
            assert apart.count == 0, name
    return found


@contextmanager
def strace(server: PrivateCluster, output: Path) -> Iterator[None]:
    """Every write and fsync of a file, by all processes of the server and those to come."""
    if shutil.which("strace") is None:
        pytest.skip("apt-get install strace")
    master = discovery.server(server.postmaster_pid)
    pids = [
        server.postmaster_pid,
        *(b.pid for b in master.backends() if b.backend_type != "postmaster"),
    ]
    command = ["strace", "-f", "-qq", "-y", "-e", f"trace={','.join(CALLS)}", "-o", str(output)]
    with Child(*command, *(f"-p{pid}" for pid in pids)) as process:
        wait_for(lambda: all(_traced(pid) for pid in pids))
        yield
        process.stop(signal.SIGTERM)


def _traced(pid: int) -> bool:
    """Or it has ended, as a worker of autovacuum does."""
    try:
        return "TracerPid:\t0\n" not in Path(f"/proc/{pid}/status").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return True


def told_by_strace(output: Path) -> Counter[tuple[int, str]]:
    """Of regular files alone: strace names each descriptor's."""
    found: Counter[tuple[int, str]] = Counter()
    for line in output.read_text().splitlines():
        match = _UNFINISHED.match(line) or (None if "resumed>" in line else _LINE.match(line))
        if match and not match[3].startswith(("/dev/", "/proc/")):
            found[int(match[1]), CALLS[match[2]]] += 1
    return found


def test_as_many_as_strace_counts(durable: PrivateCluster, tmp_path: Path) -> None:
    """By each process and call: clients, checkpointer, WAL writer."""
    output = tmp_path / "strace"
    with strace(durable, output):
        with trace(durable.postmaster_pid, operations=OPERATIONS) as tracer:
            work(durable)
            time.sleep(1)  # until the WAL writer has nothing left
        taken = tracer.capture()
    found, told = counted(taken), told_by_strace(output)
    found = Counter({key: n for key, n in found.items() if key[1] != "read"})
    assert sum(told.values()) > 150
    assert {call for _, call in told} >= {"write", "fsync", "fdatasync"}
    lost = taken.lost
    assert (lost.write, lost.fsync) == (0, 0)
    assert found == told


def test_files_and_types_of_backends(durable: PrivateCluster) -> None:
    """A client makes its WAL last; the checkpointer the relations; a sort writes its files."""
    with trace(durable.postmaster_pid, operations=OPERATIONS) as tracer:
        pid = work(durable)
    taken = tracer.capture()
    found: Counter[tuple[str | None, str, str]] = Counter()
    for backend in taken.backends:
        for each in backend.io:
            found[backend.backend_type, each.call or each.operation, each.kind] += each.count
    assert found["client backend", "fdatasync", "wal"] >= 51
    assert found["client backend", "write", "wal"] >= 51
    assert found["client backend", "write", "temporary"] > 10
    assert found["client backend", "fsync", "relation"] == 0
    assert found["checkpointer", "write", "relation"] > 10
    assert found["checkpointer", "fsync", "relation"] >= 1
    (client,) = (backend for backend in taken.backends if backend.pid == pid)
    (insert,) = (q for q in client.queries if q.text and q.text.startswith("insert into t"))
    assert insert.calls == 50
    fsyncs = of_operation(insert.io, "fsync")
    assert sum(each.count for each in fsyncs) == 50, "one for each commit"
    assert {(r.call, r.kind, r.scope, r.performed_by) for r in fsyncs} == {
        ("fdatasync", "wal", "query", "backend")
    }
    totals = taken.totals
    everything = [each for backend in taken.backends for each in backend.io]
    for operation in OPERATIONS:
        own = sum(r.count for r in everything if r.operation == operation)
        assert totals[operation].count == own
        assert own > 0


def test_fsync_off_calls_none(disk_directory: Path, durable: PrivateCluster) -> None:
    """The same work, with the same writes or so, and no fsync at all."""
    with lasting(disk_directory, fsync=False) as careless:
        calls, writes = [], []
        for server in (durable, careless):
            with trace(server.postmaster_pid, operations=("write", "fsync")) as tracer:
                work(server)
            totals = tracer.capture().totals
            calls.append(totals["fsync"].count)
            writes.append(totals["write"].count)
            assert set(totals) == {"write", "fsync"}, "what was not asked for is not 0"
    assert calls[0] > 50
    assert calls[1] == 0
    assert min(writes) > 100


def test_open_datasync_counts_writes_that_last(disk_directory: Path) -> None:
    """Each is one write, which waited for the device; commits call no fsync."""
    settings = {"wal_sync_method": "open_datasync"}
    with lasting(disk_directory, **settings) as server, server.connect() as connection:
        connection.execute("insert into t values (1)")
        with trace(connection.info.backend_pid, operations=OPERATIONS) as tracer:
            for i in range(20):
                connection.execute(f"insert into t values ({i})")
    (backend,) = tracer.capture().backends
    wal = [r for r in of_operation(backend.io, "write") if r.kind == "wal"]
    assert sum(r.count for r in wal) == 20
    assert {r.source for r in wal} - {"unknown"} == {"device"}
    assert of_operation(backend.io, "fsync") == []


def test_the_command_line(durable: PrivateCluster, tmp_path: Path) -> None:
    """What is asked for is in the file and the report; what is not, is not measured."""
    file = tmp_path / "capture.json"
    asked = ("--operations", "fsync,write")
    with durable.connect() as connection:
        pid = connection.info.backend_pid
        done = run("capture", pid, *asked, "--duration", 1, "-o", file)
        assert done.code == 0, done.err
        shown = run("attach", pid, *asked, "--duration", 1)
        assert load(file).probes.operations == ["write", "fsync"]
        with trace(pid, operations=("write", "fsync")) as tracer:
            connection.execute("select 1")
    assert "\nWrites, fsync by " in shown.out
    assert "Neither writes nor fsync nor queries: backend" in run("report", file).out
    write(tracer.capture(), file, force=True)
    report = run("report", file).out
    assert "\nWrites, fsync by " in report
    assert "no writes\n" in report
    assert "no fsync\n" in report
    assert "no reads" not in report
    assert "Not measured: reads, locks, CPU." in report
    wrong = run("capture", pid, "--operations", "read,trim")
    assert wrong.code == 2
    assert "'trim' is none of read, write, fsync" in wrong.err
