"""A capture as text for a person: the answer, then per backend its reads, and its statements one by
one.
"""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import get_args

from ... import units
from ...model.capture import (
    COUNT_CALLS,
    Backend,
    Call,
    Capture,
    Gap,
    Operation,
    Query,
    Scope,
    of_operation,
)
from ...model.histogram import Histogram
from ...terminal_text import escape, shortened, shown
from .. import losses
from ..document import Paragraph, Section
from ..sections import answer, time_parts
from ..sections import statements as sections
from ..sections.over_time import over_time
from ..sections.sums import name_of, pid_of, time_of
from ..sections.top import Group
from ..view import WIDTH, Choice
from . import executed, files
from .block import NAMES, block, not_counted, untraced
from .sentence import packed, sentence, wrapped

MOST_BACKENDS = 100
"""Backends that are drawn; the others are added up."""
MOST_STATEMENTS = 20
"""Statements of one backend that are drawn; the others are summed up."""
_SO_FAR = "Not to its end: written while tracing went on, and without what came later."
_PARTIAL = 2
_MISSING = 3
_OF_MISSING = 300
"""Of what failed and what was not measured only so many are told in short, and of the latter so
many characters: a server may have hundreds of databases whose names cannot be had."""
_GAPS = 1
"""Of a server that was away more often, only the first times are told in short."""
_FUNCTIONS: dict[Operation, str] = {
    "read": "vfs_read, vfs_readv",
    "write": "vfs_write, vfs_writev",
    "fsync": ", ".join(f"sys_{call}" for call in get_args(Call)),
}
_SYSTEM_CALLS: dict[Operation, str] = {
    "read": "read, pread64, readv, preadv, preadv2",
    "write": "write, pwrite64, writev, pwritev, pwritev2",
    "fsync": ", ".join(get_args(Call)),
}
QUERIES = {
    "usdt": "queries by USDT",
    "uprobe": "queries by uprobe",
    "memory": "queries by their backends' memory",
    "none": "queries not measured",
}


def measured(way: str, operations: Sequence[Operation]) -> str:
    """What is measured, and how: `Reads by fentry (vfs_read, vfs_readv)`."""
    functions = _SYSTEM_CALLS if way == "tracepoint" else _FUNCTIONS
    where = ", ".join(functions[each] for each in operations)
    return f"{traced(way, operations)} ({where})"


def traced(way: str, operations: Sequence[Operation]) -> str:
    """The same without the functions: `Reads by fentry`."""
    names = ", ".join(NAMES[each] for each in operations)
    return f"{names[0].upper()}{names[1:]} by {way}"


def render(capture: Capture, choice: Choice | None = None, *, width: int = WIDTH) -> str:
    """Return the report, in lines of at most `width` columns: of so many backends as are chosen, in
    that order, the others added up.
    """
    lines = [*_begin(capture, width), *_answer(capture, width)]
    if calls := executed.table(capture, width):
        lines += ["", *calls]
    busy, silent = [], []
    for backend in capture.backends:
        if backend.io or backend.queries or _apart(backend, width):
            busy.append(backend)
        else:
            silent.append(pid_of(backend))
    drawn, others = _chosen(busy, choice or Choice(None))
    for backend in drawn:
        lines += ["", *_backend(capture, backend, width)]
    if others:
        lines += ["", *_others(capture, others, width)]
    if silent:
        counted = capture.probes.queries in COUNT_CALLS
        names = [NAMES[each] for each in capture.probes.operations] + ["queries"] * counted
        nothing = f"Neither {' nor '.join(names)}" if len(names) > 1 else f"No {names[0]}"
        text = f"{nothing}: {'backend' if len(silent) == 1 else 'backends'} "
        lines += ["", *wrapped(text + ", ".join(silent), width)]
    if not capture.backends:
        lines += ["", "No backend was seen."]
    read = files.tables(capture, width=width)
    if read:
        lines += ["", *read]
    return "\n".join([*lines, "", *_said(how(capture), width)]) + "\n"


def _begin(capture: Capture, width: int) -> list[str]:
    return _said([head(capture), *partial(capture), *lost_of(capture)], width)


