"""The statements of a capture, each of all backends together, as a chapter of a page."""

from collections import Counter
from collections.abc import Iterator, Sequence
from functools import reduce
from operator import add

from ... import units
from ...model.capture import Capture, Query
from ..sections.statements import Statement
from ..sections.sums import time_of
from ..terminal.capture_report import MOST_STATEMENTS
from .charts import Charts
from .parts import Row, anchor, paragraphs, part, table
from .reads import view


def statements(
    capture: Capture, every: Sequence[Statement], charts: Charts, missing: Sequence[str]
) -> str:
    """Return the table of all of them, and for each its facts and charts."""
    if not every:
        return paragraphs(["Not measured."]) if capture.probes.queries == "none" else ""
    anchors = list(_anchors(every[:MOST_STATEMENTS]))
    rows = [
        _statement_row(f"{n}. {s.text}", [s], place)
        for n, (s, place) in enumerate(zip(every, anchors, strict=False), 1)
    ]
    if len(every) > MOST_STATEMENTS:
        rest = every[MOST_STATEMENTS:]
        rows.append(_statement_row(f"({units.count(len(rest))} more, in --format json)", rest))
    heads = [
        ("", ["calls", "errors", "backends"]),
        ("latency of a call", ["in all", "p50", "p99", "max"]),
        ("its reads", ["reads", "bytes", "time", "of the latency"]),
    ]
    parts = [
        table("Statements, those that took longest first", "statement", heads, rows, long=True)
    ]
    for number, statement in enumerate(every[:MOST_STATEMENTS], 1):
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
        title = f"{number}. {statement.text}"
        parts.append(part(title, "\n".join(content), anchor=anchors[number - 1]))
    return "\n".join(parts)


def _anchors(every: Sequence[Statement]) -> Iterator[str]:
    """Of one statement there may be several: by other protocols, or begun before tracing."""
    seen: Counter[str] = Counter()
    for statement in every:
        query = statement.queries[0]
        name = str(query.query_id or query.text_hash or statement.text)
        seen[name] += 1
        yield anchor("statement", name if seen[name] == 1 else f"{name}-{seen[name]}")


def _statement_row(name: str, statements: Sequence[Statement], link: str = "") -> Row:
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
    return Row(
        name,
        [
            units.count(sum(calls)) if calls else "-",
            units.count(sum(q.errors or 0 for q in counted)) if counted else "-",
            units.count(sum(s.backends for s in statements)) if len(statements) == 1 else "-",
            *times,
            units.count(sum(r.count for r in reads)),
            units.size(sum(r.bytes for r in reads)),
            units.duration(read_ns),
            units.share(own_ns / max(1, latency.total_ns)) if latency.count else "-",
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
