"""What follows from the buffers experiment: levels, ratios, EXPLAIN's I/O timing, and the ring."""

from collections.abc import Callable, Iterable, Iterator
from itertools import combinations, pairwise
from math import sqrt
from statistics import fmean, stdev

from ... import units
from ...stats import paired
from ...stats.batch_means import student
from ...stats.paired import Estimate
from ..core.finding_text import numbers
from ..core.valid_runs import counted
from .figures import (
    cells_of,
    figures,
    has_ring,
    hits_of_scans,
    ring,
    seen,
    table_reads,
    touched,
)
from .measuring import STATES
from .result import (
    Blocks,
    BlocksDetails,
    BuffersCell,
    BuffersFinding,
    BuffersResult,
    Elapsed,
    ElapsedDetails,
    Ring,
    RingDetails,
    SizeDetails,
    SizeRatio,
    State,
    StateDetails,
    StateRatio,
    Timing,
    TimingDetails,
)


def found_in(result: BuffersResult) -> list[BuffersFinding]:
    """Those of a result; computed where there are none, as of one that was cut short."""
    return result.findings or findings(result)


def findings(result: BuffersResult) -> list[BuffersFinding]:
    """All of them, storage by storage."""
    found: list[BuffersFinding] = []
    for storage in result.storages:
        name = storage.name
        if not any(cell.storage == name for cell in counted(result)):
            continue
        found.append(_blocks(result, name))
        for size, buffers in result.options.shared_buffers.items():
            found += _elapsed(result, name, size)
            found += _states(result, name, size)
            found += _timing(result, name, size)
            found += _ring(result, name, size, buffers)
        found += _sizes(result, name)
        if storage.simulated:
            for each in (f for f in found if f.storage == name):
                each.verdict = f"simulated: {each.verdict}"
                each.details.simulated = True
    return found


def _blocks(result: BuffersResult, storage: str) -> Blocks:
    cells = [cell for cell in counted(result) if cell.storage == storage]
    unlike = [cell for cell in cells if seen(cell) != touched(cell)]
    verdict = (
        f"in all {len(cells)} scans hits and blocks read are the blocks that EXPLAIN counts"
        if not unlike
        else "; ".join(
            f"run {c.run}, {c.shared_buffers}, {c.state}: {units.count(seen(c))} blocks were seen, "
            f"EXPLAIN counts {units.count(touched(c))}"
            for c in unlike
        )
    )
    return Blocks(verdict, storage, units=len(cells), details=BlocksDetails(len(unlike)))


def _elapsed(result: BuffersResult, storage: str, size: str) -> Iterator[Elapsed]:
    for state in figures(result, storage, size):
        found = paired.mean(list(_by_run(result, storage, size, state).values()))
        if found:
            words = f"{units.duration(found.value)} a block"
            details = ElapsedDetails(size, state)
            yield Elapsed(words, storage, *numbers(found), details=details)


def _states(result: BuffersResult, storage: str, size: str) -> Iterator[StateRatio]:
    """Each state by the next, which should be faster."""
    for slow, fast in pairwise(STATES):
        found = paired.ratio(
            _by_run(result, storage, size, slow), _by_run(result, storage, size, fast)
        )
        if found:
            words = _difference(found, f"{slow} takes {{}} as long as {fast}", fast, slow)
            details = StateDetails(size, slow, fast)
            yield StateRatio(words, storage, *numbers(found), details=details)


def _sizes(result: BuffersResult, storage: str) -> Iterator[SizeRatio]:
    """Each two sizes in the same state."""
    for state in STATES:
        for small, large in combinations(result.options.shared_buffers, 2):
            found = paired.ratio(
                _by_run(result, storage, small, state), _by_run(result, storage, large, state)
            )
            if found:
                words = _difference(found, f"{small} takes {{}} as long as {large}", large, small)
                details = SizeDetails(small, state, large)
                yield SizeRatio(words, storage, *numbers(found), details=details)


def _difference(found: Estimate, words: str, fast: str, slow: str) -> str:
    """The verdict, in the direction in which there is one."""
    if found.low is not None and found.high is not None and found.high < 1:
        turned = Estimate(1 / found.value, 1 / found.high, 1 / found.low, found.runs)
        return paired.verdict(turned, f"{fast} takes {{}} as long as {slow}")
    return paired.verdict(found, words)


def _timing(result: BuffersResult, storage: str, size: str) -> Iterator[Timing]:
    """EXPLAIN's I/O timing less the traced reads, per block read, where most blocks were read."""
    for state in STATES:
        cells = [
            cell
            for cell in cells_of(result, storage, size, state)
            if cell.io_timing_s is not None and 2 * (cell.shared_reads or 0) > touched(cell)
        ]
        if not cells:
            continue
        explained = _mean(cells, lambda c: _each(c.io_timing_s, c.shared_reads))
        traced = _mean(cells, _traced_ns)
        more = _mean(cells, lambda c: _minus(_each(c.io_timing_s, c.shared_reads), _traced_ns(c)))
        # Only the page cache serves scans after the first, whatever that found
        tracer = None
        if state == "cached":
            tracer = _mean(cells, lambda c: _minus(_each(c.io_timing_s, c.shared_reads),
                                                   _untraced_ns(c)))  # fmt: skip
        clock = result.options.clock_ns
        reads = sum(read.count for cell in cells for read in table_reads(cell))
        waited = _mean(cells, lambda c: _each(c.cpu_wait_s, c.shared_reads))
        assert explained and traced and more
        yield Timing(
            _told(explained, traced, more),
            storage,
            *numbers(more),
            details=TimingDetails(
                size,
                state,
                explained_ns=explained.value,
                traced_ns=traced.value,
                tracer_ns=(tracer.value, tracer.low, tracer.high) if tracer else None,
                clock_ns=clock,
                cpu_wait_ns=waited.value if waited else None,
                blocks_a_read=sum(c.shared_reads or 0 for c in cells) / reads if reads else None,
            ),
        )


