"""The buffers experiment as text: each size, its three states side by side, and what follows."""

from collections.abc import Mapping, Sequence

from ... import units
from ...model.lab_result import Storage
from ...reporters.sections.sums import SOURCES
from ...reporters.terminal.sentence import sentence
from ...terminal_text import escape
from ..core.figures import label
from ..core.finding_text import capital, label_of, of_kind
from ..core.method_text import made, table_and_runs
from ..core.valid_runs import left_out
from .figures import LEVELS, Figures, figures, hits_of_scans
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

_NAME = 20
_BLOCKS, _TIME = 9, 10
_TABLE = "a table with a row to a page"


def sections(result: BuffersResult, width: int) -> list[str]:
    """Return all that is said of this experiment, but how it was made."""
    found = found_in(result)
    lines: list[str] = []
    if not result.cells:
        return ["", "No run was finished: there is nothing to show."]
    for storage in result.storages:
        own = [f for f in found if f.storage == storage.name]
        for size, buffers in result.options.shared_buffers.items():
            of = figures(result, storage.name, size)
            if of:
                lines += ["", *_size(storage, buffers, of, of_size(own, size), width)]
        lines += ["", f"{escape(label(storage))}: what was found"]
        for said in across(own):
            lines += sentence(said, width, 2)
    return lines


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
    storage: Storage,
    buffers: int,
    of: Mapping[State, Figures],
    found: Sequence[BuffersFinding],
    width: int,
) -> list[str]:
    size = next(iter(of.values())).size
    counts = ", ".join(f"{len(each.cells)} {state}" for state, each in of.items())
    lines = sentence(
        f"{label(storage)}, shared_buffers {size} ({buffers:,} buffers); added up: {counts}", width
    )
    lines.append(_row("", {s: ("", f"{s:>18}") for s in of}))
    lines.append(_row("", dict.fromkeys(of, ("blocks", "a block"))))
    lines.append(_row("shared hits", {s: (f"{f.hits:,}", "-") for s, f in of.items()}))
    for source in LEVELS:
        shown = {s: _level(f, source) for s, f in of.items()}
        lines.append(_row(SOURCES.get(source, source), shown))
    lines += [
        _row("touched", {s: (f"{f.blocks:,}", _time(f.elapsed_ns, f)) for s, f in of.items()}),
        _row("  95 % over runs", {s: ("", _of(found, s)) for s in of}),
        _row("  in traced reads", {s: ("", _time(f.read_ns, f)) for s, f in of.items()}),
        _row("  I/O timing", {s: ("", _time(f.io_timing_ns, f)) for s, f in of.items()}),
        _row("  outside of it", {s: ("", _time(f.outside_ns, f)) for s, f in of.items()}),
        _row("  no CPU was free", {s: ("", _time(f.cpu_wait_ns, f)) for s, f in of.items()}),
        _row("page faults", {s: (_faults(f), "") for s, f in of.items()}),
    ]
    lines += sentence(
        "A block: the mean time of one at that level; of those touched, of the whole query, of "
        "its reads, of EXPLAIN's own I/O timing, of all else, and of waiting for a CPU. A hit "
        "makes no call that could be timed.",
        width, 2,
    )  # fmt: skip
    lines += ["", *_scans(of, width)]
    for ring in of_kind(found, Ring):
        lines += sentence(told(ring), width, 2)
    for timing in of_kind(found, Timing):
        lines += _timing(timing, width)
    for ratio in of_kind(found, StateRatio):
        lines += sentence(told(ratio), width, 2)
    return lines


def _row(name: str, shown: Mapping[State, tuple[str, str]]) -> str:
    line = f"  {name:<{_NAME - 2}}"
    for state in STATES:
        blocks, time = shown.get(state, ("-", "-"))
        wide = len(time) > _TIME - 1
        line += f"{time:>{_BLOCKS + _TIME}}" if wide else f"{blocks:>{_BLOCKS}}{time:>{_TIME}}"
    return line.rstrip()


def _level(f: Figures, source: str) -> tuple[str, str]:
    level = f.levels[source]  # type: ignore[index]
    mean = "-" if level.block_ns is None else units.duration(level.block_ns)
    return f"{level.blocks:,}", mean


def _time(ns: float | None, f: Figures) -> str:
    return "-" if ns is None or not f.blocks else units.duration(ns / f.blocks)


def _faults(f: Figures) -> str:
    known = [cell.page_faults for cell in f.cells if cell.page_faults is not None]
    return f"{sum(known):,}" if known else "-"


def _of(found: Sequence[BuffersFinding], state: State) -> str:
    own = [f for f in of_kind(found, Elapsed) if f.details.state == state]
    if not own or own[0].low is None or own[0].high is None:
        return "-"
    low, high = (units.duration(ns, 2) for ns in (own[0].low, own[0].high))
    unit = low.rpartition(" ")[2]
    return f"{low.removesuffix(f' {unit}') if high.endswith(unit) else low} to {high}"


def _scans(of: Mapping[State, Figures], width: int) -> list[str]:
    """Hits of one scan after the other in a server life; the least to the most of all runs."""
    lines = ["  Shared hits of scans one after the other, until the server is restarted"]
    for state, each in of.items():
        columns = zip(*(hits_of_scans(cell) for cell in each.cells), strict=False)
        shown = [
            f"{min(c):,}" if min(c) == max(c) else f"{min(c):,} to {max(c):,}" for c in columns
        ]
        lines += sentence(f"{state:<10} {', '.join(shown)}", width, 4)
    return lines


def _timing(f: Timing, width: int) -> list[str]:
    lines = sentence(told(f), width, 2)
    clock, waited = f.details.clock_ns, f.details.cpu_wait_ns
    if f.details.tracer_ns:
        value, low, high = f.details.tracer_ns
        sure = low is not None and high is not None and (low > 0 or high < 0)
        between = "" if low is None or high is None else f" ({_signed(low)} to {_signed(high)})"
        words = "the tracer's own work" if sure else "for the tracer's own work, not decided"
        lines += sentence(
            f"Of it {words}: {_signed(value)} a block{between}, by which the timing is larger "
            "than in the scans that followed untraced.", width, 4,
        )  # fmt: skip
    if clock is not None:
        lines += sentence(
            f"One look at the clock in it: {units.duration(clock)} (pg_test_timing), one for each "
            f"{_blocks(f.details.blocks_a_read)}.", width, 4,
        )  # fmt: skip
    if waited is not None and f.value and 2 * waited > f.value:
        lines += sentence(
            f"In the whole query no CPU was free for {units.duration(waited)} a block: what falls "
            "between EXPLAIN's looks at the clock and the read is in the difference.", width, 4,
        )  # fmt: skip
    return lines


def _blocks(number: float | None) -> str:
    if number is None:
        return "read"
    return "block" if number < 1.05 else f"read of {units.number(number)} blocks"


def _signed(ns: float) -> str:
    return units.duration(ns) if ns >= 0 else f"-{units.duration(-ns)}"


def of_size(found: Sequence[BuffersFinding], size: str) -> list[BuffersFinding]:
    """Those of one size alone."""
    return [f for f in found if not isinstance(f, Blocks) and f.details.shared_buffers == size]


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


def across(found: Sequence[BuffersFinding]) -> list[str]:
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
