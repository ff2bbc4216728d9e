"""The buffers experiment as a document: each size, its three states side by side, what follows."""

from collections.abc import Iterator, Mapping, Sequence

from ... import units
from ...model.histogram import Histogram
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
from ..core.finding_text import capital, label_of, of_kind
from ..core.method_text import made, table_and_runs
from ..core.valid_runs import left_out
from .figures import LEVELS, Figures, figures, hits_of_scans, table_reads
from .findings import found_in
from .measuring import STATES
from .result import (
    Blocks,
    BuffersFinding,
    BuffersResult,
    Elapsed,
    Ring,
    SizeRatio,
    State,
    StateRatio,
    Timing,
)

_TABLE = "a table with a row to a page"
_NAMES = SOURCES | {"unknown": "unknown"}


def sections(result: BuffersResult) -> list[Section]:
    """Return all that is said of this experiment, but how it was made."""
    found = found_in(result)
    parts: list[Section] = []
    for number, storage in enumerate(result.storages):
        own = [f for f in found if f.storage == storage.name]
        blocks: list[Block] = []
        for size, buffers in result.options.shared_buffers.items():
            of = figures(result, storage.name, size)
            if of:
                title = f"{label(storage)}, shared_buffers {size}"
                here = [
                    f for f in own if not isinstance(f, Blocks) and f.details.shared_buffers == size
                ]
                blocks.append(Part(title, list(_size(title, buffers, of, here))))
        if blocks:
            blocks.append(
                Part(f"{label(storage)}: what was found", [*map(Paragraph, _across(own))])
            )
            parts.append(Section(f"buffers-{number}", blocks, label(storage)))
    return parts


def runs(result: BuffersResult) -> list[str]:
    """Return what was run, how caches were made cold or full, and which runs do not count."""
    said = [table_and_runs(result, _TABLE)]
    for name, query in result.options.queries.items():
        said.append(f"{capital(name)}: {query}")
    said.append(made(result))
    for out in left_out(result):
        cell = out.cell
        name = f"{label_of(result, cell.storage)}, {cell.shared_buffers}, {cell.state}"
        said.append(f"Left out: {name}, run {cell.run}: {out.why}.")
    return said


def _size(
    title: str, buffers: int, of: Mapping[State, Figures], found: Sequence[BuffersFinding]
) -> Iterator[Block]:
    counts = ", ".join(f"{len(each.cells)} {state}" for state, each in of.items())
    yield Paragraph(f"{buffers:,} buffers; runs added up: {counts}.")
    yield _levels(title, of)
    yield _times(title, of, found)
    yield Paragraph(
        "A block: the mean time of one at that level; of those touched, of the whole query. A hit "
        "makes no call that could be timed. Outside is what is not in EXPLAIN's own I/O timing."
    )
    groups = [Group(state, layers) for state, each in of.items() if (layers := _layers(each))]
    if groups:
        yield Latencies(f"{title}: latencies of reads", groups, detail=True)
    yield Paragraph("Shared hits of scans one after the other, until the server is restarted:")
    for state, each in of.items():
        columns = zip(*(hits_of_scans(cell) for cell in each.cells), strict=False)
        shown = [
            f"{min(c):,}" if min(c) == max(c) else f"{min(c):,} to {max(c):,}" for c in columns
        ]
        yield Paragraph(f"{state}: {', '.join(shown)}.")
    for ring in of_kind(found, Ring):
        yield Paragraph(told(ring))
    for timing in of_kind(found, Timing):
        yield from map(Paragraph, _timing(timing))
    for ratio in of_kind(found, StateRatio):
        yield Paragraph(told(ratio))


def _layers(of: Figures) -> list[Layer]:
    """Its reads by where they were served."""
    reads = [read for cell in of.cells for read in table_reads(cell)]
    by_source = {s: [r for r in reads if r.source == s] for s in LEVELS}
    return [Layer((_NAMES[s],), s, Histogram.of(own)) for s, own in by_source.items() if own]


def _levels(title: str, of: Mapping[State, Figures]) -> Table:
    """At which level blocks were found, of each state."""

    def row(name: str, shown: Mapping[State, tuple[Value, Value]]) -> tuple[str, list[Value]]:
        return name, [value for state in STATES for value in shown.get(state, ("-", "-"))]

    rows = [row("shared hits", {s: (f.hits, "-") for s, f in of.items()})]
    for source in LEVELS:
        levels = {s: f.levels[source] for s, f in of.items()}
        shown = {s: (one.blocks, _or_none(one.block_ns)) for s, one in levels.items()}
        rows.append(row(_NAMES[source], shown))
    rows.append(row("touched", {s: (f.blocks, _a_block(f.elapsed_ns, f)) for s, f in of.items()}))
    rows.append(row("page faults", {s: (_faults(f), "-") for s, f in of.items()}))
    columns = [
        column
        for s in STATES
        for column in (Column("blocks", "count", s), Column("a block", "ns", s))
    ]
    return Table(f"{title}: where blocks were found", "level", columns, rows, named=True)


