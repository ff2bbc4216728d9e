"""The sync experiment as text: two servers side by side, phase by phase, and their syncs."""

from collections.abc import Callable, Mapping, Sequence
from statistics import fmean
from typing import Any

from .. import units
from ..histogram import Histogram
from ..lab import sync_findings
from ..lab.result import Finding, Result
from ..lab.sync_findings import (
    NAMES,
    Group,
    Phase,
    Told,
    by_run,
    durable_writes,
    groups,
    is_difference,
    measures,
    names,
    shown,
)
from ..statement import escape
from .chart import merge
from .sentence import sentence

__all__ = ["NAMES", "sections"]

_NAME = 24
_COLUMN = 14
_PHASES: tuple[Phase, ...] = ("load", "checkpoint")
_BAR = 14

_SHOWN: dict[str, Callable[[Histogram], str]] = {
    "calls": lambda h: units.count(h.count),
    "together": lambda h: units.duration(h.total_ns),
    "p50": lambda h: units.duration(h.percentile(50) or 0, 2),
    "p99": lambda h: units.duration(h.percentile(99) or 0, 2),
    "max": lambda h: units.duration(h.max_ns or 0, 2),
}


def sections(result: Result, width: int) -> list[str]:
    """Return all that is said of this experiment, after where and by what it was measured."""
    if len(names(result)) != 2:
        return []
    found = [f for f in result.findings if f.name in NAMES] or sync_findings.findings(result)
    verdicts = {tuple(f.details.get(key) for key in ("load", "phase", "by")): f for f in found}
    lines = ["", *_runs(result, width)]
    for load in dict.fromkeys(cell.load for cell in result.cells if cell.load):
        lines += ["", *sentence(_title(result, load), width)]
        for phase in _PHASES:
            lines += _phase(result, load, phase, verdicts)
    lines += sentence(
        f"Means over runs, and {_ratio(result)} over paired runs. Syncs: fsync, fdatasync and "
        "sync_file_range, and writes of WAL where they are durable (O_DSYNC, O_SYNC). Sync time "
        "adds up processes that waited at one time. In the checkpointer: its own function, "
        "traced; its phases from the server's probes. Device: its own counters, of anybody, "
        "while the phase lasted.", width, 2,
    )  # fmt: skip
    lines += _log(result, width)
    lines += _syncs(result)
    lines += ["", *_differences(result, found, width)]
    return lines


def _ratio(result: Result) -> str:
    one, other = names(result)
    return f"{other} by {one} with its 95 % interval"


def _runs(result: Result, width: int) -> list[str]:
    options = result.options
    lines = []
    for about in options["servers"]:
        own = ", ".join(f"{name}={value}" for name, value in about["settings"].items())
        lines += sentence(
            f"{about['name']}: PostgreSQL {about['version']} in {about['bindir']}, "
            f"{own or 'no settings of its own'}",
            width,
        )
    differ = options["differences"]
    told = "; ".join(
        f"{name} {' and '.join(f'{value or chr(39) * 2}' for value in values.values())}"
        for name, values in differ.items()
    )
    lines += sentence(
        f"Settings in which they differ: {told}." if told else "They differ in no setting.", width
    )
    runs = options["runs"]
    lines += sentence(
        f"Document 001's tables, {options['rows']:,} users, made anew in each turn; "
        f"{runs} {'run' if runs == 1 else 'runs'}, each with a turn of both, in an order drawn at "
        f"random with seed {options['seed']}. WAL in {options['wal_storage']}, data in "
        f"{options['data_storage']}.",
        width,
    )
    return lines


def _title(result: Result, load: str) -> str:
    options = result.options
    if load == "bulk":
        return f"Bulk: one insert of {options['bulk_rows']:,} rows, then CHECKPOINT"
    keys = options["rows"] if load == "wide" else options["narrow_keys"]
    return (
        f"{load.capitalize()}: {options['transactions']:,} transactions by {options['clients']} "
        f"writers and as many by as many readers, keys 1 to {keys:,}, then CHECKPOINT"
    )


def _phase(
    result: Result, load: str, phase: Phase, verdicts: Mapping[tuple[Any, ...], Finding]
) -> list[str]:
    one, other = names(result)
    head = f"{escape(one):>{_COLUMN}}{escape(other):>{_COLUMN}}"
    lines = [f"  {phase:<{_NAME}}{head}{other + ' by ' + one:>10}  95 % interval"]
    for told in measures(result, phase):
        by_server = [by_run(result, name, load, phase, told.measure) for name in (one, other)]
        if any(by_server):
            line = f"    {told.by:<{_NAME - 2}}"
            line += "".join(f"{_mean(told, values):>{_COLUMN}}" for values in by_server)
            lines.append(f"{line}{_certain(verdicts.get((load, phase, told.by)))}".rstrip())
    return lines


