"""Whose children are traced, as the kernel half has it, and until when those of who has ended are
looked for."""

from collections.abc import Callable, Sequence

from ..postgres import proc
from . import Postmaster, layout

_NO_TASK = 1
"""Where a task's address is compared: it is none, and 0 would be one that is not known yet."""


class Postmasters:
    """Those of the servers, by their places in layout.Live. `parents` tells whose children run, as
    far as these are known to the kernel half.
    """

    def __init__(
        self, live: layout.Live, servers: Sequence[Postmaster], parents: Callable[[], set[int]]
    ) -> None:
        self._live = live
        self._servers = list(servers)
        self._parents = parents
        self._over: set[int] = set()
        """Places of those whose last child has ended, too."""

    def place(self, pid: int) -> int:
        """Of the server that had this postmaster last, which may be gone."""
        return [server.pid for server in self._servers].index(pid)

    def follow(self, place: int, new: Postmaster) -> None:
        """A server comes in the place of one that is gone."""
        self._servers[place] = new
        self._over.discard(place)
        tell(self._live, place, new)

    def let_go_of_orphans(self) -> None:
        """See Engine."""
        live = self._live
        if not (live.orphans or self._over) and len(self._there()) == len(self._servers):
            return
        for _ in range(2):  # one may have ended while it was said that there are none
            there = self._there()
            orphaned = self._parents() - {self._servers[place].pid for place in there} - {0}
            if live.orphans == bool(orphaned):
                break
            live.orphans = bool(orphaned)
            live.followed += live.orphans  # who was no candidate before may be one now
        for place, server in enumerate(self._servers):
            if place not in there and server.pid not in orphaned:
                # Its pid will be another's, whose children are none of a server's
                self._over.add(place)
                live.postmasters[place] = layout.NOBODY
                live.parents[place] = _NO_TASK
            elif place in there and place in self._over:  # it could not be looked at, for a while
                self.follow(place, server)

    def close(self) -> None:
        """Let go of the memory: who handles an error may know this for longer."""
        del self._live

    def _there(self) -> set[int]:
        """The places of those that run."""
        return {place for place, server in enumerate(self._servers) if _runs(server)}


def tell(live: layout.Live, place: int, postmaster: Postmaster) -> None:
    """Have its children traced. Its pid last: from then on the kernel looks at the rest."""
    live.application_name[place] = postmaster.application_name
    live.io_workers[place] = postmaster.io_workers and postmaster.block_size.bit_length() - 1
    live.memory[place].entry, live.memory[place].text = postmaster.entry, postmaster.text
    live.memory[place].wait = postmaster.wait
    live.parents[place] = 0
    live.postmasters[place] = postmaster.pid
    live.followed += 1  # who was no candidate before may be one now


def _runs(server: Postmaster) -> bool:
    since = server.start_time_ticks
    if since:
        return proc.runs(server.pid, since)
    return proc.start_time_ticks(server.pid) is not None
