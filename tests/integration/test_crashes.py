"""Servers that end all their processes after the crash of one, and start them anew."""

import os
import re
import signal
import time
from collections.abc import Iterator
from datetime import datetime
from itertools import pairwise
from pathlib import Path

import psycopg
import pytest
from test_queries import PROBE_TYPE

from child import wait_for
from fix_cluster import Server
from pgtrace.engines.libbpf_engine import LibbpfEngine
from pgtrace.files import documents
from pgtrace.lab.core.private_cluster import PrivateCluster
from pgtrace.model.capture import Capture, Gap
from pgtrace.postgres import discovery
from pgtrace.reporters.terminal.capture_report import render
from pgtrace.tracing.options import TraceOptions
from pgtrace.tracing.targets import Target
from pgtrace.tracing.tracer import Tracer, trace
from pgtrace_command import Pgtrace

SETTINGS = {
    "autovacuum": True,
    "log_line_prefix": "%m ",
    "log_timezone": "UTC",
    "restart_after_crash": True,
    "wal_level": "replica",
}
CLOCKS_S = 0.01
"""Times of one clock and of another, which is corrected meanwhile."""
LATE_S = 0.1
"""A process may be kept from its CPU between telling its parent that it ends, which writes that to
the log, and telling all others: see do_exit() in kernel/exit.c."""
TICK_S = 1 / os.sysconf("SC_CLK_TCK")
SYSTEM = {"autovacuum launcher", "background writer", "checkpointer", "walwriter"}
TOLD = re.compile(
    r"^(\S+ \S+) UTC LOG: +(?:"
    r"(?P<crash>.* was terminated by signal)|(?P<ready>database system is ready to accept)"
    r"|(?P<stop>received .* shutdown request))",
    re.MULTILINE,
)


@pytest.fixture
def restless(server: Server) -> Iterator[PrivateCluster]:
    private = server(**SETTINGS)
    wait_for(lambda: ready(private))
    yield private
    if not (private.datadir / "postmaster.pid").exists():
        private.start()
    wait_for(lambda: ready(private))


def ready(server: PrivateCluster) -> bool:
    try:
        server.connect().close()
    except psycopg.OperationalError:
        return False
    return True


def log(server: PrivateCluster, begin: int) -> list[tuple[str, float]]:
    """What happened when, as the server says, from this place of its log on."""
    text = server.log.read_bytes()[begin:].decode()
    return [
        (found.lastgroup or "", datetime.fromisoformat(f"{found[1]}+00:00").timestamp())
        for found in TOLD.finditer(text)
    ]


def pids(server: PrivateCluster) -> dict[str | None, int]:
    return {b.backend_type: b.pid for b in discovery.server(server.postmaster_pid).backends()}


def settled(server: PrivateCluster, *more: str) -> dict[str | None, int]:
    """The same, once all of these have said what they are: a process does some time after it is
    there, and a server lets clients in meanwhile."""
    found: dict[str | None, int] = {}

    def whole() -> bool:
        found.clear()
        found.update(pids(server))
        return found.keys() >= {*SYSTEM, *more}

    wait_for(whole)
    return found


def redone(server: PrivateCluster, begin: int) -> list[float]:
    """When recoveries were over but for their checkpoint, as log() has it."""
    text = server.log.read_bytes()[begin:].decode()
    found = re.findall(r"^(\S+ \S+) UTC LOG: +redo (?:done|is not required)", text, re.MULTILINE)
    return [datetime.fromisoformat(f"{when}+00:00").timestamp() for when in found]


def crash(server: PrivateCluster, backend_type: str) -> float:
    """When it was killed; the server is ready again."""
    before = settled(server)
    killed = time.time()
    os.kill(before[backend_type], signal.SIGKILL)

    def anew() -> bool:
        now = pids(server)
        return set(now) >= SYSTEM and not any(now[kind] == before[kind] for kind in SYSTEM)

    wait_for(anew)
    wait_for(lambda: ready(server))
    return killed


def crash_of_a_client(server: PrivateCluster) -> float:
    with server.connect() as connection:
        connection.execute("select 1")
        return crash(server, "client backend")


def at(when: str | None) -> float:
    assert when
    return datetime.fromisoformat(when).timestamp()


def assert_in_order(*moments: float) -> None:
    """Each no sooner than the one before."""
    for one, after in pairwise(moments):
        assert one <= after + CLOCKS_S


def times(gaps: list[Gap]) -> list[float]:
    return [moment for gap in gaps for moment in (at(gap.began), at(gap.ended))]


def check_seen(server: PrivateCluster, taken: Capture) -> None:
    """All that run now are told with their types, and that they run."""
    found = {b.pid: b for b in taken.backends if not b.ended}
    now = pids(server)
    assert {kind: found[now[kind]].backend_type for kind in SYSTEM} == {k: k for k in SYSTEM}
    assert len({b.pid for b in taken.backends if not b.ended}) == len(found)


