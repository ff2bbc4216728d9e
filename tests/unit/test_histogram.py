"""Buckets: the kernel's grid, exact folding, percentiles within 3.2 %, snapshots subtracted."""

from bisect import bisect_right
from fractions import Fraction
from itertools import pairwise
from math import ceil

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pgtrace.model.buckets import LAST, bucket_bounds, bucket_index
from pgtrace.model.histogram import Histogram

EDGES = [0, 1, 2, 15, 16, 17, 31, 32, 2**39, 2**40 - 1, 2**40, 2**40 + 1, 2**63, 2**64 - 1]
powers = st.integers(0, 63).flatmap(lambda n: st.sampled_from([2**n - 1, 2**n, 2**n + 1]))
values = st.one_of(st.integers(0, 2**41), st.integers(0, 5000), st.sampled_from(EDGES), powers)
measured = st.one_of(st.integers(0, 2**40 - 1), st.integers(0, 5000), st.integers(14, 34))
samples = st.lists(values, max_size=60)


def of(sample: list[int]) -> Histogram:
    histogram = Histogram()
    for ns in sample:
        histogram.add(ns)
    return histogram


def exact(sample: list[int], p: float) -> int:
    """Nearest rank, from its definition."""
    return sorted(sample)[max(1, ceil(Fraction(str(p)) * len(sample) / 100)) - 1]


@pytest.mark.parametrize(
    ("ns", "index"),
    [
        (0, 0), (15, 15), (16, 16), (31, 31), (32, 32), (33, 32), (34, 33), (63, 47), (64, 48),
        (8192, 160), (8703, 160), (8704, 161), (2**40 - 1, 591), (2**40, 592), (2**64 - 1, 592),
    ],
)  # fmt: skip
def test_a_value_has_the_index_that_the_kernel_gives_it(ns: int, index: int) -> None:
    assert bucket_index(ns) == index


def test_buckets_join_without_gap_or_overlap() -> None:
    bounds = [bucket_bounds(i) for i in range(LAST + 1)]
    assert bounds[0] == (0, 1)
    assert bounds[-1] == (2**40, 2**64)
    assert all(high == low for (_, high), (low, _) in pairwise(bounds))


@given(values)
def test_a_value_lies_in_its_bucket(ns: int) -> None:
    low, high = bucket_bounds(bucket_index(ns))
    assert low <= ns < high


@pytest.mark.parametrize("index", [-1, LAST + 1])
def test_there_are_no_other_buckets(index: int) -> None:
    with pytest.raises(ValueError, match="no such bucket"):
        bucket_bounds(index)


def test_negative_values_and_counts_are_refused() -> None:
    with pytest.raises(ValueError, match="negative"):
        Histogram().add(-1)
    with pytest.raises(ValueError, match="negative"):
        Histogram().add(1, -1)


@given(st.lists(measured, min_size=1, max_size=200), st.sampled_from([0, 1, 50, 90, 99, 99.9, 100]))
def test_a_percentile_is_within_3_2_percent_of_the_exact_one(sample: list[int], p: float) -> None:
    true = exact(sample, p)
    found = of(sample).percentile(p)
    assert found is not None
    assert abs(found - true) <= 0.032 * true


@given(st.lists(values, min_size=1, max_size=60), st.floats(0, 100, allow_nan=False))
def test_a_percentile_shares_the_bucket_of_the_exact_one(sample: list[int], p: float) -> None:
    found = of(sample).percentile(p)
    assert found is not None
    assert bucket_index(found) == bucket_index(exact(sample, p))
    assert min(sample) <= found <= max(sample)


def test_ranks_do_not_drift_with_large_counts() -> None:
    histogram = Histogram()
    histogram.add(10, 999_000_000)
    histogram.add(1000, 1_000_000)
    assert histogram.percentile(99.9) == 10
    assert histogram.percentile(99.9000001) == 996  # the middle of [992, 1024), cut at 1000


def test_a_share_is_the_decimal_that_was_written() -> None:
    histogram = Histogram()
    histogram.add(10, 329_871)
    histogram.add(1000, 443_375 - 329_871)
    assert 74.4 * 443_375 / 100 > 329_871  # as a binary fraction it would be the next rank
    assert histogram.percentile(74.4) == 10


def test_beyond_2_to_40_the_greatest_value_is_the_bound() -> None:
    histogram = of([5, 2**40, 2**40 + 100])
    assert histogram.percentile(100) == 2**40 + 100
    assert histogram.percentile(60) == 2**40 + 50


