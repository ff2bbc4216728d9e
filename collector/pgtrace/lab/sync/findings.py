"""What the sync experiment found: each thing that was measured, of one server by the other.

Arithmetic over a result. A sync is an fsync, fdatasync or sync_file_range; where WAL is opened
with O_DSYNC or O_SYNC (wal_sync_method open_datasync, open_sync), each write of it is one, too.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Literal, NamedTuple

from ... import units
from ...model.capture import Io
from ...stats import paired
from ..core.finding_text import numbers, verdict_of
from .result import (
    Difference,
    DifferenceDetails,
    LoadName,
    Phase,
    SyncCell,
    SyncResult,
)

FileKind = Literal["WAL", "data"]
FILES: tuple[FileKind, ...] = ("WAL", "data")
PHASES: tuple[Phase, ...] = ("load", "checkpoint")
GIB = 1 << 30
DURABLE_WRITE = "durable write"

Measure = Callable[[SyncResult, SyncCell], float | None]


class Metric(NamedTuple):
    """Something that is compared: its name, how it is shown, and of which files it is."""

    by: str
    unit: Literal["", "s", "bytes", "/s", "bytes/s", "share"]
    measure: Measure


def is_sync(result: SyncResult, server: str, each: Io) -> bool:
    """Whether it makes data last."""
    if each.operation == "fsync":
        return True
    return each.operation == "write" and each.kind == "wal" and durable_writes(result, server)


def durable_writes(result: SyncResult, server: str) -> bool:
    """Whether a server's writes of WAL make it last: get_sync_bit() in xlog.c."""
    for about in result.options.servers:
        if about.name == server:
            return about.fsync == "on" and (about.wal_sync_method or "").startswith("open_")
    return False


def file_kind(each: Io) -> FileKind:
    """WAL, or everything else that a server keeps."""
    return "WAL" if each.kind == "wal" else "data"


def syncs(result: SyncResult, cell: SyncCell, kind: FileKind) -> list[Io]:
    """Those of a cell."""
    return [r for r in _of(cell, kind) if is_sync(result, cell.server, r)]


def _of(cell: SyncCell, kind: FileKind) -> list[Io]:
    return [r for reads in cell.by_backend_type.values() for r in reads if file_kind(r) == kind]


def sync_count(result: SyncResult, cell: SyncCell, kind: FileKind) -> float:
    """How many."""
    return sum(r.count for r in syncs(result, cell, kind))


def sync_s(result: SyncResult, cell: SyncCell, kind: FileKind) -> float:
    """How long they took together; those at one time count each."""
    return sum(r.total_ns for r in syncs(result, cell, kind)) / 1e9


def written(_result: SyncResult, cell: SyncCell, kind: FileKind) -> float:
    """Bytes that the server wrote, to the page cache or past it."""
    return sum(r.bytes for r in _of(cell, kind) if r.operation == "write")


def sync_s_per_gib(result: SyncResult, cell: SyncCell, kind: FileKind) -> float | None:
    """Seconds of syncs for each GiB that was written; None if nothing was."""
    size = written(result, cell, kind)
    return sync_s(result, cell, kind) * GIB / size if size else None


def _by(
    measure: Callable[[SyncResult, SyncCell, FileKind], float | None], kind: FileKind
) -> Measure:
    return lambda result, cell: measure(result, cell, kind)


def _of_device(storage: str, key: str) -> Measure:
    """A rate of the device under a storage, over the phase."""

    def found(_result: SyncResult, cell: SyncCell) -> float | None:
        work = cell.devices.get(storage)
        if work is None or not cell.elapsed_s:
            return None
        return float(getattr(work, key)) / cell.elapsed_s

    return found


def _phase(key: str) -> Measure:
    return lambda _result, cell: getattr(cell.checkpoint, key) if cell.checkpoint else None


def measures(result: SyncResult, phase: Phase) -> list[Metric]:
    """What is compared of a phase. The device's rates are shown with their own storage."""
    kind: FileKind = "WAL" if phase == "load" else "data"
    told = [
        Metric("elapsed" if phase == "load" else "CHECKPOINT", "s", lambda _, cell: cell.elapsed_s)
    ]
    if phase == "load":
        told += [
            Metric("tps of the writers", "/s", lambda _, cell: cell.tps),
            Metric("tps of the readers", "/s", lambda _, cell: cell.reading_tps),
        ]
    else:
        told += [
            Metric("in the checkpointer", "s", _phase("total_s")),
            Metric("write phase", "s", _phase("write_s")),
            Metric("sync phase", "s", _phase("sync_s")),
        ]
    durable = []
    if kind == "WAL" and any(durable_writes(result, name) for name in names(result)):
        durable = [
            Metric("  by fsync, fdatasync", "", lambda _, cell: sum(
                r.count for r in _of(cell, "WAL") if r.operation == "fsync"
            )),
            Metric("  by durable writes", "", lambda result, cell: sum(
                r.count for r in syncs(result, cell, "WAL") if r.operation == "write"
            )),
        ]  # fmt: skip
    told += [
        Metric(f"{kind} written", "bytes", _by(written, kind)),
        Metric(f"{kind} syncs", "", _by(sync_count, kind)),
        *durable,
        Metric(f"{kind} sync time", "s", _by(sync_s, kind)),
        Metric(f"{kind} sync time per GiB", "s", _by(sync_s_per_gib, kind)),
    ]
    wal, data = result.options.wal_storage, result.options.data_storage
    devices = {"device": data} if wal == data else {"WAL device": wal, "data device": data}
    for device, place in devices.items():
        told += [
            Metric(f"{device} writes", "/s", _of_device(place, "writes")),
            Metric(f"{device} merges", "/s", _of_device(place, "merges")),
            Metric(f"{device} bytes", "bytes/s", _of_device(place, "bytes")),
            Metric(f"{device} busy", "share", _of_device(place, "busy_s")),
        ]
    return told


