"""Tables of what comes first: statements, relations, writes and fsyncs."""

from collections.abc import Sequence
from dataclasses import dataclass

from ... import units
from ...model.capture import Capture, Io, of_operation
from ...model.histogram import Histogram
from ..document import Column, Table, Value
from ..view import Choice, Order
from .statements import Statement
from .sums import by_name, device_ns, file_of, time_of, written

STATEMENTS = "Statements that waited longest for the device"
RELATIONS = "Relations that waited longest for the device"
WRITES = "Writes and fsyncs that took longest"
WRITING = "Statements that wrote and synced longest"
COLUMNS = (
    Column("device", "ns"),
    Column("share", "share"),
    Column("reads"),
    Column("p99", "ns, 2 digits"),
)
"""Of reads, as figures() has them."""


@dataclass(frozen=True, slots=True)
class Group:
    """What a row is of."""

    name: str
    reads: Sequence[Io]
    calls: int | None = None

    def key(self, order: Order) -> tuple[float, float, str]:
        """To sort by: the greatest comes first; of equals, such as those that never waited for the
        device, what took longest.
        """
        return -self.rank(order), -time_of(self.reads), self.name

    def rank(self, order: Order) -> float:
        """Where devices are not known, what took longest is the greatest."""
        if order == "reads":
            return _number(self.reads)
        if order == "bytes":
            return sum(r.bytes for r in self.reads)
        if order == "calls":
            return self.calls or 0
        if order == "p99":
            return Histogram.of(self.reads).percentile(99) or 0
        if self.reads and self.reads[0].operation != "read":
            return time_of(self.reads)  # what of it was waiting, and for what, is not known
        waited = device_ns(self.reads)
        return time_of(self.reads) if waited is None else waited


def _number(every: Sequence[Io]) -> int:
    return sum(r.count for r in every)


def statement_table(every: Sequence[Statement], choice: Choice) -> list[Table]:
    """Statements that read; none if none did."""
    groups = [Group(" ".join(s.text.split()), s.reads, s.calls) for s in every if s.reads]
    columns = [*COLUMNS, Column("calls"), Column("per call", "ns")]
    return _top(STATEMENTS, "statement", columns, groups, choice, calls=True)


def writing_table(every: Sequence[Statement], capture: Capture, choice: Choice) -> list[Table]:
    """Statements that wrote or called fsync; none if none did."""
    operations = [each for each in ("write", "fsync") if each in capture.probes.operations]
    groups = [Group(" ".join(s.text.split()), s.written, s.calls) for s in every if s.written]
    if not groups:
        return []
    whole = sum(time_of(group.reads) for group in groups)
    columns = [Column("time", "ns"), Column("share", "share")]
    if "write" in operations:
        columns += [Column("writes", detail=len(operations) > 1)]
        columns += [Column("writing", "ns", detail=len(operations) > 1)]
    if "fsync" in operations:
        columns += [Column("fsyncs"), Column("in fsync", "ns")]
    columns += [Column("calls")]
    rows: list[tuple[str, list[Value]]] = []
    for group in _chosen(groups, choice):
        took = time_of(group.reads)
        row: list[Value] = [took, took / max(1, whole)]
        for operation in operations:
            own = [r for r in group.reads if r.operation == operation]
            row += [_number(own), time_of(own)]
        rows.append((group.name, [*row, group.calls]))
    return [Table(WRITING, "statement", columns, rows)]


def relation_table(reads: Sequence[Io], choice: Choice) -> list[Table]:
    """Relations, or kinds of files; none where files are not known."""
    if all(r.kind == "unknown" for r in reads):
        return []
    groups = [Group(name, own) for name, own in by_name(reads, file_of)]
    columns = [*COLUMNS, *_of_reads(choice.order)]
    first = "relation" if any(r.relation for r in reads) else "kind of file"
    return _top(RELATIONS, first, columns, groups, choice, calls=False)


