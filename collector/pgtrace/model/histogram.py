"""Latencies in log-linear buckets, the same as the kernel half keeps. All times are nanoseconds."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cache
from math import ceil
from typing import Self

from .buckets import MAX_BITS, Bucket, Buckets, bucket_bounds, bucket_index
from .capture import Io, Latencies


@cache
def _exactly(p: float) -> Fraction:
    """As it is written: 99.9 is 999/10."""
    return Fraction(str(p))


@dataclass(slots=True)
class Histogram:
    """Counts by bucket index, and what buckets cannot keep: the exact sum, least and greatest.

    `min_ns` and `max_ns` are None while the histogram is empty; the first also if it is not known.
    """

    counts: dict[int, int] = field(default_factory=dict)
    total_ns: int = 0
    min_ns: int | None = None
    max_ns: int | None = None

    @classmethod
    def from_buckets(
        cls, buckets: Iterable[Bucket], total_ns: int, min_ns: int | None, max_ns: int
    ) -> Self:
        """Build from (low, high, count) as captures hold them.

        Raises ValueError for a negative count or a bucket that is not of this grid: its values
        cannot be shared out among ours.
        """
        counts = Buckets.sums([Buckets(buckets)])
        return cls(counts, total_ns, min_ns if counts else None, max_ns if counts else None)

    @classmethod
    def of(cls, each: Iterable[Io | Latencies]) -> Self:
        """Return the latencies of all of them together."""
        total, known, counted = cls(), True, list[Buckets]()
        for one in each:
            latency = one.latency if isinstance(one, Io) else one
            total.total_ns += latency.sum
            buckets = Buckets(latency.buckets)
            if not buckets.count_any():
                continue
            counted.append(buckets)
            total.max_ns = latency.max if total.max_ns is None else max(total.max_ns, latency.max)
            if latency.min is None or not known:
                known, total.min_ns = False, None
            elif total.min_ns is None or latency.min < total.min_ns:
                total.min_ns = latency.min
        total.counts = Buckets.sums(counted)
        return total

    def to_data(self) -> Latencies:
        """Return the form that captures hold: the buckets that are not empty, in order."""
        return Latencies(
            count=self.count,
            sum=self.total_ns,
            min=self.min_ns or None,
            max=self.max_ns or 0,
            buckets=Buckets.counted(self.counts),
        )

    @property
    def count(self) -> int:
        """How many values there are."""
        return sum(self.counts.values())

    @property
    def mean_ns(self) -> float | None:
        """The exact mean; None when empty."""
        count = self.count
        return self.total_ns / count if count else None

    def add(self, ns: int, count: int = 1) -> None:
        """Record `count` values of `ns`; ValueError if either is negative."""
        if count < 0:
            raise ValueError(f"a count cannot be negative: {count}")
        index = bucket_index(ns)
        if count == 0:
            return
        self.counts[index] = self.counts.get(index, 0) + count
        self.total_ns += ns * count
        self.min_ns = ns if self.min_ns is None else min(self.min_ns, ns)
        self.max_ns = ns if self.max_ns is None else max(self.max_ns, ns)

    def take(self, other: Self) -> None:
        """Count the other's values, too. A least that is not known leaves that of both unknown."""
        if other.count:
            if not self.count:
                self.min_ns, self.max_ns = other.min_ns, other.max_ns
            else:
                least, most = other.min_ns, other.max_ns
                if least is None or self.min_ns is None:
                    self.min_ns = None
                elif least < self.min_ns:
                    self.min_ns = least
                if most is not None and (self.max_ns is None or most > self.max_ns):
                    self.max_ns = most
        self.total_ns += other.total_ns
        counts = self.counts
        for index, count in other.counts.items():
            counts[index] = counts.get(index, 0) + count

    def __add__(self, other: "Histogram") -> "Histogram":
        both = Histogram(dict(self.counts), self.total_ns, self.min_ns, self.max_ns)
        both.take(other)
        return both

    def __sub__(self, earlier: "Histogram") -> "Histogram":
        """Return what came after an earlier snapshot of the same histogram.

        Its least and greatest are bounds, right to a bucket: the snapshots keep only the whole
        histogram's. Raises ValueError if a count or the sum would be negative.
        """
        counts = dict(self.counts)
        for index, count in earlier.counts.items():
            counts[index] = counts.get(index, 0) - count
        total_ns = self.total_ns - earlier.total_ns
        if total_ns < 0 or any(n < 0 for n in counts.values()):
            raise ValueError("the histogram to subtract is not an earlier snapshot of this one")
        counts = {index: n for index, n in counts.items() if n}
        if not counts or self.min_ns is None or self.max_ns is None:
            return Histogram(counts, total_ns)
        return Histogram(
            counts,
            total_ns,
            max(self.min_ns, bucket_bounds(min(counts))[0]),
            min(self.max_ns, bucket_bounds(max(counts))[1] - 1),
        )

    def midpoint(self, index: int) -> int:
        """Return the middle of the bucket's values in ns, but never beyond the least or greatest.

        A bucket above 15 ns is 1/16 of its low edge wide, so that its middle is within 1/32 of
        each of its values: 3.2 %.
        """
        low, high = bucket_bounds(index)
        low = low if self.min_ns is None else max(low, self.min_ns)
        high = high if self.max_ns is None else min(high, self.max_ns + 1)
        return (low + high - 1) // 2

    def percentile(self, p: float) -> int | None:
        """Return the p-th percentile in ns, within 3.2 % below 2^40; None when empty.

        Nearest rank: of N values in order, the one of rank ceil(p/100 * N), at least the first.
        The last is the greatest, exactly. Raises ValueError unless 0 <= p <= 100.
        """
        if not 0 <= p <= 100:
            raise ValueError(f"a percentile is between 0 and 100, not {p}")
        count = self.count
        if not count:
            return None
        rank = max(1, ceil(_exactly(p) * count / 100))
        if rank == count:
            return self.max_ns
        seen = index = 0
        for index in sorted(self.counts):
            seen += self.counts[index]
            if seen >= rank:
                break
        return self.midpoint(index)

    def fold(self) -> list[Bucket]:
        """Return (low, high, count) by powers of two, exactly: [0,1), [1,2), [2,4), [4,8) ...

        From the first that is not empty to the last, with the empty ones between them.
        """
        return [(low, high, count) for low, high, count, _ in self.fold_time()]

    def fold_time(self) -> list[tuple[int, int, int, int]]:
        """Return fold()'s rows with the ns spent in each: (low, high, count, time).

        The times are estimates: each fine bucket's middle times its count, scaled so that
        together they are the exact sum.
        """
        rows: dict[int, list[int]] = {}
        for index, n in self.counts.items():
            if n:
                # 0 for [0,1), else 1 + floor(log2): 2^40 and beyond have one row.
                row = rows.setdefault(bucket_bounds(index)[0].bit_length(), [0, 0])
                row[0] += n
                row[1] += self.midpoint(index) * n
        if not rows:
            return []
        weights = sum(weight for _, weight in rows.values())
        folded, before, given = [], 0, 0
        for bits in range(min(rows), max(rows) + 1):
            count, weight = rows.get(bits, (0, 0))
            before += weight
            # Rounding the running sum, not each row, keeps the total exact.
            upto = self.total_ns * before // weights if weights else 0
            low, high = (1 << bits) >> 1, 1 << (64 if bits > MAX_BITS else bits)
            folded.append((low, high, count, upto - given))
            given = upto
        return folded
