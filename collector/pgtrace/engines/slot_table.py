"""The kernel's slots, read through memory that both halves share."""

import functools
import struct
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from ctypes import sizeof
from typing import TypeVar

from ..libbpf.objects import Object
from ..model.capture import Call, Operation, TimeKind
from . import (
    ByPower,
    Counts,
    Key,
    ReadsByKey,
    Sums,
    TimeKey,
    TimeSums,
    add_reads,
    fold_files,
    layout,
    times_of,
)
from .column import Column
from .map_sizes import Room
from .slot_sums import (
    COUNT,
    FIRST_POWER,
    HEAD,
    PAYER,
    QUERY,
    ReadsByQuery,
    SlotSums,
    Values,
    add_powers,
    add_reads_powers,
    add_reads_sums,
    add_sum,
)

BEGUN_BEFORE = 1  # the number of the scope that is open when tracing begins

_HEAD_FORMAT = "<IIQIIII7Q"
_SLOT = struct.Struct(f"{_HEAD_FORMAT}{layout.CHUNKS}I{layout.Slot.padding.size}x")
_HEAD = struct.calcsize(_HEAD_FORMAT)
_CHUNK = struct.Struct(f"<{layout.SUBS}Q")
_EMPTY_CHUNK = bytes(_CHUNK.size)
_EMPTY = struct.pack(_HEAD_FORMAT, 0, 0, 0, layout.ALL_KEYS, *([0] * 10)).ljust(_SLOT.size, b"\0")
_OWNER, _KEY, _NEXT, _FILE, _TOTAL, _CHUNKS = 0, 3, 4, 5, 8, 14
_AT_ONCE = 8192
_COUNT_AT, _OWNER_AT, _PAYER_AT, _KEY_AT, _FILE_AT = (
    layout.Slot.count.offset,
    layout.Slot.owner.offset,
    layout.Slot.charged_to.offset,
    layout.Slot.key.offset,
    layout.Slot.file.offset,
)
_SLOTS, _CHUNK_QUEUE = 0, 1  # enum queue in bpf/free_lists.bpf.c

assert _SLOT.size == sizeof(layout.Slot) == len(_EMPTY)
assert _CHUNK.size == sizeof(layout.Chunk)

_K = TypeVar("_K", Key, TimeKey)


@functools.lru_cache(maxsize=1 << 13)  # numbers of files are new for ever
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


