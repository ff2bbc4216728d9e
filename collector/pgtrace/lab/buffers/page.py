"""The buffers experiment as chapters of a page: levels of each size, and latencies."""

from collections.abc import Sequence

from ... import units
from ...model.histogram import Histogram
from ...model.lab_result import Storage
from ...reporters.html.charts import Charts, Group, Layer
from ...reporters.html.parts import Row, paragraphs, part, table
from ...reporters.html.reads import NAMES as SOURCES
from ..core.figures import label
from .figures import LEVELS, Figures, figures, table_reads
from .findings import found_in
from .measuring import STATES
from .report import across, of_size, told
from .result import BuffersFinding, BuffersResult, Ring, StateRatio, Timing

_COLUMNS = ("blocks", "a block")


def chapters(result: BuffersResult, charts: Charts) -> list[tuple[str, str, str]]:
    """Return (anchor, title, content), one chapter for each storage that has runs."""
    found = found_in(result)
    made = []
    for number, storage in enumerate(result.storages):
        own = [f for f in found if f.storage == storage.name]
        parts = [
            part(f"shared_buffers {size}", _size(result, storage, size, own, charts), opened=True)
            for size in result.options.shared_buffers
            if figures(result, storage.name, size)
        ]
        if parts:
            content = "\n".join([*parts, paragraphs(across(own))])
            made.append((f"buffers-{number}", label(storage), content))
    return made


def _size(
    result: BuffersResult,
    storage: Storage,
    size: str,
    found: Sequence[BuffersFinding],
    charts: Charts,
) -> str:
    of = figures(result, storage.name, size)
    title = f"{label(storage)}, {size}"
    rows = [Row("shared hits", [c for s in STATES for c in _hits(of.get(s))])]
    rows += [
        Row(SOURCES[source], [c for s in STATES for c in _level(of.get(s), source)])
        for source in LEVELS
    ]
    rows.append(Row("touched", [c for s in STATES for c in _touched(of.get(s))]))
    parts = [
        table(f"{title}: where blocks were found", "level", [(s, _COLUMNS) for s in STATES], rows)
    ]
    groups = []
    for state, each in of.items():
        reads = [read for cell in each.cells for read in table_reads(cell)]
        by_source = {s: [r for r in reads if r.source == s] for s in LEVELS}
        layers = [Layer((SOURCES[s],), s, Histogram.of(own)) for s, own in by_source.items() if own]
        groups += [Group(state, layers)] if layers else []
    if groups:
        parts.append(charts.latencies(f"{title}: latencies of reads", groups, opened=False))
    here = of_size(found, size)
    parts.append(paragraphs([told(f) for f in here if isinstance(f, Ring | Timing | StateRatio)]))
    return "\n".join(parts)


def _hits(f: Figures | None) -> list[str]:
    return ["-", "-"] if f is None else [f"{f.hits:,}", "-"]


def _level(f: Figures | None, source: str) -> list[str]:
    if f is None:
        return ["-", "-"]
    level = f.levels[source]  # type: ignore[index]
    mean = "-" if level.block_ns is None else units.duration(level.block_ns)
    return [f"{level.blocks:,}", mean]


def _touched(f: Figures | None) -> list[str]:
    if f is None or not f.blocks:
        return ["-", "-"]
    return [f"{f.blocks:,}", units.duration(f.elapsed_ns / f.blocks)]
