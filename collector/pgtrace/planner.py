"""What reading a block cost, from the intervals of a capture: arithmetic, no I/O.

Time is nanoseconds, a block the server's. A cost is a ratio: all time by all blocks. How far off it
may be is told by how much it varied between parts of the session (batch means), not between reads:
neighbouring reads share a cache, a queue and a workload, and are not independent.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import exp, sqrt
from statistics import NormalDist
from typing import NamedTuple

from .capture import Capture, Cost, Pattern, Performer, Size, Source

LEAST_READS = 100
LEAST_BATCHES = 10
MOST_AUTOCORRELATION = 0.5
MOST_BATCHES = 30
"""More add little: B. Schmeiser, Batch Size Effects in the Analysis of Simulation Output,
Operations Research 30 (1982)."""
PATTERNS: tuple[Pattern, ...] = ("sequential", "near", "random")
UNTOLD: tuple[Pattern, ...] = ("first", "unknown")
SOURCES: tuple[Source, ...] = ("page_cache", "readahead_issued", "device", "wait", "unknown")
SIZES: tuple[Size, ...] = ("1", "2-4", "5-15", "16+")


class Sum(NamedTuple):
    """Reads of one interval, or of several."""

    blocks: int = 0
    reads: int = 0
    total_ns: int = 0

    def plus(self, other: "Sum") -> "Sum":
        """Both together."""
        return Sum(*(a + b for a, b in zip(self, other, strict=True)))


@dataclass(frozen=True, slots=True)
class Figure:
    """A number with its 95 % interval; or, in `missing`, why there is none."""

    value: float | None = None
    low: float | None = None
    high: float | None = None
    missing: str | None = None


@dataclass(frozen=True, slots=True)
class Cell:
    """Reads that agree in something, and nanoseconds per block of them."""

    blocks: int
    reads: int
    total_ns: int
    cost: Figure


@dataclass(frozen=True, slots=True)
class PatternCosts:
    """Reads of one pattern, by backends themselves; only what there was."""

    all: Cell
    by_source: dict[Source, Cell]
    by_size: dict[Size, Cell]


@dataclass(frozen=True, slots=True)
class SpaceCosts:
    """Reads of one tablespace; None is one that is not known."""

    tablespace: str | None
    patterns: dict[Pattern, PatternCosts]
    untold: dict[Pattern, Cell]
    """Of no known pattern: neither contiguous nor random for certain."""
    ratio: Figure
    """Random by sequential, wherever they were served."""
    device_ratio: Figure
    """The same, only of reads that waited for the device."""
    overlapped: dict[Performer, Sum]
    """Reads that others performed while the backend went on: in no figure."""


def costs(capture: Capture) -> list[SpaceCosts]:
    """Every tablespace's, the one that took most time first."""
    spaces: dict[str | None, int] = {}
    for cost in (cost for interval in capture.intervals for cost in interval.costs):
        spaces[cost.tablespace] = spaces.get(cost.tablespace, 0) + cost.total_ns
    names = sorted(spaces, key=lambda name: (-spaces[name], name or ""))
    return [_space(name, _Series(capture, name)) for name in names]


class _Series:
    """One tablespace's reads by interval, of which a selection is added up."""

    def __init__(self, capture: Capture, tablespace: str | None) -> None:
        self._intervals = [
            [cost for cost in interval.costs if cost.tablespace == tablespace]
            for interval in capture.intervals
        ]

    def of(self, wanted: Callable[[Cost], bool]) -> list[Sum]:
        """One sum per interval."""
        return [
            add_up(Sum(c.blocks, c.reads, c.total_ns) for c in costs if wanted(c))
            for costs in self._intervals
        ]

    def own(self, pattern: Pattern, source: Source | None = None) -> list[Sum]:
        """Of reads by backends themselves."""
        return self.of(
            lambda c: (
                c.performed_by == "backend" and c.pattern == pattern and source in (None, c.source)
            )
        )


def _space(name: str | None, series: _Series) -> SpaceCosts:
    patterns = {pattern: _pattern(pattern, series) for pattern in PATTERNS}
    untold = {pattern: mean_cost(series.own(pattern)) for pattern in UNTOLD}
    others: tuple[Performer, ...] = ("io worker", "io_uring")
    overlapped = {
        performer: add_up(series.of(lambda c, p=performer: c.performed_by == p))  # type: ignore[misc]
        for performer in others
    }
    return SpaceCosts(
        tablespace=name,
        patterns=patterns,
        untold={pattern: cell for pattern, cell in untold.items() if cell.reads},
        ratio=_ratio(series),
        device_ratio=_ratio(series, "device"),
        overlapped={performer: total for performer, total in overlapped.items() if total.reads},
    )


def _ratio(series: _Series, source: Source | None = None) -> Figure:
    """None where most is read ahead of need: then what backends read themselves is the rest."""
    compared: tuple[Pattern, ...] = ("random", "sequential")
    for pattern in compared:
        own = add_up(series.own(pattern))
        others = add_up(
            series.of(lambda c, p=pattern: c.performed_by != "backend" and c.pattern == p)  # type: ignore[misc]
        )
        if others.blocks > own.blocks:
            return Figure(missing=f"most {pattern} blocks were not read by backends themselves")
    return ratio(series.own("random", source), series.own("sequential", source))


