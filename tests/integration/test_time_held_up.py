"""Where the time goes of who is held up from outside: stopped, frozen, killed, cancelled, or at a
disadvantage where CPUs are given out.
"""

import contextlib
import ctypes
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import psycopg
import pytest

from child import busy_loop, state_of, stopped, wait_for
from copied_cluster import CopiedCluster
from fix_cluster import SEQUENTIAL, SETTINGS, bindir, data_directory
from fix_markers import PG_VERSION
from pgtrace.lab.core.private_cluster import PrivateCluster
from pgtrace.tracing.tracer import trace
from time_watch import MS, PROBE_TYPE, Watched, counting, kind_of, schedstat, watching

MUCH = "select repeat('x', 1000) from generate_series(1, 300000)"
HELD_S = 0.5
PTRACE_ATTACH, PTRACE_DETACH = 16, 17  # include/uapi/linux/ptrace.h
WALL = 0x40000000  # __WALL, include/uapi/linux/wait.h
GROUPS = Path("/sys/fs/cgroup")
LONG = counting(6_000_000)


@pytest.fixture
def watched(cluster: PrivateCluster) -> Iterator[Watched]:
    with watching(cluster) as found:
        yield found


@contextmanager
def running(watched: Watched, text: str, *, sleeps: bool) -> Iterator[None]:
    """It runs that, and sleeps or not, until the end of the block at least."""

    def go_on() -> None:
        with contextlib.suppress(psycopg.Error):
            watched.connection.execute(text)

    thread = threading.Thread(target=go_on)
    before = schedstat(watched.pid)[0]
    thread.start()
    try:
        if sleeps:
            wait_for(lambda: schedstat(watched.pid)[0] > before and state_of(watched.pid) == "S")
            time.sleep(0.05)
        else:
            wait_for(lambda: schedstat(watched.pid)[0] > before + 20 * MS)
        yield
    finally:
        thread.join()


@contextmanager
def debugged(pid: int) -> Iterator[None]:
    """As by gdb, in whose hands it stands still."""
    libc = ctypes.CDLL(None, use_errno=True)
    libc.ptrace.argtypes = [ctypes.c_long] * 4
    assert libc.ptrace(PTRACE_ATTACH, pid, 0, 0) == 0, os.strerror(ctypes.get_errno())
    try:
        os.waitpid(pid, WALL)
        yield
    finally:
        libc.ptrace(PTRACE_DETACH, pid, 0, 0)


def group(*, v2: bool) -> Path | None:
    """Where control groups that can be frozen are, of this version; None: nowhere."""
    if not v2:
        return GROUPS / "freezer" if (GROUPS / "freezer/tasks").exists() else None
    mounted = (GROUPS, GROUPS / "unified")
    return next((each for each in mounted if (each / "cgroup.controllers").exists()), None)


@contextmanager
def frozen(pid: int, *, v2: bool) -> Iterator[None]:
    """As a container that is paused."""
    parent = group(v2=v2)
    if parent is None:
        pytest.skip("no freezer of this version is mounted")
    own = parent / f"pgtrace-test-{os.getpid()}"
    own.mkdir()
    file, on, off = ("cgroup.freeze", "1", "0") if v2 else ("freezer.state", "FROZEN", "THAWED")
    try:
        (own / "cgroup.procs").write_text(str(pid))
        (own / file).write_text(on)
        told = own / ("cgroup.events" if v2 else file)
        wait_for(lambda: ("frozen 1" if v2 else on) in told.read_text())
        yield
    finally:
        (own / file).write_text(off)
        (parent / "cgroup.procs").write_text(str(pid))
        wait_for(lambda: not (own / "cgroup.procs").read_text())
        own.rmdir()


HOLDS: dict[str, tuple[Callable[[int], AbstractContextManager[None]], str]] = {
    "SIGSTOP": (stopped, "Kernel:stopped by a signal"),
    "ptrace": (debugged, "Kernel:stopped by a debugger"),
    "cgroup v1": (lambda pid: frozen(pid, v2=False), "Kernel:frozen"),
    "cgroup v2": (lambda pid: frozen(pid, v2=True), "Kernel:frozen"),
}


