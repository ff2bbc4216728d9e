"""The statements of a capture, each of all backends together, as a chapter of a page."""

from collections.abc import Iterator, Sequence
from functools import reduce
from operator import add

from ... import units
from ...model.capture import Capture, Query
from ..sections.statements import Statement
from ..sections.sums import time_of, written_in
from ..terminal.capture_report import MOST_STATEMENTS
from . import writes
from .charts import Charts
from .parts import Row, anchor, paragraphs, part, table, unique
from .reads import reading, view


def statements(
    capture: Capture, every: Sequence[Statement], charts: Charts, missing: Sequence[str]
) -> str:
    """Return the table of all of them, and for each its facts and charts."""
    if not every:
        return paragraphs(["Not measured."]) if capture.probes.queries == "none" else ""
    drawn = [*statement_anchors(every)]
    rows = [
        _statement_row(capture, f"{n}. {s.text}", [s], place)
        for n, (s, place) in enumerate(drawn, 1)
    ]
    if len(every) > MOST_STATEMENTS:
        rest = every[MOST_STATEMENTS:]
        more = f"({units.count(len(rest))} more, in --format json)"
        rows.append(_statement_row(capture, more, rest))
    heads: list[tuple[str, Sequence[str]]] = [
        ("", ["calls", "errors", "backends"]),
        ("latency of a call", ["in all", "p50", "p99", "max"]),
    ]
    if reading(capture):
        heads.append(("its reads", ["reads", "bytes", "time", "of the latency"]))
    heads += writes.heads(capture.probes.operations)
    parts = [
        table("Statements, those that took longest first", "statement", heads, rows, long=True)
    ]
    for number, (statement, place) in enumerate(drawn, 1):
        content = [paragraphs(_facts(statement))]
        content.append(
            view(
                charts,
                f"Statement {number}",
                statement.reads,
                missing,
                elapsed_ns=statement.latency.total_ns or None,
                waited_ns=waited(statement.queries),
            )
        )
        title = f"Writes and fsyncs of statement {number}"
        content.append(writes.view(charts, title, "what, of", written_in(statement.written)))
        title = f"{number}. {statement.text}"
        parts.append(part(title, "\n".join(content), anchor=place))
    return "\n".join(parts)


def statement_anchors(every: Sequence[Statement]) -> Iterator[tuple[Statement, str]]:
    """Those that are drawn, and where. Of one statement there may be several: by other protocols,
    or begun before tracing.
    """
    drawn = every[:MOST_STATEMENTS]
    queries = (statement.queries[0] for statement in drawn)
    names = (str(q.query_id or q.text_hash or s.text) for q, s in zip(queries, drawn, strict=True))
    yield from zip(drawn, unique(anchor("statement", name) for name in names), strict=True)


def _statement_row(
    capture: Capture, name: str, statements: Sequence[Statement], link: str = ""
) -> Row:
    queries = [query for s in statements for query in s.queries]
    reads = [r for s in statements for r in s.reads]
    latency = reduce(add, (s.latency for s in statements))
    counted = [q for q in queries if q.calls is not None]
    executed = [s.executed for s in statements if s.executed]
    calls = [q.calls or 0 for q in counted] or [each.calls for each in executed]
    read_ns = time_of(reads)
    own_ns = sum(r.total_ns for r in reads if r.performed_by == "backend")
    times = ["-"] * 4
    if latency.count:
        shares = (units.duration(latency.percentile(p) or 0, 2) for p in (50, 99, 100))
        times = [units.duration(latency.total_ns), *shares]
    elif executed:
        times[0] = units.duration(sum(each.total_ns for each in executed))
    read = [
        units.count(sum(r.count for r in reads)),
        units.size(sum(r.bytes for r in reads)),
        units.duration(read_ns),
        units.share(own_ns / max(1, latency.total_ns)) if latency.count else "-",
    ]
    written = [r for s in statements for r in s.written]
    return Row(
        name,
        [
            units.count(sum(calls)) if calls else "-",
            units.count(sum(q.errors or 0 for q in counted)) if counted else "-",
            units.count(sum(s.backends for s in statements)) if len(statements) == 1 else "-",
            *times,
            *(read if reading(capture) else []),
            *writes.cells(written, capture.probes.operations),
        ],
        link=link,
    )


def _facts(statement: Statement) -> list[str]:
    query = statement.queries[0]
    facts = [f"{query.protocol.capitalize()} protocol."] if query.calls is not None else []
    if query.query_id is not None:
        facts = [" ".join([*facts, f"query_id {query.query_id}."])]
    if statement.executed:
        facts.append("Calls and the time to execute them are those of pg_stat_statements.")
    if query.begun_before:
        facts.append("Begun before tracing: time and reads count from when tracing began.")
    if query.unfinished:
        facts.append("Not ended when tracing stopped: its reads so far.")
    return facts


def waited(queries: Sequence[Query]) -> int | None:
    """How long backends waited for asynchronous reads; None where that is not measured."""
    waits = [query.waited_ns for query in queries if query.waited_ns is not None]
    return sum(waits) if waits else None
