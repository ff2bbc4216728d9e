"""The read-ahead experiment as text: each storage's scan and random reads, step by step."""

from collections.abc import Sequence

from ... import units
from ...model.capture import Source
from ...model.lab_result import Finding, Pattern, Storage
from ...reporters.terminal.chart import chart
from ...reporters.terminal.sentence import sentence
from ...terminal_text import escape
from ..core.figures import label
from ..core.finding_text import capital, label_of, of_kind, verdict_of
from ..core.method_text import made, table_and_runs
from ..core.valid_runs import left_out
from .figures import Step, steps
from .findings import found_in, throughput
from .knee import Knee, knee_of
from .result import (
    Bytes,
    HumpFinding,
    KneeFinding,
    Limit,
    RandomReads,
    ReadaheadResult,
    TurnFinding,
)

_WIDEST = 15
"""Characters of an interval; that of two unlike runs may have more."""
_COUNTED: tuple[tuple[Source, int], ...] = (
    ("device", 9),
    ("readahead_issued", 9),
    ("page_cache", 10),
    ("wait", 9),
)
_TABLE = "a table with wide rows"
_PATTERNS: tuple[Pattern, ...] = ("sequential", "random")
SAID: dict[type[Finding], str] = {
    KneeFinding: "Knee",
    TurnFinding: "Turn",
    Limit: "Limit",
    Bytes: "Bytes",
    RandomReads: "Random reads",
}


def sections(result: ReadaheadResult, width: int) -> list[str]:
    """Return all that is said of this experiment, but how it was made."""
    found = found_in(result)
    lines: list[str] = []
    for storage in result.storages:
        of = {pattern: steps(result, storage.name, pattern) for pattern in _PATTERNS}
        own = [f for f in found if f.storage == storage.name]
        if of["sequential"]:
            lines += ["", *_scan(storage, of["sequential"], own, width)]
        if of["random"]:
            lines += ["", *_by_index(storage, of["random"], own, width)]
        lines += _histograms(storage, of["sequential"], own, width)
    if not result.cells:
        lines += ["", "No run was finished: there is nothing to show."]
    return lines


def runs(result: ReadaheadResult) -> list[str]:
    """Return what was read, how often, how it was made cold, and what was left out."""
    options = result.options
    said = [table_and_runs(result, _TABLE)]
    for pattern in _PATTERNS:
        if pattern in options.queries:
            said.append(f"{capital(pattern)}: {options.queries[pattern]}")
    said.append(made(result))
    for why in options.left_out.values():
        said.append(f"Left out: {why}.")
    for out in left_out(result):
        cell = out.cell
        name = f"{label_of(result, cell.storage)}, {cell.pattern}, run {cell.run}"
        said.append(f"Left out: {name}: {out.why}.")
    return said


def _scan(
    storage: Storage, scans: Sequence[Step], found: Sequence[Finding], width: int
) -> list[str]:
    knee = knee_of(scans)
    lines = [
        f"{escape(label(storage))}: the scan, by read-ahead in sectors",
        f"  {'sectors':>9}{'time':>10}{'MB/s':>9}{'by best':>9}  {'95 % interval':<15}"
        f"{'CPU':>7}{'waited':>8}{'busy':>8}",
    ]
    for step in scans:
        rate = throughput(step)
        by_best = knee.by_best.get(step.sectors) if knee else None
        lines.append(
            f"  {step.sectors:>9,}{units.duration(step.time.value * 1e9):>10}"
            f"{units.number(rate / 1e6) if rate else '-':>9}"
            f"{units.number(by_best.value) if by_best else '-':>9}  {_interval(knee, step):<15}"
            f"{_share(step.cpu):>7}{_share(step.waited):>8}{_share(step.busy):>8}"
        )
    lines += sentence(
        "Time: the mean over runs, by that of the best step. CPU: of it, the backend was on one; "
        "waited: in reads that waited for the device or for read-ahead; busy: the device had "
        "requests.", width, 2,
    )  # fmt: skip
    lines += ["", *_asked(scans)]
    lines += sentence(
        "Per run. Requests and their size are the device's own counts, of anybody; the rest are "
        "the backend's reads, and what they asked the device for, by the table's size.", width, 2,
    )  # fmt: skip
    lines.append("")
    for kind in (KneeFinding, TurnFinding, Limit, Bytes):
        for f in (f for f in found if isinstance(f, kind)):
            lines += sentence(f"{SAID[kind]}: {verdict_of(f)}.", width, 2)
    return lines


