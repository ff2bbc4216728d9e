"""Who holds a lock, by the server's memory and by a connection, held against pg_blocking_pids()."""

import contextlib
import json
import os
import random
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import psycopg
import pytest

from child import wait_for
from copied_cluster import CopiedCluster
from fix_cluster import SETTINGS, Connection, bindir, connected_at_once, data_directory
from fix_markers import PG_VERSION
from pgtrace.lab.core.private_cluster import PrivateCluster
from pgtrace.postgres import discovery
from pgtrace.postgres.blockers import MOST, Blocker
from pgtrace.postgres.lock_holders import LockHolders
from pgtrace.tracing.tracer import Tracer
from pgtrace_command import Pgtrace
from time_watch import MS, watching

MODES = (
    "access share", "row share", "row exclusive", "share update exclusive", "share",
    "share row exclusive", "exclusive", "access exclusive",
)  # fmt: skip


@pytest.fixture(scope="module")
def small(disk_directory: Path) -> Iterator[PrivateCluster]:
    where = data_directory(PG_VERSION, disk_directory)
    settings = SETTINGS | {"max_prepared_transactions": 5, "deadlock_timeout": "1min"}
    with CopiedCluster(settings, bindir=bindir(PG_VERSION), directory=where) as server:
        with server.connect() as connection:
            connection.execute("create table t as select i as a from generate_series(1, 3) i")
            for table in "one", "two":
                connection.execute(f"create table {table} (a int)")
        yield server


@pytest.fixture
def holders(small: PrivateCluster) -> LockHolders:
    return LockHolders(discovery.server(small.postmaster_pid))


@contextmanager
def wanting(server: PrivateCluster, looker: Connection, text: str) -> Iterator[int]:
    """A backend that waits for a lock: its pid. It gives up at the end of the block."""
    with server.connect() as connection:
        pid = connection.info.backend_pid

        def run() -> None:
            with contextlib.suppress(psycopg.Error):
                connection.execute(text)

        thread = threading.Thread(target=run)
        thread.start()
        waits = f"select wait_event_type = 'Lock' from pg_stat_activity where pid = {pid}"
        wait_for(lambda: (looker.execute(waits).fetchone() or (False,))[0])
        try:
            yield pid
        finally:
            connection.cancel()
            thread.join()


def blocking(looker: Connection, pid: int) -> set[int]:
    row = looker.execute("select pg_blocking_pids(%s)", [pid]).fetchone()
    assert row
    return set(row[0])


@contextmanager
def transaction(server: PrivateCluster, *texts: str) -> Iterator[Connection]:
    with connected_at_once(server) as connection:
        connection.execute("set application_name = 'nightly'")
        connection.execute("begin")
        for text in texts:
            connection.execute(text)
        yield connection
        connection.execute("rollback")


@pytest.mark.parametrize(
    ("holds", "wants"),
    [
        ("lock table one", "select a from one"),
        ("update t set a = a", "update t set a = 5 where a = 1"),
        ("select pg_advisory_xact_lock(7)", "select pg_advisory_lock(7)"),
        ("select pg_advisory_xact_lock(7, 8)", "select pg_advisory_lock(7, 8)"),
        # Held by the fast path, until somebody wants what conflicts with it
        ("select a from one", "alter table one add b int"),
    ],
)
def test_a_holder_is_told_by_memory(
    small: PrivateCluster, holders: LockHolders, holds: str, wants: str
) -> None:
    with (
        small.connect() as looker,
        transaction(small, holds) as holder,
        wanting(small, looker, wants) as pid,
    ):
        time.sleep(0.2)
        (told,) = holders.of(pid)
        assert blocking(looker, pid) == {told.pid} == {holder.info.backend_pid}
        user = holder.info.user
    assert (told.usename, told.application_name) == (user, "nightly")
    assert (told.state, told.query) == ("idle in transaction", holds)
    assert told.state_s is not None
    assert 0.1 <= told.state_s < 60


