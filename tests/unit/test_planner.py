"""What a block cost: the interval holds what it says, and is refused where there is too little."""

from collections.abc import Sequence
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pgtrace.model.capture import Capture, Cost, Host, Interval, Lost, Probes, Server, Total
from pgtrace.stats.batch_means import Figure, Sum, add_up, mean, ratio, student
from pgtrace.stats.page_costs import costs

COST_NS = 10_000
SERIES = st.lists(
    st.builds(Sum, st.integers(0, 500), st.integers(0, 500), st.integers(0, 10**7)), max_size=60
)


def session(rng: Random, length: int, correlation: float) -> list[Sum]:
    """Intervals whose cost is COST_NS in truth, and varies as a first-order autoregression."""
    found = []
    off = rng.gauss(0, 0.3)
    for _ in range(length):
        blocks = rng.randint(200, 1000)
        found.append(Sum(blocks, blocks, max(0, round(blocks * COST_NS * (1 + off)))))
        off = correlation * off + rng.gauss(0, 0.3 * (1 - correlation**2) ** 0.5)
    return found


@pytest.mark.parametrize(
    ("correlation", "length"), [(0.0, 30), (0.0, 300), (0.3, 120), (0.5, 300), (0.8, 1000)]
)
def test_the_interval_holds_the_truth_as_often_as_it_says(correlation: float, length: int) -> None:
    rng = Random(length)
    told = [mean(session(rng, length, correlation)) for _ in range(300)]
    figures = [figure for figure in told if not figure.missing]
    assert len(figures) > 280
    holds = sum((f.low or 0) <= COST_NS <= (f.high or 0) for f in figures)
    assert 0.92 <= holds / len(figures) <= 0.99


