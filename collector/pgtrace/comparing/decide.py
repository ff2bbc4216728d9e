"""From intervals to verdicts, of which many are given at once."""

from collections.abc import Sequence
from typing import Literal

from .estimate import LEVEL, Estimated

Outcome = Literal["more", "less", "no_difference", "not_decided"]
"""Of B: more than A, by more than the margin; less; neither; or it cannot be told."""
MARGIN = 1.10


def outcome(found: Estimated, margin: float, level: float = LEVEL) -> Outcome:
    """What the interval of this level shows. Margins are ratios: 1.1, and so 1 / 1.1."""
    low, high = found.interval(level)
    if low > margin:
        return "more"
    if high < 1 / margin:
        return "less"
    return "no_difference" if 1 / margin <= low and high <= margin else "not_decided"


def outcomes(several: Sequence[Estimated], margin: float) -> list[Outcome]:
    """The same of several that nobody chose beforehand: all of them together are wrong as seldom as
    one (S. Holm, A Simple Sequentially Rejective Multiple Test Procedure, Scandinavian Journal of
    Statistics 6 (1979)).
    """
    found: list[Outcome] = ["not_decided"] * len(several)
    order = sorted((each.surprise(margin), at) for at, each in enumerate(several))
    for left, (surprise, at) in enumerate(order):
        level = LEVEL / (len(several) - left)
        if surprise > level:
            break
        found[at] = outcome(several[at], margin, level)
    return found
