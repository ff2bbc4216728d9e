"""From what was found to what a capture holds."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from datetime import datetime
from typing import NamedTuple

from .. import terminal_text
from ..engines import (
    Counts,
    ExcludedCounts,
    QueryEvent,
    ReadsByKey,
    StatementName,
    TimeKey,
    io_of,
    times_of,
)
from ..failures import Failures
from ..model import capture
from ..postgres.statement_hash import fnv1a
from ..postgres.wait_events import WaitEvent
from ..units import stamp
from .accounts import Account, Snapshot
from .file_names import Place, Places
from .heaviest import Telling
from .statements import Name, Statements, Sum, shown_text
from .time_names import named

_NOWHERE = Place("unknown")


class _Reads(NamedTuple):
    """A key of reads with the place in the file's stead."""

    scope: capture.Scope
    performed_by: capture.Performer
    direct: bool
    size: capture.Size
    pattern: capture.Pattern
    source: capture.Source
    operation: capture.Operation
    call: capture.Call | None
    place: Place


class Assembly:
    """Knows what the numbers of one session stand for."""

    def __init__(
        self,
        places: Places,
        block_size: int,
        *,
        operations: Sequence[capture.Operation],
        literals: bool,
        texts: Mapping[int, str] | None = None,
        waits: Collection[int] = (),
        light: bool = False,
        major: Callable[[int], int | None] = lambda _: None,
        failures: Failures,
    ) -> None:
        """Of backends of the postmasters `waits` it is known how long they waited for asynchronous
        reads; with `light`, nothing of calls. `major` is the version of a postmaster's server, or
        of any if it is 0, of which wait events have their names.
        """
        self._major = major
        self._light = light
        self._operations = operations
        self._failures = failures
        self._places = places
        self._texts = {} if texts is None else texts
        self.waits = waits
        self._block_size = block_size
        self._literals = literals

    def backends(self, found: Snapshot, wall: Callable[[int], datetime]) -> list[capture.Backend]:
        """Everybody, first those of whom what was measured took most time.

        Who cannot be told costs nobody else.
        """
        listed = []
        for account in found.accounts:
            with self._failures.kept(f"process {account.process.pid} is in no number"):
                listed.append(self._backend(account, wall))
        return sorted(listed, key=lambda b: (-sum(r.total_ns for r in b.io), b.pid))

    def telling(self, backends: Iterable[capture.Backend]) -> Telling:
        """What tells the heaviest of an interval, so that they are found among these."""
        ids: dict[str, set[int]] = {}
        for query in (query for backend in backends for query in backend.queries):
            if query.query_id and query.text:
                ids.setdefault(query.text, set()).add(query.query_id)

        def told(name: StatementName) -> tuple[int | None, str | None]:
            if name.query_id:
                return name.query_id, None
            # One that was read before its id was known is its own all the same
            text = shown_text(name.text, name.text_cut, literals=self._literals)
            same = ids.get(text or "", set())
            if len(same) == 1:
                return next(iter(same)), None
            return None, _text_hash(text, name.text_cut, 0)

        return Telling(told, self._places.place)

    def queries(self, statements: Statements, postmaster: int = 0) -> list[capture.Query]:
        """Every statement, those that took longest first."""
        found = []
        for name, total in statements.totals():
            with self._failures.kept("a statement is in no list"):
                found.append(self._query(name, total, postmaster))
        return found

    def _query(self, name: Name, total: Sum, postmaster: int) -> capture.Query:
        text, cut = total.text, total.cut
        if name.query_id in self._texts and not self._literals:
            # Of utility statements the server leaves literals, passwords among them
            text, cut = shown_text(self._texts[name.query_id], False, literals=False), False
        return capture.Query(
            text=text if isinstance(text, str) else None,
            query_id=name.query_id or None,
            text_hash=_text_hash(text, cut, name.query_id),
            text_cut=cut,
            protocol=name.protocol,
            begun_before=name.begun_before,
            application_name=_decoded(name.application_name),
            calls=None if self._light else total.calls,
            errors=None if self._light else total.errors,
            waited_ns=self._waited(total.waited_ns, postmaster),
            latency=None if self._light else total.latency.to_data(),
            io=self.reads(total.reads),
            times=self.times(total.reads, postmaster),
        )

    def _waited(self, waited_ns: int, postmaster: int) -> int | None:
        """None where it is not measured. Who are told of together may be of several servers."""
        known = waited_ns or postmaster in self.waits or (self.waits and not postmaster)
        return waited_ns if known else None

    def reads(self, reads: ReadsByKey) -> list[capture.Io]:
        """Reads as a capture holds them: added up where their files are not told apart."""
        found: dict[_Reads, Counts] = {}
        for key, counts in io_of(reads).items():
            place = _NOWHERE
            with self._failures.kept("which files were read"):
                place = self._places.place(key.file)
            same = key.scope, key.performed_by, key.direct, key.size, key.pattern, key.source
            found.setdefault(_Reads(*same, key.operation, key.call, place), Counts()).take(counts)
        return [
            capture.Io(
                source=key.source,
                pattern=key.pattern,
                size=None if key.operation == "fsync" else key.size,
                scope=key.scope,
                direct=key.direct,
                operation=key.operation,
                call=key.call,
                kind=key.place.kind,
                tablespace=key.place.tablespace,
                relation=key.place.relation,
                performed_by=key.performed_by,
                queued_ns=counts.queued_ns if key.performed_by == "io worker" else None,
                bytes=counts.bytes,
                blocks=counts.bytes // self._block_size,
                device_bytes=counts.device_bytes,
                latency=counts.to_data(),
            )
            for key, counts in sorted(found.items(), key=lambda item: _order(item[0]))
            if counts.count
        ]

    def event(self, number: int, postmaster: int = 0) -> WaitEvent:
        """What a sleeping process waits for, by TimeKey.event. Types of events, and waits for work,
        have one number in all versions: for them no postmaster is needed.
        """
        return named(self._major(postmaster), number)

    def times(self, reads: ReadsByKey, postmaster: int = 0) -> list[capture.Time]:
        """Where the time of those went who made these reads, what took longest first."""
        found: dict[tuple[TimeKey, WaitEvent | None], Counts] = {}
        for key, counts in times_of(reads).items():
            event = self.event(key.event, postmaster) if key.kind == "sleep" else None
            # Of servers of several versions, numbers that differ may be one event
            found.setdefault((key._replace(event=0), event), Counts()).take(counts)
        return [
            capture.Time(
                kind=key.kind,
                scope=key.scope,
                latency=counts.to_data(),
                wait_event_type=event.type if event else None,
                wait_event=event.event if event else None,
                performed_by=key.performed_by,
            )
            for (key, event), counts in sorted(found.items(), key=lambda item: -item[1].total_ns)
        ]

    def _backend(self, account: Account, wall: Callable[[int], datetime]) -> capture.Backend:
        process, task = account.process, account.snapshot
        master = process.postmaster
        queries = self.queries(account.statements, master) if account.statements else []
        if account.running:
            with self._failures.kept("a query that had not ended is in no list"):
                queries.append(self._unfinished(account.running, master))
        began = None if process.was_there or account.merged else stamp(wall(process.began_ns))
        ended_ns = 0 if account.merged else process.ended_ns or task.ended_ns
        ended = stamp(wall(ended_ns)) if ended_ns else None
        return capture.Backend(
            pid=0 if account.merged else process.pid,
            merged=account.merged,
            backend_type=process.title.backend_type,
            datname=process.title.datname,
            usename=process.title.usename,
            application_name=_decoded(process.application_name),
            began=began,
            ended=ended,
            io=self.reads(account.reads),
            times=self.times(account.reads, master),
            failed=self._excluded(
                {"read": task.failed, "write": task.failed_writes, "fsync": task.failed_fsyncs}
            ),
            short=self._excluded({"read": task.short, "write": task.short_writes}),
            queries=queries,
        )

    def _excluded(
        self, counts: Mapping[capture.Operation, ExcludedCounts]
    ) -> dict[capture.Operation, capture.Excluded]:
        return {
            operation: capture.Excluded(c.count, c.bytes, c.device_bytes, c.total_ns)
            for operation, c in counts.items()
            if operation in self._operations
        }

    def _unfinished(self, event: QueryEvent, postmaster: int) -> capture.Query:
        """A query that had not ended when tracing did."""
        text = shown_text(event.text, event.text_cut, literals=self._literals)
        return capture.Query(
            text=text,
            query_id=event.query_id or None,
            text_hash=_text_hash(text, event.text_cut, event.query_id),
            text_cut=event.text_cut,
            protocol=event.protocol,
            begun_before=event.begun_before,
            application_name=_decoded(event.application_name),
            unfinished=True,
            calls=0,
            errors=0,
            waited_ns=self._waited(event.waited_ns, postmaster),
            latency=capture.Latencies(),
            io=self.reads(event.reads),
            times=self.times(event.reads, postmaster),
        )


def _order(key: _Reads) -> tuple[object, ...]:
    return (key.operation, key.call or "", *key[:6], *(part or "" for part in key.place))


def _text_hash(text: object, cut: bool, query_id: int) -> str | None:
    """Where no query id tells statements apart. A hash of literals would tell them, too."""
    if query_id or not text or not isinstance(text, str):
        return None
    redacted = shown_text(text, cut, literals=False) or ""
    return f"{fnv1a(redacted.encode()):016x}"


def _decoded(name: bytes) -> str | None:
    return terminal_text.decode(name) or None
