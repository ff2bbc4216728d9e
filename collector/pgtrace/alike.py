"""Reads that agree in what a report tells apart, as one: there may be a hundred thousand others."""

from collections.abc import Iterable, Sequence
from operator import attrgetter

import msgspec

from .capture import Reads
from .histogram import Histogram


def alike(reads: Iterable[Reads], names: Sequence[str]) -> list[Reads]:
    """Return one for all that agree in the attributes of these names; it has the rest of the first.

    In the order in which they were first seen.
    """
    told, found = attrgetter(*names), dict[tuple[object, ...], list[Reads]]()
    for each in reads:
        found.setdefault(told(each), []).append(each)
    return [_sum(each) if len(each) > 1 else each[0] for each in found.values()]


def _sum(reads: list[Reads]) -> Reads:
    total = Histogram.of(reads)
    queued = [r.queued_ns for r in reads if r.queued_ns is not None]
    return msgspec.structs.replace(
        reads[0],
        count=sum(r.count for r in reads),
        bytes=sum(r.bytes for r in reads),
        blocks=sum(r.blocks for r in reads),
        device_bytes=sum(r.device_bytes for r in reads),
        total_ns=total.total_ns,
        min_ns=total.min_ns,
        max_ns=total.max_ns or 0,
        histogram=total.to_data(),
        queued_ns=sum(queued) if queued else None,
    )
