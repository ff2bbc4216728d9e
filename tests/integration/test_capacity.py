"""Room in the kernel: what is taken comes back, and what there is no room for is told."""

import re
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from copied_cluster import CopiedCluster
from fix_cluster import Connection
from pgtrace.engines import Member, libbpf_engine, map_sizes, select
from pgtrace.engines.libbpf_engine import LibbpfEngine
from pgtrace.engines.snapshot import InUse
from pgtrace.lab.core.private_cluster import PrivateCluster
from pgtrace.postgres.binary import Programs
from pgtrace.postgres.catalog import Names
from pgtrace.tracing import file_names
from pgtrace.tracing.options import TraceOptions
from pgtrace.tracing.targets import Target
from pgtrace.tracing.tracer import Tracer
from pgtrace_command import Pgtrace, patched, wait_for
from scans import anything_lost

RELATIONS = 100
MOST_RELATIONS = 17_000
QUERIES = 4000


@contextmanager
def tracing(target: Target, *, every_s: float = 0.05, **options: Any) -> Iterator[Tracer]:
    """A tracer that somebody looks at, as the commands do."""
    tracer = Tracer(target, TraceOptions(probe_type="tracepoint", **options))
    leave = threading.Event()

    def look() -> None:
        while not leave.wait(every_s):
            tracer.poll()

    thread = threading.Thread(target=look, daemon=True)
    thread.start()
    try:
        yield tracer
    finally:
        leave.set()
        thread.join()
        tracer.stop()


def engine_of(tracer: Tracer) -> LibbpfEngine:
    assert isinstance(tracer.engine, LibbpfEngine)
    return tracer.engine


@pytest.fixture
def little_room(monkeypatch: pytest.MonkeyPatch) -> None:
    """As few slots as the options allow."""
    monkeypatch.setattr(map_sizes, "_FEWEST_SLOTS", 256)
    monkeypatch.setattr(map_sizes, "_SLOTS_PER_TASK", 1)


