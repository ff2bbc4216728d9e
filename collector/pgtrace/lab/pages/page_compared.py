"""The pages experiment, compared: over paired runs, between storages, and with the article."""

from collections.abc import Iterable, Sequence

from ... import units
from ...model.lab_result import Finding
from ...reporters.html.parts import Row, paragraphs, table
from ..core.figures import Figures, label
from ..core.finding_text import capital, interval, label_of, of_kind
from ..core.valid_runs import PATTERNS, Pattern
from . import published as document
from .finding_tables import ONE_OF_20
from .result import Between, Cpu, PagesResult, Ratio

_COMPARED = ("ratio", "95 % interval", "pairs of runs", "what it says")


def duration(ns: float | None, digits: int = 3) -> str:
    """As units.duration(); "-" of what is not known."""
    return "-" if ns is None else units.duration(ns, digits)


def follows(result: PagesResult, found: Iterable[Finding]) -> str:
    """Ratios over paired runs, differences between storages, CPU time per tuple."""
    ratios, differences, cpu = [], [], []
    for f in found:
        of = label_of(result, f.storage)
        said = f.verdict if isinstance(f, Between) else capital(f.verdict)
        words = [str(f.units or 0), f"{said}."]
        value = "-" if f.value is None else units.number(f.value)
        if isinstance(f, Ratio):
            ratios.append(Row(f"{of}, by {f.details.by}", [value, interval(f), *words]))
        elif isinstance(f, Between):
            name = f"{of} by {label_of(result, f.details.against)}"
            name += f", {f.details.pattern}, {f.details.by}"
            differences.append(Row(name, [value, interval(f), *words]))
        elif isinstance(f, Cpu):
            bounds = [f"{v / 1e6:.6f}" for v in (f.low, f.high) if v is not None]
            cells = [f"{(f.value or 0) / 1e6:.6f}", " to ".join(bounds) or "one run: none", *words]
            cpu.append(Row(f"{of}, {f.details.pattern}", cells))
    ratio = "Random by sequential, per 8 KiB, over paired runs"
    between = "Between storages, read latency, over paired runs"
    columns = ("ms", "95 % interval", "runs", "what it says")
    published = ", ".join(f"{key} {ms:.6f}" for key, ms in document.CPU_MS.items())
    parts = [
        _table(ratio, _COMPARED, ratios),
        _table(between, _COMPARED, differences),
        paragraphs([ONE_OF_20] if differences else []),
        _table("CPU time of the backend per tuple, in milliseconds", columns, cpu),
    ]
    if cpu:
        parts.append(paragraphs([f"digoal (2014) had, in milliseconds: {published}."]))
    return "\n".join(part for part in parts if part)


def _table(caption: str, columns: Sequence[str], rows: Sequence[Row]) -> str:
    return table(caption, "of what", [("", columns)], rows, words=["what it says"]) if rows else ""


def published(measured: Iterable[Figures], found: Iterable[Finding]) -> str:
    """Return digoal's figures of 2014, and ours below them."""
    ratios = {
        f.storage: units.number(f.value)
        for f in of_kind(found, Ratio)
        if f.details.by == "read latency" and f.value
    }
    block = f"{document.BLOCK_KB} KiB"
    rows = [Row("digoal, 2014")]
    for row in document.PAGES:
        means = [units.duration(ns) for ns in (row.sequential_ns, row.random_ns)]
        reads = [units.count(n) for n in (row.sequential_reads, row.random_reads)]
        rows.append(Row(row.storage, [block, *means, f"{row.ratio:g}", *reads]))
    rows.append(Row("this result"))
    ours: dict[str, dict[Pattern, Figures]] = {}
    for each in measured:
        ours.setdefault(each.storage.name, {})[each.pattern] = each
    for name, of in ours.items():
        means = [duration(of[p].all.block_ns) if p in of else "-" for p in PATTERNS]
        reads = [units.count(of[p].all.reads) if p in of else "-" for p in PATTERNS]
        marked = label(next(iter(of.values())).storage)
        rows.append(Row(marked, ["8 KiB", *means, ratios.get(name, "-"), *reads]))
    columns = ["mean of", "sequential", "random", "ratio", "sequential reads", "random reads"]
    note = (
        "Another block size, hardware of its time, and a tracer that took microseconds of each "
        "read: for reading beside ours, never a target."
    )
    caption = "digoal's figures of 2014, and ours"
    return table(caption, "storage", [("", columns)], rows) + paragraphs([note])