@pytest.mark.parametrize(
    ("text", "sleeps"), [("select pg_sleep(3)", True), (LONG, False)], ids=["asleep", "running"]
)
@pytest.mark.parametrize("how", HOLDS)
def test_who_is_held_up_does_not_wait_for_what_it_shows(
    watched: Watched, how: str, text: str, sleeps: bool
) -> None:
    """It shows its wait event all the while."""
    hold, name = HOLDS[how]
    with running(watched, f"{text} /* held */", sleeps=sleeps):
        began = time.monotonic()
        with hold(watched.pid):
            time.sleep(HELD_S)
        took = time.monotonic() - began
    waits = watched.waits(watched.query("held"))
    assert HELD_S * 1e9 <= waits[name] <= took * 1e9 + 10 * MS
    assert waits.get("Timeout:PgSleep", 0) <= 3.1e9 - waits[name]


def test_who_was_stopped_before_tracing_began_does_not_run(cluster: PrivateCluster) -> None:
    with cluster.connect() as connection:
        pid = connection.info.backend_pid
        with stopped(pid), trace(pid, probe_type=PROBE_TYPE, times=True) as tracer:
            time.sleep(HELD_S)
            taken = tracer.capture()
    (spent,) = taken.backends[0].times
    assert (spent.wait_event_type, spent.wait_event) == ("Kernel", "stopped by a signal")
    assert spent.total_ns >= HELD_S * 1e9


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_who_is_killed_asleep_has_slept_until_then(
    disk_directory: Path, number: signal.Signals
) -> None:
    where = data_directory(PG_VERSION, disk_directory)
    with CopiedCluster(SETTINGS, bindir=bindir(PG_VERSION), directory=where) as server:
        connection = server.connect()
        pid = connection.info.backend_pid
        # After its end a process is busy giving back its memory
        connection.execute("set work_mem = '1GB'")
        connection.execute(f"declare held cursor with hold for {MUCH}")
        with trace(pid, probe_type=PROBE_TYPE, times=True) as tracer:

            def run() -> None:
                with contextlib.suppress(psycopg.Error):
                    connection.execute("select pg_sleep(60)")

            thread = threading.Thread(target=run)
            thread.start()
            wait_for(lambda: tracer.account().running and tracer.account().snapshot.asleep)
            time.sleep(HELD_S)
            killed_ns = time.monotonic_ns()
            os.kill(pid, number)
            thread.join()
            leaving_ns = wait_for(lambda: tracer.account().snapshot.ended_ns) - killed_ns
        (backend,) = tracer.capture().backends
    connection.close()
    (query,) = backend.queries
    assert query.errors == 1
    assert query.latency
    slept = sum(each.total_ns for each in query.times if each.wait_event == "PgSleep")
    assert HELD_S * 1e9 <= slept <= query.latency.sum
    # Whoever is told to end has failed before it has left, which takes longer on a busy host
    whole = sum(each.total_ns for each in query.times)
    assert 0.99 * query.latency.sum <= whole <= 1.01 * query.latency.sum + leaving_ns


@pytest.mark.parametrize("how", ["cancelled", "lock_timeout"])
def test_who_gives_up_a_lock_has_waited_for_it(
    watched: Watched, cluster: PrivateCluster, how: str
) -> None:
    with cluster.connect() as holder:
        holder.execute("create table if not exists given_up as select 1 as a")
        holder.execute("begin")
        holder.execute("lock table given_up")
        began = time.monotonic_ns()
        if how == "lock_timeout":
            watched.connection.execute(f"set lock_timeout = {HELD_S * 1000:.0f}")
            with pytest.raises(psycopg.errors.LockNotAvailable):
                watched.connection.execute("select a from given_up /* this one */")
        else:
            with running(watched, "select a from given_up /* this one */", sleeps=True):
                time.sleep(HELD_S)
                watched.connection.cancel()
        took = time.monotonic_ns() - began  # a busy host lets it give up later
        holder.execute("rollback")
        holder.execute("drop table given_up")
    event = watched.query("this one")
    assert event.error
    assert HELD_S * 0.99e9 <= watched.waits(event)["Lock:relation"] <= took


def nice(pid: int) -> None:
    os.setpriority(os.PRIO_PROCESS, pid, 19)


def idle(pid: int) -> None:
    os.sched_setscheduler(pid, os.SCHED_IDLE, os.sched_param(0))


