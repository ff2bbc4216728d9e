"""How often `pgtrace compare` is wrong: `scripts/bench/compare_verdicts` calls it.

Pairs of sessions are drawn whose truth is known, with one seed for all: the same numbers come out
each time.
"""

import argparse
import os
import sys
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path

import bench

sys.path.append(str(Path(__file__).parents[2] / "tests/support"))
from seeded_series import Series, verdicts

PAGE = Path(__file__).parents[2] / "docs/comparing.md"
APART = [1.0, 1.05, 1.2, 2.0]
LEAST_HELD, MOST_FALSE, LEAST_FOUND = 0.93, 0.065, 0.95
KINDS = [
    Series(0),
    Series(0, correlation=0.5),
    Series(0, correlation=0.9),
    Series(0, slow=True),
    Series(0, correlation=0.5, slow=True),
    Series(0, correlation=0.9, slow=True),
    Series(0, drift=True),
    Series(0, correlation=0.9, drift=True),
]
SECONDS = (10, 30, 60)
HARD = [
    Series(seconds, reads=20, of_seconds=correlation)
    for seconds in (30, 60, 120, 300)
    for correlation in (0.5, 0.9)
]
"""A session of 30 s in which seconds hang together over 20 is two or three units: no statistic can
know how it varies. What that costs is counted, and no goal is set."""


def main() -> int:
    """Return 0 if the goals are met, 1 if not."""
    parser = argparse.ArgumentParser(
        prog="scripts/bench/compare_verdicts",
        description="Draw pairs of sessions of 10 seconds and more, with reads that are "
        "correlated, slow one time in 16, or drift, 0, 5, 20 and 100 %% apart; count how often the "
        "95 %% interval of the time per block holds the truth, and how often the verdict is false.",
    )
    parser.add_argument("--times", type=int, default=2000, help="pairs of each kind (2000)")
    parser.add_argument("--update", action="store_true", help="write it into docs/comparing.md")
    args = parser.parse_args()
    every = [kind.with_seconds(seconds) for seconds in SECONDS for kind in KINDS] + HARD
    lines, missed = [_head(args.times)], 0
    with ProcessPoolExecutor(os.cpu_count()) as pool:
        count = partial(verdicts, aparts=APART, times=args.times, seed=19)
        for series, found in zip(every, pool.map(count, every), strict=True):
            gated = series.of_seconds is None
            line, fails = _row(series, found, gated=gated)
            missed += fails
            if series == HARD[0]:
                lines += ["", "Seconds, not reads, hang together; no goals:"]
            lines.append(line)
            print(line, file=sys.stderr, flush=True)
    words = "met" if not missed else f"missed {missed} times"
    goals = f"held {100 * LEAST_HELD:.0f} %, false {100 * MOST_FALSE:.1f} %"
    lines += ["", f"Goals ({goals}, found at 100 % {100 * LEAST_FOUND:.0f} %): {words}"]
    text = "\n".join(lines)
    print(text)
    if args.update:
        bench.update(PAGE, "compare_verdicts", text)
    return 1 if missed else 0


def _head(times: int) -> str:
    return (
        f"{times:,} pairs of each kind; percent of them\n\n"
        "                                       0 % apart    5 %   20 % apart    100 %\n"
        "seconds, reads that are          held  false  same  false  found false  found"
    )


def _row(series: Series, found: dict[str, float], *, gated: bool) -> tuple[str, int]:
    def share(apart: float, *kinds: str) -> float:
        return sum(found.get(f"{apart:g} {kind}", 0.0) for kind in kinds)

    false = [share(1, "more", "less"), share(1.05, "more", "less")]
    wrong = share(1.2, "less", "no_difference")
    found_100 = share(2, "more")
    missed = (
        (found["held"] < LEAST_HELD)
        + sum(each > MOST_FALSE for each in (*false, wrong))
        + (found_100 < LEAST_FOUND)
    )
    cells = [found["held"], false[0], share(1, "no_difference"), false[1], share(1.2, "more"),
             wrong, found_100]  # fmt: skip
    widths = (6, 7, 6, 7, 7, 6, 7)
    row = "".join(f"{100 * cell:{width}.1f}" for cell, width in zip(cells, widths, strict=True))
    mark = " !" if gated and missed else ""
    return f"{series.seconds:4} {_words(series):<27}{row}{mark}", missed if gated else 0


def _words(series: Series) -> str:
    if series.of_seconds is not None:
        return f"correlated {series.of_seconds:g}"
    parts = [f"correlated {series.correlation:g}"] if series.correlation else []
    parts += ["slow in 16"] * series.slow + ["drifting"] * series.drift
    return ", ".join(parts) or "independent"


if __name__ == "__main__":
    sys.exit(main())
