"""The buffers experiment as text: each size, its three states side by side, and what follows."""

from collections.abc import Mapping, Sequence

from ... import units
from ...model.lab_result import Finding, Result, Storage
from ...reporters.sections.sums import SOURCES
from ...reporters.terminal.sentence import sentence
from ...terminal_text import escape
from ..core.figures import label
from ..core.finding_text import capital, findings_of, label_of
from ..core.method_text import made, table_and_runs
from ..core.valid_runs import left_out
from . import findings as buffers_findings
from .experiment import STATES, State
from .figures import LEVELS, Figures, figures, hits_of_scans, sizes_of
from .findings import BLOCKS, ELAPSED, NAMES, RING, SIZE, STATE, TIMING

__all__ = ["NAMES", "runs", "sections"]

_NAME = 20
_BLOCKS, _TIME = 9, 10
_TABLE = "a table with a row to a page"


def sections(result: Result, width: int) -> list[str]:
    """Return all that is said of this experiment, but how it was made."""
    found = findings_of(result, NAMES, buffers_findings.findings)
    lines: list[str] = []
    if not result.cells:
        return ["", "No run was finished: there is nothing to show."]
    for storage in result.storages:
        own = [f for f in found if f.storage == storage.name]
        for size, buffers in sizes_of(result).items():
            of = figures(result, storage.name, size)
            if of:
                here = [f for f in own if f.details.get("shared_buffers") == size]
                lines += ["", *_size(storage, buffers, of, here, width)]
        lines += ["", f"{escape(label(storage))}: what was found"]
        for said in across(own):
            lines += sentence(said, width, 2)
    return lines


def runs(result: Result, width: int) -> list[str]:
    """Return what was run, how caches were made cold or full, and which runs do not count."""
    lines = sentence(table_and_runs(result, _TABLE), width)
    queries = result.options.get("queries")
    for name, query in queries.items() if isinstance(queries, dict) else ():
        lines += sentence(f"{capital(name)}: {query}", width)
    lines += sentence(made(result), width)
    for out in left_out(result):
        cell = out.cell
        name = f"{label_of(result, cell.storage)}, {cell.shared_buffers}, {cell.state}"
        lines += sentence(f"Left out: {name}, run {cell.run}: {out.why}.", width)
    return lines


def _size(
    storage: Storage,
    buffers: int,
    of: Mapping[State, Figures],
    found: Sequence[Finding],
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
        _row("  95 % over runs", {s: ("", _of(found, ELAPSED, s)) for s in of}),
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
    for f in (f for f in found if f.name == RING):
        lines += sentence(told(f), width, 2)
    for f in (f for f in found if f.name == TIMING):
        lines += _timing(f, width)
    for f in (f for f in found if f.name == STATE):
        lines += sentence(told(f), width, 2)
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


def _of(found: Sequence[Finding], name: str, state: str) -> str:
    own = [f for f in found if f.name == name and f.details.get("state") == state]
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


def _timing(f: Finding, width: int) -> list[str]:
    lines = sentence(told(f), width, 2)
    tracer, clock = f.details.get("tracer_ns"), f.details.get("clock_ns")
    if isinstance(tracer, list) and isinstance(tracer[0], int | float):
        value, low, high = tracer
        sure = low is not None and high is not None and (low > 0 or high < 0)
        between = "" if low is None else f" ({_signed(low)} to {_signed(high)})"
        words = "the tracer's own work" if sure else "for the tracer's own work, not decided"
        lines += sentence(
            f"Of it {words}: {_signed(value)} a block{between}, by which the timing is larger "
            "than in the scans that followed untraced.", width, 4,
        )  # fmt: skip
    if isinstance(clock, int | float):
        lines += sentence(
            f"One look at the clock in it: {units.duration(clock)} (pg_test_timing), one for each "
            f"{_blocks(f.details.get('blocks_a_read'))}.", width, 4,
        )  # fmt: skip
    waited = f.details.get("cpu_wait_ns")
    if isinstance(waited, int | float) and f.value and 2 * waited > f.value:
        lines += sentence(
            f"In the whole query no CPU was free for {units.duration(waited)} a block: what falls "
            "between EXPLAIN's looks at the clock and the read is in the difference.", width, 4,
        )  # fmt: skip
    return lines


def _blocks(number: object) -> str:
    if not isinstance(number, int | float):
        return "read"
    return "block" if number < 1.05 else f"read of {units.number(number)} blocks"


def _signed(ns: float) -> str:
    return units.duration(ns) if ns >= 0 else f"-{units.duration(-ns)}"


def told(f: Finding) -> str:
    """A finding as a sentence, with what it is of."""
    state, against = f.details.get("state"), f.details.get("against")
    of = {
        STATE: f"{state}, {against}: ",
        SIZE: f"{state}, shared_buffers {f.details.get('shared_buffers')} and {against}: ",
        TIMING: f"{state}: ",
    }
    return f"{capital(of.get(f.name, '') + f.verdict)}."


def across(found: Sequence[Finding]) -> list[str]:
    """Return what holds over all sizes of a storage, as sentences."""
    said = [told(f) for name in (BLOCKS, SIZE) for f in found if f.name == name]
    return [*said, _EXPLAINED] if any(f.name == TIMING for f in found) else said


_EXPLAINED = (
    "EXPLAIN's I/O timing begins when PostgreSQL looks at its clock before it calls its storage "
    "manager, and ends when it has looked again. So it has in it what the traced read has not: "
    "one look at the clock, PostgreSQL's own way to the file, the way into the kernel and back, "
    "the tracer's own work, and waiting for a CPU that the kernel took away on the way back. "
    "It has not in it how a buffer is found for the block, nor, up to PostgreSQL 17, how its "
    "checksum is verified. On 18 with I/O workers or io_uring it is the time for which the backend "
    "waited, and not that of reads."
)
