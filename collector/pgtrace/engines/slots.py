"""The kernel's slots, read through memory that both halves share."""

import functools
import mmap
import struct
from ctypes import sizeof

from ..libbpf.objects import Map, Object
from . import Counts, Key, ReadsByKey, add_reads, layout

_SLOT = struct.Struct(f"<IIQII6Q{layout.CHUNKS}I")
BEGUN_BEFORE = 1  # the number of the scope that is open when tracing begins
_HEAD = struct.calcsize("<IIQII6Q")  # what is emptied before a slot is given back
_CHUNK = struct.Struct(f"<{layout.SUBS}Q")
_EMPTY_CHUNK = bytes(_CHUNK.size)
_EMPTY_HEAD = struct.pack("<IIQII6Q", 0, layout.KEYS, *([0] * 9))

assert _SLOT.size == sizeof(layout.Slot)
assert _CHUNK.size == sizeof(layout.Chunk)


@functools.cache
def key_of(number: int) -> Key:
    """A slot's key from its number (see KEYS in bpf/pgtrace.h)."""
    rest, source = divmod(number, len(layout.SOURCES))
    rest, pattern = divmod(rest, len(layout.PATTERNS))
    rest, size = divmod(rest, len(layout.SIZES))
    scope, direct = divmod(rest, 2)
    return Key(
        layout.SCOPES[scope],
        bool(direct),
        layout.SIZES[size],
        layout.PATTERNS[pattern],
        layout.SOURCES[source],
    )


class SlotPool:
    """Reads slots, and gives back those of queries that ended."""

    def __init__(self, loaded: Object) -> None:
        self._slots = loaded.map("pgt_slots").memory()
        self._chunks = loaded.map("pgt_chunks").memory()
        self._free: Map = loaded.map("pgt_free")
        self._taken_memory = mmap.mmap(loaded.map(".data.taken").fd, mmap.PAGESIZE)
        self._taken = layout.Taken.from_buffer(self._taken_memory)
        self._returned: dict[int, ReadsByKey] = {}
        self.idle: set[int] = set()
        """Tasks that ran no query when tracing began: what they read then was outside."""

    def hand_over(self, first: int, *, outside: bool) -> ReadsByKey:
        """Read and give back the slots of a scope that ended.

        `first` is index + 1, and 0 the end, as in the kernel. Their reads stay counted here,
        so that totals keep them: outside queries, if the scope was none.
        """
        reads: ReadsByKey = {}
        task = 0
        while first:
            index = first - 1
            at = index * _SLOT.size
            values = _SLOT.unpack_from(self._slots, at)
            task, first = values[0], values[3]
            add_reads(reads, {self._key(values): self._counts(values)})
            for chunk in values[11:]:
                if chunk:
                    place = (chunk - 1) * _CHUNK.size
                    self._chunks[place : place + _CHUNK.size] = _EMPTY_CHUNK
            self._slots[at : at + _HEAD] = _EMPTY_HEAD
            self._free.update(None, struct.pack("<I", index))
        add_reads(self._returned.setdefault(task, {}), reads, "outside" if outside else None)
        return reads

    def totals(self) -> dict[int, ReadsByKey]:
        """By task, all reads since tracing began."""
        totals: dict[int, ReadsByKey] = {}
        for task, reads in self._returned.items():
            add_reads(totals.setdefault(task, {}), reads)
        for values in self._live():
            add_reads(totals.setdefault(values[0], {}), {self._key(values): self._counts(values)})
        return totals

    def of_query(self, first: int) -> ReadsByKey:
        """Reads so far of a query that still runs."""
        reads: ReadsByKey = {}
        while first:
            values = _SLOT.unpack_from(self._slots, (first - 1) * _SLOT.size)
            first = values[3]
            add_reads(reads, {self._key(values): self._counts(values)})
        return reads

    def close(self) -> None:
        """Give back the memory."""
        del self._taken
        for memory in (self._slots, self._chunks, self._taken_memory):
            memory.close()

    def _key(self, values: tuple[int, ...]) -> Key:
        key = key_of(values[1])
        if values[2] == BEGUN_BEFORE and values[0] in self.idle:
            return key._replace(scope="outside")
        return key

    def _live(self) -> list[tuple[int, ...]]:
        count = min(self._taken.slots, len(self._slots) // _SLOT.size)
        slots = (_SLOT.unpack_from(self._slots, i * _SLOT.size) for i in range(count))
        return [values for values in slots if values[5]]

    def _counts(self, values: tuple[int, ...]) -> Counts:
        buckets = {}
        for chunk, place in enumerate(values[11:]):
            if place:
                numbers = _CHUNK.unpack_from(self._chunks, (place - 1) * _CHUNK.size)
                for sub, number in enumerate(numbers):
                    if number:
                        buckets[chunk * layout.SUBS + sub] = number
        count, size, device, total, low, high = values[5:11]
        return Counts(count, size, device, total, low, high, buckets)
