"""The light tier: what each statement read, without a probe in the server.

It is held against the full tier, which traces the same load at the same time.
"""

import json
import re
import struct
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import psycopg
import pytest
from test_no_usdt import without

from child import Child, state_of, wait_for, wait_until_gone
from copied_cluster import CopiedCluster
from fix_cluster import SETTINGS, Connection, Server, bindir
from fix_markers import PG_VERSION
from pgtrace.engines import ProbeType, layout
from pgtrace.engines.calibration import Calibration
from pgtrace.engines.libbpf_engine import LibbpfEngine
from pgtrace.engines.light import Light
from pgtrace.files.documents import load
from pgtrace.lab.core.private_cluster import PrivateCluster
from pgtrace.model.capture import Capture, Operation, Query, sums_of
from pgtrace.postgres import binary, discovery
from pgtrace.tracing.options import TraceOptions
from pgtrace.tracing.targets import Target
from pgtrace.tracing.tracer import Tracer, trace
from pgtrace_command import Pgtrace, run

PROBE_TYPE: ProbeType = "tracepoint"
WITHIN_S = 20.0
SMALL = {"shared_buffers": "1MB", "max_wal_senders": 0, "max_logical_replication_workers": 0}
Sums = dict[str, tuple[int, int]]
"""By statement, how many reads and bytes."""


@pytest.fixture(params=["on", "off"])
def ids(request: pytest.FixtureRequest) -> str:
    found: str = request.param
    return found


@pytest.fixture
def small(server: Server, ids: str) -> PrivateCluster:
    """With so few buffers that most of what is asked for is read."""
    return server(compute_query_id=ids, **SMALL)


@contextmanager
def both(pid: int, **options: Any) -> Iterator[tuple[Tracer, Tracer]]:
    """The light tier, once it knows what lies where, and the full one."""
    with ExitStack() as stack:
        tracers = [
            stack.enter_context(trace(pid, probe_type=PROBE_TYPE, queries=tier, **options))
            for tier in ("light", "full")
        ]
        yield tracers[0], tracers[1]


def light_of(tracer: Tracer) -> Light:
    assert isinstance(tracer.engine, LibbpfEngine)
    assert tracer.engine._light
    return tracer.engine._light


def calibrate(tracer: Tracer, connection: Connection) -> None:
    """Let a backend report until it is known where, and how."""
    binaries = list(light_of(tracer)._binaries.values())
    end = time.monotonic() + WITHIN_S
    while any(each.links for each in binaries):
        assert time.monotonic() < end
        for _ in range(5):
            # Not prepared after some calls: what that reads is the statement's in one tier alone
            connection.execute("select 'that is needed to find the offsets'", prepare=False)
        time.sleep(0.06)


def queries(taken: Capture, pid: int) -> list[Query]:
    assert taken.partial == []
    (backend,) = (each for each in taken.backends if each.pid == pid)
    return backend.queries


def sums(found: list[Query], operation: Operation = "read") -> Sums:
    """Of statements that read anything."""
    counts, sizes = Counter[str](), Counter[str]()
    for query in found:
        for each in query.io:
            if each.operation == operation:
                counts[query.text or "?"] += each.count
                sizes[query.text or "?"] += each.bytes
    return {text: (count, sizes[text]) for text, count in counts.items()}


def outside(taken: Capture, pid: int) -> int:
    (backend,) = (each for each in taken.backends if each.pid == pid)
    return sum(each.count for each in backend.io if each.scope == "outside")


def simple(connection: Connection) -> None:
    for i in range(5):
        connection.execute(f"select count(*) from tbl_cost_align where id <> {i}")
        connection.execute(f"select 'no read', {i}")


def prepared(connection: Connection) -> None:
    for i in range(5):
        connection.execute("select count(*) from tbl_cost_align where id > %s", (i,), prepare=True)
        connection.execute("select %s::int", (i,), prepare=True)


def extended(connection: Connection) -> None:
    for i in range(5):
        connection.execute("select count(*) from tbl_cost_align where id <> %s", (i,))
        connection.execute("select max(id) from tbl_cost_align where id < %s::int", (i,))


def functions(connection: Connection) -> None:
    connection.execute(
        "create or replace function counted() returns bigint language plpgsql as "
        "$$ begin return (select count(*) from tbl_cost_align); end $$"
    )
    for _ in range(3):
        connection.execute("select counted()")


