"""The sync experiment as a document: two servers side by side, phase by phase, and their syncs."""

from collections.abc import Callable, Mapping
from statistics import fmean

from ... import units
from ...model.capture import Io
from ...model.histogram import Histogram
from ...reporters.document import (
    Block,
    Column,
    Latencies,
    Layer,
    Paragraph,
    Part,
    Section,
    Table,
    Value,
)
from ...reporters.document import Group as Drawn
from ..core.finding_text import capital, verdict_of
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

Verdicts = Mapping[tuple[LoadName, Phase, str], Difference]
_SHOWN: dict[str, Callable[[Histogram], str]] = {
    "calls": lambda h: units.count(h.count),
    "together": lambda h: units.duration(h.total_ns),
    "p50": lambda h: units.duration(h.percentile(50) or 0, 2),
    "p99": lambda h: units.duration(h.percentile(99) or 0, 2),
    "max": lambda h: units.duration(h.max_ns or 0, 2),
}
_COLOURS = ("s0", "s1")


def sections(result: SyncResult) -> list[Section]:
    """Return all that is said of this experiment, but how it was made."""
    if len(names(result)) != 2 or not result.cells:
        return []
    verdicts = verdicts_of(result)
    made = []
    for load in loads(result):
        tables = [_phase(result, load, phase, verdicts) for phase in PHASES]
        made.append(Section(f"sync-{load}", [t for t in tables if t.rows], title(result, load)))
    syncs: list[Block] = [_syncs(result, group, by) for group, by in groups(result).items()]
    if not syncs:
        syncs = [Paragraph("No server called fsync, fdatasync or sync_file_range.")]
    said = [Paragraph(each) for each in [*differences(result), _explained(result)]]
    return [
        *made,
        Section("differences", said, "Differences"),
        Section("syncs", syncs, "Latencies of syncs, all phases and runs added up"),
    ]


def verdicts_of(result: SyncResult) -> Verdicts:
    """By load, phase, and what is compared."""
    return {(f.details.load, f.details.phase, f.details.by): f for f in found_in(result)}


def loads(result: SyncResult) -> list[LoadName]:
    """Those that were done, in their order."""
    return list(dict.fromkeys(cell.load for cell in result.cells))


def _explained(result: SyncResult) -> str:
    """What the tables hold, and how far the server's own log is from what was traced."""
    one, other = names(result)
    return (
        f"Means over runs. Ratio: {other} by {one}, over paired runs. Syncs: fsync, fdatasync "
        "and sync_file_range, and writes of WAL where they are durable (O_DSYNC, O_SYNC). Sync "
        "time adds up processes that waited at one time. In the checkpointer: its own function, "
        "traced; its phases from the server's probes. Device: its own counters, of anybody, "
        f"while the phase lasted. * marks a difference.{_log(result)}"
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


def _phase(result: SyncResult, load: LoadName, phase: Phase, verdicts: Verdicts) -> Table:
    one, other = names(result)
    columns = [Column(name, "text") for name in (one, other, "ratio", "95 % interval")]
    columns.append(Column("what it says", "words", detail=True))
    rows: list[tuple[str, list[Value]]] = []
    for told in measures(result, phase):
        cells: list[Value] = [*means(result, load, phase, told)]
        if any(cell != "-" for cell in cells):
            found = verdicts.get((load, phase, told.by))
            rows.append((told.by, [*cells, *_certain(found), verdict_of(found) if found else "-"]))
    return Table(f"{capital(load)}, {phase}", "", columns, rows, named=True)


def means(result: SyncResult, load: LoadName, phase: Phase, told: Metric) -> list[str]:
    """Of each server, over its runs."""
    by_server = [by_run(result, name, load, phase, told.measure) for name in names(result)]
    return [shown(told, fmean(values.values())) if values else "-" for values in by_server]


def _certain(found: Difference | None) -> tuple[str, str]:
    """Ratio and interval."""
    if found is None:
        return "-", "-"
    mark = " *" if is_difference(found) else ""
    if found.value is None:
        return "-", f"-{mark}"
    if found.low is None or found.high is None:
        return units.number(found.value), f"one run: none{mark}"
    between = f"{units.number(found.low)} to {units.number(found.high)}"
    return units.number(found.value), between + mark


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


def _syncs(result: SyncResult, group: Group, by_server: Mapping[str, list[Io]]) -> Part:
    """Of what files, by whom, how."""
    servers = names(result)
    latencies = [Histogram.of(by_server.get(name, [])) for name in servers]
    rows = [
        (name, [value(each) if each.count else "-" for each in latencies])
        for name, value in _SHOWN.items()
    ]
    name = f"{group.kind}, {group.backend_type}, {group.call}"
    drawn = [
        Drawn(server, [Layer((server,), colour, each)])
        for server, colour, each in zip(servers, _COLOURS, latencies, strict=True)
    ]
    columns = [Column(server, "text") for server in servers]
    table = Table(f"{name}: how many, and how long", "", columns, rows, named=True)
    return Part(
        name, [table, Latencies(f"{name}: how long a call took", drawn, "calls")], opened=False
    )


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
