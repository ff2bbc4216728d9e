"""One tracing session: a target and an engine, snapshots of what was done, and the capture."""

import contextlib
import os
import platform
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar

from ..engines import (
    CheckpointTimes,
    Engine,
    InUse,
    QueryEvent,
    fold_files,
    io_of,
    times_of,
)
from ..engines import select as engines
from ..errors import DatabaseError
from ..linux.priority import soon
from ..model.capture import Buffers, Capture, Host, Lost, Operation, Probes, Server, Total
from ..postgres import database_stats
from ..postgres.binary import Programs
from ..postgres.blockers import Blocker
from ..postgres.catalog import Names
from ..postgres.lock_holders import LockHolders
from ..postgres.names_of_servers import NamesOfServers
from ..units import stamp
from .accounts import Account, Snapshot
from .capture_builder import Assembly
from .charging import Registry
from .connecting import connecting
from .file_names import Places, is_told
from .options import TraceOptions
from .recorder import Recorder
from .targets import Target
from .timeline import Intervals
from .traced_process import TracedProcess

POLL_S = 0.05
"""How often the records of queries are fetched; the kernel keeps more than 5,000 between."""
REST_S = 1.05
"""How often, while nothing happens: longer than an interval, so that one look does for both."""
BLOCKED_NS = 1_000_000_000
"""After so long, who holds a lock is asked."""

_T = TypeVar("_T")
_OF_ALL = "it counts calls of the whole server, of which a part is traced"
NO_QUERY_IDS = "the server computes none: compute_query_id is off, or auto without a module"


