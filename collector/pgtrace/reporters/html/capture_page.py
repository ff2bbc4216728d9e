"""A capture as a page: everything, then by place, backend and statement."""

from collections.abc import Mapping, Sequence

from ... import units
from ...model.capture import (
    COUNT_CALLS,
    Backend,
    Capture,
    Heaviest,
    Io,
    Operation,
    Tablespace,
    of_operation,
)
from ...model.combined import alike
from .. import losses
from ..sections import server as overview
from ..sections.statements import Statement
from ..sections.statements import statements as all_statements
from ..sections.sums import (
    file_of,
    name_of,
    pid_of,
    reads_of,
    relation_of,
    time_of,
    written,
    written_in,
)
from ..terminal.capture_report import head, how, lost_of, partial
from ..terminal.files import MOST_RELATIONS, about, grouped
from ..view import Choice, View
from . import drawing, whole, writes
from .charts import Charts
from .flame import flame
from .opening import opening
from .over_time import Anchors, over_time
from .parts import Row, anchor, escaped, paragraphs, part, section, table, unique
from .reads import COLUMNS, TOLD, numbers, reading, view
from .statements import statement_anchors, statements, waited

MOST_DRAWN = 20
"""Backends with charts of their own; the others are added up in one row."""
_NAV = (("time", "Over time"), ("top", "Who and what"), ("reads", "All reads"),
        ("read", "What was read"), ("writes", "Writes and fsync"),
        ("backends", "Backends"), ("statements", "Statements"))  # fmt: skip
_ANSWER = ("answer", "over-time")
_FIRST = ("time", "top")
_ABOVE = (*_ANSWER, "times")
"""Sections that stand above the course of the session."""


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
    several = len(capture.backends) > 1
    overviews = (
        overview.sections_of(capture, reads, every, Choice(exact=True)) if capture.backends else []
    )
    answer = [part for part in overviews if part.name in _ANSWER]
    anchors, places = [*statement_anchors(every)], _by_place(reads)
    drawn = {name: anchor("read", name) for name, _ in places[:MOST_RELATIONS]}
    most = [part for part in overviews if several and part.name not in _ABOVE]
    by = {
        "top": drawing.drawn(most, charts, _links(anchors, reads, drawn)),
        "time": over_time(capture, _anchors(anchors, drawn)),
        "reads": _everything(capture, reads, charts, missing),
        "read": _places(capture, reads, places),
        "writes": _writes(capture, charts),
        "backends": _backends(capture, charts, missing),
        "statements": statements(capture, every, charts, missing),
    }
    links = "".join(f'<li><a href="#{name}">{title}</a></li>' for name, title in _NAV if by[name])
    server = capture.server
    of = f"PostgreSQL {server.version}" if server.version else "PostgreSQL"
    where = f" in {server.data_directory}" if server.data_directory else ""
    simulated = [t.name for t in capture.tablespaces if t.simulated]
    parts = [
        f"<header>\n<h1>{_title(capture)} of {escaped(of)}</h1>",
        paragraphs([f"{when}. {of}{where}."], "lead"),
        f'<nav aria-label="On this page"><ul>{links}</ul></nav>\n</header>',
        paragraphs([*unfinished, *lost], "warning"),
        paragraphs(
            [f"Simulated: tablespace {name} lies on a simulated device." for name in simulated],
            "simulated",
        ),
        drawing.drawn(answer, charts),
        opening(capture),
        drawing.drawn([part for part in overviews if part.name == "times"], charts),
        flame(capture),
        section("time", "Over time", by["time"]),
        section("top", "Who and what", by["top"]),
        *(section(name, title, by[name]) for name, title in _NAV if name not in _FIRST),
        _how(capture, [*how(capture), *lost]),
    ]
    return whole(when, "\n".join(parts), charts)


def _title(capture: Capture) -> str:
    return "Read latencies" if capture.probes.operations == ["read"] else "I/O latencies"


def _how(capture: Capture, lines: Sequence[str]) -> str:
    """Losses stand out: every number below lacks them."""
    lost = capture.lost
    bad = lost.read or lost.queries or lost.backends or lost.write or lost.fsync
    bad = bad or lost.statements or lost.unplaced or lost.latencies
    content = [
        paragraphs([line], "warning" if bad and line.startswith("Lost") else "") for line in lines
    ]
    return section("how", "How it was measured", "\n".join(content))


def _links(
    statements: Sequence[tuple[Statement, str]], reads: Sequence[Io], drawn: Mapping[str, str]
) -> dict[str, str]:
    """Where there is more of what stands in the first tables, by how it is called there. `drawn` is
    where there is more of what was read.
    """
    of = {" ".join(s.text.split()): where for s, where in statements}
    named = {file_of(r): relation_of(r) for r in reads if r.relation}
    return of | {name: drawn[place] for name, place in named.items() if place in drawn}


