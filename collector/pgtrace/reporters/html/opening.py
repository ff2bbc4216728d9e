"""What a page begins with, below the answer: three figures, and where the time went as one bar."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from ... import units
from ...model.capture import Capture, Io, Operation, of_operation
from ...model.histogram import Histogram
from ..sections import time_parts
from ..sections.sums import (
    MOST_HIDDEN,
    PLURALS,
    at_least,
    found_in_buffers,
    reads_of,
    time_of,
    timed,
    traced_ns,
    waited_ns,
)
from .parts import escaped, sums
from .reads import NAMES

_WIDTH, _HEIGHT = 1000, 26
_ORDER = ("device", "wait", "readahead_issued", "page_cache", "unknown")
_WORDS = NAMES | {"wait": "other waits of reads", "unknown": "reads, of which no source is known"}
_UNKNOWN = "not measured"
_OPERATIONS: tuple[Operation, ...] = ("read", "write", "fsync")


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
    known, elapsed, *_ = timed(capture)
    reads = reads_of(capture)
    own = of_operation(known) if elapsed else reads
    longest = max(_OPERATIONS, key=lambda each: time_of(of_operation(every, each)))
    of_reads = longest == "read"
    figures = _figures(capture, reads, own, elapsed) if of_reads else _of(capture, every, longest)
    # What a commit writes and syncs is not in the time that the server has counted
    if not traced_ns(capture) and any(io.operation != "read" for io in every):
        elapsed = 0
    counted = known if elapsed else every
    return f"{sums([*figures])}\n{_bar(_parts(counted, elapsed, capture), elapsed)}"


def _of(capture: Capture, every: Sequence[Io], operation: Operation) -> Iterator[tuple[str, str]]:
    """The figures of what took longer than reading."""
    own = of_operation(every, operation)
    count = sum(io.count for io in own)
    name, plural = "in fsync" if operation == "fsync" else "writing", PLURALS[operation]
    yield name, f"{units.duration(time_of(own))}, of all processes together"
    rate = units.number(count / capture.duration_s) if capture.duration_s else "?"
    yield plural, f"{units.count(count)}, {rate} a second"
    yield f"p99 of {plural}", units.duration(Histogram.of(own).percentile(99) or 0, 2)


def _figures(
    capture: Capture, reads: Sequence[Io], own: Sequence[Io], elapsed: int
) -> Iterator[tuple[str, str]]:
    waited, whole = waited_ns(own), elapsed or time_of(own)
    told = _UNKNOWN
    if waited is not None:
        of = "of statements" if elapsed else "of reading"
        told = (
            f"{at_least(own)}{units.duration(waited)}, {units.share(waited / max(1, whole))} {of}"
        )
    yield "waiting for the device", told
    hits = found_in_buffers(capture)
    told_of = [io for io in reads if io.source != "unknown"]
    every, blocks, device = (
        sum(io.blocks for io in some)
        for some in (reads, told_of, [io for io in reads if io.source == "device"])
    )
    level = "the page cache" if hits is None else "shared_buffers or the page cache"
    known = blocks and every - blocks <= MOST_HIDDEN * every
    found = units.share(1 - device / ((hits or 0) + blocks)) if known else _UNKNOWN
    yield f"blocks out of {level}", found
    slow = [io for io in reads if io.source == "device" and io.count]
    yield (
        "p99 of reads that waited for it" if slow else "p99 of reads",
        units.duration(Histogram.of(slow or reads).percentile(99) or 0, 2),
    )


def _parts(counted: Sequence[Io], elapsed: int, capture: Capture) -> list[_Part]:
    reads = [io for io in counted if io.operation == "read"]
    parts = [
        _Part(_WORDS[source], source, time_of(io for io in reads if io.source == source))
        for source in _ORDER
    ]
    for operation, name, colour in (("write", "writing", "s4"), ("fsync", "fsync", "sync")):
        took = time_of(io for io in counted if io.operation == operation)
        parts.append(_Part(name, colour, took))
    rest = elapsed - sum(part.ns for part in parts)
    # Of writes and fsyncs it is not known what of them was CPU, and what sleep
    if capture.probes.times and rest > 0 and all(io.operation == "read" for io in counted):
        for spent in _times(capture, reads):
            parts.append(spent._replace(ns=min(spent.ns, rest)))
            rest -= parts[-1].ns
    told = any(part.name == time_parts.CPU for part in parts)
    other = "everything else" if told else "everything else, such as CPU and locks"
    parts.append(_Part(other, "rest", rest))
    return [part for part in parts if part.ns > 0]


def _times(capture: Capture, reads: Sequence[Io]) -> Iterator[_Part]:
    """What else statements did themselves, or waited for."""
    ended = (q for backend in capture.backends for q in backend.queries if not q.unfinished)
    times = (time for query in ended for time in query.times)
    own = [time for time in times if time.scope == "query" and time.performed_by == "backend"]
    spent = time_parts.sums_of(own, reads)
    yield _Part(time_parts.CPU, "s0", spent[time_parts.CPU])
    yield _Part(time_parts.RUN_QUEUE, "s1", spent[time_parts.RUN_QUEUE])
    locks = sum(ns for name, ns in spent.items() if name.startswith(("Lock:", "LWLock:")))
    yield _Part("locks", "s2", locks)
    yield _Part("the client", "s3", sum(n for k, n in spent.items() if k.startswith("Client:")))


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
        f'viewBox="0 0 {_WIDTH} {_HEIGHT}" preserveAspectRatio="none">'
        f'<g aria-hidden="true">{"".join(rects)}</g></svg>\n'
        f'<ul class="keys">{"".join(keys)}</ul></figure>'
    )
