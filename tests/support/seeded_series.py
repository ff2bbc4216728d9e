"""Series of reads of which the truth is known, by the second: for verdicts to be counted."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from math import exp, log, sqrt
from random import Random

from pgtrace.comparing.decide import MARGIN, outcome
from pgtrace.comparing.estimate import Missing, estimate
from pgtrace.comparing.pieces import Piece, Stratum
from pgtrace.comparing.statistics import block_time
from pgtrace.stats.batch_means import Sum

KEY = Stratum("read", "device", "random", "1")
SLOW = 20
"""Times as long as another takes a slow read."""
ONE_SLOW_OF = 16
NOISE = 0.5
"""Of the logarithm of a read, its standard deviation."""
LEVEL_NOISE = 0.25
"""The same of seconds, where those are correlated."""
DRIFT = 0.2
"""By so much the last second is slower than the first."""


@dataclass(frozen=True)
class Series:
    """How reads of one session vary."""

    seconds: int
    reads: int = 200
    """In a second, about."""
    correlation: float = 0.0
    """Between one read and the next."""
    slow: bool = False
    """One of 16 is slow."""
    drift: bool = False
    of_seconds: float | None = None
    """Seconds vary too, and this is the correlation between one and the next."""

    def with_seconds(self, seconds: int) -> "Series":
        """The same over another time."""
        return replace(self, seconds=seconds)

    def pieces(self, rng: Random) -> list[Piece]:
        """One session, whose mean is 1 ms per block without slow reads and drift."""
        levels = self._levels(rng)
        level, step = rng.gauss(0, 1), sqrt(1 - self.correlation**2)
        found = []
        for level_of_second in levels:
            number = max(1, round(rng.gauss(self.reads, sqrt(self.reads))))
            total = 0.0
            for _ in range(number):
                level = self.correlation * level + step * rng.gauss(0, 1)
                latency = exp(NOISE * level - NOISE**2 / 2)
                if self.slow and rng.random() < 1 / ONE_SLOW_OF:
                    latency *= SLOW
                total += latency
            total_ns = round(total * level_of_second * 1e6)
            found.append(Piece(1.0, {KEY: Sum(number, number, total_ns)}))
        return found

    def _levels(self, rng: Random) -> Iterator[float]:
        last = self.seconds - 1
        own = rng.gauss(0, 1)
        for second in range(self.seconds):
            level = 1 + DRIFT * (second / last - 0.5) if self.drift else 1.0
            if self.of_seconds is not None:
                own = self.of_seconds * own + sqrt(1 - self.of_seconds**2) * rng.gauss(0, 1)
                level *= exp(LEVEL_NOISE * own - LEVEL_NOISE**2 / 2)
            yield level


def verdicts(series: Series, aparts: list[float], times: int, seed: object) -> dict[str, float]:
    """Of so many pairs of sessions: `held`, the share of intervals that hold the truth; `shown`,
    that of pairs which have one; and `1.2 more`, of each ratio apart the share of each verdict.
    """
    rng, found = Random(f"{seed} {series}"), Counter[str]()
    for _ in range(times):
        a, b = series.pieces(rng), series.pieces(rng)
        for apart in aparts:
            ratio = estimate(block_time, a, _slower(b, apart))
            if isinstance(ratio, Missing):
                found[f"{apart:g} not_decided"] += 1
                continue
            found[f"{apart:g} {outcome(ratio, MARGIN)}"] += 1
            if apart == aparts[0]:
                low, high = ratio.interval()
                found["shown"] += 1
                found["held"] += log(low) <= log(apart) <= log(high)
    shares = {key: number / times for key, number in found.items()}
    shares["held"] = found["held"] / found["shown"] if found["shown"] else 1.0
    return shares


def _slower(pieces: list[Piece], apart: float) -> list[Piece]:
    return [
        Piece(
            p.seconds,
            {k: s._replace(total_ns=round(apart * s.total_ns)) for k, s in p.sums.items()},
        )
        for p in pieces
    ]
