"""How certain a ratio of two sessions is: an interval from how much it varies within each.

Neighbouring reads share a cache, a queue and a workload: they are not independent, and no unit
here. Units are blocks of intervals that follow each other, with as much in each.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import exp, log
from typing import Protocol

from ..stats.batch_means import autocorrelation
from ..stats.student_t import error, quantile, tail
from .pieces import Piece, together, without

LEAST_UNITS = 10
MOST_UNITS = 30
LEAST_EFFECTIVE = 7.0
"""Units of uneven weight are as good as so many even ones, at least: L. Kish, Survey Sampling
(1965), 11.7."""
_LEVELS = (30, 15, 10)
"""At most so many units are made of a session: what varies slowly is seen in large ones alone."""
_MOST_DEPENDENT = 0.8
"""Correlation of neighbouring units that is reckoned with at most: what has more is a trend."""
_TREND = 0.5
"""Correlation from which on units of a short session follow a trend, for all that it shows."""
_SHORT = 100
"""Intervals; in a longer one large units show by themselves what varies slowly."""
_LEAST_FREEDOM = 4.0
"""Degrees of freedom, of units that hang together: fewer would make a trend hide everything."""
_LIKE = 2.0
"""Units of both sides that are no more often as long vary alike: one correlation is of both."""
_ROUNDING = 1e-12
"""Errors that are no more are those of floating point: one side has no part in that statistic."""
LEVEL = 0.05


class Estimated(Protocol):
    """A ratio of B by A, of which it is known how certain it is."""

    @property
    def value(self) -> float:
        """The ratio."""

    @property
    def units(self) -> int:
        """How many there are, on the side that has fewer."""

    def interval(self, level: float = LEVEL) -> tuple[float, float]:
        """Between what it lies, but for this probability."""

    def surprise(self, margin: float) -> float:
        """The smallest level at which the interval lies within 1 / margin to margin, or outside."""


@dataclass(frozen=True, slots=True)
class Missing:
    """There is no estimate, or no verdict by it."""

    why: str


@dataclass(frozen=True, slots=True)
class Estimate:
    """That of a ratio which varies by so much, at each level of units."""

    log_value: float
    spreads: tuple[tuple[float, float], ...]
    """Standard errors of the logarithm, each with its degrees of freedom. The widest counts."""
    units: int

    @property
    def value(self) -> float:
        """The ratio."""
        return exp(self.log_value)

    def interval(self, level: float = LEVEL) -> tuple[float, float]:
        """Between what it lies, but for this probability."""
        half = min(max(quantile(level, freedom) * off for off, freedom in self.spreads), 500)
        return exp(self.log_value - half), exp(self.log_value + half)

    def surprise(self, margin: float) -> float:
        """The smallest level at which the interval lies within 1 / margin to margin, or outside."""
        away = abs(abs(self.log_value) - log(margin))
        return max(
            2 * tail(away / off, freedom) if off else float(away == 0)
            for off, freedom in self.spreads
        )


Statistic = Callable[[Piece, Piece], float | None]
"""The logarithm of what B is by A; None if there is none."""
Weight = Callable[[Piece], float]
Spread = tuple[float, float]
"""A variance of the logarithm, and its degrees of freedom."""


def by_blocks(piece: Piece) -> float:
    """The weight of a piece for what is told of a block."""
    return piece.whole.blocks


def by_time(piece: Piece) -> float:
    """The weight of a piece for what is told of a second."""
    return piece.seconds


@dataclass(frozen=True, slots=True)
class Varied:
    """How much a statistic varied within each side."""

    log_value: float
    levels: tuple[tuple[Spread, Spread], ...]
    """A's and B's, at each level of units."""
    units: int


def estimate(
    statistic: Statistic, a: Sequence[Piece], b: Sequence[Piece], weight: Weight = by_blocks
) -> Estimate | Missing:
    """How large a statistic is, and how certain; as varied()."""
    found = varied(statistic, a, b, weight)
    if isinstance(found, Missing):
        return found
    spreads = dict.fromkeys(error([*parts]) for parts in found.levels)
    return Estimate(found.log_value, tuple(spreads), found.units)


def varied(
    statistic: Statistic, a: Sequence[Piece], b: Sequence[Piece], weight: Weight = by_blocks
) -> Varied | Missing:
    """How large a statistic is, and how much it varies.

    Pieces are put together until each has its share of the weight, 1 of 30 at least; then by two
    and by three, as long as ten are left. Each level has a variance: by leaving out one unit at a
    time (the jackknife: B. Efron and R. Tibshirani, An Introduction to the Bootstrap (1993),
    chapter 11), and with what neighbours have in common, as in a first-order autoregression. What
    varies slowly makes large units vary more than independent ones would: so the widest interval
    of all levels is taken.
    """
    sides = [_units(pieces, weight) for pieces in (a, b)]
    for name, units in zip("AB", sides, strict=True):
        if len(units) < LEAST_UNITS:
            stretches = f"{len(units)} stretches of time, of {LEAST_UNITS} at least"
            return Missing(f"{name} has work in {stretches}")
        if _effective([weight(unit) for unit in units]) < LEAST_EFFECTIVE:
            return Missing(f"most of {name} is in few stretches of time")
    wholes = [together(units) for units in sides]
    value = statistic(*wholes)
    if value is None:
        return Missing("there is nothing to compare")
    short = [sum(1 for piece in pieces if weight(piece)) < _SHORT for pieces in (a, b)]
    levels = []
    for most in _LEVELS:
        grouped = [_grouped(units, most) for units in sides]
        spread = _spread(statistic, value, wholes, grouped, short)
        if spread is None:
            return Missing("it hangs on one stretch of time")
        levels.append(spread)
    return Varied(value, tuple(dict.fromkeys(levels)), min(map(len, sides)))


def _units(pieces: Sequence[Piece], weight: Weight) -> list[Piece]:
    """Neighbours together, until each has its share."""
    least = sum(map(weight, pieces)) / MOST_UNITS * (1 - 1e-9)
    found: list[Piece] = []
    waiting: list[Piece] = []
    gathered = 0.0
    for piece in pieces:
        waiting.append(piece)
        gathered += weight(piece)
        if gathered >= least and gathered > 0:
            found.append(together(waiting))
            waiting, gathered = [], 0.0
    if waiting and found:
        found[-1] = together([found[-1], *waiting])
    return found


def _grouped(units: Sequence[Piece], most: int) -> list[Piece]:
    """By as many as leave no more than `most`, and no fewer than ten."""
    each = -(-len(units) // most)
    while each > 1 and len(units) // each < LEAST_UNITS:
        each -= 1
    whole = len(units) // each
    groups = [list(units[at * each : (at + 1) * each]) for at in range(whole)]
    groups[-1] += units[whole * each :]
    return [together(group) if len(group) > 1 else group[0] for group in groups]


def _effective(weights: Sequence[float]) -> float:
    squares = sum(weight * weight for weight in weights)
    return sum(weights) ** 2 / squares if squares else 0.0


def _spread(
    statistic: Statistic,
    value: float,
    wholes: Sequence[Piece],
    grouped: Sequence[Sequence[Piece]],
    short: Sequence[bool],
) -> tuple[Spread, Spread] | None:
    """That of A's units, and that of B's; None if one of them cannot be left out."""
    errors: list[list[float]] = []
    for side, units in enumerate(grouped):
        off = []
        for unit in units:
            sides = [*wholes]
            sides[side] = without(wholes[side], unit)
            left = statistic(*sides)
            if left is None:
                return None
            off.append((value - left) * (len(units) - 1) / len(units))
        centre = sum(off) / len(off)
        away = [each - centre for each in off]
        errors.append(away if max(map(abs, away)) > _ROUNDING else [0.0] * len(away))
    dependent = [autocorrelation(each) for each in errors]
    lengths = [whole.seconds / len(units) for whole, units in zip(wholes, grouped, strict=True)]
    if max(lengths) <= _LIKE * min(lengths):
        known = [rho for rho, each in zip(dependent, errors, strict=True) if any(each)]
        dependent = [sum(known) / max(1, len(known))] * 2
    one, other = (
        _variance(own, rho, short=is_short)
        for own, rho, is_short in zip(errors, dependent, short, strict=True)
    )
    return one, other


def _variance(errors: Sequence[float], dependent: float, *, short: bool) -> Spread:
    rho = min(max(dependent, 0.0), _MOST_DEPENDENT)
    inflated = (1 + rho) / (1 - rho)
    m = len(errors)
    variance = m / (m - 1) * sum(each * each for each in errors) * inflated
    freedom = max(_LEAST_FREEDOM, (m - 1) / inflated)
    if short and rho > _TREND:
        # What has moved so far may move as far again
        half = m * (max(errors) - min(errors)) / 2
        variance = max(variance, (half / quantile(LEVEL, freedom)) ** 2)
    return variance, freedom
