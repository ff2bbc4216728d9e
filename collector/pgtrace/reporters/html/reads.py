"""What an HTML page shows of some reads: their sums, charts, and what they were."""

from collections.abc import Callable, Sequence

from ... import units
from ...model.capture import Capture, Excluded, Io
from ...model.combined import alike
from ...model.histogram import Histogram
from ..document import Group, Layer
from ..sections.sums import PERFORMERS, SOURCES
from ..terminal.block import excluded, in_words
from ..terminal.files import grouped
from .charts import Charts
from .parts import Row, paragraphs, sums, table

NAMES = SOURCES | {"unknown": "unknown"}
COLUMNS = (
    "reads", "bytes", "from device", "time", "share of time", "mean", "a block", "p50", "p99",
    "max",
)  # fmt: skip
_SPLITS: tuple[tuple[str, Callable[[Io], str]], ...] = (
    ("where they were served", lambda r: NAMES[r.source]),
    ("inside a query, or outside", lambda r: r.scope),
    ("pattern", lambda r: r.pattern),
    ("blocks at a time", lambda r: r.size or ""),
    ("what was read", lambda r: r.kind),
    ("who read", lambda r: PERFORMERS[r.performed_by]),
    ("past the page cache", lambda r: "direct I/O" if r.direct else "through the page cache"),
)

TOLD = (
    "source", "scope", "pattern", "size", "kind", "performed_by", "direct", "operation", "call",
)  # fmt: skip


def reading(capture: Capture) -> bool:
    """Whether reads were asked for: else they have no columns."""
    return "read" in capture.probes.operations


def view(
    charts: Charts,
    title: str,
    reads: Sequence[Io],
    missing: Sequence[str],
    *,
    elapsed_ns: int | None = None,
    waited_ns: int | None = None,
    failed: Excluded | None = None,
    short: Excluded | None = None,
) -> str:
    """Return sums, histogram, percentile curves and table of `reads`; `title` goes above charts."""
    reads = alike(reads, TOLD)
    outside = paragraphs(["   ".join(parts)] if (parts := excluded(failed, short)) else [])
    if not any(r.count for r in reads):
        said = "Reads: not measured." if "reads" in missing else "No reads."
        return paragraphs([said]) + outside
    by_source = _layers(reads)
    lines = [" ".join(f"{part}." for part in in_words(reads, elapsed_ns, waited_ns))]
    if {r.source for r in reads} == {"unknown"}:
        lines.append("Where they were served: not measured.")
    parts = [
        sums(_sums(reads)),
        paragraphs(lines),
        outside,
        charts.latencies(f"{title}: how long a read took", [Group("", by_source)]),
    ]
    everything = [Layer(("all",), "all", Histogram.of(reads))] if len(by_source) > 1 else []
    parts.append(charts.percentiles(f"{title}: percentiles", [*everything, *by_source]))
    return "\n".join([*parts, _splits(title, reads)])


def _layers(reads: Sequence[Io]) -> list[Layer]:
    """One for each source, in the order in which they are always told."""
    of = {source: [r for r in reads if r.source == source] for source in NAMES}
    return [
        Layer((NAMES[s],), s, Histogram.of(own))
        for s, own in of.items()
        if any(r.count for r in own)
    ]


def _sums(reads: Sequence[Io]) -> list[tuple[str, str]]:
    total, count = Histogram.of(reads), sum(r.count for r in reads)
    shown = [
        ("reads", units.count(count)),
        ("bytes", units.size(sum(r.bytes for r in reads))),
        ("time in reads", units.duration(total.total_ns)),
        ("mean", units.duration(total.total_ns / count)),
        ("p50", units.duration(total.percentile(50) or 0, 2)),
        ("p99", units.duration(total.percentile(99) or 0, 2)),
        ("max", units.duration(total.max_ns or 0, 2)),
    ]
    if {r.source for r in reads} != {"unknown"}:
        shown.insert(2, ("from the device", units.size(sum(r.device_bytes for r in reads))))
    return shown


def _splits(title: str, reads: Sequence[Io]) -> str:
    """The reads, told apart in every way that tells them apart."""
    whole, rows = sum(r.total_ns for r in reads), []
    for name, of in _SPLITS:
        groups = grouped(reads, of)
        if len(groups) > 1 or name == _SPLITS[0][0]:
            rows += [Row(name), *(numbers(part, own, whole) for part, own in groups)]
    return table(f"{title}: which reads they were", "which", [("", COLUMNS)], rows)


def numbers(name: str, reads: Sequence[Io], whole_ns: int) -> Row:
    """The row of some reads under COLUMNS, a part of what took `whole_ns`."""
    total, count = Histogram.of(reads), sum(r.count for r in reads)
    blocks = sum(r.blocks for r in reads)
    known = any(r.source != "unknown" for r in reads)
    if not count:
        return Row(name, ["0", *["-"] * (len(COLUMNS) - 1)])
    return Row(
        name,
        [
            units.count(count),
            units.size(sum(r.bytes for r in reads)),
            units.size(sum(r.device_bytes for r in reads)) if known else "not measured",
            units.duration(total.total_ns),
            units.share(total.total_ns / max(1, whole_ns)),
            units.duration(total.total_ns / count),
            units.duration(total.total_ns / blocks) if blocks else "-",
            units.duration(total.percentile(50) or 0, 2),
            units.duration(total.percentile(99) or 0, 2),
            units.duration(total.max_ns or 0, 2),
        ],
    )
