"""What `list` says of a server's backends without a connection, held against pg_stat_activity."""

import json
import os
import re
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import psycopg
import pytest

from child import wait_until_gone
from copied_cluster import CopiedCluster
from fix_cluster import Connection, bindir, connected_at_once, data_directory
from fix_markers import PG_VERSION
from pgtrace.lab.core.private_cluster import PrivateCluster
from pgtrace.postgres import activity, discovery
from pgtrace.postgres.activity import Activity, Looker
from pgtrace_command import Ended, patched, run, wait_for

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="looks into servers: needs root")

CLOCKS_S = 0.01
"""The server and pgtrace look at the same clock, each in its own units."""
SLEEP = "select pg_sleep(600), 'somebody''s secret'"


@pytest.fixture(scope="module")
def small(disk_directory: Path) -> Iterator[PrivateCluster]:
    where = data_directory(PG_VERSION, disk_directory)
    settings = {"autovacuum": False, "fsync": False, "max_connections": 12}
    with CopiedCluster(settings, bindir=bindir(PG_VERSION), directory=where) as private:
        with private.connect() as connection:
            connection.execute("create table t as select 1 as id")
        yield private


class Busy:
    """Clients that do something for long, until the end of the block."""

    def __init__(self, cluster: PrivateCluster) -> None:
        self.cluster = cluster
        self.stack = ExitStack()

    def connect(self) -> Connection:
        connection = connected_at_once(self.cluster)
        # Who has gone is a process with its title for a moment yet
        self.stack.callback(wait_until_gone, connection.info.backend_pid)
        return self.stack.enter_context(connection)

    def runs(self, query: str, after_s: float = 0) -> int:
        """The pid of a backend that goes on with it, from so long after its own begin on."""
        connection = self.connect()
        pid = connection.info.backend_pid
        time.sleep(after_s)

        def go_on() -> None:
            with suppress(psycopg.Error):
                connection.execute(query)

        def end() -> None:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGTERM)

        thread = threading.Thread(target=go_on)
        thread.start()
        self.stack.callback(thread.join)
        self.stack.callback(end)
        return pid

    def wait_for(self, pid: int, what: str) -> None:
        with self.cluster.connect() as chief:
            asked = f"select {what} from pg_stat_activity where pid = {pid}"
            wait_for(lambda: chief.execute(asked).fetchone() == (True,))
            own = chief.info.backend_pid
        wait_until_gone(own)

    def __enter__(self) -> "Busy":
        return self

    def __exit__(self, *_: object) -> None:
        self.stack.close()


def told(cluster: PrivateCluster) -> dict[int, Activity]:
    server = discovery.server(cluster.postmaster_pid)
    looker = Looker(server.postmaster_pid)
    return {backend.pid: looker.look(backend) for backend in server.backends()}


def listed(cluster: PrivateCluster, *options: str) -> list[str]:
    """Of this server alone."""
    ended = run("list", *options)
    assert ended.code == 0, ended
    (own,) = [text for text in ended.out.split("\n\n") if str(cluster.datadir) in text]
    return own.splitlines()


def test_it_says_what_pg_stat_activity_says(small: PrivateCluster) -> None:
    """Of a statement that runs, of one that waits for a lock, of a transaction that is left open:
    for how long, what for, and what it is."""
    with Busy(small) as clients:
        holder = clients.connect()
        holder.autocommit = False
        holder.execute("lock table t")
        sleeps = clients.runs(SLEEP)
        waits = clients.runs("select id from t where id = 4711")
        clients.wait_for(sleeps, "wait_event = 'PgSleep'")
        clients.wait_for(waits, "wait_event_type = 'Lock'")
        asked = (
            "select pid, wait_event_type,"
            " extract(epoch from clock_timestamp() - query_start)::float8,"
            " extract(epoch from clock_timestamp() - state_change)::float8, state"
            " from pg_stat_activity where backend_type = 'client backend'"
            " and pid <> pg_backend_pid()"
        )
        with small.connect() as chief, small.connect() as quiet:
            before = {row[0]: row[1:] for row in chief.execute(asked)}
            found = told(small)
            theirs = {row[0]: row[1:] for row in chief.execute(asked)}
            own = found[quiet.info.backend_pid]
        holding = holder.info.backend_pid
        assert theirs.keys() >= {sleeps, waits, holding}
        for pid in (sleeps, waits):
            wait, since, _, _ = theirs[pid]
            assert found[pid].state == "active"
            assert found[pid].wait_event_type == wait
            assert before[pid][1] - CLOCKS_S <= (found[pid].seconds or 0) <= since + CLOCKS_S
        assert found[sleeps].query == "select pg_sleep($1), $2"
        assert found[waits].query == "select id from t where id = $1"
        assert found[holding].state == theirs[holding][3] == "idle in transaction"
        left = found[holding].seconds or 0
        assert before[holding][2] - CLOCKS_S <= left <= theirs[holding][2] + CLOCKS_S
        assert own == Activity("idle")


