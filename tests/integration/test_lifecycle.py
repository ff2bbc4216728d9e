"""How tracing begins and ends: what it touches meanwhile, and that nothing is left of it."""

import errno
import os
import platform
import re
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import NoReturn

import pytest

from bpf_left import held_by, leftovers, ours, raised, show
from child import Child
from copied_cluster import CopiedCluster
from fix_cluster import Connection
from fix_markers import PG_VERSION
from pgtrace.engines.libbpf_engine import LibbpfEngine
from pgtrace.lab.core.private_cluster import PrivateCluster, find_bindir
from pgtrace.libbpf.objects import Object
from pgtrace.postgres import binary
from pgtrace.tracing.options import TraceOptions
from pgtrace.tracing.targets import Target
from pgtrace.tracing.tracer import Tracer, trace
from pgtrace_command import PGTRACE, Pgtrace, copy_programs, last_sentence, patched, wait_for

CLIENTS = 5
INT3 = 0xCC
SIZE = 4
"""Bytes of a breakpoint, on any machine."""
PROBES = {
    "statement__status",
    "query__start",
    "query__execute__done",
}


def sites(pid: int) -> dict[str, int]:
    """How often each of our probes is in the code: as often as its semaphore is raised."""
    found = (site.name for site in binary.sites(f"/proc/{pid}/exe"))
    return dict(Counter(name for name in found if name in PROBES))


@pytest.fixture(scope="module")
def cluster(disk_directory: Path) -> Iterator[PrivateCluster]:
    """A server whose programs nobody else traces: semaphores and breakpoints are ours alone."""
    bindir = copy_programs(find_bindir(PG_VERSION), disk_directory / "lifecycle")
    with CopiedCluster(bindir=bindir, directory=disk_directory) as cluster:
        yield cluster


def lowered(pid: int) -> bool:
    """Whether no semaphore is up any more; the kernel takes its time for each probe."""
    return bool(wait_for(lambda: raised(pid) == {}))


@pytest.fixture(autouse=True)
def nothing_left(connection: Connection) -> Iterator[None]:
    """Whatever a test does here: no program, map or link of ours is there when it ends."""
    before = ours()
    yield
    assert lowered(connection.info.backend_pid)
    assert leftovers(before) == {}


@pytest.mark.parametrize(
    ("command", "number"),
    [
        ("attach", signal.SIGINT),
        ("attach", signal.SIGHUP),
        ("capture", signal.SIGINT),
        ("capture", signal.SIGTERM),
    ],
)
def test_first_signal_detaches_and_reports(
    connection: Connection, command: str, number: signal.Signals
) -> None:
    """What was measured is told, and the exit code is that of success."""
    with Pgtrace(command, connection.info.backend_pid, "--probe", "tracepoint") as tracer:
        tracer.attached()
        assert raised(connection.info.backend_pid).keys() == PROBES
        connection.execute("select 'seen'::text as column_of_a_query")
        code, out, err = tracer.stop(number)
    assert code == 0
    assert "column_of_a_query" in out
    assert "Traced" in last_sentence(out) if command == "attach" else "1 " in out
    assert "Traceback" not in err


BEGINS_ONCE_THERE = """
import os, time
from pgtrace.tracing import run_loop
def run(*arguments, true=run_loop.run, **settings):
    while not os.path.exists({there!r}):
        time.sleep(0.01)
    return true(*arguments, **settings)
run_loop.run = run
"""


@pytest.mark.parametrize("command", ["attach", "capture"])
def test_end_after_a_duration(connection: Connection, tmp_path: Path, command: str) -> None:
    """Which begins here once there was a query."""
    asked = tmp_path / "asked"
    late = patched(BEGINS_ONCE_THERE.format(there=str(asked)))
    pid = connection.info.backend_pid
    with Pgtrace(command, pid, "--duration", "0.5", command=late) as tracer:
        tracer.attached()
        connection.execute("select 1 as column_of_a_query")
        asked.touch()
        code, out, _ = tracer.ended()
    assert code == 0
    assert "column_of_a_query" in out


@pytest.mark.parametrize("command", ["attach", "capture"])
def test_kill_leaves_nothing(connection: Connection, command: str) -> None:
    """No code of ours runs then: the kernel takes everything away."""
    pid = connection.info.backend_pid
    before = ours()
    with Pgtrace(command, pid, "--probe", "tracepoint") as tracer:
        tracer.attached()
        assert raised(pid).keys() == PROBES
        assert {key.split()[0] for key in ours().keys() - before.keys()} >= {"prog", "map"}
        assert tracer.stop(signal.SIGKILL).code == -signal.SIGKILL
    assert lowered(pid)
    assert leftovers(before) == {}
    assert connection.execute("select 1").fetchone() == (1,)


SLOW_STOP = """
import time
from pgtrace.tracing.tracer import Tracer, trace

def stop(self, stop=Tracer.stop):
    if not self._finished:
        print("stopping", flush=True)
        time.sleep(600)
    return stop(self)

Tracer.stop = stop
"""