def _anchors(statements: Sequence[tuple[Statement, str]], drawn: Mapping[str, str]) -> Anchors:
    """Where there is more of what an interval names: of its statement, or of what was read."""
    of: dict[object, str] = {}
    for statement, where in statements:
        for query in statement.queries:
            of.setdefault(query.query_id or query.text_hash, where)

    def found(one: Heaviest) -> str:
        told = one.query_id or one.text_hash
        if told in of and told is not None:
            return of[told]
        return drawn.get(f"{one.relation} ({one.kind})", "") if one.operation == "read" else ""

    return found


def _missing(capture: Capture) -> list[str]:
    asked = [] if reading(capture) else ["reads"]
    return [*asked, *(each.partition(":")[0] for each in capture.probes.not_measured)]


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


def _places(capture: Capture, reads: Sequence[Io], of: Sequence[tuple[str, list[Io]]]) -> str:
    if all(r.kind == "unknown" for r in reads):
        return ""
    whole = sum(r.total_ns for r in reads)
    named = any(r.relation for r in reads)
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


def _by_place(reads: Sequence[Io]) -> list[tuple[str, list[Io]]]:
    """By relation if they are told apart, else by kind; what took longest first."""
    named = any(r.relation for r in reads)
    return grouped(reads, relation_of if named else lambda r: r.kind)


def _writes(capture: Capture, charts: Charts) -> str:
    """Which call, of which files, by whom; nothing where nobody asked for them."""
    if not set(capture.probes.operations) - {"read"}:
        return ""
    said = _excluded(capture, ["write", "fsync"])
    lines = paragraphs([f"In no number here: {', '.join(said)}."] if said else [])
    drawn = writes.view(charts, "Writes and fsyncs", "what, of, by", written(capture))
    return (drawn or paragraphs(["None."])) + lines


def _space(name: str, space: Tablespace | None, row: Row) -> Row:
    return Row(name, [*row.cells, about(space) if space else ""])


def _backends(capture: Capture, charts: Charts, missing: Sequence[str]) -> str:
    """Of one backend alone, all that could be said stands above."""
    if len(capture.backends) < 2:
        return ""
    whole = sum(r.total_ns for backend in capture.backends for r in _reads(backend))
    ordered = sorted(capture.backends, key=lambda b: (-time_of(_reads(b)), -time_of(b.io)))
    busy = [b for b in ordered if _is_busy(b)]
    quiet = [pid_of(b) for b in ordered if not _is_busy(b)]
    anchors = [*unique(anchor("backend", str(b.pid)) for b in busy[:MOST_DRAWN])]
    rows = [
        _backend_row(capture, _who(b), b.io, whole, link)
        for b, link in zip(busy, anchors, strict=False)
    ]
    rest = [r for b in busy[MOST_DRAWN:] for r in b.io]
    if len(busy) > MOST_DRAWN:
        more = f"({units.count(len(busy) - MOST_DRAWN)} more)"
        rows.append(_backend_row(capture, more, rest, whole))
    added = writes.heads(capture.probes.operations)
    heads = [("its reads" if added else "", COLUMNS), *added] if reading(capture) else added
    title = "Backends, those that read longest first" if reading(capture) else "Backends"
    parts = [table(title, "backend", heads, rows, long=True)]
    if quiet:
        nothing = "Nothing of what was measured"
        if reading(capture):
            counted = capture.probes.queries in COUNT_CALLS
            nothing = "Neither reads nor queries" if counted else "No reads"
        parts.append(paragraphs([f"{nothing}: {', '.join(quiet)}"]))
    for backend, where in zip(busy, anchors, strict=False):
        content = view(
            charts,
            name_of(backend),
            _reads(backend),
            missing,
            elapsed_ns=None if backend.merged else round(capture.duration_s * 1e9),
            waited_ns=waited(backend.queries),
            failed=backend.failed.get("read"),
            short=backend.short.get("read"),
        )
        title = f"Writes and fsyncs of {pid_of(backend)}"
        more = writes.view(charts, title, "what, of", written_in(backend.io))
        parts.append(part(_who(backend), f"{content}\n{more}", anchor=where))
    return "\n".join(parts)


def _backend_row(
    capture: Capture, name: str, io: Sequence[Io], whole_ns: int, link: str = ""
) -> Row:
    row = numbers(name, of_operation(io), whole_ns) if reading(capture) else Row(name)
    row.cells += writes.cells(io, capture.probes.operations)
    row.link = link
    return row


def _is_busy(backend: Backend) -> bool:
    excluded = *backend.failed.values(), *backend.short.values()
    return bool(backend.io or backend.queries or any(each.count for each in excluded))


def _who(backend: Backend) -> str:
    who = f"{backend.usename or '?'}@{backend.datname or '?'}"
    parts = [
        name_of(backend),
        who if backend.usename or backend.datname else None,
        backend.backend_type,
        backend.application_name,
    ]
    return "  ".join(part for part in parts if part)
