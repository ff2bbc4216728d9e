"""What the read-ahead experiment measured, step by step, as reports show it.

Arithmetic over the cells of a result. Times are nanoseconds unless a name says seconds.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ...model.capture import Source
from ...model.histogram import Histogram
from ...model.lab_result import Pattern
from ...stats import paired
from ..core.figures import SOURCES, Part, part
from ..core.valid_runs import counted, reads_of
from .result import ReadaheadCell, ReadaheadResult

WAITING: tuple[Source, ...] = ("device", "wait")
ASKING: tuple[Source, ...] = ("device", "readahead_issued")
"""Reads that asked the device for something: their device bytes are all that it delivered."""
VALLEY = 0.5
"""Two peaks are one hump if no row between them has less than this of the lower one."""
HUMP_READS, HUMP_TIME = 0.01, 0.05
"""What has less of the reads, and less of the time, is called no hump."""


@dataclass(frozen=True, slots=True)
class Hump:
    """Reads around one peak of a histogram, of powers of two: low_ns <= time < high_ns."""

    low_ns: int
    high_ns: int
    reads: int
    total_ns: int
    p50_ns: int
    by_source: dict[Source, int]
    """Reads."""


@dataclass(frozen=True, slots=True)
class Step:
    """All runs of one pattern at one read-ahead, added up. A share is of the elapsed time; None is
    what was not measured.
    """

    sectors: int
    elapsed_s: dict[int, float]
    """By run."""
    time: paired.Estimate
    """Seconds: the geometric mean over runs, as the ratios of runs have it."""
    all: Part
    by_source: dict[Source, Part]
    heap: Part
    runs: int
    cpu: float | None
    """On a CPU, of the backend."""
    cpu_wait: float | None
    """Ready to run, but without a CPU."""
    waited: float | None
    """In reads that waited for the device, or for read-ahead under way; None where others read for
    the backend, so that their reads overlap."""
    busy: float | None
    """In which the device had a request."""
    client: float | None
    """In which the client was on a CPU."""
    requests: float | None
    """Reads that the device completed, per run."""
    request_bytes: float | None
    """Their mean size."""
    shared_hits: int

    @property
    def device_bytes(self) -> float:
        """What reads of the table's heap asked the device for, per run."""
        return self.heap.device_bytes / self.runs

    @property
    def requests_per_read(self) -> float | None:
        """Device requests per read that asked the device for something."""
        asking = sum(self.by_source[s].reads for s in ASKING if s in self.by_source)
        return self.requests * self.runs / asking if self.requests and asking else None

    def count(self, source: Source) -> int:
        """Reads of one source, of all runs."""
        return self.by_source[source].reads if source in self.by_source else 0


def steps(result: ReadaheadResult, storage: str, pattern: Pattern) -> list[Step]:
    """Those that have runs, by their read-ahead, ascending."""
    cells = [c for c in counted(result) if (c.storage, c.pattern) == (storage, pattern)]
    known = sorted({c.read_ahead_sectors for c in cells})
    return [_step(s, [c for c in cells if c.read_ahead_sectors == s]) for s in known]


def humps(step: Step) -> list[Hump]:
    """The peaks of its histogram, by time, each with where its reads were served."""
    rows = step.all.latencies.fold_time()
    found = []
    for first, last in _around_peaks([count for _, _, count, _ in rows]):
        own = rows[first : last + 1]
        low, high = own[0][0], own[-1][1]
        reads, time = sum(row[2] for row in own), sum(row[3] for row in own)
        if reads < HUMP_READS * step.all.reads and time < HUMP_TIME * step.all.total_ns:
            continue
        within = _between(step.all.latencies, low, high)
        by_source = {s: _between(p.latencies, low, high).count for s, p in step.by_source.items()}
        found.append(
            Hump(low, high, reads, time, within.percentile(50) or 0,
                 {s: n for s, n in by_source.items() if n})
        )  # fmt: skip
    return found


def _around_peaks(counts: Sequence[int]) -> list[tuple[int, int]]:
    """First and last row of each hump; a valley belongs to the hump before it."""
    parts: list[tuple[int, int]] = []
    first = 0
    for row in range(1, len(counts)):
        falls = counts[row - 1] >= counts[row]
        if falls and row + 1 < len(counts) and counts[row + 1] > counts[row]:
            before, after = max(counts[first : row + 1]), max(_rise(counts[row + 1 :]))
            if counts[row] < VALLEY * min(before, after):
                parts.append((first, row))
                first = row + 1
    return [*parts, (first, len(counts) - 1)] if counts else []


def _rise(counts: Sequence[int]) -> list[int]:
    """As far as they do not fall below half of the highest so far."""
    seen: list[int] = []
    for count in counts:
        if seen and count < VALLEY * max(seen):
            break
        seen.append(count)
    return seen


def _between(latencies: Histogram, low: int, high: int) -> Histogram:
    """Its values from low to high, whose exact sum, least and greatest are not known."""
    rows = [r for r in latencies.to_data().buckets if low <= r[0] < high]
    if not rows:
        return Histogram()
    return Histogram.from_buckets(rows, 0, rows[0][0], rows[-1][1] - 1)


def _step(sectors: int, cells: Sequence[ReadaheadCell]) -> Step:
    reads = [r for cell in cells for r in reads_of(cell)]
    elapsed = {cell.run: cell.elapsed_s for cell in cells if cell.elapsed_s > 0}
    whole = sum(cell.elapsed_s for cell in cells)

    def share(measure: Callable[[ReadaheadCell], float | None]) -> float | None:
        values = [measure(cell) for cell in cells]
        known = [v for v in values if v is not None]
        return sum(known) / whole if whole and len(known) == len(cells) else None

    def waited(cell: ReadaheadCell) -> float | None:
        own = reads_of(cell)
        if any(r.performed_by != "backend" or r.source == "unknown" for r in own):
            return None
        return sum(r.total_ns for r in own if r.source in WAITING) / 1e9

    requests = [c.device_requests for c in cells if c.device_requests is not None]
    sizes = [c.device_read_bytes for c in cells if c.device_read_bytes is not None]
    estimate = paired.mean(list(elapsed.values()))
    return Step(
        sectors=sectors,
        elapsed_s=elapsed,
        time=estimate or paired.Estimate(0, None, None, 0),
        all=part(reads),
        by_source={s: part(of) for s in SOURCES if (of := [r for r in reads if r.source == s])},
        heap=part([r for r in reads if r.kind == "heap"]),
        runs=len(cells),
        cpu=share(lambda c: c.cpu_s),
        cpu_wait=share(lambda c: c.cpu_wait_s),
        waited=share(waited),
        busy=share(lambda c: c.device_busy_s),
        client=share(lambda c: c.client_cpu_s),
        requests=sum(requests) / len(requests) if requests else None,
        request_bytes=sum(sizes) / sum(requests) if sizes and sum(requests) else None,
        shared_hits=sum(c.shared_hits or 0 for c in cells),
    )
