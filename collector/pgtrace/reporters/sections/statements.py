"""Statements of a capture, each of all backends together."""

from dataclasses import dataclass, field

import msgspec

from ...model.capture import Capture, Executions, Io, Query, of_operation
from ...model.combined import alike
from ...model.histogram import Histogram
from ...terminal_text import shown
from .sums import time_of

_TOLD = (
    "source", "pattern", "size", "scope", "operation", "call", "kind", "performed_by", "direct",
)  # fmt: skip
_PLACES = ("tablespace", "relation")


@dataclass(slots=True)
class Statement:
    """Calls of one statement in every backend."""

    queries: list[Query] = field(default_factory=list)
    """The first is one of those that tell most of the text."""
    backends: int = 0
    executed: Executions | None = None
    """Its calls and their time, where the server alone has counted them."""
    latency: Histogram = field(default_factory=Histogram)
    reads: list[Io] = field(default_factory=list)
    """Those of every call, whoever performed them: they may overlap. From where, they do not
    tell."""
    written: list[Io] = field(default_factory=list)
    """Its writes and fsyncs, in the same way."""

    @property
    def text(self) -> str:
        """As reports show it."""
        return shown(self.queries[0].text, cut=self.queries[0].text_cut)

    @property
    def calls(self) -> int | None:
        """None: not measured."""
        counted = [query.calls for query in self.queries if query.calls is not None]
        if counted:
            return sum(counted)
        # Of one that read and has none, no call has ended
        return (self.executed.calls or None) if self.executed else None

    @property
    def elapsed_ns(self) -> int | None:
        """How long its calls took in all; None: not measured."""
        if self.latency.count:
            return self.latency.total_ns
        return self.executed.total_ns if self.executed and self.executed.calls else None

    def is_called(self, words: str) -> bool:
        """Whether that is its query_id, or stands in its text."""
        ids = {str(query.query_id) for query in self.queries if query.query_id is not None}
        return words in ids or words.casefold() in self.text.casefold()

    def as_query(self) -> Query:
        """All of it as one query, such as one backend has."""
        counted = [query for query in self.queries if query.calls is not None]
        waits = [query.waited_ns for query in self.queries if query.waited_ns is not None]
        applications = {query.application_name for query in self.queries}
        return msgspec.structs.replace(
            self.queries[0],
            calls=sum(query.calls or 0 for query in counted) if counted else None,
            errors=sum(query.errors or 0 for query in counted) if counted else None,
            latency=self.latency.to_data() if counted else None,
            io=alike((r for query in self.queries for r in query.io), _TOLD + _PLACES),
            times=[time for query in self.queries for time in query.times],
            application_name=applications.pop() if len(applications) == 1 else None,
            waited_ns=sum(waits) if waits else None,
        )


def statements(capture: Capture) -> list[Statement]:
    """Those that took longest first."""
    found: dict[tuple[object, ...], Statement] = {}
    for backend in capture.backends:
        seen = set()
        for query in backend.queries:
            same = query.query_id or query.text_hash or query.text
            key = (same, query.protocol, query.begun_before, query.unfinished)
            statement = found.setdefault(key, Statement())
            statement.queries.append(query)
            statement.backends += key not in seen
            seen.add(key)
    executed = {each.query_id: each for each in capture.executions}
    for statement in found.values():
        statement.queries.sort(key=lambda query: (query.text is None, query.text_cut))
        statement.executed = executed.get(statement.queries[0].query_id or 0)
        statement.latency = Histogram.of(
            query.latency for query in statement.queries if query.latency
        )
        # There may be thousands, and each table adds them up
        every = [r for query in statement.queries for r in query.io]
        statement.reads = alike(of_operation(every), _TOLD)
        statement.written = alike((r for r in every if r.operation != "read"), _TOLD)
    return sorted(found.values(), key=lambda s: (-(s.elapsed_ns or 0), -time_of(s.reads)))
