"""What follows from the pages experiment, as tables: ratios, differences, the article's figures."""

from collections.abc import Iterable, Sequence

from ... import units
from ...model.lab_result import Finding
from ...reporters.terminal.sentence import sentence
from ...terminal_text import escape
from ..core.figures import Figures, label
from ..core.finding_text import capital, interval, label_of, of_kind
from ..core.valid_runs import PATTERNS, Pattern
from . import published as document
from .result import Between, Cpu, PagesResult, Ratio

_NAME = 40
_TITLE = f"  {'':<{_NAME}}{'ratio':>8}  {'95 % interval':<20}{'runs':>5}"

ONE_OF_20 = (
    "Ratios are of the slower one by the other. Each interval is of one comparison: of 20, one "
    "misses the truth."
)


def ratios(
    result: PagesResult, measured: Sequence[Figures], found: Iterable[Finding], width: int
) -> list[str]:
    """Return the table of random by sequential; no lines if no run has both."""
    lines = []
    for f in of_kind(found, Ratio):
        name = f"{label_of(result, f.storage)}, by {f.details.by}"
        lines += _finding(name, f, f"{capital(f.verdict)}.", width)
    if not lines:
        return []
    lines = ["", "Random by sequential, per 8 KiB, over paired runs", _TITLE, *lines]
    rows = {p: sum(f.rows for f in measured if f.pattern == p) for p in PATTERNS}
    blocks = {p: sum(f.all.blocks for f in measured if f.pattern == p) for p in PATTERNS}
    if not all(rows.values()) or not all(blocks.values()):
        return lines
    per_block = {p: units.number(rows[p] / blocks[p]) for p in PATTERNS}
    return lines + sentence(
        f"Elapsed time has the work on rows in it: {per_block['sequential']} rows to a sequential "
        f"block, {per_block['random']} to a random one.",
        width,
        2,
    )


def between(result: PagesResult, found: Iterable[Finding], width: int) -> list[str]:
    """Return the table of each two storages; no lines if there is one."""
    lines = []
    names = [storage.name for storage in result.storages]
    pair = ""
    for f in of_kind(found, Between):
        slow = label_of(result, f.storage)
        both = sorted(
            (str(name) for name in (f.storage, f.details.against)),
            key=lambda name: names.index(name) if name in names else len(names),
        )
        shown = " and ".join(escape(label_of(result, name)) for name in both)
        if pair != (pair := f"  {shown}"):
            lines.append(pair)
        name = f"  {f.details.pattern}, {f.details.by}"
        words = f.verdict if f.verdict.startswith(slow) else capital(f.verdict)
        lines += _finding(name, f, f"{words}.", width)
    if not lines:
        return []
    lines = ["", "Between storages, read latency, over paired runs", _TITLE, *lines]
    return lines + sentence(ONE_OF_20, width, 2)


def _finding(name: str, f: Finding, words: str, width: int) -> list[str]:
    """A name that is too long for its column stands on a line of its own."""
    value = "-" if f.value is None else units.number(f.value)
    numbers = f"{value:>8}  {interval(f):<20}{f.units or 0:>5}"
    name = escape(name)
    fits = len(name) < _NAME
    lines = [f"  {name:<{_NAME}}{numbers}"] if fits else [f"  {name}", f"  {'':<{_NAME}}{numbers}"]
    return lines + sentence(words, width, 4 + len(name) - len(name.lstrip()))


def cpu(result: PagesResult, found: Iterable[Finding], width: int) -> list[str]:
    """Return CPU times per tuple in milliseconds, the published unit."""
    lines = []
    for f in of_kind(found, Cpu):
        name = f"{label_of(result, f.storage)}, {f.details.pattern}"
        low, high = (None if v is None else units.number(v / 1e6) for v in (f.low, f.high))
        spread = f"{low} to {high}" if low and high else "one run: none"
        of_block = f.details.of_sequential_block
        block = "-" if of_block is None else units.number(of_block)
        lines.append(
            f"  {escape(name):<30}{units.number((f.value or 0) / 1e6):>9}  {spread:<22}{block:>12}"
        )
    if not lines:
        return []
    published_ms = ", ".join(f"{k} {v:.6f}" for k, v in document.CPU_MS.items())
    return [
        "",
        "CPU time of the backend per tuple, user and system",
        f"  {'':<30}{'ms':>9}  {'95 % interval':<22}{'of a block':>12}",
        *lines,
        *sentence(
            f"\"of a block\" is of a sequential one's read latency. digoal (2014) had, in "
            f"milliseconds: {published_ms}. These are shown; no setting follows from them.",
            width, 2,
        ),
    ]  # fmt: skip


def published(measured: Iterable[Figures], found: Iterable[Finding], width: int) -> list[str]:
    """Return digoal's figures of 2014, and ours below them."""
    lines = [
        "",
        f"digoal's figures of 2014, per read of {document.BLOCK_KB} kB, and ours, per 8 KiB",
        f"  {'':<40}{'sequential':>12}{'random':>12}{'ratio':>8}",
    ]
    for row in document.PAGES:
        sequential, random = (units.duration(ns) for ns in (row.sequential_ns, row.random_ns))
        lines.append(f"  {row.storage:<40}{sequential:>12}{random:>12}{row.ratio:>8g}")
    ratios_of = {
        f.storage: f.value for f in of_kind(found, Ratio) if f.details.by == "read latency"
    }
    ours: dict[str, dict[Pattern, Figures]] = {}
    for each in measured:
        ours.setdefault(each.storage.name, {})[each.pattern] = each
    for name, of in ours.items():
        means = [of[p].all.block_ns if p in of else None for p in PATTERNS]
        shown = [units.duration(ns) if ns else "-" for ns in means]
        ratio = ratios_of.get(name)
        times = units.number(ratio) if ratio else "-"
        marked = escape(label(next(iter(of.values())).storage))
        lines.append(f"  {marked:<40}{shown[0]:>12}{shown[1]:>12}{times:>8}")
    return lines + sentence(
        "Another block size, hardware of its time, and a tracer that took microseconds of each "
        "read: for reading beside ours, never a target. Our ratios are those over paired runs.",
        width, 2,
    )  # fmt: skip
