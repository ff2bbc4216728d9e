"""Where the time of whole loads goes: the WAL's device, locks, temporary files, background
processes; and what is said where it cannot be measured.
"""

import re
import socket
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import psycopg
import pytest
from test_no_usdt import without

from child import state_of, wait_for
from copied_cluster import CopiedCluster
from fix_cluster import SEQUENTIAL, SETTINGS, bindir, explain_buffers, make_cold
from fix_markers import PG_VERSION
from fix_storage import Simulated, SimulatedSsd
from pgtrace.engines import OPERATIONS, layout
from pgtrace.engines.libbpf_engine import LibbpfEngine
from pgtrace.lab.core.page_cache import evict, residency
from pgtrace.lab.core.private_cluster import PrivateCluster
from pgtrace.libbpf.objects import Object
from pgtrace.model.capture import Capture, IntervalTime, Time, of_operation
from pgtrace.model.since import since
from pgtrace.postgres import wait_events
from pgtrace.postgres.wait_events import WaitEvent
from pgtrace.reporters.sections.time_parts import is_idle
from pgtrace.reporters.terminal.capture_report import render
from pgtrace.tracing.tracer import trace
from scans import ATTEMPTS
from time_watch import MS, PROBE_TYPE, counting, kind_of, watching

SLOW_US = 2000
LASTING = SETTINGS | {"fsync": True, "synchronous_commit": True, "shared_buffers": "2MB"}
COMMITS = 20


@pytest.fixture(scope="module")
def device(simulated: Simulated) -> SimulatedSsd:
    return simulated(SLOW_US)


@pytest.fixture(scope="module")
def slow(device: SimulatedSsd) -> Iterator[PrivateCluster]:
    with slow_server(device, bindir(PG_VERSION)) as server:
        yield server


@contextmanager
def slow_server(device: SimulatedSsd, programs: Path) -> Iterator[PrivateCluster]:
    """A server all of whose files are on a device with 2 ms for each request."""
    with CopiedCluster(
        LASTING | {"autovacuum": True, "autovacuum_naptime": 1, "log_autovacuum_min_duration": 0},
        bindir=programs,
        directory=device.directory,
    ) as server:
        with server.connect() as connection:
            connection.execute("create table t (id int primary key, a int) with (fillfactor = 50)")
            connection.execute("insert into t select i, 0 from generate_series(1, 100) i")
            connection.execute("checkpoint")
        yield server


def by_name(times: Sequence[Time]) -> Counter[str]:
    """Nanoseconds by wait event in lower case, which 17 and later write otherwise; and by what
    else the process did."""
    found: Counter[str] = Counter()
    for each in times:
        name = f"{each.wait_event_type}:{each.wait_event}" if each.wait_event else kind_of(each)
        found[name.lower()] += each.total_ns
    return found


def test_a_commit_waits_for_the_device_of_the_wal(slow: PrivateCluster) -> None:
    own = 0
    with watching(slow, operations=OPERATIONS) as watched:
        for _ in range(COMMITS):
            watched.connection.execute("update t set a = a + 1 where id = 7 /* commit */")
            event = watched.query("commit")
            waits = by_name(watched.times(event))
            calls = of_operation(watched.tracer.assembly.reads(event.reads), "fsync")
            called = sum(each.total_ns for each in calls)
            if not called:  # the WAL writer was at it
                continue
            own += 1
            assert SLOW_US * 1000 <= waits["io:walsync"] <= called
            # Beside a hypervisor's other guests it does not run for a part of it
            assert waits["io:walsync"] + waits["run_queue"] + waits["stolen"] >= 0.9 * called
    assert own >= COMMITS / 2


def pgbench(server: PrivateCluster, script: str, clients: int, *options: str) -> None:
    """Run it to its end."""
    command = server.command("pgbench", "-n", "-c", str(clients), *options, "-f", "-")
    subprocess.run(command, input=script, text=True, check=True, capture_output=True)


