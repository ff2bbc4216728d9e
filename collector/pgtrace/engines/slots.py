"""The kernel's slots, read through memory that both halves share."""

import functools
import struct
from collections.abc import Collection, Iterable, Iterator, Sequence
from ctypes import sizeof

from ..capture import Call, Operation
from ..libbpf.objects import Object
from . import Counts, Key, ReadsByKey, add_reads, layout

BEGUN_BEFORE = 1  # the number of the scope that is open when tracing begins

_HEAD_FORMAT = "<IIQIIII7Q"
_SLOT = struct.Struct(f"{_HEAD_FORMAT}{layout.CHUNKS}I")
_HEAD = struct.calcsize(_HEAD_FORMAT)  # what is emptied before a slot is given back
_CHUNK = struct.Struct(f"<{layout.SUBS}Q")
_EMPTY_CHUNK = bytes(_CHUNK.size)
_EMPTY_HEAD = struct.pack(_HEAD_FORMAT, 0, 0, 0, layout.KEYS, *([0] * 10))
_SUMS = struct.Struct("<IIQIIII4Q")  # the head, up to total_ns
_OWNER, _PAYER, _QUERY, _KEY, _NEXT, _FILE, _COUNT, _CHUNKS = 0, 1, 2, 3, 4, 5, 7, 14
_AT_ONCE = 128
_SLOTS, _CHUNK_QUEUE = 0, 1  # enum queue in bpf/fill.bpf.c

assert _SLOT.size == sizeof(layout.Slot)
assert _CHUNK.size == sizeof(layout.Chunk)

_Values = tuple[int, ...]
ReadsByQuery = dict[int, ReadsByKey]
"""By the number of the query, or layout.STATEMENT and what follows."""
Sums = dict[Key, tuple[int, int, int]]
"""Count, bytes, nanoseconds."""


@functools.cache
def key_of(number: int, file: int = 0) -> Key:
    """A slot's key from its number (see KEYS in bpf/pgtrace.h), and its file."""
    rest, source = divmod(number, len(layout.SOURCES))
    rest, pattern = divmod(rest, len(layout.PATTERNS))
    rest, size = divmod(rest, len(layout.SIZES))
    rest, direct = divmod(rest, 2)
    rest, performer = divmod(rest, len(layout.PERFORMERS))
    scope, operation = divmod(rest, len(layout.OPERATIONS))
    return Key(
        layout.SCOPES[scope],
        layout.PERFORMERS[performer],
        bool(direct),
        layout.SIZES[size],
        layout.PATTERNS[pattern],
        layout.SOURCES[source],
        file,
        *_operation(layout.OPERATIONS[operation]),
    )


def _operation(name: Operation | Call) -> tuple[Operation, Call | None]:
    """What the kernel tells apart, as an operation and the call that it was."""
    if name == "read" or name == "write":  # noqa: PLR1714  # mypy follows no `in`
        return name, None
    return "fsync", name


