"""The pages experiment as chapters of a page: storages beside each other, then one by one."""

from collections.abc import Mapping, Sequence

from ... import units
from ...model.lab_result import Finding, Storage
from ...reporters.html.charts import Charts, Group, Layer
from ...reporters.html.parts import Row, paragraphs, table
from ...reporters.html.reads import NAMES
from ...reporters.sections.sums import PERFORMERS
from ..core.figures import Figures, Part, figures, label
from ..core.finding_text import capital, interval, of_kind
from ..core.valid_runs import PATTERNS, Pattern
from .findings import found_in
from .page_compared import duration, follows, published
from .result import Block, PagesResult, Served
from .side_by_side import OVERLAPS, PARTS

_SUMS = (
    "runs", "reads", "bytes", "from device", "device requests", "shared hits",
    "mean of a block", "95 % over runs", "p50", "p90",
    "p99", "max", "elapsed per block", "95 % over runs ",
)  # fmt: skip
_PART = ("reads", "time", "share of time", "a block", "p50", "p99", "max")


def chapters(result: PagesResult, charts: Charts) -> list[tuple[str, str, str]]:
    """Return (anchor, title, content) of each."""
    found = found_in(result)
    measured = figures(result)
    if not measured:
        nothing = paragraphs(["No run was finished: there is nothing to show."])
        return [("sums", "Sequential and random", nothing)]
    colours = {storage.name: f"s{n % 6}" for n, storage in enumerate(result.storages)}
    every = [("sums", "Sequential and random", _beside(measured, found, charts, colours))]
    for number, storage in enumerate(result.storages):
        of = {each.pattern: each for each in measured if each.storage is storage}
        if of:
            content = _storage(storage, of, found, charts, colours[storage.name])
            every.append((f"storage-{number}", label(storage), content))
    return [
        *every,
        ("follows", "What follows", follows(result, found)),
        ("published", "Beside digoal's figures of 2014", published(measured, found)),
    ]


def _beside(
    measured: Sequence[Figures],
    found: Sequence[Finding],
    charts: Charts,
    colours: Mapping[str, str],
) -> str:
    """Every storage and pattern: one table, one chart."""
    rows = [Row(f"{label(of.storage)}, {of.pattern}", _sums(of, found)) for of in measured]
    layers = [
        Layer(
            (label(of.storage), of.pattern),
            colours[of.storage.name],
            of.all.latencies,
            outlined=of.pattern == "random",
        )
        for of in measured
        if of.all.reads
    ]
    parts = [
        paragraphs(["Means are per block of 8 KiB, percentiles and the longest of a read."]),
        table("All runs added up", "reads of", [("", _SUMS)], rows),
    ]
    if layers:
        parts.append(charts.percentiles("Percentiles of a read, every storage", layers))
    return "\n".join(parts)


def _sums(of: Figures, found: Sequence[Finding]) -> list[str]:
    part = of.all
    spread = {
        f.details.by: interval(f, times=True)
        for f in of_kind(found, Block)
        if (f.storage, f.details.pattern) == (of.storage.name, of.pattern)
    }
    return [
        units.count(of.runs),
        units.count(part.reads),
        units.size(part.bytes),
        units.size(part.device_bytes),
        *("-" if n is None else units.count(n) for n in (of.device_requests, of.shared_hits)),
        duration(part.block_ns),
        spread.get("read latency", "-"),
        *(duration(part.latencies.percentile(p), 2) for p in (50, 90, 99, 100)),
        duration(of.page_ns),
        spread.get("elapsed time", "-"),
    ]


def _storage(
    storage: Storage, of: Mapping[Pattern, Figures], found: Sequence[Finding], charts: Charts,
    colour: str,
) -> str:  # fmt: skip
    """Random laid over sequential, with the sources in colour; then what the reads were."""
    groups = [Group(pattern, _layers(of[pattern])) for pattern in PATTERNS if pattern in of]
    groups = [group for group in groups if group.layers]
    served = [f"{capital(f.verdict)}." for f in of_kind(found, Served) if f.storage == storage.name]
    if not groups:
        return paragraphs(["No reads."])
    name = label(storage)
    alone = [
        Layer((of[p].pattern,), colour, of[p].all.latencies, outlined=p == "random")
        for p in PATTERNS
        if p in of and of[p].all.reads
    ]
    return "\n".join(
        [
            paragraphs(served),
            charts.latencies(f"{name}: how long a read took, random over sequential", groups),
            charts.percentiles(f"{name}: percentiles", alone),
            _parts(name, of),
        ]
    )


def _layers(of: Figures) -> list[Layer]:
    return [
        Layer((NAMES[source], of.pattern), source, part.latencies, of.pattern == "random")
        for source, part in of.by_source.items()
        if part.reads
    ]


def _parts(name: str, of: Mapping[Pattern, Figures]) -> str:
    """The reads of both patterns, told apart in every way that tells them apart."""
    rows = [Row("all", [cell for f in of.values() for cell in _part(f.all, f.all.total_ns)])]
    for title, parts_of, names in [*PARTS, ("who read", lambda f: f.by_performer, PERFORMERS)]:
        parts = [(parts_of(f), f.all.total_ns) for f in of.values()]
        there = list(dict.fromkeys(key for each, _ in parts for key in each))
        if len(there) < 2 and title == "who read":
            continue
        rows.append(Row(title))
        for key in sorted(there, key=lambda k: list(names).index(k) if k in names else len(names)):
            cells = [cell for each, whole in parts for cell in _part(each.get(key), whole)]
            rows.append(Row(names.get(key, key), cells))
    heads = [(pattern, _PART) for pattern in of]
    said = table(f"{name}: which reads they were; a block is 8 KiB", "which", heads, rows)
    if any(set(f.by_performer) - {"backend"} for f in of.values()):
        said += paragraphs([OVERLAPS])
    return said


def _part(part: Part | None, whole_ns: int) -> list[str]:
    if part is None or not part.reads:
        return ["0", *["-"] * (len(_PART) - 1)]
    return [
        units.count(part.reads),
        units.duration(part.total_ns),
        units.share(part.total_ns / max(1, whole_ns)),
        duration(part.block_ns),
        *(duration(part.latencies.percentile(p), 2) for p in (50, 99, 100)),
    ]
