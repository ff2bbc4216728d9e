"""Nothing of ours costs a user the capture: whatever fails, what was measured until then is there.

Failures are forced for real: full disks, connections that are killed, exceptions in the middle.
"""

import argparse
import json
import os
import pty
import re
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

import html_page
import pgtrace
from child import Child, wait_until_gone
from copied_cluster import CopiedCluster
from fix_cluster import Connection, bindir, data_directory
from fix_markers import PG_VERSION
from pgtrace.commands.lab import experiment
from pgtrace.errors import PgtraceError
from pgtrace.files import documents
from pgtrace.lab.core.private_cluster import PrivateCluster
from pgtrace.model.capture import Capture
from pgtrace.reporters.terminal import capture_report
from pgtrace_command import PATIENT, PGTRACE, Pgtrace, patched, run, seeing, stopping, wait_for

TABLES = 400
ROOM = 64 << 10
QUERY = "select length(pg_read_binary_file('global/pg_control', 0, 8192)) as column_of_a_query"
"""One read, also where relations are in shared buffers."""


@pytest.fixture
def full(tmp_path: Path) -> Iterator[Path]:
    """A file system that is too small for any capture."""
    directory = tmp_path / "full"
    directory.mkdir()
    options = f"size={ROOM}"
    subprocess.run(["mount", "-t", "tmpfs", "-o", options, "tmpfs", directory], check=True)
    (directory / "other").write_bytes(bytes(ROOM - 8192))
    yield directory
    subprocess.run(["umount", directory], check=True)


def failing(
    place: str, error: str = "raise IndexError('SECRET')", after: int = 3, once: Path = Path("/")
) -> str:
    """Code that lets a function fail from call `after` on, of those since a file is there."""
    module, name, function = place.split(" ")
    return f"""
import os
from pgtrace.{module} import {name}
calls = 0
def broken(*arguments, true={name}.{function}, **settings):
    global calls
    calls += os.path.exists({str(once)!r})
    if calls >= {after}:
        {error}
    return true(*arguments, **settings)
{name}.{function} = broken
"""


def captured(path: Path) -> Capture:
    """What is in a file, which has to be whole."""
    return documents.load(path)


def test_relations_that_are_read_for_the_first_time_while_somebody_looks(
    cluster: PrivateCluster, connection: Connection, tmp_path: Path
) -> None:
    """New files come all the time: nothing fails, and no read is in no interval."""
    connection.execute(
        f"do $$ begin for i in 1..{TABLES} loop execute format("
        "'create table if not exists small_%s as select 1 as i', i); end loop; end $$"
    )
    connection.execute("checkpoint")
    for attempt in range(2):
        cluster.restart()
        output = tmp_path / f"{attempt}.json"
        arguments = ("capture", cluster.postmaster_pid, "--by", "relation", "-o", output)
        with Pgtrace(*arguments) as tracer, cluster.connect() as reader:
            tracer.attached()
            for i in range(1, TABLES + 1):
                reader.execute(f"select pg_sleep(0.008), * from small_{i}")
            code, _, err = tracer.stop()
        assert (code, "error" in err) == (0, False), err
        taken = captured(output)
        assert taken.partial == []
        of_relations = {"relation", "heap", "index", "toast", "visibility map", "free space map"}
        reads = [r for b in taken.backends for r in b.io if r.kind in of_relations]
        in_intervals = sum(cost.reads for each in taken.intervals for cost in each.costs)
        assert sum(r.count for r in reads) == in_intervals


PLACES = {
    "tracing.timeline Intervals look": "costs over time",
    "tracing.file_names Places look": "which files were read",
    "tracing.file_names Places place": "which files were read",
    "tracing.charging Registry poll": "queries and backends",
    "tracing.server_watch Servers watch": "servers that are started again",
    "tracing.server_watch Servers hear": "processes that came and went",
    "tracing.tracer Tracer poll": "tracing ended early",
    "tracing.timeline Intervals listed": "costs over time",
    "tracing.file_names Places tablespaces": "tablespaces",
    "tracing.capture_builder Assembly queries": "process",
    "tracing.capture_builder Assembly _query": "a statement is in no list",
    "engines.libbpf_engine LibbpfEngine detach": "the end of tracing",
}