def _mean(told: Told, values: Mapping[int, float]) -> str:
    return shown(told, fmean(values.values())) if values else "-"


def _certain(found: Finding | None) -> str:
    if found is None:
        return ""
    mark = " *" if is_difference(found) else ""
    if found.value is None:
        return f"{'-':>10}  {mark.strip()}"
    if found.low is None or found.high is None:
        return f"{units.number(found.value):>10}  one run: none"
    interval = f"{units.number(found.low)} to {units.number(found.high)}"
    return f"{units.number(found.value):>10}  {interval}{mark}"


def _log(result: Result, width: int) -> list[str]:
    """How far the server's own line is from what was traced."""
    both = [
        (cell.checkpoint.total_s, cell.checkpoint.logged_total_s)
        for cell in result.cells
        if cell.checkpoint and cell.checkpoint.total_s and cell.checkpoint.logged_total_s
    ]
    if not both:
        return []
    traced, logged = (sum(each) for each in zip(*both, strict=True))
    return sentence(
        f"The server's own log has {units.duration(logged * 1e9)} for the {len(both)} checkpoints "
        f"that took {units.duration(traced * 1e9)} as traced; it counts begun milliseconds.",
        width, 2,
    )  # fmt: skip


def _syncs(result: Result) -> list[str]:
    """Histograms by kind of file, type of backend and call."""
    lines = []
    one, other = names(result)
    for group, by_server in groups(result).items():
        latencies = [merge(by_server.get(name, [])) for name in (one, other)]
        lines += ["", f"{_group(group)}: latencies, all phases and runs added up"]
        lines.append(f"{'':>9}" + "".join(f"{escape(name):>11}{'':21}" for name in (one, other)))
        lines[-1] = lines[-1].rstrip()
        for title, value in _SHOWN.items():
            cells = [value(each) if each.count else "-" for each in latencies]
            lines.append((f"{title:>9}" + "".join(f"{cell:>11}{'':21}" for cell in cells)).rstrip())
        lines += _histogram(latencies)
    if not lines:
        lines = ["", "No server called fsync, fdatasync or sync_file_range."]
    return lines


def _group(group: Group) -> str:
    return f"{group.kind}, {escape(group.backend_type)}, {group.call}"


def _histogram(latencies: Sequence[Histogram]) -> list[str]:
    rows = [{low: (n, ns) for low, _, n, ns in each.fold_time()} for each in latencies]
    lows = [low for each in rows for low in each]
    lines = [f"{'from':>9}" + f"{'calls':>11}{'time':>21}" * 2]
    low = min(lows)
    while low <= max(lows):
        line = f"{units.bucket(low):>9}"
        for each, of in zip(latencies, rows, strict=True):
            count, time = of.get(low, (0, 0))
            most = max((n for n, _ in of.values()), default=1)
            share = units.share(time / max(1, each.total_ns))
            line += f"{units.count(count):>11} {'█' * round(count * _BAR / most):<{_BAR}}{share:>6}"
        lines.append(line.rstrip())
        low = low * 2 or 1
    return lines


def _differences(result: Result, found: Sequence[Finding], width: int) -> list[str]:
    """In words, those that are some; how many are none or not decided."""
    lines = ["Differences"]
    different = [f for f in found if is_difference(f)]
    for f in different:
        told = f.details
        words = f.verdict.removeprefix("simulated: ").removeprefix("a difference: ")
        by = str(told.get("by")).strip()
        lines += sentence(f"{told.get('load')}, {told.get('phase')}, {by}: {words}.", width, 2)
    rest = [f.verdict.removeprefix("simulated: ") for f in found if not is_difference(f)]
    none = sum(verdict.startswith("no difference") for verdict in rest)
    lines += sentence(
        f"Of {len(found)} comparisons {len(different)} show a difference, {none} none that "
        f"matters, and {len(rest) - none} do not decide. Each is judged alone: of 20 "
        "of two equal servers one may show a difference.", width, 2,
    )  # fmt: skip
    if any(durable_writes(result, name) for name in names(result)):
        lines += sentence(
            "Where writes of WAL are durable, those that fill a new file with zeros are not, and "
            "are counted with them.", width, 2,
        )  # fmt: skip
    return lines