class Tracer:
    """Attached from the start; `capture()` may be asked for at any time, also after `stop()`.

    `once_attached` is called then, before there is another thread that stays.

    Raises TargetError, PermissionDeniedError or UnsupportedError if it cannot attach.
    """

    def __init__(
        self,
        target: Target,
        options: TraceOptions | None = None,
        *,
        once_attached: Callable[[], None] = lambda: None,
    ) -> None:
        self.target = target
        self._events: list[QueryEvent] = []
        self._lock = threading.Lock()
        self._finished: Capture | None = None
        self._closed = False
        self._holders: dict[int, LockHolders] = {}
        """By postmaster."""
        self._polled = 0.0
        options = options or TraceOptions()
        self._by_file = options.by_file
        family = target.family()
        # Before anything is opened or attached: the child that connects has nothing of it
        self._connecting = connecting(options, target.servers)
        try:
            with Programs() as programs:
                request = target.request(options, programs, family)
                self.engine: Engine = engines.start(request)
        except BaseException:
            self._connecting.close()
            raise
        self.block_size = request.block_size
        self._no_query_ids = None if request.query_ids else NO_QUERY_IDS
        if options.queries == "none":
            self._no_query_ids = "queries were not asked for"
        self.failures = self.engine.failures
        """What went wrong of our own: the capture is partial then."""
        # One moment: to attach may take seconds, and times of processes are told by both
        self.started_ns = self.engine.began_ns
        since = timedelta(microseconds=(time.monotonic_ns() - self.started_ns) / 1000)
        self.started = datetime.now(UTC) - since
        connects = self._connecting.connects
        each = [
            Names(
                connect,
                servers,
                self.failures,
                count_calls=options.queries == "light"
                and len(connects) == 1
                and target.is_all_of_servers,
                live=options.live,
            )
            for connect, servers in connects
        ]
        self.names = NamesOfServers(each) if each else None
        self.registry = Registry(self.engine, target, options, self.names, request)
        self.places = Places(
            self.engine.files,
            self.registry.servers.all,
            lambda server: self.registry.identities.names_of(server.postmaster_pid),
            self.registry.servers.name,
            by_relation=options.by_relation,
        )
        self.assembly = Assembly(
            self.places,
            self.block_size,
            operations=self.engine.operations,
            literals=options.literals,
            texts=self.names.texts if self.names else {},
            waits=self.engine.waits,
            light=request.light,
            major=self.registry.servers.major,
            failures=self.failures,
        )
        self.recorder = (
            Recorder(self.engine.statement, self.registry.process) if options.live else None
        )
        """What was done in each interval, if that is wanted."""
        self.intervals = Intervals(
            self.engine,
            self.started_ns,
            type_of=self.registry.type_of,
            is_meant=self.registry.is_meant,
            recorder=self.recorder,
        )
        self.registry.let_go_of = self.intervals.let_go
        self.registry.see_first(family)
        with self.failures.kept("letting go of privileges"):
            once_attached()
        if self.names:
            self.names.start()

    @property
    def not_measured(self) -> list[str]:
        """What could not be measured so far, each with its reason."""
        return [*self.engine.not_measured, *(self.names.missing() if self.names else [])]

    def require_names(self) -> None:
        """Wait for the first names; DatabaseError if there are none, or not of a database."""
        if self.names is None:
            raise DatabaseError(f"names: {self._connecting.why_not}")
        self.names.require(self.target.filters.datnames)

    def poll(self) -> list[QueryEvent]:
        """Look at what ended; with `per_query`, return the queries of since the last call."""
        with self._lock:
            self._poll(settled=True)
            events, self._events = self._events, []
            return events

    def rest(self) -> tuple[float, list[int]]:
        """Until when (time.monotonic()) poll() has nothing to do, as long as nothing can be read of
        these descriptors, which is so when some process of the host starts or ends.

        Queries of processes that are there do not count as news, if none is told one by one.
        """
        with self._lock:
            wakes = self.registry.wakes() if not self._finished else []
            due = self._polled + REST_S, self.intervals.due(), self.registry.servers.due()
            return (min(due) if wakes else 0.0), wakes

    def account(self) -> Account:
        """Of the one backend that is traced, what it did so far."""
        with self._lock:
            self._poll()
            return self.registry.look().accounts[0]

    def accounts(self) -> list[Account]:
        """Of all who are traced, what each did so far: not cheap."""
        with self._lock:
            self._poll()
            return self.registry.look().accounts

    def blockers(self, account: Account) -> tuple[str, int, list[Blocker]] | None:
        """For which lock a query waits, for how many nanoseconds, and who holds it: as a connection
        says, or else the server's memory; None if it does not, or not for BLOCKED_NS.

        All of the query's waits for such locks count: one is cut in two by deadlock_timeout.
        """
        asleep, process = account.snapshot.asleep, account.process
        names = self.names.of(process.postmaster) if self.names else None
        event = self.assembly.event(asleep, process.postmaster) if asleep else None
        spent = times_of(account.running.reads) if account.running else {}
        waited_ns = sum(counts.total_ns for key, counts in spent.items() if key.event == asleep)
        waits = event is not None and event.type == "Lock" and waited_ns >= BLOCKED_NS
        if names:
            names.blockers.of = process.inner_pid if waits else 0
        if not waits or event is None:
            return None
        found = names.blockers.found() if names else []
        return event.event, waited_ns, found or self._lock_holders(process)

    def _lock_holders(self, process: TracedProcess) -> list[Blocker]:
        server = self.registry.servers.of(process.postmaster)
        if server is None:
            return []
        known = self._holders.get(process.postmaster)
        if known is None:
            known = self._holders[process.postmaster] = LockHolders(server)
        return known.of(process.pid)

    def counts(self) -> dict[Operation, int]:
        """How many of each operation that is measured were counted so far."""
        with self._lock:
            self._poll()
            found = dict.fromkeys(self.engine.operations, 0)
            for account in self.registry.look().accounts:
                for key, counts in io_of(account.reads).items():
                    found[key.operation] += counts.count
            return found

    def unnamed_calls(self) -> int:
        """How many calls have no statement for want of room: not cheap, once there is none."""
        with self._lock:
            if self._finished:
                return self._finished.lost.statements
            if not self.engine.statements_full():
                return 0
            return _unnamed(self.registry.look().accounts)

    def counted_ns(self) -> int:
        """When something was done last, as far as it is known: by the time.monotonic_ns() of a look
        at it. Calls may be counted at any time."""
        light = self.engine.query_source == "memory"
        return self.intervals.counted_ns if light else time.monotonic_ns()

    def lost(self) -> Lost:
        """What was lost so far: cheap."""
        with self._lock:
            if self._finished:
                return self._finished.lost
            losses = self.engine.losses()._asdict()
            by_kind, missed = losses.pop("by_kind"), self.engine.missed()
            return Lost(unplaced=by_kind, missed=missed, **losses)

    def kept(self) -> tuple[dict[Operation, Total], int]:
        """What was not lost so far: how many of each operation, and how many calls."""
        counts = self.counts()
        with self._lock:
            accounts = self.registry.look().accounts if not self._finished else []
        calls = sum(
            total.calls
            for account in accounts
            if account.statements
            for _, total in account.statements.totals()
        )
        return {operation: Total(number) for operation, number in counts.items()}, calls

    def in_use(self) -> InUse | None:
        """Of the room in the kernel, what is taken now; None once it is stopped."""
        with self._lock:
            return None if self._finished else self.engine.in_use()

    def wall_time(self, monotonic_ns: int) -> datetime:
        """When that was, in UTC."""
        return self.started + timedelta(microseconds=(monotonic_ns - self.started_ns) / 1000)

    def checkpoint(self) -> CheckpointTimes:
        """When the phases of the last one began, while tracing and if they were asked for."""
        return self.engine.checkpoint()

    def durations(self) -> list[int]:
        """Each read's nanoseconds since the last call, if they were asked for."""
        return self.engine.durations()

    def capture(self) -> Capture:
        """Everything measured so far, or, once stopped, in all."""
        with self._lock:
            if self._finished:
                return self._finished
            self._poll()
            return self._capture(time.monotonic_ns())

    def polled(self) -> Capture:
        """The same up to the last poll(): a fork of this may ask for it, which has to leave to us
        what the kernel tells but once.
        """
        with self._lock:
            return self._finished or self._capture(time.monotonic_ns())

    def stop(self, *, wait: bool = False) -> Capture:
        """Detach, leave nothing in the kernel, and return what was measured. With `wait`, once no
        probe slows anybody any more, which may take seconds.
        """
        with self._lock:
            if self._finished:
                return self._finished
            ended_ns, kept = time.monotonic_ns(), self.failures.kept
            with kept("the end of tracing"):
                ended_ns = self.engine.detach()  # until then it is told what goes on
            self.intervals.end()
            self._poll()
            with kept("backends that ended"):
                self._events += self.registry.finish()
            if self.names:
                with kept("names"):
                    self.names.finish(self._query_ids())
            try:
                self._finished = self._capture(ended_ns)
            finally:
                self._let_go(wait=wait)
            return self._finished

    def close(self) -> None:
        """Detach, and leave nothing in the kernel. Unless it was stopped before, nobody is told
        what was measured: of a busy server that takes seconds to put together.
        """
        with self._lock:
            if not self._closed:
                with self.failures.kept("the end of tracing"):
                    self.engine.detach()
                self._let_go(wait=False)

    def _let_go(self, *, wait: bool) -> None:
        self._closed, kept = True, self.failures.kept
        if self.names:
            self.names.close()
        with kept("the end of tracing"):
            self._connecting.close()
        with kept("the end of tracing"):
            self.registry.close()
        with kept("the end of tracing"):
            self.engine.close(wait=wait)

    def hurry(self) -> None:
        """Let stop() wait for nothing that can be done without; from a signal handler as well."""
        if self.names:
            self.names.hurry()

    def _poll(self, *, settled: bool = False) -> None:
        if not self._finished:
            self._polled = time.monotonic()
            with self.failures.kept("queries and backends"):
                self._events += self.registry.poll(settled=settled)
            with self.failures.kept("which files were read"):
                self.places.look()
                if self._by_file:
                    self._forget_files()
            with self.failures.kept("costs over time"):
                self.intervals.look()

    def _forget_files(self) -> None:
        """Reads of files that are gone are kept by what those were: memory is not for ever."""
        gone = self.places.gone()
        instead = self.engine.forget(gone) if gone else {}
        if not instead:
            return
        self.places.forget(instead)
        self.registry.fold_files(instead)
        self.intervals.fold_files(instead)
        for event in self._events:
            fold_files(event.reads, instead)

    def _unplaced(self, accounts: Sequence[Account]) -> int:
        if not self._by_file:
            return 0
        files = self.engine.files()
        return sum(
            counts.count
            for account in accounts
            for key, counts in io_of(account.reads).items()
            if not is_told(files[key.file])
        )

    def _buffers(self) -> list[Buffers]:
        """Of the databases that are traced, or of which a part is."""
        buffers = self.names.buffers if self.names else []
        return database_stats.of_databases(buffers, self.target.filters.datnames)

    def _no_buffers(self) -> str | None:
        if not self.names:
            return None
        if not self.target.is_of_databases:
            return "of whole databases"
        return self.names.no_buffers

    def _no_calls(self) -> str | None:
        if not self.target.is_all_of_servers:
            return f"pg_stat_statements was not asked: {_OF_ALL}"
        if self.names:
            return self.names.no_calls
        return f"pg_stat_statements was not asked: {self._connecting.why_not}"

    def _query_ids(self) -> set[int]:
        found = (account.statements for account in self.registry.look().accounts)
        return {name.query_id for s in found if s for name, _ in s.totals() if name.query_id}

    def _capture(self, ended_ns: int) -> Capture:
        engine, servers = self.engine, self.target.servers
        server = servers[0] if len(servers) == 1 else None
        found = self._part("backends", self.registry.look, Snapshot())
        found.accounts += self._part(
            "processes that did nothing", lambda: self.registry.silent(ended_ns), []
        )
        backends = self.assembly.backends(found, self.wall_time)
        losses = engine.losses()
        in_flight = found.lost.in_flight
        found.lost.in_flight = {each: in_flight.get(each, 0) for each in engine.operations}
        found.lost.backends = losses.backends
        found.lost.no_slot, found.lost.no_chunk = losses.no_slot, losses.no_chunk
        found.lost.latencies = losses.latencies
        found.lost.times, found.lost.missed = losses.times, engine.missed()
        found.lost.unplaced = self._part("losses", lambda: self._unplaced(found.accounts), 0)
        found.lost.statements = _unnamed(found.accounts)
        tablespace = self.places.place
        taken = Capture(
            started=stamp(self.started),
            duration_s=(ended_ns - self.started_ns) / 1e9,
            host=Host(platform.release(), os.cpu_count() or 1),
            server=Server(
                server.version if server else None,
                server.postmaster_pid if server else None,
                server.data_directory if server else None,
                self.block_size,
            ),
            probes=Probes(
                engine.name,
                engine.probe_type,
                engine.query_source,
                self.not_measured,
                self._no_query_ids,
                operations=list(engine.operations),
                times=engine.times,
                no_calls=self._no_calls() if engine.query_source == "memory" else None,
                no_buffers=self._no_buffers(),
            ),
            lost=found.lost,
            totals={},
            backends=backends,
            gaps=self._part("gaps", lambda: self.registry.servers.gaps(self.wall_time), []),
            tablespaces=self._part("tablespaces", self.places.tablespaces, []),
            intervals=self._part(
                "costs over time",
                lambda: self.intervals.listed(
                    self.block_size,
                    lambda file: tablespace(file).tablespace,
                    self.assembly.telling(backends),
                    self.assembly.event,
                    ended_ns,
                ),
                [],
            ),
            buffers=self._buffers(),
            executions=self.names.executions if self.names else [],
        ).add_up()
        taken.partial = self.failures.reasons()
        return taken

    def _part(self, what: str, build: Callable[[], _T], otherwise: _T) -> _T:
        with self.failures.kept(what):
            return build()
        return otherwise


def _unnamed(accounts: Iterable[Account]) -> int:
    return sum(each.statements.unnamed for each in accounts if each.statements)


@contextlib.contextmanager
def trace(
    pid: int,
    options: TraceOptions | None = None,
    *,
    any_process: bool = False,
    **others: Any,
) -> Iterator[Tracer]:
    """Trace a backend, or of a postmaster the whole server, while the block runs.

    `capture()` of what it yields has the result. With `any_process`, the reads of a process that
    need not be PostgreSQL, all of the threads that it has now. Options may also be given one by
    one, by their names. Errors as Tracer.
    """
    target = Target((pid,)) if any_process else Target.find(pid)
    tracer = Tracer(target, replace(options or TraceOptions(), **others))
    leave = threading.Event()

    def fetch() -> None:
        with soon():
            while not leave.wait(POLL_S):
                with tracer.failures.kept("tracing"):
                    tracer.poll()

    thread = threading.Thread(target=fetch, name="pgtrace", daemon=True)
    thread.start()
    try:
        yield tracer
    finally:
        leave.set()
        thread.join()
        tracer.stop()