def reconnect(cluster: PrivateCluster, tmp_path: Path, times: int, text: str) -> None:
    """Two clients, each of whose queries has a backend of its own."""
    script = tmp_path / "one.sql"
    script.write_text(text)
    subprocess.run(
        [cluster.bindir / "pgbench", "-n", "-C", "-c", "2", "-t", str(times // 2), "-f", script,
         cluster.dsn()],
        check=True,
        stdout=subprocess.DEVNULL,
    )  # fmt: skip


def is_near(now: InUse, before: InUse) -> bool:
    """But for a few, of whom it is about to be told that they have ended."""
    names = ("tasks", "statements", "slots", "chunks")
    return all(getattr(now, name) <= getattr(before, name) + 12 for name in names)


@pytest.mark.usefixtures("little_room")
def test_clients_that_reconnect_take_nothing_for_good(
    cluster: PrivateCluster, tmp_path: Path
) -> None:
    """More than twice as many as there is room for, but for all that come before one looks again:
    no read is lost, and in use is what was before."""
    text = "select count(*) from pg_class;\nselect count(*) from pg_proc where oid < 2000;\n"
    with tracing(
        Target.find(cluster.postmaster_pid), most_backends=150, most_statements=32
    ) as tracer:
        in_use = engine_of(tracer).in_use
        before = in_use()
        for _ in range(4):
            reconnect(cluster, tmp_path, 100, text)
            wait_for(lambda: is_near(in_use(), before), instead=in_use)
    taken = tracer.capture()
    assert taken.lost.read == taken.lost.backends == 0
    assert sum(query.calls for backend in taken.backends for query in backend.queries) == 800


@pytest.fixture(scope="module")
def relations(cluster: PrivateCluster) -> Iterator[str]:
    """A query that reads so many relations that its slots are more than are moved at once."""
    with cluster.connect() as connection:
        connection.execute("create schema many")
        for i in range(RELATIONS):
            connection.execute(f"create table many.t{i} as select 1 as a")
        connection.execute("checkpoint")
    yield " union all ".join(f"select sum(a) from many.t{i}" for i in range(RELATIONS))
    with cluster.connect() as connection:
        connection.execute("set client_min_messages = warning")
        for i in range(RELATIONS):
            connection.execute(f"drop table many.t{i}")
        connection.execute("drop schema many")


def read_all(connection: Connection, query: str) -> None:
    """From the files: what a connection of its own had in its buffers is of no use to it."""
    connection.pgconn.exec_(query.encode())


def test_a_query_of_many_relations_gives_all_its_slots_back(
    cluster: PrivateCluster, relations: str
) -> None:
    """More than are put to their statement at once; each read is its statement's."""
    cluster.restart()
    with (
        cluster.connect() as connection,
        tracing(Target.find(cluster.postmaster_pid), by_relation=True) as tracer,
    ):
        pid = connection.info.backend_pid
        read_all(connection, relations)
        connection.execute("select 1")
    (backend,) = [one for one in tracer.capture().backends if one.pid == pid]
    inside = sum(r.count for r in backend.io if r.scope == "query")
    assert inside == sum(r.count for query in backend.queries for r in query.io)
    read = {r.relation for query in backend.queries for r in query.io}
    assert len(read) > RELATIONS > layout_folded()
    assert tracer.capture().lost.unplaced == 0


@pytest.mark.long
def test_a_query_of_more_slots_than_ever(disk_directory: Path) -> None:
    """Each of its reads is its statement's, too. To make so many tables takes half a minute."""
    each = f"for i in 1..{MOST_RELATIONS} loop execute"
    settings = {"fsync": False, "autovacuum": False, "max_locks_per_transaction": 1000}
    with CopiedCluster(settings, directory=disk_directory) as cluster:
        with cluster.connect() as connection:
            made = "'create table t' || i || ' as select 1 as a'; end loop"
            connection.execute(f"do $$ begin {each} {made}; end $$")
        cluster.restart()
        with (
            cluster.connect() as connection,
            tracing(
                Target.find(cluster.postmaster_pid), by_relation=True, queries="full"
            ) as tracer,
        ):
            pid = connection.info.backend_pid
            read = "'select a from t' || i into n; end loop"
            connection.execute(f"do $$ declare n int; begin {each} {read}; end $$")
            connection.execute("select 1")
    (backend,) = [one for one in tracer.capture().backends if one.pid == pid]
    inside = sum(r.count for r in backend.io if r.scope == "query")
    assert inside > MOST_RELATIONS
    assert inside == sum(r.count for query in backend.queries for r in query.io)


def layout_folded() -> int:
    """FOLDED in bpf/pgtrace.h."""
    header = Path(__file__).parents[2] / "bpf/pgtrace.h"
    return int(re.findall(r"#define FOLDED\s+(\d+)", header.read_text())[0])


def test_queries_whose_records_are_lost_give_their_slots_back(
    cluster: PrivateCluster,
) -> None:
    """Nobody fetches the records; all reads stay counted, in queries."""
    with cluster.connect() as connection:
        pid = connection.info.backend_pid
        tracer = Tracer(Target.find(pid), TraceOptions(probe_type="tracepoint", per_query=True))
        long = "-- " + "x" * 900
        for _ in range(QUERIES):
            connection.execute(
                "select pg_read_binary_file('global/pg_control', 0, 4096)" + long, prepare=False
            )
        taken = tracer.stop()
    (backend,) = taken.backends
    lost = taken.lost
    assert lost.queries > 0 and lost.read == 0
    assert sum(query.calls for query in backend.queries) + lost.queries == QUERIES
    assert sum(r.count for r in backend.io if r.scope == "query") >= QUERIES


@pytest.mark.parametrize("by_relation", [True, False])
def test_without_room_reads_are_counted_by_kind(
    cluster: PrivateCluster, relations: str, monkeypatch: pytest.MonkeyPatch, by_relation: bool
) -> None:
    """What is spared takes what no slot is left for: no read is lost, no minimum 0."""
    monkeypatch.setattr(map_sizes, "_FEWEST_SLOTS", 64)
    monkeypatch.setattr(map_sizes, "_SLOTS_PER_TASK", 1)
    monkeypatch.setattr(map_sizes, "_FILES_APART", 1)
    cluster.restart()
    with (
        cluster.connect() as connection,
        tracing(
            Target.find(cluster.postmaster_pid),
            by_relation=by_relation,
            most_backends=32,
            most_statements=10,
        ) as tracer,
    ):
        read_all(connection, relations)
        connection.execute("select 1")
    taken = tracer.capture()
    assert taken.lost.read == 0
    everything = [r for one in taken.backends for r in one.io]
    assert (taken.lost.unplaced > 0) == by_relation
    if by_relation:
        unplaced = [r for r in everything if r.relation is None]
        assert sum(r.count for r in unplaced) == taken.lost.unplaced
        assert {r.kind for r in unplaced} <= {"relation", "other"}
        assert taken.totals["read"].count > taken.lost.unplaced
    assert all(r.latency.min for r in everything)
    assert taken.probes.shortest_ns
    assert all(sum(n for *_, n in r.latency.buckets) == r.count for r in everything)


def test_a_loss_is_told_at_once_with_its_share_its_cause_and_what_helps(
    cluster: PrivateCluster, relations: str
) -> None:
    """On stderr while it happens, and in the report; not again and again."""
    code = """
from pgtrace.engines import map_sizes
map_sizes._FEWEST_SLOTS = map_sizes._SLOTS_PER_STATEMENT = 2
map_sizes._SLOTS_PER_TASK = 0
map_sizes._FILES_APART = 1
"""
    cluster.restart()
    with cluster.connect() as connection, Pgtrace(
        "capture", cluster.postmaster_pid, "--by", "relation", "--max-backends", 1,
        "--max-statements", 1, "--probe", "tracepoint", "--strict", command=patched(code),
    ) as tracer:  # fmt: skip
        tracer.attached()
        for _ in range(3):
            read_all(connection, relations)
            time.sleep(0.3)
        wait_for(lambda: "Lost so far" in tracer.err, 20)
        ended = tracer.stop()
    assert ended.code == 6, ended
    assert len(re.findall("Lost so far: ", ended.err)) == 1
    pattern = (
        r"[\d,]+ reads \([\d.]+ % of all\)\. No slot was left for [\d,]+.*: raise --max-statements"
    )
    assert re.search(rf"pgtrace: Lost so far: {pattern}", ended.err), ended.err
    said = " ".join(ended.out.split())
    assert re.search(rf"Lost, and in no number below: {pattern}", said), ended.out[:1000]
    assert " 0 ns" not in ended.out


OTHERS = 10_000
NOBODYS = 1 << 22
"""PID_MAX_LIMIT in include/linux/threads.h: no process has this pid, or a higher one."""


def test_one_backend_of_a_server_with_thousands(connection: Connection) -> None:
    """Each of the others is known to be of no interest."""
    target = Target.find(connection.info.backend_pid)
    others = tuple(Member(pid, pid) for pid in range(NOBODYS, NOBODYS + OTHERS))
    with Programs() as programs:
        request = target.request(TraceOptions(probe_type="tracepoint", per_query=True), programs)
        engine = select.start(replace(request, ignored=(*request.ignored, *others)))
    try:
        connection.execute("select 'one of thousands'")
        (event,) = engine.poll(settled=False)
    finally:
        engine.close()
    assert event.text == b"select 'one of thousands'"


BACKENDS, STATEMENTS, TABLES = 50, 100, 1000


@pytest.fixture
def tables(cluster: PrivateCluster) -> Iterator[None]:
    """A thousand, of a page each, more than the server has buffers for; and fsyncs."""
    with cluster.connect() as connection:
        connection.execute("create schema thousand")
        for i in range(0, TABLES, 100):
            made = (f"create table thousand.t{j} as select 1 as a" for j in range(i, i + 100))
            connection.execute(";".join(made))
        connection.execute("alter system set shared_buffers = '4MB'")
        connection.execute("alter system set fsync = on")
    cluster.restart()
    yield
    with cluster.connect() as connection:
        connection.execute("alter system reset all")
    cluster.restart()
    with cluster.connect() as connection:
        connection.execute("set client_min_messages = warning")
        for i in range(0, TABLES, 100):
            connection.execute(";".join(f"drop table thousand.t{j}" for j in range(i, i + 100)))
        connection.execute("drop schema thousand")


def use(cluster: PrivateCluster, ended: threading.Barrier, backend: int) -> None:
    """One backend: each statement another one, of four relations, of which one is written."""
    with cluster.connect() as connection:
        for i in range(STATEMENTS):
            first = backend * 7919 + i * 104729
            to, *of = (f"thousand.t{(first + each * 331) % TABLES}" for each in range(4))
            rows = " + ".join(f"(select count(a) from {table})" for table in of)
            read_all(connection, f"insert into {to} select {rows} as n{i}")
        for _ in range(2):  # somebody looks while everybody is there
            ended.wait(120)


@pytest.mark.usefixtures("tables")
def test_a_busy_server_loses_nothing_with_the_defaults(cluster: PrivateCluster) -> None:
    """50 backends with 100 statements each, a thousand relations, each operation."""
    operations = ("read", "write", "fsync")
    with tracing(
        Target.find(cluster.postmaster_pid), by_relation=True, operations=operations
    ) as tracer:
        ended = threading.Barrier(BACKENDS + 1)
        with ThreadPoolExecutor(BACKENDS) as pool:
            backends = pool.map(partial(use, cluster, ended), range(BACKENDS))
            ended.wait(120)
            used = tracer.in_use()
            ended.wait(120)
            list(backends)
        # All the room for statements is taken until somebody looked after their end
        wait_for(lambda: engine_of(tracer).in_use().statements < BACKENDS * STATEMENTS)
        with cluster.connect() as connection:
            connection.execute("checkpoint")
    taken = tracer.capture()
    print(used, taken.totals)
    assert not anything_lost(taken), taken.lost
    statements = [
        query
        for backend in taken.backends
        for query in backend.queries
        if "thousand" in (query.text or "")
    ]
    assert len(statements) == sum(query.calls for query in statements) == BACKENDS * STATEMENTS
    touched = {r.relation for backend in taken.backends for r in backend.io}
    assert len(touched) > TABLES
    assert taken.totals["write"].count > TABLES // 2 and taken.totals["fsync"].count > TABLES // 2
    assert all(r.latency.min for backend in taken.backends for r in backend.io)


ROUNDS, MADE = 6, 8


def in_operations(tracer: Tracer, pid: int) -> Counter[str]:
    """Of one backend, how many of each operation."""
    found: Counter[str] = Counter()
    for backend in tracer.capture().backends:
        for reads in backend.io if backend.pid == pid else ():
            found[reads.operation] += reads.count
    return found


@pytest.mark.parametrize("named", [False, True], ids=["files", "names"])
def test_relations_that_come_and_go_take_nothing_for_good(
    cluster: PrivateCluster, monkeypatch: pytest.MonkeyPatch, named: bool
) -> None:
    """One backend makes, reads, and drops tables for ever. What it did stays counted, exactly as a
    tracer counts it that tells no files apart, of relations that are gone under their names where a
    connection told them. Slots, chunks and entries are free for others."""
    monkeypatch.setattr(file_names, "CHECK_S", 0.2)
    monkeypatch.setattr(libbpf_engine, "_LEAVES_S", 0.3)
    target = Target.find(cluster.postmaster_pid)
    options: dict[str, Any] = {"operations": ("read", "write", "fsync")}
    dsn = cluster.dsn() if named else None
    with (
        cluster.connect() as connection,
        tracing(target, **options) as plain,
        tracing(target, by_relation=True, dsn=dsn, **options) as tracer,
    ):
        pid, names, samples = connection.info.backend_pid, tracer.names and tracer.names.only, []
        for _ in range(ROUNDS):
            paths = set()
            for i in range(MADE):
                connection.execute(
                    f"create table made_{i} as select repeat('x', 500) as filler"
                    " from generate_series(1, 5000)"
                )
                connection.execute(f"create index on made_{i} (filler)")
                (path,) = connection.execute(f"select pg_relation_filepath('made_{i}')").fetchone()
                paths.add(path)
            connection.execute("checkpoint")
            for i in range(MADE):
                connection.execute(f"select count(filler) from made_{i}")
            if names:
                wait_for(partial(are_known, names, paths))
            for i in range(MADE):
                connection.execute(f"drop table made_{i}")
            connection.execute("checkpoint")  # it is then that the files go
            wait_for(partial(are_forgotten, tracer, paths))
            time.sleep(1)  # until others that are gone are missed, too
            wait_for(partial(is_given_back, tracer))
            samples.append((engine_of(tracer).in_use(), len(tracer.engine.files())))
        assert in_operations(tracer, pid) == in_operations(plain, pid)
    print(*samples, sep="\n")
    assert in_operations(tracer, pid) == in_operations(plain, pid)
    taken = tracer.capture()
    assert taken.lost.read == taken.lost.write == taken.lost.fsync == taken.lost.unplaced == 0
    (backend,) = [one for one in taken.backends if one.pid == pid]
    told = {r.relation for r in backend.io if r.kind in {"relation", "heap"}}
    made = {f"public.made_{i}" for i in range(MADE)}
    assert made <= told if named else file_names.GONE in told
    assert in_operations(tracer, pid)["write"] > ROUNDS * MADE * 100
    # Catalogs and histograms take more for a while; three rounds of files that stayed would take
    # more than 500 slots, and 1,000 chunks
    (before, files_before), (after, files_after) = samples[2], samples[-1]
    assert files_after <= files_before + MADE
    for name, of_each in (("slots", 16), ("chunks", 32), ("files", 1)):
        grown = getattr(after, name) - getattr(before, name)
        assert grown < MADE * of_each, (name, samples)


def are_known(names: Names, paths: set[str]) -> bool:
    return paths <= names.relations.known.keys()


def is_given_back(tracer: Tracer) -> bool:
    """Whether no slot is kept for who may be in the midst of a read."""
    return not engine_of(tracer)._leaving


def are_forgotten(tracer: Tracer, paths: set[str]) -> bool:
    """No file of these relations is told apart any more."""
    with tracer._lock:
        return not any(path in paths for _, _, path in tracer.places._seen.values())