def test_an_empty_histogram_says_so() -> None:
    empty = Histogram()
    assert (empty.percentile(50), empty.mean_ns, empty.min_ns, empty.max_ns) == (None,) * 4
    assert (empty.count, empty.fold(), empty.to_data().buckets) == (0, [], [])


@pytest.mark.parametrize("p", [-0.1, 100.1, float("nan")])
def test_a_percentile_beyond_100_is_refused(p: float) -> None:
    with pytest.raises(ValueError, match="between 0 and 100"):
        of([1]).percentile(p)


@given(samples, samples)
def test_adding_is_recording_both(one: list[int], other: list[int]) -> None:
    assert of(one) + of(other) == of(one + other)


@given(samples, samples)
def test_subtracting_a_snapshot_leaves_what_came_after(before: list[int], after: list[int]) -> None:
    rest = of(before + after) - of(before)
    true = of(after)
    assert (rest.counts, rest.total_ns) == (true.counts, true.total_ns)
    if after:
        assert rest.min_ns is not None
        assert rest.max_ns is not None
        assert rest.min_ns <= min(after)
        assert rest.max_ns >= max(after)
        assert bucket_index(rest.min_ns) == bucket_index(min(after))
        assert bucket_index(rest.max_ns) == bucket_index(max(after))
    else:
        assert (rest.min_ns, rest.max_ns) == (None, None)


def test_subtracting_what_was_never_there_is_refused() -> None:
    with pytest.raises(ValueError, match="not an earlier snapshot"):
        of([100, 200]) - of([300])
    with pytest.raises(ValueError, match="not an earlier snapshot"):
        of([8192]) - of([8193])  # the same bucket, but a greater sum


@given(samples)
def test_the_stored_form_gives_the_histogram_back(sample: list[int]) -> None:
    histogram = of(sample)
    data = histogram.to_data()
    assert data.buckets == sorted(data.buckets)
    assert all(count > 0 for *_, count in data.buckets)
    stored = Histogram.from_buckets(
        data.buckets, histogram.total_ns, min(sample, default=0), max(sample, default=0)
    )
    assert stored == histogram


@pytest.mark.parametrize("bucket", [(8192, 8700, 1), (8193, 8704, 1), (5, 7, 1), (8192, 8704, -1)])
def test_buckets_of_another_grid_are_refused(bucket: tuple[int, int, int]) -> None:
    with pytest.raises(ValueError, match=r"not a bucket|negative count"):
        Histogram.from_buckets([bucket], 1, 1, 1)


@given(st.lists(values, min_size=1, max_size=60))
def test_folding_is_the_exact_log2_histogram(sample: list[int]) -> None:
    rows = of(sample).fold()
    edges = [0] + [2**n for n in range(41)]
    true = [0] * len(edges)
    for ns in sample:
        true[bisect_right(edges, ns) - 1] += 1
    filled = [i for i, n in enumerate(true) if n]
    expected = true[filled[0] : filled[-1] + 1]
    assert [count for *_, count in rows] == expected
    assert [low for low, *_ in rows] == edges[filled[0] : filled[-1] + 1]
    ends = [*edges[1:], 2**64]
    assert [high for _, high, _ in rows] == ends[filled[0] : filled[-1] + 1]


def test_folding_keeps_the_empty_rows_between() -> None:
    assert of([0, 5]).fold() == [(0, 1, 1), (1, 2, 0), (2, 4, 0), (4, 8, 1)]


@given(samples)
def test_the_times_of_the_rows_add_up_to_the_sum(sample: list[int]) -> None:
    rows = of(sample).fold_time()
    assert sum(time for *_, time in rows) == sum(sample)
    assert all(time >= 0 for *_, time in rows)


@given(st.lists(st.integers(16, 2**40 - 1), min_size=1, max_size=60))
def test_the_time_of_a_row_is_within_7_percent_of_the_true_one(sample: list[int]) -> None:
    # 3.2 % for the middles, and as much again for the scale.
    for low, high, _, time in of(sample).fold_time():
        true = sum(ns for ns in sample if low <= ns < high)
        assert abs(time - true) <= 0.07 * true + 1


def test_a_least_that_is_not_known_leaves_the_sum_without_one() -> None:
    unknown = Histogram({5: 1}, 5, None, 5)
    assert (unknown + of([3])).min_ns is None
    assert (unknown + of([])).min_ns is None
    assert (of([3]) + of([])).min_ns == 3