def transactions(connection: Connection) -> None:
    """What a backend reads is its statement's, also where it is idle within a transaction then."""
    for _ in range(3):
        with connection.transaction():
            connection.execute("select count(*) from tbl_cost_align")
            time.sleep(0.02)
            connection.execute("select min(id) from tbl_cost_align")


def failures(connection: Connection) -> None:
    for _ in range(3):
        with pytest.raises(psycopg.errors.DivisionByZero):
            connection.execute("select sum(1 / (id - id)) from tbl_cost_align")
        with pytest.raises(psycopg.errors.UndefinedColumn):
            connection.execute("select sum(no_column) from tbl_cost_align")
    connection.execute("select count(*) from tbl_cost_align")


def cursors(connection: Connection) -> None:
    with connection.transaction():
        connection.execute("declare c cursor for select * from tbl_cost_align")
        for _ in range(3):
            connection.execute("fetch 10000 from c")


LOADS: list[Callable[[Connection], None]] = [
    simple,
    prepared,
    extended,
    functions,
    transactions,
    failures,
    cursors,
]


def captured(
    server: PrivateCluster,
    *loads: Callable[[Connection], None],
    already: bool = False,
    **options: Any,
) -> tuple[int, Capture, Capture]:
    """A backend's pid, and what the light tier and the full one saw of what it was asked to do;
    already: it has done so before."""
    with server.connect() as connection, server.connect() as other:
        for load in loads if already else ():
            load(connection)
        with both(server.postmaster_pid, **options) as (light, full):
            calibrate(light, other)
            for load in loads:
                load(connection)
        return connection.info.backend_pid, light.capture(), full.capture()


@pytest.mark.parametrize("load", LOADS, ids=lambda load: load.__name__)
def test_both_tiers_count_the_same_for_each_statement(
    small: PrivateCluster, load: Callable[[Connection], None], ids: str
) -> None:
    pid, one, all_of_it = captured(small, load, already=load is prepared)
    assert (one.probes.queries, one.probes.not_measured) == ("memory", [])
    assert one.totals["read"].count == all_of_it.totals["read"].count > 200
    assert sums(queries(one, pid)) == sums(queries(all_of_it, pid))
    assert outside(one, pid) == outside(all_of_it, pid)
    known = {q.query_id for q in queries(all_of_it, pid) if q.io and q.query_id}
    assert {q.query_id for q in queries(one, pid) if q.query_id} == known
    assert bool(known) == (ids == "on")
    for query in queries(one, pid):
        assert (query.calls, query.errors, query.latency, query.waited_ns) == (None,) * 4


def test_what_was_read_to_prepare_a_statement_is_its_own(small: PrivateCluster) -> None:
    """The full tier waits for the call, and counts outside what was only prepared."""
    pid, one, all_of_it = captured(small, prepared)
    prepares = outside(all_of_it, pid) - outside(one, pid)
    found, expected = sums(queries(one, pid)), sums(queries(all_of_it, pid))
    assert prepares > 0
    assert sum(n for n, _ in found.values()) == prepares + sum(n for n, _ in expected.values())


def altered(change: Callable[[layout.Sample], None], monkeypatch: pytest.MonkeyPatch) -> None:
    """Let calibration see other structures than there are."""
    add = Calibration.add

    def look(self: Calibration, sample: layout.Sample, realtime_ns: int) -> None:
        change(sample)
        add(self, sample, realtime_ns)

    monkeypatch.setattr(Calibration, "add", look)


def longs(sample: layout.Sample) -> list[int]:
    return list(struct.unpack(f"<{layout.ENTRY // 8}Q", bytes(sample.entry)))


def hide_id(sample: layout.Sample) -> None:
    """No id is anywhere."""
    kept = [0 if long >> 56 not in {0, 0x7F} else long for long in longs(sample)]
    sample.entry[:] = list(struct.pack(f"<{len(kept)}Q", *kept))


