"""What a pages experiment measured, by storage and pattern, as text and HTML show it.

Arithmetic over the cells of a result. Times are nanoseconds; a block is 8 KiB, whatever the
server's is, so that servers can be compared.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from ...model.capture import Io, Kind, Performer, Size, Source
from ...model.capture import Pattern as Order
from ...model.histogram import Histogram
from ...model.lab_result import QueryCell, Storage, TableResult
from .valid_runs import BLOCK, PATTERNS, Pattern, counted, reads_of

SOURCES: tuple[Source, ...] = ("page_cache", "readahead_issued", "device", "wait", "unknown")
ORDERS: tuple[Order, ...] = ("sequential", "near", "random", "first", "unknown")
SIZES: tuple[Size, ...] = ("1", "2-4", "5-15", "16+")


@dataclass(frozen=True, slots=True)
class Part:
    """Reads that agree in something."""

    latencies: Histogram
    bytes: int
    device_bytes: int

    @property
    def reads(self) -> int:
        """How many there are."""
        return self.latencies.count

    @property
    def total_ns(self) -> int:
        """How long they took together."""
        return self.latencies.total_ns

    @property
    def blocks(self) -> float:
        """Their bytes in blocks of 8 KiB."""
        return self.bytes / BLOCK

    @property
    def block_ns(self) -> float | None:
        """Time per 8 KiB; None of nothing."""
        return self.total_ns / self.blocks if self.bytes else None


@dataclass(frozen=True, slots=True)
class Figures:
    """All runs of one pattern on one storage, added up."""

    storage: Storage
    pattern: Pattern
    runs: int
    all: Part
    by_source: dict[Source, Part]
    by_kind: dict[Kind, Part]
    by_size: dict[Size, Part]
    """In the server's blocks."""
    by_order: dict[Order, Part]
    """By where each read of a relation began, after the one before."""
    by_performer: dict[Performer, Part]
    elapsed_ns: float
    rows: int
    """That its queries returned; 0 if they were not counted."""
    shared_hits: int | None
    """Blocks of the server's size found in shared_buffers; None if not counted in every run."""
    device_requests: int | None
    """Reads that the device completed meanwhile, of anybody; None as above."""

    @property
    def page_ns(self) -> float | None:
        """Elapsed time per 8 KiB read, with everything that the query did meanwhile."""
        return self.elapsed_ns / self.all.blocks if self.all.bytes else None


def label(storage: Storage) -> str:
    """Its name, with the word that goes with every figure of a simulated one."""
    return f"{storage.name} (simulated)" if storage.simulated else storage.name


def figures(result: TableResult) -> list[Figures]:
    """Those that have runs: storages as they were given, sequential before random."""
    cells = counted(result)
    found = []
    for storage in result.storages:
        for pattern in PATTERNS:
            own = [c for c in cells if (c.storage, c.pattern) == (storage.name, pattern)]
            if own:
                found.append(_figures(storage, pattern, own))
    return found


def _figures(storage: Storage, pattern: Pattern, cells: Sequence[QueryCell]) -> Figures:
    reads = [r for cell in cells for r in reads_of(cell)]
    kinds = sorted(
        {r.kind for r in reads}, key=lambda k: -sum(r.count for r in reads if r.kind == k)
    )
    performers = sorted({r.performed_by for r in reads})
    return Figures(
        storage=storage,
        pattern=pattern,
        runs=len(cells),
        all=part(reads),
        by_source={s: part(of) for s in SOURCES if (of := [r for r in reads if r.source == s])},
        by_kind={k: part([r for r in reads if r.kind == k]) for k in kinds},
        by_size={s: part(of) for s in SIZES if (of := [r for r in reads if r.size == s])},
        by_order={o: part(of) for o in ORDERS if (of := [r for r in reads if r.pattern == o])},
        by_performer={p: part([r for r in reads if r.performed_by == p]) for p in performers},
        elapsed_ns=sum(cell.elapsed_s for cell in cells) * 1e9,
        rows=sum(cell.rows or 0 for cell in cells),
        shared_hits=_known([cell.shared_hits for cell in cells]),
        device_requests=_known([cell.device_requests for cell in cells]),
    )


def _known(counts: Sequence[int | None]) -> int | None:
    known = [count for count in counts if count is not None]
    return sum(known) if len(known) == len(counts) else None


def part(reads: Sequence[Io]) -> Part:
    """These added up."""
    return Part(
        Histogram.of(reads), sum(r.bytes for r in reads), sum(r.device_bytes for r in reads)
    )
