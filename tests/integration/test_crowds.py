"""Many other processes: each is looked at by a few system calls, once and not once per server;
and many connections that do nothing, for which nothing is done.
"""

import os
import re
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import psycopg
import pytest

from child import Child, children_of, wait_for, wait_until_gone
from pgtrace.lab.core.private_cluster import PrivateCluster
from pgtrace.model.capture import Backend
from pgtrace.tracing import charging
from pgtrace.tracing.tracer import trace
from pgtrace_command import NOT_COVERED, PGTRACE, Pgtrace

MANY = 1_500
MOST_CALLS = 10
"""Of files, for each other process: 9 were measured; 20 and more before, and with each server."""
CONNECTIONS = 80
MOST_CALLS_OF_CONNECTION = 60
"""As above: 57 were measured, in three looks."""
MOST_PEAK = 60 << 10
"""KiB, whatever runs."""
IDLE = 1000
"""Connections."""
MOST_IDLE_SHARE = 0.02
"""Of a CPU. Where others started and ended 50 processes a second, 0.004 to 0.006 were measured, and
0.027 to 0.04 with a look every 50 ms; on a host that took twice as long for the same work at times,
0.006 to 0.015 of one and the same code within an hour."""
MOST_WAKES = 8
"""A second, of each thread, however fast the host is: one is usual, 20 are a look every 50 ms. What
others start and end on the host wakes it, too."""
_CROWD = """
import os, signal, sys
for _ in range(int(sys.argv[1])):
    if not os.fork():
        signal.pause()
print("all", flush=True)
signal.pause()
"""
_LAST_PID = Path("/proc/sys/kernel/ns_last_pid")
_OF_FILES = "openat,read,close,stat,lstat,newfstatat,readlink,readlinkat,getdents64"

pytestmark = [
    pytest.mark.skipif(os.geteuid() != 0, reason="looks into servers: needs root"),
    pytest.mark.apart,  # everybody else on the host would be in the crowd
]


@pytest.fixture
def crowd() -> Iterator[int]:
    with Child(sys.executable, "-c", _CROWD, MANY, start_new_session=True) as started:
        started.wait_for("all")
        pids = children_of(started.pid)
        yield MANY
    wait_until_gone(*pids)


def calls(report: Path, *command: object) -> int:
    """How many system calls of processes' files it made. How many others there are hangs on how
    long it takes: some modules are imported only once something has gone on for a while.
    """
    subprocess.run([*_traced(report), *map(str, command)], capture_output=True, check=True)
    return _of_processes(report)


def calls_of_capture(report: Path, server: PrivateCluster) -> int:
    """As it begins; once it can hear who starts and ends, which it does at its first tick or later;
    and as it ends. Each time the server's processes are looked at, the first one for more.
    """
    postmaster = server.postmaster_pid
    _, one, *_ = sorted(pid for pid in children_of(postmaster) if pid > postmaster)
    look = re.compile(rf"openat\(.*/proc/{one}/cmdline")
    what = "capture", "--server", server.datadir, "--no-connect", "--force"
    written = report.with_suffix(".json")
    report.unlink(missing_ok=True)
    command = *_traced(report), *what, "-o", written
    # A session of its own: of one that fails, what strace runs is killed as well
    with Child(*command, stderr=subprocess.PIPE, start_new_session=True) as traced:
        wait_for(lambda: report.exists() and len(look.findall(report.read_text())) == 2)
        (capture,) = children_of(traced.pid)
        os.kill(capture, signal.SIGINT)
        assert traced.ended().code == 0
    assert len(look.findall(report.read_text())) == 3
    return _of_processes(report)


def _traced(report: Path) -> list[str]:
    traced = ["strace", "-f", "-y", "-e", f"trace={_OF_FILES}", "-o", str(report)]
    return [*traced, *PGTRACE]


def _of_processes(report: Path) -> int:
    return len(re.findall(r"^\d+ +\w+\(.*/proc/\d", report.read_text(), re.MULTILINE))


@pytest.mark.parametrize("command", ["list", "doctor"])
def test_each_other_process_costs_a_few_calls(
    cluster: PrivateCluster, tmp_path: Path, command: str, request: pytest.FixtureRequest
) -> None:
    alone = calls(tmp_path / "alone", command)
    number = request.getfixturevalue("crowd")
    each = (calls(tmp_path / "crowd", command) - alone) / number
    assert 0 < each <= MOST_CALLS, f"{each:.1f} calls for each process"


@pytest.mark.parametrize("first", [30_000, 300], ids=["later pids", "earlier pids"])
def test_each_connection_costs_a_few_calls_when_a_capture_begins_and_ends(
    disk_directory: Path, tmp_path: Path, first: int
) -> None:
    """Pids begin anew at 300: see RESERVED_PIDS in the kernel."""
    report = tmp_path / "calls"
    _LAST_PID.write_text("20000")
    with PrivateCluster(directory=disk_directory) as own, ExitStack() as connections:
        alone = calls_of_capture(report, own)
        _LAST_PID.write_text(str(first))
        opened = [connections.enter_context(own.connect()) for _ in range(CONNECTIONS)]
        pids = [each.info.backend_pid for each in opened]
        assert all((pid < own.postmaster_pid) == (first < 20_000) for pid in pids)
        each = (calls_of_capture(report, own) - alone) / CONNECTIONS
    assert 0 < each <= MOST_CALLS_OF_CONNECTION, f"{each:.1f} calls for each connection"


