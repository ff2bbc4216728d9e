"""Queries added up by statement, in bounded memory."""

from typing import NamedTuple

from . import capture, histogram, statement
from .engines import Counts, QueryEvent, ReadsByKey, add_reads

MOST_TEXTS = 1000
"""Distinct texts kept as they came; more are folded by what is left without their literals."""
MOST_STATEMENTS = 5000
"""Distinct statements kept; more are added up under `text: null`, never dropped."""


class _Name(NamedTuple):
    text: bytes | str | None
    cut: bool
    protocol: capture.Protocol
    begun_before: bool


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
        name = _Name(event.text, event.text_cut, event.protocol, event.begun_before)
        total = self._fresh.get(name)
        if total is None:
            if len(self._fresh) >= MOST_TEXTS:
                self._fold()
            total = self._fresh[name] = _Sum()
        total.calls += 1
        total.errors += event.error
        total.latency.add(event.end_ns - event.start_ns)
        if event.reads:
            add_reads(total.reads, event.reads)

    def queries(self, block_size: int) -> list[capture.Query]:
        """Every statement so far, those that took longest first."""
        self._fold()
        ordered = sorted(self._folded.items(), key=lambda item: -item[1].latency.total_ns)
        return [
            capture.Query(
                text=text if isinstance(text, str) else None,
                text_cut=cut,
                protocol=protocol,
                begun_before=before,
                calls=total.calls,
                errors=total.errors,
                latency=_latency(total.latency),
                reads=reads_list(total.reads, block_size),
            )
            for (text, cut, protocol, before), total in ordered
        ]

    def _fold(self) -> None:
        for name, total in self._fresh.items():
            shown = name._replace(text=shown_text(name.text, name.cut, literals=self._literals))
            if shown not in self._folded and len(self._folded) >= MOST_STATEMENTS:
                shown = name._replace(text=None, cut=False)
            self._folded.setdefault(shown, _Sum()).add(total)
        self._fresh.clear()


def shown_text(text: bytes | str | None, cut: bool, *, literals: bool) -> str | None:
    """A query's text as files hold it: without its literals, unless they are asked for."""
    if not text:
        return None if text is None else ""
    decoded = statement.decode(text) if isinstance(text, bytes) else text
    return decoded if literals else statement.redact(decoded, cut)


def unfinished(event: QueryEvent, block_size: int, *, literals: bool) -> capture.Query:
    """A query that had not ended when tracing did."""
    return capture.Query(
        text=shown_text(event.text, event.text_cut, literals=literals),
        text_cut=event.text_cut,
        protocol=event.protocol,
        begun_before=event.begun_before,
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