@pytest.mark.parametrize(("place", "reason"), PLACES.items())
def test_an_error_of_ours_in_the_middle(
    cluster: PrivateCluster, connection: Connection, tmp_path: Path, place: str, reason: str
) -> None:
    """The file is there, marked, with the reads; the exit code is 1, and the screen says why."""
    after = 3 if place.endswith((" look", " poll", " watch", " hear")) else 1
    output, read = tmp_path / "o.json", tmp_path / "read"
    arguments = ("capture", cluster.postmaster_pid, "-o", output)
    with Pgtrace(*arguments, command=patched(failing(place, after=after, once=read))) as tracer:
        tracer.attached()
        with cluster.connect() as other:
            for _ in range(20):
                other.execute(QUERY)
                read.touch()
                other.execute("select pg_sleep(0.06)")
        if not reason.startswith("tracing ended"):
            tracer.send(signal.SIGINT)
        code, out, err = tracer.ended()
    assert (code, out) == (1, "")
    assert f"Wrote {output}" in err
    assert "unexpected error" in err
    assert "partial" in err.splitlines()[-1]
    assert "Traceback" not in err
    taken = captured(output)
    assert [why for why in taken.partial if why.startswith(reason)], taken.partial
    assert "IndexError" in str(taken.partial)
    # What an error says may be of a query: on the screen, never in a file
    assert "SECRET" in err
    assert "SECRET" not in output.read_text()
    if place != "tracing.capture_builder Assembly queries":
        assert taken.totals["read"].count > 0
    lines = capture_report.render(taken).splitlines()
    assert lines[1].startswith("Partial")
    assert reason in lines[1]
    page = html_page.render(taken)
    assert 0 < page.index("Partial, because") < page.index('<section id="how"')


@pytest.mark.parametrize("queries", ["light", "full"])
@pytest.mark.parametrize(
    "place",
    [
        "after commands find_target find_any",
        "after tracing.targets Target family",
        "before engines select start",
    ],
)
def test_a_server_that_stops_before_it_is_attached_to_costs_no_other(
    disk_directory: Path, tmp_path: Path, queries: str, place: str
) -> None:
    """Of two with one binary, the one that pgtrace would have found it by."""
    output = tmp_path / "o.json"
    with (
        CopiedCluster(directory=disk_directory) as first,
        CopiedCluster(directory=disk_directory) as second,
    ):
        both = seeing(first.postmaster_pid, second.postmaster_pid)
        command = patched(both + stopping(first.postmaster_pid, place))
        arguments = ("capture", "--all", "--queries", queries, "-o", output)
        with Pgtrace(*arguments, command=command) as tracer, second.connect() as connection:
            tracer.attached()
            connection.execute(QUERY)
            code, _, err = tracer.stop()
    assert code == 0, err
    taken = captured(output)
    assert taken.totals["read"].count > 0
    assert "column_of_a_query" in output.read_text()
    if "find_any" in place:
        assert f"Not traced: the server in {first.datadir}, which has stopped\n" in err


