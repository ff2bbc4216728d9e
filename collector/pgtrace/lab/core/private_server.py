"""The server that an experiment runs on: a private one, restarted for every run.

existing_server.py has the other kind, a server that was there before.
"""

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from ...errors import PgtraceError, UnsupportedError, UsageError
from ...model.capture import Server
from ...postgres.connection import Connection
from .cpu_affinity import Pins
from .private_cluster import WAIT_S, PrivateCluster
from .storages import Place
from .undo_log import Changes, Cluster

if TYPE_CHECKING:
    import psycopg

BASE = Path("/var/tmp")
"""Unlike /tmp never in memory, where nothing is cold."""
WORKED_IN = 512 << 20
"""Bytes for an empty cluster and its log of transactions."""
SETTINGS: Mapping[str, object] = {
    "shared_buffers": "32MB",
    # one process makes all reads of a query, in the order of the table
    "max_parallel_workers_per_gather": 0,
    "jit": False,
    "synchronize_seqscans": False,
    # nobody else reads, writes or evicts
    "autovacuum": False,
    "bgwriter_lru_maxpages": 0,
    "checkpoint_timeout": "1d",
    "max_wal_size": "4GB",
    # what is loaded need not be logged: it is thrown away
    "wal_level": "minimal",
    "max_wal_senders": 0,
    "fsync": False,
    "full_page_writes": False,
    "maintenance_work_mem": "256MB",
}


# Each row fills a block, and is found by the index: a sequential scan would use few buffers.
_MAKE_FILLER = """
create table public.lab_filler (id int, fill text);
alter table public.lab_filler alter fill set storage plain;
insert into public.lab_filler
select i, repeat('x', current_setting('block_size')::int * 3 / 4)
from generate_series(1, (select setting::int from pg_settings where name = 'shared_buffers')) as i;
create index on public.lab_filler (id);
vacuum (freeze, analyze) public.lab_filler;
"""
_TOUCH_BUFFERS = """
set enable_seqscan = off;
set enable_bitmapscan = off;
select sum(length(fill)) from public.lab_filler where id > 0;
reset enable_seqscan;
reset enable_bitmapscan;
"""


class Space(NamedTuple):
    """Where a table of one storage goes."""

    tablespace: str
    """The server's name of it; `pg_default` if the storage has none of its own."""
    schema: str
    location: Path | None
    """Its directory as seen from here."""


class LabServer(Protocol):
    """What an experiment asks of a server."""

    @property
    def identity(self) -> Server:
        """What the result says of it."""

    @property
    def datadir(self) -> Path:
        """Its data directory, as seen from here."""

    @property
    def shared_buffers(self) -> str:
        """Its setting."""

    @property
    def restarts(self) -> bool:
        """Whether every run finds empty shared buffers."""

    @property
    def spaces(self) -> Mapping[str, Space]:
        """By the name of the storage."""

    def connect(self, options: str = "") -> "psycopg.Connection[Any]":
        """A connection for set-up, in autocommit."""

    def fresh(self, options: str = "") -> "psycopg.Connection[Any]":
        """A connection to be measured: of a server just started, where that can be."""


class PrivateServer:
    """A cluster of its own, with a tablespace in each place; `settings` come on top of SETTINGS."""

    restarts = True

    def __init__(self, cluster: PrivateCluster, pins: Pins, *, touched: bool = True) -> None:
        self._cluster = cluster
        self._pins = pins
        self._touched = touched
        self.spaces: dict[str, Space] = {}

    @property
    def identity(self) -> Server:
        """What the result says of it."""
        with self.connect() as connection:
            return identity(connection, self._cluster.postmaster_pid, self.datadir)

    @property
    def shared_buffers(self) -> str:
        """Its setting."""
        with self.connect() as connection:
            return show(connection, "shared_buffers")

    @property
    def datadir(self) -> Path:
        """Its data directory, as seen from here."""
        return self._cluster.datadir

    @property
    def cluster(self) -> PrivateCluster:
        """The cluster itself."""
        return self._cluster

    def connect(self, options: str = "") -> "psycopg.Connection[Any]":
        """A connection for set-up, in autocommit."""
        return self._cluster.connect(options=options)

    def fresh(self, options: str = "") -> "psycopg.Connection[Any]":
        """The first connection of a server just started again: nothing of any storage is in shared
        buffers, and, if it is `touched`, each buffer was touched once. Otherwise the first read
        into each takes page faults, some µs, which say nothing of the storage.
        """
        self._cluster.stop()
        with self._pins.for_server():
            self._cluster.start()
        backend = self.connect(options)
        if self._touched:
            # No signal leaves this work, while a device may have another read-ahead
            with Connection(backend).given_up_after(WAIT_S):
                _execute_each(backend, _TOUCH_BUFFERS)
        return backend

    def prepare(self) -> None:
        """Make what fresh() needs."""
        if self._touched:
            with self.connect() as connection:
                _execute_each(connection, _MAKE_FILLER)

    def add_space(self, place: Place, directory: Path | None) -> None:
        """Make a tablespace in a directory, if there is one, and a schema for the storage."""
        from psycopg import sql

        name, schema = f"lab_{place.name}", f"lab_{place.name}"
        with self.connect() as connection:
            if directory:
                connection.execute(
                    sql.SQL("create tablespace {} location {}").format(
                        sql.Identifier(name), sql.Literal(str(self._cluster.inside(directory)))
                    )
                )
            connection.execute(sql.SQL("create schema {}").format(sql.Identifier(schema)))
        tablespace = name if directory else "pg_default"
        self.spaces[place.name] = Space(tablespace, schema, directory)


