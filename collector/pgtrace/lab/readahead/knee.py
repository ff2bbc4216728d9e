"""Where a sweep stops to gain, and where it loses again.

The knee is the smallest step whose time is within 5 % of the best one's. What is compared are runs
of one number (paired.py), so that the interval of each step's ratio to the best one says what is
certain: the knee is not below the first step that may be within 5 %, and not above the first that
certainly is. The turn is the step above the best from which on all are more than 5 % slower. Each
interval is of one comparison, and the best step is the one that happened to be fastest.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from ...stats import paired
from .figures import Step

NEAR = 1.05
"""How much slower than the best is as good."""


@dataclass(frozen=True, slots=True)
class Knee:
    """Of the steps measured: where it is by the means, and between which it certainly is."""

    at: Step
    low: Step
    high: Step
    best: Step
    by_best: dict[int, paired.Estimate]
    """Time by that of the best step, of each."""


@dataclass(frozen=True, slots=True)
class Turn:
    """From which steps on all are slower: possibly, by the means, certainly; None from none."""

    possible: Step | None
    likely: Step | None
    certain: Step | None
    last: Step
    """The largest that was measured."""


def knee_of(scans: Sequence[Step]) -> Knee | None:
    """Where more read-ahead stops to help; None without steps to compare."""
    scans = [step for step in scans if step.time.value]
    if len(scans) < 2:
        return None
    best = min(scans, key=lambda step: step.time.value)
    ratios = {s.sectors: paired.ratio(s.elapsed_s, best.elapsed_s) for s in scans}
    by_best = {sectors: ratio for sectors, ratio in ratios.items() if ratio}
    compared = [s for s in scans if s.sectors in by_best]
    at = next(s for s in compared if by_best[s.sectors].value <= NEAR)
    # Of a single run nothing is certain
    low = next(s for s in compared if (by_best[s.sectors].low or 0) <= NEAR)
    high = next(s for s in compared if (by_best[s.sectors].high or NEAR + 1) <= NEAR or s is best)
    return Knee(at, low, high, best, by_best)


def turn_of(knee: Knee, scans: Sequence[Step]) -> Turn | None:
    """Where more is slower again; None if nothing above the best was measured."""
    above = [s for s in scans if s.sectors > knee.best.sectors and s.sectors in knee.by_best]
    if not above:
        return None
    ratios = [knee.by_best[step.sectors] for step in above]
    return Turn(
        possible=_from(above, [ratio.high is None or ratio.high > NEAR for ratio in ratios]),
        likely=_from(above, [ratio.value > NEAR for ratio in ratios]),
        certain=_from(above, [ratio.low is not None and ratio.low > NEAR for ratio in ratios]),
        last=above[-1],
    )


def _from(above: Sequence[Step], slower: Sequence[bool]) -> Step | None:
    """The first from which on all are."""
    found = None
    for step, is_slower in zip(reversed(above), reversed(slower), strict=True):
        if not is_slower:
            break
        found = step
    return found
