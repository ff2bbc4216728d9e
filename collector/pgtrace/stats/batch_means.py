"""How certain a cost is: arithmetic over intervals that follow each other.

A cost is a ratio: all time by all blocks. How far off it may be is told by how much it varied
between parts of the session (batch means), not between reads: neighbouring reads share a cache, a
queue and a workload, and are not independent.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import exp, sqrt
from statistics import NormalDist
from typing import NamedTuple

LEAST_READS = 100
LEAST_BATCHES = 10
MOST_AUTOCORRELATION = 0.5
MOST_BATCHES = 30
"""More add little: B. Schmeiser, Batch Size Effects in the Analysis of Simulation Output,
Operations Research 30 (1982)."""

_STUDENT = (12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306)
"""Of 1 to 8 degrees of freedom, for which the expansion is not good enough."""


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


def mean(series: Sequence[Sum]) -> Figure:
    """Nanoseconds per block over intervals that follow each other.

    The variance is that of a ratio estimator over batches: W. G. Cochran, Sampling Techniques, 3rd
    edition, 6.4. Batches grow until neighbours hardly depend on each other: G. S. Fishman, Grouping
    Observations in Digital Simulation, Management Science 24 (1978).
    """
    too_few = _too_few(series)
    return Figure(missing=too_few) if too_few else _estimate([(series, 1)])


def ratio(above: Sequence[Sum], below: Sequence[Sum]) -> Figure:
    """Cost per block of `above` by that of `below`, interval by interval of one session.

    As mean(), with both in the same batches: what they share, such as a busy device, cancels.
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
    blocks = reads = total_ns = 0
    for each in sums:
        blocks += each.blocks
        reads += each.reads
        total_ns += each.total_ns
    return Sum(blocks, reads, total_ns)


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
    while (together := max(0.0, autocorrelation(batches))) > MOST_AUTOCORRELATION:
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


def autocorrelation(errors: Sequence[float]) -> float:
    """That of neighbours, corrected for its bias in short series: M. G. Kendall, Note on Bias in
    the Estimation of Autocorrelation, Biometrika 41 (1954).
    """
    squares = sum(error * error for error in errors)
    if not squares:
        return 0.0
    found = sum(a * b for a, b in pairwise(errors)) / squares
    return found + (1 + 3 * found) / len(errors)


def student(freedom: int) -> float:
    """Student's t, two-sided 95 %, within 0.1 %: Abramowitz and Stegun, table 26.10 and 26.7.5."""
    if freedom <= len(_STUDENT):
        return _STUDENT[freedom - 1]
    z = NormalDist().inv_cdf(0.975)
    first = (z**3 + z) / 4
    second = (5 * z**5 + 16 * z**3 + 3 * z) / 96
    third = (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384
    return z + first / freedom + second / freedom**2 + third / freedom**3


def _few(batches: int) -> str:
    return f"needs {_more(LEAST_BATCHES - batches, 'interval')} with such reads"


def _more(count: int, what: str) -> str:
    return f"{count:,} more {what if count == 1 else f'{what}s'}"
