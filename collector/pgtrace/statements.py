"""Queries added up by statement, in bounded memory."""

from collections.abc import Callable
from datetime import datetime
from typing import TYPE_CHECKING, NamedTuple

from . import capture, histogram, statement
from .engines import ApartCounts, Counts, QueryEvent, ReadsByKey, add_reads

if TYPE_CHECKING:
    from .registry import Account, Found

MOST_TEXTS = 1000
"""Distinct texts kept as they came; more are folded by what is left without their literals."""
MOST_STATEMENTS = 5000
"""Distinct statements kept; more are added up under `text: null`, never dropped."""


class _Name(NamedTuple):
    text: bytes | str | None
    cut: bool
    protocol: capture.Protocol
    begun_before: bool
    application_name: bytes


class _Sum:
    """Calls of one statement; `latency` counts nanoseconds."""

    __slots__ = ("calls", "errors", "latency", "reads")

    def __init__(self) -> None:
        self.calls = 0
        self.errors = 0
        self.latency = histogram.Histogram()
        self.reads: ReadsByKey = {}

    def add(self, other: "_Sum") -> None:
        self.calls += other.calls
        self.errors += other.errors
        self.latency += other.latency
        add_reads(self.reads, other.reads)


class Statements:
    """What each statement of one backend cost."""

    def __init__(self, *, literals: bool) -> None:
        self._literals = literals
        self._fresh: dict[_Name, _Sum] = {}
        self._folded: dict[_Name, _Sum] = {}

    def add(self, event: QueryEvent) -> None:
        """Count one query that ended."""
        name = _Name(
            event.text,
            event.text_cut,
            event.protocol,
            event.begun_before,
            event.application_name,
        )
        total = self._fresh.get(name)
        if total is None:
            if len(self._fresh) >= MOST_TEXTS:
                self.fold()
            total = self._fresh[name] = _Sum()
        total.calls += 1
        total.errors += event.error
        total.latency.add(event.end_ns - event.start_ns)
        if event.reads:
            add_reads(total.reads, event.reads)

    def merge(self, other: "Statements") -> None:
        """Count the other's calls too."""
        other.fold()
        self.fold()
        for name, total in other._folded.items():
            self._add(name, total)

    def queries(self, block_size: int) -> list[capture.Query]:
        """Every statement so far, those that took longest first."""
        self.fold()
        ordered = sorted(self._folded.items(), key=lambda item: -item[1].latency.total_ns)
        return [
            capture.Query(
                text=text if isinstance(text, str) else None,
                text_cut=cut,
                protocol=protocol,
                begun_before=before,
                application_name=_decoded(application),
                calls=total.calls,
                errors=total.errors,
                latency=_latency(total.latency),
                reads=reads_list(total.reads, block_size),
            )
            for (text, cut, protocol, before, application), total in ordered
        ]

    def fold(self) -> None:
        """Keep no text but as it is shown."""
        for name, total in self._fresh.items():
            shown = name._replace(text=shown_text(name.text, name.cut, literals=self._literals))
            self._add(shown, total)
        self._fresh.clear()

    def _add(self, name: _Name, total: _Sum) -> None:
        if name not in self._folded and len(self._folded) >= MOST_STATEMENTS:
            name = name._replace(text=None, cut=False)
        self._folded.setdefault(name, _Sum()).add(total)


def shown_text(text: bytes | str | None, cut: bool, *, literals: bool) -> str | None:
    """A query's text as files hold it: without its literals, unless they are asked for."""
    if not text:
        return None if text is None else ""
    if isinstance(text, str):
        return text if literals else statement.redact(text, cut)
    if literals:
        return statement.decode(text, cut)
    # Escaped only after: what is no UTF-8 is part of a name, such as that of a dollar quote
    raw = statement.decode(text, cut, "surrogateescape")
    return statement.decode(statement.redact(raw, cut).encode("utf-8", "surrogateescape"))


def unfinished(event: QueryEvent, block_size: int, *, literals: bool) -> capture.Query:
    """A query that had not ended when tracing did."""
    return capture.Query(
        text=shown_text(event.text, event.text_cut, literals=literals),
        text_cut=event.text_cut,
        protocol=event.protocol,
        begun_before=event.begun_before,
        application_name=_decoded(event.application_name),
        unfinished=True,
        calls=0,
        errors=0,
        latency=capture.Latency(),
        reads=reads_list(event.reads, block_size),
    )


def reads_list(reads: ReadsByKey, block_size: int) -> list[capture.Reads]:
    """Reads as a capture holds them, in the order of their keys."""
    return [
        capture.Reads(
            source=key.source,
            pattern=key.pattern,
            size=key.size,
            scope=key.scope,
            direct=key.direct,
            performed_by=key.performed_by,
            queued_ns=counts.queued_ns if key.performed_by == "io worker" else None,
            count=counts.count,
            bytes=counts.bytes,
            blocks=counts.bytes // block_size,
            device_bytes=counts.device_bytes,
            total_ns=counts.total_ns,
            min_ns=counts.min_ns,
            max_ns=counts.max_ns,
            histogram=capture.HistogramData(buckets=_buckets(counts)),
        )
        for key, counts in sorted(reads.items())
        if counts.count
    ]


def _decoded(name: bytes) -> str | None:
    return statement.decode(name) or None


def _buckets(counts: Counts) -> list[capture.Bucket]:
    return [(*histogram.bucket_bounds(i), n) for i, n in sorted(counts.buckets.items()) if n]


def _latency(latency: histogram.Histogram) -> capture.Latency:
    return capture.Latency(
        count=sum(latency.counts.values()),
        total_ns=latency.total_ns,
        min_ns=latency.min_ns or 0,
        max_ns=latency.max_ns or 0,
        buckets=latency.to_data().buckets,
    )


def backends(
    found: "Found", block_size: int, wall: Callable[[int], datetime], *, literals: bool
) -> list[capture.Backend]:
    """Everybody as a capture holds them: those who read most first."""
    listed = [_backend(account, block_size, wall, literals) for account in found.accounts]
    return sorted(listed, key=lambda b: (-sum(r.total_ns for r in b.reads), b.pid))


def stamp(moment: datetime) -> str:
    """A moment in UTC, as captures have it."""
    return moment.strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def _backend(
    account: "Account", block_size: int, wall: Callable[[int], datetime], literals: bool
) -> capture.Backend:
    person, task = account.person, account.snapshot
    queries = person.statements.queries(block_size) if person.statements else []
    if account.running:
        queries.append(unfinished(account.running, block_size, literals=literals))
    began = None if person.was_there or account.merged else stamp(wall(person.began_ns))
    ended_ns = 0 if account.merged else person.ended_ns or task.ended_ns
    ended = stamp(wall(ended_ns)) if ended_ns else None
    return capture.Backend(
        pid=0 if account.merged else person.pid,
        merged=account.merged,
        backend_type=person.title.backend_type,
        datname=person.title.datname,
        usename=person.title.usename,
        application_name=_decoded(person.application_name),
        began=began,
        ended=ended,
        reads=reads_list(account.reads, block_size),
        failed=_apart(task.failed),
        short=_apart(task.short),
        queries=queries,
    )


def _apart(counts: ApartCounts) -> capture.Apart:
    return capture.Apart(counts.count, counts.bytes, counts.device_bytes, counts.total_ns)