def of_statement(taken: Capture, text: str) -> tuple[Counter[str], int]:
    """By name, the time of all backends' calls of a statement; and how long these took."""
    assert not taken.lost.times
    found: Counter[str] = Counter()
    elapsed = 0
    for backend in taken.backends:
        for query in backend.queries:
            if text in (query.text or ""):
                own = [each for each in query.times if each.performed_by == "backend"]
                found += by_name(own)
                assert query.latency
                elapsed += query.latency.sum
    return found, elapsed


def test_sessions_that_change_one_row_wait_for_each_other(slow: PrivateCluster) -> None:
    """While one commits, one waits for it, and the others for the right to be next."""
    with trace(slow.postmaster_pid, probe_type=PROBE_TYPE, times=True) as tracer:
        pgbench(slow, "update t set a = a + 1 where id = 7;\n", 8, "-t", "20")
    waits, elapsed = of_statement(tracer.capture(), "update t")
    assert sum(waits.values()) == pytest.approx(elapsed, rel=0.01)
    locks = waits["lock:transactionid"] + waits["lock:tuple"]
    # Eight are at it, one of which holds the row
    assert locks >= 0.5 * elapsed
    assert waits["io:walsync"] >= 8 * 20 * SLOW_US * 1000


def test_sessions_that_commit_wait_for_who_writes_the_wal(slow: PrivateCluster) -> None:
    """Each has rows of its own, so that the one thing that they share is a lightweight lock."""
    script = "update t set a = a + 1 where id = 10 + :client_id;\n"
    with trace(slow.postmaster_pid, probe_type=PROBE_TYPE, times=True) as tracer:
        pgbench(slow, script, 8, "-t", "60")
    waits, elapsed = of_statement(tracer.capture(), "update t")
    assert sum(waits.values()) == pytest.approx(elapsed, rel=0.01)
    on_no_cpu = elapsed - waits["run_queue"] - waits["stolen"]
    assert waits["lwlock:walwrite"] >= 0.3 * on_no_cpu
    assert "lock:transactionid" not in waits


def test_sessions_that_scan_one_table_wait_for_each_others_reads(slow: PrivateCluster) -> None:
    """It is larger than shared_buffers, and what one reads the others want, too."""
    with slow.connect() as connection:
        connection.execute("drop table if exists scanned")
        connection.execute(
            # Autovacuum, where it had heard of the rows by then, would read it once it is cold
            "create table scanned with (autovacuum_enabled = off) as "
            "select repeat('x', 900) from generate_series(1, 8000) i"
        )
        make_cold(slow, connection, "scanned")
        with trace(slow.postmaster_pid, probe_type=PROBE_TYPE, times=True) as tracer:
            pgbench(slow, "select count(*) from scanned;\n", 8, "-t", "1")
    waits, elapsed = of_statement(tracer.capture(), "from scanned")
    assert sum(waits.values()) == pytest.approx(elapsed, rel=0.01)
    # From 18 on it is the request that is waited for, not the buffer. Of those that read at once
    # the kernel lets all but one wait
    others = waits["ipc:bufferio"] + waits["io:aioiocompletion"]
    assert others >= SLOW_US * 1000
    on_no_cpu = elapsed - waits["run_queue"] - waits["stolen"]
    assert others + waits["io:datafileread"] >= 0.3 * on_no_cpu


