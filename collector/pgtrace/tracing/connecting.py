"""Which connection there is for names."""

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import NamedTuple

from ..errors import DatabaseError
from ..postgres.connection import Asked, Connect, connect
from ..postgres.discovery import Server
from ..postgres.owners_connection import OwnersConnections
from .options import TraceOptions


class Connecting(NamedTuple):
    """How to connect, and to which of these servers each leads; or why nobody does."""

    connects: tuple[tuple[Connect, Sequence[Server]], ...] = ()
    close: Callable[[], None] = lambda: None
    """Ends it all."""
    why_not: str = ""


def connecting(options: TraceOptions, servers: Sequence[Server]) -> Connecting:
    """As the options say. With children that have nothing of what is opened later."""
    if options.dsn is not None:
        return Connecting(((partial(_by_dsn, options.dsn), servers),))
    if not options.as_owner:
        return Connecting(why_not="no connection was wanted")
    if not servers:
        return Connecting(why_not="no server is traced")
    with ExitStack() as stack:
        made: list[tuple[Connect, Sequence[Server]]] = []
        for server in servers:
            try:
                owners = OwnersConnections(server)
            except OSError as error:
                return Connecting(why_not=f"no child could be started: {error.strerror}")
            stack.callback(owners.close)
            made.append((owners.connect, (server,)))
        return Connecting(tuple(made), stack.pop_all().close)


@contextmanager
def _by_dsn(
    dsn: str, dbname: str | None = None, opened: Callable[[int], None] | None = None
) -> Iterator[Asked]:
    with ExitStack() as stack:
        try:
            made = stack.enter_context(connect(dsn, dbname, opened))
        except DatabaseError as error:
            raise DatabaseError(f"{error}{_better(str(error))}") from error
        yield made


def _better(refused: str) -> str:
    """sudo takes PGUSER away, and `peer` lets root in as nobody else."""
    if os.geteuid() or not ('"root"' in refused or "Peer authentication" in refused):
        return ""
    return (
        "; leave --dsn out: then pgtrace connects as the server's owner; or connect by TCP "
        "(host=localhost) as a role whose password is in /root/.pgpass"
    )