def test_crash_is_a_gap_and_the_new_processes_are_seen(restless: PrivateCluster) -> None:
    begin = restless.log.stat().st_size
    first = settled(restless)
    tracer = Tracer(Target.find(restless.postmaster_pid), TraceOptions(probe_type=PROBE_TYPE))
    try:
        killed = [crash_of_a_client(restless)]
        one = wait_for(lambda: [gap for gap in tracer.capture().gaps if gap.ended])
        between = tracer.capture()
        check_seen(restless, between)
        second = settled(restless)
        # Who was started before the process connector is listened to is known from then on
        wait_for(lambda: tracer.capture() and tracer.registry.servers._adopted)
        killed.append(crash(restless, "background writer"))
        wait_for(lambda: len([gap for gap in tracer.capture().gaps if gap.ended]) == 2)
        check_seen(restless, tracer.capture())
    finally:
        taken = tracer.stop()
    check_seen(restless, taken)
    said = log(restless, begin)
    assert [what for what, _ in said] == ["crash", "ready"] * 2
    # The postmaster, which writes the log, comes to it some time after it has happened
    whens = [when for _, when in said]
    for at_once, began_at, told in zip(killed, times(taken.gaps)[::2], whens[::2], strict=True):
        assert_in_order(at_once, began_at, told + LATE_S)
    over = redone(restless, begin)
    for done, ended_at, told in zip(over, times(taken.gaps)[1::2], whens[1::2], strict=True):
        assert_in_order(done, ended_at, told + LATE_S)
    assert times(taken.gaps) == sorted(times(taken.gaps))
    assert taken.gaps[:1] == one
    assert {gap.data_directory for gap in taken.gaps} == {str(restless.kernel_datadir)}
    assert {gap.reason for gap in taken.gaps} == {"crash"}
    ends = {b.pid: b.ended for b in taken.backends if b.ended}
    assert {known[kind] for known in (first, second) for kind in SYSTEM} <= set(ends)
    began = {b.pid: b.began for b in taken.backends}
    third = pids(restless)
    # The first thing that a postmaster starts once it is ready
    for now, gap, told in zip((second, third), taken.gaps, whens[1::2], strict=True):
        # Of who is found in /proc, and not heard of, it is the end of the tick
        assert_in_order(at(gap.ended), at(began[now["walwriter"]]), told + TICK_S)
    assert "No connections after a crash, from " in render(taken)


def test_crash_that_is_over_when_tracing_ends(restless: PrivateCluster) -> None:
    """However soon after it: nobody is waited for then."""
    tracer = Tracer(Target.find(restless.postmaster_pid), TraceOptions(probe_type=PROBE_TYPE))
    try:
        crash_of_a_client(restless)
    finally:
        taken = tracer.stop()
    (gap,) = taken.gaps
    assert gap.ended
    check_seen(restless, taken)


@pytest.mark.parametrize("mode", ["fast", "immediate"])
def test_server_that_is_stopped_is_no_crash(restless: PrivateCluster, mode: str) -> None:
    """Its processes are ended as in a crash if that has to be immediate. One gap, either way."""
    tracer = Tracer(Target.find(restless.postmaster_pid), TraceOptions(probe_type=PROBE_TYPE))
    try:
        with restless.connect() as connection:
            connection.execute("select 1")
            restless.stop(mode)
        wait_for(lambda: tracer.capture().gaps)
        restless.start()
        settled(restless)
        wait_for(lambda: all(gap.ended for gap in tracer.capture().gaps))
        check_seen(restless, tracer.capture())
    finally:
        taken = tracer.stop()
    assert [gap.reason for gap in taken.gaps] == ["stop"]


def test_a_stop_is_a_gap_from_the_end_of_the_postmaster_on(
    restless: PrivateCluster, tmp_path: Path
) -> None:
    """Also where nothing is done meanwhile, so that the server is seldom looked at."""
    file, started = tmp_path / "captured", list[float]()
    with Pgtrace("capture", "--server", restless.datadir, "-o", file) as capture:
        capture.attached()
        for _ in range(3):
            time.sleep(2)  # until it rests
            restless.restart()
            with restless.connect() as connection:
                (row,) = connection.execute("select pg_postmaster_start_time()")
                started.append(row[0].timestamp())
        time.sleep(2)  # until the last is noticed
        capture.send(signal.SIGINT)
        assert capture.ended().code == 0
    gaps = documents.load(file).gaps
    assert [gap.reason for gap in gaps] == ["stop"] * 3
    for gap, new in zip(gaps, started, strict=True):
        assert at(gap.began) <= new + CLOCKS_S, "its successor starts after its end"
        assert new <= at(gap.ended) + CLOCKS_S


