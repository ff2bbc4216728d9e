"""Which connection there is for names."""

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
    """How to connect, what ends it all; or why nobody does."""

    connect: Connect | None = None
    close: Callable[[], None] = lambda: None
    why_not: str = ""


def connecting(options: TraceOptions, servers: Sequence[Server]) -> Connecting:
    """As the options say. With a child that has nothing of what is opened later."""
    if options.dsn is not None:
        return Connecting(partial(_by_dsn, options.dsn))
    if not options.as_owner:
        return Connecting(why_not="no connection was wanted")
    if len(servers) != 1:
        return Connecting(why_not="of several servers one would have to be named by --dsn")
    try:
        owners = OwnersConnections(servers[0])
    except OSError as error:
        return Connecting(why_not=f"no child could be started: {error.strerror}")
    return Connecting(owners.connect, owners.close)


@contextmanager
def _by_dsn(
    dsn: str, dbname: str | None = None, opened: Callable[[int], None] | None = None
) -> Iterator[Asked]:
    with ExitStack() as stack:
        try:
            made = stack.enter_context(connect(dsn, dbname, opened))
        except DatabaseError as error:
            if '"root"' in str(error):  # sudo takes PGUSER away, and peer lets no other role in
                better = "leave --dsn out: then pgtrace connects as the server's owner"
                raise DatabaseError(f"{error}; {better}") from error
            raise
        yield made