def by_run(
    result: SyncResult, server: str, load: LoadName, phase: Phase, measure: Measure
) -> dict[int, float]:
    """What was measured of a server, by run."""
    found = {}
    for cell in result.cells:
        if (cell.server, cell.load, cell.phase) == (server, load, phase):
            value = measure(result, cell)
            if value is not None:
                found[cell.run] = value
    return found


def names(result: SyncResult) -> list[str]:
    """Of the servers, as they were given."""
    return [about.name for about in result.options.servers]


def found_in(result: SyncResult) -> list[Difference]:
    """Those of a result; computed where there are none, as of one that was cut short."""
    return result.findings or findings(result)


def findings(result: SyncResult) -> list[Difference]:
    """The second server by the first: each measure of each phase of each load."""
    found: list[Difference] = []
    if len(names(result)) != 2:  # a result of something else
        return found
    one, other = names(result)
    simulated = any(storage.simulated for storage in result.storages)
    for load in dict.fromkeys(cell.load for cell in result.cells):
        for phase in PHASES:
            for told in measures(result, phase):
                ours, theirs = (
                    by_run(result, name, load, phase, told.measure) for name in (one, other)
                )
                details = DifferenceDetails(
                    load, phase, told.by, of=other, against=one, simulated=simulated
                )
                finding = compared(details, ours, theirs)
                if finding:
                    found.append(finding)
    return found


def compared(
    details: DifferenceDetails, ours: Mapping[int, float], theirs: Mapping[int, float]
) -> Difference | None:
    """`theirs` by `ours`, over the runs that have both; None if there are none, or nothing to
    compare. Zeros have no ratio: that a server never does what the other does is a difference.
    """
    one, other = details.against, details.of
    mark = "simulated: " if details.simulated else ""
    both = sorted(ours.keys() & theirs.keys())
    pairs = [(ours[run], theirs[run]) for run in both]
    if not pairs or not any(value for pair in pairs for value in pair):
        return None
    if any(0 in pair for pair in pairs):
        words = mark + _of_zeros(one, other, pairs)
        return Difference(words, units=len(pairs), details=details)
    ratio = paired.ratio(theirs, ours)
    assert ratio is not None
    words = mark + paired.verdict(ratio, f"{other} has {{}} as much as {one}")
    return Difference(words, None, *numbers(ratio), details=details)


def _of_zeros(one: str, other: str, pairs: Iterable[tuple[float, float]]) -> str:
    zeros = {(ours == 0, theirs == 0) for ours, theirs in pairs}
    if zeros == {(True, False)}:
        return f"a difference: {other} has some in every run, {one} none"
    if zeros == {(False, True)}:
        return f"a difference: {one} has some in every run, {other} none"
    return "not decided: some runs had none"


def is_difference(found: Difference) -> bool:
    """Whether a verdict calls the two different."""
    words = verdict_of(found)
    return not words.startswith(("no difference", "not decided"))


def shown(told: Metric, value: float) -> str:
    """With its unit."""
    return {
        "": lambda: f"{value:,.0f}",
        "s": lambda: units.duration(value * 1e9),
        "bytes": lambda: units.size(value),
        "bytes/s": lambda: f"{units.size(value)}/s",
        "/s": lambda: f"{units.number(value)}/s",
        "share": lambda: units.share(min(1.0, value)),
    }[told.unit]()


class Group(NamedTuple):
    """Syncs that agree in who called them, how, and for what files."""

    kind: FileKind
    backend_type: str
    call: str


def groups(result: SyncResult) -> dict[Group, dict[str, list[Io]]]:
    """All syncs, of every phase and run, by server; those that took most time first."""
    found: dict[Group, dict[str, list[Io]]] = {}
    for cell in result.cells:
        for backend_type, reads in cell.by_backend_type.items():
            for each in reads:
                if is_sync(result, cell.server, each):
                    group = Group(file_kind(each), backend_type, each.call or DURABLE_WRITE)
                    found.setdefault(group, {}).setdefault(cell.server, []).append(each)
    return dict(
        sorted(
            found.items(),
            key=lambda item: (
                FILES.index(item[0].kind),
                -sum(r.total_ns for reads in item[1].values() for r in reads),
            ),
        )
    )
