"""How much room the kernel half gets: memory of the kernel, taken when tracing begins."""

import mmap
from typing import NamedTuple, Self

from . import Request

_SLOTS_PER_TASK = 16
_SLOTS_PER_STATEMENT = 4
_FEWEST_SLOTS = 1024
_SLOTS_OF_RECORDS = 8192
"""Of queries whose records wait."""
_FILES_APART = 4
"""So many times as many slots where each file is told apart."""
_CHUNKS_PER_SLOT = 4
_CHUNKS_PER_SPARE = 8
"""They count what has nothing else in common: their values are further apart."""
_KINDS_OF_FILES = 512
_FILES = 32768
_FILES_PER_STATEMENT = 6
_REFUSED = 4096
"""Threads to come that are known to be of no interest."""
_ASYNCHRONOUS = 16384
"""Reads that were asked for and are not there yet."""
_RING = 2 << 20
"""Bytes of records, of about 300 each, that wait for the next poll."""


_SAMPLES = 256 << 10
"""The same of calls, of 816 each: all that is lost by more is time."""


class Room(NamedTuple):
    """Of how many there is room for."""

    tasks: int
    statements: int
    slots: int
    chunks: int
    spare_slots: int
    """Beyond these, for what there is no slot for: it is counted without its file."""
    spare_chunks: int
    files: int

    @classmethod
    def of(cls, request: Request) -> Self:
        """What a request needs."""
        summed = (request.binaries or request.light) and not request.options.per_query
        statements = request.options.most_statements if summed else 1
        kinds = max(
            _SLOTS_OF_RECORDS if request.options.per_query else _FEWEST_SLOTS,
            request.most_tasks * _SLOTS_PER_TASK,
            statements * _SLOTS_PER_STATEMENT,
        )
        # Reads are told apart by more than others are
        kinds = kinds * (1 + len(request.options.operations) + request.options.times) // 2
        # A query's come back when it ends; a statement's are kept
        apart = request.by_file and not request.options.per_query
        slots = kinds * _FILES_APART if apart else kinds
        spare = kinds // 2 if apart else max(1, kinds // 8)
        return cls(
            tasks=request.most_tasks,
            statements=statements,
            slots=slots,
            chunks=(slots + statements) * _CHUNKS_PER_SLOT,
            spare_slots=spare,
            spare_chunks=spare * _CHUNKS_PER_SPARE,
            files=max(_FILES, statements * _FILES_PER_STATEMENT)
            if request.by_file
            else _KINDS_OF_FILES,
        )

    def sizes(self, request: Request, *, uring: bool) -> dict[str, int]:
        """Of each map, how many entries, or of a ring buffer how many bytes, it has."""
        return {
            "pgt_tasks": self.tasks,
            "pgt_free_tasks": self.tasks,
            "pgt_indexes": self.tasks + len(request.ignored) + _REFUSED,
            "pgt_leaders": self.tasks,
            "pgt_slots": self.slots + self.spare_slots,
            "pgt_free_slots": self.slots,
            "pgt_spare_slots": self.spare_slots,
            "pgt_slot_indexes": self.slots + self.spare_slots,
            "pgt_chunks": self.chunks + self.spare_chunks,
            "pgt_free_chunks": self.chunks,
            "pgt_spare_chunks": self.spare_chunks,
            "pgt_statements": self.statements,
            "pgt_free_statements": self.statements,
            "pgt_statement_indexes": self.statements,
            "pgt_files": self.files,
            "pgt_free_files": self.files,
            "pgt_file_indexes": self.files,
            "pgt_asked": _ASYNCHRONOUS if request.aio else 1,
            "pgt_requests": _ASYNCHRONOUS if uring else 1,
            "pgt_executors": _ASYNCHRONOUS if uring else 1,
            "pgt_records": _records(request),
            "pgt_durations": _RING if request.options.emit_durations else mmap.PAGESIZE,
        }


def _records(request: Request) -> int:
    if request.light:
        return _SAMPLES
    return _RING if request.options.per_query else mmap.PAGESIZE