def _said(sentences: Sequence[str], width: int) -> list[str]:
    return [line for each in sentences for line in sentence(each, width)]


def _answer(capture: Capture, width: int) -> list[str]:
    """How much of the time was the disk, and when."""
    if not capture.backends:
        return []
    from .drawing import lines  # here: with rich, which attach does without

    said = [Paragraph(line) for line in answer.verdict(capture, sections.statements(capture))]
    parts = [
        Section("answer", said),
        Section("times", time_parts.blocks(capture.backends, Choice())),
        Section("over-time", over_time(capture)),
    ]
    return ["", *lines([part for part in parts if part.blocks], width)]


def render_backends(capture: Capture, backends: Sequence[Backend], *, width: int = WIDTH) -> str:
    """Return the report of these alone."""
    from .drawing import lines as drawn  # here: as above

    lines = _begin(capture, width)
    for backend in backends:
        lines += ["", *_backend(capture, backend, width)]
        if spent := time_parts.blocks([backend], Choice()):
            lines += ["", *drawn([Section("times", spent)], width)]
    return "\n".join(lines) + "\n"


def render_statements(capture: Capture, words: str, *, width: int = WIDTH) -> str | None:
    """Return the report of those with this query_id, or with these words in their text, each over
    all backends; None if there are none.
    """
    lines = _begin(capture, width)
    found = [each for each in sections.statements(capture) if each.is_called(words)]
    for each in found:
        of = (
            f"Of {units.count(each.backends)} backends:" if each.backends > 1 else "Of one backend:"
        )
        missing, operations = capture.probes.not_measured, capture.probes.operations
        lines += ["", of, *_statement(each.as_query(), missing, operations, width)]
    return "\n".join(lines) + "\n" if found else None


def head(capture: Capture) -> str:
    """When and where it was measured."""
    host = capture.host
    started = datetime.fromisoformat(capture.started).astimezone(UTC)
    cpus = f"{host.cpus} {'CPU' if host.cpus == 1 else 'CPUs'}"
    return (
        f"Capture of {started:%Y-%m-%d %H:%M:%S} UTC, {units.duration(capture.duration_s * 1e9)}, "
        f"kernel {escape(host.kernel)}, {cpus}"
    )


def how(capture: Capture) -> list[str]:
    """How it was measured, what was not, whether nothing was lost, and when servers were away."""
    probes = capture.probes
    return [
        f"{measured(probes.type, probes.operations)}, {QUERIES[probes.queries]}, "
        f"engine {probes.engine}.",
        *_shortest(capture),
        *(f"Not measured: {escape(missing)}" for missing in probes.not_measured),
        *_untraced(capture),
        *_light(capture),
        *([] if lost_of(capture) else ["Lost: nothing."]),
        *losses.under_way(capture.lost),
        *map(_gap, capture.gaps),
    ]


def _untraced(capture: Capture) -> list[str]:
    others = untraced(capture.probes.operations, times=capture.probes.times)
    return [f"Not measured: {', '.join(others)}."] if others else []


def how_in_short(capture: Capture) -> list[str]:
    """The same in few paragraphs: without the functions, and of many gaps how many."""
    probes = capture.probes
    others = ", ".join(untraced(probes.operations, times=probes.times))
    told = [shortened(escape(each), _OF_MISSING) for each in probes.not_measured[:_MISSING]]
    more = len(probes.not_measured) - len(told)
    rest = [f"{units.count(more)} more, in --backends"] if more > 0 else []
    missing = [*told, *rest, *([others] if others else [])]
    first = (
        f"{traced(probes.type, probes.operations)}, {QUERIES[probes.queries]}, "
        f"engine {probes.engine}."
    )
    gaps = [_gap(gap) for gap in capture.gaps[:_GAPS]]
    if more := len(capture.gaps) - len(gaps):
        gaps.append(f"{units.count(more)} more such times, in --backends.")
    return [
        " ".join([first, *_shortest(capture), *_light(capture)]),
        " ".join(
            [
                *([f"Not measured: {'; '.join(missing)}."] if missing else []),
                *([] if lost_of(capture) else ["Lost: nothing."]),
                *losses.under_way(capture.lost),
            ]
        ),
        *([" ".join(gaps)] if gaps else []),
    ]