class SlotPool:
    """Reads slots, and gives back those of queries and tasks that ended.

    Tasks are named by their serials. An index that the kernel keeps is one more than it says,
    and 0 none.
    """

    def __init__(self, loaded: Object, slots: int, chunks: int) -> None:
        self._slots = loaded.map("pgt_slots").memory()
        self._chunks = loaded.map("pgt_chunks").pieces()
        self._free_slots = loaded.map("pgt_free_slots")
        self._free_chunks = loaded.map("pgt_free_chunks")
        self._indexes = loaded.map("pgt_slot_indexes")
        self._count = slots
        fill(loaded, _SLOTS, slots)
        fill(loaded, _CHUNK_QUEUE, chunks)
        self._returned: dict[int, ReadsByKey] = {}
        self._charged: dict[tuple[int, int], list[int]] = {}
        self.gone: Sums = {}
        """Of tasks that were released."""
        self.idle: set[int] = set()
        """Tasks that ran no query when tracing began: what they read then was outside."""

    def note_charged(self, payer: int, query: int, place: int) -> None:
        """Another task has taken a slot for reads that this one pays."""
        self._charged.setdefault((payer, query), []).append(place)

    def hand_over(self, payer: int, query: int, first: int, *, outside: bool) -> ReadsByKey:
        """Read and give back the slots of a scope that ended.

        Their reads stay counted here, so that totals keep them: outside queries, if the scope
        was none.
        """
        places = [*self._chain(first), *self._charged.pop((payer, query), ())]
        if not places:
            return {}
        reads = self._take(payer, query, places)
        add_reads(self._returned.setdefault(payer, {}), reads, scope="outside" if outside else None)
        return reads

    def of_query(self, payer: int, query: int, first: int) -> ReadsByKey:
        """Reads so far of a query that still runs."""
        places = [*self._chain(first), *self._charged.get((payer, query), ())]
        reads: ReadsByKey = {}
        for values in map(self._values, places):
            if (values[_PAYER], values[_QUERY]) == (payer, query):
                add_reads(reads, {self._key(values): self._counts(values)})
        return reads

    def returned(self, payer: int) -> ReadsByKey:
        """Reads of the queries that were handed over."""
        return self._returned.get(payer, {})

    def grouped(self, of: Collection[int] | None = None) -> dict[int, ReadsByQuery]:
        """By payer and query, all reads that were not handed over."""
        found: dict[int, ReadsByQuery] = {}
        for _, values in self._live(of):
            reads = found.setdefault(values[_PAYER], {}).setdefault(values[_QUERY], {})
            add_reads(reads, {self._key(values): self._counts(values)})
        return found

    def sums(self, of: Collection[int] | None = None) -> dict[int, Sums]:
        """By payer, count, bytes and nanoseconds by key, without any histogram."""
        found: dict[int, Sums] = {}
        for place in self._places(of):
            values = _SUMS.unpack_from(self._slots, (place - 1) * _SLOT.size)
            count, size, _, total = values[_COUNT:]
            if count:
                sums = found.setdefault(values[_PAYER], {})
                add_sum(sums, self._key(values), count, size, total)
        for payer, reads in self._returned.items():
            if of is None or payer in of:
                _add_reads_sums(found.setdefault(payer, {}), reads)
        return found

    def release(self, payers: Sequence[int]) -> list[ReadsByQuery]:
        """All reads that each of these tasks paid; their slots are given back.

        What was handed over before is under 0, with what was outside queries.
        """
        found: dict[int, ReadsByQuery] = {payer: {} for payer in payers}
        for place, values in list(self._live(found.keys())):
            payer, query = values[_PAYER], values[_QUERY]
            add_reads(found[payer].setdefault(query, {}), self._take(payer, query, [place]))
        for pair in [pair for pair in self._charged if pair[0] in found]:
            del self._charged[pair]
        for payer, reads in found.items():
            add_reads(reads.setdefault(0, {}), self._returned.pop(payer, {}))
            for by_key in reads.values():
                _add_reads_sums(self.gone, by_key)
        return list(found.values())

    def latency(self, sums: layout.Calls) -> Counts:
        """Calls and their latencies."""
        return Counts(
            sums.calls, 0, 0, sums.total_ns, sums.min_ns, sums.max_ns, 0, self._buckets(sums.chunk)
        )

    def empty_chunks(self, chunks: Iterable[int], *, give_back: bool = False) -> None:
        """Set their counters to nothing; whoever has them may keep them."""
        for chunk in chunks:
            if chunk:
                memory, at = self._chunks.at(chunk - 1)
                memory[at : at + _CHUNK.size] = _EMPTY_CHUNK
                if give_back:
                    self._free_chunks.update(None, struct.pack("<I", chunk - 1))

    def close(self) -> None:
        """Give back the memory."""
        self._slots.close()
        self._chunks.close()

    def _chain(self, first: int) -> Iterator[int]:
        while first:
            yield first
            first = self._values(first)[_NEXT]

    def _values(self, place: int) -> _Values:
        return _SLOT.unpack_from(self._slots, (place - 1) * _SLOT.size)

    def _take(self, payer: int, query: int | None, places: Iterable[int]) -> ReadsByKey:
        reads: ReadsByKey = {}
        for place in list(places):
            values = self._values(place)
            if values[_PAYER] != payer or query not in (None, values[_QUERY]):
                continue
            add_reads(reads, {self._key(values): self._counts(values)})
            self.empty_chunks(values[_CHUNKS:])
            at = (place - 1) * _SLOT.size
            self._slots[at : at + _HEAD] = _EMPTY_HEAD
            # owner, payer, query, key, and the file
            self._indexes.delete(bytes(layout.SlotKey(*values[: _KEY + 1], values[_FILE])))
            self._free_slots.update(None, struct.pack("<I", place - 1))
        return reads

    def _key(self, values: _Values) -> Key:
        key = key_of(values[_KEY], values[_FILE])
        if values[_OWNER] != values[_PAYER] and key.performed_by == "backend":
            return key._replace(performed_by="io worker")
        if values[_QUERY] == BEGUN_BEFORE and values[_PAYER] in self.idle:
            return key._replace(scope="outside")
        return key

    def _places(self, of: Collection[int] | None = None) -> list[int]:
        payers = memoryview(self._slots)[: self._count * _SLOT.size].cast("I")
        stride = _SLOT.size // 4
        wanted = [
            i + 1
            for i, found in enumerate(payers[1::stride])
            if found and (of is None or found in of)
        ]
        payers.release()
        return wanted

    def _live(self, of: Collection[int] | None = None) -> Iterator[tuple[int, _Values]]:
        for place in self._places(of):
            values = self._values(place)
            if values[_COUNT]:
                yield place, values

    def _counts(self, values: _Values) -> Counts:
        count, size, device, total, low, high, queued = values[_COUNT:_CHUNKS]
        buckets = self._buckets(values[_CHUNKS:])
        return Counts(count, size, device, total, low, high, queued, buckets)

    def _buckets(self, chunks: Iterable[int]) -> dict[int, int]:
        buckets = {}
        for chunk, place in enumerate(chunks):
            if place:
                numbers = _CHUNK.unpack_from(*self._chunks.at(place - 1))
                for sub, number in enumerate(numbers):
                    if number:
                        buckets[chunk * layout.SUBS + sub] = number
        return buckets


def fill(loaded: Object, queue: int, count: int, first: int = 0) -> None:
    """Put places into a queue of free ones; `queue` is that of bpf/fill.bpf.c."""
    while first < count:
        if loaded.run("pgt_fill", queue, first, min(_AT_ONCE, count - first)):
            raise RuntimeError(f"queue {queue} does not hold {count}")
        first += _AT_ONCE


def add_sum(sums: Sums, key: Key, count: int, size: int, total: int) -> None:
    """Add to the sums of one key."""
    before = sums.get(key, (0, 0, 0))
    sums[key] = (before[0] + count, before[1] + size, before[2] + total)


def _add_reads_sums(sums: Sums, reads: ReadsByKey) -> None:
    for key, counts in reads.items():
        add_sum(sums, key, counts.count, counts.bytes, counts.total_ns)
