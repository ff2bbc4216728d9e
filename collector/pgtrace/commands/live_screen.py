"""What attach prints while it traces: each query as it ends, the running one now and then."""

import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Protocol

from .. import terminal_text, units
from ..engines import QueryEvent, ReadsByKey, add_reads
from ..model.capture import COUNT_CALLS, Capture, Io, Latencies, of_operation
from ..postgres.blockers import Blocker, Wait, wait_of
from ..reporters import losses
from ..reporters.sections import time_parts
from ..reporters.terminal import block, capture_report, files
from ..reporters.terminal.sentence import packed, sentence, wrapped
from ..reporters.view import WIDTH
from ..tracing import statements
from ..tracing.accounts import Account
from ..tracing.tracer import Tracer
from .in_place import InPlace

MOST_A_SECOND = 5
"""More queries in one second are summed up, by statement."""
MOST_STATEMENTS = 10
MOST_RELATIONS = 5
FIRST_LOOK_S = 1.0
EVERY_S, EVERY_IN_PLACE_S = 5.0, 1.0
"""A running query is looked at so often, unless told otherwise."""


class Screen(Protocol):
    """Something that shows a session while it runs."""

    def begin(self) -> None:
        """Say what is traced."""

    def make_room(self) -> None:
        """Others are about to say something."""

    def tick(self) -> None:
        """Show what is new; called about every 50 ms."""

    def end(self, reason: str) -> None:
        """Show what is left, and the sum."""


