"""The lists of a live screen: who and what, in a part of the session. Everything is per second."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from .. import units
from ..model.capture import Tablespace
from ..reporters.document import Column, Table, Value
from ..reporters.sections.sums import MOST_HIDDEN
from ..terminal_text import escape
from .frame import Begin, Doing, Kind
from .kept import Fact, Kept, Sum, Window
from .names import Names

KINDS: dict[Kind, str] = {
    "backend": "Backends",
    "statement": "Statements",
    "relation": "Relations",
    "device": "Devices",
    "wait event": "Wait events",
}
_SPARE = ("share", "bytes/s", "cached", "who")
"""Columns that are left out one after the other, where there is little room."""
_NAME = 24
NOT_KNOWN = "(statement not known)"
OUTSIDE = "(no statement)"


class Row(NamedTuple):
    """One line of a list; `name` is what it is of, in full."""

    number: int
    name: str
    values: Sequence[Value]


@dataclass(frozen=True, slots=True)
class Listing:
    """Rows in no order."""

    kind: Kind
    first: str
    columns: Sequence[Column]
    rows: Sequence[Row]
    empty: str = "Nothing was read."
    """What is said where there are no rows."""

    def sorted(self, column: int, *, most_first: bool = True, having: str = "") -> "Listing":
        """By one of the columns, those with `having` in a text of theirs alone. Of equals the order
        is that of their names, which stays the same.
        """
        wanted = having.casefold()
        rows = [row for row in self.rows if wanted in _text_of(row).casefold()]
        rows.sort(key=lambda row: (row.name, row.number))
        rows.sort(key=lambda row: _rank(row.values[column]), reverse=most_first)
        return Listing(self.kind, self.first, self.columns, rows, self.empty)

    def fitting(self, width: int, by: str = "") -> "Listing":
        """With fewer columns, where else there is little room for what rows are of; not without the
        one `by` which they are sorted.
        """
        columns = list(range(len(self.columns)))
        widths = [self._width(at) + 2 for at in columns]
        for spare in (title for title in _SPARE if title != by):
            if sum(widths[at] for at in columns) + _NAME <= width:
                break
            columns = [at for at in columns if self.columns[at].title != spare]
        if len(columns) == len(self.columns):
            return self
        rows = [Row(r.number, r.name, [r.values[at] for at in columns]) for r in self.rows]
        kept = [self.columns[at] for at in columns]
        return Listing(self.kind, self.first, kept, rows, self.empty)

    def _width(self, at: int) -> int:
        column = self.columns[at]
        return max(len(column.title), *(len(cell(column, row.values[at])) for row in self.rows), 0)

    def table(self, most: int | None = None) -> Table:
        """The first rows of it."""
        rows = [(row.name, row.values) for row in self.rows[:most]]
        return Table(KINDS[self.kind], self.first, self.columns, rows)


def cell(column: Column, value: Value) -> str:
    """A value as it is shown; only texts are others' to write."""
    shown = column.show(value, "?")
    return escape(shown) if isinstance(value, str) else shown


@dataclass(slots=True)
class _Did:
    """What one row did."""

    waited_ns: int = 0
    reads: Sum = field(default_factory=Sum)
    cached: int = 0
    told: int = 0
    """Reads of which it is known where they were found."""
    writes: Sum = field(default_factory=Sum)
    fsyncs: Sum = field(default_factory=Sum)

    def add(self, fact: Fact, total: Sum) -> None:
        of = {"read": self.reads, "write": self.writes, "fsync": self.fsyncs}[fact.operation]
        of.add(total.count, total.bytes, total.total_ns)
        if fact.operation != "read":
            return
        if fact.source == "device":
            self.waited_ns += total.total_ns
        if fact.source != "unknown":
            self.told += total.count
        if fact.source in ("page_cache", "readahead_issued"):
            self.cached += total.count


