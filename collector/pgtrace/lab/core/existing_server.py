"""A server that was there before: tablespaces and schemas of our own, and nothing else of it.

It is not restarted, so that what an earlier run read may be in shared buffers: each run reads ids
of its own, and what was found there is counted.
"""

import os
import pwd
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...errors import (
    DatabaseError,
    PermissionDeniedError,
    TargetError,
    UnsupportedError,
    UsageError,
)
from ...model.capture import Server as ServerData
from ...postgres import discovery
from ...postgres.connection import APPLICATION_NAME, OWN_PATH, check_dsn, system_identifier
from ...postgres.hidden_servers import hidden_servers
from .cpu_affinity import Pins
from .private_server import Space, identity, import_psycopg, show
from .storages import Place
from .undo_log import Changes, Statement

if TYPE_CHECKING:
    import psycopg

_SESSION = (
    f"{OWN_PATH} -c max_parallel_workers_per_gather=0 -c jit=off -c synchronize_seqscans=off "
    "-c statement_timeout=0"
)
_BUFFERS = "select pg_catalog.pg_size_bytes(pg_catalog.current_setting('shared_buffers'))"
_IS_SUPERUSER = "select rolsuper from pg_catalog.pg_roles where rolname = current_user"
_OTHERS = """
select count(*) from pg_catalog.pg_stat_activity
where backend_type = 'client backend' and pid <> pg_catalog.pg_backend_pid()
"""


@dataclass(frozen=True)
class Given:
    """A server that was found by its connection string."""

    conninfo: str
    """Without a password: that is in libpq's environment."""
    server: discovery.Server
    shared_buffers: int
    """Their size in bytes."""

    @property
    def ids(self) -> tuple[int, int]:
        """User and group that its files belong to."""
        status = self.server.directory.stat()
        return status.st_uid, status.st_gid

    @property
    def user(self) -> str:
        """The name of that user."""
        try:
            return pwd.getpwuid(self.ids[0]).pw_name
        except KeyError:
            return str(self.ids[0])

    @property
    def version(self) -> str:
        """Such as `15.18`."""
        return self.server.version or "unknown"


def find(dsn: str, *, shared_host: bool) -> Given:
    """Look at the server of a connection string; nothing is changed.

    Raises DatabaseError if it cannot be reached, TargetError if it does not run here,
    PermissionDeniedError if the role may not make tablespaces, UsageError if others are connected
    and `shared_host` does not allow that.
    """
    psycopg = import_psycopg()
    from psycopg.conninfo import conninfo_to_dict, make_conninfo

    try:
        check_dsn(dsn)
        password = conninfo_to_dict(dsn).get("password")
        with psycopg.connect(
            dsn, autocommit=True, options=OWN_PATH, application_name=APPLICATION_NAME
        ) as connection:
            info = connection.info
            if not _one(connection, _IS_SUPERUSER):
                raise PermissionDeniedError(
                    f"--dsn: the role {info.user} is no superuser, which tablespaces need; "
                    "name one that is"
                )
            others = _one(connection, _OTHERS)
            if others and not shared_host:
                who = "1 other client is" if others == 1 else f"{others} other clients are"
                raise UsageError(
                    f"--dsn: {who} connected, whose work an experiment slows and is slowed by; "
                    "--shared-host does it all the same"
                )
            own = _one(connection, "select system_identifier from pg_catalog.pg_control_system()")
            server = _running(own, info.backend_pid)
            buffers = int(_one(connection, _BUFFERS))
            parts = {"host": info.host, "port": info.port, "user": info.user, "dbname": info.dbname}
    except psycopg.Error as error:
        raise DatabaseError(f"--dsn: {str(error).strip().partition(chr(10))[0]}") from error
    if password:
        os.environ["PGPASSWORD"] = str(password)
    with suppress(KeyError):  # of a user without a name libpq could not tell
        # Where a server is away, others may put a socket of theirs in the place of its own
        parts["requirepeer"] = pwd.getpwuid(server.postmaster.uid).pw_name
    return Given(make_conninfo("", **parts), server, buffers)


