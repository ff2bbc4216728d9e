"""The servers of one session: when each is away, who comes in its place, who comes and goes."""

import contextlib
import math
import os
import time
from collections.abc import Callable, Mapping
from datetime import datetime

from ..engines import Engine, Request
from ..errors import PgtraceError
from ..linux import capabilities, foreign_files
from ..linux.process_events import Event, Life
from ..linux.program_file import Program
from ..model.capture import Gap
from ..postgres import discovery, proc
from ..postgres.binary import Programs
from ..postgres.discovery import Backend, Server
from ..postgres.titles import Title
from . import traced_process
from .gaps import Gaps
from .targets import Target, has_aio, postmaster, unfollowed
from .traced_process import TracedProcess

_LOOK_EVERY_S = 0.5
_AGAIN_S = 5.0
"""After a server could not be traced that came in the place of another."""
_TICKS = os.sysconf("SC_CLK_TCK")


class Servers:
    """All servers of the target; of whole ones also their successors and their processes."""

    def __init__(self, engine: Engine, target: Target, request: Request) -> None:
        self._engine = engine
        self._target = target
        self._servers = {server.postmaster_pid: server for server in target.servers}
        self._majors = {server.postmaster_pid: server.major for server in target.servers}
        """Of all that were ever traced."""
        self._unfollowed = set(request.unfollowed)
        self._aio = any(self.follows(s.postmaster_pid) for s in target.servers if has_aio(s))
        """Whether what is needed for asynchronous reads was loaded."""
        self._binaries = set(request.programs)
        """Those that have probes. After an upgrade a server runs another."""
        self._first: dict[int, int] = {}
        """Of successors, the postmaster that their server had when tracing began."""
        self._names = discovery.told_apart(target.servers)
        self._next_look = 0.0
        self._not_before: dict[int, float] = {}
        """By postmasters: when their successors are tried again."""
        self._gaps = Gaps()
        self._life = Life(set(self._servers)) if target.whole else None
        self._heard: list[Event] = []
        self._overflowed = False
        self._adopted = 0
        self._started: dict[int, int] = {}
        """When processes started that have not ended yet."""
        self._titles: dict[int, Title] = {}
        """What they are, once their titles say so."""

    def close(self) -> None:
        """Listen to nobody any more."""
        if self._life:
            self._life.close()

    def of(self, postmaster: int) -> Server | None:
        """The server of a postmaster."""
        return self._servers.get(postmaster)

    def major(self, postmaster: int) -> int | None:
        """Its server's major version, also once it is gone; of one that came and went unseen, or of
        any, the newest of those known.
        """
        newest = max((major for major in self._majors.values() if major), default=None)
        return self._majors.get(postmaster, newest)

    def first(self, postmaster: int) -> int:
        """The postmaster that its server had when tracing began."""
        return self._first.get(postmaster, postmaster)

    def name(self, server: Server) -> str:
        """What it is called, among several: the same as its predecessor."""
        return self._names.get(self.first(server.postmaster_pid), server.data_directory)

    def all(self) -> list[Server]:
        """Those that are traced now."""
        return list(self._servers.values())

    def backend(self, pid: int) -> Backend:
        """What a process does: of a child of theirs without looking for its server. Errors as
        processes.backend()."""
        server = self.of(proc.parent(pid) or 0)
        return server.backend(pid) if server else discovery.backend(pid)

    def follows(self, postmaster: int) -> bool:
        """Whether more than reads can be measured there."""
        return postmaster not in self._unfollowed

    def gaps(self, wall: Callable[[int], datetime]) -> list[Gap]:
        """When servers were away."""
        if self._target.whole:
            self._look_at_servers()
        return self._gaps.listed(wall)

    def are_away(self) -> bool:
        """Whether one of them is, as far as that was noticed."""
        return self._gaps.are_open()

    def child_ended(self, traced: TracedProcess, exit_code: int) -> None:
        """One of a server's processes, as waitpid() has its end: it may have crashed."""
        server = self.of(traced.postmaster)
        if server and self._target.whole:
            kind = traced.title.backend_type
            times = traced.began_ns, traced.ended_ns
            self._gaps.child_ended(self.name(server), kind, *times, exit_code)

    def running(self) -> list[TracedProcess]:
        """Everybody who runs now but parallel workers, as /proc shows them."""
        return [
            traced_process.silent(
                backend.pid,
                self._began_ns(backend),
                inner_pid=backend.process.inner_pid,
                postmaster=postmaster,
                title=backend.title,
            )
            for postmaster, server in self._servers.items()
            for backend in server.backends(activity=False)
            if backend.backend_type != "postmaster" and not backend.leader_pid
        ]

    def listen(self) -> bool:
        """Take up who started and ended; before it is asked of whom the engine knows, so that who
        ended by now is among them, if it did anything. Whether there is anybody.
        """
        if self._life:
            self._heard += self._life.poll()
        return bool(self._heard)

    def heard_of_at(self) -> list[int]:
        """What can be read once a process starts or ends; nothing while that is not heard."""
        fd = self._life.fileno() if self._life else None
        return [] if fd is None else [fd]

    def hear(self, told: Mapping[int, int]) -> list[TracedProcess]:
        """Who started and ended without a read or a query: they were there too.

        `told` has the pids of all of whom the engine told: when each ended, in nanoseconds of
        CLOCK_MONOTONIC, or that it has not.
        """
        if self._life is None:
            return []
        silent: list[TracedProcess] = []
        heard, self._heard = self._heard, []
        for event in heard:
            if not event.ended:
                self._started[event.pid] = event.at_ns
                continue
            if server := self.of(event.pid):
                self._gaps.stopped(self.name(server), event.at_ns)
                self._next_look = 0.0
            began = self._started.pop(event.pid, None)
            title = self._titles.pop(event.pid, None)
            if began is not None and told.get(event.pid, 0) < began:
                silent.append(traced_process.silent(event.pid, began, event.at_ns, title=title))
        if self._life.overflows and not self._overflowed:
            self._overflowed = True
            self._engine.not_measured.append(
                "some processes that neither read nor ran a query and ended: they came faster than "
                "the process connector could be heard"
            )
        if self._life.failure:
            self._engine.not_measured.append(
                "processes that neither read nor ran a query and ended: the process connector "
                f"cannot be heard ({self._life.failure})"
            )
            self._life = None
        return silent

    def watch(self, told: Mapping[int, int]) -> None:
        """Notice that a server stopped, and trace the one that is started in its place.

        `told` as hear() has it.
        """
        now = time.monotonic()
        if not self._target.whole or now < self._next_look:
            return
        self._next_look = now + _LOOK_EVERY_S
        self._learn(told)
        failed: Exception | None = None
        self._engine.let_go_of_orphans()
        for server in self._look_at_servers():
            if now < self._not_before.get(server.postmaster_pid, 0.0):
                continue
            try:
                self._look_for_successor(server)
            except Exception as error:  # others have successors, too
                self._not_before[server.postmaster_pid] = now + _AGAIN_S
                failed = error
        if failed:
            raise failed

    def due(self) -> float:
        """When watch() has to be called though nothing happens, by time.monotonic(): of the start
        of a server nothing is heard."""
        return self._next_look if self.are_away() else math.inf

    def _look_for_successor(self, server: Server) -> None:
        successor = discovery.successor(server)
        if successor:
            self._follow(server, successor)

    def _look_at_servers(self) -> list[Server]:
        """Notice what is seen of gaps in /proc; those that do not run."""
        away = []
        for server in self._servers.values():
            if not server.runs():
                self._gaps.stopped(self.name(server), time.monotonic_ns())
                away.append(server)
            elif self._gaps.crash(self.name(server)) is not None:
                self._look_at_standby(server)
        return away

    def _look_at_standby(self, server: Server) -> None:
        """Its startup process does not end when it is ready. Once that runs, the postmaster writes
        to its file when it lets clients in (LOCK_FILE_LINE_PM_STATUS), and not before. Times of
        files are those of the last tick: a recovery within one is only seen by who was let in. Whom
        the server turns away gets no title: see BackendInitialize() in
        src/backend/tcop/backend_startup.c, before 17 in src/backend/postmaster/postmaster.c.
        """
        backends = server.backends()
        for began_ns in (self._began_ns(b) for b in backends if b.backend_type == "startup"):
            ready = [self._began_ns(b) for b in backends if b.backend_type == "client backend"]
            with contextlib.suppress(OSError):
                uid = server.postmaster.uid
                lock = foreign_files.status(server.directory, "postmaster.pid", uid)
                ready.append(lock.st_mtime_ns - (time.time_ns() - time.monotonic_ns()))
            if since := [moment for moment in ready if moment > began_ns]:
                self._gaps.recovered(self.name(server), began_ns, min(since))

    def _began_ns(self, backend: Backend) -> int:
        """As the process connector has it, or else the end of the tick that /proc has."""
        known = self._started.get(backend.pid)
        if known:
            return known
        since_boot_ns = (backend.process.start_time_ticks + 1) * 1_000_000_000 // _TICKS
        asleep_ns = time.clock_gettime_ns(time.CLOCK_BOOTTIME) - time.monotonic_ns()
        return since_boot_ns - asleep_ns

    def _learn(self, told: Mapping[int, int]) -> None:
        """Who is there, and what, while it can be asked: once somebody has ended, it is too late.
        What was started while nobody listened runs by now, or is in no list.
        """
        if self._life and self._adopted != self._life.begun:
            self._adopted = self._life.begun
            present = self.running()
            running = {traced.pid: traced.began_ns for traced in present}
            for pid in self._started.keys() - running.keys():  # nobody told of their end
                del self._started[pid]
                self._titles.pop(pid, None)
            for pid in running.keys() - self._started.keys():
                self._life.adopt(pid)
                self._started[pid] = running[pid]
            self._titles |= {each.pid: each.title for each in present if each.title.backend_type}
        for pid in self._started.keys() - self._titles.keys():
            if told.get(pid, 0) >= self._started[pid]:
                continue  # of whom the engine told, that is known from there
            with contextlib.suppress(PgtraceError):
                title = self.backend(pid).title
                if title.backend_type:
                    self._titles[pid] = title

    def _follow(self, server: Server, successor: Server) -> None:
        """What raises here is tried again, so that nothing is changed before it is done."""
        old, new = server.postmaster_pid, successor.postmaster_pid
        if self._life:
            self._life.follow(old, new)  # whoever starts meanwhile is heard of
        with Programs() as programs:
            program, reason = self._opened(successor, programs)
            is_another = program and not reason and program.identity not in self._binaries
            with capabilities.raised():
                self._engine.follow_postmaster(
                    old,
                    postmaster(successor, memory=self._engine.query_source != "none"),
                    program if is_another else None,
                )
            self._say_missing(server, successor, reason)
            if program and is_another:
                self._binaries.add(program.identity)
        self._first[new] = self.first(old)
        self._gaps.started(self.name(server), time.monotonic_ns())
        del self._servers[old]
        self._servers[new], self._majors[new] = successor, successor.major

    def _opened(self, server: Server, programs: Programs) -> tuple[Program | None, str | None]:
        """What it runs, held open, and why nothing but reads can be measured there."""
        try:
            program = programs.of(server.postmaster.binary)
        except PgtraceError as error:
            return None, str(error)
        return program, unfollowed(server, program)

    def _say_missing(self, server: Server, successor: Server, reason: str | None) -> None:
        """What is not measured of it that was of the one before."""
        if reason:
            self._unfollowed.add(successor.postmaster_pid)
            if self.follows(server.postmaster_pid):
                self._engine.not_measured.append(f"queries of the server started since: {reason}")
        elif has_aio(successor) and not (has_aio(server) or self._aio):
            self._engine.not_measured.append(
                "charging reads of I/O workers: tracing began with an older server"
            )