def backend_table(capture: Capture, choice: Choice) -> Table:
    """Processes, one by one; those that only wrote, too."""
    rows: list[tuple[str, list[Value]]] = []
    columns = [Column("backend_type", "text"), Column("datname", "text")]
    columns += [Column("usename", "text"), Column("application_name", "text"), *COLUMNS]
    columns += _of_reads(choice.order)
    groups = {id(b): Group(str(b.pid), of_operation(b.io)) for b in capture.backends}
    whole = sum(device_ns(group.reads) or 0 for group in groups.values())
    ordered = sorted(capture.backends, key=lambda b: (*groups[id(b)].key(choice.order)[:2], b.pid))
    for each in ordered[: choice.most]:
        who: list[Value] = [each.backend_type, each.datname, each.usename, each.application_name]
        group = groups[id(each)]
        did = _row(group, whole, calls=False)
        if "read" not in capture.probes.operations:
            did = [None] * len(did)
        rows.append((group.name, [*who, *did]))
    return Table("Backends", "pid", columns, rows)


def write_table(capture: Capture, choice: Choice) -> list[Table]:
    """Which call, of which files, by whom; those that took longest first."""
    listed = sorted(
        written(capture),
        key=lambda item: Group(item[0], item[1], _number(item[1])).key(choice.order),
    )
    columns = [
        Column("time", "ns"), Column("calls"), Column("bytes", "bytes"),
        Column("p99", "ns, 2 digits"), Column("max", "ns, 2 digits"),
    ]  # fmt: skip
    rows: list[tuple[str, list[Value]]] = []
    for name, calls in listed[: choice.rows(len(listed))]:
        total = Histogram.of(calls)
        size: Value = sum(r.bytes for r in calls) if calls[0].operation == "write" else ""
        row: list[Value] = [total.total_ns, total.count, size]
        rows.append((name, [*row, total.percentile(99) or 0, total.max_ns or 0]))
    if rest := [r for _, calls in listed[len(rows) :] for r in calls]:
        row = [time_of(rest), _number(rest), "", "", ""]
        rows.append((f"({units.count(len(listed) - len(rows))} more)", row))
    return [Table(WRITES, "what, of, by", columns, rows)] if rows else []


def _top(
    caption: str,
    first: str,
    columns: Sequence[Column],
    groups: Sequence[Group],
    choice: Choice,
    *,
    calls: bool,
) -> list[Table]:
    if not groups:
        return []
    whole = sum(device_ns(group.reads) or 0 for group in groups)
    rows = [(group.name, _row(group, whole, calls=calls)) for group in _chosen(groups, choice)]
    return [Table(caption, first, columns, rows)]


def _chosen(groups: Sequence[Group], choice: Choice) -> list[Group]:
    """Those that have a row of their own, in their order, and the others together."""
    ordered = sorted(groups, key=lambda group: group.key(choice.order))
    shown = ordered[: choice.rows(len(ordered))]
    rest = ordered[len(shown) :]
    return [*shown, _together(rest)] if rest else shown


def _together(rest: Sequence[Group]) -> Group:
    """Those that have no row of their own."""
    counted = [group.calls for group in rest if group.calls is not None]
    every = [r for group in rest for r in group.reads]
    return Group(f"({units.count(len(rest))} more)", every, sum(counted) if counted else None)


def figures(reads: Sequence[Io], whole_ns: int) -> list[Value]:
    """How long they waited for the device, which share of so many nanoseconds; how many there
    were, and p99 of them.
    """
    waited = device_ns(reads)
    return [
        waited,
        None if waited is None else waited / max(1, whole_ns),
        sum(r.count for r in reads),
        Histogram.of(reads).percentile(99) or 0,
    ]


def _of_reads(order: Order) -> list[Column]:
    """What follows COLUMNS of what has no calls. In 80 columns there is room for either the mean
    or the bytes: for the mean, unless rows are sorted by bytes.
    """
    by_bytes = order == "bytes"
    mean = Column("per read", "ns", detail=by_bytes)
    return [mean, Column("bytes", "bytes", detail=not by_bytes), Column("random", "share")]


def _row(group: Group, whole_ns: int, *, calls: bool) -> list[Value]:
    row = figures(group.reads, whole_ns)
    if calls:
        return [*row, group.calls, time_of(group.reads) / group.calls if group.calls else ""]
    number = sum(r.count for r in group.reads)
    mean = time_of(group.reads) / number if number else None
    followed = sum(r.count for r in group.reads if r.pattern in ("sequential", "near", "random"))
    random = sum(r.count for r in group.reads if r.pattern == "random")
    share = random / followed if followed else None
    return [*row, mean, sum(r.bytes for r in group.reads), share]
