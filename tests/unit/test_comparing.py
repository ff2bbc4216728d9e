"""How comparisons decide: intervals that hold the truth, verdicts that are seldom false."""

import time
from collections import Counter
from math import exp, log

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from captures import some_capture
from pgtrace.comparing import percentiles, statistics
from pgtrace.comparing.captures import compare
from pgtrace.comparing.decide import MARGIN, outcome, outcomes
from pgtrace.comparing.estimate import LEAST_UNITS, Estimate, Missing, by_time, estimate
from pgtrace.comparing.pieces import Piece, together
from pgtrace.comparing.side import side_of
from pgtrace.model.capture import Cost, Interval, IntervalIo, Probes
from pgtrace.reporters.comparison import text
from pgtrace.stats.batch_means import Sum
from pgtrace.stats.student_t import quantile, tail
from seeded_captures import CACHED_NS, DEVICE_NS, seeded_capture
from seeded_series import KEY, Series, verdicts

TIMES = 200
OTHER = KEY._replace(source="page_cache")
TURNED = {"more": "less", "less": "more"}


@pytest.mark.parametrize(
    ("freedom", "level", "t"),
    [
        (1, 0.05, 12.706),
        (4, 0.05, 2.7764),
        (9, 0.01, 3.2498),
        (2.5, 0.05, 3.5747),
        (60, 0.1, 1.6706),
    ],
)
def test_student_is_that_of_the_tables(freedom: float, level: float, t: float) -> None:
    assert quantile(level, freedom) == pytest.approx(t, rel=1e-4)
    assert tail(t, freedom) == pytest.approx(level / 2, rel=1e-3)
    assert tail(-t, freedom) == pytest.approx(1 - level / 2, rel=1e-3)


SERIES = [
    Series(seconds, reads=100, correlation=correlation, slow=slow, drift=drift)
    for seconds in (10, 30)
    for correlation, slow, drift in [
        (0, False, False), (0.5, False, False), (0.9, False, False), (0.5, True, False),
        (0, False, True),
    ]
]  # fmt: skip


@pytest.mark.parametrize("series", SERIES, ids=str)
def test_verdicts_are_right_as_often_as_is_promised(series: Series) -> None:
    """As scripts/bench/compare_verdicts counts them, over fewer pairs: three standard errors of
    chance are allowed for."""
    found = verdicts(series, [1, 1.05, 1.2, 2], TIMES, 19)

    def off(share: float) -> float:
        return 3 * (share * (1 - share) / TIMES) ** 0.5

    assert found["held"] >= 0.93 - off(0.93)
    for apart in ("1", "1.05"):
        false = found.get(f"{apart} more", 0) + found.get(f"{apart} less", 0)
        assert false <= 0.065 + off(0.065)
    false = found.get("1.2 less", 0) + found.get("1.2 no_difference", 0)
    assert false <= 0.065 + off(0.065)
    assert found["2 more"] >= 0.95 - off(0.95)
    assert found.get("2 less", 0) + found.get("2 no_difference", 0) <= off(0.01)


def test_what_is_the_same_is_called_so_where_it_hardly_varies() -> None:
    found = verdicts(Series(60), [1, 1.2], 50, 1)
    assert found["1 no_difference"] > 0.9
    assert found["1.2 more"] > 0.9


SUMS = st.builds(
    lambda blocks, ns: Sum(blocks, blocks, blocks * ns), st.integers(1, 1000), st.integers(1, 10**6)
)
PIECES = st.lists(
    st.builds(
        lambda one, other: Piece(1.0, {KEY: one} | ({OTHER: other} if other else {})),
        SUMS,
        st.none() | SUMS,
    ),
    min_size=LEAST_UNITS,
    max_size=40,
)


@given(PIECES, PIECES)
@settings(max_examples=60)
def test_with_a_and_b_exchanged_everything_turns_round(a: list[Piece], b: list[Piece]) -> None:
    for name in ("block_time", "speed", "mix", "block_rate", "time_rate"):
        statistic = getattr(statistics, name)
        one, other = estimate(statistic, a, b, by_time), estimate(statistic, b, a, by_time)
        if isinstance(one, Missing):
            assert isinstance(other, Missing)
            continue
        assert isinstance(other, Estimate)
        assert one.log_value == pytest.approx(-other.log_value, abs=1e-9)
        (low, high), (down, up) = one.interval(), other.interval()
        assert log(low) == pytest.approx(-log(up), abs=1e-6)
        assert log(high) == pytest.approx(-log(down), abs=1e-6)
        verdict = outcome(one, MARGIN)
        assert outcome(other, MARGIN) == TURNED.get(verdict, verdict)


