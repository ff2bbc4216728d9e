"""The block of text that stands for some reads: sums, where served, histogram, a sentence."""

import itertools
from collections import Counter
from collections.abc import Sequence

from ... import units
from ...model.capture import READ_ALONE, Excluded, Io, Operation, of_operation
from ...model.histogram import Histogram
from ..sections import time_parts
from ..sections.sums import PERFORMERS, SOURCES, file_of, time_of
from ..sections.time_parts import Part
from ..view import WIDTH
from . import writes
from .chart import chart, kinds, sums
from .files import grouped
from .sentence import INDENT, packed, sentence

NAMES: dict[Operation, str] = {"read": "reads", "write": "writes", "fsync": "fsync"}
_FILLS = "█▓▒░▚▞▘▖▗▝"
UNTRACED = ("locks", "CPU")
"""What no probe of this version looks at."""


def untraced(operations: Sequence[Operation], *, times: bool = False) -> list[str]:
    """What was not looked at: because nobody asked for it, or because no probe does."""
    return [
        *(name for each, name in NAMES.items() if each not in operations),
        *(() if times else UNTRACED),
    ]


def block(
    reads: Sequence[Io],
    elapsed_ns: int | None,
    not_measured: Sequence[str],
    *,
    lead: str = "",
    failed: Excluded | None = None,
    short: Excluded | None = None,
    waited_ns: int | None = None,
    operations: Sequence[Operation] = READ_ALONE,
    parts: Sequence[Part] = (),
    width: int = WIDTH,
) -> list[str]:
    """Return the lines for `reads`, made within `elapsed_ns` (None: not known).

    `lead` stands before the sums, such as "■ 4.33 s"; what they come to is the next line.
    `not_measured` is what the session lacked, of each the words before a colon; `operations` is
    what was asked for. `waited_ns` is how long the backend waited for asynchronous reads;
    `parts` is where all of the time went, if that is known.
    """
    everything, reads = reads, of_operation(reads)
    lead = f"{lead:<{INDENT}}" if len(lead) < INDENT - 1 else f"{lead}  "
    if "read" not in operations:
        lines = writes.lines(everything, operations, width, lead)
    elif not any(r.count for r in reads):
        lacked = "reads" in (missing.partition(":")[0] for missing in not_measured)
        lines = packed(["reads: not measured" if lacked else "no reads"], width, lead)
        lines += not_counted(failed, short, width)
        lines += writes.lines(everything, operations, width)
    else:
        total = Histogram.of(reads)
        lines = sums(reads, total, ("read", "reads"), width, lead)
        # Of one relation, the sentence says all of it
        one = len({file_of(r) for r in reads}) == 1 and reads[0].relation
        lines += [*packed(_served(reads), width), *([] if one else kinds(reads, width))]
        lines += [*_details(reads, width), *not_counted(failed, short, width)]
        lines += [*chart(total, width), *writes.lines(everything, operations, width)]
    words = in_words(reads, elapsed_ns, waited_ns) if any(r.count for r in reads) else []
    words += writes.sentence(everything, operations, elapsed_ns)
    said = sentence(" ".join(f"{each}." for each in words), width, 2)
    return [*lines[:1], *said, *_divided(parts, width), *lines[1:]]


def _divided(parts: Sequence[Part], width: int) -> list[str]:
    """Where the time went, as a bar and in words."""
    whole, room = sum(part.ns for part in parts), width - 4
    if whole <= 0:
        return []
    filled = zip(parts, itertools.cycle(_FILLS), strict=False)
    bar = "".join(fill * round(max(part.ns, 0) / whole * room) for part, fill in filled)
    return [f"  {bar[:room]}", *sentence(time_parts.in_words(parts, whole), width, 2)]


def _served(reads: Sequence[Io]) -> list[str]:
    """Where the reads were served; what the kernel did not tell is never shown as zero."""
    counts: Counter[str] = Counter()
    for r in reads:
        counts[r.source] += r.count
    unknown = counts.pop("unknown", 0)
    if not any(counts.values()):
        return ["where they were served: not measured"]
    parts = [f"{name} {units.count(counts[source])}" for source, name in SOURCES.items()]
    if unknown:
        parts.append(f"unknown {units.count(unknown)}")
    parts.append(f"from device {units.size(sum(r.device_bytes for r in reads))}")
    return parts