@pytest.mark.parametrize(
    ("place", "version", "queries"),
    [
        ("_attach_times", PG_VERSION, "light"),
        ("_attach_queries", PG_VERSION, "full"),
        ("_attach_waits", 18, "full"),
        ("_attach_io_workers", 18, "light"),
    ],
)
def test_nor_does_it_where_others_have_another_binary(
    disk_directory: Path, tmp_path: Path, place: str, version: int, queries: str
) -> None:
    """Its binary gets its probes all the same, for the other that runs it; and it is told that it
    stopped.
    """
    output = tmp_path / "o.json"
    with ExitStack() as stack:

        def started(version: int) -> PrivateCluster:
            where = data_directory(version, disk_directory)
            return stack.enter_context(CopiedCluster(bindir=bindir(version), directory=where))

        first, second = started(version), started(version)
        third = started(17)
        three = (each.postmaster_pid for each in (first, second, third))
        code = seeing(*three) + stopping(
            first.postmaster_pid, f"before engines.attachments Attachments {place}"
        )
        arguments = ("capture", "--all", "--queries", queries, "-o", output)
        with Pgtrace(*arguments, command=patched(code)) as tracer, second.connect() as connection:
            tracer.attached()
            connection.execute(QUERY)
            end = tracer.stop()
    assert end.code == 0, end.err
    taken = captured(output)
    assert not [each for each in taken.probes.not_measured if "ended" in each]
    assert [gap.data_directory for gap in taken.gaps] == [str(first.kernel_datadir)]
    assert "column_of_a_query" in output.read_text()


def test_a_server_that_has_stopped_is_not_traced_as_one_that_does_nothing(
    disk_directory: Path, tmp_path: Path
) -> None:
    with CopiedCluster(directory=disk_directory) as cluster:
        found = stopping(cluster.postmaster_pid, "after commands find_target find_any")
        arguments = ("capture", cluster.postmaster_pid, "-o", tmp_path / "o.json")
        with Pgtrace(*arguments, command=patched(found)) as tracer:
            code, _, err = tracer.ended()
    assert code == 3, err
    assert f"the server in {cluster.datadir} has stopped" in err


FOLLOWED = """
from pgtrace.tracing.server_watch import Servers
def follow(*arguments, true=Servers._follow):
    true(*arguments)
    print("followed", flush=True)
Servers._follow = follow
"""


def test_the_successor_of_a_server_that_stops_right_before_the_start_is_traced(
    disk_directory: Path, tmp_path: Path
) -> None:
    output = tmp_path / "o.json"
    with CopiedCluster(directory=disk_directory) as cluster:
        code = FOLLOWED + stopping(cluster.postmaster_pid, "before engines select start")
        arguments = ("capture", cluster.postmaster_pid, "-o", output)
        with Pgtrace(*arguments, command=patched(code)) as tracer:
            tracer.attached()
            cluster.start()
            tracer.wait_for("followed")
            with cluster.connect() as connection:
                connection.execute(QUERY)
            done = tracer.stop()
    assert done.code == 0, done.err
    assert captured(output).totals["read"].count > 0


def test_top_says_why_it_ended(cluster: PrivateCluster) -> None:
    command = patched(failing("live.teller Teller frame", after=2))
    with Pgtrace("top", cluster.postmaster_pid, "--batch", 3, command=command) as top:
        code, _, err = top.ended()
    assert code == 1
    assert "unexpected error: tracing ended early: IndexError" in err
    assert "ended early" in err.splitlines()[-1]


def test_the_traceback_of_an_unexpected_error_is_for_those_who_ask(
    connection: Connection, tmp_path: Path
) -> None:
    command = patched(failing("tracing.timeline Intervals look"))
    pid = connection.info.backend_pid
    with Pgtrace("capture", pid, "--duration", "1", "-v", command=command) as tracer:
        code, out, err = tracer.ended()
    assert code == 1
    assert out.splitlines()[1].startswith("Partial")
    assert err.count("Traceback") == 1


