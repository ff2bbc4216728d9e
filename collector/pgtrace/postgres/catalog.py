"""Names from a database connection, where one is given: titles do not quote them."""

import contextlib
import threading
import time
from collections import deque
from collections.abc import Collection, Sequence
from functools import partial
from typing import NamedTuple

from ..errors import ConnectionLostError, DatabaseError
from ..failures import Failures
from ..model.capture import Buffers, Executions
from . import database_stats, executions
from .blockers import Blockers
from .connection import TIMEOUT_S, Asked, Connect, Id, Oid, Pid, only, system_identifier
from .discovery import Server
from .relations import Relations

_EVERY_S = 1.0
_BUFFERS_EVERY_S = 2.0
_QUIET_S = 30.0
"""How often it is asked who is there, while nobody comes."""
LAST_S = 3.0
"""How long the end of a session waits for what is not known yet."""
_LOOK_S = 0.05
_REMEMBERED = 60
"""Looks for which it is known who was there."""
_MOST_OWN = 1000
"""Own connections that are remembered: one at a time, and about one a second."""


class Name(NamedTuple):
    """One row of pg_stat_activity; None is what the role may not see, or what there is not."""

    pid: Pid
    datname: str | None
    usename: str | None
    application_name: str | None
    backend_type: str | None
    leader_pid: Pid | None


class _Seen(NamedTuple):
    """A name, and between which two moments by time.monotonic_ns() its process was there."""

    name: Name
    asked_ns: int
    answered_ns: int
    look: int


