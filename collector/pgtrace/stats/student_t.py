"""Student's t for any number of degrees of freedom, also one that is no integer."""

from functools import lru_cache
from math import exp, inf, lgamma, log, sqrt

_TINY = 1e-300
_EXACT = 1e-14
_TERMS = 10_000


@lru_cache(maxsize=4096)
def quantile(both: float, freedom: float) -> float:
    """The t that is exceeded, in either direction, with the probability `both`: 0.05 of ten degrees
    of freedom is 2.228.
    """
    low, high = 0.0, 1.0
    while 2 * tail(high, freedom) > both:
        low, high = high, 2 * high
    for _ in range(60):
        middle = (low + high) / 2
        if 2 * tail(middle, freedom) > both:
            low = middle
        else:
            high = middle
    return high


def tail(t: float, freedom: float) -> float:
    """The probability of more than `t`: Abramowitz and Stegun, 26.7.1 by 26.5.2."""
    if t < 0:
        return 1 - tail(-t, freedom)
    if t == inf:
        return 0.0
    return _incomplete_beta(freedom / 2, 0.5, freedom / (freedom + t * t)) / 2


def _incomplete_beta(a: float, b: float, x: float) -> float:
    """The regularised one, by its continued fraction: Abramowitz and Stegun, 26.5.8."""
    if x <= 0 or x >= 1:
        return float(x >= 1)
    if x > (a + 1) / (a + b + 2):
        return 1 - _incomplete_beta(b, a, 1 - x)
    factor = exp(lgamma(a + b) - lgamma(a) - lgamma(b) + a * log(x) + b * log(1 - x)) / a
    # Evaluated from its front: W. J. Lentz, Applied Optics 15 (1976), 668
    value = c = 1.0
    d = 0.0
    for term in range(1, _TERMS):
        half = term // 2
        if term % 2:
            part = -(a + half) * (a + b + half) * x / ((a + 2 * half) * (a + 2 * half + 1))
        else:
            part = half * (b - half) * x / ((a + 2 * half - 1) * (a + 2 * half))
        d = 1 / (1 + part * d or _TINY)
        c = 1 + part / c or _TINY
        value *= c * d
        if abs(c * d - 1) < _EXACT:
            break
    return factor / value


def freedom_of_sum(parts: list[tuple[float, float]]) -> float:
    """Degrees of freedom of a sum of variances, each given with its own: B. L. Welch, The
    Generalization of Student's Problem when Several Different Population Variances Are Involved,
    Biometrika 34 (1947).
    """
    whole = sum(variance for variance, _ in parts)
    if not whole:
        return min(freedom for _, freedom in parts)
    return 1 / sum((variance / whole) ** 2 / freedom for variance, freedom in parts)


def error(parts: list[tuple[float, float]]) -> tuple[float, float]:
    """The standard error of a sum of independent estimates, and its degrees of freedom."""
    return sqrt(sum(variance for variance, _ in parts)), freedom_of_sum(parts)