def test_the_longest_comes_first_and_the_idle_are_summed_up(small: PrivateCluster) -> None:
    with Busy(small) as clients:
        first = clients.runs(SLEEP)
        clients.wait_for(first, "wait_event = 'PgSleep' and now() - query_start > '1.5 s'")
        second = clients.runs(SLEEP)
        clients.wait_for(second, "wait_event = 'PgSleep'")
        idle = [clients.connect() for _ in range(3)]
        lines = listed(small)
        every = listed(small, "--all")
        assert len(idle) == 3
    heading, rows = lines[1], lines[2:4]
    assert heading.split() == ["PID", "FOR", "WAIT", "DATABASE", "USER", "STATEMENT"]
    assert [int(row.split()[0]) for row in rows] == [first, second]
    for row in rows:
        assert re.fullmatch(
            r" *\d+ +[\d.]+ m?s  Timeout  postgres  postgres  select pg_sleep\(\$1\), \$2", row
        )
    assert "Idle: 3 (3 postgres at postgres)" in lines
    assert any("checkpointer" in line and "postmaster" in line for line in lines)
    assert "secret" not in "".join(lines)
    assert len(every) >= len(rows) + len(idle) + 5
    assert all(len(line) <= 80 for line in lines[1:])


def test_it_works_where_nobody_is_let_in_any_more(small: PrivateCluster) -> None:
    """When a DBA needs it most."""
    with Busy(small) as clients:
        busy = clients.runs(SLEEP)
        clients.wait_for(busy, "wait_event = 'PgSleep'")
        with suppress(psycopg.OperationalError):
            while True:
                clients.connect()
        with pytest.raises(psycopg.OperationalError, match=r"too many|reserved"):
            small.connect()
        assert str(busy) in "\n".join(listed(small))


def test_nothing_runs(small: PrivateCluster) -> None:
    lines = listed(small)
    assert lines[1] == "Nothing runs."
    assert not [line for line in lines if line.startswith("Idle")]


def test_json_has_them_too(small: PrivateCluster) -> None:
    with Busy(small) as clients:
        busy = clients.runs(SLEEP)
        clients.wait_for(busy, "wait_event = 'PgSleep'")
        ended: Ended = run("list", "--json")
    backends: list[dict[str, Any]] = [
        backend for server in json.loads(ended.out)["servers"] for backend in server["backends"]
    ]
    (own,) = [backend for backend in backends if backend["pid"] == busy]
    assert own["query"] == "select pg_sleep($1), $2"
    assert own["wait_event_type"] == "Timeout"
    assert own["seconds"] >= 0


def test_titles_that_are_not_kept_up_to_date(small: PrivateCluster) -> None:
    """Then its own memory says whether something runs."""
    with Busy(small) as clients:
        quiet = clients.connect()
        quiet.execute("set update_process_title = off")
        stale = clients.connect()
        stale.execute("set update_process_title = off")
        pid = stale.info.backend_pid
        thread = threading.Thread(target=lambda: _quietly(stale))
        thread.start()
        clients.stack.callback(thread.join)
        clients.stack.callback(os.kill, pid, signal.SIGTERM)
        clients.wait_for(pid, "wait_event = 'PgSleep'")
        found = told(small)
        assert found[pid].state == "active"
        assert found[pid].query == "select pg_sleep($1), $2"
        assert found[quiet.info.backend_pid].query is None


def _quietly(connection: Connection) -> None:
    with suppress(psycopg.Error):
        connection.execute(SLEEP)


def test_what_is_no_status_is_not_taken_for_one(
    small: PrivateCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A version whose structure begins in another way: how long is not known, and nothing else."""
    monkeypatch.setattr(activity, "_STATUS", activity.struct.Struct("=iii12xqqqq"))
    with Busy(small) as clients:
        busy = clients.runs(SLEEP, after_s=1)
        clients.wait_for(busy, "wait_event = 'PgSleep'")
        found = told(small)[busy]
    assert found.seconds is None
    assert found.query == "select pg_sleep($1), $2"


FIRST_ENDS = """
import os, signal, time
from pgtrace.linux import capabilities
from pgtrace.live import activities
from pgtrace.postgres import proc
def look(self, process, true=activities.Activities._look):
    look.pid = process.pid
    return true(self, process)
def title_of(*arguments, true=activities.title_of):
    activities.title_of = true
    with capabilities.raised():
        os.kill(look.pid, signal.SIGTERM)
    while proc.start_time_ticks(look.pid):
        time.sleep(0.001)
    return true(*arguments)
activities.Activities._look = look
activities.title_of = title_of
"""


def test_the_first_that_is_looked_at_may_end_meanwhile(small: PrivateCluster) -> None:
    """It costs no other of its server what it does, and for how long."""
    with Busy(small) as clients:
        for pid in [clients.runs(SLEEP) for _ in range(2)]:
            clients.wait_for(pid, "wait_event = 'PgSleep'")
        words = ("top", "--server", small.datadir, "--no-connect", "--batch", 3)
        ended = run(*words, command=patched(FIRST_ENDS))
    assert ended.code == 0, ended
    shown = re.findall(r" active .*", ended.out)
    assert shown, ended
    assert all(re.fullmatch(r" active [\d.]+ m?s, Timeout: .*", each) for each in shown), shown