class Names:
    """Asks about once a second, in a thread of its own: tracing never waits for the server. Who is
    there is asked when somebody has come, and now and then.

    `connect` has to lead to one of these servers. With `count_calls`, it is asked for those of
    statements. `failure` says why there are no names; what was unexpected is in `failures`.
    """

    def __init__(
        self,
        connect: Connect,
        servers: Sequence[Server],
        failures: Failures,
        *,
        count_calls: bool = False,
        live: bool = False,
    ) -> None:
        self._connect = connect
        self._failures = failures
        self._hurried = False
        self.failure: str | None = None
        self.server: Server | None = None
        """Where the connection leads; None while that is not known."""
        self._own: deque[tuple[int, int]] = deque(maxlen=_MOST_OWN)
        self._lasting: deque[tuple[int, int]] = deque(maxlen=_MOST_OWN)
        """Those of _ask(), which stay open while thousands of the others come and go."""
        self._own_pids: frozenset[int] = frozenset()
        self.relations = Relations(connect, partial(self._note_own, self._own))
        self.texts: dict[int, str] = {}
        """Of queries, by query_id, as pg_stat_statements has them; known at the end."""
        self.buffers: list[Buffers] = []
        """How each database fared with shared_buffers meanwhile; known at the end."""
        self._first_buffers: list[database_stats.Row] | None = None
        self._ended = False
        self.buffers_now: tuple[float, list[database_stats.Row]] | None = None
        """The same as it was last asked, with time.monotonic(): once, unless somebody looks on
        (`live`).
        """
        self._live = live
        self.executions: list[Executions] = []
        """Of the queries that are asked for at the end; known then."""
        self.blockers = Blockers()
        self._counter = executions.Counter() if count_calls else None
        self._servers = servers
        # Now, while they run: a server that is started again has another postmaster
        self._servers_identifiers = [(server, system_identifier(server)) for server in servers]
        self._identifier = 0
        self._may_return = False
        self._query_ids: Collection[int] = ()
        self.looks = 0
        """So often it was asked who is there: names are new only where this is."""
        self._looked_ns = 0
        self._came = False
        self._seen: dict[int, _Seen] = {}
        """When it was there last, by pid."""
        self._ready = threading.Event()
        self._leave = threading.Event()
        self._last = threading.Event()
        self._wake = threading.Event()
        self._thread = threading.Thread(target=self._run, name="pgtrace-names", daemon=True)

    def start(self) -> None:
        """Begin to ask."""
        self._thread.start()

    def of(self, pid: int, born_ns: int, ended_ns: int) -> Name | None:
        """What was last heard of a process, by its pid as the server counts; it began then, or at
        some time if that is 0, and ended then, or not yet if that is 0. Before and after, who has
        that pid is another.
        """
        seen = self._seen.get(pid)
        if seen is None or seen.answered_ns < born_ns or (ended_ns and ended_ns < seen.asked_ns):
            return None
        return seen.name

    def met(self, began_ns: int) -> None:
        """Somebody is there since then: who that is will be asked, if it was not since. It takes a
        backend a moment to say.
        """
        if began_ns >= self._looked_ns - _EVERY_S * 1e9:
            self._came = True

    def is_own(self, pid: int, born_ns: int, ended_ns: int) -> bool:
        """Whether that backend served this alone; the times are as of() has them."""
        # Asked of every process each second, by a live screen
        return pid in self._own_pids and any(
            own == pid and born_ns <= at and (not ended_ns or at <= ended_ns)
            for own, at in (*list(self._own), *list(self._lasting))
        )

    def are_of(self, postmaster: int) -> bool:
        """Whether they are that server's, as far as is known, by the postmaster that it had first.

        Not by its data directory: that of a server in a container may be called as another's.
        """
        possible = [self.server] if self.server else self._servers
        return not possible or any(each.postmaster_pid == postmaster for each in possible)

    def missing(self, *, told_apart: bool = False) -> list[str]:
        """Which names there are not, each with its reason; with the server, where it is needed."""
        place = f" in {self._servers[0].data_directory}" if told_apart else ""
        if self.failure:
            return [f"names{place}: {self.failure}"]
        others = [s.data_directory for s in self._servers if not self.are_of(s.postmaster_pid)]
        return [
            *(
                f"names in {directory}: the connection leads to another server"
                for directory in others
            ),
            *(f"names of database {d}{place}: {why}" for d, why in self.relations.missing.items()),
        ]

    @property
    def no_buffers(self) -> str | None:
        """Why it is not known what was found in shared_buffers."""
        if self.failure or self.buffers:
            return self.failure
        return "reset meanwhile" if self._ended else "known at the end"

    @property
    def no_calls(self) -> str | None:
        """Why calls are not known of all statements, if they were asked for."""
        return self.failure or (self._counter.missing if self._counter else None)

    def require(self, datnames: frozenset[str] = frozenset()) -> None:
        """Wait for the first names; DatabaseError if there are none, or not of a database."""
        if not self._ready.wait(2 * TIMEOUT_S) and not self.failure:
            raise DatabaseError(f"names: the server did not answer within {2 * TIMEOUT_S} s")
        if self.failure:
            raise DatabaseError(f"names: {self.failure}")
        forbidden = self.relations.forbidden(datnames)
        if forbidden:
            raise DatabaseError(
                f"names: the role may not connect to {', '.join(forbidden)}; "
                "grant it connect there, or trace other databases alone with --datname"
            )

    def finish(self, query_ids: Collection[int] = ()) -> None:
        """Ask a last time for what is not known, and wait a moment for it."""
        self.ask_last(query_ids)
        self.wait(time.monotonic() + LAST_S)

    def ask_last(self, query_ids: Collection[int]) -> None:
        """The first half of finish()."""
        self._query_ids = query_ids
        self._last.set()
        self._wake.set()

    def wait(self, end: float) -> None:
        """The second half of finish(), until then by time.monotonic()."""
        while self._thread.is_alive() and not self._hurried and time.monotonic() < end:
            self._thread.join(_LOOK_S)
        if self._thread.is_alive() and not self.failure:
            waited = "was not waited for" if self._hurried else f"gave none within {LAST_S:.0f} s"
            self.failure = f"the server {waited} at the end"

    def hurry(self) -> None:
        """Wait for nothing any more; from a signal handler as well."""
        self._hurried = True

    def close(self) -> None:
        """Ask no more."""
        self._leave.set()
        self._wake.set()
        if self._thread.ident and not self._last.is_set():
            self._thread.join(2)

    def _run(self) -> None:
        """A connection that was good once, or was lost, or is asked of a server that lets nobody in
        as it starts or stops, is made again when the server is back.
        """
        while not self._leave.is_set():
            at_the_end = self._last.is_set()
            try:
                self._ask()
                break
            except DatabaseError as error:
                self.failure = str(error)
                self._may_return |= isinstance(error, ConnectionLostError) or self._may_pass()
            except Exception as error:
                self._failures.add("names", error)
                self.failure = f"an unexpected {type(error).__name__}; the rest was measured"
                break
            if at_the_end or not (self._identifier or self._may_return):
                break
            if not self._last.is_set():  # else it was lost unnoticed: once more
                self._wait()
        self._ready.set()

    def _wait(self) -> None:
        """A standby may let nobody in for ever, and logs each who tries."""
        self._wake.wait(_EVERY_S)
        # Of several, any other may be the one to which the connection leads
        while self._servers and all(s.runs() and not s.lets_in() for s in self._servers):
            if self._wake.wait(_EVERY_S):
                return

    def _may_pass(self) -> bool:
        """Whether nobody is let in, for now: what the server says of that is in any language."""
        return bool(self._servers) and not any(server.lets_in() for server in self._servers)

    def _ask(self) -> None:
        with self._connect(opened=partial(self._note_own, self._lasting)) as connection:
            self._begin(connection)
            self._serve(connection)

    def _note_own(self, among: deque[tuple[int, int]], pid: int) -> None:
        among.append((pid, time.monotonic_ns()))
        self._own_pids = frozenset(own for own, _ in (*self._own, *self._lasting))

    def _begin(self, connection: Asked) -> None:
        identifier, database, pid = only(connection.ask("cluster", tuple[Id, Oid, Pid]))
        for server, its_own in self._servers_identifiers if self.server is None else ():
            if its_own == identifier and _may_have(server, pid):
                self.server = server
        if self._servers and (self.server is None or self._identifier not in (0, identifier)):
            raise DatabaseError("the connection leads to another server than the one traced")
        self.relations.begin(connection, database)
        if self._first_buffers is None:
            self._first_buffers = database_stats.ask(connection)
            self.buffers_now = time.monotonic(), self._first_buffers
        if self._counter:
            self._counter.begin(connection)
        self._identifier = identifier
        self.failure = None
        self._ready.set()

    def _serve(self, connection: Asked) -> None:
        while not self._leave.is_set():
            last = self._last.is_set()
            began = time.monotonic()
            if last or self._came or began - self._looked_ns / 1e9 >= _QUIET_S:
                self._look(connection)
            self.blockers.ask(connection)
            self._watch_buffers(connection)
            self.relations.ask(connection, last=last)
            if last:
                self.buffers = database_stats.between(
                    self._first_buffers or [], database_stats.ask(connection)
                )
                self._ended = True
                if self._counter:
                    self.executions = self._counter.finish(connection, self._query_ids)
                self._ask_texts(connection)
                return
            self._wake.wait(max(0.0, _EVERY_S - (time.monotonic() - began)))

    def _watch_buffers(self, connection: Asked) -> None:
        """PostgreSQL's own numbers are up to a second old: to ask more often tells nothing."""
        now = time.monotonic()
        if self._live and self.buffers_now and now >= self.buffers_now[0] + _BUFFERS_EVERY_S:
            self.buffers_now = now, database_stats.ask(connection)

    def _look(self, connection: Asked) -> None:
        """Who is there. Who was there lately is known still: the end of a process may be heard of
        some time after it."""
        look = self.looks + 1
        self._came, self._looked_ns = False, time.monotonic_ns()
        names = connection.ask("activity", Name)
        answered_ns = time.monotonic_ns()
        for name in names:
            self._seen[name.pid] = _Seen(name, self._looked_ns, answered_ns, look)
        for pid in [pid for pid, seen in self._seen.items() if seen.look < look - _REMEMBERED]:
            del self._seen[pid]
        self.looks = look

    def _ask_texts(self, connection: Asked) -> None:
        """Where pg_stat_statements is installed and loaded; else texts stay those of the probes."""
        for (schema,) in connection.ask("extension", tuple[str]) if self._query_ids else ():
            with contextlib.suppress(DatabaseError):
                ids = list(self._query_ids)
                texts = connection.ask(
                    "statements", tuple[Id, str | None], schema=schema, query_ids=ids
                )
                self.texts |= {query_id: text for query_id, text in texts if text is not None}


def _may_have(server: Server, pid: int) -> bool:
    """Whether that is one of its backends, as it counts them: a standby elsewhere has the same
    identifier. True of one that has stopped, whose successor it may be.
    """
    there = server.backends(activity=False)
    return not there or any(backend.process.inner_pid == pid for backend in there)