def test_second_signal_leaves_at_once(connection: Connection) -> None:
    """Though the first has not done its work, and whichever of them it is."""
    pid = connection.info.backend_pid
    with Pgtrace("attach", pid, command=patched(SLOW_STOP)) as tracer:
        tracer.attached().send(signal.SIGINT)
        tracer.wait_for("stopping")
        assert tracer.stop(signal.SIGTERM).code == -signal.SIGTERM


STARTED = """
import os, signal
from pgtrace.engines import select

def start(request, start=select.start):
    {before}
    engine = start(request)
    {after}
    return engine

select.start = start
"""
KILL = "os.kill(os.getpid(), signal.{})"


@pytest.mark.parametrize("number", ["SIGINT", "SIGTERM", "SIGHUP"])
@pytest.mark.parametrize("moment", ["before", "after"])
def test_signal_during_the_start(connection: Connection, moment: str, number: str) -> None:
    """Before anything was captured: exit code 130, a line that says so, and no report."""
    lines = {"before": "pass", "after": "pass"} | {moment: KILL.format(number)}
    command = patched(STARTED.format(**lines))
    pid = connection.info.backend_pid
    with Pgtrace("capture", pid, "--probe", "tracepoint", command=command) as tracer:
        assert tracer.ended() == (
            130,
            "",
            "pgtrace: interrupted before anything was captured\n",
        )


def test_ignored_hangup_stays_ignored(connection: Connection) -> None:
    """As nohup has it, which is there so that work goes on after the terminal is gone."""
    pid = connection.info.backend_pid
    with Pgtrace("attach", pid, command=["nohup", *PGTRACE]) as tracer:
        tracer.attached().send(signal.SIGHUP)
        connection.execute("select 1 as column_of_a_query")
        tracer.wait_for("column_of_a_query")
        assert tracer.stop(signal.SIGTERM).code == 0


@contextmanager
def load(cluster: PrivateCluster, mode: str, *options: object) -> Iterator[list[int]]:
    """pgbench's backends, all busy; at the end none of its clients has failed."""
    with (
        cluster.connect() as connection,
        Child(
            cluster.bindir / "pgbench", "-n", "-M", mode, "-c", CLIENTS, "-T", "600",
            *options, "-f", "/dev/stdin", cluster.dsn(), stderr=subprocess.STDOUT,
        ) as pgbench,
    ):  # fmt: skip
        pgbench.say("select count(*) from generate_series(1, 100);")
        pgbench.end_input()

        def clients() -> list[int]:
            rows = connection.execute(
                # Not the one by which it looks at first who the server is, which may be there yet
                "select pid from pg_stat_activity where application_name = 'pgbench' "
                "and query like 'select count(*) from generate_series%' order by pid"
            )
            return [row[0] for row in rows.fetchall()]

        try:
            wait_for(lambda: len(clients()) == CLIENTS)
            before = clients()
            yield before
            assert clients() == before
        finally:
            pgbench.kill()
        assert re.fullmatch(r"pgbench \([^\n]*\)\n", pgbench.ended().out)


@pytest.mark.parametrize(
    ("mode", "watched"),
    [("simple", 1), ("extended", 1), ("prepared", 1), ("simple", CLIENTS), ("extended", CLIENTS)],
)
def test_nothing_is_told_wrong_while_only_some_probes_are_there(
    cluster: PrivateCluster, monkeypatch: pytest.MonkeyPatch, mode: str, watched: int
) -> None:
    """Queries end between two of them; all count from one moment on, and up to one."""

    def attach(
        *arguments: object, true: Callable[..., None] = Object.attach_places, **settings: bool
    ) -> None:
        true(*arguments, **settings)
        time.sleep(0.05)

    monkeypatch.setattr(Object, "attach_places", attach)
    with load(cluster, mode, "-R", 1000) as pids:
        tracer = Tracer(Target.of_pids(pids[:watched]), TraceOptions(probe_type="tracepoint"))

        def counted() -> bool:
            """Of each, a query that began while it was traced."""
            tracer.poll()
            ended = [
                any(not (query.unfinished or query.begun_before) for query in backend.queries)
                for backend in tracer.capture().backends
            ]
            return len(ended) == watched and all(ended)

        for _ in range(10):
            time.sleep(0.02)
            tracer.poll()
        wait_for(counted)
        taken = tracer.stop()
    assert len(taken.backends) == watched
    assert taken.lost.queries == 0
    for backend in taken.backends:
        ended = [query for query in backend.queries if not query.unfinished]
        assert sum(query.errors for query in ended) == 0
        protocols = {query.protocol for query in ended if not query.begun_before}
        assert protocols == {"simple" if mode == "simple" else "extended"}
        longest = max(query.latency.max for query in ended)
        assert 0 < longest <= taken.duration_s * 1e9 + 1e8  # it began as tracing did
        assert len(backend.queries) - len(ended) <= 1