def test_a_sort_that_does_not_fit_waits_for_its_temporary_files(
    slow: PrivateCluster, device: SimulatedSsd
) -> None:
    """Whose pages have left the page cache by the time when they are read."""
    with watching(slow, operations=OPERATIONS) as watched:
        execute = watched.connection.execute
        execute("set work_mem = '64kB'; set enable_seqscan = on; begin")
        sort = "select i, repeat('x', 100) from generate_series(1, 4000) i order by i % 1000, i"
        execute(f"declare sorted cursor for {sort}")
        with synchronous(device):
            execute("fetch 1 from sorted /* write */")
        waits = by_name(watched.times(event := watched.query("write")))
        calls = of_operation(watched.tracer.assembly.reads(event.reads), "write")
        called = sum(each.total_ns for each in calls if each.kind == "temporary")
        assert SLOW_US * 1000 <= waits["io:buffilewrite"] <= called
        had_none = waits["run_queue"] + waits["stolen"]
        assert waits["io:buffilewrite"] + had_none >= 0.8 * called
        files = [*slow.datadir.glob("base/pgsql_tmp/*")]
        assert files

        def gone() -> bool:
            evict(files)
            return not any(residency(file)[0] for file in files)

        wait_for(gone)
        execute("fetch all from sorted /* read */")
        read = by_name(watched.times(event := watched.query("read")))["io:buffileread"]
        calls = of_operation(watched.tracer.assembly.reads(event.reads))
        called = sum(each.total_ns for each in calls if each.kind == "temporary")
        assert SLOW_US * 1000 <= read <= called
        execute("rollback")


@contextmanager
def synchronous(device: SimulatedSsd) -> Iterator[None]:
    """Whoever writes there waits until it is on the device."""

    def remount(option: str) -> None:
        subprocess.run(["mount", "-o", f"remount,{option}", device.directory], check=True)

    remount("sync")
    try:
        yield
    finally:
        remount("async")


def background(taken: Capture, type_: str) -> Counter[str]:
    """What processes of that type did, of whom one at least lived through the whole session."""
    own = [each for each in taken.backends if each.backend_type == type_]
    assert own, type_
    return sum((by_name(each.times) for each in own), Counter())


def test_background_processes_wait_for_work_or_for_the_device(slow: PrivateCluster) -> None:
    """Autovacuum as its cost delay says, the WAL writer and the checkpointer for the device; the
    time of each that lived all the while adds up to that."""
    with slow.connect() as connection:
        connection.execute("create table vacuumed as select i from generate_series(1, 20000) i")
        connection.execute("alter table vacuumed set (autovacuum_vacuum_cost_delay = 20)")
        connection.execute("alter table vacuumed set (autovacuum_vacuum_cost_limit = 20)")
        with trace(slow.postmaster_pid, probe_type=PROBE_TYPE, times=True) as tracer:
            connection.execute("delete from vacuumed where i % 2 = 0")
            vacuumed = "select autovacuum_count > 0 from pg_stat_user_tables where relname = %s"
            wait_for(lambda: (connection.execute(vacuumed, ["vacuumed"]).fetchone() or (0,))[0])
            connection.execute("set synchronous_commit = off")
            for _ in range(30):  # of which somebody has to write the WAL: the WAL writer
                connection.execute("update t set a = a + 1 where id = 3")
                time.sleep(0.02)
            connection.execute("checkpoint")
            # In one that is taken meanwhile who wakes between two looks at him lacks his last sleep
            taken = tracer.stop()
        connection.execute("drop table vacuumed")
    assert background(taken, "autovacuum worker")["timeout:vacuumdelay"] >= 20 * MS
    assert background(taken, "walwriter")["io:walsync"] >= SLOW_US * 1000
    assert background(taken, "checkpointer")["io:datafilesync"] >= SLOW_US * 1000
    for type_, idle in (
        ("walwriter", "activity:walwritermain"),
        ("checkpointer", "activity:checkpointermain"),
        ("background writer", "activity:bgwriter"),
        ("autovacuum launcher", "activity:autovacuummain"),
    ):
        waits = background(taken, type_)
        assert sum(waits.values()) == pytest.approx(taken.duration_s * 1e9, rel=0.01), type_
        assert max(waits, key=lambda name: waits[name]).startswith(idle)
    every = [each for backend in taken.backends for each in backend.times]
    assert all(is_idle(each) for each in every if each.wait_event_type == "Activity")


