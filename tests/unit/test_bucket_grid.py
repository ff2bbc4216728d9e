"""Buckets in eight bytes each: nothing is lost on the way there and back."""

import json
from collections import Counter
from itertools import chain
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from captures import CACHED, DEVICE, ISSUED, some_backend, some_reads
from pgtrace.model.buckets import LAST, Bucket, Buckets, bucket_bounds, bucket_index, plain
from pgtrace.model.capture import Latencies
from pgtrace.model.combined import alike
from pgtrace.model.histogram import Histogram

INDICES = st.integers(0, LAST)
COUNTS = st.integers(0, (1 << 54) - 1)
SOME = st.lists(st.tuples(INDICES, COUNTS).map(lambda pair: (*bucket_bounds(pair[0]), pair[1])))


@given(SOME)
def test_they_come_back_as_they_were_given(given_buckets: list[Bucket]) -> None:
    packed = Buckets(given_buckets)
    assert list(packed) == given_buckets
    assert packed == given_buckets == Buckets(packed)
    assert len(packed) == len(given_buckets)
    assert packed[1:] == given_buckets[1:]
    assert json.loads(packed.lines("  ")) == [list(each) for each in given_buckets]
    assert msgspec.json.decode(msgspec.json.encode(packed, enc_hook=plain)) == [
        list(each) for each in given_buckets
    ]


@given(st.lists(SOME, max_size=3))
def test_counts_are_added_up_by_index(given_buckets: list[list[Bucket]]) -> None:
    expected = Counter[int]()
    for low, _, count in chain.from_iterable(given_buckets):
        expected[bucket_index(low)] += count
    several = [Buckets(each) for each in given_buckets]
    sums = Buckets.sums(several)
    assert sums == +expected
    assert [*sums] == sorted(sums)
    for each, buckets in zip(given_buckets, several, strict=True):
        assert buckets.count_any() == any(n for *_, n in each)


@pytest.mark.parametrize(
    ("bucket", "said"),
    [
        ((8192, 8700, 3), "is not a bucket"),
        ((0, 1, -1), "has a negative count: -1"),
        ((0, 1, 1 << 54), "has a count that cannot be"),
        ((1 << 70, 1 << 71, 1), "is not a bucket"),
    ],
)
def test_what_is_no_bucket_is_refused(bucket: Bucket, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        Buckets([(0, 1, 1), bucket])


LEAST_NOT_KNOWN = some_reads([], latency=Latencies(1, 5, None, 5, buckets=[(5, 6, 1)]))


@given(st.lists(st.sampled_from([CACHED, DEVICE, ISSUED, LEAST_NOT_KNOWN])))
def test_histograms_of_many_are_those_of_each_together(many: list[Any]) -> None:
    one_by_one = Histogram()
    for r in many:
        one_by_one += Histogram.of([r])
    assert Histogram.of(many) == one_by_one


def test_reads_that_agree_are_one() -> None:
    other = some_reads([(9_400, 7)], relation="public.t", queued_ns=5)
    found = alike([CACHED, DEVICE, other], ("source", "pattern"))
    assert [r.source for r in found] == ["page_cache", "device"]
    assert (found[0].count, found[0].queued_ns) == (CACHED.count + 7, 5)
    assert found[0].latency == Histogram.of([CACHED, other]).to_data()
    assert found[1] is DEVICE


def test_no_read_of_a_backend_is_changed_by_that() -> None:
    backend = some_backend()
    before = msgspec.to_builtins(backend, enc_hook=plain)
    alike(backend.io, ("operation",))
    assert msgspec.to_builtins(backend, enc_hook=plain) == before
