"""What processes of one kind did, added up."""

from collections.abc import Iterable

import msgspec

from ..capture import Capture, Reads
from ..histogram import Histogram

_COUNTED = {
    "count", "bytes", "blocks", "device_bytes", "total_ns", "min_ns", "max_ns", "histogram",
    "queued_ns",
}  # fmt: skip
_MERGED = {"pattern", "size"}
_TOLD = [each.name for each in msgspec.structs.fields(Reads) if each.name not in _COUNTED | _MERGED]


def by_backend_type(capture: Capture) -> dict[str, list[Reads]]:
    """Of a whole server; `unknown` where it was not found out."""
    found: dict[str, list[Reads]] = {}
    for backend in capture.backends:
        if backend.reads:
            found.setdefault(backend.backend_type or "unknown", []).extend(backend.reads)
    return {name: merged(reads) for name, reads in found.items()}


def merged(reads: Iterable[Reads]) -> list[Reads]:
    """One for all that agree, whatever their patterns and sizes."""
    alike: dict[tuple[object, ...], list[Reads]] = {}
    for each in reads:
        alike.setdefault(tuple(getattr(each, name) for name in _TOLD), []).append(each)
    return [_sum(each) for each in alike.values()]


def _sum(reads: list[Reads]) -> Reads:
    total = Histogram()
    for r in reads:
        total += Histogram.from_buckets(r.histogram.buckets, r.total_ns, r.min_ns, r.max_ns)
    queued = [r.queued_ns for r in reads if r.queued_ns is not None]
    return msgspec.structs.replace(
        reads[0],
        pattern="unknown",
        size=None,
        count=sum(r.count for r in reads),
        bytes=sum(r.bytes for r in reads),
        blocks=sum(r.blocks for r in reads),
        device_bytes=sum(r.device_bytes for r in reads),
        total_ns=total.total_ns,
        min_ns=total.min_ns or 0,
        max_ns=total.max_ns or 0,
        histogram=total.to_data(),
        queued_ns=sum(queued) if queued else None,
    )