class TextScreen:
    """Blocks of text for a person."""

    def __init__(self, tracer: Tracer, every_s: float | None, *, per_query: bool) -> None:
        self._tracer = tracer
        self._place = InPlace()
        self._every_s = every_s or (EVERY_IN_PLACE_S if self._place.possible else EVERY_S)
        self._per_query = per_query
        self._busy = False
        self._this_second: list[QueryEvent] = []
        self._shown_this_second = 0
        self._second_ends = time.monotonic() + 1
        self._next_look = time.monotonic() + FIRST_LOOK_S
        self._announced_ns = 0
        self._shown_wait: Wait | None = None
        self._queries = self._errors = 0

    def begin(self) -> None:
        """Say which backend this is, what it does, and how it is measured."""
        target, engine = self._tracer.target, self._tracer.engine
        backend = target.backends[0]
        version = target.servers[0].version if target.servers else None
        parts = [
            f"{backend.usename or '?'}@{backend.datname or '?'}" if backend.datname else "",
            backend.backend_type or "",
            f"PostgreSQL {version}" if version else "PostgreSQL",
            backend.activity or "",
        ]
        about = [terminal_text.escape(part) for part in parts if part]
        self._lines(packed(about, WIDTH, f"Backend {backend.pid}  ", gap="  ", indent=2))
        self._say(
            f"{capture_report.measured(engine.probe_type, engine.operations)}, "
            f"{capture_report.QUERIES[engine.query_source]}. "
            "Ctrl-C to stop."
        )
        for missing in self._tracer.not_measured:
            self._say(f"Not measured: {missing}")
        if untraced := block.untraced(engine.operations, times=engine.times):
            self._say(f"Not measured: {', '.join(untraced)}.")
        if backend.activity is None and engine.query_source == "none":
            self._say("What the backend does now cannot be told.")
        running = self._tracer.account().running
        if running:
            self._announce(running)

    def make_room(self) -> None:
        """Before anybody else says something: what will be drawn anew is no longer there."""
        self._place.clear()

    def tick(self) -> None:
        """Show the queries that ended; now and then, the one that runs."""
        self._take_ended()
        now = time.monotonic()
        if now >= self._second_ends:
            self._sum_up()
            if self._next_look > now + 1 and self._is_newly_blocked():
                self._next_look = now
            self._second_ends = now + 1
        if now >= self._next_look:
            self._look()
            self._next_look = time.monotonic() + self._every_s

    def end(self, reason: str) -> None:
        """Show the last queries, what did not end, and the sum."""
        taken = self._tracer.stop()
        self._take_ended()
        self._sum_up()
        for line in capture_report.partial(taken):
            self._say(line)
        if not taken.backends:
            return
        backend = taken.backends[0]
        running = next((query for query in backend.queries if query.unfinished), None)
        if running:
            self._text(f"▷ not ended: {running.text or '(text not known)'}")
            operations, missing = taken.probes.operations, taken.probes.not_measured
            self._lines(block.block(running.io, None, missing, lead="…", operations=operations))
        if len({reads.relation for reads in backend.io}) > 1:
            self._lines(["", *files.tables(taken, most=MOST_RELATIONS)])
        ended = "The backend ended. " if reason == "backend ended" else ""
        besides = ""
        if taken.probes.queries != "none":
            outside = sum(reads.count for reads in backend.io if reads.scope == "outside")
            besides = f", {units.count(outside)} of them outside queries"
        self._print("")
        self._say(
            f"{ended}Traced {units.duration(taken.duration_s * 1e9)}: "
            f"{self._ended(taken)}{self._counted(backend.io)}{besides}."
        )
        failed, short = (
            {operation: each.count for operation, each in of.items()}
            for of in (backend.failed, backend.short)
        )
        if parts := losses.excluded(losses.OPERATIONS, failed, short):
            self._say(f"Not among them: {', '.join(parts)}.")
        if taken.probes.queries == "memory":
            self._lines(capture_report.statements(taken, backend))
        counted = taken.probes.queries != "memory"
        for line in losses.sentences(taken.lost, taken.totals, self._queries if counted else None):
            self._say(line.replace("in no number below", "in no number above"))
        for line in losses.under_way(taken.lost):
            self._say(line)

    def _ended(self, taken: Capture) -> str:
        """How many queries ended, where that was measured."""
        if taken.probes.queries not in COUNT_CALLS:
            return ""
        return (
            f"{units.count(self._queries)} {'query' if self._queries == 1 else 'queries'}, "
            f"{units.count(self._errors)} failed, "
        )

    def _counted(self, reads: Sequence[Io], *, device: bool = False) -> str:
        """How many of what was asked for: `94 reads (12 device), 3 writes`."""
        parts = []
        for operation in self._tracer.engine.operations:
            of_it = of_operation(reads, operation)
            count = sum(r.count for r in of_it)
            name = block.NAMES[operation]
            part = f"{units.count(count)} {name.removesuffix('s') if count == 1 else name}"
            if device and operation == "read":
                waited = sum(r.count for r in of_it if r.source == "device")
                part += f" ({units.count(waited)} device)"
            parts.append(part)
        return ", ".join(parts)

    def _take_ended(self) -> None:
        for event in self._tracer.poll():
            self._queries += 1
            self._errors += event.error
            if self._per_query or (not self._busy and self._shown_this_second < MOST_A_SECOND):
                self._shown_this_second += 1
                self._show(event)
            else:
                self._this_second.append(event)

    def _announce(self, event: QueryEvent) -> None:
        if event.start_ns == self._announced_ns:
            return
        self._announced_ns = event.start_ns
        began = self._tracer.wall_time(event.start_ns).astimezone().strftime("%H:%M:%S")
        shown = "(text not known)"
        if event.text is not None:
            shown = terminal_text.decode(event.text, event.text_cut)
        before = "begun before " if event.begun_before else ""
        shown = shown or "(empty query)"
        self._print("")
        self._text(f"▶ {before}{began}  {shown}{' …' if event.text_cut else ''}")

    def _show(self, event: QueryEvent) -> None:
        self._announce(event)
        latency = event.end_ns - event.start_ns
        lead = f"{'✗' if event.error else '■'} {units.duration(latency)}"
        if event.error:
            lead += "  failed"
        if event.begun_before:
            lead += "  since tracing began"
        self._lines(self._block(event.reads, latency, lead, event.waited_ns))

    def _look(self) -> None:
        account = self._tracer.account()
        now = time.monotonic_ns()
        if account.running:
            self._announce(account.running)
            elapsed = now - account.running.start_ns
            reads, waited_ns = account.running.reads, account.running.waited_ns
        elif self._tracer.engine.query_source not in COUNT_CALLS:
            elapsed = now - self._tracer.started_ns
            reads, waited_ns = account.reads, None
        else:
            return
        lead = f"… {units.duration(elapsed)}"
        self._place.draw([*self._block(reads, elapsed, lead, waited_ns), *self._blocked(account)])

    def _is_newly_blocked(self) -> bool:
        """Whether others than were shown keep the query that runs from a lock: nobody who waits for
        a lock wants to wait for the next look."""
        account = self._tracer.account()
        waits = self._tracer.blockers(account)
        if waits is None or not waits[2]:
            return False
        return self._shown_wait != _wait_of(account, waits[2])

    def _blocked(self, account: Account) -> list[str]:
        """Who holds the lock that it waits for since a while."""
        waits = self._tracer.blockers(account)
        if waits is None:
            return []
        lock, waited_ns, holders = waits
        self._shown_wait = _wait_of(account, holders)
        least = "at least " if account.running and account.running.begun_before else ""
        lines = [f"It waits for a lock ({lock}), for {least}{units.duration(waited_ns)} so far."]
        for each in holders:
            if not each.pid:
                lines.append("A prepared transaction is before it: see pg_prepared_xacts.")
                continue
            who = " ".join(part for part in (each.usename, each.application_name) if part)
            state = f", {each.state}" if each.state else ""
            if state and each.state_s is not None:
                state += f" for {units.duration(each.state_s * 1e9)}"
            lines.append(
                f"Process {each.pid} is before it: {who or '?'}{state}: "
                f"{' '.join((each.query or '(not shown)').split())}"
            )
        return [part for line in lines for part in sentence(line, WIDTH, 2)]

    def _block(
        self, reads: ReadsByKey, elapsed_ns: int, lead: str, waited_ns: int | None = None
    ) -> list[str]:
        assembly, missing = self._tracer.assembly, self._tracer.not_measured
        waited_ns = waited_ns if assembly.waits else None
        listed = assembly.reads(reads)
        return block.block(
            listed,
            elapsed_ns,
            missing,
            lead=lead,
            waited_ns=waited_ns,
            operations=self._tracer.engine.operations,
            parts=time_parts.parts(assembly.times(reads), listed, elapsed_ns),
        )

    def _sum_up(self) -> None:
        """One line per statement for the queries of this second that were not shown."""
        events, self._this_second = self._this_second, []
        self._busy = len(events) + self._shown_this_second > MOST_A_SECOND
        self._shown_this_second = 0
        if not events:
            return
        sums = statements.Statements(literals=False)
        reads: ReadsByKey = {}
        for event in events:
            # By its text alone: one line for all ways in which it came
            sums.add(replace(event, protocol="unknown", begun_before=False, application_name=b""))
            add_reads(reads, event.reads)
        now = time.strftime("%H:%M:%S")
        errors = sum(event.error for event in events)
        noun = "query" if len(events) == 1 else "queries"
        self._print("")
        self._say(
            f"▶ {now}  {units.count(len(events))} {noun} in this second, {errors} failed, "
            f"{self._counted(self._tracer.assembly.reads(reads))}"
        )
        found = self._tracer.assembly.queries(sums)
        for query in found[:MOST_STATEMENTS]:
            latency = query.latency or Latencies()
            mean = latency.sum / max(latency.count, 1)
            counted = self._counted(query.io, device=True)
            calls = "call " if latency.count == 1 else "calls"
            name = "(other)" if query.text is None else query.text or "(empty query)"
            self._text(
                f"  {units.count(latency.count):>7} {calls}  mean {units.duration(mean):>8}  "
                f"max {units.duration(latency.max):>8}  {counted}  {name}"
            )
        if len(found) > MOST_STATEMENTS:
            self._print(f"  and {len(found) - MOST_STATEMENTS} more statements")

    def _say(self, words: str) -> None:
        self._lines(sentence(words, WIDTH))

    def _text(self, statement: str) -> None:
        self._lines(wrapped(terminal_text.escape(statement), WIDTH))

    def _print(self, line: str) -> None:
        self._place.clear()
        print(line, flush=True)

    def _lines(self, lines: list[str]) -> None:
        for line in lines:
            self._print(line)


def _wait_of(account: Account, holders: Sequence[Blocker]) -> Wait:
    return wait_of(account.running.start_ns if account.running else 0, holders)