def _shortest(capture: Capture) -> list[str]:
    """What is shorter, no read can be seen to have been."""
    shortest_ns = capture.probes.shortest_ns
    if shortest_ns is None:
        return []
    return [f"The shortest read that was seen took {units.duration(shortest_ns)}."]


def lost_of(capture: Capture) -> list[str]:
    """What is in no number, or in one with less detail; none if nothing was lost."""
    light = capture.probes.queries == "memory"
    calls = sum(query.calls or 0 for backend in capture.backends for query in backend.queries)
    return losses.sentences(capture.lost, capture.totals, None if light else calls)


def _light(capture: Capture) -> list[str]:
    """What the light tier knows of statements, and what the full one would add."""
    if capture.probes.queries != "memory":
        return []
    words, more = "Calls of statements and their latency are not measured", "them"
    if capture.executions:
        words = "Calls of statements and their time are those of pg_stat_statements"
        more = "errors and latencies"
    why = f" ({escape(capture.probes.no_calls)})" if capture.probes.no_calls else ""
    return [f"{words}{why}; --queries full adds {more}."]


def partial(capture: Capture) -> list[str]:
    """What could not be finished, if anything."""
    whys = [f"Partial, because of an error in pgtrace: {escape(why)}." for why in capture.partial]
    return [_SO_FAR, *whys] if capture.so_far else whys


def partial_in_short(capture: Capture) -> list[str]:
    """The first of it, and how much more there is."""
    told = partial(capture)
    more = len(told) - _PARTIAL
    return [*told[:_PARTIAL], *([f"{more} more such errors, in --backends."] if more > 0 else [])]


def _gap(gap: Gap) -> str:
    """When a server was away."""
    began, ended = (
        f"{datetime.fromisoformat(at).astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC" if at else None
        for at in (gap.began, gap.ended)
    )
    until = f"until {ended}" if ended else "to the end"
    what = "No connections after a crash" if gap.reason == "crash" else "Not running"
    return f"{what}, from {began} {until}: the server in {escape(gap.data_directory)}."


def _chosen(
    backends: Sequence[Backend], choice: Choice
) -> tuple[Sequence[Backend], Sequence[Backend]]:
    """Those that are drawn, and the others. Of those that waited for no device, what took longest
    over reads, writes and fsyncs comes first.
    """
    groups = {id(b): Group(str(b.pid), of_operation(b.io), _calls(b)) for b in backends}
    ordered = sorted(
        backends, key=lambda b: (-groups[id(b)].rank(choice.order), -time_of(b.io), b.pid)
    )
    most = min(choice.most or MOST_BACKENDS, MOST_BACKENDS)
    return ordered[:most], ordered[most:]


def _calls(backend: Backend) -> int:
    return sum(query.calls or 0 for query in backend.queries)


def _others(capture: Capture, backends: Sequence[Backend], width: int) -> list[str]:
    """All of them together."""
    queries = [query for backend in backends for query in backend.queries]
    count = sum(backend.merged or 1 for backend in backends)
    lines = [f"{units.count(count)} more backends, one by one in --format json"]
    lines += _blocks(capture, backends, queries, width)
    if queries:
        lines += ["", *sentence(_more(queries, capture.probes.operations), width)]
    return lines


def _backend(capture: Capture, backend: Backend, width: int) -> list[str]:
    who = f"{backend.usename or '?'}@{backend.datname or '?'}"
    version = capture.server.version
    parts = [
        who if backend.usename or backend.datname else None,
        backend.backend_type,
        f"PostgreSQL {version}" if version else None,
        backend.application_name,
    ]
    about = [escape(part) for part in parts if part]
    lines = packed(about, width, f"{name_of(backend)}  ", gap="  ", indent=2)
    # Of many, how long each of them was there is not known
    traced_ns = None if backend.merged else round(capture.duration_s * 1e9)
    lines += _blocks(capture, [backend], backend.queries, width, traced_ns)
    lines += _apart(backend, width)
    return [*lines, *statements(capture, backend, width)]