def first(pid: int) -> None:
    os.sched_setscheduler(pid, os.SCHED_FIFO, os.sched_param(1))


@pytest.mark.parametrize(
    ("gives", "least", "most"),
    [(nice, 0.3, 1.0), (idle, 0.3, 1.0), (first, 0.0, 0.2)],
    ids=["nice 19", "SCHED_IDLE", "SCHED_FIFO"],
)
def test_who_gets_little_of_a_cpu_waits_for_it(
    watched: Watched, gives: Callable[[int], None], least: float, most: float
) -> None:
    """Beside one that wants it all the time. How little depends on their sessions, too: each has
    the same share (sched_autogroup), so the other one needs a session that has nothing else.
    """

    def awake() -> tuple[int, int]:
        """By the kernel, and by what was traced, outside of queries as well."""
        wait_for(lambda: state_of(watched.pid) == "S")  # then neither has anything outstanding
        (backend,) = watched.tracer.capture().backends
        kinds = {"cpu", "run_queue"}
        traced = sum(each.total_ns for each in backend.times if kind_of(each) in kinds)
        return sum(schedstat(watched.pid)), traced

    os.sched_setaffinity(watched.pid, {1})
    gives(watched.pid)
    with busy_loop(1) as busy:
        wait_for(lambda: schedstat(busy.pid)[0] > 50 * MS)
        before = awake()
        watched.connection.execute(f"{counting(2_000_000)} /* little */")
        event = watched.query("little")
        by_kernel, traced = (b - a for a, b in zip(before, awake(), strict=True))
    waits, elapsed = watched.waits(event), event.end_ns - event.start_ns
    assert least * elapsed <= waits.get("run_queue", 0) <= most * elapsed
    assert waits["cpu"] + waits.get("run_queue", 0) <= by_kernel * 1.005
    # On a busy host it waits for a while before it takes the query, too: 20 ms beside 223
    assert traced == pytest.approx(by_kernel, rel=0.01, abs=0.1 * MS)


@contextmanager
def limited(pid: int, share: float) -> Iterator[Path]:
    """In a control group that may have no more of a CPU."""
    v1 = GROUPS / "cpu"
    v2 = group(v2=True)
    parent = v1 if (v1 / "cpu.cfs_quota_us").exists() or (v1 / "tasks").exists() else v2
    if parent is None:
        pytest.skip("no control group for CPUs is mounted")
    own = parent / f"pgtrace-test-{os.getpid()}"
    own.mkdir()
    try:
        if (own / "cpu.max").exists():
            (own / "cpu.max").write_text(f"{int(share * 100_000)} 100000")
        else:
            (own / "cpu.cfs_quota_us").write_text(str(int(share * 100_000)))
        (own / "cgroup.procs").write_text(str(pid))
        yield own
    finally:
        (parent / "cgroup.procs").write_text(str(pid))
        own.rmdir()


def test_who_is_throttled_waits_for_a_cpu(watched: Watched) -> None:
    """For many periods of 100 ms, of which the first and the last are never whole: one of 233 ms
    waited for 159."""
    with limited(watched.pid, 0.2):
        watched.connection.execute(f"{counting(8_000_000)} /* slow */")
        event = watched.query("slow")
    waits, elapsed = watched.waits(event), event.end_ns - event.start_ns
    assert waits["run_queue"] == pytest.approx(0.8 * elapsed, rel=0.1)


@pytest.mark.pg(">= 16")
def test_reads_past_the_page_cache_wait_for_the_device(disk_directory: Path) -> None:
    where = data_directory(PG_VERSION, disk_directory)
    direct = SETTINGS | {"debug_io_direct": "data", "shared_buffers": "2MB"}
    if PG_VERSION >= 18:
        direct |= {"io_method": "sync"}
    with (
        CopiedCluster(direct, table=True, bindir=bindir(PG_VERSION), directory=where) as server,
        watching(server) as watched,
    ):
        watched.connection.execute(f"{SEQUENTIAL} /* direct */")
        event = watched.query("direct")
        io = watched.tracer.assembly.reads(event.reads)
        called = sum(each.total_ns for each in io if each.performed_by == "backend" and each.direct)
        waits = watched.waits(event)
    assert called
    assert 0 < waits["IO:DataFileRead"] <= called
