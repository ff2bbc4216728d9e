"""Which random_page_cost would have cost least: arithmetic over timed plans, no I/O.

A point is a query under circumstances: selectivity, correlation, cached share and so on. At each
one every plan was timed, and the planner was asked which plan it picks at each value. The regret
of a value is the time of the plans that it picks, minus that of the fastest ones. Seconds.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import exp, log, sqrt
from statistics import fmean, stdev
from typing import Literal

from ...stats.batch_means import student

Plan = Literal["sequential", "bitmap", "index"]
PLANS: tuple[Plan, ...] = ("sequential", "bitmap", "index")
TOLERATED = 0.05
"""Of the fastest plans' time: so much more regret than the least is as good as the least."""


@dataclass(frozen=True, slots=True)
class Timed:
    """One point: seconds of each plan, by run, and the plan picked at each value."""

    times: Mapping[Plan, Sequence[float]]
    picked: Sequence[Plan]

    @property
    def fastest(self) -> Plan:
        """On average over the runs."""
        return min(self.times, key=lambda plan: fmean(self.times[plan]))


@dataclass(frozen=True, slots=True)
class Excess:
    """How much longer than with the best value, as a share of the fastest plans' time."""

    share: float
    spread: float
    """Half of its 95 % interval over the runs."""

    @property
    def is_in(self) -> bool:
        """For certain within what is tolerated."""
        return self.share + self.spread <= TOLERATED

    @property
    def is_out(self) -> bool:
        """For certain not."""
        return self.share - self.spread > TOLERATED


@dataclass(frozen=True, slots=True)
class Range:
    """Indexes into the values: the best of a range, its ends, and one in its middle."""

    best: int
    low: int
    high: int
    middle: int


def regrets(points: Sequence[Timed]) -> list[list[float]]:
    """Seconds by run and value, all points added up."""
    values, runs = len(points[0].picked), len(points[0].times["sequential"])
    fastest = [point.fastest for point in points]
    return [
        [
            sum(
                point.times[point.picked[value]][run] - point.times[quick][run]
                for point, quick in zip(points, fastest, strict=True)
            )
            for value in range(values)
        ]
        for run in range(runs)
    ]


def fastest_time(points: Sequence[Timed]) -> float:
    """Seconds of the fastest plans, all points added up, the mean of the runs."""
    return sum(fmean(point.times[point.fastest]) for point in points)


def best_range(points: Sequence[Timed], values: Sequence[float]) -> Range:
    """The values around the best one whose regret is tolerated. `values` rise."""
    means = [fmean(each) for each in zip(*regrets(points), strict=True)]
    most = min(means) + TOLERATED * fastest_time(points)
    # Of several equally good ones that in the middle: it is farthest from both ends
    least = [index for index, regret in enumerate(means) if regret == min(means)]
    low = high = best = least[len(least) // 2]
    while low > 0 and means[low - 1] <= most:
        low -= 1
    while high < len(means) - 1 and means[high + 1] <= most:
        high += 1
    centre = sqrt(values[low] * values[high])
    middle = min(range(low, high + 1), key=lambda index: abs(log(values[index] / centre)))
    return Range(best, low, high, middle)


def excess(points: Sequence[Timed], value: int, best: int) -> Excess | None:
    """How far one value is from the best; None of a single run."""
    found = [run[value] - run[best] for run in regrets(points)]
    return _excess(found, fastest_time(points))


def held_out(points: Sequence[Timed], values: Sequence[float]) -> Excess | None:
    """Choose a value on every second point, judge it on the others; both ways, added up.

    None of a single run, or of a single point.
    """
    halves = points[::2], points[1::2]
    if not all(halves):
        return None
    sums = [0.0] * len(points[0].times["sequential"])
    for known, unknown in (halves, halves[::-1]):
        chosen, best = best_range(known, values).middle, best_range(unknown, values).best
        for run, regret in enumerate(regrets(unknown)):
            sums[run] += regret[chosen] - regret[best]
    return _excess(sums, fastest_time(points))


def crossing(
    selectivities: Sequence[float], first: Sequence[float], then: Sequence[float]
) -> float | None:
    """From which selectivity on `then` is faster than `first`, which was faster before.

    Between points the logarithms are straight lines. None if that does not happen, within the
    points. `selectivities` rise; all numbers are positive.
    """
    off = [log(a / b) for a, b in zip(first, then, strict=True)]
    for index in range(1, len(off)):
        before, after = off[index - 1], off[index]
        if before < 0 <= after:
            low, high = map(log, selectivities[index - 1 : index + 1])
            return exp(low + (high - low) * before / (before - after))
    return None


def _excess(seconds: Sequence[float], whole: float) -> Excess | None:
    if len(seconds) < 2:
        return None
    spread = student(len(seconds) - 1) * stdev(seconds) / sqrt(len(seconds))
    return Excess(fmean(seconds) / whole, spread / whole)
