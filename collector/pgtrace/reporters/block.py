"""The block of text that stands for some reads: sums, where served, histogram, a sentence."""

from collections import Counter
from collections.abc import Iterable, Sequence

from .. import units
from ..capture import Apart, Reads
from ..histogram import Histogram

WIDTH = 80
LONGEST_BAR = 48
SHORTEST_BAR = 8
INDENT = 12
UNTRACED = ("writes", "fsync", "locks", "CPU")
"""What no probe of this version looks at."""

SOURCES = {
    "page_cache": "page cache",
    "readahead_issued": "read-ahead issued",
    "device": "device",
    "wait": "wait",
}
PERFORMERS = {
    "backend": "backend",
    "parallel worker": "parallel workers",
    "io worker": "I/O workers",
    "io_uring": "io_uring",
}


def merge(reads: Iterable[Reads]) -> Histogram:
    """Return the latencies of all `reads` together; ValueError if their buckets are not ours."""
    total = Histogram()
    for r in reads:
        total += Histogram.from_buckets(r.histogram.buckets, r.total_ns, r.min_ns, r.max_ns)
    return total


def block(
    reads: Sequence[Reads],
    elapsed_ns: int | None,
    not_measured: Sequence[str],
    *,
    lead: str = "",
    failed: Apart | None = None,
    short: Apart | None = None,
    waited_ns: int | None = None,
    width: int = WIDTH,
) -> list[str]:
    """Return the lines for `reads`, made within `elapsed_ns` (None: not known).

    `lead` stands before the sums, such as "■ 4.33 s". `not_measured` is what the session lacked,
    of each the words before a colon; what no session measures is added. `waited_ns` is how long
    the backend waited for asynchronous reads. `width` shortens the bars; sentences are left whole.
    """
    reads = [r for r in reads if r.operation == "read"]
    missing = list(dict.fromkeys([*(m.partition(":")[0] for m in not_measured), *UNTRACED]))
    total = merge(reads)
    lead = f"{lead:<{INDENT}}" if len(lead) < INDENT - 1 else f"{lead}  "
    if not any(r.count for r in reads):
        none = "reads: not measured" if "reads" in missing else "no reads"
        lines = [lead + none, *apart(failed, short)]
        return [*lines, "  " + _not_measured(missing)]
    lines = [lead + _sums(reads, total), *_served(reads), *_kinds(reads), *_details(reads)]
    lines += [*apart(failed, short), *chart(total, width)]
    return [*lines, "  " + in_words(reads, elapsed_ns, waited_ns, missing)]


def chart(latencies: Histogram, width: int = WIDTH) -> list[str]:
    """Return the log2 histogram, one line per power of two, with its share of the time.

    No row is left out between the first and the last, and none at the ends.
    """
    rows = latencies.fold_time()
    if not rows:
        return []
    most = max(count for _, _, count, _ in rows)
    digits = max(10, len(units.count(most)) + 2)
    longest = max(SHORTEST_BAR, min(LONGEST_BAR, width - digits - 22))
    lines = [f"{'from':>6}{'reads':>{digits + 3}}{'time':>{longest + 11}}"]
    for low, _, count, time in rows:
        bar = "█" * round(count * longest / most)
        share = units.percent(time, latencies.total_ns)
        number = units.count(count)
        lines.append(f"{units.bucket(low):>9}{number:>{digits}}  {bar:<{longest}}{share:>10}")
    return lines


def _sums(reads: Sequence[Reads], total: Histogram) -> str:
    """How many, how much, how long. Percentiles are right within 3.2 %, so two digits do."""
    p50, p99 = total.percentile(50) or 0, total.percentile(99) or 0
    count = sum(r.count for r in reads)
    return "   ".join(
        [
            f"{units.count(count)} {'read' if count == 1 else 'reads'}",
            units.size(sum(r.bytes for r in reads)),
            f"mean {units.duration(total.total_ns / count)}",
            f"p50 {units.duration(p50, 2)}",
            f"p99 {units.duration(p99, 2)}",
            f"max {units.duration(total.max_ns or 0, 2)}",
        ]
    )


def _served(reads: Sequence[Reads]) -> list[str]:
    """Where the reads were served; what the kernel did not tell is never shown as zero."""
    counts: Counter[str] = Counter()
    for r in reads:
        counts[r.source] += r.count
    unknown = counts.pop("unknown", 0)
    if not any(counts.values()):
        return [" " * INDENT + "where they were served: not measured"]
    parts = [f"{name} {units.count(counts[source])}" for source, name in SOURCES.items()]
    if unknown:
        parts.append(f"unknown {units.count(unknown)}")
    parts.append(f"from device {units.size(sum(r.device_bytes for r in reads))}")
    return [" " * INDENT + "   ".join(parts)]


def _kinds(reads: Sequence[Reads]) -> list[str]:
    """What was read, where there is more to say than that it was relations."""
    counts: Counter[str] = Counter()
    times: Counter[str] = Counter()
    for r in reads:
        counts[r.kind] += r.count
        times[r.kind] += r.total_ns
    if counts.keys() <= {"relation", "unknown"}:
        return []
    parts = [
        f"{kind} {units.count(counts[kind])} in {units.duration(time)}"
        for kind, time in times.most_common()
    ]
    return [" " * INDENT + "   ".join(parts)]


def _details(reads: Sequence[Reads]) -> list[str]:
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
    return [" " * INDENT + "   ".join(parts)] if parts else []


def apart(failed: Apart | None, short: Apart | None) -> list[str]:
    """Return the line for reads that are in no histogram; none if there were none."""
    parts = []
    if failed and failed.count:
        parts.append(f"failed {units.count(failed.count)} in {units.duration(failed.total_ns)}")
    if short and short.count:
        got = f"got {units.size(short.bytes)} in {units.duration(short.total_ns)}"
        parts.append(f"came short {units.count(short.count)}, {got}")
    return [" " * INDENT + "   ".join([*parts, "(not counted above)"])] if parts else []


def in_words(
    reads: Sequence[Reads], elapsed_ns: int | None, waited_ns: int | None, missing: Sequence[str]
) -> str:
    """How much of the time was reading, how much of that waiting, and what is not known.

    Only what the backend itself read is a part of its time: what others read for it overlaps.
    """
    own = [r for r in reads if r.performed_by == "backend"]
    parts = [_own(own, elapsed_ns) if own else "The backend itself made no read"]
    parts += _overlapped(reads, waited_ns)
    return f"{'. '.join(parts)}. {_not_measured(missing)}"


def _own(reads: Sequence[Reads], elapsed_ns: int | None) -> str:
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
    took += f", waiting for the device {least}{part(times['device'])}"
    if times["wait"]:
        took += f", other waits {units.duration_beside(times['wait'], whole)}"
    return took


def _overlapped(reads: Sequence[Reads], waited_ns: int | None) -> list[str]:
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


def _not_measured(missing: Sequence[str]) -> str:
    return f"Not measured: {', '.join(missing)}."
