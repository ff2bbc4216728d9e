"""Database connections, where one was asked for: read-only, short, and of the right server."""

import os
import socket
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from struct import Struct
from typing import TYPE_CHECKING, Annotated, Any, Protocol, TypeVar

import msgspec

from ..errors import ConnectionLostError, DatabaseError, UsageError
from ..linux import foreign_files
from ..terminal_text import decode
from .discovery import Server

if TYPE_CHECKING:
    import psycopg

_R = TypeVar("_R")

TIMEOUT_S = 10
_QUERIES = Path(__file__).parent / "queries"
_UCRED = Struct("iII")
# Local to a transaction: behind a pooler the session is somebody else's next
APPLICATION_NAME = "pgtrace"
OWN_PATH = "-c search_path=pg_catalog,pg_temp"
"""For options of a session, where poolers are of no use: whoever owns a database sets another."""
_QUIETLY = """
set local transaction_read_only = on;
set local jit = off;
set local max_parallel_workers = 0;
"""
_CAREFULLY = f"""
{_QUIETLY}
set local search_path = pg_catalog, pg_temp;
set local statement_timeout = '10s';
set local lock_timeout = '1s';
"""
# max_parallel_workers is nothing that the planner looks at: plans are those that the role has
_BRIEFLY = f"""
{_QUIETLY}
set local statement_timeout = '5s';
set local lock_timeout = '500ms';
"""


Oid = Annotated[int, msgspec.Meta(ge=0, le=(1 << 32) - 1)]
Pid = Annotated[int, msgspec.Meta(ge=0, le=(1 << 31) - 1)]
Count = Annotated[int, msgspec.Meta(ge=0, le=(1 << 63) - 1)]
Id = Annotated[int, msgspec.Meta(ge=-(1 << 63), le=(1 << 63) - 1)]
Number = Annotated[float, msgspec.Meta(ge=-1e100, le=1e100)]
"""Neither NaN nor infinite."""


class Asked(Protocol):
    """A connection that is asked what queries/ has. Every failure is a DatabaseError of one line,
    a ConnectionLostError if nothing more can be asked.

    One is closed by the context manager that gave it.
    """

    def ask(self, query: str, row: type[_R], *, schema: str = "", **parameters: object) -> list[_R]:
        """The rows of queries/QUERY.sql, each of which has to be a `row`; `schema`, quoted, is put
        where the query has {schema}."""


class Connect(Protocol):
    """How to get one, to the usual database or another one. `opened` is told the pid of the
    backend, as the server counts, if it serves nobody else.
    """

    def __call__(
        self, dbname: str | None = None, opened: Callable[[int], None] | None = None
    ) -> AbstractContextManager[Asked]:
        """Raises DatabaseError."""


def query_text(query: str, schema: str = "") -> str:
    """The text of queries/QUERY.sql."""
    return (_QUERIES / f"{query}.sql").read_text().replace("{schema}", schema)


def checked(rows: Iterable[tuple[Any, ...]], row: type[_R], query: str) -> list[_R]:
    """The same rows, if they are what the query gives: a server may be anybody's, and one file has
    the names of all. What it said stays out of the error.
    """
    try:
        return [msgspec.convert(each, row) for each in rows]
    except msgspec.ValidationError:
        raise DatabaseError(f"what came is no answer to the query for {query}") from None


def only(rows: list[_R]) -> _R:
    """The one row that there is. Raises DatabaseError."""
    if len(rows) != 1:
        raise DatabaseError(f"{len(rows)} rows came in the place of one")
    return rows[0]