def test_one_backend_that_cannot_be_told_costs_no_other(
    cluster: PrivateCluster, tmp_path: Path
) -> None:
    output = tmp_path / "o.json"
    with cluster.connect() as one, cluster.connect() as other:
        bad, good = one.info.backend_pid, other.info.backend_pid
        code = f"""
from pgtrace.tracing.capture_builder import Assembly
def backend(self, account, wall, true=Assembly._backend):
    if account.process.pid == {bad}:
        raise KeyError("it")
    return true(self, account, wall)
Assembly._backend = backend
"""
        arguments = ("capture", bad, "-p", good, "-o", output)
        with Pgtrace(*arguments, command=patched(code)) as tracer:
            tracer.attached()
            other.execute(QUERY)
            assert tracer.stop().code == 1
    taken = captured(output)
    assert [backend.pid for backend in taken.backends] == [good]
    assert taken.backends[0].queries[0].calls == 1
    assert taken.partial == [why for why in taken.partial if f"process {bad}" in why] != []


def test_attach_sums_up_after_an_error(connection: Connection, tmp_path: Path) -> None:
    shown = tmp_path / "shown"
    code = failing("commands.live_screen TextScreen tick", after=2, once=shown)
    with Pgtrace("attach", connection.info.backend_pid, command=patched(code)) as tracer:
        tracer.attached()
        connection.execute(QUERY)
        tracer.wait_for("column_of_a_query")
        shown.touch()
        code_, out, err = tracer.ended()
    assert code_ == 1
    assert "column_of_a_query" in out
    assert re.search(r"\nPartial, because of an error in pgtrace: tracing ended early", out)
    assert re.search(r"Traced .*: 1 query", out)
    assert "unexpected error: tracing ended early" in err


@pytest.mark.parametrize("kill", ["connection", "every second", "server"])
def test_a_connection_that_is_killed_in_the_middle(
    cluster: PrivateCluster, tmp_path: Path, kill: str
) -> None:
    """Names may be missing then; what was measured is all there."""
    output = tmp_path / "o.json"
    arguments = ("capture", cluster.postmaster_pid, "--dsn", cluster.dsn(), "-o", output)
    connection, postmaster = cluster.connect(), cluster.postmaster_pid
    with Pgtrace(*arguments, "--by", "relation") as tracer:
        tracer.attached()
        connection.execute(QUERY)

        def names() -> list[int]:
            rows = connection.execute(
                "select pid from pg_stat_activity where application_name = 'pgtrace' "
                "and backend_start < clock_timestamp() - interval '2 s'"  # it was of use by then
            )
            return [pid for (pid,) in rows.fetchall()]

        for _ in range(3 if kill == "every second" else 1):
            (pid, *_) = wait_for(names)
            if kill == "server":
                os.kill(postmaster, signal.SIGQUIT)
                break
            connection.execute("select pg_terminate_backend(%s)", [pid])
            wait_for(lambda gone=pid: gone not in names())
            cluster.connect().close()  # while nobody comes, names are asked for twice a minute
        code, _, err = tracer.stop()
    connection.close()
    if kill == "server":
        wait_until_gone(postmaster)
        cluster.start()
    assert code == 0, err
    assert "unexpected" not in err
    assert captured(output).totals["read"].count > 0


def test_an_error_in_the_thread_that_asks_for_names(
    cluster: PrivateCluster, connection: Connection, tmp_path: Path
) -> None:
    output = tmp_path / "o.json"
    arguments = ("capture", connection.info.backend_pid, "--dsn", cluster.dsn(), "-o", output)
    code = failing("postgres.relations Relations ask", after=1)
    with Pgtrace(*arguments, command=patched(code)) as tracer:
        tracer.attached()
        connection.execute(QUERY)
        tracer.wait_for("unexpected error: names: IndexError")
        code_, _, err = tracer.stop()
    assert code_ == 1
    assert "Traceback" not in err
    taken = captured(output)
    assert taken.partial[0].startswith("names: IndexError in ")
    assert taken.probes.not_measured[0].startswith("names: ")
    assert taken.backends[0].queries[0].calls == 1


