"""What follows from the pages experiment: ratios, differences, where the time went.

Arithmetic over a result; nothing here is a recommendation: a ratio of latencies describes a
storage, and what a plan costs is elapsed time, with prefetching and caches in it.
"""

from collections.abc import Callable, Iterator
from itertools import combinations
from typing import Any

from ... import units
from ...model.lab_result import Cell, Finding, Result, Storage
from ...stats import paired
from ..core.figures import Figures, figures, label
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

Measure = Callable[[Cell], float | None]

RATIO, BLOCK, BETWEEN, SERVED, CPU = "ratio", "block", "between", "served", "cpu_per_tuple"
NAMES = frozenset({RATIO, BLOCK, BETWEEN, SERVED, CPU})
_MEAN, _MEDIAN = "mean per 8 KiB", "p50 of a read"
READ_LATENCY = "read latency"
MEASURES: dict[str, Measure] = {READ_LATENCY: block_ns, "elapsed time": page_ns}


def findings(result: Result) -> list[Finding]:
    """Return them by name, each storage as it was given; `units` are runs, or pairs of them."""
    cells = counted(result)
    found: list[Finding] = []
    for storage in result.storages:
        found += _blocks(storage, cells)
        found += _ratios(storage, cells)
    for one, other in combinations(result.storages, 2):
        found += _between(one, other, cells)
    found += [_served(of) for of in figures(result) if of.all.reads and of.all.total_ns]
    for storage in result.storages:
        found += _cpu(storage, cells)
    order = (BLOCK, RATIO, BETWEEN, SERVED, CPU)
    return sorted(found, key=lambda finding: order.index(finding.name))


def _blocks(storage: Storage, cells: list[Cell]) -> Iterator[Finding]:
    """Nanoseconds per 8 KiB, and how far off they may be: as much as runs differed."""
    for pattern in PATTERNS:
        for by, measure in MEASURES.items():
            each = paired.mean(list(by_run(cells, storage.name, pattern, measure).values()))
            if each:
                shown = f"{units.duration(each.value)} per 8 KiB, by {by}"
                yield _finding(
                    BLOCK,
                    [storage],
                    each,
                    f"a {pattern} block took {shown}",
                    pattern=pattern,
                    by=by,
                )


def _ratios(storage: Storage, cells: list[Cell]) -> Iterator[Finding]:
    for by, measure in MEASURES.items():
        sequential, random = (by_run(cells, storage.name, p, measure) for p in PATTERNS)
        times = paired.ratio(random, sequential)
        if times:
            words = paired.verdict(times, "a random block took {} as long as a sequential one")
            if by == READ_LATENCY and any(
                reads_ahead(c) for c in cells if c.storage == storage.name
            ):
                words += "; most blocks were read while the backend went on: elapsed time counts"
            yield _finding(RATIO, [storage], times, words, by=by)


def _between(one: Storage, other: Storage, cells: list[Cell]) -> Iterator[Finding]:
    """By read latency, the slower one by the other, so that the value is 1 or more.

    Of random reads the medians too: a neighbour that stalls the machine for a moment is in the mean
    of a run, and not in its median. Of sequential ones the median is of the page cache.
    """
    compared: tuple[tuple[Pattern, str, Measure], ...] = (
        ("sequential", _MEAN, block_ns),
        ("random", _MEAN, block_ns),
        ("random", _MEDIAN, median_ns),
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
            yield _finding(
                BETWEEN, [slow, fast], times, words, pattern=pattern, against=fast.name, by=by
            )


def _served(of: Figures) -> Finding:
    """Few reads often hold most of the time: both shares, of each source."""
    parts = of.by_source
    if set(parts) == {"unknown"}:
        words = "where reads were served was not measured"
        return Finding(SERVED, _mark([of.storage], words), of.storage.name,
                       details=_details([of.storage], pattern=of.pattern))  # fmt: skip
    shares = {
        source: {"reads": part.reads / of.all.reads, "time": part.total_ns / of.all.total_ns}
        for source, part in parts.items()
    }
    device = shares.get("device", {"reads": 0.0, "time": 0.0})
    if device["reads"]:
        words = (
            f"{units.share(device['reads'])} of the {of.pattern} reads waited for the device, "
            f"and hold {units.share(device['time'])} of the time"
        )
    else:
        words = f"no {of.pattern} read waited for the device"
    if "unknown" in shares:
        words += f"; of {units.share(shares['unknown']['reads'])} it is not known"
    return Finding(
        SERVED,
        _mark([of.storage], words),
        of.storage.name,
        value=device["time"],
        units=of.runs,
        details=_details([of.storage], pattern=of.pattern, shares=shares),
    )


def _cpu(storage: Storage, cells: list[Cell]) -> Iterator[Finding]:
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
            yield _finding(
                CPU, [storage], time, f"{words}; no setting follows from it", pattern=pattern,
                of_sequential_block=of_block and of_block.value,
            )  # fmt: skip


def _finding(
    name: str, storages: list[Storage], found: paired.Estimate, words: str, **details: Any
) -> Finding:
    return Finding(
        name,
        _mark(storages, words),
        storages[0].name,
        found.value,
        found.low,
        found.high,
        found.runs,
        _details(storages, **details),
    )


def _mark(storages: list[Storage], words: str) -> str:
    simulated = any(s.simulated for s in storages) and "(simulated)" not in words
    return f"simulated: {words}" if simulated else words


def _details(storages: list[Storage], **details: Any) -> dict[str, Any]:
    simulated = {"simulated": True} if any(s.simulated for s in storages) else {}
    return {key: value for key, value in details.items() if value is not None} | simulated
