"""What the buffers experiment measured: blocks and times by level, and the ring of a scan.

A block is one of the server's; its level is where it was found: in shared buffers, or by a read,
of which pgtrace tells where it was served.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ...model.capture import Io, Source
from ...postgres.versions import major_of
from ..core.valid_runs import counted, reads_of
from . import table as buffers_table
from .measuring import STATES
from .result import BuffersCell, BuffersResult, State

LEVELS: tuple[Source, ...] = ("page_cache", "readahead_issued", "device", "wait", "unknown")
_BULKREAD_KB = 256
_PROCESSES_OF_ITS_OWN = 38 + 2
"""NUM_AUXILIARY_PROCS with its I/O workers, and NUM_SPECIAL_WORKER_PROCS, of PostgreSQL 18."""


@dataclass(frozen=True, slots=True)
class Level:
    """Reads of the table that were served alike."""

    blocks: int
    reads: int
    total_ns: int

    @property
    def block_ns(self) -> float | None:
        """Mean time per block; None of none."""
        return self.total_ns / self.blocks if self.blocks else None


@dataclass(frozen=True, slots=True)
class Figures:
    """All runs of one size and state added up."""

    size: str
    state: State
    cells: Sequence[BuffersCell]
    levels: Mapping[Source, Level]

    @property
    def hits(self) -> int:
        """Blocks that were found in shared buffers."""
        return sum(cell.shared_hits or 0 for cell in self.cells)

    @property
    def blocks(self) -> int:
        """That the query touched, as EXPLAIN has it."""
        return sum(touched(cell) for cell in self.cells)

    @property
    def read_ns(self) -> int:
        """In all reads of the table."""
        return sum(level.total_ns for level in self.levels.values())

    @property
    def elapsed_ns(self) -> float:
        """As the client saw it."""
        return sum(cell.elapsed_s for cell in self.cells) * 1e9

    @property
    def io_timing_ns(self) -> float | None:
        """EXPLAIN's own; None where it has none."""
        timed = [c.io_timing_s for c in self.cells if c.io_timing_s is not None]
        return sum(timed) * 1e9 if len(timed) == len(self.cells) else None

    @property
    def outside_ns(self) -> float | None:
        """Of the query, what is not in EXPLAIN's I/O timing; None where it has none."""
        timing = self.io_timing_ns
        return None if timing is None else max(0.0, self.elapsed_ns - timing)

    @property
    def cpu_wait_ns(self) -> float | None:
        """For which the backend could have run, and no CPU was free; None if it is not counted."""
        known = [c.cpu_wait_s for c in self.cells if c.cpu_wait_s is not None]
        return sum(known) * 1e9 if len(known) == len(self.cells) else None


def figures(result: BuffersResult, storage: str, size: str) -> dict[State, Figures]:
    """Those of one size, by state; a state of which no run counts is left out."""
    made = {}
    for state in STATES:
        cells = cells_of(result, storage, size, state)
        if cells:
            made[state] = Figures(size, state, cells, levels(cells))
    return made


def cells_of(result: BuffersResult, storage: str, size: str, state: State) -> list[BuffersCell]:
    """The runs that count."""
    own = (storage, size, state)
    return [c for c in counted(result) if (c.storage, c.shared_buffers, c.state) == own]


def levels(cells: Sequence[BuffersCell]) -> dict[Source, Level]:
    """By where its reads were served."""
    reads = [read for cell in cells for read in table_reads(cell)]
    found = {}
    for source in LEVELS:
        own = [read for read in reads if read.source == source]
        found[source] = Level(
            sum(read.blocks for read in own),
            sum(read.count for read in own),
            sum(read.total_ns for read in own),
        )
    return found


def table_reads(cell: BuffersCell) -> list[Io]:
    """Of the table: with few buffers the backend reads catalogs again, which EXPLAIN leaves out."""
    return [read for read in reads_of(cell) if read.relation == buffers_table.NAME]


def touched(cell: BuffersCell) -> int:
    """Blocks that the query asked shared buffers for."""
    return (cell.shared_hits or 0) + (cell.shared_reads or 0)


def seen(cell: BuffersCell) -> int:
    """The same, counted by level: hits by EXPLAIN, all else by the trace."""
    return (cell.shared_hits or 0) + sum(read.blocks for read in table_reads(cell))


def hits_of_scans(cell: BuffersCell) -> list[int]:
    """Of the scan that was traced, and of those after it in the same server life."""
    return [cell.shared_hits or 0, *(each.shared_hits or 0 for each in cell.again)]


def has_ring(blocks: int, buffers: int) -> bool:
    """Whether a scan of so many blocks goes through a ring: initscan(), heapam.c."""
    return blocks > buffers // 4


def ring(result: BuffersResult, buffers: int) -> int:
    """How many buffers a large scan's ring has: GetAccessStrategy(), freelist.c. 256 kB, from
    PostgreSQL 18 on with room for reads under way, within what a backend may pin; never more than
    an eighth of all.
    """
    settings = result.options.settings
    size = _BULKREAD_KB * 1024 // result.server.block_size
    if (major_of(result.server.version or "") or 0) >= 18:
        combined = min(_number(settings, "io_combine_limit", 16),
                       _number(settings, "io_max_combine_limit", 16))  # fmt: skip
        under_way = combined * _number(settings, "effective_io_concurrency", 16)
        backends = _PROCESSES_OF_ITS_OWN + sum(
            _number(settings, name, usual)
            for name, usual in (
                ("max_connections", 100), ("autovacuum_worker_slots", 16),
                ("max_worker_processes", 8), ("max_wal_senders", 0),
            )
        )  # fmt: skip
        size = min(size + under_way, max(size, buffers // backends))
    return min(size, buffers // 8)


def _number(settings: Mapping[str, str], name: str, usual: int) -> int:
    return int(settings.get(name, usual))
