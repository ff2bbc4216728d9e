"""What a page begins with, below the answer: three figures, and where the time went as one bar."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from ... import units
from ...model.capture import Capture, Io
from ...model.histogram import Histogram
from ..sections.sums import device_ns, reads_of, time_of
from .parts import escaped, sums
from .reads import NAMES

_WIDTH, _HEIGHT = 1000, 26
_ORDER = ("device", "wait", "readahead_issued", "page_cache", "unknown")
_WORDS = NAMES | {"wait": "other waits of reads", "unknown": "reads, of which no source is known"}
_UNKNOWN = "not measured"


class _Part(NamedTuple):
    """Of the time, and the class of its colour."""

    name: str
    colour: str
    ns: int


def opening(capture: Capture) -> str:
    """Return both; "" where nothing was read, written or synced."""
    every = [io for backend in capture.backends for io in backend.io]
    if not any(io.count for io in every):
        return ""
    elapsed = _elapsed_ns(capture)
    reads = reads_of(capture)
    figures = sums([*_figures(capture, reads, elapsed)]) if reads else ""
    return f"{figures}\n{_bar(_parts(every, elapsed), elapsed)}"


def _elapsed_ns(capture: Capture) -> int:
    """How long statements took in all, or those that read, as the server alone has counted them;
    0 where that is not measured."""
    queries = [query for backend in capture.backends for query in backend.queries]
    traced = sum(query.latency.sum for query in queries if query.latency)
    ids = {query.query_id for query in queries}
    return traced or sum(each.total_ns for each in capture.executions if each.query_id in ids)


def _figures(capture: Capture, reads: Sequence[Io], elapsed: int) -> Iterator[tuple[str, str]]:
    own = _own(reads) if elapsed else reads
    waited, whole = device_ns(own), elapsed or time_of(own)
    told = _UNKNOWN
    if waited is not None:
        of = "of statements" if elapsed else "of reading"
        told = f"{units.duration(waited)}, {units.share(waited / max(1, whole))} {of}"
    yield "waiting for the device", told
    hits = sum(each.hit for each in capture.buffers)
    blocks, device = (
        sum(io.blocks for io in some)
        for some in (reads, [io for io in reads if io.source == "device"])
    )
    level = "shared_buffers or the page cache" if capture.buffers else "the page cache"
    known = waited is not None and blocks
    found = units.share(1 - device / (hits + blocks)) if known else _UNKNOWN
    yield f"blocks out of {level}", found
    slow = [io for io in reads if io.source == "device" and io.count]
    yield (
        "p99 of reads that waited for it" if slow else "p99 of reads",
        units.duration(Histogram.of(slow or reads).percentile(99) or 0, 2),
    )


def _own(every: Sequence[Io]) -> list[Io]:
    """What is part of the time of statements: helpers work beside them."""
    return [io for io in every if io.scope == "query" and io.performed_by == "backend"]


def _parts(every: Sequence[Io], elapsed: int) -> list[_Part]:
    counted = _own(every) if elapsed else every
    reads = [io for io in counted if io.operation == "read"]
    parts = [
        _Part(_WORDS[source], source, time_of(io for io in reads if io.source == source))
        for source in _ORDER
    ]
    for operation, name, colour in (("write", "writing", "s4"), ("fsync", "fsync", "sync")):
        took = time_of(io for io in counted if io.operation == operation)
        parts.append(_Part(name, colour, took))
    known = sum(part.ns for part in parts)
    parts.append(_Part("everything else, such as CPU and locks", "rest", elapsed - known))
    return [part for part in parts if part.ns > 0]


def _bar(parts: Sequence[_Part], elapsed: int) -> str:
    """Of the time of statements if that is known, else of all that was measured."""
    whole = max(elapsed, sum(part.ns for part in parts))
    if not whole:
        return ""
    title = "Where the time of statements went" if elapsed else "Where the time of all I/O went"
    rects, keys, at = [], [], 0.0
    for part in parts:
        width = _WIDTH * part.ns / whole
        told = f"{part.name}: {units.duration(part.ns)}, {units.share(part.ns / whole)}"
        rects.append(
            f'<rect class="{part.colour}" x="{at:.2f}" width="{max(width - 1, 0.5):.2f}" '
            f'height="{_HEIGHT}"><title>{escaped(told)}</title></rect>'
        )
        keys.append(
            f'<li><svg width="12" height="12" aria-hidden="true"><rect class="{part.colour}" '
            f'width="12" height="12"/></svg> {escaped(told)}</li>'
        )
        at += width
    return (
        f'<figure class="spent"><figcaption>{title}</figcaption>\n'
        f'<svg role="img" aria-label="{title}; the numbers are in the list below" '
        f'viewBox="0 0 {_WIDTH} {_HEIGHT}" preserveAspectRatio="none">{"".join(rects)}</svg>\n'
        f'<ul class="keys">{"".join(keys)}</ul></figure>'
    )
