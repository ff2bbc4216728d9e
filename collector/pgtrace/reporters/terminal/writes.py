"""Writes and fsyncs, as a block shows them under its reads."""

from collections import Counter
from collections.abc import Sequence
from typing import get_args

from ... import units
from ...model.capture import Call, Io, Operation, of_operation
from ...model.histogram import Histogram
from .chart import chart, kinds, sums
from .sentence import packed

_SOURCES = {
    "page_cache": "page cache",
    "device": "device",
    "wait": "waited",
}


def lines(
    reads: Sequence[Io], operations: Sequence[Operation], width: int, lead: str = ""
) -> list[str]:
    """Return the lines of writes and fsyncs, as far as they were asked for, behind `lead`.

    Each system call that makes writes last has sums and a histogram of its own.
    """
    found: list[str] = []
    if "write" in operations:
        writes = of_operation(reads, "write")
        found += _part(writes, ("write", "writes"), width, lead)
    if "fsync" in operations:
        fsyncs = of_operation(reads, "fsync")
        calls = [call for call in get_args(Call) if any(r.call == call for r in fsyncs)]
        for call in calls or ["fsync"]:
            of_call = [r for r in fsyncs if r.call == call]
            found += _part(of_call, (call, call), width, "" if found else lead)
    return found


def sentence(
    reads: Sequence[Io], operations: Sequence[Operation], elapsed_ns: int | None
) -> list[str]:
    """How long the backend itself wrote, and waited for what it wrote to last."""
    own = [r for r in reads if r.performed_by == "backend"]
    parts = []
    for operation, words in (("write", "Writing took"), ("fsync", "Fsync took")):
        took = sum(r.total_ns for r in own if r.operation == operation)
        if operation not in operations or not took:
            continue
        if elapsed_ns:
            share = units.percent(took, elapsed_ns)
            parts.append(f"{words} {units.duration_beside(took, elapsed_ns)} ({share})")
        else:
            parts.append(f"{words} {units.duration(took)}")
    return parts


def _part(reads: Sequence[Io], name: tuple[str, str], width: int, lead: str) -> list[str]:
    if not any(r.count for r in reads):
        return packed([f"no {name[1]}"], width, lead)
    total = Histogram.of(reads)
    counts: Counter[str] = Counter()
    for r in reads:
        counts[r.source] += r.count
    told = [f"{name} {units.count(counts[s])}" for s, name in _SOURCES.items() if counts[s]]
    direct = sum(r.count for r in reads if r.direct)
    if direct:
        told.append(f"direct I/O {units.count(direct)}")
    what = "writes" if name[0] == "write" else "calls"
    found = sums(reads, total, name, width, lead)
    found += packed(told, width) if told else []
    return [*found, *kinds(reads, width), *chart(total, width, what)]
