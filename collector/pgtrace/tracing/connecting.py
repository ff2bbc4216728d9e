"""Which connection there is for names."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

from ..postgres.connection import Connect, connect
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
        return Connecting(partial(connect, options.dsn))
    if not options.as_owner:
        return Connecting(why_not="no connection was wanted")
    if len(servers) != 1:
        return Connecting(why_not="of several servers one would have to be named by --dsn")
    try:
        owners = OwnersConnections(servers[0])
    except OSError as error:
        return Connecting(why_not=f"no child could be started: {error.strerror}")
    return Connecting(owners.connect, owners.close)
