"""Who holds a lock that a process waits for, by a connection."""

from collections.abc import Iterable
from typing import NamedTuple

from ..errors import ConnectionLostError, DatabaseError
from .connection import Asked, Number, Pid


class Blocker(NamedTuple):
    """One row of pg_stat_activity; None is what the role may not see, or what there is not."""

    pid: Pid
    usename: str | None
    application_name: str | None
    state: str | None
    state_s: Number | None
    """For how long it is in that state, seconds."""
    query: str | None
    """What it runs, or ran last."""


MOST = 3
"""So many are told, as in queries/blockers.sql."""
PREPARED = Blocker(0, None, None, None, None, None)
"""A prepared transaction, which holds its locks without a process: its pid is 0."""


Wait = tuple[int, frozenset[int]]
"""A query, by when it began, that others, by their pids, keep from a lock."""


def wait_of(began_ns: int, holders: Iterable[Blocker]) -> Wait:
    """By what one wait is known from the next, whatever the order in which it is told who holds the
    lock.
    """
    return began_ns, frozenset(each.pid for each in holders)


class Blockers:
    """Asks as long as it is wanted. A lock manager that is asked is locked for a moment."""

    def __init__(self) -> None:
        self.of = 0
        """Whose are wanted, by its pid as the server counts; 0: nobody's."""
        self._found: tuple[int, list[Blocker]] = 0, []

    def found(self) -> list[Blocker]:
        """Who they were when it was last asked."""
        of, found = self._found
        return found if of and of == self.of else []

    def ask(self, connection: Asked) -> None:
        """Once, if they are wanted. Raises ConnectionLostError."""
        of = self.of
        if not of:
            return
        try:
            self._found = of, connection.ask("blockers", Blocker, pid=of)
        except ConnectionLostError:
            raise
        except DatabaseError:
            self._found = of, []
