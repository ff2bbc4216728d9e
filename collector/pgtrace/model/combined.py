"""Reads that agree in what a report tells apart, as one: there may be a hundred thousand others."""

from collections.abc import Iterable, Sequence
from operator import attrgetter

import msgspec

from .capture import Io
from .histogram import Histogram


def alike(reads: Iterable[Io], names: Sequence[str]) -> list[Io]:
    """Return one for all that agree in the attributes of these names; it has the rest of the first.

    In the order in which they were first seen.
    """
    told, found = attrgetter(*names), dict[tuple[object, ...], list[Io]]()
    for each in reads:
        found.setdefault(told(each), []).append(each)
    return [_sum(each) if len(each) > 1 else each[0] for each in found.values()]


def _sum(several: list[Io]) -> Io:
    queued = [each.queued_ns for each in several if each.queued_ns is not None]
    return msgspec.structs.replace(
        several[0],
        bytes=sum(each.bytes for each in several),
        blocks=sum(each.blocks for each in several),
        device_bytes=sum(each.device_bytes for each in several),
        latency=Histogram.of(several).to_data(),
        queued_ns=sum(queued) if queued else None,
    )
