"""What all slots have counted, kept from one look to the next: of thousands, few change within a
second, and those alone are looked at again.
"""

import struct
from collections.abc import Callable, Iterable, Iterator, Mapping

from ..model.capture import Operation, Source
from . import ByPower, Key, ReadsByKey, Sums, io_of, layout
from .column import Column

Values = tuple[int, ...]
ReadsByQuery = dict[int, ReadsByKey]
"""By the number of the query, or layout.STATEMENT and what follows."""

HEAD = struct.Struct("<IIQIIII5Q")
"""A slot up to its bytes."""
PAYER, QUERY, COUNT = 1, 2, 7
"""Where they are in it."""
FIRST_POWER = 3  # the first chunk's, see IntervalIo.powers

_Pair = tuple[int, int]
"""Who pays, and for which query."""


class SlotSums:
    """Sums by who pays and by query, of the slots and of what they gave back.

    Slots are known by their indexes, one more than those of their entries.
    """

    def __init__(
        self,
        columns: Iterable[Column],
        returned: Mapping[int, ReadsByQuery],
        key: Callable[[int, Values], Key | None],
        powers: Callable[[int], tuple[int, Key, dict[int, int]] | None],
    ) -> None:
        """`returned` is what was given back; `key` that of a slot with such a HEAD, None if it
        has counted no operation; `powers` who pays for a slot, its key, and how long it took, as
        it is now."""
        self._columns = list(columns)
        self._returned = returned
        self._key = key
        self._powers = powers
        self._seen: dict[int, Values] = {}
        self._slots: dict[int, dict[int, set[int]]] = {}
        """By who pays and by query."""
        self._sums: dict[int, dict[int, Sums]] = {}
        self._changed: set[_Pair] = set()
        self._timed: dict[int, tuple[int, Key, dict[int, int]]] = {}
        """What `powers` said of slots."""
        self._took: dict[int, ByPower] = {}
        """The sums of that, by who pays."""
        self._slots_due: set[int] = set()
        self._payers_due: set[int] = set()
        """Of by_power()."""

    def note(self, payer: int, query: int) -> None:
        """More was given back, or less of it is kept."""
        self._changed.add((payer, query))
        self._payers_due.add(payer)

    def note_all(self, payers: Iterable[int]) -> None:
        """So of all queries of these."""
        for payer in payers:
            queries = self._sums.get(payer, {}).keys() | self._returned.get(payer, {}).keys()
            for query in queries:
                self.note(payer, query)

    def note_everybody(self) -> None:
        """So of all there are."""
        self.note_all(self._sums.keys() | self._returned.keys())

    def sums(self) -> dict[int, dict[int, Sums]]:
        """Count, bytes and nanoseconds by key. Who has counted nothing more since the last call has
        the same dictionary."""
        self._look()
        pairs, self._changed = self._changed, set()
        again: dict[int, dict[int, Sums]] = {}
        for payer, query in pairs:
            mine = again.get(payer)
            if mine is None:
                mine = again[payer] = dict(self._sums.get(payer, {}))
            sums = self._sum(payer, query)
            if sums is None:
                mine.pop(query, None)
            else:
                mine[query] = sums
        for payer, mine in again.items():
            if mine:
                self._sums[payer] = mine
            else:
                self._sums.pop(payer, None)
                self._payers_due.discard(payer)  # a live screen never asks by_power()
        return dict(self._sums)

    def by_power(self) -> dict[int, ByPower]:
        """How long everything took, coarsely, of those for whom more was counted since the last
        call, by the last sums()."""
        slots, self._slots_due = self._slots_due, set()
        payers, self._payers_due = self._payers_due, set()
        for slot in slots:
            for sign, timed in ((-1, self._timed.pop(slot, None)), (1, self._powers(slot))):
                if timed is None:
                    continue
                payer, key, powers = timed
                payers.add(payer)
                mine = self._took.setdefault(payer, {})
                more = {power: sign * count for power, count in powers.items()}
                add_powers(mine, (key.operation, key.source), more)
                if sign > 0:
                    self._timed[slot] = timed
        found: dict[int, ByPower] = {}
        for payer in payers:
            if payer not in self._slots and payer not in self._returned:
                self._took.pop(payer, None)
                continue
            took = self._took.get(payer, {})
            found[payer] = {told: dict(powers) for told, powers in took.items()}
            for reads in self._returned.get(payer, {}).values():
                add_reads_powers(found[payer], reads)
        return found

    def _look(self) -> None:
        """Note which slots are not as they were."""
        for slot, values in self._news():
            self._slots_due.add(slot)
            if known := self._seen.pop(slot, None):
                payer, query = known[PAYER], known[QUERY]
                self.note(payer, query)
                self._slots[payer][query].discard(slot)
                if not self._slots[payer][query]:
                    del self._slots[payer][query]
                if not self._slots[payer]:
                    del self._slots[payer]
            payer, query = values[PAYER], values[QUERY]
            if payer and values[COUNT]:
                self._seen[slot] = values
                self._slots.setdefault(payer, {}).setdefault(query, set()).add(slot)
                self.note(payer, query)

    def _news(self) -> Iterator[tuple[int, Values]]:
        for column in self._columns:
            for index, entry in column.changed():
                yield index + 1, HEAD.unpack_from(entry)

    def _sum(self, payer: int, query: int) -> Sums | None:
        """None where nothing was counted."""
        found: Sums | None = None
        for slot in self._slots.get(payer, {}).get(query, ()):
            values = self._seen[slot]
            key = self._key(slot, values)
            if key is not None:
                found = {} if found is None else found
                count, total, _, _, size = values[COUNT:]
                add_sum(found, key, count, size, total)
        returned = self._returned.get(payer, {}).get(query)
        if returned is not None:
            found = {} if found is None else found
            add_reads_sums(found, returned)
        return found


def add_powers(found: ByPower, told: tuple[Operation, Source], powers: Mapping[int, int]) -> None:
    """Count so many more of each power."""
    mine = found.setdefault(told, {})
    for power, count in powers.items():
        mine[power] = mine.get(power, 0) + count


def add_reads_powers(found: ByPower, reads: ReadsByKey) -> None:
    """Count these, too."""
    for key, counts in io_of(reads).items():
        mine = found.setdefault((key.operation, key.source), {})
        for index, count in counts.counts.items():
            power = index // layout.SUBS + FIRST_POWER
            mine[power] = mine.get(power, 0) + count


def add_sum(sums: Sums, key: Key, count: int, size: int, total: int) -> None:
    """Add to the sums of one key."""
    before = sums.get(key, (0, 0, 0))
    sums[key] = (before[0] + count, before[1] + size, before[2] + total)


def add_reads_sums(sums: Sums, reads: ReadsByKey) -> None:
    """Add these to the sums."""
    for key, counts in io_of(reads).items():
        add_sum(sums, key, counts.count, counts.bytes, counts.total_ns)
