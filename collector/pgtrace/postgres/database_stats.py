"""How each database fared with shared_buffers during a session, as pg_stat_database has it."""

from collections.abc import Collection
from typing import NamedTuple

from ..model.capture import Buffers
from .connection import Asked, Count, Number, Oid


class Row(NamedTuple):
    """One row of pg_stat_database; of database 0 are relations that all share."""

    datid: Oid
    stats_reset: Number | None
    """In seconds since the epoch."""
    datname: str | None
    hit: Count
    read: Count


def ask(connection: Asked) -> list[Row]:
    """All databases now."""
    return connection.ask("buffers", Row)


def of_databases(every: list[Buffers], datnames: Collection[str]) -> list[Buffers]:
    """Those of these databases; all if none is named."""
    return [each for each in every if not datnames or each.datname in datnames]


def between(first: list[Row], last: list[Row]) -> list[Buffers]:
    """What came between, of databases that are still there. None of it is known if the numbers of
    one were reset meanwhile, as they are after a crash: then the list is empty.
    """
    before = {row.datid: row for row in first}
    found = []
    for row in last:
        began = before.get(row.datid) or row._replace(hit=0, read=0)
        if (row.datid in before and row.stats_reset != began.stats_reset) or (
            row.hit < began.hit or row.read < began.read
        ):
            return []
        found.append(Buffers(row.datname, row.hit - began.hit, row.read - began.read))
    return found
