"""A whole server in one screen: who waited for the device, and for what."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import replace

from ... import units
from ...model.capture import RELATIONS, Backend, Capture, Io, Operation, of_operation
from ..document import Column, Paragraph, Section, Table, Value
from ..view import Choice
from . import time_parts, top
from .answer import verdict
from .over_time import over_time
from .statements import Statement, statements
from .sums import device_ns, found_in_buffers, reads_of, time_of


def sections(capture: Capture, choice: Choice) -> list[Section]:
    """Return the answer, then what it is made of."""
    return sections_of(capture, reads_of(capture), statements(capture), choice)


def sections_of(
    capture: Capture, reads: Sequence[Io], every: Sequence[Statement], choice: Choice
) -> list[Section]:
    """The same, of what reads_of() and statements() return: who shows more has them already."""
    parts = [
        Section("answer", [Paragraph(line) for line in verdict(capture, every)]),
        Section("times", time_parts.blocks(capture.backends, choice)),
        Section("over-time", over_time(capture)),
        Section("found", [found(capture, reads)] if "read" in capture.probes.operations else []),
        Section("top-statements", top.statement_table(every, choice)),
        Section("top-writing", top.writing_table(every, capture, choice)),
        Section("top-relations", top.relation_table(reads, choice)),
        Section("top-writes", top.write_table(capture, choice)),
        Section("processes", [processes(capture, choice)]),
    ]
    return [part for part in parts if part.blocks]


def found(capture: Capture, reads: Iterable[Io]) -> Table:
    """At which of three levels the blocks of relations were found."""
    reads = [r for r in reads if r.kind in RELATIONS or r.kind == "unknown"]
    hits = found_in_buffers(capture)
    levels: list[tuple[str, list[Io]]] = [
        ("page cache", [r for r in reads if r.source in ("page_cache", "readahead_issued")]),
        ("device", [r for r in reads if r.source == "device"]),
        ("other waits", [r for r in reads if r.source == "wait"]),
        ("not known", [r for r in reads if r.source == "unknown"]),
    ]
    blocks = sum(r.blocks for r in reads)
    whole = blocks + (hits or 0)
    time = time_of(reads)
    why = capture.probes.no_buffers or "needs a connection"
    unknown = f"shared_buffers ({why})"
    rows: list[tuple[str, list[Value]]] = [
        (
            unknown if hits is None else "shared_buffers",
            [hits, hits and hits / max(1, whole), "", "", ""],
        )
    ]
    nothing_known = blocks > 0 and all(r.source == "unknown" for r in reads)
    for name, own in levels:
        count, took = sum(r.blocks for r in own), time_of(own)
        always = name in ("page cache", "device")
        if always and nothing_known:
            rows.append((name, [None] * 5))
        elif count or always:
            shares: list[Value] = [count / max(1, whole), took, took / max(1, time)]
            rows.append((name, [count, *shares, took / count if count else ""]))
    columns = [
        Column("blocks"), Column("share", "share"), Column("time", "ns"),
        Column("share", "share"), Column("per block", "ns"),
    ]  # fmt: skip
    return Table("Where blocks were found", "level", columns, rows)


def processes(capture: Capture, choice: Choice) -> Table:
    """What each type of process did; of what was not asked for there is no column. Those that did
    nothing are in the row of the rest, unless so many are asked for.
    """
    operations = capture.probes.operations
    alone = operations == ["read"]
    columns = [Column("device", "ns"), Column("reads")] if "read" in operations else []
    columns = [*top.COLUMNS] if alone else columns
    columns += [Column("reading", "ns")] if "read" in operations else []
    for operation, title, doing in (
        ("write", "writes", "writing"),
        ("fsync", "fsyncs", "in fsync"),
    ):
        if operation in operations:
            columns += [Column(title), Column(doing, "ns")]
    of: defaultdict[str, list[Backend]] = defaultdict(list)
    for backend in capture.backends:
        of[backend.backend_type or "(type not known)"].append(backend)
    listed = []
    for name, backends in of.items():
        number = sum(backend.merged or 1 for backend in backends)
        named = f"{name} ({units.count(number)})" if number > 1 else name
        listed.append((named, [r for backend in backends for r in backend.io]))
    waits = {name: device_ns(own) or 0 for name, own in listed}
    if choice.order == "device" and not alone:
        # Beside writes, the time of all of them says who is slow
        listed.sort(key=lambda each: (-time_of(each[1]), each[0]))
    else:
        listed.sort(key=lambda each: top.Group(each[0], of_operation(each[1])).key(choice.order))
    if not choice.exact:
        busy = sum(bool(own) for _, own in listed)
        choice = replace(choice, most=busy if choice.most is None else min(busy, choice.most))
    shown = listed[: choice.rows(len(listed))]
    if rest := listed[len(shown) :]:
        together = [r for _, own in rest for r in own]
        shown.append((f"({units.count(len(rest))} more)", together))
    whole = sum(waits.values())
    rows = [(name, _done(own, operations, whole)) for name, own in shown]
    return Table("Types of processes", "type of process", columns, rows)


def _done(everything: Sequence[Io], operations: Sequence[Operation], whole_ns: int) -> list[Value]:
    """What somebody did, by operation; of reads alone also the share of all waiting, and p99."""
    reads = of_operation(everything)
    if operations == ["read"]:
        return [*top.figures(reads, whole_ns), time_of(reads)]
    row: list[Value] = []
    if "read" in operations:
        row += [device_ns(reads), sum(r.count for r in reads), time_of(reads)]
    for operation in ("write", "fsync"):
        if operation in operations:
            own = of_operation(everything, operation)
            row += [sum(r.count for r in own), time_of(own)]
    return row
