"""The pages experiment, compared: over paired runs, between storages, and with the article."""

from collections.abc import Iterable, Sequence
from itertools import groupby

from ... import units
from ...model.lab_result import Finding
from ...reporters.document import Block, Column, Paragraph, Section, Table, Value
from ..core.figures import Figures, label
from ..core.finding_text import capital, interval, label_of, of_kind
from ..core.valid_runs import PATTERNS, Pattern
from . import published as document
from .result import Between, Cpu, PagesResult, Ratio

_COLUMNS = (
    Column("ratio", "number"), Column("95 % interval", "text"), Column("runs"),
    Column("what it says", "words"),
)  # fmt: skip
_ONE_OF_20 = (
    "Ratios are of the slower one by the other. Each interval is of one comparison: of 20, one "
    "misses the truth."
)


def follows(
    result: PagesResult, measured: Sequence[Figures], found: Sequence[Finding]
) -> list[Section]:
    """Ratios over paired runs, differences between storages, CPU time per tuple; none if nothing
    follows.
    """
    blocks = [*_ratios(result, measured, found), *_between(result, found), *_cpu(result, found)]
    return [Section("follows", blocks, "What follows")] if blocks else []


def _ratios(
    result: PagesResult, measured: Sequence[Figures], found: Sequence[Finding]
) -> list[Block]:
    rows = [
        (f"{label_of(result, f.storage)}, by {f.details.by}", _row(f, f"{capital(f.verdict)}."))
        for f in of_kind(found, Ratio)
    ]
    if not rows:
        return []
    caption = "Random by sequential, per 8 KiB, over paired runs"
    blocks: list[Block] = [Table(caption, "", _COLUMNS, rows, named=True)]
    counts = {p: sum(f.rows for f in measured if f.pattern == p) for p in PATTERNS}
    reads = {p: sum(f.all.blocks for f in measured if f.pattern == p) for p in PATTERNS}
    if all(counts.values()) and all(reads.values()):
        per_block = {p: units.number(counts[p] / reads[p]) for p in PATTERNS}
        said = (
            f"Elapsed time has the work on rows in it: {per_block['sequential']} rows to a "
            f"sequential block, {per_block['random']} to a random one."
        )
        blocks.append(Paragraph(said))
    return blocks


def _between(result: PagesResult, found: Sequence[Finding]) -> list[Block]:
    """Each two storages are a heading, whichever is the slower one."""
    order = [storage.name for storage in result.storages]

    def pair(f: Between) -> list[str]:
        both = (str(f.storage), str(f.details.against))
        return sorted(both, key=lambda name: order.index(name) if name in order else len(order))

    rows: list[tuple[str, Sequence[Value]]] = []
    for both, own in groupby(of_kind(found, Between), pair):
        rows.append((" and ".join(label_of(result, name) for name in both), []))
        for f in own:
            slow = label_of(result, f.storage)
            words = f.verdict if f.verdict.startswith(slow) else capital(f.verdict)
            rows.append((f"  {f.details.pattern}, {f.details.by}", _row(f, f"{words}.")))
    if not rows:
        return []
    caption = "Between storages, read latency, over paired runs"
    return [Table(caption, "", _COLUMNS, rows, named=True), Paragraph(_ONE_OF_20)]


def _row(f: Finding, words: str) -> list[Value]:
    return ["-" if f.value is None else f.value, interval(f), f.units or 0, words]


def _cpu(result: PagesResult, found: Sequence[Finding]) -> list[Block]:
    """CPU times per tuple in milliseconds, the published unit."""
    rows: list[tuple[str, list[Value]]] = []
    for f in of_kind(found, Cpu):
        ends = [units.number(v / 1e6) for v in (f.low, f.high) if v is not None]
        block = f.details.of_sequential_block
        rows.append((
            f"{label_of(result, f.storage)}, {f.details.pattern}",
            [(f.value or 0) / 1e6, " to ".join(ends) or "one run: none",
             "-" if block is None else block, f.units or 0, f"{capital(f.verdict)}."],
        ))  # fmt: skip
    if not rows:
        return []
    columns = [
        Column("ms", "number"), Column("95 % interval", "text"), Column("of a block", "number"),
        Column("runs"), Column("what it says", "words", detail=True),
    ]  # fmt: skip
    published_ms = ", ".join(f"{k} {v:.6f}" for k, v in document.CPU_MS.items())
    caption = "CPU time of the backend per tuple, user and system"
    said = (
        f'"of a block" is of a sequential one\'s read latency. digoal (2014) had, in '
        f"milliseconds: {published_ms}. These are shown; no setting follows from them."
    )
    return [Table(caption, "", columns, rows, named=True), Paragraph(said)]


def published(measured: Iterable[Figures], found: Iterable[Finding]) -> Section:
    """digoal's figures of 2014, and ours below them."""
    ratios = {f.storage: f.value for f in of_kind(found, Ratio) if f.details.by == "read latency"}
    rows: list[tuple[str, list[Value]]] = [("digoal, 2014", [])]
    for row in document.PAGES:
        means: list[Value] = [row.sequential_ns, row.random_ns, f"{row.ratio:g}"]
        rows.append((row.storage, [*means, row.sequential_reads, row.random_reads]))
    rows.append(("this result", []))
    ours: dict[str, dict[Pattern, Figures]] = {}
    for each in measured:
        ours.setdefault(each.storage.name, {})[each.pattern] = each
    for name, of in ours.items():
        means = [of[p].all.block_ns or "-" if p in of else "-" for p in PATTERNS]
        reads: list[Value] = [of[p].all.reads if p in of else "-" for p in PATTERNS]
        marked = label(next(iter(of.values())).storage)
        rows.append((marked, [*means, ratios.get(name) or "-", *reads]))
    columns = [Column(p, "ns") for p in PATTERNS]
    columns.append(Column("ratio", "number"))
    columns += [Column(f"{p} reads", "count", detail=True) for p in PATTERNS]
    caption = f"Means per read of {document.BLOCK_KB} kB, and ours, per 8 KiB"
    said = (
        "Another block size, hardware of its time, and a tracer that took microseconds of each "
        "read: for reading beside ours, never a target. Our ratios are those over paired runs."
    )
    table = Table(caption, "storage", columns, rows, named=True)
    return Section("published", [table, Paragraph(said)], "Beside digoal's figures of 2014")