class Connection:
    """One connection. Every failure is a DatabaseError of one line."""

    def __init__(self, connection: "psycopg.Connection[Any]") -> None:
        self._connection = connection
        server = connection.info.parameter_status("server_encoding")
        # What is in a database of no encoding may be no UTF-8: then it is handed over as it is
        self._encoding = "SQL_ASCII" if server == "SQL_ASCII" else "UTF8"

    def ask(self, query: str, row: type[_R], *, schema: str = "", **parameters: object) -> list[_R]:
        """As Asked.ask()."""
        return checked(self.rows(query_text(query, schema), parameters), row, query)

    def rows(self, text: str, parameters: dict[str, Any]) -> list[tuple[Any, ...]]:
        """What a query of ours gives; bytes are made text, as they are shown."""
        known = {"encoding": self._encoding} | parameters
        with _one_line(self._connection), self._connection.transaction():
            self._connection.execute(_CAREFULLY)
            found = self._connection.execute(text.encode(), known)
            rows = found.fetchall()
        return [tuple(decode(v) if isinstance(v, bytes) else v for v in row) for row in rows]

    @contextmanager
    def undone(self) -> Iterator["psycopg.Connection[Any]"]:
        """A transaction with the role's own search_path, which is rolled back in any case.

        For what runs functions of others: explain_roles.py says as whom.
        """
        with _one_line(self._connection), self._connection.transaction(force_rollback=True):
            self._connection.execute(_BRIEFLY)
            yield self._connection

    @contextmanager
    def given_up_after(self, seconds: float) -> Iterator[threading.Event]:
        """Lose the connection then: functions of others may catch every timeout of the server. The
        event tells that it was lost for that.
        """
        given_up = threading.Event()

        def give_up() -> None:
            given_up.set()
            own.shutdown(socket.SHUT_RDWR)

        with socket.socket(fileno=os.dup(self._connection.pgconn.socket)) as own:
            timer = threading.Timer(seconds, give_up)
            timer.daemon = True
            timer.start()
            try:
                yield given_up
            finally:
                timer.cancel()
                timer.join()

    def may_become_anybody(self) -> bool:
        """Whether a superuser connected, whatever role the session has by now.

        Only the server knows: startup options, settings of the role and poolers change what is
        seen of it.
        """
        from psycopg import errors

        try:
            with _one_line(self._connection), self._connection.transaction(force_rollback=True):
                self._connection.execute("set local session authorization pg_monitor")
            return True
        except DatabaseError as error:
            if isinstance(error.__cause__, errors.InsufficientPrivilege):
                return False
            raise

    def words(self, **changed: str) -> str:
        """A connection string that leads there too, without a password; some of it changed."""
        from psycopg.conninfo import make_conninfo

        info = self._connection.info
        known = {"host": info.host, "port": str(info.port), "user": info.user}
        known |= {"dbname": info.dbname} | changed
        return make_conninfo("", **{name: value for name, value in known.items() if value})

    def own_backend_pid(self) -> int | None:
        """The backend that serves this connection, as the server counts, if it serves no other."""
        with _one_line(self._connection):
            row = self._connection.execute("select pg_catalog.pg_backend_pid()").fetchone()
        # A pooler shows a pid of its own: behind it backends are everybody's
        shown = self._connection.info.backend_pid
        return shown if row == (shown,) else None

    def peer_pid(self) -> int:
        """The process that listens at the other end of a Unix-domain socket."""
        with socket.socket(fileno=os.dup(self._connection.pgconn.socket)) as own:
            peer = own.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _UCRED.size)
        return int(_UCRED.unpack(peer)[0])


def check_dsn(dsn: str) -> None:
    """Raise UsageError if it is no connection string, or a URL in which libpq would take a part of
    the password for something else. In words of our own: libpq's quote what stands there, which
    files and mails would keep.
    """
    import psycopg
    from psycopg.conninfo import conninfo_to_dict

    try:
        conninfo_to_dict(dsn)
        is_url = dsn.startswith(("postgresql://", "postgres://"))
        authority, _, path = dsn.partition("://")[2].partition("/")
        if not is_url or (authority.count("@") < 2 and "@" not in path.partition("?")[0]):
            return
    except (psycopg.Error, UnicodeError):
        pass
    raise UsageError(
        "--dsn is no connection string: in a URL, @ / : % and spaces of a password are "
        "percent-encoded, as in %40; elsewhere, a value with spaces stands in single quotes"
    )


@contextmanager
def connect(
    dsn: str, dbname: str | None = None, opened: Callable[[int], None] | None = None
) -> Iterator[Connection]:
    """Connect as libpq does, to another database than that of `dsn` if one is named.

    `opened` is told the pid of the backend, as the server counts, if it serves nobody else.
    """
    try:
        import psycopg
    except ImportError as error:
        from ..remedies import without_psycopg

        raise DatabaseError(without_psycopg(error)) from None
    try:
        check_dsn(dsn)
    except UsageError as error:
        raise DatabaseError(str(error)) from None
    with _one_line():
        connection = psycopg.connect(
            dsn,
            autocommit=True,
            prepare_threshold=None,
            connect_timeout=TIMEOUT_S,
            client_encoding="UTF8",
            application_name=APPLICATION_NAME,
            dbname=dbname,
        )
    try:
        made = Connection(connection)
        if opened and (pid := made.own_backend_pid()):
            opened(pid)
        yield made
    finally:
        connection.close()


@contextmanager
def _one_line(made: "psycopg.Connection[Any] | None" = None) -> Iterator[None]:
    import psycopg

    try:
        yield
    except (psycopg.Error, OSError, UnicodeError) as error:
        kind = ConnectionLostError if made and made.closed else DatabaseError
        raise kind(str(error).strip().partition("\n")[0]) from error


def system_identifier(server: Server) -> int | None:
    """What initdb gave a server, and its standbys share; None if it cannot be read."""
    try:
        uid = server.postmaster.uid
        control = foreign_files.read(server.directory, "global/pg_control", uid, 8)
        return int.from_bytes(control, sys.byteorder)
    except OSError:
        return None
