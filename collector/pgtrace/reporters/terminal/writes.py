"""Writes and fsyncs, as a block shows them under its reads."""

from collections import Counter
from collections.abc import Sequence
from typing import get_args

from ... import units
from ...model.capture import Call, Io, Operation, of_operation
from ...model.histogram import Histogram
from .chart import INDENT, chart, kinds, sums

_SOURCES = {
    "page_cache": "page cache",
    "device": "device",
    "wait": "waited",
}


def lines(
    reads: Sequence[Io], operations: Sequence[Operation], width: int, lead: str = ""
) -> list[str]:
    """Return the lines of writes and fsyncs, as far as they were asked for.

    Each system call that makes writes last has sums and a histogram of its own. `lead` stands
    before the first line.
    """
    found: list[str] = []
    if "write" in operations:
        found += _part(of_operation(reads, "write"), "write", "writes", "writes", width)
    if "fsync" in operations:
        fsyncs = of_operation(reads, "fsync")
        for call in get_args(Call):
            of_call = [r for r in fsyncs if r.call == call]
            if of_call:
                found += _part(of_call, call, call, "calls", width)
        if not fsyncs:
            found += _part([], "fsync", "fsync", "calls", width)
    if found and lead:
        found[0] = lead + found[0][INDENT:]
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


def _part(reads: Sequence[Io], one: str, many: str, what: str, width: int) -> list[str]:
    if not any(r.count for r in reads):
        return [f"{'':{INDENT}}no {many}"]
    total = Histogram.of(reads)
    counts: Counter[str] = Counter()
    for r in reads:
        counts[r.source] += r.count
    told = [f"{name} {units.count(counts[s])}" for s, name in _SOURCES.items() if counts[s]]
    direct = sum(r.count for r in reads if r.direct)
    if direct:
        told.append(f"direct I/O {units.count(direct)}")
    found = [" " * INDENT + sums(reads, total, one, many)]
    if told:
        found.append(" " * INDENT + "   ".join(told))
    return [*found, *kinds(reads), *chart(total, width, what)]
