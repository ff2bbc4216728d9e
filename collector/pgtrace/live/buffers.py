"""How shared_buffers fared lately, as the server counts it."""

import time
from collections.abc import Collection

from ..postgres import database_stats
from ..postgres.names_of_servers import NamesOfServers

_MOST_AGE_S = 10
"""Of an answer, which comes each second or two: what is older is not of now."""


class Buffers:
    """What came between the last two answers."""

    def __init__(self, datnames: Collection[str] = ()) -> None:
        """In these databases; in all if none is named."""
        self._datnames = datnames
        self._last: tuple[float, list[database_stats.Row]] | None = None
        self._found: tuple[int, int] | None = None
        self.seconds = 0.0
        """Between these."""

    def look(self, names: NamesOfServers | None) -> tuple[int, int] | None:
        """Blocks that were found there, and that were not; None: not known."""
        now = names.buffers_now if names else None
        if now is None or time.monotonic() - now[0] > _MOST_AGE_S:
            self._last = self._found = None  # as long as nobody answers; then anew
            return None
        if now is self._last:
            return self._found
        if self._last:
            came = database_stats.between(self._last[1], now[1])
            own = database_stats.of_databases(came, self._datnames)
            hits = sum(each.hit for each in own), sum(each.read for each in own)
            self._found = hits if own else None  # no such database, or the numbers were reset
            self.seconds = now[0] - self._last[0]
        self._last = now
        return self._found