@given(PIECES, PIECES)
def test_mix_and_speed_make_the_whole(a: list[Piece], b: list[Piece]) -> None:
    one, other = together(a), together(b)
    mix, speed = statistics.mix(one, other), statistics.speed(one, other)
    whole = statistics.block_time(one, other)
    assert mix is not None and speed is not None
    assert whole == pytest.approx(mix + speed, abs=1e-9)


def test_mix_is_where_blocks_came_from_and_speed_how_fast_each_was() -> None:
    def piece(cached: int, cached_ns: int, device: int, device_ns: int) -> Piece:
        return Piece(
            1.0,
            {
                OTHER: Sum(cached, cached, cached * cached_ns),
                KEY: Sum(device, device, device * device_ns),
            },
        )

    elsewhere = piece(50, 10, 50, 1000), piece(90, 10, 10, 1000)
    assert exp(statistics.speed(*elsewhere) or 0) == pytest.approx(1)
    assert exp(statistics.mix(*elsewhere) or 0) == pytest.approx(109 / 505)
    slower = piece(50, 10, 50, 1000), piece(50, 20, 50, 2000)
    assert exp(statistics.speed(*slower) or 0) == pytest.approx(2)
    assert exp(statistics.mix(*slower) or 0) == pytest.approx(1)
    # What is on one side alone is of the mix
    only = Piece(1.0, {KEY: Sum(100, 100, 100_000)}), piece(50, 10, 50, 1000)
    assert exp(statistics.speed(*only) or 0) == pytest.approx(1)
    assert exp(statistics.mix(*only) or 0) == pytest.approx(505 / 1000)


def pieces(number: int, ns: int = 1000, blocks: int = 100) -> list[Piece]:
    return [Piece(1.0, {KEY: Sum(blocks, blocks, blocks * ns + at % 2)}) for at in range(number)]


@pytest.mark.parametrize("a", [0, 1, LEAST_UNITS - 1, LEAST_UNITS])
def test_fewer_than_ten_units_decide_nothing(a: int) -> None:
    found = estimate(statistics.block_time, pieces(a), pieces(100))
    if a >= LEAST_UNITS:
        assert isinstance(found, Estimate)
        assert found.units == a
    else:
        assert found == Missing(f"A has work in {a} stretches of time, of 10 at least")


def test_what_is_in_one_moment_is_not_ten_units() -> None:
    burst = pieces(20)
    burst[7] = Piece(1.0, {KEY: Sum(100_000, 100_000, 10**9)})
    found = estimate(statistics.block_time, burst, pieces(20))
    assert isinstance(found, Missing)


def test_what_hangs_on_one_unit_has_no_interval() -> None:
    idle = [Piece(1.0, {}) for _ in range(20)]
    found = estimate(statistics.block_rate, [*idle, *pieces(1)], pieces(20), by_time)
    assert found == Missing("it hangs on one stretch of time")


def sure(ratio: float, error: float) -> Estimate:
    return Estimate(log(ratio), ((error, 1000.0),), 30)


@pytest.mark.parametrize(
    ("ratio", "error", "verdict"),
    [
        (2, 0.1, "more"),
        (0.5, 0.1, "less"),
        (1.0, 0.02, "no_difference"),
        (1.05, 0.1, "not_decided"),
        (1.2, 0.03, "more"),
        (1.2, 0.06, "not_decided"),
    ],
)
def test_a_verdict_is_what_the_interval_shows(ratio: float, error: float, verdict: str) -> None:
    assert outcome(sure(ratio, error), MARGIN) == verdict


def test_one_of_many_has_to_be_surer() -> None:
    """By hand: z of 1.2 / 1.1 is 2.18 standard errors, p 0.029: enough alone, not beside nineteen
    of which nothing is known; beside nineteen that are certain, it is."""
    one, nothing, certain = sure(1.2, 0.04), sure(1.0, 1.0), sure(3.0, 0.01)
    assert one.surprise(MARGIN) == pytest.approx(0.0298, rel=0.02)
    assert outcomes([one], MARGIN) == ["more"]
    assert outcomes([one, *[nothing] * 19], MARGIN)[0] == "not_decided"
    assert outcomes([one, *[certain] * 19], MARGIN) == ["more"] * 20
    assert outcomes([], MARGIN) == []


