"""The read-ahead experiment as a document: each storage's scan and random reads, step by step."""

from collections.abc import Iterator, Sequence

from ... import units
from ...model.capture import Source
from ...model.lab_result import Finding, Pattern
from ...reporters.document import (
    Block,
    Column,
    Group,
    Latencies,
    Layer,
    Paragraph,
    Part,
    Section,
    Table,
    Value,
)
from ...reporters.sections.sums import SOURCES
from ..core.figures import label
from ..core.finding_text import capital, label_of, of_kind, verdict_of
from ..core.method_text import made, table_and_runs
from ..core.valid_runs import left_out
from .chart import over_read_ahead, time_between
from .figures import Step, steps
from .findings import found_in, throughput
from .knee import Knee, knee_of
from .result import (
    Bytes,
    HumpFinding,
    KneeFinding,
    Limit,
    RandomReads,
    ReadaheadResult,
    TurnFinding,
)

_WIDEST = 15
"""Characters of an interval; that of two unlike runs may have more."""
_COUNTED: tuple[Source, ...] = ("device", "readahead_issued", "page_cache", "wait")
_TABLE = "a table with wide rows"
_PATTERNS: tuple[Pattern, ...] = ("sequential", "random")
_SAID: dict[type[Finding], str] = {
    KneeFinding: "Knee",
    TurnFinding: "Turn",
    Limit: "Limit",
    Bytes: "Bytes",
    RandomReads: "Random reads",
}


def sections(result: ReadaheadResult) -> list[Section]:
    """Return all that is said of this experiment, but how it was made."""
    found = found_in(result)
    parts = []
    for number, storage in enumerate(result.storages):
        scans, by_index = (steps(result, storage.name, pattern) for pattern in _PATTERNS)
        own = [f for f in found if f.storage == storage.name]
        name = label(storage)
        blocks: list[Block] = [
            *(_scan(name, scans, by_index, own) if scans else []),
            *(_by_index(name, by_index, own) if by_index else []),
            *(_step(name, step, own) for step in scans),
        ]
        if blocks:
            parts.append(Section(f"readahead-{number}", blocks, name))
    return parts


def runs(result: ReadaheadResult) -> list[str]:
    """Return what was read, how often, how it was made cold, and what was left out."""
    options = result.options
    said = [table_and_runs(result, _TABLE)]
    for pattern in _PATTERNS:
        if pattern in options.queries:
            said.append(f"{capital(pattern)}: {options.queries[pattern]}")
    said.append(made(result))
    for why in options.left_out.values():
        said.append(f"Left out: {why}.")
    for out in left_out(result):
        cell = out.cell
        name = f"{label_of(result, cell.storage)}, {cell.pattern}, run {cell.run}"
        said.append(f"Left out: {name}: {out.why}.")
    return said


def _scan(
    name: str, scans: Sequence[Step], by_index: Sequence[Step], found: Sequence[Finding]
) -> Iterator[Block]:
    for kind in (KneeFinding, TurnFinding, Limit, Bytes):
        for f in (f for f in found if isinstance(f, kind)):
            yield Paragraph(f"{_SAID[kind]}: {verdict_of(f)}.")
    drawn = over_read_ahead(name, scans, by_index, found)
    if drawn:
        yield drawn
    columns = [
        *_TIME, Column("MB/s", "number"), *_BY_BEST, Column("CPU", "share"),
        Column("waited", "share"), Column("busy", "share"),
    ]  # fmt: skip
    knee = knee_of(scans)
    rows: list[tuple[str, list[Value]]] = []
    for step in scans:
        rate = throughput(step)
        shares = [s if s is None else min(1.0, s) for s in (step.cpu, step.waited, step.busy)]
        per_second = rate / 1e6 if rate else "-"
        row = [*_time(step), per_second, *_by_best(knee, step), *shares]
        rows.append((f"{step.sectors:,}", row))
    yield Table(f"{name}: the scan, by read-ahead", "sectors", columns, rows, named=True)
    yield Paragraph(
        "Time: the mean over runs, by that of the best step. CPU: of it, the backend was on one; "
        "waited: in reads that waited for the device or for read-ahead; busy: the device had "
        "requests."
    )
    yield _asked(name, scans)
    yield Paragraph(
        "Per run. Requests and their size are the device's own counts, of anybody; the rest are "
        "the backend's reads, and what they asked the device for, by the table's size."
    )


