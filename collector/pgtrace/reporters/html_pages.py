"""The pages experiment as chapters of a page: storages beside each other, then one by one."""

from collections.abc import Mapping, Sequence
from typing import TypeVar

from .. import units
from ..lab import pages_findings
from ..lab.counted import PATTERNS, Pattern
from ..lab.figures import Figures, Part, figures, label
from ..lab.result import Finding, Result, Storage
from .block import PERFORMERS
from .html_charts import Charts, Group, Layer
from .html_compared import duration, follows, published
from .html_parts import Row, paragraphs, table
from .html_reads import NAMES
from .lab_findings import capital, interval

_K = TypeVar("_K", bound=str)
_SUMS = (
    "runs", "reads", "bytes", "from device", "mean of a block", "95 % over runs", "p50", "p90",
    "p99", "max", "elapsed per block", "95 % over runs ",
)  # fmt: skip
_PART = ("reads", "time", "share of time", "a block", "p50", "p99", "max")


def chapters(result: Result, charts: Charts) -> list[tuple[str, str, str]]:
    """Return (anchor, title, content) of each."""
    found = [f for f in result.findings if f.name in pages_findings.NAMES]
    found = found or pages_findings.findings(result)
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
        ("published", "Beside document 002", published(measured, found)),
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
        table("All runs added up", "", [("", _SUMS)], rows),
    ]
    if layers:
        parts.append(charts.percentiles("Percentiles of a read, every storage", layers))
    return "\n".join(parts)


def _sums(of: Figures, found: Sequence[Finding]) -> list[str]:
    part = of.all
    spread = {
        f.details.get("by"): interval(f, times=True)
        for f in found
        if f.name == pages_findings.BLOCK
        and (f.storage, f.details.get("pattern")) == (of.storage.name, of.pattern)
    }
    return [
        units.count(of.runs),
        units.count(part.reads),
        units.size(part.bytes),
        units.size(part.device_bytes),
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
    served = [
        f"{capital(f.verdict)}."
        for f in found
        if f.name == pages_findings.SERVED and f.storage == storage.name
    ]
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
    ways: list[tuple[str, dict[Pattern, dict[str, Part]]]] = [
        ("all", {p: {"all": f.all} for p, f in of.items()}),
        ("where they were served", {p: _named(f.by_source, NAMES) for p, f in of.items()}),
        ("what was read", {p: _named(f.by_kind, {}) for p, f in of.items()}),
        ("blocks at a time", {p: _named(f.by_size, {}) for p, f in of.items()}),
        ("who read", {p: _named(f.by_performer, PERFORMERS) for p, f in of.items()}),
    ]
    rows = []
    for title, parts in ways:
        names = list(dict.fromkeys(part for each in parts.values() for part in each))
        if title == "who read" and len(names) == 1:
            continue
        rows += [Row(title)] if title != "all" else []
        for part in names:
            cells = [
                cell for p in of for cell in _part(parts[p].get(part), max(1, of[p].all.total_ns))
            ]
            rows.append(Row(part, cells))
    heads = [(pattern, _PART) for pattern in of]
    return table(f"{name}: which reads they were; a block is 8 KiB", "", heads, rows)


def _named(parts: Mapping[_K, Part], names: Mapping[str, str]) -> dict[str, Part]:
    return {names.get(key, key): part for key, part in parts.items()}


def _part(part: Part | None, whole_ns: int) -> list[str]:
    if part is None or not part.reads:
        return ["0", *["-"] * (len(_PART) - 1)]
    return [
        units.count(part.reads),
        units.duration(part.total_ns),
        units.share(part.total_ns / whole_ns),
        duration(part.block_ns),
        *(duration(part.latencies.percentile(p), 2) for p in (50, 99, 100)),
    ]
