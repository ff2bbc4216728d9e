"""The servers of one session: when each is away, who comes in its place, who comes and goes."""

import time
from collections.abc import Callable, Mapping
from datetime import datetime
from pathlib import Path
from typing import NamedTuple

from . import people
from .capture import Gap
from .engines import Engine
from .errors import PgtraceError
from .people import Person
from .postgres import proc, processes
from .postgres.life import Life
from .postgres.processes import Server
from .targets import FIRST_AIO, Target, postmaster, unfollowed
from .units import stamp

_LOOK_EVERY_S = 0.5


class Servers:
    """All servers of the target; of whole ones also their successors and their processes."""

    def __init__(self, engine: Engine, target: Target) -> None:
        self._engine = engine
        self._target = target
        self._servers = {server.postmaster_pid: server for server in target.servers}
        self._unfollowed = {pid for pid, server in self._servers.items() if unfollowed(server)}
        self._binaries = {_inode(server.postmaster.binary) for server in target.servers}
        """Those that have probes. After an upgrade a server runs another."""
        self._places = {pid: _place(server) for pid, server in self._servers.items()}
        self._next_look = 0.0
        self._gaps: list[tuple[str, int, int | None]] = []
        self._life = Life(set(self._servers)) if target.whole else None
        self._overflowed = False
        self._silent: dict[int, int] = {}
        """When processes started that have not ended yet."""

    def close(self) -> None:
        """Listen to nobody any more."""
        if self._life:
            self._life.close()

    def of(self, postmaster: int) -> Server | None:
        """The server of a postmaster."""
        return self._servers.get(postmaster)

    def all(self) -> list[Server]:
        """Those that are traced now."""
        return list(self._servers.values())

    def follows(self, postmaster: int) -> bool:
        """Whether more than reads can be measured there."""
        return postmaster not in self._unfollowed

    def gaps(self, wall: Callable[[int], datetime]) -> list[Gap]:
        """When servers were away."""
        return [
            Gap(
                directory,
                stamp(wall(began)),
                stamp(wall(ended)) if ended else None,
            )
            for directory, began, ended in self._gaps
        ]

    def hear(self, ended_at: Callable[[], Mapping[int, int]]) -> list[Person]:
        """Who started and ended without a read or a query: they were there too.

        `ended_at` has the pids of all of whom the engine told: when each ended, in nanoseconds of
        CLOCK_MONOTONIC, or that it has not.
        """
        if self._life is None:
            return []
        silent = []
        events = self._life.poll()
        told = ended_at() if events else {}
        for event in events:
            if not event.ended:
                self._silent[event.pid] = event.at_ns
                continue
            began = self._silent.pop(event.pid, None)
            if began is not None and told.get(event.pid, 0) < began:
                silent.append(people.silent(event.pid, began, event.at_ns))
        if self._life.overflows and not self._overflowed:
            self._overflowed = True
            self._engine.not_measured.append(
                "some processes that neither read nor ran a query: they came faster than the "
                "process connector could be heard"
            )
        if self._life.failure:
            self._engine.not_measured.append(
                "processes that neither read nor ran a query: the process connector "
                f"cannot be heard ({self._life.failure})"
            )
            self._life = None
        return silent

    def watch(self) -> None:
        """Notice that a server stopped, and trace the one that is started in its place."""
        now = time.monotonic()
        if not self._target.whole or now < self._next_look:
            return
        self._next_look = now + _LOOK_EVERY_S
        for server in list(self._servers.values()):
            if _runs(server.postmaster):
                continue
            directory = server.data_directory
            if not any(d == directory and end is None for d, _, end in self._gaps):
                self._gaps.append((directory, time.monotonic_ns(), None))
            for successor in processes.servers():
                if _place(successor).is_that_of(self._places[server.postmaster_pid]):
                    self._follow(server, successor)
                    break

    def _follow(self, server: Server, successor: Server) -> None:
        del self._servers[server.postmaster_pid], self._places[server.postmaster_pid]
        self._servers[successor.postmaster_pid] = successor
        self._places[successor.postmaster_pid] = _place(successor)
        if self._life:
            self._life.postmasters.add(successor.postmaster_pid)
        self._engine.follow_postmaster(
            server.postmaster_pid,
            postmaster(successor),
            self._new_binary(server, successor),
        )
        now, directory = time.monotonic_ns(), server.data_directory
        self._gaps = [(d, b, e or now) if d == directory else (d, b, e) for d, b, e in self._gaps]

    def _new_binary(self, server: Server, successor: Server) -> str | None:
        """Where probes have to be put, because it runs another file than the server before."""
        reason, path = unfollowed(successor), successor.postmaster.binary
        if reason:
            self._unfollowed.add(successor.postmaster_pid)
            if self.follows(server.postmaster_pid):
                self._engine.not_measured.append(f"queries of the server started since: {reason}")
            return None
        if (server.major or 0) < FIRST_AIO <= (successor.major or 0):
            self._engine.not_measured.append(
                "charging reads of I/O workers: tracing began with an older server"
            )
        if _inode(path) in self._binaries:
            return None
        self._binaries.add(_inode(path))
        return str(path)


class _Place(NamedTuple):
    """A data directory. Containers have different ones of one name."""

    path: str
    inode: tuple[int, int] | None
    mounts: tuple[int, int] | None
    """The mount namespace in which it has that name."""

    def is_that_of(self, server: "_Place") -> bool:
        """Or was made anew in its place, as from a backup."""
        known = self.inode == server.inode or self.mounts == server.mounts
        return self.path == server.path and known


def _place(server: Server) -> _Place:
    mounts = Path(f"/proc/{server.postmaster_pid}/ns/mnt")
    return _Place(server.data_directory, _inode(server.directory), _inode(mounts))


def _inode(path: Path) -> tuple[int, int] | None:
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_dev, status.st_ino


def _runs(process: proc.Process) -> bool:
    try:
        return proc.process(process.pid).start_time_ticks == process.start_time_ticks
    except PgtraceError:
        return False