def double_all(sample: layout.Sample) -> None:
    """Each field but the pid is there twice."""
    head, half = list(sample.entry)[:16], list(sample.entry)[16 : 16 + layout.ENTRY // 2]
    sample.entry[:] = (head + half * 2)[: layout.ENTRY]


def hide_all(sample: layout.Sample) -> None:
    """Something changes, but nothing that is looked for."""
    sample.entry[:] = [sample.ns & 0xFF] * layout.ENTRY


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (hide_id, "st_query_id was found at no place"),
        (double_all, "st_state was found at two places or more"),
        (hide_all, "st_procpid was found at no place"),
    ],
)
def test_calibration_that_fails(
    server: Server,
    change: Callable[[layout.Sample], None],
    said: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Statements are told by their texts then, and it is said that there are no ids, and why."""
    altered(change, monkeypatch)
    small = server(compute_query_id="on", **SMALL)
    pid, one, all_of_it = captured(small, simple, extended)
    assert any(said in each for each in one.probes.not_measured), one.probes.not_measured
    assert all(each.startswith("query ids: ") for each in one.probes.not_measured)
    assert {query.query_id for query in queries(one, pid)} == {None}
    assert sums(queries(one, pid)) == sums(queries(all_of_it, pid))


def entry_of(pid: int) -> int:
    where = binary.variable_address(pid, "MyBEEntry")
    return int.from_bytes(binary.read_memory(pid, where, 8), "little")


def write_memory(pid: int, address: int, value: bytes) -> None:
    with Path(f"/proc/{pid}/mem").open("r+b", buffering=0) as memory:
        memory.seek(address)
        memory.write(value)


def has_read(tracer: Tracer, pid: int) -> bool:
    """Whether a scan of the table is over, of which no statement is known."""
    read = outside(tracer.capture(), pid)
    time.sleep(0.3)
    return read > 1000 and read == outside(tracer.capture(), pid) and state_of(pid) == "S"


def test_a_backend_whose_entry_is_being_changed(server: Server) -> None:
    """As it would be if it were read in the midst of a change: what it reads then is outside, and
    said.
    """
    small = server(compute_query_id="on", **SMALL)
    with small.connect() as connection, small.connect() as other:
        pid = connection.info.backend_pid
        entry = entry_of(pid)
        with trace(small.postmaster_pid, probe_type=PROBE_TYPE, queries="light") as tracer:
            calibrate(tracer, other)
            connection.execute("select count(*) from tbl_cost_align")
            before = queries(tracer.capture(), pid)
            asked = b"select count(*), pg_sleep(600) from (select pg_sleep(2)) s, tbl_cost_align"
            connection.pgconn.send_query(asked)
            event = "select wait_event from pg_stat_activity where pid = %s"
            wait_for(lambda: other.execute(event, [pid]).fetchone() == ("PgSleep",))
            (changes,) = struct.unpack("<I", binary.read_memory(pid, entry, 4))
            write_memory(pid, entry, struct.pack("<I", changes | 1))
            try:  # who asks pg_stat_activity now waits for the change to be over, for ever
                wait_for(lambda: has_read(tracer, pid))
            finally:
                write_memory(pid, entry, struct.pack("<I", changes))
            connection.cancel()
            connection.pgconn.get_result()
            connection.pgconn.get_result()
        taken = tracer.capture()
    (missing,) = taken.probes.not_measured
    assert missing.startswith("the statements of some reads: ")
    assert outside(taken, pid) > 1000
    (before,) = sums(before)["select count(*) from tbl_cost_align"][:1]
    found = sums(queries(taken, pid))
    assert found.pop("select count(*) from tbl_cost_align")[0] == before
    planned = sum(count for count, _ in found.values())
    assert planned < 200


def end_in_a_query(server: PrivateCluster, other: Connection) -> None:
    ended = server.connect()
    pid = ended.info.backend_pid
    ended.pgconn.send_query(b"select pg_sleep(60)")
    active = "select state = 'active' from pg_stat_activity where pid = %s"
    wait_for(lambda: other.execute(active, [pid]).fetchone() == (True,))
    other.execute("select pg_terminate_backend(%s)", [pid])
    wait_until_gone(pid)
    ended.close()


def test_who_takes_the_place_of_one_that_was_ended_in_a_query_ran_nothing_of_it(
    server: Server,
) -> None:
    """Its entry says what that ran until it is written to for the first time; by then it has read
    the catalog.
    """
    small, came = server(compute_query_id="on", **SMALL), list[int]()
    with (
        small.connect() as other,
        trace(small.postmaster_pid, probe_type=PROBE_TYPE, queries="light") as tracer,
    ):
        calibrate(tracer, other)
        for _ in range(3):
            end_in_a_query(small, other)
            with small.connect() as next_one:
                next_one.execute("select count(*) from tbl_cost_align")
                came.append(next_one.info.backend_pid)
    taken = tracer.capture()
    for pid in came:
        ran = [query for query in queries(taken, pid) if query.io]
        assert [query.text for query in ran] == ["select count(*) from tbl_cost_align"]
        assert outside(taken, pid) > 0


@pytest.mark.parametrize("clients", [2, 50])
def test_a_server_under_full_load_is_soon_known(
    server: Server, tmp_path: Path, clients: int
) -> None:
    """Its backends report faster than anybody can look at."""
    small = server(compute_query_id="on", max_connections=80, **SMALL)
    file, script = tmp_path / "a.json", tmp_path / "script"
    script.write_text("select 1;\n")
    options = "-n", "-M", "prepared", "-T", "600", "-c", f"{clients}", "-f", "-"
    pgbench = small.command("pgbench", *options)  # its root may not be ours
    with (
        script.open() as stdin,
        Child(*pgbench, stdin=stdin) as load_of_it,
        small.connect() as connection,
    ):
        with Pgtrace("capture", small.postmaster_pid, "--probe", PROBE_TYPE, "-o", file) as started:
            started.attached()
            for _ in range(20):
                simple(connection)
                time.sleep(0.1)
            ended = started.stop()
        pid = connection.info.backend_pid
        assert load_of_it.code is None, load_of_it.err
    assert ended.code == 0, ended
    taken = load(file)
    assert taken.probes.not_measured == []
    assert {query.query_id for query in queries(taken, pid) if query.io} - {None}


def test_a_server_that_reports_no_activities(server: Server, tmp_path: Path) -> None:
    """With track_activities = off there is the text, and nothing else: no probe waits for more."""
    small = server(compute_query_id="on", track_activities=False, **SMALL)
    script = tmp_path / "script"
    script.write_text("select 1;\n")
    pgbench = small.command("pgbench", "-n", "-T", "600", "-c", "16", "-f", "-")
    with small.connect() as connection:
        pid = connection.info.backend_pid
        with both(small.postmaster_pid) as (light, full):
            simple(connection)
            binaries = light_of(light)._binaries.values()
            assert any(each.links for each in binaries)
            with script.open() as stdin, Child(*pgbench, stdin=stdin):
                wait_for(lambda: not any(each.links for each in binaries), 3 * WITHIN_S)
            extended(connection)
        one, all_of_it = light.capture(), full.capture()
    (missing,) = one.probes.not_measured
    assert missing.startswith("query ids: ") and "track_activities = off" in missing
    assert sums(queries(one, pid)) == sums(queries(all_of_it, pid))
    assert {query.query_id for query in queries(one, pid)} == {None}


def blocks_of(query: Query, *, start: bool) -> int:
    """What its workers read as they started, of files that are no relation's, or all else."""
    own = [e for e in query.io if (e.performed_by, e.kind) == ("parallel worker", "other")]
    return sum(each.count for each in query.io if (each in own) == start)


def parallel(connection: Connection) -> None:
    for _ in range(4):
        connection.execute("select count(*), max(info) from tbl_cost_align")


@pytest.mark.parametrize("ids", ["on", "off"], indirect=True)
def test_parallel_workers_read_for_their_leaders_statement(server: Server, ids: str) -> None:
    small = server(
        compute_query_id=ids,
        max_parallel_workers_per_gather=2,
        parallel_setup_cost=0,
        parallel_tuple_cost=0,
        min_parallel_table_scan_size=0,
        **SMALL,
    )
    pid, one, all_of_it = captured(small, parallel)
    (query,), (known,) = ([q for q in queries(of, pid) if q.io] for of in (one, all_of_it))
    assert blocks_of(query, start=False) == blocks_of(known, start=False) > 1000
    # A worker that starts when all has been read, as on a busy host, shows no statement
    assert blocks_of(query, start=True) <= blocks_of(known, start=True)
    assert one.totals["read"].count == all_of_it.totals["read"].count
    performers = Counter[str]()
    for each in query.io:
        performers[each.performed_by] += each.count
    assert performers["parallel worker"] > 100
    assert "parallel worker" not in {backend.backend_type for backend in one.backends}


def writes(connection: Connection) -> None:
    connection.execute("create table if not exists written (id int, filler text)")
    for i in range(3):
        connection.execute(
            f"insert into written select i + {i}, repeat('x', 200) from generate_series(1, 5000) i"
        )
    connection.execute("update written set id = id + 1")
    connection.execute("drop table written")


@pytest.mark.parametrize("operation", ["read", "write", "fsync"])
def test_writes_and_fsyncs_of_statements(server: Server, ids: str, operation: Operation) -> None:
    small = server(compute_query_id=ids, synchronous_commit=True, **(SMALL | {"fsync": True}))
    asked: tuple[Operation, ...] = ("read", "write", "fsync")
    pid, one, all_of_it = captured(small, writes, operations=asked)
    found = sums(queries(one, pid), operation)
    assert found == sums(queries(all_of_it, pid), operation)
    assert found


def test_no_trap_is_left_in_the_server(disk_directory: Path) -> None:
    """Not one of the functions in which the full tier waits has a breakpoint. The program's file
    is its own, so that no other tracer's are there.
    """
    with without(disk_directory, notes=True) as small, small.connect() as connection:
        pid = connection.info.backend_pid
        places = [
            binary.variable_address(pid, name)
            for name in ("pgstat_report_activity", "AbortCurrentTransaction")
        ]

        def traps() -> list[bool]:
            return [b"\xcc" in binary.read_memory(pid, place, 32) for place in places]

        before = traps()
        with trace(small.postmaster_pid, probe_type=PROBE_TYPE, queries="light") as tracer:
            begun = traps()
            calibrate(tracer, connection)
            connection.execute("select count(*) from tbl_cost_align")
            assert traps() == before
        with trace(small.postmaster_pid, probe_type=PROBE_TYPE, queries="full"):
            connection.execute("select 1")
            assert traps() != before
    assert begun != before


def test_a_server_that_is_started_again(disk_directory: Path) -> None:
    """What lies where is known of its program; the addresses are found anew."""
    settings = SETTINGS | SMALL | {"compute_query_id": "on"}
    with CopiedCluster(
        settings, table=True, bindir=bindir(PG_VERSION), directory=disk_directory
    ) as own:
        with trace(own.postmaster_pid, probe_type=PROBE_TYPE, queries="light") as tracer:
            with own.connect() as connection:
                calibrate(tracer, connection)
            own.restart()
            end = time.monotonic() + WITHIN_S
            while tracer.registry.servers.all()[0].postmaster_pid != own.postmaster_pid:
                assert time.monotonic() < end
                time.sleep(0.05)
            with own.connect() as connection:
                pid = connection.info.backend_pid
                connection.execute("select count(*) from tbl_cost_align")
        taken = tracer.capture()
    (query,) = (each for each in queries(taken, pid) if "tbl_cost_align" in (each.text or ""))
    assert query.query_id is not None
    assert sum(each.count for each in query.io) > 1000


def test_of_one_backend(small: PrivateCluster, ids: str) -> None:
    """No other backend has a probe for it, nor is anything known of it."""
    with small.connect() as connection, small.connect() as other:
        pid = connection.info.backend_pid
        with both(pid) as (light, full):
            calibrate(light, connection)
            simple(connection)
            simple(other)
        one, all_of_it = light.capture(), full.capture()
    assert [backend.pid for backend in one.backends] == [pid]
    assert sums(queries(one, pid)) == sums(queries(all_of_it, pid))
    assert any(query.query_id for query in queries(one, pid)) == (ids == "on")


def test_more_statements_than_there_is_room_for(server: Server) -> None:
    """Their reads are counted, and how many have no statement is said."""
    small = server(**SMALL)
    with small.connect() as connection:
        pid = connection.info.backend_pid
        with trace(
            small.postmaster_pid, probe_type=PROBE_TYPE, queries="light", most_statements=2
        ) as tracer:
            for i in range(5):
                connection.execute(f"select count(*) as column_{i} from tbl_cost_align")
        taken = tracer.capture()
    (rest,) = (query for query in queries(taken, pid) if query.text is None)
    assert taken.lost.statements == sum(each.count for each in rest.io) > 1000
    assert taken.totals["read"].count == sums_of(taken.backends)["read"].count


def test_commands(server: Server, tmp_path: Path) -> None:
    """Each says which tier it is, what the other would add, and nothing of what is not known."""
    small = server(compute_query_id="on", **SMALL)
    file = tmp_path / "light.json"
    light = ("--queries", "light", "--probe", PROBE_TYPE)
    with small.connect() as connection:
        pid = connection.info.backend_pid
        with Pgtrace("capture", small.postmaster_pid, *light, "-o", file) as tracer:
            tracer.attached()
            connection.execute("select count(*) as of_capture from tbl_cost_align")
            assert tracer.stop().code == 0
        with Pgtrace("attach", pid, *light) as tracer:
            tracer.attached()
            connection.execute("select count(*) as of_attach from tbl_cost_align")
            attached = tracer.stop()
        with Pgtrace("attach", pid, *light, "--json", "--duration", 1) as tracer:
            while tracer.process.poll() is None:
                connection.execute("select count(*) as of_attach from tbl_cost_align")
            lines = tracer.ended().out.splitlines()
    page = run("report", file, "--format", "html").out
    text = run("report", file).out
    for report in text, page:
        assert "of_capture" in report
        assert "--queries full adds them" in " ".join(report.split())
    assert re.search(r" \?  +select count\(\*\) as of_capture", text), "no time per call"
    assert " calls" not in attached.out.replace("its calls", "")
    for report in text, attached.out:
        assert "latency p50" not in report
    assert "of_attach" in attached.out
    assert "0 queries" not in attached.out
    one, summary = map(json.loads, lines)
    assert "of_attach" in one["text"]
    assert one["calls"] is one["latency"] is summary["summary"]["queries"] is None


@pytest.mark.parametrize("name", ["MyBEEntry", "debug_query_string"])
def test_a_binary_that_does_not_export_what_is_looked_at(
    disk_directory: Path, tmp_path: Path, name: str
) -> None:
    """Queries are not measured, and it is said why; nobody who did not ask for that gets it."""
    file = tmp_path / "a.json"
    with without(disk_directory, notes=True, lacking=[name]) as own, own.connect() as connection:
        with trace(own.postmaster_pid, probe_type=PROBE_TYPE, queries="light") as tracer:
            connection.execute("select count(*) from tbl_cost_align")
        taken = tracer.capture()
        arguments = ("capture", own.postmaster_pid, "--probe", PROBE_TYPE, "-o", file)
        with Pgtrace(*arguments) as by_itself:
            by_itself.attached()
            connection.execute("select count(*) from tbl_cost_align")
            assert by_itself.stop().code == 0
    said = f"queries: a server's binary does not export {name}"
    assert (taken.probes.queries, taken.probes.not_measured) == ("none", [said])
    assert taken.totals["read"].count > 1000
    assert load(file).probes.queries == "usdt"


def test_a_server_that_shows_nothing_costs_the_queries_of_others_no_probe(
    server: Server, disk_directory: Path
) -> None:
    """Anybody may run such a one on a host on which all servers are traced."""
    other = server(**SMALL)
    with without(disk_directory, notes=True, lacking=["MyBEEntry"]) as hidden:
        servers = [discovery.server(each.postmaster_pid) for each in (hidden, other)]
        target = Target.of_servers(servers)
        assert target.tier() == "light"
        tracer = Tracer(target, TraceOptions(probe_type=PROBE_TYPE, queries="light"))
        try:
            for each in hidden, other:
                with each.connect() as connection:
                    for _ in range(3):
                        connection.execute("select count(*) from tbl_cost_align")
        finally:
            taken = tracer.stop()
    assert taken.probes.queries == "memory"
    assert "queries: a server's binary does not export MyBEEntry" in taken.probes.not_measured
    told = [query for backend in taken.backends for query in backend.queries if query.text]
    assert sum(io.count for query in told for io in query.io) > 1000


@pytest.mark.parametrize(("whole", "way"), [(True, "memory"), (False, "usdt")])
def test_what_is_taken_where_nothing_is_asked_for(
    cluster: PrivateCluster, tmp_path: Path, whole: bool, way: str
) -> None:
    """A whole server has to bear what probes cost with every query of all its backends."""
    file = tmp_path / "a.json"

    def taken(*options: str) -> Capture:
        asked = ("--probe", PROBE_TYPE, "--duration", 0.5, "-o", file, "--force", *options)
        assert run("capture", pid, *asked).code == 0
        return load(file)

    with cluster.connect() as connection:
        pid = cluster.postmaster_pid if whole else connection.info.backend_pid
        by_itself, asked = taken(), taken("--time" if whole else "--no-time")
    assert (by_itself.probes.queries, by_itself.probes.times) == (way, not whole)
    assert (asked.probes.queries, asked.probes.times) == (way, whole)