def listing(
    kind: Kind,
    window: Window,
    kept: Kept,
    begin: Begin,
    within: tuple[Kind, int] | None = None,
) -> Listing:
    """Return the list of this kind; `within` a row of another list, what was done there alone."""
    if kind == "wait event":
        return _events(window, kept.names, begin, within)
    spaces = {each.name: number for number, each in enumerate(kept.devices)}
    facts = {f: s for f, s in window.facts.items() if _is_of(f, within, kept.names, spaces)}
    if kind == "backend":
        return _backends(window, facts, kept.names, begin, alone=within is not None)
    if kind == "statement":
        rows = _grouped(facts, lambda fact: fact.statement)
        named = [(n, _statement(n, kept.names, begin), did) for n, did in rows.items()]
        return _done("statement", "statement", named, window, begin)
    if kind == "relation":
        rows = _grouped(facts, lambda fact: fact.place)
        named = [(n, _place(n, kept.names), did) for n, did in rows.items()]
        return _done("relation", "relation or kind of file", named, window, begin)
    rows = _grouped(facts, lambda fact: _space(fact, kept.names, spaces))
    named = [(n, _device(n, kept.devices), did) for n, did in rows.items()]
    return _done("device", "tablespace and its device", named, window, begin)


def _is_of(
    fact: Fact, within: tuple[Kind, int] | None, names: Names, spaces: dict[str, int]
) -> bool:
    if within is None:
        return True
    kind, number = within
    if kind == "backend":
        return fact.process == number
    if kind == "statement":
        return fact.statement == number
    if kind == "relation":
        return fact.place == number
    return kind == "device" and _space(fact, names, spaces) == number


def _grouped(facts: dict[Fact, Sum], by: Callable[[Fact], int]) -> dict[int, _Did]:
    found: dict[int, _Did] = {}
    for fact, total in facts.items():
        number = by(fact)
        if number not in found:
            found[number] = _Did()
        found[number].add(fact, total)
    return found


def _columns(begin: Begin) -> list[Column]:
    columns: list[Column] = []
    if "read" in begin.operations:
        columns = [
            Column("device/s", "ns, 2 digits"), Column("share", "share"),
            Column("reads/s", "number"), Column("bytes/s", "bytes"), Column("cached", "share"),
        ]  # fmt: skip
    for operation, title in (("write", "writing/s"), ("fsync", "fsync/s")):
        if operation in begin.operations:
            columns.append(Column(title, "ns, 2 digits"))
    return columns


def _values(did: _Did, whole_ns: int, seconds: float, begin: Begin) -> list[Value]:
    values: list[Value] = []
    if "read" in begin.operations:
        count = did.reads.count
        knows = bool(did.told) or not count
        cached: Value = None
        if count - did.told <= MOST_HIDDEN * count:
            cached = did.cached / did.told if count else ""
        values = [
            did.waited_ns / seconds if knows else None,
            did.waited_ns / max(1, whole_ns) if knows else None,
            count / seconds,
            did.reads.bytes / seconds,
            cached,
        ]
    if "write" in begin.operations:
        values.append(did.writes.total_ns / seconds)
    if "fsync" in begin.operations:
        values.append(did.fsyncs.total_ns / seconds)
    return values


def _done(
    kind: Kind,
    first: str,
    named: Sequence[tuple[int, str, _Did]],
    window: Window,
    begin: Begin,
) -> Listing:
    whole = sum(did.waited_ns for _, _, did in named)
    seconds = window.seconds or 1.0
    rows = [Row(n, name, _values(did, whole, seconds, begin)) for n, name, did in named]
    return Listing(kind, first, _columns(begin), rows)


