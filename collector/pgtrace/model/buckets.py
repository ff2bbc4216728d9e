"""The grid that latencies are counted in, and buckets of it in a small part of what tuples take.

Values 0 to 15 have a bucket each; above, each power of two is cut into 16 (bpf/pgtrace.h: SUBS).
That is the grid of an HdrHistogram with one significant digit. All values from 2^40 on (18
minutes) share the last bucket. All times are nanoseconds.
"""

from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Self, overload

SUB_BITS = 4
SUBS = 1 << SUB_BITS
MAX_BITS = 40
LAST = (MAX_BITS - SUB_BITS + 1) * SUBS
Bucket = tuple[int, int, int]
"""low <= value < high, and how many."""
_BITS = 10
"""Of a packed bucket, its index; above them is the count."""
_INDEX = (1 << _BITS) - 1


def bucket_index(ns: int) -> int:
    """Return the bucket that `ns` falls in; ValueError if it is negative."""
    if ns < 0:
        raise ValueError(f"a latency cannot be negative: {ns}")
    if ns < SUBS:
        return ns
    if ns >= 1 << MAX_BITS:
        return LAST
    n = ns.bit_length() - 1
    return (n - SUB_BITS + 1) * SUBS + ((ns >> (n - SUB_BITS)) & (SUBS - 1))


def bucket_bounds(index: int) -> tuple[int, int]:
    """Return (low, high) in ns, low <= value < high; ValueError if there is no such bucket."""
    if not 0 <= index <= LAST:
        raise ValueError(f"no such bucket: {index}")
    return _BOUNDS[index]


def _bounds(index: int) -> tuple[int, int]:
    if index < SUBS:
        return index, index + 1
    if index == LAST:
        return 1 << MAX_BITS, 1 << 64
    shift, sub = divmod(index - SUBS, SUBS)
    return (SUBS + sub) << shift, (SUBS + sub + 1) << shift


_BOUNDS = [_bounds(index) for index in range(LAST + 1)]
_INDICES = {bounds: index for index, bounds in enumerate(_BOUNDS)}
_LINES = [f"[{low}, {high}, " for low, high in _BOUNDS]


class Buckets(Sequence[Bucket]):
    """(low, high, count) as they were given, each in eight bytes. Raises ValueError for a bucket
    that is not of this grid, whose values could not be shared out among ours, and for a count that
    is negative or 2^54 and more.
    """

    __slots__ = ("_packed",)

    _packed: "array[int]"

    def __init__(self, buckets: Iterable[Bucket] = ()) -> None:
        if isinstance(buckets, Buckets):
            self._packed = buckets._packed
            return
        try:
            self._packed = array(
                "Q", [_INDICES[low, high] | count << _BITS for low, high, count in buckets]
            )
        except (KeyError, OverflowError):
            raise ValueError(_fault(buckets)) from None

    @classmethod
    def counted(cls, counts: Mapping[int, int]) -> Self:
        """Those of counts by bucket index that are not empty, in order."""
        found = cls()
        found._packed = array("Q", [i | n << _BITS for i, n in sorted(counts.items()) if n])
        return found

    @staticmethod
    def sums(several: Iterable["Buckets"]) -> dict[int, int]:
        """Counts by bucket index of all of them together, those that are not 0, in order."""
        every, grid = array("Q"), [0] * (LAST + 1)
        for buckets in several:
            every.extend(buckets._packed)
        for packed in every:  # of large captures there are millions
            grid[packed & _INDEX] += packed >> _BITS
        return {index: count for index, count in enumerate(grid) if count}

    def count_any(self) -> bool:
        """Whether there is a value in any of them."""
        packed = self._packed
        return bool(packed) and (packed[0] > _INDEX or max(packed) > _INDEX)

    def lines(self, indent: str) -> bytes:
        """As JSON, each on a line that begins with `indent`."""
        if not self._packed:
            return b"[]"
        between = ",\n" + indent + "  "
        each = between.join([f"{_LINES[p & _INDEX]}{p >> _BITS}]" for p in self._packed])
        return f"[{between[1:]}{each}\n{indent}]".encode()

    def __iter__(self) -> Iterator[Bucket]:
        for packed in self._packed:
            yield (*_BOUNDS[packed & _INDEX], packed >> _BITS)

    def __len__(self) -> int:
        return len(self._packed)

    @overload
    def __getitem__(self, at: int) -> Bucket: ...
    @overload
    def __getitem__(self, at: slice) -> list[Bucket]: ...
    def __getitem__(self, at: int | slice) -> Bucket | list[Bucket]:
        return list(self)[at]

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Buckets):
            return self._packed == other._packed
        return bool(list(self) == other)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return repr(list(self))


def _fault(buckets: Iterable[Bucket]) -> str:
    for low, high, count in buckets:
        if (low, high) not in _INDICES:
            return f"[{low}, {high}) is not a bucket of 16 per power of two"
        if count < 0:
            return f"[{low}, {high}) has a negative count: {count}"
        if count >> (64 - _BITS):
            return f"[{low}, {high}) has a count that cannot be: {count}"
    return "buckets that are none"


def plain(value: Any) -> Any:
    """For msgspec, which knows no Buckets: its enc_hook."""
    if isinstance(value, Buckets):
        return list(value)
    raise NotImplementedError