def test_who_ends_by_error_or_is_terminated_has_not_crashed(restless: PrivateCluster) -> None:
    tracer = Tracer(Target.find(restless.postmaster_pid), TraceOptions(probe_type=PROBE_TYPE))
    try:
        with restless.connect() as connection:
            os.kill(connection.info.backend_pid, signal.SIGTERM)
            with pytest.raises(psycopg.OperationalError):
                connection.execute("select 1")
        os.kill(pids(restless)["autovacuum launcher"], signal.SIGTERM)
        with pytest.raises(psycopg.OperationalError):
            restless.connect(dbname="nowhere")
    finally:
        taken = tracer.stop()
    assert taken.gaps == []


def test_logger_that_is_killed_takes_nobody_along(server: Server) -> None:
    collected = server(**SETTINGS, logging_collector=True)
    before = settled(collected, "logger")
    tracer = Tracer(Target.find(collected.postmaster_pid), TraceOptions(probe_type=PROBE_TYPE))
    try:
        os.kill(before["logger"], signal.SIGKILL)
        wait_for(lambda: pids(collected).get("logger") not in (None, before["logger"]))
    finally:
        taken = tracer.stop()
    assert taken.gaps == []
    assert settled(collected)["walwriter"] == before["walwriter"]


@pytest.fixture
def standby(server: Server) -> Iterator[PrivateCluster]:
    """One whose recovery takes longer than a tick of the file system's clock: it makes its files
    durable. It has no walwriter."""
    private = server(**SETTINGS, fsync=True)
    private.stop()
    (private.datadir / "standby.signal").touch()
    private.start()
    wait_for(lambda: ready(private))
    yield private
    private.stop()
    (private.datadir / "standby.signal").unlink()
    private.start()


def crash_of_a_standby(standby: PrivateCluster) -> float:
    """Its startup process does not end. When it was killed."""
    before = pids(standby)
    with standby.connect() as connection:
        killed = time.time()
        os.kill(connection.info.backend_pid, signal.SIGKILL)
        wait_for(lambda: pids(standby).get("checkpointer") not in (None, before["checkpointer"]))
    wait_for(lambda: ready(standby))
    return killed


def test_standby_is_ready_while_it_recovers(standby: PrivateCluster) -> None:
    begin = standby.log.stat().st_size
    tracer = Tracer(Target.find(standby.postmaster_pid), TraceOptions(probe_type=PROBE_TYPE))
    try:
        killed = crash_of_a_standby(standby)
        let_in = time.time()
        wait_for(lambda: [gap for gap in tracer.capture().gaps if gap.ended])
    finally:
        taken = tracer.stop()
    said = log(standby, begin)
    assert [what for what, _ in said][:2] == ["crash", "ready"]
    (gap,) = taken.gaps
    assert_in_order(killed, at(gap.began), said[0][1] + LATE_S)
    # It says so just before it writes it to its file, by which it is seen
    assert_in_order(said[1][1], at(gap.ended), let_in)


def test_standby_is_ready_once_it_lets_a_client_in(standby: PrivateCluster) -> None:
    """Where its file does not tell: its time is that of the last tick, before the recovery."""
    begin = standby.log.stat().st_size
    file = standby.datadir / "postmaster.pid"
    tracer = Tracer(Target.find(standby.postmaster_pid), TraceOptions(probe_type=PROBE_TYPE))
    try:
        crash_of_a_standby(standby)
        wait_for(lambda: "client backend" not in pids(standby))  # ours, by which it was ready
        os.utime(file, (1, 1))  # the server writes no more to it until it is promoted
        (gap,) = wait_for(lambda: tracer.capture().gaps)
        assert gap.ended is None
        asked = time.time()
        with standby.connect() as connection:
            (gap,) = wait_for(lambda: [g for g in tracer.capture().gaps if g.ended])
            (let_in,) = (
                connection.execute(
                    "select extract(epoch from backend_start)::float8 from pg_stat_activity"
                    " where pid = pg_backend_pid()"
                ).fetchone()
                or ()
            )
    finally:
        tracer.stop()
    assert log(standby, begin)[1][0] == "ready"
    # It takes its time only once it has run for a while, on a busy host a tenth of a second later
    assert asked - CLOCKS_S < at(gap.ended) < let_in + CLOCKS_S


def test_once_nobody_is_left_of_the_server_before_other_tasks_are_not_looked_up(
    restless: PrivateCluster,
) -> None:
    """Its children had another parent by their end: until then anybody might be one of them."""
    with trace(restless.postmaster_pid, probe_type=PROBE_TYPE, queries="light") as tracer:
        engine = tracer.engine
        assert isinstance(engine, LibbpfEngine)  # whose memory is let go of, so that none is kept
        restless.restart()
        wait_for(lambda: restless.postmaster_pid in list(engine._live.postmasters))
        wait_for(lambda: not engine._live.orphans)
        with restless.connect() as connection:
            connection.execute("select length(pg_read_binary_file('global/pg_control')) as after")
    texts = [query.text or "" for b in tracer.capture().backends for query in b.queries]
    assert any("after" in text for text in texts)
