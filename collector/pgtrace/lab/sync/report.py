"""The sync experiment as text: two servers side by side, phase by phase, and their syncs."""

from collections.abc import Callable, Mapping, Sequence
from statistics import fmean

from ... import units
from ...model.histogram import Histogram
from ...reporters.terminal.sentence import sentence
from ...terminal_text import escape
from ..core.finding_text import verdict_of
from .findings import (
    PHASES,
    Group,
    Metric,
    by_run,
    durable_writes,
    found_in,
    groups,
    is_difference,
    measures,
    names,
    shown,
)
from .result import Difference, LoadName, Phase, SyncResult

_NAME = 24
_COLUMN = 13
_BAR = 14

Verdicts = Mapping[tuple[LoadName, Phase, str], Difference]
SHOWN: dict[str, Callable[[Histogram], str]] = {
    "calls": lambda h: units.count(h.count),
    "together": lambda h: units.duration(h.total_ns),
    "p50": lambda h: units.duration(h.percentile(50) or 0, 2),
    "p99": lambda h: units.duration(h.percentile(99) or 0, 2),
    "max": lambda h: units.duration(h.max_ns or 0, 2),
}


def sections(result: SyncResult, width: int) -> list[str]:
    """Return all that is said of this experiment, but how it was made."""
    if len(names(result)) != 2:
        return []
    verdicts = verdicts_of(result)
    lines: list[str] = []
    for load in loads(result):
        lines += ["", *sentence(title(result, load), width)]
        for phase in PHASES:
            lines += _phase(result, load, phase, verdicts)
    lines += sentence(explained(result), width, 2)
    lines += _syncs(result)
    lines += ["", "Differences"]
    for told in differences(result):
        lines += sentence(told, width, 2)
    return lines


def verdicts_of(result: SyncResult) -> Verdicts:
    """By load, phase, and what is compared."""
    return {(f.details.load, f.details.phase, f.details.by): f for f in found_in(result)}


def loads(result: SyncResult) -> list[LoadName]:
    """Those that were done, in their order."""
    return list(dict.fromkeys(cell.load for cell in result.cells))


def explained(result: SyncResult) -> str:
    """What the tables hold, and how far the server's own log is from what was traced."""
    one, other = names(result)
    return (
        f"Means over runs. Ratio: {other} by {one}, over paired runs. Syncs: fsync, fdatasync "
        "and sync_file_range, and writes of WAL where they are durable (O_DSYNC, O_SYNC). Sync "
        "time adds up processes that waited at one time. In the checkpointer: its own function, "
        "traced; its phases from the server's probes. Device: its own counters, of anybody, "
        f"while the phase lasted.{_log(result)}"
    )


def runs(result: SyncResult) -> list[str]:
    """Return what the servers are, and how their turns were made."""
    if len(names(result)) != 2:
        return []
    options = result.options
    lines = []
    for about in options.servers:
        own = ", ".join(f"{name}={value}" for name, value in about.settings.items())
        lines.append(
            f"{about.name}: PostgreSQL {about.version} in {about.bindir}, "
            f"{own or 'no settings of its own'}"
        )
    told = "; ".join(
        f"{name} {' and '.join(f'{value or chr(39) * 2}' for value in values.values())}"
        for name, values in options.differences.items()
    )
    lines.append(
        f"Settings in which they differ: {told}." if told else "They differ in no setting."
    )
    number = options.runs
    lines.append(
        f"The load's tables, {options.rows:,} users, made anew in each turn; "
        f"{number} {'run' if number == 1 else 'runs'}, each with a turn of both, in an order "
        f"drawn at random with seed {options.seed}. WAL in {options.wal_storage}, data in "
        f"{options.data_storage}."
    )
    return lines


def title(result: SyncResult, load: LoadName) -> str:
    """What a load is."""
    options = result.options
    if load == "bulk":
        return f"Bulk: one insert of {options.bulk_rows:,} rows, then CHECKPOINT"
    keys = options.rows if load == "wide" else options.narrow_keys
    return (
        f"{load.capitalize()}: {options.transactions:,} transactions by {options.clients} "
        f"writers and as many by as many readers, keys 1 to {keys:,}, then CHECKPOINT"
    )