@pytest.mark.parametrize("gone", ["terminal", "reader"])
def test_who_cannot_be_told_any_more_loses_no_capture(
    cluster: PrivateCluster, tmp_path: Path, gone: str
) -> None:
    """As where the connection of a terminal breaks, and by `2>&1 | head -1`."""
    output = tmp_path / "o.json"
    ours, theirs = pty.openpty() if gone == "terminal" else os.pipe()
    command = (*PGTRACE, "capture", str(cluster.postmaster_pid), "--queries", "full", "-o", output)
    with Child(*command, stderr=theirs) as tracer, cluster.connect() as connection:
        os.close(theirs)
        said = b""
        while b"Ctrl-C to stop" not in said:
            said += os.read(ours, 1000)
        connection.execute(QUERY)
        if gone == "terminal":
            while b" reads" not in said:  # the line that is written over
                said += os.read(ours, 1000)
        os.close(ours)
        tracer.send(signal.SIGHUP)
        assert tracer.ended().code == 0
    assert "column_of_a_query" in output.read_text()


@pytest.mark.parametrize("redirected", ["2>/dev/full", "2>&-"])
def test_what_cannot_be_said_from_the_begin_costs_no_capture(
    connection: Connection, tmp_path: Path, redirected: str
) -> None:
    output = tmp_path / "o.json"
    arguments = ("capture", str(connection.info.backend_pid), "--duration", "0.5", "-o", output)
    shell = ("bash", "-c", f'exec "$@" {redirected}', "bash")
    with Pgtrace(*arguments, command=(*shell, *PGTRACE)) as tracer:
        code, out, _ = tracer.ended()
    assert (code, out) == (0, "")
    assert captured(output).partial == []


def test_who_starts_it_may_wait_for_nobody(connection: Connection, tmp_path: Path) -> None:
    """Where SIGCHLD is ignored, the kernel lets nobody wait for a child."""
    output = tmp_path / "o.json"
    arguments = ("capture", str(connection.info.backend_pid), "--duration", "0.5", "-o", output)
    shell = ("bash", "-c", "trap '' CHLD; exec \"$@\"", "bash")
    ended = run(*arguments, command=(*shell, *PGTRACE))
    assert ended.code == 0, ended
    assert captured(output).partial == []


def test_a_full_disk(connection: Connection, full: Path, tmp_path: Path) -> None:
    """It says so while there is time, and keeps the capture where there is room."""
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    environment = os.environ | {"TMPDIR": str(elsewhere)}
    arguments = ("capture", connection.info.backend_pid, "-o", full / "o.json")
    with Pgtrace(*arguments, env=environment) as tracer:
        tracer.attached()
        tracer.wait_for(rf"Only 8\.0 KiB are free in {full}")
        for i in range(200):
            connection.execute(f"select {', '.join(['1'] * (i + 1))} as column_of_a_query")
        code, _, err = tracer.stop()
    (kept,) = elsewhere.iterdir()
    last = err.splitlines()[-1]
    assert (code, last) == (
        1,
        f"pgtrace: {full}/o.json cannot be written: No space left on device. "
        f"The capture was kept: {kept}",
    )
    assert captured(kept).backends[0].queries
    assert kept.stat().st_mode & 0o777 == 0o600
    assert [file.name for file in full.iterdir()] == ["other"]