def test_names_of_strangers_are_kept_for_few(
    cluster: PrivateCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who is not let in has a title with the names that it asked for, and has read: all count."""
    monkeypatch.setattr(charging, "MOST_ENDED", 0)
    monkeypatch.setattr(charging, "MOST_KINDS", 3)
    with trace(cluster.postmaster_pid, probe_type="tracepoint") as tracer:
        for number in range(12):
            with pytest.raises(psycopg.OperationalError, match="does not exist"):
                psycopg.connect(cluster.dsn(user=f"stranger_{number}"))

        def merged() -> list[Backend]:
            return [each for each in tracer.capture().backends if each.merged]

        def strangers() -> int:
            return sum(b.merged or 0 for b in merged() if b.backend_type == "client backend")

        wait_for(lambda: strangers() >= 12)
    found = merged()
    assert len([each for each in found if each.usename]) <= 3
    (nameless,) = (b for b in found if b.backend_type == "client backend" and not b.usename)
    assert nameless.merged
    assert nameless.merged >= 9


@pytest.mark.parametrize("arguments", [("list",), ("doctor",), ("capture", "--duration", "0.1")])
def test_memory_does_not_grow_with_them(
    cluster: PrivateCluster, crowd: int, arguments: tuple[str, ...]
) -> None:
    watched = (
        "import re, sys; from pgtrace.__main__ import main; main(sys.argv[1:]); "
        "print(re.search(r'VmHWM:\\s+(\\d+)', open('/proc/self/status').read())[1])"
    )
    where = ["--server", str(cluster.datadir)] if arguments[0] == "capture" else []
    ran = subprocess.run(
        [sys.executable, "-c", watched, *arguments, *where], env=NOT_COVERED,
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert int(ran.stdout.split()[-1]) <= MOST_PEAK


def test_while_nothing_happens_nothing_is_done(tmp_path: Path, disk_directory: Path) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, min(4 * IDLE, hard)), hard))
    with ExitStack() as stack:
        stack.callback(resource.setrlimit, resource.RLIMIT_NOFILE, (soft, hard))
        settings = {"max_connections": IDLE + 20}
        own = stack.enter_context(PrivateCluster(settings, directory=disk_directory))
        for _ in range(IDLE // 2):
            stack.enter_context(own.connect())
        of_server = "--server", own.datadir, "-o"
        captures = {
            options: stack.enter_context(
                Pgtrace("capture", *of_server, tmp_path / f"{at}.json", *options, env=NOT_COVERED)
            )
            for at, options in enumerate([(), ("--by", "relation"), ("--dsn", own.dsn())])
        }
        for each in captures.values():
            each.attached()
        for _ in range(IDLE // 2):  # these have something in the captures
            stack.enter_context(own.connect()).execute("select count(*) from pg_class")

        def rests() -> bool:
            """All of what came has been looked at."""
            taken = {each: cpu_s(each.pid) for each in captures.values()}
            time.sleep(1)
            return all(cpu_s(each.pid) - s < MOST_IDLE_SHARE for each, s in taken.items())

        time.sleep(5)
        wait_for(rests)
        before, began = {each: cpu_s(each.pid) for each in captures.values()}, time.monotonic()
        asleep = {each: wakes(each.pid) for each in captures.values()}
        time.sleep(20)
        took = time.monotonic() - began
        woken = {
            options: [(now - asleep[each][tid]) / took for tid, now in wakes(each.pid).items()]
            for options, each in captures.items()
        }
        shares = {
            options: (cpu_s(each.pid) - before[each]) / took for options, each in captures.items()
        }
        for each in captures.values():  # a signal wakes it at once all the same
            asked = time.monotonic()
            each.send(signal.SIGINT)
            each.wait_for("Wrote ")
            assert time.monotonic() - asked < 30
    assert max(shares.values()) <= MOST_IDLE_SHARE, shares
    assert max(max(each) for each in woken.values()) <= MOST_WAKES, woken


def wakes(pid: int) -> dict[str, int]:
    """How often each thread waited, by its id."""
    found = {}
    for thread in Path(f"/proc/{pid}/task").iterdir():
        status = (thread / "status").read_text()
        (number,) = re.findall(r"^voluntary_ctxt_switches:\t(\d+)$", status, re.MULTILINE)
        found[thread.name] = int(number)
    return found


def cpu_s(pid: int) -> float:
    """Of all its threads, in user space and in the kernel."""
    return time.clock_gettime(
        (~pid << 3) | 2
    )  # CPUCLOCK_SCHED of a process: clock_getcpuclockid(3)