def test_each_second_has_its_part_of_a_wait_that_lasts_longer(cluster: PrivateCluster) -> None:
    """And all of them together have what the backends have."""
    with cluster.connect() as connection:
        connection.execute("checkpoint")  # one that is under way waits for timeouts, too
        with trace(cluster.postmaster_pid, probe_type=PROBE_TYPE, times=True) as tracer:
            connection.execute("select pg_sleep(3.5)")
            connection.execute(counting(500_000))
    taken = tracer.capture()
    slept = [
        (each.total_ns, (interval.length or 0) * 1e9)
        for interval in taken.intervals
        for each in interval.times
        if each.wait_event_type == "Timeout"
    ]
    assert len(slept) >= 3
    for ns, length in slept[1:-1]:
        assert ns == pytest.approx(length, rel=0.02), slept
    whole: Counter[str] = Counter()
    for backend in taken.backends:
        whole += by_class(each for each in backend.times if not is_idle(each))
    found = sum((by_class(interval.times) for interval in taken.intervals), Counter[str]())
    assert set(found) >= {"Timeout", "cpu"}
    for name in {*found, *whole}:
        # What a process was about to do when somebody looked may be told as something else
        assert found[name] == pytest.approx(whole[name], rel=0.02, abs=10 * MS), name


def by_class(times: Iterable[Time | IntervalTime]) -> Counter[str]:
    found: Counter[str] = Counter()
    for each in times:
        found[each.wait_event_type or kind_of(each)] += each.total_ns
    return found


@pytest.mark.parametrize("ids", ["on", "off"])
@pytest.mark.parametrize("longer", [0, 1500])
def test_what_a_statement_took_that_began_and_ended_on_the_cpu_is_its_own(
    cluster: PrivateCluster, ids: str, longer: int
) -> None:
    """In the light tier, where it was seen when it read; also if its text is cut, or has no id."""
    series = "(select count(*) from generate_series(1, 5000))"
    query = f"select length(pg_read_binary_file('global/pg_control')), {series}"
    with cluster.connect() as connection:
        connection.execute(f"set compute_query_id = {ids}")
        with trace(
            cluster.postmaster_pid, probe_type=PROBE_TYPE, times=True, queries="light"
        ) as tracer:

            def execute(times: int) -> Capture:
                for _ in range(times):
                    connection.execute(f"{query} /* {'x' * longer} */")
                    time.sleep(0.002)
                return tracer.capture()

            # By the first it is found out where the server keeps what it runs
            found = since(earlier=execute(10), later=execute(40))
        pid = connection.info.backend_pid
    (backend,) = [each for each in found.backends if each.pid == pid]
    (read,) = [each for each in backend.queries if "pg_read_binary_file" in (each.text or "")]
    assert cpu_ns(read.times) >= 0.95 * cpu_ns(backend.times)


def cpu_ns(times: Iterable[Time]) -> int:
    return sum(each.total_ns for each in times if each.kind == "cpu")


def test_who_loses_its_cpu_while_it_tells_what_it_runs_is_no_loss(cluster: PrivateCluster) -> None:
    options = ("-n", "-c", "8", "-j", "2", "-T", "3", "-f", "-")
    command = cluster.command("pgbench", *options)
    with trace(
        cluster.postmaster_pid, probe_type=PROBE_TYPE, times=True, queries="light"
    ) as tracer:
        subprocess.run(command, input="select 1;", text=True, check=True, capture_output=True)
    assert tracer.capture().probes.not_measured == []


