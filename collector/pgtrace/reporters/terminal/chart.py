"""What stands for reads, writes or fsyncs, whichever they are: sums, kinds of files, histogram."""

from collections import Counter
from collections.abc import Sequence

from ... import units
from ...model.capture import Io
from ...model.histogram import Histogram
from ..view import WIDTH
from .sentence import packed

LONGEST_BAR = 48
SHORTEST_BAR = 8


def sums(
    reads: Sequence[Io], total: Histogram, name: tuple[str, str], width: int, lead: str
) -> list[str]:
    """How many (`name` is what one is called, and many are), how much, how long: one line behind
    `lead`, or one of the times where that is too long.

    Percentiles are right within 3.2 %, so two digits do.
    """
    p50, p99 = total.percentile(50) or 0, total.percentile(99) or 0
    count = sum(r.count for r in reads)
    size = [] if reads[0].operation == "fsync" else [units.size(sum(r.bytes for r in reads))]
    sizes = [f"{units.count(count)} {name[count != 1]}", *size]
    times = [
        f"mean {units.duration(total.total_ns / count)}",
        f"p50 {units.duration(p50, 2)}",
        f"p99 {units.duration(p99, 2)}",
        f"max {units.duration(total.max_ns or 0, 2)}",
    ]
    whole = packed([*sizes, *times], width, lead)
    return whole if len(whole) == 1 else [*packed(sizes, width, lead), *packed(times, width)]


def kinds(reads: Sequence[Io], width: int = WIDTH) -> list[str]:
    """Of which files, where there is more to say than that it was relations."""
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
    return packed(parts, width)


def chart(latencies: Histogram, width: int = WIDTH, what: str = "reads") -> list[str]:
    """Return the log2 histogram, one line per power of two, with its share of the time.

    No row is left out between the first and the last, and none at the ends.
    """
    rows = latencies.fold_time()
    if not rows:
        return []
    most = max(count for _, _, count, _ in rows)
    digits = max(10, len(units.count(most)) + 2)
    longest = max(SHORTEST_BAR, min(LONGEST_BAR, width - digits - 22))
    lines = [f"{'from':>6}{what:>{digits + 3}}{'time':>{longest + 11}}"]
    for low, _, count, time in rows:
        bar = "█" * round(count * longest / most)
        share = units.percent(time, latencies.total_ns)
        number = units.count(count)
        lines.append(f"{units.bucket(low):>9}{number:>{digits}}  {bar:<{longest}}{share:>10}")
    return lines
