"""A capture as a page: everything, then by place, backend and statement."""

from collections.abc import Sequence
from itertools import cycle
from typing import get_args

from ... import units
from ...model.capture import (
    COUNT_CALLS,
    Backend,
    Call,
    Capture,
    Io,
    Operation,
    Tablespace,
    of_operation,
)
from ...model.combined import alike
from ...model.histogram import Histogram
from .. import losses
from ..document import Group, Layer
from ..sections import server as overview
from ..sections.statements import statements as all_statements
from ..sections.sums import reads_of, relation_of, written
from ..terminal.capture_report import head, how, lost_of, partial
from ..terminal.files import MOST_RELATIONS, about, grouped
from ..view import Choice, View
from . import drawing, whole
from .charts import Charts
from .flame import flame
from .opening import opening
from .over_time import over_time
from .parts import Row, anchor, escaped, paragraphs, part, section, table
from .reads import COLUMNS, TOLD, numbers, view
from .statements import statements, waited

MOST_DRAWN = 20
"""Backends with charts of their own; the others are added up in one row."""
_NAV = (("time", "Over time"), ("reads", "All reads"), ("read", "What was read"),
        ("writes", "Writes and fsync"), ("backends", "Backends"),
        ("statements", "Statements"))  # fmt: skip
_ANSWER = ("answer", "times", "over-time")
_CALLS = ("write", *get_args(Call))
_COLOURS = ("s4", "sync", "s0", "s2")
_OF_WRITES = ("calls", "bytes", "time", "mean", "p50", "p99", "max")


def report(capture: Capture, _: View) -> list[str]:
    """Return it in one."""
    return [render(capture)]


def render(capture: Capture) -> str:
    """Return the page."""
    charts = Charts()
    when, unfinished, lost = head(capture), partial(capture), lost_of(capture)
    missing = _missing(capture)
    reads = alike(reads_of(capture), (*TOLD, "tablespace", "relation"))  # added up many times
    every = all_statements(capture)
    by = {
        "time": over_time(capture),
        "reads": _everything(capture, reads, charts, missing),
        "read": _places(capture, reads),
        "writes": _writes(capture, charts),
        "backends": _backends(capture, charts, missing),
        "statements": statements(capture, every, charts, missing),
    }
    several = len(capture.backends) > 1
    links = "".join(f'<li><a href="#{name}">{title}</a></li>' for name, title in _NAV if by[name])
    server = capture.server
    of = f"PostgreSQL {server.version}" if server.version else "PostgreSQL"
    where = f" in {server.data_directory}" if server.data_directory else ""
    simulated = [t.name for t in capture.tablespaces if t.simulated]
    overviews = (
        overview.sections_of(capture, reads, every, Choice(exact=True)) if capture.backends else []
    )
    answer = [part for part in overviews if part.name in _ANSWER]
    parts = [
        f"<header>\n<h1>Read latencies of {escaped(of)}</h1>",
        paragraphs([f"{when}. {of}{where}."], "lead"),
        f'<nav aria-label="On this page"><ul>{links}</ul></nav>\n</header>',
        paragraphs([*unfinished, *lost], "warning"),
        paragraphs(
            [f"Simulated: tablespace {name} lies on a simulated device." for name in simulated],
            "simulated",
        ),
        drawing.drawn(answer, charts),
        opening(capture),
        flame(capture),
        section("time", "Over time", by["time"]),
        drawing.drawn([part for part in overviews if several and part not in answer], charts),
        *(section(name, title, by[name]) for name, title in _NAV if name != "time"),
        _how(capture, [*how(capture), *lost]),
    ]
    return whole(when, "\n".join(parts), charts)


def _how(capture: Capture, lines: Sequence[str]) -> str:
    """Losses stand out: every number below lacks them."""
    lost = capture.lost
    bad = lost.read or lost.queries or lost.backends or lost.write or lost.fsync
    bad = bad or lost.statements or lost.unplaced or lost.latencies
    content = [
        paragraphs([line], "warning" if bad and line.startswith("Lost") else "") for line in lines
    ]
    return section("how", "How it was measured", "\n".join(content))


def _missing(capture: Capture) -> list[str]:
    return [missing.partition(":")[0] for missing in capture.probes.not_measured]


def _reads(backend: Backend) -> list[Io]:
    return of_operation(backend.io)


def _everything(
    capture: Capture, reads: Sequence[Io], charts: Charts, missing: Sequence[str]
) -> str:
    if not capture.backends:
        return paragraphs(["No backend was seen."])
    only = capture.backends[0] if len(capture.backends) == 1 else None
    return view(
        charts,
        "All reads",
        reads,
        missing,
        elapsed_ns=round(capture.duration_s * 1e9) if only else None,
        failed=only.failed.get("read") if only else None,
        short=only.short.get("read") if only else None,
        opened=True,
    ) + _apart(capture, only)


def _apart(capture: Capture, only: Backend | None) -> str:
    parts = _excluded(capture, ["read"])
    if only or not parts:
        return ""
    return paragraphs([f"In no number here: {', '.join(parts)}. Each backend has its own."])