@given(st.floats(-2, 2), st.floats(0.001, 1), st.floats(2, 100), st.floats(1.01, 2))
def test_the_level_at_which_it_decides_is_the_one_of_its_interval(
    log_value: float, error: float, freedom: float, margin: float
) -> None:
    found = Estimate(log_value, ((error, freedom),), 30)
    level = found.surprise(margin)
    if 1e-6 < level < 0.99:
        assert outcome(found, margin, min(1.0, level * 1.01)) != "not_decided"
        assert outcome(found, margin, level * 0.99) == "not_decided"


NUMBERS = st.sampled_from([0, 0, 1, 5, 1000, 2**40])
COSTS = st.builds(
    Cost,
    tablespace=st.sampled_from([None, "a"]),
    pattern=st.sampled_from(["random", "unknown"]),
    source=st.sampled_from(["device", "page_cache"]),
    size=st.sampled_from(["1", "16+"]),
    blocks=NUMBERS,
    total_ns=NUMBERS,
    reads=NUMBERS,
)
IO = st.builds(
    IntervalIo,
    operation=st.sampled_from(["read", "fsync", "write"]),
    source=st.sampled_from(["device", "unknown"]),
    count=NUMBERS,
    bytes=NUMBERS,
    total_ns=NUMBERS,
    powers=st.dictionaries(st.sampled_from([3, 20, 40]), NUMBERS),
)
INTERVALS = st.lists(
    st.builds(
        Interval,
        second=st.floats(0, 100),
        costs=st.lists(COSTS, max_size=3),
        length=st.none() | st.sampled_from([0.0, 0.5, 1.0]),
        io=st.lists(IO, max_size=3),
    ),
    max_size=25,
)


@given(INTERVALS, INTERVALS, st.sampled_from([0.0, 30.0, 1e12]))
@settings(max_examples=150, deadline=None)
def test_whatever_intervals_hold_it_is_compared(
    a: list[Interval], b: list[Interval], duration_s: float
) -> None:
    """Files are written by others, and some by nobody who measured."""
    probes = Probes("libbpf", "fentry", "usdt", operations=["read", "write", "fsync"])
    sides = [
        side_of(some_capture(intervals=each, duration_s=duration_s, probes=probes))
        for each in (a, b)
    ]
    one, other = compare(*sides), compare(*reversed(sides))
    assert len(one.findings) == len(other.findings)
    assert text(one)
    by = {(f.metric, f.of): f.outcome for f in other.findings}
    for finding in one.findings:
        assert by[finding.metric, finding.of] == TURNED.get(finding.outcome, finding.outcome)


def test_every_ratio_holds_the_truth_as_often_as_it_says() -> None:
    """Half of the blocks cached, the device half as fast again, and one and a half times the calls:
    the truth of each is known by how they were made."""
    device, cached = 1.5 * DEVICE_NS, CACHED_NS
    truth = {
        "time_per_block": (device + cached) / 2 / DEVICE_NS,
        "speed": (1.5 * (device + cached) / (DEVICE_NS + cached)) ** 0.5,
        "blocks_per_second": 1.5,
        "p99": None,
    }
    truth["mix"] = (truth["time_per_block"] or 0) / (truth["speed"] or 1)
    times, held = 60, Counter[str]()
    for number in range(times):
        a = side_of(seeded_capture(f"a {number}", seconds=30, noise=0.2))
        kind = {"slower": 1.5, "cached": 0.5, "calls": 30.0}
        b = side_of(seeded_capture(f"b {number}", seconds=30, noise=0.2, **kind))
        for finding in compare(a, b).findings:
            value = truth.get(finding.metric)
            if value and finding.of.source is None and finding.low and finding.high:
                held[finding.metric] += finding.low <= value <= finding.high
        slower = side_of(seeded_capture(f"c {number}", seconds=30, noise=0.2, slower=1.5))
        for p in (50, 90, 99):
            found = percentiles.compared(p, a, slower, percentiles.every_source("read"))
            assert not isinstance(found, Missing)
            low, high = found.interval()
            held[f"p{p}"] += low <= 1.5 <= high
    assert held.keys() == {*truth, "p50", "p90"}
    for metric, number in held.items():
        assert number >= times * 0.93 - 3 * (times * 0.93 * 0.07) ** 0.5, metric


def test_many_tablespaces_are_compared_in_linear_time() -> None:
    """As many as a file that somebody sent may have, which took hours."""
    costs = [Cost(f"t{n}", "random", "device", "1", 1, 1000 + n, 1) for n in range(4000)]
    intervals = [Interval(0.0, costs, 1.0)]
    a, b = (side_of(some_capture(intervals=intervals, duration_s=s)) for s in (1.0, 2.0))
    began = time.process_time()
    shares = compare(a, b).shares
    assert time.process_time() - began < 4
    assert len([share for share in shares if share.tablespace]) == 4000
