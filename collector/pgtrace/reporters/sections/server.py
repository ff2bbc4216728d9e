"""A whole server in one screen: who waited for the device, and for what."""

from collections import defaultdict

from ... import units
from ...model.capture import Backend, Capture, Io, of_operation
from ..document import Column, Paragraph, Section, Table, Value
from ..view import Choice
from . import top
from .answer import verdict
from .over_time import over_time
from .statements import statements
from .sums import device_ns, reads_of, time_of

_RELATIONS = frozenset({"relation", "heap", "index", "toast", "visibility map", "free space map"})
"""What shared buffers hold, or may."""
_BUFFERS = ("shared_buffers (needs a connection)", "shared_buffers")


def sections(capture: Capture, choice: Choice) -> list[Section]:
    """Return the answer, then what it is made of."""
    every = statements(capture)
    parts = [
        Section("answer", [Paragraph(line) for line in verdict(capture, every)]),
        Section("over-time", over_time(capture)),
        Section("found", [found(capture)] if "read" in capture.probes.operations else []),
        Section("top-statements", top.statement_table(every, choice)),
        Section("top-relations", top.relation_table(capture, choice)),
        Section("top-writes", top.write_table(capture, choice)),
        Section("processes", [processes(capture)]),
    ]
    return [part for part in parts if part.blocks]


def found(capture: Capture) -> Table:
    """At which of three levels the blocks of relations were found."""
    reads = [r for r in reads_of(capture) if r.kind in _RELATIONS or r.kind == "unknown"]
    hits = sum(each.hit for each in capture.buffers) if capture.buffers else None
    levels: list[tuple[str, list[Io]]] = [
        ("page cache", [r for r in reads if r.source in ("page_cache", "readahead_issued")]),
        ("device", [r for r in reads if r.source == "device"]),
        ("other waits", [r for r in reads if r.source == "wait"]),
        ("not known", [r for r in reads if r.source == "unknown"]),
    ]
    blocks = sum(r.blocks for r in reads)
    whole = blocks + (hits or 0)
    time = time_of(reads)
    rows: list[tuple[str, list[Value]]] = [
        (_BUFFERS[hits is not None], [hits, hits and hits / max(1, whole), "", "", ""])
    ]
    for name, own in levels:
        count, took = sum(r.blocks for r in own), time_of(own)
        if count or name in ("page cache", "device"):
            shares: list[Value] = [count / max(1, whole), took, took / max(1, time)]
            rows.append((name, [count, *shares, took / count if count else ""]))
    columns = [
        Column("blocks"), Column("share", "share"), Column("time", "ns"),
        Column("share", "share"), Column("per block", "ns"),
    ]  # fmt: skip
    return Table("Where blocks were found", "level", columns, rows)


def processes(capture: Capture) -> Table:
    """What each type of process did; of what was not asked for there is no column."""
    operations = capture.probes.operations
    columns = [Column("device", "ns"), Column("reads"), Column("reading", "ns")]
    columns = columns if "read" in operations else []
    for operation, title, doing in (
        ("write", "writes", "writing"),
        ("fsync", "fsyncs", "in fsync"),
    ):
        if operation in operations:
            columns += [Column(title), Column(doing, "ns")]
    of: defaultdict[str, list[Backend]] = defaultdict(list)
    for backend in capture.backends:
        of[backend.backend_type or "(type not known)"].append(backend)
    rows = []
    for name, backends in of.items():
        everything = [r for backend in backends for r in backend.io]
        reads = of_operation(everything)
        row: list[Value] = []
        if "read" in operations:
            row += [device_ns(reads), sum(r.count for r in reads), time_of(reads)]
        for operation in ("write", "fsync"):
            if operation in operations:
                own = of_operation(everything, operation)
                row += [sum(r.count for r in own), time_of(own)]
        number = sum(backend.merged or 1 for backend in backends)
        named = f"{name} ({units.count(number)})" if number > 1 else name
        rows.append((time_of(everything), named, row))
    rows.sort(key=lambda each: (-each[0], each[1]))
    return Table(
        "Types of processes", "type of process", columns, [(name, row) for _, name, row in rows]
    )
