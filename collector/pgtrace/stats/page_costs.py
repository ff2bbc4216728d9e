"""What reading a block cost, from the intervals of a capture: arithmetic, no I/O.

Time is nanoseconds, a block the server's.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ..model.capture import Capture, Cost, Pattern, Performer, Size, Source
from .batch_means import Figure, Sum, add_up, mean, ratio

PATTERNS: tuple[Pattern, ...] = ("sequential", "near", "random")
UNTOLD: tuple[Pattern, ...] = ("first", "unknown")
SOURCES: tuple[Source, ...] = ("page_cache", "readahead_issued", "device", "wait", "unknown")
SIZES: tuple[Size, ...] = ("1", "2-4", "5-15", "16+")


@dataclass(frozen=True, slots=True)
class Cell:
    """Reads that agree in something, and nanoseconds per block of them."""

    blocks: int
    reads: int
    total_ns: int
    cost: Figure


@dataclass(frozen=True, slots=True)
class PatternCosts:
    """Reads of one pattern, by backends themselves; only what there was."""

    all: Cell
    by_source: dict[Source, Cell]
    by_size: dict[Size, Cell]


@dataclass(frozen=True, slots=True)
class SpaceCosts:
    """Reads of one tablespace; None is one that is not known."""

    tablespace: str | None
    patterns: dict[Pattern, PatternCosts]
    untold: dict[Pattern, Cell]
    """Of no known pattern: neither contiguous nor random for certain."""
    ratio: Figure
    """Random by sequential, wherever they were served."""
    device_ratio: Figure
    """The same, only of reads that waited for the device."""
    overlapped: dict[Performer, Sum]
    """Reads that others performed while the backend went on: in no figure."""


def costs(capture: Capture) -> list[SpaceCosts]:
    """Every tablespace's, the one that took most time first."""
    spaces: dict[str | None, int] = {}
    for cost in (cost for interval in capture.intervals for cost in interval.costs):
        spaces[cost.tablespace] = spaces.get(cost.tablespace, 0) + cost.total_ns
    names = sorted(spaces, key=lambda name: (-spaces[name], name or ""))
    return [_space(name, _Series(capture, name)) for name in names]


class _Series:
    """One tablespace's reads by interval, of which a selection is added up."""

    def __init__(self, capture: Capture, tablespace: str | None) -> None:
        self._intervals = [
            [cost for cost in interval.costs if cost.tablespace == tablespace]
            for interval in capture.intervals
        ]

    def of(self, wanted: Callable[[Cost], bool]) -> list[Sum]:
        """One sum per interval."""
        return [
            add_up(Sum(c.blocks, c.reads, c.total_ns) for c in costs if wanted(c))
            for costs in self._intervals
        ]

    def own(self, pattern: Pattern, source: Source | None = None) -> list[Sum]:
        """Of reads by backends themselves."""
        return self.of(
            lambda c: (
                c.performed_by == "backend" and c.pattern == pattern and source in (None, c.source)
            )
        )


def _space(name: str | None, series: _Series) -> SpaceCosts:
    patterns = {pattern: _pattern(pattern, series) for pattern in PATTERNS}
    untold = {pattern: _cell(series.own(pattern)) for pattern in UNTOLD}
    others: tuple[Performer, ...] = ("io worker", "io_uring")
    overlapped = {
        performer: add_up(series.of(lambda c, p=performer: c.performed_by == p))  # type: ignore[misc]
        for performer in others
    }
    return SpaceCosts(
        tablespace=name,
        patterns=patterns,
        untold={pattern: cell for pattern, cell in untold.items() if cell.reads},
        ratio=_ratio(series),
        device_ratio=_ratio(series, "device"),
        overlapped={performer: total for performer, total in overlapped.items() if total.reads},
    )


def _ratio(series: _Series, source: Source | None = None) -> Figure:
    """None where most is read ahead of need: then what backends read themselves is the rest."""
    compared: tuple[Pattern, ...] = ("random", "sequential")
    for pattern in compared:
        own = add_up(series.own(pattern))
        others = add_up(
            series.of(lambda c, p=pattern: c.performed_by != "backend" and c.pattern == p)  # type: ignore[misc]
        )
        if others.blocks > own.blocks:
            return Figure(missing=f"most {pattern} blocks were not read by backends themselves")
    return ratio(series.own("random", source), series.own("sequential", source))


def _pattern(pattern: Pattern, series: _Series) -> PatternCosts:
    sources = {source: _cell(series.own(pattern, source)) for source in SOURCES}
    sizes = {
        size: _cell(
            series.of(
                lambda c, s=size: (  # type: ignore[misc]
                    c.performed_by == "backend" and c.pattern == pattern and c.size == s
                )
            )
        )
        for size in SIZES
    }
    return PatternCosts(
        _cell(series.own(pattern)),
        {source: cell for source, cell in sources.items() if cell.reads},
        {size: cell for size, cell in sizes.items() if cell.reads},
    )


def _cell(series: Sequence[Sum]) -> Cell:
    return Cell(*add_up(series), mean(series))
