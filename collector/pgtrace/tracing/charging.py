"""Keeps account of everybody who is traced, and lets helpers' reads be their leaders'."""

import copy
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace

from ..engines import Engine, QueryEvent, Request, TaskSnapshot, add_reads, fold_files
from ..model.capture import COUNT_CALLS, Lost
from ..postgres.discovery import Backend
from ..postgres.names_of_servers import NamesOfServers
from . import traced_process
from .accounts import Account, Accounts, Snapshot
from .identities import Identities
from .options import TraceOptions
from .server_watch import Servers
from .statements import Statements
from .targets import Target
from .traced_process import TracedProcess

MOST_ENDED = 2000
"""Backends that ended and are still told one by one; more are added up by user and database."""
_MOST_WAIT_NS = 2_000_000_000
_NEVER_NS = 1 << 63
_MOST_ENDS = 4 * MOST_ENDED
"""Processes of which it is known when they ended, until that was heard of again."""
MOST_KINDS = 1000
"""So many users and databases of those that are added up are told apart: anybody who can reach the
port names others, without being let in."""
_NOT_TOLD = (
    "processes that neither read nor ran a query: they are not told from backends that there was "
    "no room for"
)


class Registry:
    """All processes of one session."""

    def __init__(
        self,
        engine: Engine,
        target: Target,
        options: TraceOptions,
        names: NamesOfServers | None,
        request: Request,
    ) -> None:
        self._engine = engine
        self.options = options
        self._failures = engine.failures
        self._target = target
        self._processes: dict[int, TracedProcess] = {}
        self._threads: list[tuple[int, int, int]] = []
        """Of whom the engine told last."""
        self._still = False
        self._ends: dict[int, int] = {}
        """When each process ended of whom the engine told, or that it has not; those last who ended
        last."""
        self._leaderless: list[TracedProcess] = []
        """Parallel workers that were met before their leaders: places are in no order."""
        self._helped: dict[int, TracedProcess] = {}
        """By their serials, who has parallel workers that ended."""
        self._ended: deque[TracedProcess] = deque()
        self._merged: dict[tuple[str | None, str | None, str | None], Account] = {}
        self.servers = Servers(engine, target, request)
        self.identities = Identities(engine, target, options, self.servers, names)
        self._accounts = Accounts(engine, options)
        self.let_go_of: Callable[[Iterable[TaskSnapshot]], None] = lambda finals: None
        """Is told what each thread did that is let go of."""
        self._lost = Lost()
        """What those lost who ended."""
        self._cut_off: list[QueryEvent] = []
        """Queries in which their backends ended, and that poll() has to tell yet."""

    def close(self) -> None:
        """Listen to nobody any more."""
        self.servers.close()

    def see_first(self, family: Iterable[Backend]) -> None:
        """Meet those who ran when tracing began, and ask each what it ran.

        `family` are the servers' processes as they were a moment ago: of a thousand, a second look
        would take most of the time in which tracing begins.
        """
        self.identities.remember(family)
        addresses: dict[int, int | None] = {}
        for serial, _, _ in self._engine.serials():
            with self._failures.kept("a process that ran when tracing began"):
                self._see(serial, addresses)
        self.identities.remember(())

    def _see(self, serial: int, addresses: dict[int, int | None]) -> None:
        process = self._meet(serial)
        process.was_there = True
        if self._engine.query_source in COUNT_CALLS and (
            self._target.whole or process.pid in self._target.pids
        ):
            process.before = self.identities.running_text(process, addresses)
        if process.before is None and not process.title.leader_pid:
            process.was_idle = True
            self._engine.was_idle(serial, for_ever=not process.is_client)

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
            if not self.options.per_query:
                self._fold_helpers()
        with self._failures.kept("processes that came and went"):
            silent = self.servers.hear(self._ends)
            if silent and not self._cannot_tell_silent():
                self._ended += silent
        with self._failures.kept("backends that ended, added up"):
            while len(self._ended) > MOST_ENDED:
                self._merge(self._ended.popleft())
        if self.identities.are_new():
            for process in self._processes.values():
                with self._failures.kept("names"):
                    self.identities.name(process)
        with self._failures.kept("servers that are started again"):
            self.servers.watch(self._ends)
        return calls

    def wakes(self) -> list[int]:
        """What can be read once something happens, if nothing has since before the last poll()."""
        if self.options.per_query or not self._still:
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
        process = self._processes.get(event.serial)
        if process is None:
            process = self._meet(event.serial)
        # One who was idle may be reported idle again, after a message that is no query
        if not event.is_call and (not event.begun_before or process.was_idle):
            return False
        event.pid = process.pid
        self._take_helpers(process, event)
        process.named(event)
        process.application_name = event.application_name or process.application_name
        if process.statements is None:
            process.statements = self._accounts.no_statements()
        process.statements.add(event)
        return True

    def _look_for_ended(self, now: int) -> None:
        """Let go of who ended some time before `now`, when the last records were taken."""
        threads = self._engine.serials()
        if threads == self._threads:
            return
        self._still = False
        waiting, ended = False, []
        for serial, _, ended_ns in threads:
            process = self._known(serial)
            # A leader's record may come a moment after its helpers' end, so they go last
            if process and ended_ns and now - ended_ns > _MOST_WAIT_NS // 10:
                ended.append(process)
            elif process and ended_ns:
                waiting = True
        self._let_go(ended)
        self._threads = [] if waiting or ended else threads

    def fold_files(self, instead: Mapping[int, int]) -> None:
        """Some files are gone: what was counted of each is of the one that stands for it."""
        for process in (*self._processes.values(), *self._ended):
            traced_process.fold_files(process, instead)
            for helper in process.helpers:
                traced_process.fold_files(helper, instead)
        for account in self._merged.values():
            fold_files(account.reads, instead)
            if account.statements:
                account.statements.fold_files(instead)
        for event in self._cut_off:
            fold_files(event.reads, instead)

    def finish(self) -> list[QueryEvent]:
        """Let go of all who ended, however lately: nothing more comes. Their last queries."""
        ended = (self._known(serial) for serial, _, ended_ns in self._engine.serials() if ended_ns)
        self._let_go([process for process in ended if process])
        return self._take_cut_off()

    def look(self) -> Snapshot:
        """Everybody's account now. Poll first."""
        found = Snapshot(lost=copy.copy(self._lost))
        live = {task.serial: task for task in self._engine.snapshot()}
        for serial in live.keys() - self._processes.keys():
            self._known(serial)  # all of them first: a worker's place may be before its leader's
        for serial, task in live.items():
            with self._failures.kept(f"process {task.tgid} is in no number"):
                process = self._processes.get(serial) or self._meet(serial)
                if self._may_be_meant(process):
                    traced_process.add_lost(found.lost, task)
                    traced_process.add_in_flight(found.lost, task)
                self.identities.learn_database(process, task)
                if self.identities.is_meant(process):
                    found.accounts.append(self._accounts.of(process, task, live))
        for process in self._ended:
            with self._failures.kept(f"process {process.pid} is in no number"):
                if process.final and self.identities.is_meant(process):
                    found.accounts.append(self._accounts.of(process, process.final, live))
        found.accounts += self._merged.values()
        return found

    def process(self, serial: int) -> TracedProcess | None:
        """The process that a thread is of, as long as it was not let go of."""
        return self._processes.get(serial)

    def processes(self) -> list[TracedProcess]:
        """All that were met and are there."""
        return list(self._processes.values())

    def type_of(self, serial: int) -> str | None:
        """The type of the process that a thread is of."""
        process = self._processes.get(serial)
        return process.title.backend_type if process else None

    def is_meant(self, serial: int) -> bool:
        """Whether what a thread does is to be told, as far as is known: what an I/O worker reads
        may be for somebody who is meant.
        """
        process = self._processes.get(serial)
        return process is None or self._may_be_meant(process)

    def _may_be_meant(self, process: TracedProcess) -> bool:
        if process.title.backend_type == "io worker":
            return True
        return self.identities.is_meant(process.leader or process)

    def silent(self, until_ns: int) -> list[Account]:
        """Who ran at that time and has neither read nor run a query, with nothing in them."""
        if not self._target.whole or self._cannot_tell_silent():
            return []
        running = [process for process in self.servers.running() if process.began_ns <= until_ns]
        known = {tid for _, tid, _ in self._engine.serials()}  # the last word: of who was listed
        known |= {process.pid for process in self._processes.values()}
        return [
            Account(process, {}, process.final, None, None)
            for process in running
            if process.final and process.pid not in known and self.identities.is_meant(process)
        ]

    def _cannot_tell_silent(self) -> bool:
        """Who did nothing is not known from who did not fit."""
        if not self._engine.losses().backends:
            return False
        if _NOT_TOLD not in self._engine.not_measured:
            self._engine.not_measured.append(_NOT_TOLD)
        return True

    def _known(self, serial: int) -> TracedProcess | None:
        """Who that is. None if he cannot be met, which is to cost nobody else."""
        with self._failures.kept("a process is in no number"):
            return self._processes.get(serial) or self._meet(serial)
        return None

    def _meet(self, serial: int) -> TracedProcess:
        task = self._engine.task(serial)
        title = self.identities.title(task.title, task.postmaster)
        now = None
        if not task.title or not title.backend_type:
            now = self.identities.title_now(task.tgid)
        process = TracedProcess(
            serial,
            task.tgid,
            task.inner_tgid,
            task.postmaster,
            now or title,
            task.began_ns,
            born_ns=task.born_ns,
            leader_is_inner=now is None,
        )
        title = process.title
        if not title.backend_type and self.identities.is_stranger(process):
            process.is_stranger = True
            self._engine.ignore(serial)
        self._processes[serial] = process
        self._note_end(process, _NEVER_NS)
        self.identities.name(process)
        if title.leader_pid and self.options.charge and self.servers.follows(task.postmaster):
            leader = self._leader(process)
            if leader:
                _lead(leader, process)
            elif not self._target.whole:
                self._engine.ignore(serial)
            else:
                self._leaderless.append(process)
        for helper in [each for each in self._leaderless if _may_lead(process, each)]:
            self._leaderless.remove(helper)
            _lead(process, helper)
        return process

    def _note_end(self, process: TracedProcess, ended_ns: int) -> None:
        self._ends.pop(process.pid, None)
        self._ends[process.pid] = ended_ns
        if len(self._ends) > _MOST_ENDS + 2 * len(self._processes):
            ends = list(self._ends.items())
            half = len(ends) // 2
            self._ends = {
                pid: ended for i, (pid, ended) in enumerate(ends) if i >= half or ended == _NEVER_NS
            }

    def _leader(self, helper: TracedProcess) -> TracedProcess | None:
        return next((p for p in self._processes.values() if _may_lead(p, helper)), None)

    def _take_helpers(self, leader: TracedProcess, event: QueryEvent) -> None:
        """Let the event pay for the parallel workers that its query started."""
        if not leader.helpers:
            return
        ended = {serial for serial, _, ended_ns in self._engine.serials() if ended_ns}
        helpers = [helper for helper in leader.helpers if helper.began_ns <= event.end_ns]
        self._let_go([helper for helper in helpers if helper.serial in ended])
        for helper in helpers:
            if helper.final is None:
                continue
            add_reads(event.reads, traced_process.take_over(leader, helper, helper.final))

    def _let_go(self, processes: Sequence[TracedProcess]) -> None:
        """Read their accounts for the last time, and free their places."""
        if not processes:
            return
        self._leaderless = [each for each in self._leaderless if each not in processes]
        finals = self._engine.release([process.serial for process in processes])
        with self._failures.kept("costs over time"):
            self.let_go_of(finals)
        for process, final in zip(processes, finals, strict=True):
            process.final = final
        for process in sorted(processes, key=lambda process: process.leader is None):
            with self._failures.kept(f"what process {process.pid} did is not all in its numbers"):
                if process.final:
                    self._close(process, process.final)
            if process.leader is None:
                self._ended.append(process)
        for process in sorted(processes, key=lambda process: process.ended_ns):
            if process.final:
                with self._failures.kept("when servers were away"):
                    self.servers.child_ended(process, process.final.exit_code)

    def _close(self, process: TracedProcess, final: TaskSnapshot) -> None:
        """Helpers before leaders, who have what they read."""
        process.ended_ns = final.ended_ns
        self.identities.is_own(process)  # now, while that is known
        self._note_end(process, final.ended_ns)
        if process.leader and not self.options.per_query:
            self._helped[process.leader.serial] = process.leader
        self.identities.learn_database(process, final)
        process.application_name = final.application_name or process.application_name
        if self._may_be_meant(process):
            traced_process.add_lost(self._lost, final)
            self._lost.read += final.requests  # nobody told of their end
        if not self.options.per_query:
            traced_process.fold_helpers(process, None)
        process.statements = self._accounts.statements(process, final, process.helped_by)
        event = traced_process.cut_off(process, final)
        if event:
            self._end_in(process, final, event)
        final.statements = []
        del self._processes[process.serial]

    def _end_in(self, process: TracedProcess, final: TaskSnapshot, event: QueryEvent) -> None:
        """Count the query in which a backend ended, with what its parallel workers read."""
        if self.options.per_query:
            for helper in list(process.helpers):
                if helper.final:
                    add_reads(event.reads, traced_process.take_over(process, helper, helper.final))
        elif event.statement not in {total.statement for total in final.statements}:
            add_reads(event.reads, process.helped_by.get(event.statement, {}))
        if process.statements is None:
            process.statements = Statements(literals=self.options.literals)
        process.statements.add(event)
        self._cut_off.append(event)

    def _take_cut_off(self) -> list[QueryEvent]:
        found, self._cut_off = self._cut_off, []
        return found

    def _merge(self, process: TracedProcess) -> None:
        """Add up one who ended long ago with others of its kind: memory is not for ever."""
        if process.final is None or not self.identities.is_meant(process):
            return
        account = self._accounts.of(process, process.final, {})
        account.tell_version(self.servers.major(process.postmaster) or 0)
        title = process.title
        kind = (title.backend_type, title.datname, title.usename)
        if kind not in self._merged and len(self._merged) >= MOST_KINDS:
            # Types are few; but of what only looks like a server anybody makes them, too
            few = len(self._merged) < 2 * MOST_KINDS
            process.title = replace(
                title, backend_type=title.backend_type if few else None, datname=None, usename=None
            )
            kind = (process.title.backend_type, None, None)
        known = self._merged.get(kind)
        if known is None:
            account.merged = 1
            self._merged[kind] = account
        else:
            self._accounts.add(known, account)

    def _fold_helpers(self) -> None:
        """Let statements that ended have what their parallel workers read."""
        for serial, process in list(self._helped.items()):
            # Who crashed may have ended, and been let go of, before his workers
            running = self._engine.running(serial) if serial in self._processes else None
            traced_process.fold_helpers(process, running)
            if not any(helper.final for helper in process.helpers):
                del self._helped[serial]


def _may_lead(process: TracedProcess, helper: TracedProcess) -> bool:
    same = process.postmaster == helper.postmaster or not process.postmaster
    pid = process.inner_pid if helper.leader_is_inner else process.pid
    return same and helper.title.leader_pid == pid


def _lead(leader: TracedProcess, helper: TracedProcess) -> None:
    helper.leader = leader
    leader.helpers.append(helper)
