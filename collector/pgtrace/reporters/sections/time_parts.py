"""Where the time of a query, a backend, or a server went: parts that add up to it."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from ... import units
from ...model.capture import Backend, Io, Latencies, Time, of_operation, waits_for_work
from ...model.histogram import Histogram
from ..document import Block, Column, Paragraph, Table, Value
from ..view import Choice

LEAST = 0.01
"""Share of the time; what is less is summed up."""
READING, CPU, RUN_QUEUE, STOLEN = "reading", "CPU", "waiting for a CPU", "stolen"
NAMES = {"cpu": CPU, "run_queue": RUN_QUEUE, "stolen": STOLEN, "run_queue_in_read": RUN_QUEUE}
OTHER, UNACCOUNTED = "other", "unaccounted"
WAITED = ("device", "wait")
"""Sources of reads in which a process slept: for others than the device, if reads are on their way,
or for locks and memory."""
_WAITS = {"device": "device", "wait": "other waits"}


class Part(NamedTuple):
    """One of those into which a time is divided."""

    name: str
    ns: int
    detail: str = ""


def blocks(backends: Sequence[Backend], choice: Choice) -> list[Block]:
    """Where the time of these processes went, but for waits for work, as a table; none if that was
    not measured.
    """
    times = [t for backend in backends for t in backend.times if not is_idle(t)]
    if not times:
        return []
    whole = sum(each.total_ns for each in times)
    who = "All processes together" if len(backends) > 1 else "The process"
    said = f"{who}, without waits for work: {units.duration(whole)}."
    return [Paragraph(said), _table(times, whole, choice)]


def _table(times: Sequence[Time], whole_ns: int, choice: Choice) -> Table:
    of: defaultdict[str, list[Latencies]] = defaultdict(list)
    for each in times:
        of[name_of(each)].append(each.latency)
    listed = sorted(of.items(), key=lambda item: -sum(each.sum for each in item[1]))
    shown = listed[: choice.rows(len(listed))]
    if rest := listed[len(shown) :]:
        named = f"({units.count(len(rest))} more)"
        shown.append((named, [each for _, several in rest for each in several]))
    rows = [(name, _figures(several, whole_ns)) for name, several in shown]
    columns = [
        Column("time", "ns"), Column("share", "share"), Column("times"), Column("mean", "ns"),
        Column("p50", "ns, 2 digits"), Column("p99", "ns, 2 digits"), Column("max", "ns, 2 digits"),
    ]  # fmt: skip
    return Table("Where the time went", "spent on", columns, rows)


def _figures(several: Sequence[Latencies], whole_ns: int) -> list[Value]:
    total = Histogram.of(several)
    count = sum(each.count for each in several)
    percentiles = [total.percentile(50), total.percentile(99)]
    time = total.total_ns
    return [time, time / max(1, whole_ns), count, time / max(1, count), *percentiles, total.max_ns]


def is_idle(time: Time) -> bool:
    """Whether it is a wait for something to do."""
    return waits_for_work(time.scope, time.wait_event_type, time.wait_event)


def parts(times: Iterable[Time], io: Sequence[Io], elapsed_ns: int | None) -> list[Part]:
    """What a process did in that time, what took longest first; their sum is `elapsed_ns`. None:
    that is not known, or all that was measured. None if it was not measured.

    A read that waits is the same as a sleep of the wait event IO:DataFileRead, then it may wait for
    a CPU, and one from the page cache is work of a CPU: all are in `reading`, and are taken off the
    others. What others did for the process overlaps its time, and is not in it.
    """
    own = [each for each in times if each.performed_by == "backend"]
    if not own:
        return []
    reads = [r for r in of_operation(io) if r.performed_by == "backend"]
    elapsed_ns = elapsed_ns or sum(each.total_ns for each in own)
    sums = sums_of(own, reads)
    found = [Part(name, ns) for name, ns in sums.most_common() if ns > 0]
    large = [part for part in found if part.ns >= LEAST * elapsed_ns]
    small = found[len(large) :]
    shown = [
        part._replace(detail=_sources(reads)) if part.name == READING else part for part in large
    ]
    if small:
        rest = sum(part.ns for part in small)
        shown.append(Part(small[0].name if len(small) == 1 else OTHER, rest))
    left = elapsed_ns - sum(part.ns for part in found)
    if abs(left) >= LEAST / 10 * elapsed_ns:
        shown.append(Part(UNACCOUNTED, left))
    return shown


def sums_of(own: Iterable[Time], reads: Iterable[Io]) -> Counter[str]:
    """Nanoseconds of each part, none of them twice."""
    sums: Counter[str] = Counter()
    waited_reading = 0
    for each in own:
        if is_reading(each) or each.kind == "run_queue_in_read":
            waited_reading += each.total_ns
        else:
            sums[name_of(each)] += each.total_ns
    # Of a read that goes on, or failed, what it waited alone is counted
    reading = max(sum(r.total_ns for r in reads), waited_reading)
    busy = reading - waited_reading
    for name in (CPU, RUN_QUEUE, STOLEN):
        # As much as is there: counted once, and no more than passed
        taken = max(min(busy, sums[name]), 0)
        sums[name] -= taken
        busy -= taken
    sums[READING] = reading - max(busy, 0)
    return sums


def is_reading(time: Time) -> bool:
    """Whether it is a sleep in the midst of a read of a file."""
    return (
        time.kind == "sleep"
        and time.wait_event_type == "IO"
        and (time.wait_event or "").endswith("Read")
    )


def name_of(time: Time) -> str:
    """What it is called: a wait event as people write it, `Lock:transactionid`."""
    return NAMES.get(time.kind) or f"{time.wait_event_type}:{time.wait_event}"


def in_words(found: Sequence[Part], elapsed_ns: int) -> str:
    """`reading 394 ms (93 %: device 389 ms, page cache 5.0 ms) · CPU 21 ms (5.0 %) · …`."""
    said = []
    for part in found:
        share = units.percent(part.ns, elapsed_ns)
        detail = f": {part.detail}" if part.detail else ""
        said.append(f"{part.name} {units.duration_beside(part.ns, elapsed_ns)} ({share}{detail})")
    return " · ".join(said)


def _sources(reads: Sequence[Io]) -> str:
    times: Counter[str] = Counter()
    for r in reads:
        if r.source != "unknown":
            times[_WAITS.get(r.source, "page cache")] += r.total_ns
    return ", ".join(f"{name} {units.duration(ns)}" for name, ns in times.most_common() if ns)