def _running(identifier: Any, backend_pid: int) -> discovery.Server:
    for server in discovery.servers():
        pids = {backend.process.inner_pid for backend in server.backends()}
        if system_identifier(server) == identifier and backend_pid in pids:
            if not Path(f"/proc/{server.postmaster_pid}/root").samefile("/"):
                raise UnsupportedError(
                    "--dsn: the server runs in another root, such as a container's, whose "
                    "directories have other names; leave --dsn out for a server of its own"
                )
            return server
    hidden = hidden_servers()
    if hidden:
        raise PermissionDeniedError(f"--dsn: no server that you may look into answered: {hidden}")
    raise TargetError(
        "--dsn: no server of this host answered, but one elsewhere, or a pooler; "
        "connect to its own port or socket"
    )


def _one(connection: "psycopg.Connection[Any]", query: str) -> Any:
    row = connection.execute(query.encode()).fetchone()
    return row[0] if row else None


class GivenServer:
    """Serves an experiment beside its other databases."""

    restarts = False

    def __init__(self, given: Given, pins: Pins) -> None:
        self._given = given
        self._pins = pins
        self.spaces: dict[str, Space] = {}

    @property
    def identity(self) -> ServerData:
        """What the result says of it."""
        with self.connect() as connection:
            server = self._given.server
            return identity(connection, server.postmaster_pid, self.datadir)

    @property
    def shared_buffers(self) -> str:
        """Its setting."""
        with self.connect() as connection:
            return show(connection, "shared_buffers")

    @property
    def datadir(self) -> Path:
        """Its data directory."""
        return Path(self._given.server.data_directory)

    def connect(self, options: str = "") -> "psycopg.Connection[Any]":
        """A connection in autocommit, without parallelism and JIT."""
        import psycopg

        options = f"{_SESSION} {options}"
        return psycopg.connect(
            self._given.conninfo,
            autocommit=True,
            options=options,
            application_name=APPLICATION_NAME,
        )

    def fresh(self, options: str = "") -> "psycopg.Connection[Any]":
        """The same, on the CPU that was asked for."""
        connection = self.connect(options)
        self._pins.pin_backend(connection.info.backend_pid)
        return connection

    def add_space(self, changes: Changes, place: Place, directory: Path | None) -> None:
        """Make a tablespace, if there is a directory for it, and a schema."""
        from psycopg import sql

        name = f"pgtrace_lab_{os.getpid()}_{place.name}"
        identifier, literal = sql.Identifier(name), sql.Literal(name)
        with self.connect() as connection:
            if directory:
                self._make(
                    changes,
                    connection,
                    sql.SQL("select 1 from pg_catalog.pg_tablespace where spcname = {}").format(
                        literal
                    ),
                    sql.SQL("drop tablespace {}").format(identifier),
                    sql.SQL("create tablespace {} location {}").format(
                        identifier, sql.Literal(str(directory))
                    ),
                )
            self._make(
                changes,
                connection,
                sql.SQL("select 1 from pg_catalog.pg_namespace where nspname = {}").format(literal),
                sql.SQL("drop schema {} cascade").format(identifier),
                sql.SQL("create schema {}").format(identifier),
            )
        self.spaces[place.name] = Space(name if directory else "pg_default", name, directory)

    def _make(
        self,
        changes: Changes,
        connection: "psycopg.Connection[Any]",
        present: Any,
        drop: Any,
        create: Any,
    ) -> None:
        texts = [statement.as_string(connection) for statement in (present, drop)]
        changes.will(Statement(self._given.conninfo, *texts))
        connection.execute(create)


@contextmanager
def given_server(
    changes: Changes,
    places: Sequence[Place],
    pins: Pins,
    directories: Mapping[str, Path],
    given: Given,
) -> Iterator[GivenServer]:
    """Use it for the block; what is made there, `changes` removes."""
    server = GivenServer(given, pins)
    for place in places:
        server.add_space(changes, place, directories.get(place.name))
    yield server