@pytest.mark.parametrize("cycles", [20, pytest.param(100, marks=pytest.mark.long)])
def test_many_cycles_under_load(cluster: PrivateCluster, cycles: int) -> None:
    """Attached and detached at any moment of a query: no client fails, no semaphore stays up."""
    errors = []

    def cycle(pid: int) -> None:
        for _ in range(cycles // CLIENTS):
            (backend,) = (
                Tracer(Target.find(pid), TraceOptions(probe_type="tracepoint")).stop().backends
            )
            errors.append(sum(query.errors for query in backend.queries))

    with load(cluster, "prepared", "-R", 500) as pids:
        with ThreadPoolExecutor(CLIENTS) as pool:
            list(pool.map(cycle, pids))
        assert all(map(lowered, pids))
    assert errors == [0] * cycles


def instructions(pid: int, offsets: dict[str, int]) -> dict[str, bytes]:
    """What a process has in memory where its binary has these offsets."""
    found = {}
    with Path(f"/proc/{pid}/mem").open("rb", buffering=0) as memory:
        for line in Path(f"/proc/{pid}/maps").read_text().splitlines():
            addresses, rights, at, _, _, *name = line.split(maxsplit=5)
            if name != [str(Path(f"/proc/{pid}/exe").readlink())] or "x" not in rights:
                continue
            start, end = (int(address, 16) for address in addresses.split("-"))
            first = int(at, 16)
            for name_, offset in offsets.items():
                if first <= offset < first + end - start:
                    found[name_] = os.pread(memory.fileno(), SIZE, start + offset - first)
    return found


def test_attach_touches_one_process_alone(cluster: PrivateCluster, connection: Connection) -> None:
    """Breakpoints and semaphores are in the watched backend, and in none of its relatives."""
    watched = connection.info.backend_pid
    file = Path(f"/proc/{watched}/exe")
    offsets = {f"{s.name} {s.offset}": s.offset for s in binary.sites(file) if s.name in PROBES}
    abort = binary.symbol_offset(file, "AbortCurrentTransaction")
    assert abort
    offsets["abort"] = abort
    untouched = {name: file.read_bytes()[at : at + SIZE] for name, at in offsets.items()}
    assert len({name.split()[0] for name in untouched}) == len(PROBES) + 1
    with cluster.connect() as other:
        relatives = other.info.backend_pid, cluster.postmaster_pid
        assert instructions(watched, offsets) == untouched
        with Pgtrace("attach", watched, "--probe", "tracepoint") as tracer:
            tracer.attached()
            with cluster.connect() as later:
                for pid in *relatives, later.info.backend_pid:
                    assert instructions(pid, offsets) == untouched
                    assert raised(pid) == {}
            now = instructions(watched, offsets)
            assert {name for name in offsets if now[name] != untouched[name]} == set(offsets)
            if platform.machine() == "x86_64":
                assert {code[0] for code in now.values()} == {INT3}
            assert raised(watched) == sites(watched)
            tracer.stop()
        assert lowered(watched)
        wait_for(lambda: instructions(watched, offsets) == untouched)


def test_two_tracers_end_one_after_the_other(connection: Connection) -> None:
    """The end of one takes nothing from the other: its breakpoints stay, and it counts on."""
    pid = connection.info.backend_pid
    with trace(pid, probe_type="tracepoint") as second:
        with trace(pid, probe_type="tracepoint") as first:
            connection.execute("select 1")
        wait_for(lambda: raised(pid) == sites(pid), instead=lambda: raised(pid))
        connection.execute("select 2, 3")
    one, two = (tracer.capture().backends[0].queries for tracer in (first, second))
    assert [query.text for query in one] == ["select $1"]
    assert {query.text for query in two} == {"select $1", "select $1, $2"}


def test_nothing_is_left_where_there_can_be_no_child(
    connection: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a program that goes on: it lets go by itself, for which the kernel has it wait."""

    def refuse() -> NoReturn:
        raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN))

    before = held_by()
    with (
        trace(connection.info.backend_pid, probe_type="tracepoint") as tracer,
        monkeypatch.context() as patch,
    ):
        assert held_by() > before
        patch.setattr(os, "fork", refuse)
        tracer.stop()
    assert held_by() == before
    assert lowered(connection.info.backend_pid)


@pytest.mark.alone
def test_all_probes_go_together(connection: Connection) -> None:
    """The kernel has whoever detaches one wait: for all together no longer than for few."""
    one_by_one, together = [], []
    for _ in range(3):
        tracer = Tracer(Target.find(connection.info.backend_pid), TraceOptions())
        assert isinstance(tracer.engine, LibbpfEngine)
        began = time.monotonic()
        tracer.engine._object.detach()
        one_by_one.append(time.monotonic() - began)
        tracer.stop()

        tracer = Tracer(Target.find(connection.info.backend_pid), TraceOptions())
        programs = {each for each in held_by() if each.startswith("prog ")}
        assert programs
        began = time.monotonic()
        tracer.stop(wait=True)
        together.append(time.monotonic() - began)
        wait_for(lambda left=programs: not left & {f"prog {each['id']}" for each in show("prog")})
    assert median(together) < median(one_by_one) * 2 / 3