def test_the_interval_of_a_ratio_holds_the_truth_and_what_both_share_cancels() -> None:
    rng = Random(1)
    holds, widths = 0, []
    for _ in range(300):
        below = session(rng, 200, 0.5)
        above = [Sum(s.blocks // 2, s.reads, 2 * s.total_ns) for s in below]
        noisy = [s._replace(total_ns=round(s.total_ns * rng.gauss(1, 0.05))) for s in above]
        figure = ratio(noisy, below)
        if figure.low and figure.high:
            widths.append(figure.high / figure.low)
            holds += figure.low <= 4.0 <= figure.high
    assert len(widths) > 280
    assert 0.92 <= holds / len(widths) <= 0.99
    assert max(widths) < 1.1


def test_a_drift_is_refused() -> None:
    drifting = [Sum(100, 100, 100 * (1000 + 10 * i)) for i in range(40)]
    assert mean(drifting).missing == ("it drifts, needs 40 more intervals with such reads")


@pytest.mark.parametrize(
    ("series", "missing"),
    [
        ([], "needs 100 more reads"),
        ([Sum(99, 99, 1000)], "needs 1 more read"),
        ([Sum(100, 100, 1000)], "needs 9 more intervals with such reads"),
        ([Sum(10**6, 10**6, 10**6), *[Sum(1, 1, 1)] * 40],
         "needs 9 more intervals with such reads"),
        ([Sum(0, 1000, 1000)], "no whole block took any time"),
    ],
)  # fmt: skip
def test_too_little_is_refused_with_what_is_missing(series: list[Sum], missing: str) -> None:
    assert mean(series) == Figure(missing=missing)


def test_a_ratio_says_which_of_the_two_is_missing() -> None:
    enough = session(Random(3), 30, 0)
    assert ratio(enough, []).missing == "sequential needs 100 more reads"
    assert ratio([], enough).missing == "random needs 100 more reads"


def test_a_steady_cost_is_certain() -> None:
    cost = mean([Sum(100, 100, 100 * COST_NS)] * 10)
    assert (cost.low, cost.value, cost.high) == (COST_NS, COST_NS, COST_NS)


@given(SERIES, st.integers(2, 1000))
def test_another_unit_of_time_changes_nothing_else(series: Sequence[Sum], factor: int) -> None:
    one = mean(series)
    other = mean([s._replace(total_ns=s.total_ns * factor) for s in series])
    assert one.missing == other.missing
    for a, b in ((one.value, other.value), (one.low, other.low), (one.high, other.high)):
        if a is not None:
            assert b == pytest.approx(a * factor, rel=1e-6)


@given(SERIES)
def test_an_interval_is_around_the_mean_or_there_is_none(series: Sequence[Sum]) -> None:
    cost, total = mean(series), add_up(series)
    if cost.missing is None:
        assert cost.value == pytest.approx(total.total_ns / total.blocks)
        assert (cost.low or 0) <= (cost.value or 0) * (1 + 1e-9)
        assert (cost.value or 0) <= (cost.high or 0) * (1 + 1e-9)


@given(SERIES)
def test_the_ratio_of_something_to_itself_is_one(series: Sequence[Sum]) -> None:
    figure = ratio(series, series)
    if figure.missing is None:
        assert (figure.low, figure.value, figure.high) == pytest.approx((1, 1, 1))


@pytest.mark.parametrize(
    ("freedom", "t"),
    [
        (1, 12.7062),
        (2, 4.3027),
        (4, 2.7764),
        (8, 2.3060),
        (9, 2.2622),
        (14, 2.1448),
        (19, 2.0930),
        (29, 2.0452),
    ],
)
def test_student_is_that_of_the_tables(freedom: int, t: float) -> None:
    assert student(freedom) == pytest.approx(t, rel=1e-3)


def a_capture(intervals: list[Interval]) -> Capture:
    return Capture(
        started="2026-01-31T12:00:00.000000Z",
        duration_s=len(intervals),
        host=Host("6.1", 2),
        server=Server("15.18"),
        probes=Probes("libbpf", "fentry", "usdt"),
        lost=Lost(),
        totals={"read": Total()},
        backends=[],
        intervals=intervals,
    )


def test_patterns_sources_sizes_and_tablespaces_are_told_apart() -> None:
    def cost(**fields: object) -> Cost:
        usual = {"tablespace": "fast", "pattern": "sequential", "source": "page_cache"}
        usual |= {"size": "16+", "blocks": 320, "total_ns": 320_000, "reads": 20}  # type: ignore[dict-item]
        return Cost(**(usual | fields))  # type: ignore[arg-type]

    each = [
        cost(),
        cost(source="device", total_ns=3_200_000),
        cost(pattern="random", size="1", blocks=20, total_ns=400_000),
        cost(pattern="random", source="device", size="1", blocks=20, total_ns=2_000_000),
        cost(pattern="first", size="1", blocks=1, reads=1),
        cost(performed_by="io worker", blocks=32, total_ns=1),
        cost(tablespace=None, pattern="near", total_ns=1),
    ]
    fast, unknown = costs(a_capture([Interval(i, each) for i in range(20)]))
    assert (fast.tablespace, unknown.tablespace) == ("fast", None)
    sequential, random = fast.patterns["sequential"], fast.patterns["random"]
    assert sequential.all.cost.value == pytest.approx(5_500)
    assert sequential.by_source["page_cache"].cost.value == pytest.approx(1_000)
    assert sequential.by_source["device"].cost.value == pytest.approx(10_000)
    assert sequential.by_source.keys() == {"page_cache", "device"}
    assert sequential.by_size.keys() == {"16+"}
    assert random.all.cost.value == pytest.approx(60_000)
    assert fast.ratio.value == pytest.approx(60_000 / 5_500)
    assert fast.device_ratio.value == pytest.approx(10)
    assert fast.patterns["near"].all.reads == 0
    assert {pattern: cell.reads for pattern, cell in fast.untold.items()} == {"first": 20}
    assert fast.overlapped == {"io worker": Sum(640, 400, 20)}
    assert unknown.patterns["near"].all.reads == 400
    assert unknown.ratio.missing


def test_there_is_no_ratio_where_others_read_most() -> None:
    each = [
        Cost("fast", "sequential", "device", "1", 20, 20_000, 20),
        Cost("fast", "sequential", "device", "16+", 21, 20_000, 2, "io worker"),
        Cost("fast", "random", "device", "1", 20, 400_000, 20),
    ]
    (space,) = costs(a_capture([Interval(i, each) for i in range(20)]))
    missing = "most sequential blocks were not read by backends themselves"
    assert space.ratio.missing == space.device_ratio.missing == missing
    assert space.patterns["sequential"].all.cost.value == pytest.approx(1_000)