def _asked(name: str, scans: Sequence[Step]) -> Table:
    """What a scan asked the device for, and how many of its reads were served where."""
    columns = [*_REQUESTS, *(Column(n) for n in ("device", "issued", "cache", "wait"))]
    columns.append(Column("of table", "text"))
    rows: list[tuple[str, list[Value]]] = []
    for step in scans:
        table = step.heap.bytes / step.runs
        counts: list[Value] = [f"{step.count(source) / step.runs:,.0f}" for source in _COUNTED]
        share = f"{step.device_bytes / table:.3f}" if table else "-"
        rows.append((f"{step.sectors:,}", [*_requests(step), *counts, share]))
    return Table(f"{name}: what the scan asked for", "sectors", columns, rows, named=True)


_TIME = (Column("time", "ns"), Column("95 % of that", "text", detail=True))
_BY_BEST = (Column("by best", "number"), Column("95 % interval", "text"))
_REQUESTS = (Column("requests", "text"), Column("each", "bytes"))


def _time(step: Step) -> list[Value]:
    ends = time_between(step)
    between = " to ".join(map(units.duration, ends)) if ends else "one run: none"
    return [step.time.value * 1e9, between]


def _requests(step: Step) -> list[Value]:
    """How many the device got in a run, and of what size."""
    requests = None if step.requests is None else f"{step.requests:,.0f}"
    return [requests, step.request_bytes]


def _by_best(knee: Knee | None, step: Step) -> list[Value]:
    """A step's time by that of the best one, and how certain it is."""
    ratio = knee.by_best.get(step.sectors) if knee else None
    return [ratio.value if ratio else "-", _interval(knee, step)]


def _by_index(name: str, by_index: Sequence[Step], found: Sequence[Finding]) -> Iterator[Block]:
    fastest = knee_of(by_index)
    rows = [
        (
            f"{step.sectors:,}",
            [
                *_time(step), *_by_best(fastest, step), *_requests(step),
                step.all.device_bytes / step.runs,
            ],
        )
        for step in by_index
    ]  # fmt: skip
    columns = [*_TIME, *_BY_BEST, *_REQUESTS, Column("from device", "bytes")]
    yield Table(f"{name}: random reads, by read-ahead", "sectors", columns, rows, named=True)
    asked = by_index[0].all.bytes / by_index[0].runs
    yield Paragraph(f"The query's reads are of {units.size(asked)} in a run.")
    for f in of_kind(found, RandomReads):
        yield Paragraph(f"{_SAID[RandomReads]}: {verdict_of(f)}.")


def _step(name: str, step: Step, found: Sequence[Finding]) -> Part:
    """How long the scan's reads took, and what humps that has."""
    layers = [
        Layer((SOURCES.get(source, source),), source, of.latencies)
        for source, of in step.by_source.items()
        if of.reads
    ]
    runs = f"{step.runs} {'run' if step.runs == 1 else 'runs'}"
    title = f"{name}, {step.sectors:,} sectors: its reads in {runs}"
    humps = [
        Paragraph(f"{capital(verdict_of(f))}.")
        for f in of_kind(found, HumpFinding)
        if f.details.sectors == step.sectors
    ]
    drawn = [Latencies(title, [Group("", layers)])] if layers else []
    return Part(f"{step.sectors:,} sectors", [*humps, *drawn])


def _interval(knee: Knee | None, step: Step) -> str:
    """How certain a step's time by that of the best one is."""
    ratio = knee.by_best.get(step.sectors) if knee else None
    if knee and knee.best is step:
        return "the best"
    if ratio is None or ratio.low is None or ratio.high is None:
        return "one run: none"
    shown = f"{units.number(ratio.low)} to {units.number(ratio.high)}"
    return shown if len(shown) <= _WIDEST else "too wide to say"
