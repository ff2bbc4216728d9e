"""What processes of one kind did, added up."""

from collections.abc import Iterable

import msgspec

from ..alike import alike
from ..capture import Capture, Reads

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
    return [
        msgspec.structs.replace(each, pattern="unknown", size=None, min_ns=each.min_ns or 0)
        for each in alike(reads, _TOLD)
    ]