def _backends(
    window: Window, facts: dict[Fact, Sum], names: Names, begin: Begin, *, alone: bool
) -> Listing:
    did = _grouped(facts, lambda fact: fact.process)
    doing = {each.process: each for each in window.doing}
    for number in () if alone else doing:
        did.setdefault(number, _Did())
    whole = sum(each.waited_ns for each in did.values())
    rows = []
    for number, each in did.items():
        process = names.processes.get(number)
        if process is None:
            continue
        values = _values(each, whole, window.seconds or 1.0, begin)
        client = process.backend_type in (None, "client backend")
        who = "/".join(filter(None, (process.usename, process.datname))) if client else ""
        row: list[Value] = [str(process.pid), who, *values]
        does = _does(doing.get(number), None if client else process.backend_type)
        rows.append(Row(number, does, row))
    columns = [Column("pid", "text"), Column("who", "text"), *_columns(begin)]
    return Listing("backend", "state, and what it runs", columns, rows)


def _does(doing: Doing | None, helper: str | None) -> str:
    """In words; `helper` is what the process is, if it is none of a client's."""
    if doing is None:
        return helper or "idle, or not looked at"
    said = f"{helper}, {doing.state}" if helper else doing.state
    if doing.seconds is not None:
        said += f" {units.duration(doing.seconds * 1e9, 2)}"
    if doing.wait_event_type:
        said += f", {doing.wait_event_type}"
    return f"{said}: {doing.query}" if doing.query else said


def _events(window: Window, names: Names, begin: Begin, within: tuple[Kind, int] | None) -> Listing:
    columns = [Column("time/s", "ns, 2 digits"), Column("share", "share")]
    if not begin.times:
        return Listing("wait event", "", columns, (), "Not measured: start with --time.")
    found: dict[int, int] = {}
    for (process, what), ns in window.spent.items():
        if within is None or within == ("backend", process):
            found[what] = found.get(what, 0) + ns
    whole = sum(found.values())
    seconds = window.seconds or 1.0
    rows = [
        Row(what, _event(names.events.get(what)), [ns / seconds, ns / whole if whole else 0])
        for what, ns in found.items()
    ]
    if within and within[0] != "backend":
        return Listing("wait event", "", columns, (), "Told of backends alone.")
    return Listing("wait event", "what processes did, or waited for", columns, rows)


_KINDS_OF_TIME = {
    "cpu": "CPU",
    "run_queue": "waiting for a CPU",
    "stolen": "stolen by the hypervisor, or by interrupts",
}


def _event(what: tuple[str, str | None] | None) -> str:
    if what is None:
        return "?"
    kind, event = what
    return f"{kind}:{event}" if event else _KINDS_OF_TIME.get(kind, kind)


def _statement(number: int, names: Names, begin: Begin) -> str:
    if number == 0:
        return OUTSIDE if begin.queries != "none" else "(statements were not asked for)"
    return names.statements.get(number, NOT_KNOWN)


def _place(number: int, names: Names) -> str:
    place = names.places.get(number)
    return place.name if place else "unknown"


def _space(fact: Fact, names: Names, spaces: dict[str, int]) -> int:
    place = names.places.get(fact.place)
    return spaces.get(place.tablespace or "", -1) if place else -1


def _device(number: int, devices: Sequence[Tablespace]) -> str:
    if number < 0:
        return "(in no tablespace)"
    space = devices[number]
    kind = {True: "rotational", False: "not rotational", None: ""}[space.rotational]
    if space.simulated:
        kind = "simulated"
    about = ", ".join(filter(None, (space.device, space.filesystem, kind)))
    return f"{space.name}: {about}" if about else space.name


def _text_of(row: Row) -> str:
    texts: Iterable[str] = (value for value in row.values if isinstance(value, str))
    return " ".join([row.name, *texts])


def _rank(value: Value) -> tuple[int, float, str]:
    """What is not measured comes behind all."""
    if value is None:
        return 0, 0.0, ""
    if isinstance(value, str):
        number = float(value) if value.isdecimal() else 0.0
        return 1, number, value
    return 1, float(value), ""


def first_order(listing: Listing) -> int:
    """The column by which a list is sorted until another is chosen: the first of numbers."""
    return next(i for i, column in enumerate(listing.columns) if column.unit != "text")