def refusing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the kernel be asked for a tracepoint that it does not have in the place of the switch."""
    attach = Object.attach_raw_tracepoint

    def another(self: Object, program: str, name: str) -> None:
        attach(self, program, "no_such_switch" if name == "sched_switch" else name)

    monkeypatch.setattr(Object, "attach_raw_tracepoint", another)


def test_where_the_switch_is_refused_all_else_is_measured(
    cluster: PrivateCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    with cluster.connect() as connection:
        pid = connection.info.backend_pid
        explain_buffers(connection, SEQUENTIAL)

        def measured() -> tuple[Capture, int]:
            make_cold(cluster, connection)
            with trace(pid, probe_type=PROBE_TYPE, times=True) as tracer:
                found = explain_buffers(connection, SEQUENTIAL)
            return tracer.capture(), found.read + found.planning_read

        whole, _ = measured()
        refusing(monkeypatch)
        without_times, blocks = measured()
    assert whole.probes.times
    assert whole.backends[0].queries[0].times
    assert not without_times.probes.times
    (reason,) = without_times.probes.not_measured
    assert reason.startswith("where the time of queries goes: ")
    assert "sched_switch" in reason
    (query,) = without_times.backends[0].queries
    assert query.text
    assert (query.calls, query.errors) == (1, 0)
    assert query.latency
    assert sum(each.blocks for each in of_operation(query.io)) == blocks > 0
    assert query.times == without_times.backends[0].times == []
    text = " ".join(render(without_times).split())
    assert "where the time of queries goes" in text
    assert "Not measured: writes, fsync, locks, CPU." in text


def test_a_server_without_the_variable_has_the_states_of_its_processes(
    disk_directory: Path,
) -> None:
    """As a build that exports less has none."""
    with (
        without(disk_directory, notes=True, lacking={"my_wait_event_info"}) as server,
        watching(server) as watched,
    ):
        watched.connection.execute("select pg_sleep(0.2)")
        waits = by_name(watched.times(watched.query("pg_sleep")))
        not_measured = [*watched.tracer.not_measured]
    assert waits["kernel:interruptible sleep"] >= 200 * MS
    assert {name for name in waits if ":" in name} <= {
        "kernel:interruptible sleep", "kernel:uninterruptible sleep"
    }  # fmt: skip
    assert [each for each in not_measured if each.startswith("wait events: ")]


@pytest.mark.pg(">= 17")
def test_an_event_of_an_extension_has_its_class_and_number(cluster: PrivateCluster) -> None:
    """What it is called only the server knows. Here dblink waits for who never answers."""
    with watching(cluster) as watched, socket.create_server(("127.0.0.1", 0)) as silent:
        watched.connection.execute("create extension if not exists dblink")
        watched.connection.execute("set statement_timeout = 2000")
        where = f"host=127.0.0.1 port={silent.getsockname()[1]} user=nobody password=none"
        with pytest.raises(psycopg.errors.QueryCanceled):
            watched.connection.execute(f"select dblink_connect('{where}')")
        waits = watched.waits(watched.query("dblink_connect"))
    (name,) = (name for name in waits if name.startswith("Extension:"))
    assert re.fullmatch(r"Extension:event \d+", name)
    assert waits[name] >= 300 * MS


def test_an_event_that_nobody_knows_has_its_class_and_number(
    cluster: PrivateCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As of a minor release that is newer than the tables."""
    known = wait_events._events

    def without_pg_sleep(major: int) -> dict[int, WaitEvent]:
        return {info: each for info, each in known(major).items() if each.event != "PgSleep"}

    monkeypatch.setattr(wait_events, "_events", without_pg_sleep)
    with watching(cluster) as watched:
        watched.connection.execute("select pg_sleep(0.2)")
        waits = watched.waits(watched.query("pg_sleep"))
    (name,) = (name for name in waits if name.startswith("Timeout:"))
    assert re.fullmatch(r"Timeout:event \d+", name)
    assert waits[name] >= 200 * MS


