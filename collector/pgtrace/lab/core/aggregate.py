"""What processes of one kind did, added up."""

from collections.abc import Iterable

import msgspec

from ...model.capture import Capture, Io
from ...model.combined import alike

_COUNTED = {"bytes", "blocks", "device_bytes", "latency", "queued_ns"}
_MERGED = {"pattern", "size"}
_TOLD = [each.name for each in msgspec.structs.fields(Io) if each.name not in _COUNTED | _MERGED]


def by_backend_type(capture: Capture) -> dict[str, list[Io]]:
    """Of a whole server; `unknown` where it was not found out."""
    found: dict[str, list[Io]] = {}
    for backend in capture.backends:
        if backend.io:
            found.setdefault(backend.backend_type or "unknown", []).extend(backend.io)
    return {name: merged(reads) for name, reads in found.items()}


def merged(reads: Iterable[Io]) -> list[Io]:
    """One for all that agree, whatever their patterns and sizes."""
    return [
        msgspec.structs.replace(each, pattern="unknown", size=None) for each in alike(reads, _TOLD)
    ]
