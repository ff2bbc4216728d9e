"""What was captured so far is in a file while tracing goes on: kill -9 costs a minute, not all."""

import json
import os
import re
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from fix_cluster import Connection, Server
from hostile import UID
from pgtrace.files import documents
from pgtrace.lab.core.private_cluster import PrivateCluster
from pgtrace.model.capture import Capture
from pgtrace_command import Pgtrace, patched, run, wait_for

QUERY = "select length(pg_read_binary_file('global/pg_control', 0, 8192)) as column_of_a_query"
"""One read, also where relations are in shared buffers."""
SOON = """
from pgtrace.files import so_far
so_far.EVERY_S = 0.2
so_far._MOST_OF_TIME = 1.0
"""


@pytest.fixture
def connection(connection: Connection) -> Connection:
    """A backend that ran the query before: the first time it reads the catalog as well."""
    connection.execute(QUERY)
    return connection


def reads_of_query(capture: Capture) -> int:
    queries = (query for backend in capture.backends for query in backend.queries)
    return sum(r.count for q in queries if "column_of_a_query" in (q.text or "") for r in q.io)


def newest(path: Path, least: int) -> Capture:
    """That has so many reads of the query; whenever it is looked at it is whole."""
    found: list[Capture] = []

    def look() -> bool:
        if path.exists():
            found[:] = [documents.load(path)]
        return bool(found) and reads_of_query(found[0]) >= least

    wait_for(look)
    return found[0]


def test_what_is_left_of_a_capture_that_is_killed(
    cluster: PrivateCluster, connection: Connection, tmp_path: Path
) -> None:
    """It is read by report, which says first that it is not all; the next capture overwrites it
    only if it is told so."""
    output = tmp_path / "busy.json"
    left = tmp_path / "busy.json.partial"
    arguments = ("capture", connection.info.backend_pid, "-o", output)
    with Pgtrace(*arguments, command=patched(SOON)) as tracer:
        tracer.attached()
        for number in range(1, 4):
            connection.execute(QUERY)
            assert newest(left, number).so_far
        tracer.send(signal.SIGKILL)
        assert tracer.ended().code == -signal.SIGKILL
    assert left.stat().st_mode & 0o777 == 0o600
    wait_for(lambda: len(list(tmp_path.iterdir())) == 1)

    code, out, err = run("report", left)
    assert (code, err) == (0, "")
    assert out.splitlines()[1].startswith("Not to its end: ")
    assert "column_of_a_query" in out

    before = left.read_bytes()
    refused = run(*arguments, "--no-connect", "--duration", "0.1")
    assert refused.code == 2
    assert f"{left} exists; --force overwrites it. It is of a capture" in refused.err
    told = re.search(r"`pgtrace (report \S+)`", refused.err)
    assert told
    assert run(*told[1].split()).code == 0
    assert left.read_bytes() == before
    assert not output.exists()
    with Pgtrace(*arguments, "--force", command=patched(SOON)) as tracer:
        tracer.attached()
        wait_for(lambda: left.read_bytes() != before)
        assert tracer.stop().code == 0
    assert os.listdir(tmp_path) == ["busy.json"]  # noqa: PTH208


def test_at_the_end_there_is_the_whole_alone(
    cluster: PrivateCluster, connection: Connection, tmp_path: Path
) -> None:
    output = tmp_path / "o.json"
    arguments = ("capture", cluster.postmaster_pid, "--queries", "full", "-o", output)
    with Pgtrace(*arguments, command=patched(SOON)) as tracer:
        tracer.attached()
        connection.execute(QUERY)
        newest(tmp_path / "o.json.partial", 1)
        connection.execute(QUERY)
        code, out, err = tracer.stop()
    assert (code, out, err.splitlines()[-1]) == (0, "", f"Wrote {output}")
    taken = documents.load(output)
    assert (reads_of_query(taken), taken.so_far, taken.partial) == (2, False, [])
    assert list(tmp_path.iterdir()) == [output]


@pytest.mark.parametrize("closed", [">&-", "--json >/dev/full"])
def test_it_goes_where_the_whole_is_there_whatever_becomes_of_stdout(
    connection: Connection, tmp_path: Path, closed: str
) -> None:
    """Into a file, capture has no need of one."""
    words = f'exec "$@" {closed}'
    command = ("bash", "-c", words, "bash", *patched(SOON))
    arguments = ("capture", connection.info.backend_pid, "-o", tmp_path / "o.json")
    with Pgtrace(*arguments, command=command) as tracer:
        tracer.attached()
        connection.execute(QUERY)
        newest(tmp_path / "o.json.partial", 1)
        code, _, err = tracer.stop()
    assert code == (1 if "full" in closed else 0), err
    assert "unexpected" not in err
    assert reads_of_query(documents.load(tmp_path / "o.json")) == 1
    assert os.listdir(tmp_path) == ["o.json"]  # noqa: PTH208


