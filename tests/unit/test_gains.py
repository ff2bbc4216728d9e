"""Whose what was done between two looks is: queries become their statements, threads end."""

from hypothesis import given
from hypothesis import strategies as st

from pgtrace.engines import Key, Sums
from pgtrace.engines.layout import STATEMENT
from pgtrace.tracing.gains import Gain, gains

SERIAL = 3
RUNNING, NEXT = 11, 12
FIRST, SECOND = STATEMENT + 1, STATEMENT + 2
HEAP = Key("query", "backend", False, "1", "random", "device", 1)
CACHED = HEAP._replace(source="page_cache")


def sums(**counts: int) -> Sums:
    keys = {"heap": HEAP, "cached": CACHED}
    return {keys[name]: (n, n * 8192, n * 1000) for name, n in counts.items()}


def gain(query: int, key: Key, count: int) -> Gain:
    return Gain((SERIAL, query), key, (count, count * 8192, count * 1000))


def test_a_query_that_runs_counts_under_its_number() -> None:
    found = gains(SERIAL, {RUNNING: sums(heap=5)}, {RUNNING: sums(heap=2)})
    assert found.more == [gain(RUNNING, HEAP, 3)]
    assert found.became == {}


def test_what_a_query_had_counted_is_no_gain_of_its_statement() -> None:
    before = {RUNNING: sums(heap=5, cached=7), FIRST: sums(heap=100), SECOND: sums(heap=3)}
    now = {FIRST: sums(heap=106, cached=7), SECOND: sums(heap=3)}
    found = gains(SERIAL, now, before)
    assert found.more == [gain(FIRST, HEAP, 1)]
    assert found.became == {RUNNING: FIRST}


def test_the_next_query_is_not_taken_for_the_statement_of_the_last() -> None:
    before = {RUNNING: sums(heap=50)}
    now = {FIRST: sums(heap=50), NEXT: sums(heap=4)}
    found = gains(SERIAL, now, before)
    assert found.more == [gain(NEXT, HEAP, 4)]
    assert found.became == {RUNNING: FIRST}


def test_a_query_that_came_and_went_counts_under_its_statement() -> None:
    found = gains(SERIAL, {FIRST: sums(heap=9)}, {FIRST: sums(heap=1)})
    assert found.more == [gain(FIRST, HEAP, 8)]


counts = st.integers(0, 1000)


@given(st.lists(st.tuples(counts, counts), min_size=1, max_size=8), counts, counts)
def test_nothing_is_lost_or_counted_twice(
    looks: list[tuple[int, int]], ran_before: int, after: int
) -> None:
    """A query that is looked at while it runs, and whose statement has been called before."""
    before: dict[int, Sums] = {FIRST: sums(heap=ran_before)}
    told = 0
    heap = cached = 0
    for more_heap, more_cached in looks:
        heap, cached = heap + more_heap, cached + more_cached
        now = {FIRST: sums(heap=ran_before), RUNNING: sums(heap=heap, cached=cached)}
        found = gains(SERIAL, now, before)
        told += sum(each.totals[0] for each in found.more)
        before = now
    whole = {FIRST: sums(heap=ran_before + heap + after, cached=cached)}
    found = gains(SERIAL, whole, before)
    told += sum(each.totals[0] for each in found.more)
    assert told == heap + cached + after
    assert found.became == ({RUNNING: FIRST} if heap + cached else {})
