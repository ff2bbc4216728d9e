"""Percentiles of both sides, and how certain their ratio is."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from math import ceil, exp, log, sqrt

from ..model.buckets import SUBS, Bucket, bucket_bounds
from ..model.capture import Operation, Source
from ..stats.batch_means import Sum
from ..stats.student_t import quantile
from .estimate import LEVEL, Missing, Spread, Varied, varied
from .pieces import Piece, Stratum
from .side import Powers, Side
from .statistics import block_time

LEAST_BEYOND = 50
_FINEST = 1e-9
_NEAR = log(20)
"""Between odds of what is beyond a percentile, and beyond the power of two whose share in each
piece stands for it: of other shares it is not known how they vary."""
_SHORTEST = 3
"""The power of two that also holds what is shorter."""
_LONGEST = 40
"""The one that also holds what is longer."""
_END = 1 << 64

Which = Callable[[Operation, Source], bool]


@dataclass(frozen=True, slots=True)
class Latencies:
    """How long each took: all of them in buckets, and by piece by powers of two."""

    buckets: list[Bucket]
    pieces: list[tuple[float, dict[int, int]]]

    @property
    def count(self) -> int:
        """How many."""
        return sum(count for *_, count in self.buckets)

    def at(self, beyond: float) -> Bucket:
        """The bucket with the value that this share is above: nearest rank."""
        rank = min(max(1, ceil((1 - beyond) * self.count - 1e-9)), self.count)
        seen = 0
        for bucket in self.buckets:
            seen += bucket[2]
            if seen >= rank:
                break
        return bucket

    def percentile(self, p: float) -> float:
        """In ns: the middle of its bucket, as reports have it; of a power of two the geometric."""
        low, high, _ = self.at(1 - p / 100)
        if high < 2 * low or high <= SUBS:
            return max((low + high - 1) // 2, 1)
        return sqrt(max(low, 1) * (high - 1)) if high < _END else low


def latencies(side: Side, which: Which) -> Latencies:
    """Of one side, those of some operations and sources."""
    pieces = [
        (piece.seconds, _summed(powers, which))
        for piece, powers in zip(side.pieces, side.powers, strict=False)
    ]
    if side.io:
        fine = _summed(side.counts, which)
        return Latencies([(*bucket_bounds(index), fine[index]) for index in sorted(fine)], pieces)
    every = _together(powers for _, powers in pieces)
    return Latencies([(*_edges(power), every[power]) for power in sorted(every)], pieces)


def _edges(power: int) -> tuple[int, int]:
    low = 0 if power == _SHORTEST else 1 << power
    return low, _END if power == _LONGEST else 1 << power + 1


def _summed(powers: Powers, which: Which) -> dict[int, int]:
    return _together(counts for told, counts in powers.items() if which(*told))


def _together(several: Iterable[dict[int, int]]) -> dict[int, int]:
    found: dict[int, int] = {}
    for counts in several:
        for at, count in counts.items():
            found[at] = found.get(at, 0) + count
    return found


@dataclass(frozen=True, slots=True)
class PercentileRatio:
    """B's by A's. Its interval comes of those of both: G. Y. Zou and A. Donner, Construction of
    Confidence Limits about Effect Measures, Statistics in Medicine 27 (2008)."""

    p: float
    sides: tuple[Latencies, Latencies]
    found: Varied
    scales: tuple[float, float]

    @property
    def value(self) -> float:
        """The ratio."""
        a, b = (side.percentile(self.p) for side in self.sides)
        return b / a

    @property
    def units(self) -> int:
        """How many there are, on the side that has fewer."""
        return self.found.units

    def interval(self, level: float = LEVEL) -> tuple[float, float]:
        """Between what it lies, but for this probability."""
        (a, low_a, high_a), (b, low_b, high_b) = (self._limits(at, level) for at in (0, 1))
        down = sqrt((b - low_b) ** 2 + (high_a - a) ** 2)
        up = sqrt((high_b - b) ** 2 + (a - low_a) ** 2)
        return exp(b - a - down), exp(b - a + up)

    def surprise(self, margin: float) -> float:
        """The smallest level at which the interval lies within 1 / margin to margin, or outside."""

        def decides(level: float) -> bool:
            low, high = self.interval(level)
            inside = 1 / margin <= low and high <= margin
            return inside or low > margin or high < 1 / margin

        low, high = log(_FINEST), 0.0
        if not decides(1 - 1e-6):
            return 1.0
        for _ in range(12):
            middle = (low + high) / 2
            low, high = (low, middle) if decides(exp(middle)) else (middle, high)
        return exp(high)

    def _limits(self, at: int, level: float) -> tuple[float, float, float]:
        """One side's, and its limits, as logarithms: the shares of reads beyond that are likely,
        and the edges of the buckets which they lead to (R. S. Woodruff, Confidence Intervals for
        Medians and Other Position Measures, JASA 47 (1952)).
        """
        side, beyond = self.sides[at], 1 - self.p / 100
        spreads: list[Spread] = [parts[at] for parts in self.found.levels]
        half = max(quantile(level, freedom) * sqrt(variance) for variance, freedom in spreads)
        # Never less than that of independent reads
        least = quantile(level, side.count) * sqrt((1 - beyond) / beyond / side.count)
        half = min(max(half * self.scales[at], least), 500.0)
        low, _, _ = side.at(min(beyond * exp(half), 1.0))
        _, high, _ = side.at(beyond * exp(-half))
        middle = log(side.percentile(self.p))
        return middle, log(max(low, 1)), log(max(high, 1))


def compared(p: float, a: Side, b: Side, which: Which) -> PercentileRatio | Missing:
    """B's p-th percentile by A's."""
    beyond = 1 - p / 100
    sides = latencies(a, which), latencies(b, which)
    for name, side in zip("AB", sides, strict=True):
        if (found := int(beyond * side.count + 1e-9)) < LEAST_BEYOND:
            return Missing(f"{name} has {found} of at least {LEAST_BEYOND} beyond it")
    series, scales = [], []
    for name, side in zip("AB", sides, strict=True):
        power = _nearest(side, beyond)
        if power is None:
            return Missing(f"of {name} it is not kept finely enough how it varied")
        pieces = _above(side, power)
        above, every = sum(p.whole.total_ns for p in pieces), sum(p.whole.blocks for p in pieces)
        share = above / every
        series.append(pieces)
        scales.append(sqrt((1 - beyond) / beyond * share / (1 - share)))
    found_ = varied(block_time, series[0], series[1])
    if isinstance(found_, Missing):
        return found_
    return PercentileRatio(p, sides, found_, (scales[0], scales[1]))


def _nearest(side: Latencies, beyond: float) -> int | None:
    """The power of two that nearly this share is at or above; None if none is near enough."""
    counts = _together(powers for _, powers in side.pieces)
    whole, above = sum(counts.values()), 0
    best: tuple[float, int] | None = None
    for power in sorted(counts, reverse=True):
        above += counts[power]
        if 0 < above < whole:
            off = abs(log(above / (whole - above)) - log(beyond / (1 - beyond)))
            best = min(best or (off, power), (off, power))
    return best[1] if best and best[0] <= _NEAR else None


def _above(side: Latencies, power: int) -> list[Piece]:
    """Of each piece as blocks how many there were, and as time how many of them took so long."""
    key = Stratum("read", "unknown")
    pieces = []
    for seconds, powers in side.pieces:
        count = sum(powers.values())
        above = sum(each for at, each in powers.items() if at >= power)
        pieces.append(Piece(seconds, {key: Sum(count, count, above)} if count else {}))
    return pieces


def every_source(operation: Operation) -> Which:
    """All of one operation."""
    return lambda found, _: found == operation


def of_source(operation: Operation, source: Source) -> Which:
    """Those of one source."""
    return lambda found, served: (found, served) == (operation, source)


Ps: Sequence[float] = (50, 99)
