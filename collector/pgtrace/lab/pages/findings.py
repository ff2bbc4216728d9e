"""What follows from the pages experiment: ratios, differences, where the time went.

Arithmetic over a result; nothing here is a recommendation: a ratio of latencies describes a
storage, and what a plan costs is elapsed time, with prefetching and caches in it.
"""

from collections.abc import Callable, Iterator
from itertools import combinations

from ... import units
from ...model.lab_result import QueryCell, Storage
from ...stats import paired
from ..core.figures import Figures, figures, label
from ..core.finding_text import numbers
from ..core.valid_runs import (
    PATTERNS,
    Pattern,
    block_ns,
    by_run,
    counted,
    median_ns,
    page_ns,
    reads_ahead,
    tuple_ns,
)
from .result import (
    Between,
    BetweenDetails,
    Block,
    BlockDetails,
    By,
    Cpu,
    CpuDetails,
    Measured,
    PagesFinding,
    PagesResult,
    Ratio,
    RatioDetails,
    Served,
    ServedDetails,
    Share,
)

Measure = Callable[[QueryCell], float | None]

MEASURES: dict[By, Measure] = {"read latency": block_ns, "elapsed time": page_ns}


def found_in(result: PagesResult) -> list[PagesFinding]:
    """Those of a result; computed where there are none, as of one that was cut short."""
    return [f for f in result.findings if isinstance(f, PagesFinding)] or findings(result)


def findings(result: PagesResult) -> list[PagesFinding]:
    """Return them by name, each storage as it was given; `units` are runs, or pairs of them."""
    cells = counted(result)
    found: list[PagesFinding] = []
    for storage in result.storages:
        found += _blocks(storage, cells)
        found += _ratios(storage, cells)
    for one, other in combinations(result.storages, 2):
        found += _between(one, other, cells)
    found += [_served(of) for of in figures(result) if of.all.reads and of.all.total_ns]
    for storage in result.storages:
        found += _cpu(storage, cells)
    order = (Block, Ratio, Between, Served, Cpu)
    return sorted(found, key=lambda finding: order.index(type(finding)))


def _blocks(storage: Storage, cells: list[QueryCell]) -> Iterator[Block]:
    """Nanoseconds per 8 KiB, and how far off they may be: as much as runs differed."""
    for pattern in PATTERNS:
        for by, measure in MEASURES.items():
            each = paired.mean(list(by_run(cells, storage.name, pattern, measure).values()))
            if each:
                shown = f"{units.duration(each.value)} per 8 KiB, by {by}"
                yield Block(
                    _mark([storage], f"a {pattern} block took {shown}"),
                    storage.name,
                    *numbers(each),
                    details=BlockDetails(pattern, by, simulated=storage.simulated),
                )


def _ratios(storage: Storage, cells: list[QueryCell]) -> Iterator[Ratio]:
    for by, measure in MEASURES.items():
        sequential, random = (by_run(cells, storage.name, p, measure) for p in PATTERNS)
        times = paired.ratio(random, sequential)
        if times:
            words = paired.verdict(times, "a random block took {} as long as a sequential one")
            if by == "read latency" and any(
                reads_ahead(c) for c in cells if c.storage == storage.name
            ):
                words += "; most blocks were read while the backend went on: elapsed time counts"
            details = RatioDetails(by, simulated=storage.simulated)
            yield Ratio(_mark([storage], words), storage.name, *numbers(times), details=details)


def _between(one: Storage, other: Storage, cells: list[QueryCell]) -> Iterator[Between]:
    """By read latency, the slower one by the other, so that the value is 1 or more.

    Of random reads the medians too: a neighbour that stalls the machine for a moment is in the mean
    of a run, and not in its median. Of sequential ones the median is of the page cache.
    """
    compared: tuple[tuple[Pattern, Measured, Measure], ...] = (
        ("sequential", "mean per 8 KiB", block_ns),
        ("random", "mean per 8 KiB", block_ns),
        ("random", "p50 of a read", median_ns),
    )
    for pattern, by, measure in compared:
        slow, fast = one, other
        ours, theirs = (by_run(cells, s.name, pattern, measure) for s in (one, other))
        times = paired.ratio(ours, theirs)
        if times and times.value < 1:
            slow, fast = other, one
            times = paired.ratio(theirs, ours)
        if times:
            # Braces of a name are no place for the size
            name = label(slow).replace("{", "{{").replace("}", "}}")
            words = paired.verdict(times, f"{name} is slower: {{}} as long")
            simulated = slow.simulated or fast.simulated
            details = BetweenDetails(pattern, fast.name, by, simulated=simulated)
            yield Between(_mark([slow, fast], words), slow.name, *numbers(times), details=details)


def _served(of: Figures) -> Served:
    """Few reads often hold most of the time: both shares, of each source."""
    parts = of.by_source
    if set(parts) == {"unknown"}:
        words = "where reads were served was not measured"
        details = ServedDetails(of.pattern, simulated=of.storage.simulated)
        return Served(_mark([of.storage], words), of.storage.name, details=details)
    shares = {
        source: Share(part.reads / of.all.reads, part.total_ns / of.all.total_ns)
        for source, part in parts.items()
    }
    device = shares.get("device", Share(0.0, 0.0))
    if device.reads:
        words = (
            f"{units.share(device.reads)} of the {of.pattern} reads waited for the device, "
            f"and hold {units.share(device.time)} of the time"
        )
    else:
        words = f"no {of.pattern} read waited for the device"
    if "unknown" in shares:
        words += f"; of {units.share(shares['unknown'].reads)} it is not known"
    return Served(
        _mark([of.storage], words),
        of.storage.name,
        value=device.time,
        units=of.runs,
        details=ServedDetails(of.pattern, shares, simulated=of.storage.simulated),
    )


def _cpu(storage: Storage, cells: list[QueryCell]) -> Iterator[Cpu]:
    """Nanoseconds of CPU time per row, and that in units of a sequential block's latency."""
    sequential = by_run(cells, storage.name, "sequential", block_ns)
    for pattern in PATTERNS:
        each = by_run(cells, storage.name, pattern, tuple_ns)
        time = paired.mean(list(each.values()))
        if time:
            of_block = paired.ratio(each, sequential)
            words = f"{units.number(time.value)} ns of CPU time per tuple"
            if of_block:
                words += f", {units.number(of_block.value)} of a sequential block's read latency"
            yield Cpu(
                _mark([storage], f"{words}; no setting follows from it"),
                storage.name,
                *numbers(time),
                details=CpuDetails(
                    pattern, of_block.value if of_block else None, simulated=storage.simulated
                ),
            )


def _mark(storages: list[Storage], words: str) -> str:
    simulated = any(s.simulated for s in storages) and "(simulated)" not in words
    return f"simulated: {words}" if simulated else words
