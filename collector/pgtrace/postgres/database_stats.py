"""How each database fared with shared_buffers during a session, as pg_stat_database has it."""

from typing import NamedTuple

from ..model.capture import Buffers
from .connection import Asked


class Row(NamedTuple):
    """One row of pg_stat_database; of database 0 are relations that all share."""

    datid: int
    stats_reset: float | None
    """In seconds since the epoch."""
    datname: str | None
    hit: int
    read: int


def ask(connection: Asked) -> list[Row]:
    """All databases now."""
    return [Row(*row) for row in connection.ask("buffers")]


def between(first: list[Row], last: list[Row]) -> list[Buffers]:
    """What came between; databases whose numbers were reset meanwhile are left out."""
    before = {(row.datid, row.stats_reset): row for row in first}
    found = []
    for row in last:
        began = before.get((row.datid, row.stats_reset))
        if began and row.hit >= began.hit and row.read >= began.read:
            found.append(Buffers(row.datname, row.hit - began.hit, row.read - began.read))
    return found
