"""The kernel's sums by statement."""

import struct
from collections.abc import Collection
from ctypes import sizeof

from ..libbpf.objects import Object
from . import StatementName, StatementTotal, layout
from .column import Column
from .slot_sums import ReadsByQuery
from .slot_table import BEGUN_BEFORE, SlotPool, fill

_SIZE = sizeof(layout.Statement)
_SUMS_END = layout.Statement.sums.offset + sizeof(layout.Calls)
_BEGUN_BEFORE_AT = layout.Statement.key.offset + layout.StatementKey.begun_before.offset
_STATEMENTS = 3  # enum queue in bpf/free_lists.bpf.c
_SIGNED = 1 << 63

assert _SIZE % 4 == 0


class StatementTable:
    """Reads statements, and gives back those of tasks that ended."""

    def __init__(self, loaded: Object, pool: SlotPool, count: int) -> None:
        self._memory = loaded.map("pgt_statements").pieces()
        self._indexes = loaded.map("pgt_statement_indexes")
        self._free = loaded.map("pgt_free_statements")
        self._pool = pool
        charged_to, used = layout.StatementKey.charged_to.offset, layout.Statement.used.offset
        self._charged = Column(self._memory, _SIZE, charged_to, used, range(count))
        fill(loaded, _STATEMENTS, count)

    def of(self, charged: Collection[int]) -> dict[int, list[int]]:
        """The places of all statements of these tasks."""
        found: dict[int, list[int]] = {charged_to: [] for charged_to in charged}
        for first, (everybody,) in self._charged.parts():
            for index, charged_to in enumerate(everybody, first):
                if charged_to and charged_to in found:
                    found[charged_to].append(index)
        return found

    def chunks(self, indexes: Collection[int]) -> int:
        """How many these statements have."""
        return sum(sum(map(bool, self._at(index).sums.chunk)) for index in indexes)

    def total(self, index: int, reads: ReadsByQuery) -> StatementTotal:
        """What is at one place; `reads` are all of its task."""
        one = self._at(index)
        before = bool(one.key.begun_before)
        return StatementTotal(
            text=_text(one),
            text_cut=bool(one.key.cut),
            protocol=layout.PROTOCOLS[one.key.protocol],
            begun_before=before,
            application_name=one.application_name,
            query_id=signed(one.query_id),
            errors=one.sums.errors,
            latency=self._pool.latency(one.sums),
            waited_ns=one.sums.waited_ns,
            reads=reads.get(layout.STATEMENT | (index + 1), {}),
            statement=layout.STATEMENT | (index + 1),
        )

    def is_begun_before(self, query: int) -> bool:
        """Whether a query, or a statement, by its number, is what was open when tracing began."""
        if query <= layout.STATEMENT:
            return query == BEGUN_BEFORE
        memory, at = self._memory.at(query - layout.STATEMENT - 1)
        return bool(memory[at + _BEGUN_BEFORE_AT])

    def name(self, index: int) -> StatementName:
        """Of the statement at one place, which it is."""
        one = self._at(index)
        return StatementName(signed(one.query_id), _text(one), bool(one.key.cut))

    def others(self, task: layout.Task, reads: ReadsByQuery) -> list[StatementTotal]:
        """Those of a task for which there was no room, as one; none if there were none."""
        if not task.others.calls and layout.OTHERS not in reads:
            return []
        return [
            StatementTotal(
                text=None,
                text_cut=False,
                protocol="unknown",
                begun_before=False,
                application_name=b"",
                query_id=0,
                errors=task.others.errors,
                latency=self._pool.latency(task.others),
                waited_ns=task.others.waited_ns,
                reads=reads.get(layout.OTHERS, {}),
                statement=layout.OTHERS,
            )
        ]

    def is_full(self) -> bool:
        """Whether there is no room for another."""
        return self._free.is_empty()

    def release(self, index: int) -> None:
        """Give the place back, empty."""
        one = self._at(index)
        self._indexes.delete(bytes(one.key))
        memory, at = self._memory.at(index)
        memory[at : at + _SUMS_END] = bytes(_SUMS_END)
        self._pool.give_back(one.sums.chunk)
        self._free.update(None, struct.pack("<I", index))

    def close(self) -> None:
        """Give back the memory."""
        self._memory.close()

    def _at(self, index: int) -> layout.Statement:
        return layout.Statement.from_buffer_copy(*self._memory.at(index))


def _text(one: layout.Statement) -> bytes:
    return bytes(one)[layout.Statement.text.offset :][: one.text_length]


def signed(query_id: int) -> int:
    """As the server shows it: a bigint."""
    return query_id - (_SIGNED << 1) if query_id & _SIGNED else query_id