def _asked(scans: Sequence[Step]) -> list[str]:
    lines = [
        f"  {'sectors':>9}{'requests':>10}{'each':>11}{'device':>9}{'issued':>9}{'cache':>10}"
        f"{'wait':>9}{'of table':>10}"
    ]
    for step in scans:
        table = step.heap.bytes / step.runs
        counts = "".join(
            f"{step.count(source) / step.runs:>{wide},.0f}" for source, wide in _COUNTED
        )
        share = f"{step.device_bytes / table:.3f}" if table else "-"
        lines.append(f"  {step.sectors:>9,}{_requests(step)}{counts}{share:>10}")
    return lines


def _requests(step: Step) -> str:
    """How many the device got in a run, and of what size, in their columns."""
    requests = "-" if step.requests is None else f"{step.requests:,.0f}"
    each = "-" if step.request_bytes is None else units.size(step.request_bytes)
    return f"{requests:>10}{each:>11}"


def _by_index(
    storage: Storage, by_index: Sequence[Step], found: Sequence[Finding], width: int
) -> list[str]:
    fastest = knee_of(by_index)
    lines = [
        f"{escape(label(storage))}: random reads, by read-ahead in sectors",
        f"  {'sectors':>9}{'time':>10}{'by best':>9}  {'95 % interval':<15}{'requests':>10}"
        f"{'each':>11}{'from device':>12}",
    ]
    for step in by_index:
        by_best = fastest.by_best.get(step.sectors) if fastest else None
        lines.append(
            f"  {step.sectors:>9,}{units.duration(step.time.value * 1e9):>10}"
            f"{units.number(by_best.value) if by_best else '-':>9}  {_interval(fastest, step):<15}"
            f"{_requests(step)}{units.size(step.all.device_bytes / step.runs):>12}"
        )
    asked = by_index[0].all.bytes / by_index[0].runs
    lines += sentence(f"The query's reads are of {units.size(asked)} in a run.", width, 2)
    for f in of_kind(found, RandomReads):
        lines += sentence(f"{SAID[RandomReads]}: {verdict_of(f)}.", width, 2)
    return lines


def _histograms(
    storage: Storage, scans: Sequence[Step], found: Sequence[Finding], width: int
) -> list[str]:
    lines = []
    for step in scans:
        runs = f"{step.runs} {'run' if step.runs == 1 else 'runs'}"
        lines += [
            "",
            f"{escape(label(storage))}, {step.sectors:,} sectors: its reads in {runs}",
            *chart(step.all.latencies, width),
        ]
        for f in of_kind(found, HumpFinding):
            if f.details.sectors == step.sectors:
                lines += sentence(f"{capital(verdict_of(f))}.", width, 2)
    return lines


def _interval(knee: Knee | None, step: Step) -> str:
    """How certain a step's time by that of the best one is."""
    ratio = knee.by_best.get(step.sectors) if knee else None
    if knee and knee.best is step:
        return "the best"
    if ratio is None or ratio.low is None or ratio.high is None:
        return "one run: none"
    shown = f"{units.number(ratio.low)} to {units.number(ratio.high)}"
    return shown if len(shown) <= _WIDEST else "too wide to say"


def _share(share: float | None) -> str:
    """In percent; rounding of clocks may bring it above the whole."""
    return "-" if share is None else units.share(min(1.0, share))
