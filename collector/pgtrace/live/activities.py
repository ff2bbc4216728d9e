"""What the processes of servers do at the end of each second, as far as that can be looked at."""

from collections.abc import Iterable, Mapping
from dataclasses import replace

from ..errors import PgtraceError
from ..linux import in_time
from ..postgres.activity import LOOKED_AT, Looker
from ..postgres.discovery import Backend
from ..tracing.server_watch import Servers
from ..tracing.traced_process import TracedProcess, title_of
from .frame import Doing

MOST = 50
"""Processes that are looked at in one second: a look at one takes some 0.2 ms."""
_TITLE = 4096


class Activities:
    """Looks at those who did most, then at those who were busy, then at others in their turn."""

    def __init__(self, servers: Servers) -> None:
        self._servers = servers
        self._lookers: dict[int, Looker] = {}
        """By whom they are of: a postmaster, which does not end as its backends do; of a process
        without one, itself."""
        self._known: dict[int, Backend] = {}
        """By their serials."""
        self._busy: list[int] = []
        self._turn = 0
        self.saw_all = True
        """The last time there was nobody who was not looked at."""

    def look(self, processes: Mapping[int, TracedProcess], first: Iterable[int]) -> list[Doing]:
        """Of those that are not idle, what they do; `first` are of those who did most. All are by
        their serials.
        """
        here = {serial: each for serial, each in processes.items() if _is_looked_at(each)}
        self._known = {serial: self._known[serial] for serial in self._known.keys() & here.keys()}
        owners = {_owner(each) for each in here.values()}
        self._lookers = {
            owner: looker
            for owner, looker in self._lookers.items()
            if owner in owners or self._servers.of(owner)
        }
        order = list(dict.fromkeys([*first, *self._busy]))
        chosen = [serial for serial in order if serial in here][:MOST]
        rest = sorted(here.keys() - set(chosen))
        room = min(MOST - len(chosen), len(rest))
        self._turn = self._turn % len(rest) if rest else 0
        chosen += (rest[self._turn :] + rest[: self._turn])[:room]
        self._turn += room
        self.saw_all = room == len(rest)
        found = [doing for serial in chosen if (doing := self._look(here[serial]))]
        self._busy = [doing.process for doing in found]
        return found

    def _look(self, process: TracedProcess) -> Doing | None:
        try:
            backend = self._known.get(process.serial) or self._servers.backend(process.pid)
            self._known[process.serial] = backend
            raw = in_time.command_line(process.pid, _TITLE).partition(b"\0")[0]
        except (PgtraceError, OSError):  # it has ended
            return None
        server = self._servers.of(process.postmaster)
        cluster, major = (server.cluster_name, server.major) if server else (None, None)
        backend = replace(backend, activity=title_of(raw, cluster, major).activity)
        owner = _owner(process)
        looker = self._lookers.get(owner)
        if looker is None:
            looker = self._lookers[owner] = Looker(owner)
        found = looker.look(backend)
        if found.state in (None, "idle"):
            return None
        return Doing(
            process.serial, found.state or "", found.seconds, found.wait_event_type, found.query
        )


def _owner(process: TracedProcess) -> int:
    return process.postmaster or process.pid


def _is_looked_at(process: TracedProcess) -> bool:
    kind = process.title.backend_type
    return not process.ended_ns and (kind is None or kind in LOOKED_AT)
