"""What is told of one process: all that it did, and that its helpers did for it."""

import copy
from dataclasses import dataclass, field, replace

from ..engines import Engine, QueryEvent, ReadsByKey, TaskSnapshot, add_reads
from ..model.capture import Lost
from . import time_names, traced_process
from .options import TraceOptions
from .statements import MOST_STATEMENTS, Statements
from .traced_process import TracedProcess


@dataclass(slots=True)
class Snapshot:
    """Everybody's account at one moment."""

    accounts: list["Account"] = field(default_factory=list)
    lost: Lost = field(default_factory=Lost)


@dataclass(slots=True)
class Account:
    """One backend's reads, those of its helpers included."""

    process: TracedProcess
    reads: ReadsByKey
    snapshot: TaskSnapshot
    running: QueryEvent | None
    statements: Statements | None
    merged: int | None = None

    def tell_version(self, major: int) -> None:
        """As time_names has it."""
        time_names.tell_version(self.reads, major)
        if self.statements:
            self.statements.tell_version(major)


class Accounts:
    """Makes them."""

    def __init__(self, engine: Engine, options: TraceOptions) -> None:
        self._engine = engine
        self._options = options

    def of(
        self, process: TracedProcess, task: TaskSnapshot, live: dict[int, TaskSnapshot]
    ) -> Account:
        """Its account; `live` are all threads that are there, by their serials."""
        reads: ReadsByKey = {}
        running = task.running
        unowned = running is not None and not process.is_client and not running.is_call
        add_reads(reads, task.reads, scope="outside" if unowned else None)
        if unowned:
            running = None
        add_reads(reads, process.helped)
        pending: ReadsByKey = {}
        helped: dict[int, ReadsByKey] = {}
        for statement, each in process.helped_by.items():
            add_reads(helped.setdefault(statement, {}), each)
        for helper in process.helpers:
            snapshot = helper.final or live.get(helper.serial)
            if snapshot is None:
                continue
            each = traced_process.helper_reads(snapshot, process.scope)
            add_reads(reads, each)
            if running and running.start_ns <= max(helper.began_ns, task.began_ns):
                add_reads(pending, each)
            else:
                add_reads(helped.setdefault(snapshot.started_for, {}), each)
        process.application_name = task.application_name or process.application_name
        if running:
            running.pid = process.pid
            process.named(running)
            add_reads(running.reads, pending)
        task = copy.copy(task)
        for name in traced_process.EXCLUDED:
            setattr(task, name, copy.copy(getattr(task, name)))
        traced_process.add_excluded(traced_process.excluded(task), process.excluded)
        return Account(process, reads, task, running, self.statements(process, task, helped))

    def statements(
        self, process: TracedProcess, task: TaskSnapshot, helped: dict[int, ReadsByKey]
    ) -> Statements | None:
        """What it called so far: of records, or as the kernel added it up."""
        if process.statements or not task.statements:
            return process.statements
        found = self.no_statements()
        for total in task.statements:
            reads: ReadsByKey = {}
            add_reads(reads, total.reads)
            add_reads(reads, helped.get(total.statement, {}))
            found.add_total(replace(process.named(total), reads=reads))
        return found

    def no_statements(self) -> Statements:
        """What a process begins with."""
        light = self._engine.query_source == "memory"
        most = max(self._options.most_statements, MOST_STATEMENTS)
        return Statements(literals=self._options.literals, most=most, light=light)

    def add(self, known: Account, other: Account) -> None:
        """Add up one more that is told of together with others."""
        known.merged = (known.merged or 0) + 1
        add_reads(known.reads, other.reads)
        traced_process.add_excluded(
            traced_process.excluded(known.snapshot), traced_process.excluded(other.snapshot)
        )
        if other.statements:
            if known.statements is None:
                known.statements = self.no_statements()
            known.statements.merge(other.statements)
