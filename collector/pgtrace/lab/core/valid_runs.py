"""Which runs of the pages experiment count, and what each of them measured.

Times are nanoseconds; a block is 8 KiB, whatever the server's is, so that servers can be compared.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Generic, Literal, Protocol, TypeVar

from ...model.buckets import bucket_bounds
from ...model.capture import Io
from ...model.histogram import Histogram
from ...model.lab_result import QueryCell

BLOCK = 8192
MOST_COLD = 0.01
LEAST_CACHED = 0.99
"""Shares of the relation's pages in the page cache from which on a run is neither."""

Pattern = Literal["sequential", "random"]
PATTERNS: tuple[Pattern, ...] = ("sequential", "random")
C = TypeVar("C", bound=QueryCell)
C_co = TypeVar("C_co", bound=QueryCell, covariant=True)


class Runs(Protocol[C_co]):
    """What a result has that is looked at here."""

    @property
    def cells(self) -> Sequence[C_co]:
        """One for each run of each query."""


@dataclass(frozen=True, slots=True)
class LeftOut(Generic[C]):
    """A run that did not begin as it should: it is in no figure."""

    cell: C
    why: str


def counted(result: Runs[C]) -> list[C]:
    """The runs that figures are made of."""
    return [cell for cell in result.cells if not _unlike(cell)]


def left_out(result: Runs[C]) -> list[LeftOut[C]]:
    """The others, each with the reason."""
    return [LeftOut(cell, why) for cell in result.cells if (why := _unlike(cell))]


def unproven(result: Runs[C]) -> list[C]:
    """Runs that count, though nobody looked at how they began."""
    return [cell for cell in counted(result) if cell.resident_before is None]


def reads_of(cell: QueryCell) -> list[Io]:
    """What its query read."""
    return [r for r in cell.io if r.operation == "read" and r.scope == "query"]


def reads_ahead(cell: QueryCell) -> bool:
    """Whether others read most of its blocks, while the backend went on."""
    others = sum(r.bytes for r in reads_of(cell) if r.performed_by in ("io worker", "io_uring"))
    return 2 * others > sum(r.bytes for r in reads_of(cell))


def block_ns(cell: QueryCell) -> float | None:
    """Read latency per 8 KiB, the measure of the pages experiment; None if nothing was read."""
    return _each(sum(r.total_ns for r in reads_of(cell)), cell)


def page_ns(cell: QueryCell) -> float | None:
    """Elapsed time per 8 KiB read; None if nothing was read."""
    return _each(cell.elapsed_s * 1e9, cell)


def median_ns(cell: QueryCell) -> float | None:
    """What half of its reads took at most, whatever their size; None if nothing was read.

    Within the bucket by rank, as if its values were evenly spread: medians of runs that all lie in
    one bucket would otherwise seem to be the same to the last digit.
    """
    counts = Histogram.of(reads_of(cell)).counts
    left = sum(counts.values()) / 2
    for index in sorted(counts):
        if left <= counts[index]:
            low, high = bucket_bounds(index)
            return low + (high - low) * left / counts[index]
        left -= counts[index]
    return None


def tuple_ns(cell: QueryCell) -> float | None:
    """CPU time of the backend per row that it returned; None if that was not measured."""
    return cell.cpu_s * 1e9 / cell.rows if cell.cpu_s and cell.rows else None


def by_run(
    cells: Iterable[C], storage: str, pattern: Pattern, measure: Callable[[C], float | None]
) -> dict[int, float]:
    """A measure of each run of one pattern on one storage, where it is positive."""
    own = (c for c in cells if (c.storage, c.pattern) == (storage, pattern))
    return {cell.run: value for cell in own if (value := measure(cell))}


def _unlike(cell: QueryCell) -> str | None:
    """Why a run is not what it is called; None if it is, or if nobody looked."""
    resident = cell.resident_before
    if resident is None:
        return None
    if cell.state == "cold" and resident > MOST_COLD:
        return f"{100 * resident:.1f} % of its pages were cached when it began, not cold"
    if cell.state == "cached" and resident < LEAST_CACHED:
        return f"{100 * resident:.1f} % of its pages were cached when it began, not all"
    return None


def _each(ns: float, cell: QueryCell) -> float | None:
    size = sum(r.bytes for r in reads_of(cell))
    return ns * BLOCK / size if size else None