def test_who_only_stands_before_it_in_the_queue_is_told(
    small: PrivateCluster, holders: LockHolders
) -> None:
    """A reader waits for one who wants to alter the table, who waits for another reader."""
    with (
        small.connect() as looker,
        transaction(small, "select a from one"),
        wanting(small, looker, "alter table one add b int") as alters,
        wanting(small, looker, "select a from one") as reads,
    ):
        found = holders.of(reads)
        assert len(found) == 1, (found, reads, alters, blocking(looker, reads))
        (told,) = found
        assert blocking(looker, reads) == {told.pid} == {alters}
    assert (told.state, told.query) == ("active", "alter table one add b int")


def test_a_prepared_transaction_is_told_apart(small: PrivateCluster, holders: LockHolders) -> None:
    with small.connect() as looker:
        looker.execute("begin")
        looker.execute("lock table two")
        looker.execute("prepare transaction 'left'")
        with wanting(small, looker, "select a from two") as pid:
            assert [each.pid for each in holders.of(pid)] == [0]
            assert blocking(looker, pid) == {0}
        looker.execute("rollback prepared 'left'")


def test_who_waits_for_nothing_has_nobody_before_it(
    small: PrivateCluster, holders: LockHolders
) -> None:
    with small.connect() as one:
        assert holders.of(one.info.backend_pid) == []
    assert holders.of(small.postmaster_pid) == []
    assert holders.of(os.getpid()) == []


def test_any_mixture_of_locks_is_told_as_the_server_does(
    small: PrivateCluster, holders: LockHolders
) -> None:
    """In whatever modes ten sessions hold and want locks on two tables."""
    chance = random.Random(20261124)
    compared = 0
    for _ in range(8):
        texts = [
            "; ".join(
                f"lock table {table} in {chance.choice(MODES)} mode"
                for table in chance.sample(["one", "two"], chance.randint(1, 2))
            )
            for _ in range(10)
        ]
        with small.connect() as looker, locking(small, texts):
            asked = "select pid from pg_stat_activity where wait_event_type = 'Lock'"
            for (pid,) in looker.execute(asked).fetchall():
                theirs = blocking(looker, pid)
                ours = {each.pid for each in holders.of(pid)}
                assert ours <= theirs
                assert len(ours) == min(MOST, len(theirs))
                compared += 1
    assert compared > 20


@contextmanager
def locking(server: PrivateCluster, texts: list[str]) -> Iterator[None]:
    """Sessions that hold and want that, each a moment after the one before."""
    with ExitStack() as stack:
        clients = [server.connect() for _ in texts]
        for client in clients:
            stack.callback(client.close)
        threads = []
        for client, text in zip(clients, texts, strict=True):

            def run(client: Connection = client, text: str = text) -> None:
                with contextlib.suppress(psycopg.Error):
                    client.execute(f"begin; {text}")

            threads.append(threading.Thread(target=run))
            threads[-1].start()
            time.sleep(0.05)
        try:
            yield
        finally:
            with server.connect() as chief:
                for client in clients:
                    ended = "select pg_terminate_backend(%s)"
                    chief.execute(ended, [client.info.backend_pid])
            for thread in threads:
                thread.join()


def told(tracer: Tracer) -> tuple[str, int, list[Blocker]] | None:
    tracer.poll()
    return tracer.blockers(tracer.account())


@pytest.mark.parametrize("by", ["memory", "connection"])
def test_who_holds_a_lock_is_told_after_a_second(small: PrivateCluster, by: str) -> None:
    options = {"dsn": small.dsn()} if by == "connection" else {}
    with (
        watching(small, **options) as watched,
        transaction(small, "lock table one") as holder,
    ):
        if by == "connection":  # memory tells nothing
            watched.tracer._holders = dict.fromkeys([small.postmaster_pid], Nobody())  # type: ignore[arg-type]
        thread = threading.Thread(
            target=watched.connection.execute, args=["select count(*) from one"]
        )
        thread.start()
        wait_for(lambda: (told(watched.tracer) or ("", 0, []))[2])
        found = told(watched.tracer)
        assert found
        lock, waited_ns, (blocker,) = found
        assert (lock, blocker.pid) == ("relation", holder.info.backend_pid)
        assert 1000 * MS <= waited_ns < 10_000 * MS
        assert (blocker.application_name, blocker.state) == ("nightly", "idle in transaction")
        assert blocker.query == "lock table one"
        holder.execute("commit")
        thread.join()
        assert told(watched.tracer) is None