def _details(reads: Sequence[Io], width: int) -> list[str]:
    """Who read, how many blocks at a time, and past the page cache: where it is not the usual."""
    parts = []
    count = sum(r.count for r in reads)
    performers: Counter[str] = Counter()
    for r in reads:
        performers[r.performed_by] += r.count
    if performers["backend"] < count:
        named = [f"{name} {units.count(performers[p])}" for p, name in PERFORMERS.items()]
        parts.append("by " + ", ".join(n for n in named if not n.endswith(" 0")))
    queued = sum(r.queued_ns or 0 for r in reads)
    if queued:
        parts.append(f"in the queue before that {units.duration(queued)}")
    blocks = sum(r.blocks for r in reads)
    if blocks > count:
        each = units.duration(sum(r.total_ns for r in reads) / blocks)
        parts.append(f"{units.count(blocks)} blocks, {each} a block")
    direct = sum(r.count for r in reads if r.direct)
    if direct:
        parts.append(f"direct I/O {units.count(direct)}")
    return packed(parts, width) if parts else []


def not_counted(
    failed: Excluded | None, short: Excluded | None, width: int = WIDTH, what: str = ""
) -> list[str]:
    """Return the lines of excluded(), for reads or `what` else."""
    parts = excluded(failed, short)
    return packed([*([what] if what else []), *parts], width) if parts else []


def excluded(failed: Excluded | None, short: Excluded | None) -> list[str]:
    """Return figures of what is in no histogram; none if nothing is left out."""
    parts = []
    if failed and failed.count:
        parts.append(f"failed {units.count(failed.count)} in {units.duration(failed.total_ns)}")
    if short and short.count:
        got = f"got {units.size(short.bytes)} in {units.duration(short.total_ns)}"
        parts.append(f"came short {units.count(short.count)}, {got}")
    return [*parts, "(not counted above)"] if parts else []


def in_words(reads: Sequence[Io], elapsed_ns: int | None, waited_ns: int | None) -> list[str]:
    """How much of the time was reading, and how much of that waiting: sentences without a stop.

    Only what the backend itself read is a part of its time: what others read for it overlaps.
    """
    own = [r for r in reads if r.performed_by == "backend"]
    took = _own(own, elapsed_ns) if own else "The backend itself made no read"
    return [took, *_overlapped(reads, waited_ns), *_longest_in(reads)]


def _own(reads: Sequence[Io], elapsed_ns: int | None) -> str:
    read_ns = sum(r.total_ns for r in reads)
    whole = elapsed_ns or read_ns

    def part(ns: int) -> str:
        of = "" if elapsed_ns else " of it"
        return f"{units.duration_beside(ns, whole)} ({units.percent(ns, whole)}{of})"

    times: Counter[str] = Counter()
    for r in reads:
        times[r.source] += r.total_ns
    if elapsed_ns:
        share = units.percent(read_ns, whole)
        took = f"Reading took {units.duration_beside(read_ns, whole)}"
        took += f" of {units.duration(whole)} ({share})"
    else:
        took = f"Reading took {units.duration(read_ns)}"
    if set(times) == {"unknown"}:
        return took + ", waiting for the device: not measured"
    least = "at least " if "unknown" in times else ""
    if times["device"] or least:
        took += f", waiting for the device {least}{part(times['device'])}"
    else:
        took += ", never waiting for the device"
    if times["wait"]:
        took += f", other waits {units.duration_beside(times['wait'], whole)}"
    return took


def _overlapped(reads: Sequence[Io], waited_ns: int | None) -> list[str]:
    """What was read at the same time, by others for the backend; nothing if that was nothing."""
    times: Counter[str] = Counter()
    for r in reads:
        times[r.performed_by] += r.total_ns
    del times["backend"]
    if not times:
        return []
    each = [f"{PERFORMERS[who]} {units.duration(times[who])}" for who in PERFORMERS if who in times]
    line = f"Overlapped: {', '.join(each)}"
    if waited_ns is not None and times.keys() & {"io worker", "io_uring"}:
        line += f", for which the backend waited {units.duration(waited_ns)}"
    return [line]


def _longest_in(reads: Sequence[Io]) -> list[str]:
    """Where files are told apart: the one in which reading took most time, whoever read."""
    if not any(r.relation for r in reads):
        return []
    (name, longest), *others = grouped(reads, file_of)
    if not others:
        return [f"All of it was in {name}"]
    count, time = sum(r.count for r in longest), time_of(longest)
    share = units.percent(time, time_of(reads))
    number = f"{units.count(count)} {'read' if count == 1 else 'reads'}"
    return [f"Longest in {name}: {number} in {units.duration(time)} ({share} of reading)"]