def time_key_of(number: int, event: int) -> TimeKey:
    """A slot's key from its number, which is none of key_of()'s, and its event."""
    scope, kind = divmod(number - layout.KEYS, len(layout.TIMES))
    return TimeKey(layout.SCOPES[scope], "backend", layout.TIMES[kind], event)


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

    def __init__(
        self, loaded: Object, room: Room, file_number: Callable[[int], int] = lambda entry: entry
    ) -> None:
        """`file_number` is what Key.file is of a file entry."""
        self._file_number = file_number
        self._slots = loaded.map("pgt_slots").pieces()
        self._chunks = loaded.map("pgt_chunks").pieces()
        self._free_slots = loaded.map("pgt_free_slots"), loaded.map("pgt_spare_slots")
        self._free_chunks = loaded.map("pgt_free_chunks"), loaded.map("pgt_spare_chunks")
        self._indexes = loaded.map("pgt_slot_indexes")
        self._room = room
        fill(loaded, _SLOTS, room.slots)
        fill(loaded, _SLOTS, room.spare_slots, first=room.slots)
        fill(loaded, _CHUNK_QUEUE, room.chunks)
        fill(loaded, _CHUNK_QUEUE, room.spare_chunks, first=room.chunks)
        self._columns = [
            Column(self._slots, _SLOT.size, _PAYER_AT, _KEY_AT, range(first, end))
            for first, end in ((0, room.slots), (room.slots, room.slots + room.spare_slots))
        ]
        self._returned: dict[int, ReadsByQuery] = {}
        self._retired: dict[int, int] = {}
        """Slots that nobody finds any more, and may be in use for a moment yet; their keys."""
        self._charged: dict[tuple[int, int], list[int]] = {}
        self._all = SlotSums(self._columns, self._returned, self._counted_key, self._timed)
        self.idle: set[int] = set()
        """Tasks that ran no query when tracing began: what they read then was outside."""
        self.is_begun_before: Callable[[int], bool] = lambda query: query == BEGUN_BEFORE
        """Whether a query, or a statement, by its number, is what was open when tracing began."""

    def is_outside(self, charged_to: int, query: int) -> bool:
        """Whether it is none: the kernel takes it that a backend was in a query when tracing began,
        until its first one begins.
        """
        return charged_to in self.idle and self.is_begun_before(query)

    def note_charged(self, charged_to: int, query: int, place: int) -> None:
        """Another task has taken a slot for reads that this one pays."""
        self._charged.setdefault((charged_to, query), []).append(place)

    def hand_over(self, charged_to: int, query: int, first: int, *, outside: bool) -> ReadsByKey:
        """Read and give back the slots of a scope that ended.

        Their reads stay counted here, so that totals keep them: outside queries, if the scope
        was none.
        """
        places = [*self._chain(first), *self._charged.pop((charged_to, query), ())]
        returned = self._given_back(charged_to, 0)
        # What was read for a query after it was handed over, or whose record was lost
        for pair in [pair for pair in self._charged if pair[0] == charged_to and pair[1] < query]:
            add_reads(returned, self._take(*pair, self._charged.pop(pair)))
        reads = self._take(charged_to, query, places)
        add_reads(returned, reads, scope="outside" if outside else None)
        return reads

    def of_query(self, charged_to: int, query: int, first: int) -> ReadsByKey:
        """Reads so far of a query that still runs."""
        places = [*self._chain(first), *self._charged.get((charged_to, query), ())]
        reads: ReadsByKey = {}
        for values in map(self._values, places):
            if (values[PAYER], values[QUERY]) == (charged_to, query) and _is_counted(values):
                add_reads(reads, {self._key(values): self._counts(values)})
        return reads

    def grouped(self, of: Collection[int] | None = None) -> dict[int, ReadsByQuery]:
        """By charged_to and query, all reads; what was handed over is under 0."""
        found: dict[int, ReadsByQuery] = {}
        for place in self._places(of):
            values = self._values(place)
            if _is_counted(values):
                reads = found.setdefault(values[PAYER], {}).setdefault(values[QUERY], {})
                add_reads(reads, {self._key(values): self._counts(values)})
        for charged_to, returned in self._returned.items():
            if of is None or charged_to in of:
                for query, each in returned.items():
                    add_reads(found.setdefault(charged_to, {}).setdefault(query, {}), each)
        return found

    def sums(self, of: Collection[int] | None = None) -> dict[int, dict[int, Sums]]:
        """By charged_to and query, count, bytes and nanoseconds by key, without any histogram. Of
        all, only what has changed since the last call is looked at.
        """
        return self._all.sums() if of is None else self._sums_of(of)

    def _sums_of(self, of: Collection[int]) -> dict[int, dict[int, Sums]]:
        found: dict[int, dict[int, Sums]] = {}
        for values in map(self._head, self._places(of)):
            if values[PAYER] in of and _is_counted_io(values):
                sums = found.setdefault(values[PAYER], {}).setdefault(values[QUERY], {})
                count, total, _, _, size = values[COUNT:]
                add_sum(sums, self._io_key(values), count, size, total)
        for charged_to in self._returned.keys() & of:
            for query, each in self._returned[charged_to].items():
                sums = found.setdefault(charged_to, {}).setdefault(query, {})
                add_reads_sums(sums, each)
        return found

    def time_sums(self, of: Collection[int] | None = None) -> dict[int, TimeSums]:
        """By charged_to, where the time went that is over."""
        found: dict[int, TimeSums] = {}
        for place in self._places(of):
            values = self._head(place)
            if _is_counted(values) and isinstance(key := self._key(values), TimeKey):
                add_time(found.setdefault(values[PAYER], {}), key, values[_TOTAL])
        for charged_to, returned in self._returned.items():
            if of is None or charged_to in of:
                for reads in returned.values():
                    for key, counts in times_of(reads).items():
                        add_time(found.setdefault(charged_to, {}), key, counts.total_ns)
        return found

    def by_power(self, of: Collection[int] | None = None) -> dict[int, ByPower]:
        """By charged_to, how long everything took, coarsely. Of all, it is those for whom more was
        counted since the last call, by the last sums().
        """
        if of is None:
            return self._all.by_power()
        found: dict[int, ByPower] = {}
        for place in self._places(of):
            if timed := self._timed(place):
                charged_to, key, powers = timed
                add_powers(found.setdefault(charged_to, {}), (key.operation, key.source), powers)
        for charged_to in self._returned.keys() & of:
            for reads in self._returned[charged_to].values():
                add_reads_powers(found.setdefault(charged_to, {}), reads)
        return found

    def counts(self) -> list[object]:
        """What differs from what it was as soon as anything more was counted: cheap."""
        return [part for column in self._columns for part in column.parts(_COUNT_AT)]

    def release(self, tasks: Sequence[int], others: Collection[int]) -> list[ReadsByQuery]:
        """All reads that each of these tasks paid. Their slots are given back, and those in which
        they counted what `others` pay, who are there still.

        What was handed over before is under 0, with what was outside queries.
        """
        ended = set(tasks)
        for place in self._places(ended, owners=True):
            owner, charged_to, query = self._values(place)[: QUERY + 1]
            if charged_to in ended:
                mine = self._given_back(charged_to, query)
                add_reads(mine, self._take(charged_to, query, [place]))
            elif charged_to not in others:
                # It was gone before this read for it was made: that is whose it stays
                mine = self._given_back(owner, 0)
                reads = self._take(charged_to, query, [place])
                add_reads(mine, reads, scope="outside", performed_by="backend")
            elif not 0 < query < layout.OTHERS:  # no query will ask for it
                theirs = self._given_back(charged_to, query)
                add_reads(theirs, self._take(charged_to, query, [place]))
        for pair in [pair for pair in self._charged if pair[0] in ended]:
            del self._charged[pair]
        self._all.note_all(ended)
        return [self._returned.pop(task, {}) for task in tasks]

    def fold_files(self, instead: Mapping[int, int]) -> None:
        """Count what was handed over of some files on those that stand for them."""
        self._all.note_everybody()  # a file of a slot has another number now, too
        for by_query in self._returned.values():
            for reads in by_query.values():
                fold_files(reads, instead)

    def retire(self, entries: Collection[int]) -> None:
        """Let nobody find the slots of these files.

        Whoever has just found one may count in it for a moment: settle() reads it later. Those of a
        query that runs are linked, and become their statement's first.
        """
        for place in self._of_files(entries):
            values = self._values(place)
            if place in self._retired or 0 < values[QUERY] < layout.OTHERS:
                continue
            if not _is_of_a_key(values):
                continue
            self._indexes.delete(bytes(layout.SlotKey(*values[: _KEY + 1], values[_FILE])))
            self._retired[place] = values[_KEY]
            memory, at = self._slots.at(place - 1)
            memory[at + _KEY_AT : at + _KEY_AT + 4] = struct.pack("<I", layout.ALL_KEYS)

    def settle(self, entries: Collection[int]) -> bool:
        """Read and give back those that were retired some time ago; whether none is left of these
        files.
        """
        for place in self._of_files(entries):
            if place in self._retired:
                _, charged_to, query = self._values(place)[: QUERY + 1]
                theirs = self._given_back(charged_to, query)
                add_reads(theirs, self._take(charged_to, query, [place]))
        return not self._of_files(entries)

    def in_use(self) -> tuple[int, int]:
        """How many slots are taken, and how many chunks they have."""
        places = self._places()
        return len(places), sum(sum(map(bool, self._values(place)[_CHUNKS:])) for place in places)

    def latency(self, sums: layout.Calls) -> Counts:
        """Calls and their latencies."""
        buckets = self._buckets(sums.chunk)
        return Counts(buckets, sums.total_ns, sums.min_ns or None, sums.max_ns, sums.calls)

    def give_back(self, chunks: Iterable[int]) -> None:
        """Empty these chunks, which nobody has any more, and offer them to the next."""
        for chunk in chunks:
            if chunk:
                memory, at = self._chunks.at(chunk - 1)
                memory[at : at + _CHUNK.size] = _EMPTY_CHUNK
                free = self._free_chunks[chunk > self._room.chunks]
                free.update(None, struct.pack("<I", chunk - 1))

    def close(self) -> None:
        """Give back the memory."""
        self._slots.close()
        self._chunks.close()

    def _given_back(self, charged_to: int, query: int) -> ReadsByKey:
        """Where what its slots had counted is added, once they are others'."""
        self._all.note(charged_to, query)
        return self._returned.setdefault(charged_to, {}).setdefault(query, {})

    def _chain(self, first: int) -> Iterator[int]:
        while first:
            yield first
            first = self._values(first)[_NEXT]

    def _values(self, place: int) -> Values:
        return self._with_key(place, _SLOT.unpack_from(*self._slots.at(place - 1)))

    def _head(self, place: int) -> Values:
        """The same without what comes behind its sums."""
        return self._with_key(place, HEAD.unpack_from(*self._slots.at(place - 1)))

    def _with_key(self, place: int, values: Values) -> Values:
        if place not in self._retired:
            return values
        return (*values[:_KEY], self._retired[place], *values[_KEY + 1 :])

    def _take(self, charged_to: int, query: int | None, places: Iterable[int]) -> ReadsByKey:
        reads: ReadsByKey = {}
        for place in list(places):
            values = self._values(place)
            if values[PAYER] != charged_to or query not in (None, values[QUERY]):
                continue
            if _is_counted(values):  # not if it was taken while there was no chunk
                add_reads(reads, {self._key(values): self._counts(values)})
            if self._retired.pop(place, None) is None:
                # owner, charged_to, query, key, and the file
                self._indexes.delete(bytes(layout.SlotKey(*values[: _KEY + 1], values[_FILE])))
            memory, at = self._slots.at(place - 1)
            memory[at : at + _SLOT.size] = _EMPTY
            self.give_back(values[_CHUNKS:])
            free = self._free_slots[place > self._room.slots]
            free.update(None, struct.pack("<I", place - 1))
        return reads

    def _key(self, values: Values) -> Key | TimeKey:
        if values[_KEY] >= layout.KEYS:
            return self._told(values, time_key_of(values[_KEY], values[_FILE]))
        return self._io_key(values)

    def _io_key(self, values: Values) -> Key:
        return self._told(values, key_of(values[_KEY], self._file_number(values[_FILE])))

    def _counted_key(self, place: int, values: Values) -> Key | None:
        values = self._with_key(place, values)
        return self._io_key(values) if _is_counted_io(values) else None

    def _timed(self, place: int) -> tuple[int, Key, dict[int, int]] | None:
        """Who pays for a slot, its key without the file, and how long what it counted took."""
        values = self._values(place)
        if not _is_counted_io(values):
            return None
        return values[PAYER], key_of(values[_KEY]), self._powers_of(values[_CHUNKS:])

    def _told(self, values: Values, key: _K) -> _K:
        if values[_OWNER] != values[PAYER] and key.performed_by == "backend":
            return key._replace(performed_by="io worker")
        if self.is_outside(values[PAYER], values[QUERY]):
            return key._replace(scope="outside")
        return key

    def _of_files(self, entries: Collection[int]) -> list[int]:
        """Slots that are taken for these files."""
        return [
            place
            for column in self._columns
            for first, (charged, files) in column.parts(_FILE_AT)
            for place, (charged_to, file) in enumerate(zip(charged, files, strict=True), first + 1)
            if charged_to and file in entries
        ]

    def _places(self, of: Collection[int] | None = None, *, owners: bool = False) -> list[int]:
        """Of slots that these pay, or all; with `owners`, also of those in which they count."""
        wanted: list[int] = []
        for column in self._columns:
            for first, (charged, whose) in column.parts(_OWNER_AT):
                wanted += [
                    place
                    for place, charged_to in enumerate(charged, first + 1)
                    if charged_to
                    and (
                        of is None
                        or charged_to in of
                        or (owners and whose[place - first - 1] in of)
                    )
                ]
        return wanted

    def _counts(self, values: Values) -> Counts:
        count, total, low, high, size, device, queued = values[COUNT:_CHUNKS]
        buckets = self._buckets(values[_CHUNKS:])
        # No read takes 0 ns: then it is not known
        return Counts(buckets, total, low or None, high, count, size, device, queued)

    def _powers_of(self, chunks: Sequence[int]) -> dict[int, int]:
        return {
            power: sum(_CHUNK.unpack_from(*self._chunks.at(place - 1)))
            for power, place in enumerate(chunks, FIRST_POWER)
            if place
        }

    def _buckets(self, chunks: Iterable[int]) -> dict[int, int]:
        buckets = {}
        for chunk, place in enumerate(chunks):
            if place:
                numbers = _CHUNK.unpack_from(*self._chunks.at(place - 1))
                for sub, number in enumerate(numbers):
                    if number:
                        buckets[chunk * layout.SUBS + sub] = number
        return buckets


def _is_of_a_key(values: Values) -> bool:
    """Not while the kernel takes it, or has moved what it counted: field by field, the key among
    the last to be there, and gone before the count.
    """
    return values[PAYER] != 0 and values[_KEY] < layout.ALL_KEYS


def _is_counted(values: Values) -> bool:
    return values[COUNT] != 0 and _is_of_a_key(values)


def _is_counted_io(values: Values) -> bool:
    return _is_counted(values) and values[_KEY] < layout.KEYS


def fill(loaded: Object, queue: int, count: int, first: int = 0) -> None:
    """Offer that many places, the first of which is taken first; `queue` as in free_lists.bpf.c."""
    for start in reversed(range(first, first + count, _AT_ONCE)):
        if loaded.run("pgt_fill", queue, start, min(_AT_ONCE, first + count - start)):
            raise RuntimeError(f"queue {queue} does not hold {count}")


def add_time(sums: TimeSums, key: TimeKey, ns: int) -> None:
    """Add to the sums of one key. Waiting for a CPU is one, in a read or not."""
    kind: TimeKind = "run_queue" if key.kind == "run_queue_in_read" else key.kind
    told = kind, key.scope, key.event
    sums[told] = sums.get(told, 0) + ns