def test_the_result_of_an_experiment_on_a_full_disk(
    full: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Hours of work, and the same places for it."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    arguments = argparse.Namespace(output=full / "o.json", force=False)
    with pytest.raises(PgtraceError, match=f"No space left .* The result was kept: {tmp_path}/"):
        experiment._write(bytes(ROOM), arguments)
    (kept,) = tmp_path.glob("*.json")
    assert kept.read_bytes() == bytes(ROOM)


def test_a_full_disk_and_a_full_tmpdir(connection: Connection, full: Path) -> None:
    """Then it is /tmp."""
    environment = os.environ | {"TMPDIR": str(full)}
    arguments = ("capture", connection.info.backend_pid, "-o", full / "o.json")
    with Pgtrace(*arguments, env=environment) as tracer:
        tracer.attached()
        for i in range(200):
            connection.execute(f"select {', '.join(['1'] * (i + 1))} as column_of_a_query")
        code, out, err = tracer.stop()
    assert (code, out) == (1, "")
    told = re.search(r"The capture was kept: (/tmp/\S+)$", err)
    assert told, err
    assert captured(Path(told[1])).backends[0].queries
    Path(told[1]).unlink()


@pytest.mark.parametrize("output", ["/dev/full", "/dev/stdout"])
def test_a_full_device(connection: Connection, tmp_path: Path, output: str) -> None:
    """What is measured for one is kept, too, and not beside it."""
    environment = os.environ | {"TMPDIR": str(tmp_path)}
    pid = connection.info.backend_pid
    with Path("/dev/full").open("w") as nothing:
        done = subprocess.run(
            [*PGTRACE, "capture", str(pid), "-o", output, "--duration", "0.5"],
            stdout=nothing, stderr=subprocess.PIPE, text=True, env=environment, check=False,
        )  # fmt: skip
    (kept,) = tmp_path.glob("*.json")
    assert done.returncode == 1
    assert done.stderr.endswith(f"The capture was kept: {kept}\n")


NO_ROOM = """
from pgtrace.files import rescue
rescue._directories = lambda near: iter([near.parent] if near else [])
"""


def test_no_room_anywhere(connection: Connection, full: Path) -> None:
    """Then stdout has it, as a file where it is one."""
    arguments = ("capture", connection.info.backend_pid, "-o", full / "o.json")
    with Pgtrace(*arguments, command=patched(NO_ROOM)) as tracer:
        tracer.attached()
        for i in range(200):
            connection.execute(f"select {', '.join(['1'] * (i + 1))} as column_of_a_query")
        code, out, err = tracer.stop()
    assert code == 1
    assert "as little in TMPDIR, /tmp, /var/tmp and at home: make room" in err
    assert "the capture went to stdout" in err
    assert len(json.loads(out)["backends"][0]["queries"]) > 100


def test_a_report_that_cannot_be_printed(connection: Connection, tmp_path: Path) -> None:
    """stdout is on a full device."""
    with Path("/dev/full").open("w") as nothing:
        done = subprocess.run(
            [*PGTRACE, "capture", str(connection.info.backend_pid), "--duration", "0.5"],
            stdout=nothing,
            stderr=subprocess.PIPE,
            text=True,
            env=os.environ | {"TMPDIR": str(tmp_path)},
            check=False,
        )
    (kept,) = tmp_path.glob("*.json")
    assert done.returncode == 1
    assert f"The capture was kept: {kept}" in done.stderr
    assert captured(kept).backends


def test_json_that_nobody_reads_any_more(connection: Connection, tmp_path: Path) -> None:
    """As where it was to go to another host, by a connection that broke meanwhile."""
    reading, writing = os.pipe()
    environment = os.environ | {"TMPDIR": str(tmp_path)}
    arguments = ("capture", connection.info.backend_pid, "--json")
    with Pgtrace(*arguments, stdout=writing, env=environment) as tracer:
        os.close(writing)
        tracer.attached()
        os.close(reading)
        connection.execute(QUERY)
        code, _, err = tracer.stop()
    (kept,) = tmp_path.glob("*.json")
    assert (code, err.splitlines()[-1].endswith(f"The capture was kept: {kept}")) == (1, True), err
    assert captured(kept).backends[0].queries[0].calls == 1


SLOW_NAMES = """
import time
from pgtrace.postgres.relations import Relations
def ask(self, connection, *, last=False):
    if last:
        print("asking", flush=True)
        time.sleep(600)
Relations.ask = ask
from pgtrace.postgres import catalog, names_of_servers
assert catalog.LAST_S == names_of_servers.LAST_S
catalog.LAST_S = names_of_servers.LAST_S = 600
"""


@pytest.mark.parametrize("second", [signal.SIGINT, signal.SIGTERM])
def test_a_second_signal_keeps_the_capture(
    cluster: PrivateCluster, connection: Connection, tmp_path: Path, second: signal.Signals
) -> None:
    """It waits for nobody, neither for names."""
    output = tmp_path / "o.json"
    arguments = ("capture", connection.info.backend_pid, "--dsn", cluster.dsn(), "-o", output)
    with Pgtrace(*arguments, command=patched(SLOW_NAMES)) as tracer:
        tracer.attached()
        connection.execute(QUERY)
        tracer.send(signal.SIGINT)
        tracer.wait_for("asking")
        code, _, err = tracer.stop(second)
    assert code == 0
    assert f"Wrote {output}" in err
    taken = captured(output)
    assert taken.backends[0].queries[0].calls == 1
    assert any("not waited for" in why for why in taken.probes.not_measured)


NAMES_TAKE_A_WHILE = f"""{PATIENT}
import time
from pgtrace import interrupts
from pgtrace.postgres.relations import Relations
interrupts._ONE_END_S = 60
def ask(self, connection, *, last=False, true=Relations.ask):
    if last:
        time.sleep(1)
    true(self, connection, last=last)
Relations.ask = ask
"""


@pytest.mark.parametrize("numbers", ["SIGHUP " * 4, "SIGTERM SIGHUP " * 2], ids=["breaks", "ends"])
def test_a_terminal_that_goes_away_hurries_nobody(
    cluster: PrivateCluster, connection: Connection, tmp_path: Path, numbers: str
) -> None:
    """As where the connection of `sudo pgtrace` breaks, or its session is ended: what comes within
    milliseconds is one wish."""
    output = tmp_path / "o.json"
    arguments = ("capture", connection.info.backend_pid, "--dsn", cluster.dsn(), "-o", output)
    with Pgtrace(*arguments, command=patched(NAMES_TAKE_A_WHILE)) as tracer:
        tracer.attached()
        connection.execute("select count(*) from tbl_cost_align")
        for name in numbers.split():
            tracer.send(signal.Signals[name])
            time.sleep(0.02)
        code, _, err = tracer.ended()
    assert code == 0, err
    taken = captured(output)
    assert not [why for why in taken.probes.not_measured if why.startswith("names")]
    assert any("tbl_cost_align" in (reads.relation or "") for reads in taken.backends[0].io)


SLOW_REPORT = """
import time
from pgtrace.reporters.terminal import capture_report
def render(capture, **_):
    print("drawing", flush=True)
    time.sleep(600)
capture_report.render = render
"""


def test_a_signal_while_the_report_is_drawn_keeps_the_capture(
    connection: Connection, tmp_path: Path
) -> None:
    environment = os.environ | {"TMPDIR": str(tmp_path)}
    pid = connection.info.backend_pid
    with Pgtrace("capture", pid, command=patched(SLOW_REPORT), env=environment) as tracer:
        tracer.attached()
        connection.execute(QUERY)
        tracer.send(signal.SIGINT)
        tracer.wait_for("drawing")
        code, _, err = tracer.stop()
    (kept,) = tmp_path.glob("*.json")
    assert code == 130
    assert err.splitlines()[-1] == (
        f"pgtrace: interrupted before everything was shown. The capture was kept: {kept}"
    )
    assert captured(kept).backends[0].queries[0].calls == 1


def test_an_error_in_the_library(connection: Connection, monkeypatch: pytest.MonkeyPatch) -> None:
    """trace() yields what was measured all the same, and says what is missing."""

    def broken(*_: Any) -> None:
        raise ValueError

    monkeypatch.setattr("pgtrace.tracing.timeline.Intervals.look", broken)
    with pgtrace.trace(connection.info.backend_pid) as tracer:
        connection.execute(QUERY)
    taken = tracer.capture()
    assert taken.backends[0].queries[0].calls == 1
    assert taken.partial[0].startswith("costs over time: ValueError in ")
