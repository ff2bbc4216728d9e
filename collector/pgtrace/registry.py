"""Keeps account of everybody who is traced: names them, lets helpers' reads be their leaders'."""

import copy
import time
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from . import people
from .capture import COUNT_CALLS, Lost
from .engines import Engine, QueryEvent, ReadsByKey, TaskSnapshot, add_reads, fold_files
from .errors import PgtraceError
from .people import Person
from .postgres import binary, titles
from .postgres.names import Names
from .servers import Servers
from .statements import MOST_STATEMENTS, Statements
from .targets import Target

MOST_ENDED = 2000
"""Backends that ended and are still told one by one; more are added up by user and database."""
_MOST_WAIT_NS = 2_000_000_000
_NEVER_NS = 1 << 63
_MOST_ENDS = 4 * MOST_ENDED
"""Processes of which it is known when they ended, until that was heard of again."""
_NOT_TOLD = (
    "processes that neither read nor ran a query: they are not told from backends that there was "
    "no room for"
)


@dataclass(slots=True)
class Found:
    """Everybody's account at one moment."""

    accounts: list["Account"] = field(default_factory=list)
    lost: Lost = field(default_factory=Lost)


@dataclass(slots=True)
class Account:
    """One backend's reads, those of its helpers included."""

    person: Person
    reads: ReadsByKey
    snapshot: TaskSnapshot
    running: QueryEvent | None
    statements: Statements | None
    merged: int | None = None


