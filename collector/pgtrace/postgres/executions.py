"""How often each statement ran during a session, as pg_stat_statements has it.

The light tier does not count calls. What is asked is there since version 1.9 of the extension,
PostgreSQL 14's.
"""

from collections import defaultdict
from collections.abc import Collection
from typing import NamedTuple

from ..errors import ConnectionLostError, DatabaseError
from ..model.capture import Executions
from .connection import Asked, Count, Id, Number, Oid, only

_MOST = 1 << 63


class Row(NamedTuple):
    """One row of pg_stat_statements; the id is None of what the role may not see."""

    query_id: Id | None
    dbid: Oid
    userid: Oid
    calls: Count
    total_exec_ms: Number


class Look(NamedTuple):
    """What it had at one moment."""

    stats_reset: float
    """In seconds since the epoch."""
    dealloc: int
    rows: list[Row]


class Counter:
    """Asks at both ends of a session. `missing` says why not all is known."""

    def __init__(self) -> None:
        self._first: Look | None = None
        self.missing: str | None = None

    def begin(self, connection: Asked) -> None:
        """Before what is to be counted, or at once where the connection comes late."""
        self._first = self._first or self._look(connection)

    def finish(self, connection: Asked, query_ids: Collection[int]) -> list[Executions]:
        """What these statements were since, on the whole server."""
        last = self._look(connection) if self._first else None
        if not self._first or not last:
            return []
        if last.stats_reset != self._first.stats_reset:
            self.missing = "the numbers of pg_stat_statements were reset meanwhile"
            return []
        if forgot := last.dealloc - self._first.dealloc:
            times = "once" if forgot == 1 else f"{forgot} times"
            self.missing = f"pg_stat_statements had no room and forgot some {times}"
        elif any(row.query_id is None for row in last.rows):
            self.missing = "the role may not see those of others: grant it pg_read_all_stats"
        return between(self._first.rows, last.rows, query_ids)

    def _look(self, connection: Asked) -> Look | None:
        try:
            found = connection.ask("executions_of", tuple[str, bool])
            if not found:
                self.missing = "pg_stat_statements is not in the connection's database"
                return None
            schema, is_new_enough = only(found)
            if not is_new_enough:
                self.missing = "pg_stat_statements is older than 1.9: alter extension … update"
                return None
            since = connection.ask("executions_since", tuple[Number, Count], schema=schema)
            reset, dealloc = only(since)
            rows = connection.ask("executions", Row, schema=schema)
        except ConnectionLostError:
            raise
        except DatabaseError as error:  # such as: it is not loaded
            self.missing = f"pg_stat_statements: {error}"
            return None
        self.missing = None
        return Look(reset, dealloc, rows)


def between(
    first: Collection[Row], last: Collection[Row], query_ids: Collection[int]
) -> list[Executions]:
    """What came between of these statements, over all databases and roles; ids that were reset
    meanwhile are left out, and those of which there is more than a capture may say.
    """
    before = {row[:3]: row for row in first}
    wanted, reset = frozenset(query_ids), set[int]()
    calls: defaultdict[int, int] = defaultdict(int)
    total_ms: defaultdict[int, float] = defaultdict(float)
    for row in last:
        if row.query_id is None or row.query_id not in wanted:
            continue
        began = before.get(row[:3]) or row._replace(calls=0, total_exec_ms=0.0)
        if row.calls < began.calls or row.total_exec_ms < began.total_exec_ms:
            reset.add(row.query_id)
        calls[row.query_id] += row.calls - began.calls
        total_ms[row.query_id] += row.total_exec_ms - began.total_exec_ms
    return [
        Executions(query_id, calls[query_id], round(total_ms[query_id] * 1e6))
        for query_id in sorted(calls, key=lambda each: -total_ms[each])
        if query_id not in reset and max(calls[query_id], total_ms[query_id] * 1e6) < _MOST
    ]