def _phase(result: SyncResult, load: LoadName, phase: Phase, verdicts: Verdicts) -> list[str]:
    one, other = names(result)
    head = f"{escape(one):>{_COLUMN}}{escape(other):>{_COLUMN}}"
    lines = [f"  {phase:<{_NAME}}{head}{'ratio':>10}  95 % interval"]
    for told in measures(result, phase):
        cells = means(result, load, phase, told)
        if all(cell == "-" for cell in cells):
            continue
        line = f"    {told.by:<{_NAME - 2}}" + "".join(f"{cell:>{_COLUMN}}" for cell in cells)
        found = verdicts.get((load, phase, told.by))
        if found:
            value, interval = certain(found)
            mark = " *" if is_difference(found) else ""
            line += f"{value:>10}  {interval}{mark}" if interval != "-" else f"{value:>10} {mark}"
        lines.append(line.rstrip())
    return lines


def means(result: SyncResult, load: LoadName, phase: Phase, told: Metric) -> list[str]:
    """Of each server, over its runs."""
    by_server = [by_run(result, name, load, phase, told.measure) for name in names(result)]
    return [shown(told, fmean(values.values())) if values else "-" for values in by_server]


def certain(found: Difference | None) -> tuple[str, str]:
    """Ratio and interval."""
    if found is None or found.value is None:
        return "-", "-"
    if found.low is None or found.high is None:
        return units.number(found.value), "one run: none"
    return units.number(found.value), f"{units.number(found.low)} to {units.number(found.high)}"


def _log(result: SyncResult) -> str:
    both = [
        (cell.checkpoint.total_s, cell.checkpoint.logged_total_s)
        for cell in result.cells
        if cell.checkpoint and cell.checkpoint.total_s and cell.checkpoint.logged_total_s
    ]
    if not both:
        return ""
    traced, logged = (sum(each) for each in zip(*both, strict=True))
    return (
        f" The server's own log has {units.duration(logged * 1e9)} for the {len(both)} "
        f"checkpoints that took {units.duration(traced * 1e9)} as traced; it counts begun "
        "milliseconds."
    )


def _syncs(result: SyncResult) -> list[str]:
    """Histograms by kind of file, type of backend and call."""
    lines = []
    one, other = names(result)
    for group, by_server in groups(result).items():
        latencies = [Histogram.of(by_server.get(name, [])) for name in (one, other)]
        lines += ["", f"{escape(group_name(group))}: latencies, all phases and runs added up"]
        lines.append(f"{'':>9}" + "".join(f"{escape(name):>11}{'':21}" for name in (one, other)))
        lines[-1] = lines[-1].rstrip()
        for title, value in SHOWN.items():
            cells = [value(each) if each.count else "-" for each in latencies]
            lines.append((f"{title:>9}" + "".join(f"{cell:>11}{'':21}" for cell in cells)).rstrip())
        lines += _histogram(latencies)
    if not lines:
        lines = ["", "No server called fsync, fdatasync or sync_file_range."]
    return lines


def group_name(group: Group) -> str:
    """Of what files, by whom, how."""
    return f"{group.kind}, {group.backend_type}, {group.call}"


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


def differences(result: SyncResult) -> list[str]:
    """Those that are some, in words, and how many are none or not decided."""
    found = list(verdicts_of(result).values())
    different = [f for f in found if is_difference(f)]
    told = []
    for f in different:
        words = verdict_of(f).removeprefix("a difference: ")
        by = f.details.by.strip()
        told.append(f"{f.details.load}, {f.details.phase}, {by}: {words}.")
    rest = [verdict_of(f) for f in found if not is_difference(f)]
    none = sum(verdict.startswith("no difference") for verdict in rest)
    told.append(
        f"Of {len(found)} comparisons {len(different)} show a difference, {none} none that "
        f"matters, and {len(rest) - none} do not decide. Each is judged alone: of 20 of two equal "
        "servers one may show a difference."
    )
    if any(durable_writes(result, name) for name in names(result)):
        told.append(
            "Where writes of WAL are durable, those that fill a new file with zeros are not, and "
            "are counted with them."
        )
    return told
