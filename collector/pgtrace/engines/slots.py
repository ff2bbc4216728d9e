"""The kernel's slots, read through memory that both halves share."""

import functools
import struct
from collections.abc import Collection, Iterable, Iterator, Sequence
from ctypes import sizeof

from ..libbpf.objects import Object
from . import Counts, Key, ReadsByKey, add_reads, layout

BEGUN_BEFORE = 1  # the number of the scope that is open when tracing begins

_HEAD_FORMAT = "<IIQII7Q"
_SLOT = struct.Struct(f"{_HEAD_FORMAT}{layout.CHUNKS}I")
_HEAD = struct.calcsize(_HEAD_FORMAT)  # what is emptied before a slot is given back
_CHUNK = struct.Struct(f"<{layout.SUBS}Q")
_EMPTY_CHUNK = bytes(_CHUNK.size)
_EMPTY_HEAD = struct.pack(_HEAD_FORMAT, 0, 0, 0, layout.KEYS, *([0] * 8))
_OWNER, _PAYER, _QUERY, _KEY, _NEXT, _COUNT, _CHUNKS = 0, 1, 2, 3, 4, 5, 12

assert _SLOT.size == sizeof(layout.Slot)
assert _CHUNK.size == sizeof(layout.Chunk)

_Values = tuple[int, ...]


@functools.cache
def key_of(number: int) -> Key:
    """A slot's key from its number (see KEYS in bpf/pgtrace.h)."""
    rest, source = divmod(number, len(layout.SOURCES))
    rest, pattern = divmod(rest, len(layout.PATTERNS))
    rest, size = divmod(rest, len(layout.SIZES))
    rest, direct = divmod(rest, 2)
    scope, performer = divmod(rest, len(layout.PERFORMERS))
    return Key(
        layout.SCOPES[scope],
        layout.PERFORMERS[performer],
        bool(direct),
        layout.SIZES[size],
        layout.PATTERNS[pattern],
        layout.SOURCES[source],
    )


class SlotPool:
    """Reads slots, and gives back those of queries and tasks that ended.

    Tasks are named by their serials. An index that the kernel keeps is one more than it says,
    and 0 none.
    """

    def __init__(self, loaded: Object, slots: int, chunks: int) -> None:
        self._slots = loaded.map("pgt_slots").memory()
        self._chunks = loaded.map("pgt_chunks").memory()
        self._free_slots = loaded.map("pgt_free_slots")
        self._charged_map = loaded.map("pgt_charged")
        self._count = slots
        for index in range(slots):
            self._free_slots.update(None, struct.pack("<I", index))
            self._slots[index * _SLOT.size : index * _SLOT.size + _HEAD] = _EMPTY_HEAD
        free_chunks = loaded.map("pgt_free_chunks")
        for index in range(chunks):
            free_chunks.update(None, struct.pack("<I", index))
        self._returned: dict[int, ReadsByKey] = {}
        self._charged: dict[tuple[int, int], list[int]] = {}
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

    def totals(self) -> dict[int, ReadsByKey]:
        """By payer, all reads since tracing began, without those of released tasks."""
        totals: dict[int, ReadsByKey] = {}
        for payer, reads in self._returned.items():
            add_reads(totals.setdefault(payer, {}), reads)
        for _, values in self._live():
            add_reads(
                totals.setdefault(values[_PAYER], {}), {self._key(values): self._counts(values)}
            )
        return totals

    def release(self, payers: Sequence[int]) -> list[ReadsByKey]:
        """All reads that each of these tasks paid; their slots are given back."""
        places: dict[int, list[int]] = {payer: [] for payer in payers}
        for place, values in self._live(places.keys()):
            places[values[_PAYER]].append(place)
        for key in [key for key in self._charged if key[0] in places]:
            del self._charged[key]
        found = []
        for payer, mine in places.items():
            reads = self._returned.pop(payer, {})
            add_reads(reads, self._take(payer, None, mine))
            self.idle.discard(payer)
            found.append(reads)
        return found

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
            for chunk in values[_CHUNKS:]:
                if chunk:
                    at = (chunk - 1) * _CHUNK.size
                    self._chunks[at : at + _CHUNK.size] = _EMPTY_CHUNK
            at = (place - 1) * _SLOT.size
            self._slots[at : at + _HEAD] = _EMPTY_HEAD
            if values[_OWNER] != values[_PAYER]:
                self._charged_map.delete(
                    bytes(layout.ChargedKey(*values[: _KEY + 1], 0))  # owner, payer, query, key
                )
            self._free_slots.update(None, struct.pack("<I", place - 1))
        return reads

    def _key(self, values: _Values) -> Key:
        key = key_of(values[_KEY])
        if values[_OWNER] != values[_PAYER] and key.performed_by == "backend":
            return key._replace(performed_by="io worker")
        if values[_QUERY] == BEGUN_BEFORE and values[_PAYER] in self.idle:
            return key._replace(scope="outside")
        return key

    def _live(self, of: Collection[int] | None = None) -> Iterator[tuple[int, _Values]]:
        payers = memoryview(self._slots)[: self._count * _SLOT.size].cast("I")
        stride = _SLOT.size // 4
        wanted = [
            i + 1
            for i, found in enumerate(payers[1::stride])
            if found and (of is None or found in of)
        ]
        payers.release()
        for place in wanted:
            values = self._values(place)
            if values[_COUNT]:
                yield place, values

    def _counts(self, values: _Values) -> Counts:
        buckets = {}
        for chunk, place in enumerate(values[_CHUNKS:]):
            if place:
                numbers = _CHUNK.unpack_from(self._chunks, (place - 1) * _CHUNK.size)
                for sub, number in enumerate(numbers):
                    if number:
                        buckets[chunk * layout.SUBS + sub] = number
        count, size, device, total, low, high, queued = values[_COUNT:_CHUNKS]
        return Counts(count, size, device, total, low, high, queued, buckets)