class Nobody:
    def of(self, pid: int) -> list[Blocker]:
        return []


@pytest.mark.parametrize("connects", [True, False], ids=["connected", "--no-connect"])
def test_attach_shows_who_holds_the_lock(small: PrivateCluster, connects: bool) -> None:
    with small.connect() as waiting, transaction(small, "lock table two") as holder:
        command = "attach", "--every", 0.5, waiting.info.backend_pid
        with Pgtrace(*command, connects=connects) as attached:
            attached.attached()
            thread = threading.Thread(target=waiting.execute, args=["select count(*) from two"])
            thread.start()
            attached.wait_for(
                rf"It waits for a lock \(relation\), for 1[^P]*"
                rf"Process {holder.info.backend_pid} is before it: {holder.info.user} nightly, "
                r"idle in\s+transaction for [^:]*:\s+lock\s+table\s+two"
            )
            holder.execute("commit")
            thread.join()
            attached.wait_for("■ ")
            ended = attached.stop()
    assert ended.code == 0
    assert "Lock:relation" in ended.out


def test_attach_into_a_pipe_shows_it_before_its_next_look(small: PrivateCluster) -> None:
    """Once, however long it is until then, and of a wait that began when tracing had begun."""
    with small.connect() as waiting, transaction(small, "lock table two") as holder:
        command = "attach", "--every", 600, waiting.info.backend_pid
        with Pgtrace(*command, connects=True) as attached:
            attached.attached()
            time.sleep(1.5)  # its first look is over
            thread = threading.Thread(target=waiting.execute, args=["select count(*) from two"])
            thread.start()
            attached.wait_for(rf"Process {holder.info.backend_pid} is before it")
            time.sleep(2.5)
            holder.execute("commit")
            thread.join()
            attached.wait_for("■ ")
            ended = attached.stop()
    assert ended.out.count("is before it") == 1


@pytest.mark.parametrize("literals", [False, True])
def test_json_has_who_holds_the_lock(small: PrivateCluster, literals: bool) -> None:
    """Once for as long as it is so, and its statement without literals unless they are kept."""
    with small.connect() as waiting, transaction(small, "lock table two") as holder:
        holder.execute("select 'secret' as word", prepare=False)
        who = holder.info.backend_pid, holder.info.user
        command = "attach", "--json", *["--literals"] * literals, waiting.info.backend_pid
        with Pgtrace(*command) as attached:
            wait_for(lambda: waiting.execute("select 1") and attached.out)
            thread = threading.Thread(target=waiting.execute, args=["select count(*) from two"])
            thread.start()
            wait_for(lambda: '"blocked"' in attached.out)
            time.sleep(2.5)
            holder.execute("commit")
            thread.join()
            ended = attached.stop()
    *_, waits, query, last = map(json.loads, ended.out.splitlines())
    assert ended.out.count('"blocked"') == 1
    assert last["summary"]["queries"] == len(ended.out.splitlines()) - 2
    assert (waits["pid"], waits["started"]) == (query["pid"], query["started"])
    blocked = waits["blocked"]
    assert (blocked["wait_event_type"], blocked["wait_event"]) == ("Lock", "relation")
    assert 1000 * MS <= blocked["waited_ns"] < query["latency"]["sum"]
    (before,) = blocked["by"]
    assert (before["pid"], before["usename"]) == who
    assert (before["application_name"], before["state"]) == ("nightly", "idle in transaction")
    assert 0 < before["state_s"] < 60
    assert before["query"] == ("select 'secret' as word" if literals else "select $1 as word")


def test_attach_tells_of_a_prepared_transaction(small: PrivateCluster) -> None:
    with small.connect() as waiting, small.connect() as other:
        other.execute("begin")
        other.execute("lock table two")
        other.execute("prepare transaction 'left'")
        command = "attach", "--every", 0.5, waiting.info.backend_pid
        with Pgtrace(*command, connects=True) as attached:
            attached.attached()
            thread = threading.Thread(target=waiting.execute, args=["select count(*) from two"])
            thread.start()
            attached.wait_for("A prepared transaction is before it: see\\s+pg_prepared_xacts")
            other.execute("rollback prepared 'left'")
            thread.join()
            assert attached.stop().code == 0
