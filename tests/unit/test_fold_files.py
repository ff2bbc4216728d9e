"""What was counted of files that are gone is counted on those that stand for them: all of it."""

from hypothesis import given
from hypothesis import strategies as st

from pgtrace.engines import Counts, Key, ReadsByKey, fold_files

KEYS = st.builds(
    Key,
    scope=st.sampled_from(["query", "outside"]),
    performed_by=st.just("backend"),
    direct=st.just(False),
    size=st.sampled_from(["1", "16+"]),
    pattern=st.just("random"),
    source=st.sampled_from(["device", "page_cache"]),
    file=st.integers(0, 9),
)
READS = st.dictionaries(KEYS, st.integers(1, 1000), max_size=30)
INSTEAD = st.dictionaries(st.integers(1, 9), st.integers(100, 102), max_size=9)


def counted(reads: dict[Key, int]) -> ReadsByKey:
    return {key: Counts({7: n}, 100 * n, 100, 100 + n, n, 8192 * n) for key, n in reads.items()}


@given(READS, INSTEAD)
def test_nothing_is_lost_and_nothing_stays(
    numbers: dict[Key, int], instead: dict[int, int]
) -> None:
    reads = counted(numbers)
    fold_files(reads, instead)
    assert not {key.file for key in reads} & instead.keys()
    expected: dict[Key, int] = {}
    for key, n in numbers.items():
        where = key._replace(file=instead.get(key.file, key.file))
        expected[where] = expected.get(where, 0) + n
    assert {key: counts.count for key, counts in reads.items()} == expected
    assert {key: counts.counts for key, counts in reads.items()} == {
        key: {7: n} for key, n in expected.items()
    }
    assert sum(c.total_ns for c in reads.values()) == 100 * sum(numbers.values())
    if numbers:
        assert max(c.max_ns for c in reads.values()) == 100 + max(numbers.values())
        assert {c.min_ns for c in reads.values()} == {100}