def _times(title: str, of: Mapping[State, Figures], found: Sequence[BuffersFinding]) -> Table:
    """Where the time of a query went, by the blocks that it touched."""
    rows = [
        (
            state,
            [
                _a_block(f.elapsed_ns, f),
                _interval(found, state),
                *(
                    _a_block(ns, f)
                    for ns in (f.read_ns, f.io_timing_ns, f.outside_ns, f.cpu_wait_ns)
                ),
            ],
        )
        for state, f in of.items()
    ]
    columns = [Column("elapsed", "ns"), Column("95 % interval", "text")]
    columns += [Column(name, "ns") for name in ("in reads", "I/O timing", "outside", "no CPU")]
    return Table(f"{title}: time by blocks touched", "", columns, rows, named=True)


def _or_none(ns: float | None) -> Value:
    return "-" if ns is None else ns


def _a_block(ns: float | None, f: Figures) -> Value:
    if ns is None:
        return None
    return ns / f.blocks if f.blocks else "-"


def _faults(f: Figures) -> int | None:
    known = [cell.page_faults for cell in f.cells if cell.page_faults is not None]
    return sum(known) if known else None


def _interval(found: Sequence[BuffersFinding], state: State) -> str:
    own = [f for f in of_kind(found, Elapsed) if f.details.state == state]
    if not own or own[0].low is None or own[0].high is None:
        return "-"
    low, high = (units.duration(ns, 2) for ns in (own[0].low, own[0].high))
    unit = low.rpartition(" ")[2]
    return f"{low.removesuffix(f' {unit}') if high.endswith(unit) else low} to {high}"


def _timing(f: Timing) -> Iterator[str]:
    yield told(f)
    clock, waited = f.details.clock_ns, f.details.cpu_wait_ns
    if f.details.tracer_ns:
        value, low, high = f.details.tracer_ns
        sure = low is not None and high is not None and (low > 0 or high < 0)
        between = "" if low is None or high is None else f" ({_signed(low)} to {_signed(high)})"
        words = "the tracer's own work" if sure else "for the tracer's own work, not decided"
        yield (
            f"Of it {words}: {_signed(value)} a block{between}, by which the timing is larger "
            "than in the scans that followed untraced."
        )
    if clock is not None:
        yield (
            f"One look at the clock in it: {units.duration(clock)} (pg_test_timing), one for each "
            f"{_blocks(f.details.blocks_a_read)}."
        )
    if waited is not None and f.value and 2 * waited > f.value:
        yield (
            f"In the whole query no CPU was free for {units.duration(waited)} a block: what falls "
            "between EXPLAIN's looks at the clock and the read is in the difference."
        )


def _blocks(number: float | None) -> str:
    if number is None:
        return "read"
    return "block" if number < 1.05 else f"read of {units.number(number)} blocks"


def _signed(ns: float) -> str:
    return units.duration(ns) if ns >= 0 else f"-{units.duration(-ns)}"


def told(f: BuffersFinding) -> str:
    """A finding as a sentence, with what it is of."""
    of = ""
    if isinstance(f, StateRatio):
        of = f"{f.details.state}, {f.details.against}: "
    elif isinstance(f, SizeRatio):
        of = f"{f.details.state}, shared_buffers {f.details.shared_buffers} and "
        of += f"{f.details.against}: "
    elif isinstance(f, Timing):
        of = f"{f.details.state}: "
    return f"{capital(of + f.verdict)}."


def _across(found: Sequence[BuffersFinding]) -> list[str]:
    """Return what holds over all sizes of a storage, as sentences."""
    said = [told(f) for kind in (Blocks, SizeRatio) for f in found if isinstance(f, kind)]
    return [*said, _EXPLAINED] if of_kind(found, Timing) else said


_EXPLAINED = (
    "EXPLAIN's I/O timing begins when PostgreSQL looks at its clock before it calls its storage "
    "manager, and ends when it has looked again. So it has in it what the traced read has not: "
    "one look at the clock, PostgreSQL's own way to the file, the way into the kernel and back, "
    "the tracer's own work, and waiting for a CPU that the kernel took away on the way back. "
    "It has not in it how a buffer is found for the block, nor, up to PostgreSQL 17, how its "
    "checksum is verified. On 18 with I/O workers or io_uring it is the time for which the backend "
    "waited, and not that of reads."
)