def _told(explained: Estimate, traced: Estimate, more: Estimate) -> str:
    both = (
        f"EXPLAIN's I/O timing is {units.duration(explained.value)} a block, the reads took "
        f"{units.duration(traced.value)}"
    )
    if more.low is None or more.high is None:
        return f"{both}; the difference is not decided: one run has no interval"
    if more.low <= 0 <= more.high:
        return f"{both}; the difference is not decided: more runs would tell"
    direction = "more" if more.low > 0 else "less"
    low, high = sorted((abs(more.low), abs(more.high)))
    return f"{both}: {units.duration(low)} to {units.duration(high)} {direction}"


def _ring(result: BuffersResult, storage: str, size: str, buffers: int) -> Iterator[Ring]:
    """By how much hits grow from scan to scan in one server life, and what the ring implies."""
    cells = [c for state in ("cold", "cached") for c in cells_of(result, storage, size, state)]
    cells = [cell for cell in cells if cell.again]
    if not cells:
        return
    blocks = max(touched(cell) for cell in cells)
    grown = [hits_of_scans(cell)[1] - hits_of_scans(cell)[0] for cell in cells]
    low, high = min(grown), max(grown)
    many = f"{low:,}" if low == high else f"{low:,} to {high:,}"
    quarter = f"a quarter of its {buffers:,} buffers"
    if has_ring(blocks, buffers):
        computed = ring(result, buffers)
        same = "as computed" if low == high == computed else f"not the {computed:,} computed"
        words = f"the table's {blocks:,} blocks are more than {quarter}, so that a scan goes "
        words += f"through a ring: the second scan finds {many} blocks more, {same}"
        words += _after_prewarm(result, storage, size, buffers - computed)
    else:
        computed = blocks
        same = "which is all" if low == high == blocks else "not all"
        words = f"the table's {blocks:,} blocks are not more than {quarter}: no ring; the second "
        words += f"scan finds {many} blocks more, {same}"
    details = RingDetails(size, buffers, blocks, has_ring(blocks, buffers), computed)
    yield Ring(words, storage, value=fmean(grown), units=len(grown), details=details)


def _after_prewarm(result: BuffersResult, storage: str, size: str, but_ring: int) -> str:
    """Where the table does not fit, how much of what pg_prewarm left stays there."""
    cells = cells_of(result, storage, size, "prewarmed")
    if not cells or max(touched(cell) for cell in cells) <= but_ring:
        return ""
    most = max(hits for cell in cells for hits in hits_of_scans(cell))
    all_but = ", all buffers but those of the ring" if most == but_ring else ""
    return f"; after pg_prewarm scans find up to {most:,}{all_but}"


def _by_run(result: BuffersResult, storage: str, size: str, state: State) -> dict[int, float]:
    """Elapsed nanoseconds per block touched."""
    cells = cells_of(result, storage, size, state)
    return {c.run: c.elapsed_s * 1e9 / touched(c) for c in cells if touched(c)}


def _each(seconds: float | None, blocks: int | None) -> float | None:
    return seconds * 1e9 / blocks if seconds is not None and blocks else None


def _traced_ns(cell: BuffersCell) -> float | None:
    took = sum(read.total_ns for read in table_reads(cell))
    return took / cell.shared_reads if cell.shared_reads else None


def _untraced_ns(cell: BuffersCell) -> float | None:
    """EXPLAIN's I/O timing per block of the scans after the traced one."""
    own = [a for a in cell.again if a.io_timing_s is not None and a.shared_reads]
    if not own or 2 * sum(a.shared_reads or 0 for a in own) < touched(cell) * len(own):
        return None
    return fmean(a.io_timing_s * 1e9 / a.shared_reads for a in own)  # type: ignore[operator]


def _minus(left: float | None, right: float | None) -> float | None:
    return None if left is None or right is None else left - right


def _mean(
    cells: Iterable[BuffersCell], measure: Callable[[BuffersCell], float | None]
) -> Estimate | None:
    """The arithmetic mean over runs, which may be negative, with Student's t."""
    values = [value for cell in cells if (value := measure(cell)) is not None]
    if not values:
        return None
    centre = fmean(values)
    if len(values) < 2:
        return Estimate(centre, None, None, 1)
    spread = student(len(values) - 1) * stdev(values) / sqrt(len(values))
    return Estimate(centre, centre - spread, centre + spread, len(values))