def _excluded(capture: Capture, operations: Sequence[Operation]) -> list[str]:
    totals = capture.totals.items()
    failed, short = {o: t.failed for o, t in totals}, {o: t.short for o, t in totals}
    return losses.excluded(operations, failed, short)


def _places(capture: Capture, reads: Sequence[Io]) -> str:
    if all(r.kind == "unknown" for r in reads):
        return ""
    whole = sum(r.total_ns for r in reads)
    named = any(r.relation for r in reads)
    of = grouped(reads, relation_of if named else lambda r: r.kind)
    rows = [numbers(name, own, whole) for name, own in of[:MOST_RELATIONS]]
    for row in rows:
        row.anchor = anchor("read", row.name)
    rest = [r for _, own in of[MOST_RELATIONS:] for r in own]
    if rest:
        rows.append(numbers(f"({units.count(len(of) - MOST_RELATIONS)} more)", rest, whole))
    spaces = grouped(reads, lambda r: r.tablespace or "(no tablespace)")
    known = {space.name: space for space in capture.tablespaces}
    where = [_space(name, known.get(name), numbers(name, own, whole)) for name, own in spaces]
    first = "relation" if named else "kind"
    tables = [
        table(f"By {first}", first, [("", COLUMNS)], rows, long=named),
        table(
            "By tablespace", "tablespace", [("", [*COLUMNS, "where"])], where, words=["where"]
        ),
    ]  # fmt: skip
    return "\n".join(tables)


def _writes(capture: Capture, charts: Charts) -> str:
    """Which call, of which files, by whom; nothing where nobody asked for them."""
    if not set(capture.probes.operations) - {"read"}:
        return ""
    found, rows = written(capture), []
    for name, calls in found:
        total = Histogram.of(calls)
        sized = calls[0].operation == "write"
        rows.append(
            Row(
                name,
                [
                    units.count(total.count),
                    units.size(sum(r.bytes for r in calls)) if sized else "-",
                    units.duration(total.total_ns),
                    units.duration(total.total_ns / total.count),
                    units.duration(total.percentile(50) or 0, 2),
                    units.duration(total.percentile(99) or 0, 2),
                    units.duration(total.max_ns or 0, 2),
                ],
            )
        )
    said = _excluded(capture, ["write", "fsync"])
    lines = [f"In no number here: {', '.join(said)}."] if said else []
    if not found:
        return paragraphs(["None.", *lines])
    every = [r for _, some in found for r in some]
    layers = [
        Layer((call,), colour, Histogram.of(own))
        for call, colour in zip(_CALLS, cycle(_COLOURS), strict=False)
        if (own := [r for r in every if (r.call or r.operation) == call])
    ]
    title = "Writes and fsyncs: how long a call took"
    return (
        charts.latencies(title, [Group("", layers)], what="calls")
        + table("By call, file and type of backend", "what, of, by", [("", _OF_WRITES)], rows)
        + paragraphs(lines)
    )


def _space(name: str, space: Tablespace | None, row: Row) -> Row:
    return Row(name, [*row.cells, about(space) if space else ""])


def _backends(capture: Capture, charts: Charts, missing: Sequence[str]) -> str:
    """Of one backend alone, all that could be said stands above."""
    if len(capture.backends) < 2:
        return ""
    whole = sum(r.total_ns for backend in capture.backends for r in _reads(backend))
    ordered = sorted(capture.backends, key=lambda b: -sum(r.total_ns for r in _reads(b)))
    busy = [b for b in ordered if _is_busy(b)]
    quiet = [str(b.pid) for b in ordered if not _is_busy(b)]
    rows = [numbers(_who(b), _reads(b), whole) for b in busy[:MOST_DRAWN]]
    rest = [r for b in busy[MOST_DRAWN:] for r in _reads(b)]
    if len(busy) > MOST_DRAWN:
        rows.append(numbers(f"({units.count(len(busy) - MOST_DRAWN)} more)", rest, whole))
    parts = [
        table(
            "Backends, those that read longest first", "backend", [("", COLUMNS)], rows, long=True
        )
    ]
    if quiet:
        counted = capture.probes.queries in COUNT_CALLS
        nothing = "Neither reads nor queries" if counted else "No reads"
        parts.append(paragraphs([f"{nothing}: {', '.join(quiet)}"]))
    for backend in busy[:MOST_DRAWN]:
        content = view(
            charts,
            f"Backend {backend.pid}",
            _reads(backend),
            missing,
            elapsed_ns=round(capture.duration_s * 1e9),
            waited_ns=waited(backend.queries),
            failed=backend.failed.get("read"),
            short=backend.short.get("read"),
        )
        parts.append(part(_who(backend), content))
    return "\n".join(parts)


def _is_busy(backend: Backend) -> bool:
    excluded = *backend.failed.values(), *backend.short.values()
    return bool(backend.io or backend.queries or any(each.count for each in excluded))


def _who(backend: Backend) -> str:
    who = f"{backend.usename or '?'}@{backend.datname or '?'}"
    merged = f"{units.count(backend.merged)} backends that ended" if backend.merged else None
    parts = [
        merged or f"Backend {backend.pid}",
        who if backend.usename or backend.datname else None,
        backend.backend_type,
        backend.application_name,
    ]
    return "  ".join(part for part in parts if part)
