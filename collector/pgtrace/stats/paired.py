"""What paired runs say: a ratio with its 95 % interval, and whether that is a difference.

Runs of one number followed each other closely, in an order drawn at random: what slows a machine
down for a while slows both of a pair, and cancels in their ratio. One pair is one observation,
however many reads it made: reads of one run share a cache, a queue and a neighbour.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from math import ceil, exp, log, sqrt
from statistics import fmean, stdev

from .. import units
from .batch_means import student

SMALL = 1.10
"""Two places on one disk may differ so much: what lies within is no difference that matters, and
what reaches into it is not called one."""
EQUIVALENT = 1.25
"""An interval that holds 1 and lies within 0.80 to 1.25 is taken for "no difference", as two drugs
are for equivalent: D. J. Schuirmann, A comparison of the two one-sided tests procedure and the
power approach, J. Pharmacokinetics and Biopharmaceutics 15 (1987), there with 90 % intervals."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """A geometric mean over runs. `low` and `high`: its 95 % interval, None of a single run."""

    value: float
    low: float | None
    high: float | None
    runs: int


def ratio(above: Mapping[int, float], below: Mapping[int, float]) -> Estimate | None:
    """`above` by `below`, of the runs that have both; both by run, and positive.

    None if no run has both.
    """
    return mean([above[run] / below[run] for run in sorted(above.keys() & below.keys())])


def mean(values: list[float]) -> Estimate | None:
    """The geometric mean of positive values, one per run; Student's t on their logarithms."""
    if not values:
        return None
    logs = [log(value) for value in values]
    centre = fmean(logs)
    if len(logs) < 2:
        return Estimate(exp(centre), None, None, len(logs))
    spread = student(len(logs) - 1) * stdev(logs) / sqrt(len(logs))
    return Estimate(exp(centre), exp(centre - spread), exp(centre + spread), len(logs))


def verdict(found: Estimate, difference: str) -> str:
    """Say what an interval shows; `difference` are the words for one, with `{}` for its size.

    Three answers: a difference; none, up to so many percent; or that this is not decided. Runs
    without any difference are called one in less than 1 of 20, and two that differ by a quarter
    are called the same in at most 1 of 40 (tests/unit/test_lab_paired.py counts).
    """
    if found.low is None or found.high is None:
        return "not decided: one run has no interval"
    low, high = found.low, found.high
    size = f"{units.number(low)} to {units.number(high)} times"
    most = max(high, 1 / low)
    if low <= 1 <= high:
        if most > EQUIVALENT:
            return f"not decided: {size}; more runs would tell"
        return f"no difference larger than {max(1, ceil(100 * (most - 1) - 1e-9))} %"
    if most <= SMALL:
        return f"no difference that matters: {size}"
    if max(low, 1 / high) < SMALL:
        return f"not decided: {size}, which may be too little to matter; more runs would tell"
    return difference.format(size)
