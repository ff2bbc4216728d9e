"""Sums that are kept from look to look are what all slots and all that was given back add up to."""

import mmap
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from pgtrace.engines import ByPower, Counts, Key, ReadsByKey, Sums, layout
from pgtrace.engines.column import Column
from pgtrace.engines.slot_sums import (
    FIRST_POWER,
    HEAD,
    ReadsByQuery,
    SlotSums,
    Values,
    add_reads_powers,
    add_reads_sums,
    add_sum,
)
from pgtrace.engines.slot_table import key_of

SLOTS = 150
"""More than are compared at once."""
SIZE = layout.Slot.padding.offset + layout.Slot.padding.size
PAYERS = QUERIES = 3
POWER = FIRST_POWER + 2


class Memory:
    """One piece, as Pieces has them; the first slots were taken."""

    length = SLOTS

    def __init__(self) -> None:
        self.memory = mmap.mmap(-1, SIZE * SLOTS)

    def at(self, index: int) -> tuple[mmap.mmap, int]:
        return self.memory, index * SIZE

    def write(self, slot: int, payer: int, query: int, key: int, count: int) -> None:
        key = key if payer else layout.ALL_KEYS  # what is emptied was taken once
        HEAD.pack_into(
            self.memory, (slot - 1) * SIZE, 1, payer, query, key, 0, slot, 0,
            count, 10 * count, 1, 2, 8192 * count,
        )  # fmt: skip

    def heads(self) -> list[tuple[int, Values]]:
        found = [(n + 1, HEAD.unpack_from(self.memory, n * SIZE)) for n in range(SLOTS)]
        return [(slot, head) for slot, head in found if head[1] and head[7]]


def key(_slot: int, head: Values) -> Key | None:
    return key_of(head[3], head[5]) if head[3] < 2 else None


class Pool:
    """What the sums are of."""

    def __init__(self) -> None:
        self.memory, self.returned = Memory(), dict[int, ReadsByQuery]()
        self.memory.write(1, 0, 0, layout.ALL_KEYS, 0)
        offsets = layout.Slot.charged_to.offset, layout.Slot.key.offset
        memory: Any = self.memory
        column = Column(memory, SIZE, *offsets, range(SLOTS))
        self.sums = SlotSums([column], self.returned, key, self.powers)
        self.by_power: dict[int, ByPower] = {}

    def powers(self, slot: int) -> tuple[int, Key, dict[int, int]] | None:
        for each, head in self.memory.heads():
            if each == slot and (told := key(slot, head)):
                return head[1], told, {POWER: head[7]}
        return None

    def give_back(self, payer: int, query: int, count: int) -> None:
        reads: ReadsByKey = self.returned.setdefault(payer, {}).setdefault(query, {})
        buckets = {2 * layout.SUBS: count}
        reads.setdefault(key_of(0), Counts()).take(Counts(buckets, count, 1, 1, count, count))
        self.sums.note(payer, query)

    def let_go(self, payer: int) -> None:
        for slot, head in self.memory.heads():
            if head[1] == payer:
                self.memory.write(slot, 0, 0, layout.ALL_KEYS, 0)
        self.sums.note_all([payer])
        self.returned.pop(payer, None)
        self.by_power.pop(payer, None)

    def expected(self) -> tuple[dict[int, dict[int, Sums]], dict[int, ByPower]]:
        sums: dict[int, dict[int, Sums]] = {}
        powers: dict[int, ByPower] = {}
        for slot, head in self.memory.heads():
            if told := key(slot, head):
                mine = sums.setdefault(head[1], {}).setdefault(head[2], {})
                add_sum(mine, told, head[7], head[11], head[8])
                kind = powers.setdefault(head[1], {}).setdefault((told.operation, told.source), {})
                kind[POWER] = kind.get(POWER, 0) + head[7]
        for payer, by_query in self.returned.items():
            for query, reads in by_query.items():
                add_reads_sums(sums.setdefault(payer, {}).setdefault(query, {}), reads)
                add_reads_powers(powers.setdefault(payer, {}), reads)
        return sums, powers


def counted(by_power: dict[int, ByPower]) -> dict[int, ByPower]:
    """Without what is 0."""
    found: dict[int, ByPower] = {}
    for payer, powers in by_power.items():
        for told, each in powers.items():
            if some := {power: count for power, count in each.items() if count}:
                found.setdefault(payer, {})[told] = some
    return found


PAIR = st.integers(1, PAYERS), st.integers(0, QUERIES - 1)
WRITTEN = st.tuples(
    st.integers(1, SLOTS), st.integers(0, PAYERS), PAIR[1], st.integers(0, 2), st.integers(0, 3)
)
STEP = st.one_of(
    WRITTEN.map(lambda given: ("write", given)),
    st.tuples(*PAIR, st.integers(1, 3)).map(lambda given: ("give_back", given)),
    PAIR[0].map(lambda payer: ("let_go", (payer,))),
    st.just(("look", ())),
)


@given(st.lists(STEP, max_size=40))
def test_what_is_kept_is_what_there_is(steps: list[tuple[str, tuple[int, ...]]]) -> None:
    pool = Pool()
    told: dict[int, dict[int, Sums]] = {}
    copies: dict[int, dict[int, Sums]] = {}
    for what, numbers in [*steps, ("look", ())]:
        if what == "write":
            pool.memory.write(*numbers)
        elif what == "give_back":
            pool.give_back(*numbers)
        elif what == "let_go":
            pool.let_go(*numbers)
        else:
            before = pool.sums.sums()
            more = pool.sums.by_power()
            pool.by_power |= more
            sums, powers = pool.expected()
            assert before == sums
            assert more.keys() <= {head[1] for _, head in pool.memory.heads()} | {*pool.returned}
            assert told == copies  # what was told before is somebody's
            told, copies = before, {payer: dict(mine) for payer, mine in before.items()}
            there = {payer: pool.by_power.get(payer, {}) for payer in sums}
            assert counted(there) == counted(powers)
            after = pool.sums.sums()
            assert all(after[payer] is before[payer] for payer in after)
            assert pool.sums.by_power() == {}


def test_of_who_is_gone_nothing_is_kept() -> None:
    """A live screen runs for days, and asks for no histograms."""
    pool = Pool()
    for payer in range(1, 100):
        pool.memory.write(1, payer, 1, 0, 1)
        pool.give_back(payer, 0, 1)
        pool.sums.sums()
        pool.let_go(payer)
        assert pool.sums.sums() == {}
    kept = (vars(pool.sums)[name] for name in ("_payers_due", "_seen", "_slots", "_changed"))
    assert [len(each) for each in kept] == [0, 0, 0, 0]
    assert pool.sums.by_power() == {}
    assert pool.sums._took == {}
