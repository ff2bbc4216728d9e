"""What a wait is called, held against the server: every number it has, and real waits."""

import os
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import psycopg
import pytest

from child import wait_for
from copied_cluster import CopiedCluster
from fix_cluster import Connection, bindir, data_directory
from fix_markers import PG_VERSION
from pgtrace.lab.core.private_cluster import PrivateCluster
from pgtrace.postgres import binary, wait_events
from pgtrace.postgres.wait_events import WaitEvent
from scripts import script

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="looks into servers: needs root")

ROOT = Path(__file__).parents[2]
TABLE = Path(wait_events.__file__).parent / f"wait_event_names/{PG_VERSION}.txt"
OTHERS = "select pid, backend_type from pg_stat_activity where pid <> pg_backend_pid()"
NAMED = "select wait_event_type, wait_event from pg_stat_activity where pid = %s"


@pytest.fixture(scope="module")
def small(disk_directory: Path) -> Iterator[PrivateCluster]:
    where = data_directory(PG_VERSION, disk_directory)
    with CopiedCluster({"fsync": False}, bindir=bindir(PG_VERSION), directory=where) as private:
        with private.connect() as connection:
            connection.execute("create table t as select 1 as id")
        yield private


def table() -> dict[int, WaitEvent]:
    found = {}
    for line in TABLE.read_text().splitlines()[1:]:
        info = int(line.split()[0], 16)
        name = wait_events.name(PG_VERSION, info)
        assert name
        found[info] = name
    return found


def made_of() -> str:
    """The release that the table is of, such as 18.6."""
    head = TABLE.read_text().splitlines()[0]
    return head.removeprefix("# Wait events of PostgreSQL ").split(",")[0]


def test_every_event_is_called_what_the_server_calls_it(small: PrivateCluster) -> None:
    """All numbers that a wait may have, put where a backend has its own. An older minor release
    may lack the last ones of a class; a newer one may have some more: then make the table anew.
    """
    asking = script("wait_events")
    servers, ours = asking.without_repeats(asking.asked(small)), table()
    assert len(servers) > 200
    assert servers.items() <= ours.items(), "scripts/wait-events makes the table anew"
    missing = ours.keys() - servers.keys()
    if asking.version(small) == made_of():
        assert not missing
    for info in missing:
        assert info > max(number for number in servers if number >> 24 == info >> 24)


@pytest.mark.pg(">= 17")
def test_the_server_lists_the_same_events(small: PrivateCluster) -> None:
    """pg_wait_events, which has no numbers, but names what extensions registered."""
    with small.connect() as connection:
        rows = connection.execute("select type, name from pg_wait_events").fetchall()
    assert len(rows) == len(set(rows))
    ours = set(table().values())
    assert set(rows) <= ours
    if script("wait_events").version(small) == made_of():
        assert set(rows) == ours


def of_memory(pid: int) -> WaitEvent | None:
    where = binary.pointer(pid, binary.variable_address(pid, "my_wait_event_info"))
    (info,) = struct.unpack("=I", binary.read_memory(pid, where, 4))
    return wait_events.name(PG_VERSION, info)


def agreed(chief: Connection, pid: int, *expected: tuple[str, str]) -> None:
    """By its memory and by pg_stat_activity alike, a process comes to wait for one of these."""
    both: list[object] = []

    def look() -> bool:
        both[:] = of_memory(pid), chief.execute(NAMED, (pid,)).fetchone()
        return both[0] == both[1] and both[0] in expected

    wait_for(look, instead=lambda: both)


def sleeps(connection: Connection) -> None:
    connection.execute("select pg_sleep(600)")


def wants_the_table(connection: Connection) -> None:
    connection.execute("select id from t")


def wants_the_row(connection: Connection) -> None:
    connection.execute("update t set id = 3")


def wants_the_number(connection: Connection) -> None:
    connection.execute("select pg_advisory_lock(4711)")


def sends_nothing(connection: Connection) -> None:
    """A client that begins to copy, and then is slow."""
    with connection.cursor() as cursor, cursor.copy("copy t from stdin") as copy:
        copy.write_row((1,))
        forever.wait()


def takes_nothing(connection: Connection) -> None:
    """A client that asks for much, and then does not read."""
    connection.pgconn.send_query(b"select repeat('x', 1000) from generate_series(1, 100000)")
    forever.wait()


forever = threading.Event()


@pytest.mark.parametrize(
    ("held", "does", "expected"),
    [
        ("", sleeps, ("Timeout", "PgSleep")),
        ("lock table t", wants_the_table, ("Lock", "relation")),
        ("update t set id = 2", wants_the_row, ("Lock", "transactionid")),
        ("select pg_advisory_lock(4711)", wants_the_number, ("Lock", "advisory")),
        ("", sends_nothing, ("Client", "ClientRead")),
        ("", takes_nothing, ("Client", "ClientWrite")),
    ],
)
def test_waits_of_a_backend(
    small: PrivateCluster,
    held: str,
    does: Callable[[Connection], None],
    expected: tuple[str, str],
) -> None:
    forever.clear()
    with small.connect() as chief, small.connect(autocommit=False) as holder:
        if held:
            holder.execute(held)
        waiting = small.connect()
        pid = waiting.info.backend_pid
        agreed(chief, pid, ("Client", "ClientRead"))  # it is idle

        def go_on() -> None:
            with suppress(psycopg.Error):
                does(waiting)

        thread = threading.Thread(target=go_on)
        thread.start()
        try:
            active = f"select state from pg_stat_activity where pid = {pid}"
            wait_for(lambda: chief.execute(active).fetchone() == ("active",))
            agreed(chief, pid, expected)
        finally:
            chief.execute("select pg_terminate_backend(%s)", (pid,))
            forever.set()
            thread.join()
            with suppress(psycopg.Error):
                waiting.close()
        holder.rollback()


IDLE = {
    "checkpointer": ["CheckpointerMain"],
    "background writer": ["BgwriterMain", "BgwriterHibernate"],
    "walwriter": ["WalWriterMain"],
    "autovacuum launcher": ["AutovacuumMain"],
    "logical replication launcher": ["LogicalLauncherMain"],
} | ({"io worker": ["IoWorkerMain"]} if PG_VERSION >= 18 else {})
"""What background processes wait for when there is nothing to do, by backend_type. Until 16 some
were written otherwise."""
UNTIL_16 = {"Bgwriter": "BgWriter", "Autovacuum": "AutoVacuum"}


def test_waits_of_background_processes(small: PrivateCluster) -> None:
    with small.connect() as chief:
        pids = dict(chief.execute(OTHERS).fetchall())
        assert set(pids.values()) >= IDLE.keys()
        for pid, backend_type in pids.items():
            events = IDLE.get(backend_type, [])
            for now, before in UNTIL_16.items() if PG_VERSION <= 16 else ():
                events = [event.replace(now, before) for event in events]
            if events:
                agreed(chief, pid, *(("Activity", event) for event in events))