def statements(capture: Capture, backend: Backend, width: int = WIDTH) -> list[str]:
    """Those of a backend, each below an empty line."""
    missing, operations = capture.probes.not_measured, capture.probes.operations
    lines = []
    for query in backend.queries[:MOST_STATEMENTS]:
        lines += ["", *_statement(query, missing, operations, width)]
    rest = backend.queries[MOST_STATEMENTS:]
    return [*lines, "", *sentence(_more(rest, operations), width)] if rest else lines


def _blocks(
    capture: Capture,
    backends: Sequence[Backend],
    queries: Sequence[Query],
    width: int,
    traced_ns: int | None = None,
) -> list[str]:
    """What was read in queries, and outside; `traced_ns` is how long one backend could have."""
    missing, operations = capture.probes.not_measured, capture.probes.operations
    reads = [r for backend in backends for r in backend.io]

    if capture.probes.queries == "none":
        lead = "All reads" if operations == ["read"] else "All"
        return block(reads, traced_ns, missing, lead=lead, operations=operations, width=width)
    waits = [query.waited_ns for query in queries if query.waited_ns is not None]

    def of(scope: Scope, lead: str, waited_ns: int | None = None) -> list[str]:
        own = [r for r in reads if r.scope == scope]
        spent = [t for b in backends for t in b.times if t.scope == scope]
        went = time_parts.parts(spent, own, None)
        return block(
            own,
            sum(part.ns for part in went) or traced_ns,
            missing,
            lead=lead,
            waited_ns=waited_ns,
            operations=operations,
            parts=went,
            width=width,
        )

    inside = of("query", "In queries", sum(waits) if waits else None)
    return [*inside, "", *of("outside", "Outside")]


def _more(queries: Sequence[Query], operations: Sequence[Operation]) -> str:
    """One line of those that are not drawn."""
    latencies = [query.latency for query in queries if query.latency is not None]
    took = units.duration(sum(latency.sum for latency in latencies))
    counts = [
        f"{units.count(sum(r.count for q in queries for r in of_operation(q.io, each)))} "
        f"{NAMES[each]}"
        for each in operations
    ]
    return (
        f"{units.count(len(queries))} more statements, in --format json: "
        + (
            f"{units.count(sum(query.calls or 0 for query in queries))} calls, {took}, "
            if latencies
            else ""
        )
        + ", ".join(counts)
    )


def _apart(backend: Backend, width: int) -> list[str]:
    """What failed or came short."""
    return [
        *not_counted(backend.failed.get("read"), backend.short.get("read"), width),
        *not_counted(backend.failed.get("write"), backend.short.get("write"), width, "writes:"),
        *not_counted(backend.failed.get("fsync"), None, width, "fsync:"),
    ]


def _statement(
    query: Query, missing: Sequence[str], operations: Sequence[Operation], width: int
) -> list[str]:
    text = shown(query.text and escape(query.text), cut=query.text_cut)
    lines = wrapped(f"▶ {text}", width)
    latency, parts = query.latency, []
    if query.calls is not None and query.errors is not None:
        calls = f"{units.count(query.calls)} {'call' if query.calls == 1 else 'calls'}"
        errors = f"{units.count(query.errors)} {'error' if query.errors == 1 else 'errors'}"
        parts = [calls, errors, f"{query.protocol} protocol"]
    if latency and latency.count:
        times = Histogram.of([latency])
        parts += [
            f"latency p50 {units.duration(times.percentile(50) or 0, 2)}",
            f"p99 {units.duration(times.percentile(99) or 0, 2)}",
            f"max {units.duration(latency.max, 2)}",
        ]
    if query.query_id is not None:
        parts.append(f"query_id {query.query_id}")
    if parts:
        lines += packed(parts, width, "  ", indent=2)
    if query.begun_before:
        lines.append("  Begun before tracing: time and reads count from when tracing began.")
    if query.unfinished:
        lines.append("  Not ended when tracing stopped: its reads so far.")
    elapsed_ns = latency.sum or None if latency else None
    lead = f"■ {units.duration(elapsed_ns)}" if elapsed_ns else "□"
    return lines + block(
        query.io,
        elapsed_ns,
        missing,
        lead=lead,
        waited_ns=query.waited_ns,
        operations=operations,
        parts=time_parts.parts(query.times, query.io, elapsed_ns),
        width=width,
    )
