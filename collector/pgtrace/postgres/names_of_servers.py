"""Names of all servers that are traced, each by a connection of its own."""

import time
from collections.abc import Collection, Sequence

from ..model.capture import Buffers, Executions
from .catalog import LAST_S, Names
from .database_stats import Row


class NamesOfServers:
    """Those of each server, or of the one to which a connection that was given leads.

    What is known of statements and databases as a whole is so of one server alone: two servers may
    count different statements, or databases, under the same number or name.
    """

    def __init__(self, each: Sequence[Names]) -> None:
        self._each = each
        self.only = each[0] if len(each) == 1 else None
        """If there is one connection."""

    def start(self) -> None:
        """Begin to ask."""
        for names in self._each:
            names.start()

    def of(self, postmaster: int) -> Names | None:
        """Whoever may know a server, by the postmaster that it had when tracing began."""
        return next((names for names in self._each if names.are_of(postmaster)), None)

    def is_own(self, postmaster: int, pid: int, born_ns: int, ended_ns: int) -> bool:
        """As Names, of a server's backend."""
        return any(
            names.is_own(pid, born_ns, ended_ns) and names.are_of(postmaster)
            for names in self._each
        )

    @property
    def looks(self) -> int:
        """So often it was asked who is there."""
        return sum(names.looks for names in self._each)

    @property
    def texts(self) -> dict[int, str]:
        """As Names."""
        return self.only.texts if self.only else {}

    @property
    def buffers(self) -> list[Buffers]:
        """As Names."""
        return self.only.buffers if self.only else []

    @property
    def buffers_now(self) -> tuple[float, list[Row]] | None:
        """As Names."""
        return self.only.buffers_now if self.only else None

    @property
    def executions(self) -> list[Executions]:
        """As Names."""
        return self.only.executions if self.only else []

    @property
    def no_calls(self) -> str | None:
        """As Names."""
        if self.only:
            return self.only.no_calls
        return "pg_stat_statements was not asked: several servers are traced"

    @property
    def no_buffers(self) -> str | None:
        """As Names."""
        return self.only.no_buffers if self.only else "several servers"

    @property
    def failures(self) -> list[str]:
        """Why there are none of servers that never gave any."""
        return [names.failure for names in self._each if names.failure and names.server is None]

    def missing(self) -> list[str]:
        """Which names there are not, each with its reason."""
        return [words for names in self._each for words in names.missing(told_apart=not self.only)]

    def require(self, datnames: frozenset[str] = frozenset()) -> None:
        """As Names, of each server."""
        for names in self._each:
            names.require(datnames)

    def finish(self, query_ids: Collection[int]) -> None:
        """Ask all at once a last time, and wait a moment for them."""
        for names in self._each:
            names.ask_last(query_ids if self.only else ())
        end = time.monotonic() + LAST_S
        for names in self._each:
            names.wait(end)

    def hurry(self) -> None:
        """Wait for nothing any more; from a signal handler as well."""
        for names in self._each:
            names.hurry()

    def close(self) -> None:
        """Ask no more."""
        for names in self._each:
            names.close()