class Registry:
    """All persons of one session."""

    def __init__(
        self,
        engine: Engine,
        target: Target,
        *,
        charge: bool,
        literals: bool,
        per_query: bool = False,
        most_statements: int = MOST_STATEMENTS,
        names: Names | None = None,
        own_queries: bool = False,
    ) -> None:
        self._engine = engine
        self._most_statements = most_statements
        self._failures = engine.failures
        self._target = target
        self._charge = charge
        self.literals = literals
        self._per_query = per_query
        self._people: dict[int, Person] = {}
        self._threads: list[tuple[int, int, int]] = []
        """Of whom the engine told last."""
        self._still = False
        self._ends: dict[int, int] = {}
        """When each process ended of whom the engine told, or that it has not; those last who ended
        last."""
        self._helped: dict[int, Person] = {}
        """By their serials, who has parallel workers that ended."""
        self._named_by = 0
        """The look into the database whose names all have."""
        self._ended: deque[Person] = deque()
        self._merged: dict[tuple[str | None, str | None, str | None], Account] = {}
        self.servers = Servers(engine, target)
        self._lost = Lost()
        """What those lost who ended."""
        self._names = names
        self._own_queries = own_queries
        self._cut_off: list[QueryEvent] = []
        """Queries in which their backends ended, and that poll() has to tell yet."""

    def close(self) -> None:
        """Listen to nobody any more."""
        self.servers.close()

    def see_first(self) -> None:
        """Meet those who ran when tracing began, and ask each what it ran."""
        addresses: dict[int, int | None] = {}
        for serial, _, _ in self._engine.serials():
            with self._failures.kept("a process that ran when tracing began"):
                self._see(serial, addresses)

    def _see(self, serial: int, addresses: dict[int, int | None]) -> None:
        person = self._meet(serial)
        person.was_there = True
        if self._engine.queries_way in COUNT_CALLS and (
            self._target.whole or person.pid in self._target.pids
        ):
            person.before = self._running_text(person, addresses)
        if person.before is None and not person.title.leader_pid:
            person.was_idle = True
            self._engine.was_idle(serial, for_ever=not person.is_client)

    def poll(self, *, settled: bool = True) -> list[QueryEvent]:
        """Count the queries that ended, and let go of who ended; the calls, in their order.

        `settled` as Engine.poll() has it. What fails costs itself alone.
        """
        # Before the records: of who had ended by now, all are there, however long that takes
        now = time.monotonic_ns()
        self._still = False
        with self._failures.kept("processes that came and went"):
            self._still = not self.servers.listen()
        calls: list[QueryEvent] = []
        with self._failures.kept("queries that ended"):
            self._take_calls(calls, settled=settled)
        with self._failures.kept("backends that ended"):
            self._look_for_ended(now)
            calls += self._take_cut_off()
        with self._failures.kept("reads of parallel workers"):
            if not self._per_query:
                self._fold_helpers()
        with self._failures.kept("processes that came and went"):
            silent = self.servers.hear(self._ends)
            if silent and not self._cannot_tell_silent():
                self._ended += silent
        with self._failures.kept("backends that ended, added up"):
            while len(self._ended) > MOST_ENDED:
                self._merge(self._ended.popleft())
        with self._failures.kept("names"):
            self._name_all()
        with self._failures.kept("servers that are started again"):
            self.servers.watch(self._ends)
        return calls

    def wakes(self) -> list[int]:
        """What can be read once something happens, if nothing has since before the last poll()."""
        if self._per_query or not self._still:
            return []
        self._still = False
        with self._failures.kept("processes that came and went"):
            self._still = not self.servers.listen()
        return self.servers.heard_of_at() if self._still else []

    def _take_calls(self, calls: list[QueryEvent], *, settled: bool) -> None:
        for event in self._engine.poll(settled=settled):
            with self._failures.kept("a query that ended is in no list"):
                if self._take_call(event):
                    calls.append(event)

    def _take_call(self, event: QueryEvent) -> bool:
        """Let its backend have a query; False if it is none that anybody is told of."""
        person = self._people.get(event.serial)
        if person is None:
            person = self._meet(event.serial)
        # One who was idle may be reported idle again, after a message that is no query
        if not event.is_call and (not event.begun_before or person.was_idle):
            return False
        event.pid = person.pid
        self._take_helpers(person, event)
        person.named(event)
        person.application_name = event.application_name or person.application_name
        if person.statements is None:
            person.statements = self._no_statements()
        person.statements.add(event)
        return True

    def _look_for_ended(self, now: int) -> None:
        """Let go of who ended some time before `now`, when the last records were taken."""
        threads = self._engine.serials()
        if threads == self._threads:
            return
        self._still = False
        waiting, ended = False, []
        for serial, _, ended_ns in threads:
            person = self._people.get(serial) or self._meet(serial)
            # A leader's record may come a moment after its helpers' end, so they go last
            if ended_ns and now - ended_ns > _MOST_WAIT_NS // 10:
                ended.append(person)
            elif ended_ns:
                waiting = True
        self._let_go(ended)
        self._threads = [] if waiting or ended else threads

    def fold_files(self, instead: Mapping[int, int]) -> None:
        """Some files are gone: what was counted of each is of the one that stands for it."""
        for person in (*self._people.values(), *self._ended):
            people.fold_files(person, instead)
            for helper in person.helpers:
                people.fold_files(helper, instead)
        for account in self._merged.values():
            fold_files(account.reads, instead)
            if account.statements:
                account.statements.fold_files(instead)
        for event in self._cut_off:
            fold_files(event.reads, instead)

    def finish(self) -> list[QueryEvent]:
        """Let go of all who ended, however lately: nothing more comes. Their last queries."""
        ended = [serial for serial, _, ended_ns in self._engine.serials() if ended_ns]
        self._let_go([self._people.get(serial) or self._meet(serial) for serial in ended])
        return self._take_cut_off()

    def look(self) -> Found:
        """Everybody's account now. Poll first."""
        found = Found(lost=copy.copy(self._lost))
        live = {task.serial: task for task in self._engine.snapshot()}
        for serial, task in live.items():
            with self._failures.kept(f"process {task.tgid} is in no number"):
                person = self._people.get(serial) or self._meet(serial)
                people.add_lost(found.lost, task)
                people.add_in_flight(found.lost, task)
                self._learn_database(person, task)
                if self._is_meant(person):
                    found.accounts.append(self._account(person, task, live))
        for person in self._ended:
            with self._failures.kept(f"process {person.pid} is in no number"):
                if person.final and self._is_meant(person):
                    found.accounts.append(self._account(person, person.final, live))
        found.accounts += self._merged.values()
        return found

    def silent(self, until_ns: int) -> list[Account]:
        """Who ran at that time and has neither read nor run a query, with nothing in them."""
        if not self._target.whole or self._cannot_tell_silent():
            return []
        running = [person for person in self.servers.running() if person.began_ns <= until_ns]
        known = {tid for _, tid, _ in self._engine.serials()}  # the last word: of who was listed
        known |= {person.pid for person in self._people.values()}
        return [
            Account(person, {}, person.final, None, None)
            for person in running
            if person.final and person.pid not in known and self._is_meant(person)
        ]

    def _cannot_tell_silent(self) -> bool:
        """Who did nothing is not known from who did not fit."""
        if not self._engine.losses().backends:
            return False
        if _NOT_TOLD not in self._engine.not_measured:
            self._engine.not_measured.append(_NOT_TOLD)
        return True

    def _meet(self, serial: int) -> Person:
        task = self._engine.task(serial)
        title = self._title(task.title, task.postmaster)
        if not task.title or not title.backend_type:
            title = self._title_now(task.tgid) or title
        person = Person(serial, task.tgid, task.inner_tgid, task.postmaster, title, task.began_ns)
        self._people[serial] = person
        self._note_end(person, _NEVER_NS)
        self._name(person)
        if title.leader_pid and self._charge and self.servers.follows(task.postmaster):
            leader = self._leader(person)
            if leader:
                person.leader = leader
                leader.helpers.append(person)
            elif not self._target.whole:
                self._engine.ignore(serial)
        return person

    def _learn_database(self, person: Person, task: TaskSnapshot) -> None:
        """An autovacuum worker reads before it shows its database: it may have been met then."""
        if person.title.datname is None and person.title.backend_type == "autovacuum worker":
            title = self._title(task.title, task.postmaster)
            if title.backend_type == person.title.backend_type:
                person.title = replace(person.title, datname=title.datname)

    def _title(self, raw: bytes, postmaster: int) -> titles.Title:
        server = self.servers.of(postmaster)
        cluster, major = (server.cluster_name, server.major) if server else (None, None)
        return people.title_of(raw, cluster, major)

    def _name_all(self) -> None:
        """Take over what the database calls everybody, when it was asked again."""
        if self._names is None or self._names.looks == self._named_by:
            return
        self._named_by = self._names.looks
        for person in self._people.values():
            self._name(person)

    def _name(self, person: Person) -> None:
        if self._names is None or not self._names.are_of(self.servers.of(person.postmaster)):
            return
        name = self._names.of(person.inner_pid)
        # One that is not in the list is about to be, unless it is of a kind that never is
        self._names.met(
            time.monotonic_ns() if name is None and person.is_client else person.began_ns
        )
        if name is None:
            return
        person.title = replace(
            person.title,
            datname=name.datname or person.title.datname,
            usename=name.usename or person.title.usename,
            backend_type=name.backend_type or person.title.backend_type,
        )
        if name.application_name:
            person.application_name = name.application_name.encode()

    def _note_end(self, person: Person, ended_ns: int) -> None:
        self._ends.pop(person.pid, None)
        self._ends[person.pid] = ended_ns
        if len(self._ends) > _MOST_ENDS + 2 * len(self._people):
            ends = list(self._ends.items())
            half = len(ends) // 2
            self._ends = {
                pid: ended for i, (pid, ended) in enumerate(ends) if i >= half or ended == _NEVER_NS
            }

    def _title_now(self, pid: int) -> titles.Title | None:
        try:
            return self.servers.backend(pid).title
        except PgtraceError:
            return None

    def _leader(self, helper: Person) -> Person | None:
        for person in self._people.values():
            same = person.postmaster == helper.postmaster or not person.postmaster
            inner = person.inner_pid == helper.title.leader_pid
            if same and (inner or person.pid == helper.title.leader_pid):
                return person
        return None

    def _take_helpers(self, leader: Person, event: QueryEvent) -> None:
        """Let the event pay for the parallel workers that its query started."""
        if not leader.helpers:
            return
        ended = {serial for serial, _, ended_ns in self._engine.serials() if ended_ns}
        helpers = [helper for helper in leader.helpers if helper.began_ns <= event.end_ns]
        self._let_go([helper for helper in helpers if helper.serial in ended])
        for helper in helpers:
            if helper.final is None:
                continue
            add_reads(event.reads, people.take_over(leader, helper, helper.final))

    def _let_go(self, persons: Sequence[Person]) -> None:
        """Read their accounts for the last time, and free their places."""
        if not persons:
            return
        finals = self._engine.release([person.serial for person in persons])
        for person, final in zip(persons, finals, strict=True):
            person.final = final
        for person in sorted(persons, key=lambda person: person.leader is None):
            with self._failures.kept(f"what process {person.pid} did is not all in its numbers"):
                if person.final:
                    self._close(person, person.final)
            if person.leader is None:
                self._ended.append(person)
        with self._failures.kept("when servers were away"):
            for person in sorted(persons, key=lambda person: person.ended_ns):
                if person.final:
                    self.servers.child_ended(person, person.final.exit_code)

    def _close(self, person: Person, final: TaskSnapshot) -> None:
        """Helpers before leaders, who have what they read."""
        person.ended_ns = final.ended_ns
        self._is_own(person)  # now, while that is known
        self._note_end(person, final.ended_ns)
        if person.leader:
            self._helped[person.leader.serial] = person.leader
        self._learn_database(person, final)
        person.application_name = final.application_name or person.application_name
        people.add_lost(self._lost, final)
        self._lost.reads += final.requests  # nobody told of their end
        if not self._per_query:
            people.fold_helpers(person, None)
        person.statements = self._statements(person, final, person.helped_by)
        event = people.cut_off(person, final)
        if event:
            self._end_in(person, final, event)
        final.statements = []
        del self._people[person.serial]

    def _end_in(self, person: Person, final: TaskSnapshot, event: QueryEvent) -> None:
        """Count the query in which a backend ended, with what its parallel workers read."""
        if self._per_query:
            for helper in list(person.helpers):
                if helper.final:
                    add_reads(event.reads, people.take_over(person, helper, helper.final))
        elif event.statement not in {total.statement for total in final.statements}:
            add_reads(event.reads, person.helped_by.get(event.statement, {}))
        if person.statements is None:
            person.statements = Statements(literals=self.literals)
        person.statements.add(event)
        self._cut_off.append(event)

    def _take_cut_off(self) -> list[QueryEvent]:
        found, self._cut_off = self._cut_off, []
        return found

    def _merge(self, person: Person) -> None:
        """Add up one who ended long ago with others of its kind: memory is not for ever."""
        if person.final is None or not self._is_meant(person):
            return
        account = self._account(person, person.final, {})
        kind = (person.title.backend_type, person.title.datname, person.title.usename)
        known = self._merged.get(kind)
        if known is None:
            account.merged = 1
            self._merged[kind] = account
            return
        known.merged = (known.merged or 0) + 1
        add_reads(known.reads, account.reads)
        people.add_apart(people.apart(known.snapshot), people.apart(account.snapshot))
        if account.statements:
            if known.statements is None:
                known.statements = self._no_statements()
            known.statements.merge(account.statements)

    def _account(
        self, person: Person, task: TaskSnapshot, live: dict[int, TaskSnapshot]
    ) -> Account:
        reads: ReadsByKey = {}
        running = task.running
        unowned = running is not None and not person.is_client and not running.is_call
        add_reads(reads, task.reads, scope="outside" if unowned else None)
        if unowned:
            running = None
        add_reads(reads, person.helped)
        pending: ReadsByKey = {}
        helped: dict[int, ReadsByKey] = {}
        for statement, each in person.helped_by.items():
            add_reads(helped.setdefault(statement, {}), each)
        for helper in person.helpers:
            snapshot = helper.final or live.get(helper.serial)
            if snapshot is None:
                continue
            each = people.helper_reads(snapshot, person.scope)
            add_reads(reads, each)
            if running and running.start_ns <= max(helper.began_ns, task.began_ns):
                add_reads(pending, each)
            else:
                add_reads(helped.setdefault(snapshot.started_for, {}), each)
        person.application_name = task.application_name or person.application_name
        if running:
            running.pid = person.pid
            person.named(running)
            add_reads(running.reads, pending)
        task = copy.copy(task)
        for name in people.APART:
            setattr(task, name, copy.copy(getattr(task, name)))
        people.add_apart(people.apart(task), person.apart)
        return Account(person, reads, task, running, self._statements(person, task, helped))

    def _statements(
        self, person: Person, task: TaskSnapshot, helped: dict[int, ReadsByKey]
    ) -> Statements | None:
        """What it called so far: of records, or as the kernel added it up."""
        if person.statements or not task.statements:
            return person.statements
        found = self._no_statements()
        for total in task.statements:
            reads: ReadsByKey = {}
            add_reads(reads, total.reads)
            add_reads(reads, helped.get(total.statement, {}))
            found.add_total(replace(person.named(total), reads=reads))
        return found

    def _no_statements(self) -> Statements:
        light = self._engine.queries_way == "memory"
        return Statements(literals=self.literals, most=self._most_statements, light=light)

    def _fold_helpers(self) -> None:
        """Let statements that ended have what their parallel workers read."""
        for serial, person in list(self._helped.items()):
            if serial in self._people:
                people.fold_helpers(person, self._engine.running(serial))
            if not any(helper.final for helper in person.helpers):
                del self._helped[serial]

    def _is_meant(self, person: Person) -> bool:
        if person.leader or self._is_own(person):
            return False
        if not self._target.whole:
            if not self._target.backends:
                return True
            if person.pid not in self._target.pids:
                return False
        title = person.title
        return self._target.filters.allow(title.datname, title.usename, title.backend_type)

    def _is_own(self, person: Person) -> bool:
        """Whether it is there for pgtrace's names alone."""
        if self._own_queries or self._names is None:
            return False
        if person.is_own is not None:
            return person.is_own
        of_it = self._names.are_of(self.servers.of(person.postmaster))
        own = of_it and self._names.is_own(person.inner_pid, person.began_ns, person.ended_ns)
        if person.ended_ns:
            person.is_own = own
        return own

    def _running_text(
        self, person: Person, addresses: dict[int, int | None]
    ) -> tuple[bytes | None, bool] | None:
        """What it runs now, without a text if that cannot be known; None if it is idle.

        One look into the binary serves all backends of a server.
        """
        try:
            if person.postmaster not in addresses:
                addresses[person.postmaster] = None
                addresses[person.postmaster] = binary.variable_address(
                    person.pid, "debug_query_string"
                )
            address = addresses[person.postmaster]
            if address:
                return binary.running_query(person.pid, variable=address)
        except PgtraceError as error:
            missing = f"text of the query that ran before: {error}"
            if missing not in self._engine.not_measured and not self._target.whole:
                self._engine.not_measured.append(missing)
        return None if self._is_idle(person.pid) else (None, False)

    def _is_idle(self, pid: int) -> bool:
        """Whether its title says so; if that says nothing, as well."""
        try:
            activity = self.servers.backend(pid).activity
        except PgtraceError:
            return True
        return not activity or activity.startswith("idle")
