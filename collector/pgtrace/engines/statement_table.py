"""The kernel's sums by statement."""

import struct
from collections.abc import Collection, Iterator
from ctypes import sizeof

from ..libbpf.objects import Object
from . import StatementTotal, layout
from .slots import ReadsByQuery, SlotPool, fill

_SIZE = sizeof(layout.Statement)
_CHUNKS_AT = layout.Statement.sums.offset + layout.Calls.chunk.offset
_STATEMENTS = 3  # enum queue in bpf/fill.bpf.c
_SIGNED = 1 << 63

assert _SIZE % 4 == 0


class StatementTable:
    """Reads statements, and gives back those of tasks that ended."""

    def __init__(self, loaded: Object, pool: SlotPool, count: int) -> None:
        self._memory = loaded.map("pgt_statements").pieces()
        self._indexes = loaded.map("pgt_statement_indexes")
        self._free = loaded.map("pgt_free_statements")
        self._pool = pool
        self._count = count
        self._taken = 0
        """So many places were taken at some time, and perhaps some more."""
        fill(loaded, _STATEMENTS, count)

    def of(self, payers: Collection[int]) -> dict[int, list[int]]:
        """The places of all statements of these tasks."""
        found: dict[int, list[int]] = {payer: [] for payer in payers}
        for first, everybody in self._payers():
            for index, payer in enumerate(everybody, first):
                if payer and payer in found:
                    found[payer].append(index)
        return found

    def _payers(self) -> Iterator[tuple[int, list[int]]]:
        """By piece, its first place and whose each is; 0: nobody's.

        Up to the first of which nothing was ever taken: the queue gives places in their order,
        and those that were given back last.
        """
        for first in range(0, self._count, self._memory.length):
            memory, _ = self._memory.at(first)
            count = min(self._memory.length, self._count - first)
            with memoryview(memory)[: count * _SIZE] as piece, piece.cast("I") as numbers:
                payers = numbers[:: _SIZE // 4].tolist()
            if any(payers):
                self._taken = max(self._taken, first + count)
            yield first, payers
            if first >= self._taken:
                break

    def total(self, index: int, reads: ReadsByQuery) -> StatementTotal:
        """What is at one place; `reads` are all of its task."""
        one = self._at(index)
        before = bool(one.key.begun_before)
        return StatementTotal(
            text=bytes(one)[layout.Statement.text.offset :][: one.text_length],
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
        """Give the place back, empty, with the chunks that it has."""
        one = self._at(index)
        self._indexes.delete(bytes(one.key))
        self._pool.empty_chunks(one.sums.chunk)
        memory, at = self._memory.at(index)
        memory[at : at + _CHUNKS_AT] = bytes(_CHUNKS_AT)
        self._free.update(None, struct.pack("<I", index))

    def close(self) -> None:
        """Give back the memory."""
        self._memory.close()

    def _at(self, index: int) -> layout.Statement:
        self._taken = max(self._taken, index + 1)
        return layout.Statement.from_buffer_copy(*self._memory.at(index))


def signed(query_id: int) -> int:
    """As the server shows it: a bigint."""
    return query_id - (_SIGNED << 1) if query_id & _SIGNED else query_id