@pytest.mark.parametrize(
    "leaving, clock_ns",
    [(True, None), (False, None), (False, 0), (False, 10_000 * MS), (False, -10_000 * MS)],
    ids=["away from it", "to it", "to it, without a clock", "to it, ahead", "to it, behind"],
)
def test_a_switch_that_no_program_saw_is_no_time_on_a_cpu(
    cluster: PrivateCluster, leaving: bool, clock_ns: int | None
) -> None:
    """The backend is left alone while it wakes, or falls asleep, as if the switch had passed by.
    When it woke, the kernel has noted, by a clock that may be off, or not to be had; what it slept
    for, when it was not seen to, nobody has. All of its time is counted once in any case.
    """
    sleep = "perform pg_sleep(1); "
    # Not a large series, which waits for a file now and then
    count = "for number in 1..20000000 loop end loop; "
    # It runs for longer than a busy host takes for two looks at it
    work = (sleep + count) * 2 if leaving else sleep + count * 4
    with watching(cluster) as watched, cluster.connect() as looker:
        engine = watched.tracer.engine
        assert isinstance(engine, LibbpfEngine)

        def shows(wait_event: str | None) -> bool:
            found = looker.execute(
                "select wait_event from pg_stat_activity where pid = %s and state = 'active'",
                [watched.pid],
            ).fetchone()
            return bool(found) and found[0] == wait_event

        def sleeps() -> bool:
            """It shows what for a while before, and may wait for a CPU in between."""
            return shows("PgSleep") and state_of(watched.pid) == "S"

        def left_alone() -> bool:
            """While it runs; not while it waits for a CPU, else its coming there is not seen."""
            engine._tasks._set_ignored(0, 1)
            times = engine._tasks.read(engine._tasks._serials[0]).times
            if not leaving or times.in_ns > times.out_ns:
                return True
            engine._tasks._set_ignored(0, 0)
            return False

        def in_time(text: str) -> bool:
            """Whether the host was not so busy that it was left alone for too long."""
            thread = threading.Thread(target=watched.connection.execute, args=[text])
            thread.start()

            def until(look: Callable[[], bool]) -> None:
                wait_for(lambda: look() or not thread.is_alive())

            until(sleeps)
            if leaving:
                until(lambda: shows(None))
            until(left_alone)
            left = time.monotonic()
            if clock_ns is not None:
                _set_clock(engine, clock_ns)
            until(sleeps if leaving else lambda: shows(None))
            engine._tasks._set_ignored(0, 0)
            alone_s = time.monotonic() - left
            found = shows("PgSleep" if leaving else None)
            thread.join()
            # What it did on a CPU meanwhile, or waited for one, is in its sleep
            most_s = 0.9 if leaving else 1.09
            return found and (alone_s < most_s or clock_ns in (0, 10_000 * MS))

        for number in range(ATTEMPTS):
            if in_time(f"do $$ begin {work} end $$ /* attempt {number} */"):
                break
        else:
            pytest.fail("the host is so busy that it was left alone for too long each time")
        waits = watched.waits(watched.query(f"attempt {number}"))
    slept, unknown = waits.get("Timeout:PgSleep", 0), waits.get("Kernel:other sleep", 0)
    if leaving:
        # If it has not left its CPU meanwhile, the sleep before was not counted yet
        assert unknown >= 1000 * MS
        assert 2000 * MS <= slept + unknown <= 3000 * MS
    elif clock_ns == -10_000 * MS:
        assert slept <= 1100 * MS
    else:
        assert slept >= 1000 * MS
        assert clock_ns is not None or slept <= 1100 * MS
    assert waits["cpu"] > 0


def _set_clock(engine: LibbpfEngine, ahead_ns: int) -> None:
    """So much it seems to be ahead, of the first task; 0: it is not known."""
    tasks = engine._tasks
    known = tasks.read(tasks._serials[0]).times.clock_ns
    at = layout.Task.times.offset + layout.Times.clock_ns.offset
    value = (known + ahead_ns) % 2**64 if ahead_ns else 0
    tasks._memory[at : at + 8] = value.to_bytes(8, "little")
