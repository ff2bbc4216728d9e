"""Names from a database connection, where one is given: titles do not quote them."""

import threading
import time
from pathlib import Path
from typing import NamedTuple

_QUERY = Path(__file__).parent / "queries" / "activity.sql"
_EVERY_S = 1.0
_TIMEOUT_S = 10


class Name(NamedTuple):
    """One row of pg_stat_activity; None is what the role may not see, or what there is not."""

    pid: int
    datname: str | None
    usename: str | None
    application_name: str | None
    backend_type: str | None
    leader_pid: int | None


class Names:
    """Asks about once a second, in a thread of its own: tracing never waits for the server.

    `dsn` is libpq's, and what it leaves out comes from libpq's environment. `failure` says why
    there are no names.
    """

    def __init__(self, dsn: str) -> None:
        self.failure: str | None = None
        self._known: dict[int, Name] = {}
        self._leave = threading.Event()
        self._thread = threading.Thread(
            target=self._ask, args=(dsn,), name="pgtrace-names", daemon=True
        )
        self._thread.start()

    def of(self, pid: int) -> Name | None:
        """What was last heard of a process, by its pid as the server counts."""
        return self._known.get(pid)

    def close(self) -> None:
        """Ask no more."""
        self._leave.set()
        self._thread.join(2)

    def _ask(self, dsn: str) -> None:
        try:
            import psycopg
        except ImportError:
            self.failure = "psycopg is not installed: pip install 'pgtrace[names]'"
            return
        try:
            with psycopg.connect(
                dsn,
                autocommit=True,
                connect_timeout=_TIMEOUT_S,
                fallback_application_name="pgtrace",
            ) as connection:
                query = _QUERY.read_bytes()
                while True:
                    began = time.monotonic()
                    for row in connection.execute(query).fetchall():
                        self._known[row[0]] = Name(*row)
                    if self._leave.wait(max(0.0, _EVERY_S - (time.monotonic() - began))):
                        return
        except psycopg.Error as error:
            self.failure = str(error).strip().partition("\n")[0]