def _execute_each(connection: "psycopg.Connection[Any]", statements: str) -> None:
    for statement in statements.split(";"):
        if statement.strip():
            connection.execute(statement.encode())


def show(connection: "psycopg.Connection[Any]", setting: str) -> str:
    """The value of a server's setting, as SHOW prints it."""
    row = connection.execute("select pg_catalog.current_setting(%s)", (setting,)).fetchone()
    return str(row[0]) if row else ""


def identity(connection: "psycopg.Connection[Any]", postmaster_pid: int, datadir: Path) -> Server:
    """What a result says of the server that a connection leads to."""
    version = show(connection, "server_version").split()[0]
    return Server(version, postmaster_pid, str(datadir), int(show(connection, "block_size")))


def import_psycopg() -> Any:
    """Import it: every experiment needs a connection. Raises UnsupportedError."""
    try:
        import psycopg
    except ImportError as error:
        from ...remedies import without_psycopg

        raise UnsupportedError(without_psycopg(error)) from None
    return psycopg


def check_private(
    bindir: Path | None,
    user: str,
    *,
    option: str = "--pg-bin",
    programs: Sequence[str] = ("postgres", "initdb", "pg_ctl"),
) -> PrivateCluster:
    """A cluster that is not made yet; raises what speaks against making one, by the option that
    named the folder of its `programs`.

    UnsupportedError if PostgreSQL, its user or psycopg is missing, UsageError for a wrong option.
    """
    import_psycopg()
    if bindir is not None:
        for program in programs:
            if not os.access(bindir / program, os.X_OK):
                raise UnsupportedError(
                    f"{option} {bindir}: there is no {program} in it; name the folder of a "
                    "server's programs, such as /usr/lib/postgresql/15/bin"
                )
    cluster = PrivateCluster(bindir=bindir, directory=BASE, user=user)
    try:
        uid, _ = cluster.ids()
    except UnsupportedError:
        if user == "postgres":
            raise
        raise UsageError(f"--user {user}: there is no such user") from None
    if uid == 0:
        raise UsageError(f"--user {user}: PostgreSQL refuses to run as root; name another user")
    return cluster


@contextmanager
def private_server(
    changes: Changes,
    places: Sequence[Place],
    pins: Pins,
    directories: Mapping[str, Path],
    *,
    settings: Mapping[str, object] | None = None,
    bindir: Path | None = None,
    user: str = "postgres",
    touched: bool = True,
) -> Iterator[PrivateServer]:
    """Run one for the block, removed at any end, with tablespaces in these directories."""
    cluster = PrivateCluster(
        {**SETTINGS, **(settings or {})},
        bindir=bindir,
        directory=BASE,
        user=user,
        volumes=list(directories.values()),
    )
    with pins.for_server():
        cluster.__enter__()
    try:
        changes.will(Cluster.of(cluster))
        server = PrivateServer(cluster, pins, touched=touched)
        server.prepare()
        for place in places:
            server.add_space(place, directories.get(place.name))
        yield server
    finally:
        cluster.close()


def memory_available() -> int:
    """Bytes that could hold pages, as the kernel guesses: MemAvailable."""
    for line in Path("/proc/meminfo").read_text().splitlines():
        name, _, rest = line.partition(":")
        if name == "MemAvailable":
            return int(rest.split()[0]) << 10
    raise PgtraceError("/proc/meminfo does not say MemAvailable")