def test_calls_that_were_not_asked_for_yet_are_not_0(server: Server, tmp_path: Path) -> None:
    """In the light tier they come from pg_stat_statements, at the end."""
    cluster = server(shared_preload_libraries="pg_stat_statements")
    arguments = ("capture", cluster.postmaster_pid, "--dsn", cluster.dsn(), "-o", tmp_path / "o")
    with cluster.connect() as connection:
        connection.execute("create extension if not exists pg_stat_statements")
        with Pgtrace(*arguments, command=patched(SOON)) as tracer:
            tracer.attached()
            for _ in range(10):
                connection.execute(QUERY)
            newest(tmp_path / "o.partial", 10)
            tracer.send(signal.SIGKILL)
    text = run("report", tmp_path / "o.partial").out
    taken = documents.load(tmp_path / "o.partial")
    assert "length(pg_read_binary_file($1, $2, $3))" in text
    assert "shared_buffers (known at the end)" in text
    assert (taken.executions, taken.buffers) == ([], [])
    assert taken.probes.no_calls == "pg_stat_statements is asked at the end"
    assert f"not measured ({taken.probes.no_calls})" in " ".join(text.split())
    data = json.loads(run("report", tmp_path / "o.partial", "--format", "json").out)
    assert {q.get("calls") for b in data["backends"] for q in b["queries"]} == {None}


def test_nothing_is_written_on_the_way_where_there_is_little_room(
    connection: Connection, tmp_path: Path
) -> None:
    """What else lies there is worth more. It is said once, and the capture is whole."""
    small = tmp_path / "small"
    small.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=8m", "tmpfs", small], check=True)
    try:
        output = small / "o.json"
        arguments = ("capture", connection.info.backend_pid, "-o", output)
        with Pgtrace(*arguments, command=patched(SOON)) as tracer:
            tracer.attached()
            tracer.wait_for(r"could not be written to .*o\.json\.partial: \S+ MiB are free")
            time.sleep(1)
            connection.execute(QUERY)
            assert not (small / "o.json.partial").exists()
            end = tracer.stop()
        assert end.code == 0
        assert end.err.count("o.json.partial") <= 1
        assert reads_of_query(documents.load(output)) == 1
    finally:
        subprocess.run(["umount", small], check=True)


@pytest.fixture
def theirs(disk_directory: Path) -> Iterator[Path]:
    """A directory of another user's."""
    own = Path(tempfile.mkdtemp(prefix="theirs-", dir=disk_directory))
    os.chown(own, UID, UID)
    yield own
    shutil.rmtree(own)


@pytest.mark.skipif(os.geteuid() != 0, reason="becomes other users: needs root")
def test_root_follows_nobody_to_where_it_is_written(
    connection: Connection, theirs: Path, tmp_path: Path
) -> None:
    """It is made by a child that is the directory's owner, who puts a link in its place
    meanwhile."""
    secret = tmp_path / "secret"
    secret.write_text("root's alone")
    left = theirs / "o.json.partial"
    arguments = ("capture", connection.info.backend_pid, "-o", theirs / "o.json")
    with Pgtrace(*arguments, command=patched(SOON)) as tracer:
        tracer.attached()
        newest(left, 0)
        assert left.stat().st_uid == UID

        def refused() -> bool:
            """The child makes that file anew all the time: the link may be gone at once."""
            link = theirs / "link"
            link.symlink_to(secret)
            os.lchown(link, UID, UID)
            link.replace(left)
            return "o.json.partial: " in tracer.err

        wait_for(refused)
        code, _, err = tracer.stop()
    assert code == 0, err
    assert secret.read_text() == "root's alone"
    assert "o.json.partial: " in err
    assert (theirs / "o.json").stat().st_uid == UID


SLOW_DISK = """
import os, time
from pgtrace.files import so_far
from pgtrace.linux import forked
so_far._END_S, forked._END_S = 0.2, 60.0
def write(self, taken, true=so_far.SoFar._write):
    os.fsync = lambda _: time.sleep(600)
    return true(self, taken)
so_far.SoFar._write = write
"""


@pytest.mark.parametrize("whose", ["root", "theirs"])
def test_of_what_a_slow_disk_has_not_taken_at_the_end_nothing_is_left(
    connection: Connection, theirs: Path, tmp_path: Path, whose: str
) -> None:
    """Nor where a child of the child writes it, which has become the directory's owner."""
    directory = theirs if whose == "theirs" else tmp_path
    output = directory / "o.json"
    arguments = ("capture", connection.info.backend_pid, "-o", output)
    with Pgtrace(*arguments, command=patched(SOON + SLOW_DISK)) as tracer:
        tracer.attached()
        wait_for(lambda: list(directory.glob(".pgtrace-*")))
        connection.execute(QUERY)
        code, _, err = tracer.stop()
    assert code == 0, err
    assert list(directory.iterdir()) == [output]
    assert reads_of_query(documents.load(output)) == 1


@pytest.mark.parametrize("to", ["/dev/stdout", "fifo"])
def test_a_stream_has_nothing_beside_it(connection: Connection, tmp_path: Path, to: str) -> None:
    """Of what is written into one, nothing can be taken back."""
    output = tmp_path / to if to == "fifo" else Path(to)
    read = tmp_path / "read"
    with read.open("wb") as file:
        if to == "fifo":
            os.mkfifo(output)
            subprocess.Popen(["cat", output], stdout=file)
        arguments = ("capture", connection.info.backend_pid, "--duration", "1", "-o", output)
        assert run(*arguments, "--no-connect", command=patched(SOON), stdout=file).code == 0
    wait_for(lambda: read.read_bytes().endswith(b"}\n"))
    assert documents.load(read).so_far is False
    assert not output.with_name(f"{output.name}.partial").exists()
