"""Verdicts on paired runs: how often they are false, and when there is none."""

import re
from collections import Counter
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pgtrace.stats import paired

TIMES = st.floats(1, 1e9)
SERIES = st.dictionaries(st.integers(1, 20), TIMES, max_size=12)


def measured(rng: Random, runs: int, noise: float, bursts: float) -> dict[int, float]:
    """Means of runs whose truth is 1; in some a neighbour made everything slower."""
    return {
        run: rng.lognormvariate(0, noise) * (rng.uniform(1.2, 2) if rng.random() < bursts else 1)
        for run in range(runs)
    }


def verdicts(truth: float, runs: int, noise: float, bursts: float = 0.0) -> Counter[str]:
    """How often each kind of verdict is given, of 1, when the ratio is `truth`."""
    rng = Random(f"{truth} {runs} {noise} {bursts}")
    found: Counter[str] = Counter()
    for _ in range(1000):
        above, below = (measured(rng, runs, noise, bursts) for _ in range(2))
        times = paired.ratio({run: truth * value for run, value in above.items()}, below)
        assert times
        words = paired.verdict(times, "a difference: {}")
        found[re.split(":| larger| that", words)[0]] += 1 / 1000
    return found


@pytest.mark.parametrize("truth", [1, 1.1])
@pytest.mark.parametrize("runs", [2, 3, 5, 10])
@pytest.mark.parametrize(("noise", "bursts"), [(0.02, 0), (0.1, 0), (0.3, 0), (0.03, 0.2)])
def test_where_no_difference_matters_one_is_found_in_at_most_1_of_20(
    truth: float, runs: int, noise: float, bursts: float
) -> None:
    assert verdicts(truth, runs, noise, bursts)["a difference"] < 0.05


@pytest.mark.parametrize("runs", [2, 3, 5, 10])
@pytest.mark.parametrize("noise", [0.02, 0.05, 0.1, 0.3])
def test_what_differs_by_a_quarter_is_called_the_same_in_at_most_1_of_40(
    runs: int, noise: float
) -> None:
    assert verdicts(1.25, runs, noise)["no difference"] < 0.025


def test_the_same_is_called_the_same_where_runs_agree_and_not_where_they_do_not() -> None:
    assert verdicts(1, 5, 0.05)["no difference"] > 0.9
    assert verdicts(1, 5, 0.3)["not decided"] > 0.9


def test_what_takes_twice_as_long_is_seen_in_five_runs_that_agree() -> None:
    assert verdicts(2, 5, 0.1)["a difference"] > 0.95


@pytest.mark.parametrize("runs", [2, 3, 5, 10])
def test_the_interval_holds_the_truth_as_often_as_it_says(runs: int) -> None:
    rng, holds = Random(runs), 0
    for _ in range(2000):
        found = paired.mean([3 * value for value in measured(rng, runs, 0.2, 0).values()])
        holds += bool(found and (found.low or 9) <= 3 <= (found.high or 0))
    assert 0.935 <= holds / 2000 <= 0.965


@pytest.mark.parametrize(
    ("low", "high", "words"),
    [
        (3.1, 3.6, "slower, 3.10 to 3.60 times"),
        (0.5, 0.8, "slower, 0.500 to 0.800 times"),
        (0.97, 1.08, "no difference larger than 8 %"),
        (0.8, 1.01, "no difference larger than 25 %"),
        (0.999, 1.0001, "no difference larger than 1 %"),
        (1.02, 1.09, "no difference that matters: 1.02 to 1.09 times"),
        (1.1, 1.2, "slower, 1.10 to 1.20 times"),
        (
            1.02,
            1.2,
            "not decided: 1.02 to 1.20 times, which may be too little to matter; "
            "more runs would tell",
        ),
        (
            0.5,
            0.95,
            "not decided: 0.500 to 0.950 times, which may be too little to matter; "
            "more runs would tell",
        ),
        (0.99, 1.26, "not decided: 0.990 to 1.26 times; more runs would tell"),
    ],
)
def test_a_verdict_says_what_the_interval_shows(low: float, high: float, words: str) -> None:
    assert paired.verdict(paired.Estimate((low * high) ** 0.5, low, high, 5), "slower, {}") == words


def test_one_run_has_no_interval_and_no_verdict() -> None:
    one = paired.ratio({1: 6.0, 2: 5.0}, {1: 2.0, 3: 5.0})
    assert one == paired.Estimate(pytest.approx(3), None, None, 1)
    assert paired.verdict(one, "{}") == "not decided: one run has no interval"
    assert paired.ratio({1: 6.0}, {2: 6.0}) is None


@given(SERIES, SERIES)
def test_the_inverse_ratio_is_the_inverse_of_the_ratio(
    above: dict[int, float], below: dict[int, float]
) -> None:
    one, other = paired.ratio(above, below), paired.ratio(below, above)
    if one is None or other is None:
        assert above.keys().isdisjoint(below)
        return
    assert one.value == pytest.approx(1 / other.value)
    if one.low and other.high:
        assert one.low <= one.value * (1 + 1e-9)
        assert one.low == pytest.approx(1 / other.high)


@given(SERIES, st.floats(0.01, 100))
def test_what_slows_a_pair_cancels(series: dict[int, float], factor: float) -> None:
    found = paired.ratio({run: factor * value for run, value in series.items()}, series)
    if found and found.low:
        assert (found.low, found.value) == pytest.approx((factor, factor))