def _pattern(pattern: Pattern, series: _Series) -> PatternCosts:
    sources = {source: mean_cost(series.own(pattern, source)) for source in SOURCES}
    sizes = {
        size: mean_cost(
            series.of(
                lambda c, s=size: (  # type: ignore[misc]
                    c.performed_by == "backend" and c.pattern == pattern and c.size == s
                )
            )
        )
        for size in SIZES
    }
    return PatternCosts(
        mean_cost(series.own(pattern)),
        {source: cell for source, cell in sources.items() if cell.reads},
        {size: cell for size, cell in sizes.items() if cell.reads},
    )


def mean_cost(series: Sequence[Sum]) -> Cell:
    """Nanoseconds per block over intervals that follow each other.

    The variance is that of a ratio estimator over batches: W. G. Cochran, Sampling Techniques, 3rd
    edition, 6.4. Batches grow until neighbours do not depend on each other: G. S. Fishman, Grouping
    Observations in Digital Simulation, Management Science 24 (1978).
    """
    total = add_up(series)
    too_few = _too_few(series)
    return Cell(*total, Figure(missing=too_few) if too_few else _estimate([(series, 1)]))


def ratio(above: Sequence[Sum], below: Sequence[Sum]) -> Figure:
    """Cost per block of `above` by that of `below`, interval by interval of one session.

    As mean_cost(), with both in the same batches: what they share, such as a busy device, cancels.
    """
    missing = [
        f"{name} {too_few}"
        for name, series in (("random", above), ("sequential", below))
        if (too_few := _too_few(series))
    ]
    if missing:
        return Figure(missing=", ".join(missing))
    return _estimate([(above, 1), (below, -1)])


def add_up(sums: Iterable[Sum]) -> Sum:
    """All of them together."""
    total = Sum()
    for each in sums:
        total = total.plus(each)
    return total


def _too_few(series: Sequence[Sum]) -> str | None:
    """What is missing, if there is too little to say anything."""
    total = add_up(series)
    if total.reads < LEAST_READS:
        return f"needs {_more(LEAST_READS - total.reads, 'read')}"
    if not total.blocks or not total.total_ns:
        return "no whole block took any time"
    shares = [part.blocks / total.blocks for part in series]
    batches = len(_batches(shares, shares))
    return _few(batches) if batches < LEAST_BATCHES else None


def _estimate(terms: Sequence[tuple[Sequence[Sum], int]]) -> Figure:
    """The product of costs, each to the power of 1 or -1."""
    totals = [add_up(series) for series, _ in terms]
    value = 1.0
    for total, (_, power) in zip(totals, terms, strict=True):
        value *= (total.total_ns / total.blocks) ** power
    weights, errors = [], []
    for parts in zip(*(series for series, _ in terms), strict=True):
        # Each interval's share of all blocks, and of how far off the logarithm is
        weight = error = 0.0
        for part, total, (_, power) in zip(parts, totals, terms, strict=True):
            share = part.blocks / total.blocks
            weight += share / len(terms)
            error += power * (part.total_ns / total.total_ns - share)
        if weight:
            weights.append(weight)
            errors.append(error)
    return _interval(value, weights, errors)


def _interval(value: float, weights: Sequence[float], errors: Sequence[float]) -> Figure:
    batches = _batches(weights, errors)
    if len(batches) < LEAST_BATCHES:
        return Figure(missing=_few(len(batches)))
    while (together := _autocorrelation(batches)) > MOST_AUTOCORRELATION:
        if len(batches) // 2 < LEAST_BATCHES:
            return Figure(
                missing=f"it drifts, needs {_more(len(weights), 'interval')} with such reads"
            )
        even = len(batches) // 2 * 2
        pairs = [a + b for a, b in zip(batches[:even:2], batches[1:even:2], strict=True)]
        batches = [*pairs[:-1], pairs[-1] + sum(batches[even:])]
    m = len(batches)
    variance = m / (m - 1) * sum(error * error for error in batches)
    # What dependence is left, as in a first-order autoregression
    variance *= (1 + together) / (1 - together)
    spread = student(m - 1) * sqrt(variance)
    return Figure(value, value / exp(spread), value * exp(spread))


def _batches(weights: Sequence[float], errors: Sequence[float]) -> list[float]:
    """Errors of neighbouring intervals added up, until each batch has its share of the blocks."""
    batches = []
    weight = error = 0.0
    for more, off in zip(weights, errors, strict=True):
        weight += more
        error += off
        if weight * MOST_BATCHES >= 1 - 1e-9:
            batches.append(error)
            weight = error = 0.0
    if batches:
        batches[-1] += error
    return batches


def _autocorrelation(batches: Sequence[float]) -> float:
    """That of lag 1, corrected for its bias in short series; never below 0."""
    squares = sum(error * error for error in batches)
    if not squares:
        return 0.0
    m = len(batches)
    found = sum(a * b for a, b in pairwise(batches)) / squares
    return max(0.0, found + (1 + 3 * found) / m)


def student(freedom: int) -> float:
    """Student's t, two-sided 95 %: Abramowitz and Stegun 26.7.5, within 0.1 % from 9 on."""
    z = NormalDist().inv_cdf(0.975)
    first = (z**3 + z) / 4
    second = (5 * z**5 + 16 * z**3 + 3 * z) / 96
    third = (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384
    return z + first / freedom + second / freedom**2 + third / freedom**3


def _few(batches: int) -> str:
    return f"needs {_more(LEAST_BATCHES - batches, 'interval')} with such reads"


def _more(count: int, what: str) -> str:
    return f"{count:,} more {what if count == 1 else f'{what}s'}"
