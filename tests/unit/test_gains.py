"""Whose what was done between two looks is: queries become their statements, threads end."""

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from pgtrace.engines import Key, StatementName, Sums
from pgtrace.engines.layout import STATEMENT
from pgtrace.engines.slot_sums import add_sum
from pgtrace.tracing.file_names import Place
from pgtrace.tracing.gains import Gain, gains
from pgtrace.tracing.heaviest import Heavy, Telling

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


def test_the_next_query_is_not_taken_for_it_either_when_it_has_done_as_much() -> None:
    """Nor when it has the same name: what it did took another time, which would be lost."""
    before = {FIRST: {HEAP: (100, 819200, 90_000)}, RUNNING: {HEAP: (5, 40960, 8_000)}}
    now = {NEXT: {HEAP: (6, 49152, 5_000)}, FIRST: {HEAP: (105, 860160, 98_000)}}
    for name in None, StatementName(7, None):
        found = gains(SERIAL, now, before, lambda query, name=name: name)
        assert found.more == [Gain((SERIAL, NEXT), HEAP, (6, 49152, 5_000))]
        assert found.became == {RUNNING: FIRST}


def test_another_statement_is_not_taken_for_its_own_where_it_took_less_time() -> None:
    before = {RUNNING: {HEAP: (5, 40960, 8_000)}}
    now = {FIRST: {HEAP: (6, 49152, 5_000)}, SECOND: {HEAP: (5, 40960, 8_000)}}
    found = gains(SERIAL, now, before)
    assert found.more == [Gain((SERIAL, FIRST), HEAP, (6, 49152, 5_000))]
    assert found.became == {RUNNING: SECOND}


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


queries = st.lists(
    st.tuples(
        st.sampled_from([FIRST, SECOND]),
        st.lists(st.tuples(st.sampled_from([HEAP, CACHED]), st.integers(1, 9)), max_size=4),
    ),
    max_size=8,
)


@given(queries, st.lists(st.booleans(), min_size=40, max_size=40), st.booleans())
def test_sums_of_all_gains_are_those_of_the_thread(
    ran: list[tuple[int, list[tuple[Key, int]]]], looks: list[bool], named: bool
) -> None:
    """To the nanosecond, whenever it is looked at, whether or not names tell whose a query is."""
    statements: dict[int, Sums] = {}
    before: dict[int, Sums] = {}
    told, moments = Counter[Key](), iter(looks)

    def look(now: dict[int, Sums]) -> None:
        nonlocal before
        names = {query: StatementName(query, None) for query in (FIRST, SECOND)}
        names |= {at: names[of] for at, (of, _) in enumerate(ran, 1)} if named else {}
        for each in gains(SERIAL, now, before, names.get).more:
            told[each.key] += each.totals[2]
        before = now

    for number, (statement, reads) in enumerate(ran, 1):
        running: Sums = {}
        for key, ns in reads:
            add_sum(running, key, 1, 8192, ns)
            if next(moments):
                look({query: dict(of) for query, of in [(number, running), *statements.items()]})
        for key, counted in running.items():
            add_sum(statements.setdefault(statement, {}), key, *counted)
    look(statements)
    true = Counter[Key]()
    for _, reads in ran:
        for key, ns in reads:
            true[key] += ns
    assert told == true


def test_in_an_interval_of_hours_the_heaviest_of_many_texts_are_kept() -> None:
    """Where no ids are computed, each text with literals is a row of its own."""
    heavy = Heavy()
    for number in range(25_000):
        who = StatementName(0, f"select {number}".encode())
        heavy.count(who, gain(FIRST, HEAP, 1000 if number == 3 else 1))
    telling = Telling(lambda name: (None, f"{name.text!r}"), lambda _: Place("heap"))
    assert len(heavy._rows) <= 10_000
    assert heavy.listed(telling)[0].text_hash == "b'select 3'"
