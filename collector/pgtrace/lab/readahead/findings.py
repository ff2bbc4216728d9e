"""What follows from the read-ahead experiment: the knee, the turn, what limits there, and whether
the device's bytes are the table's.
"""

from collections.abc import Iterator, Sequence

from ... import units
from ...model.capture import Source
from ...model.lab_result import Details, Storage
from ...stats import paired
from ..core.finding_text import numbers
from .figures import Hump, Step, humps, steps
from .knee import Knee, knee_of, turn_of
from .result import (
    Bytes,
    BytesDetails,
    HumpDetails,
    HumpFinding,
    KneeDetails,
    KneeFinding,
    Limit,
    LimitDetails,
    Limiter,
    RandomDetails,
    RandomReads,
    ReadaheadFinding,
    ReadaheadResult,
    TurnFinding,
)

MOST = 2 / 3
"""The share of the time from which on one thing limits a scan alone."""
BUSY_HOST = 0.1
"""The share of the time without a CPU from which on others are to be named."""
SAME_BYTES = 0.01

_WORDS: dict[Source, str] = {
    "page_cache": "found in the page cache, where read-ahead had put them",
    "readahead_issued": "found in the page cache, and asked for more to be read ahead",
    "device": "asked the device, and waited for it",
    "wait": "waited for read-ahead that was under way",
    "unknown": "where they were served is not known",
}


def found_in(result: ReadaheadResult) -> list[ReadaheadFinding]:
    """Those of a result; computed where there are none, as of one that was cut short."""
    return result.findings or findings(result)


def findings(result: ReadaheadResult) -> list[ReadaheadFinding]:
    """Return them by storage, as these were given."""
    found: list[ReadaheadFinding] = []
    for storage in result.storages:
        scans = steps(result, storage.name, "sequential")
        by_index = steps(result, storage.name, "random")
        knee = knee_of(scans)
        if knee:
            found += [_knee(storage, knee), _turn(storage, knee, scans)]
            found.append(_limit(storage, knee.at))
            found += _random(storage, knee.at, by_index)
        found += _bytes(storage, scans, result.options.table_bytes)
        found += [_hump(storage, step, hump) for step in scans for hump in humps(step)]
    return found


def throughput(step: Step) -> float | None:
    """Bytes of the heap per second; None if it was not read, or in no time."""
    if not step.heap.bytes or not step.time.value:
        return None
    return step.heap.bytes / step.runs / step.time.value


def _knee(storage: Storage, knee: Knee) -> KneeFinding:
    at, best, runs = knee.at.sectors, knee.best.sectors, knee.at.runs
    rate = throughput(knee.at)
    shown = f" ({units.rate(rate)})" if rate else ""
    if runs < 2:
        words = f"at {at:,} sectors{shown} by its mean; not decided: one run has no interval"
    elif knee.low is knee.high:
        words = f"at {at:,} sectors{shown}"
    else:
        words = (
            f"not decided: between {knee.low.sectors:,} and {knee.high.sectors:,} sectors, by the "
            f"means at {at:,}{shown}; more runs would tell"
        )
    if best == max(knee.by_best):
        words += f"; the best is the largest that was measured, {best:,}"
    elif best != at:
        words += f"; the best is {best:,}"
    return KneeFinding(
        _mark(storage, words),
        storage.name,
        at,
        knee.low.sectors if runs > 1 else None,
        knee.high.sectors if runs > 1 else None,
        runs,
        details=KneeDetails(
            best,
            rate,
            {s: (e.value, e.low, e.high) for s, e in knee.by_best.items()},
            simulated=storage.simulated,
        ),
    )


def _turn(storage: Storage, knee: Knee, scans: Sequence[Step]) -> TurnFinding:
    turn = turn_of(knee, scans)
    details = Details(simulated=True) if storage.simulated else None
    if turn is None:
        last = f"{knee.best.sectors:,} sectors"
        words = _mark(storage, f"not seen: nothing above {last} was measured")
        return TurnFinding(words, storage.name, details=details)
    possible, likely, certain = turn.possible, turn.likely, turn.certain
    if possible is None:
        words = _mark(storage, f"none up to {turn.last.sectors:,} sectors")
        return TurnFinding(words, storage.name, details=details)
    if certain is None:
        shown = f", by the means at {likely.sectors:,} sectors" if likely else ""
        words = f"not decided{shown}; more runs would tell"
    elif certain is possible:
        ratio = knee.by_best[certain.sectors]
        size = f"{units.number(ratio.low or 0)} to {units.number(ratio.high or 0)}"
        words = f"at {certain.sectors:,} sectors, which takes {size} times as long as the best"
    else:
        words = (
            f"not decided: between {possible.sectors:,} and {certain.sectors:,} sectors; more runs "
            "would tell"
        )
    at, low, high = (step.sectors if step else None for step in (likely, possible, certain))
    runs = knee.by_best[turn.last.sectors].runs
    return TurnFinding(_mark(storage, words), storage.name, at, low, high, runs, details)


def _limit(storage: Storage, step: Step) -> Limit:
    """Of the backend's time at one step."""
    on_cpu = None if step.cpu is None else step.cpu + (step.cpu_wait or 0)
    shares: dict[Limiter, float | None] = {
        "the CPU": on_cpu, "the device": step.waited, "the client": step.client
    }  # fmt: skip
    known = {name: share for name, share in shares.items() if share is not None}
    told = {
        "on a CPU": step.cpu,
        "waiting for one": step.cpu_wait,
        "waiting for reads": step.waited,
    }
    parts = [f"{units.share(min(1, v))} {name}" for name, v in told.items() if v is not None]
    if step.waited is None:
        parts.append("waiting for reads not measured, as others made them")
    if step.busy is not None:
        parts.append(f"the device had requests for {units.share(min(1, step.busy))}")
    name, share = max(known.items(), key=lambda each: each[1], default=(None, 0.0))
    if share >= MOST:
        words = f"{name} limits"
        if name == "the CPU" and (step.cpu_wait or 0) > BUSY_HOST:
            words += ", which others used as well,"
    elif known:
        words = "no single thing limits"
    else:
        words = "what limits was not measured"
    words += f" at {step.sectors:,} sectors: of the time {', '.join(parts)}"
    details = LimitDetails(
        step.sectors,
        name if share >= MOST else None,
        cpu=step.cpu,
        cpu_wait=step.cpu_wait,
        waited=step.waited,
        busy=step.busy,
        client=step.client,
        simulated=storage.simulated,
    )
    return Limit(
        _mark(storage, words),
        storage.name,
        share if share >= MOST else None,
        units=step.runs,
        details=details,
    )


def _bytes(storage: Storage, scans: Sequence[Step], table: int | None) -> Iterator[Bytes]:
    """Of the step that is farthest off."""
    if not table:
        return
    shares = {s.sectors: s.device_bytes / table for s in scans if s.heap.reads}
    if not shares or any(s.all.reads == s.count("unknown") for s in scans):
        return
    sectors, worst = max(shares.items(), key=lambda each: abs(each[1] - 1))
    if abs(worst - 1) <= SAME_BYTES:
        exact = abs(worst - 1) < 5e-5
        words = (
            "exactly that at every step"
            if exact
            else (f"within {100 * abs(worst - 1):.2f} % of that at every step")
        )
    else:
        words = f"{units.number(worst)} times that at {sectors:,} sectors"
        if worst < 1:
            words += ": the rest was in shared buffers or the page cache"
        else:
            words += ": something was read twice, as the page cache could not hold it"
    words = f"the table has {units.size(table)}, and its reads asked the device for {words}"
    yield Bytes(
        _mark(storage, words),
        storage.name,
        worst,
        units=sum(s.runs for s in scans),
        details=BytesDetails(shares, simulated=storage.simulated),
    )


def _hump(storage: Storage, step: Step, hump: Hump) -> HumpFinding:
    most = sorted(hump.by_source.items(), key=lambda each: -each[1])
    said = []
    for source, reads in most:
        if reads < 0.1 * hump.reads:
            continue
        share = "" if reads > 0.9 * hump.reads else f"{units.share(reads / hump.reads)} "
        each = step.by_source[source].device_bytes / step.by_source[source].reads
        size = f", for {units.size(each)} each" if source in ("device", "readahead_issued") else ""
        if size and step.requests_per_read and not step.sectors:
            size += f" in {units.number(step.requests_per_read)} requests"
        words = _WORDS[source]
        if source == "readahead_issued" and not step.sectors:
            words = "asked the device, and were answered before they slept"
        said.append(f"{share}{words}{size}")
    time = hump.total_ns / max(1, step.all.total_ns)
    words = (
        f"{units.bucket(hump.low_ns)} to {units.bucket(hump.high_ns)}: {units.count(hump.reads)} "
        f"{'read' if hump.reads == 1 else 'reads'}, {units.share(time)} of the time: "
        f"{'; '.join(said)}"
    )
    details = HumpDetails(
        step.sectors,
        hump.low_ns,
        hump.high_ns,
        hump.reads,
        hump.total_ns,
        hump.by_source,
        simulated=storage.simulated,
    )
    return HumpFinding(
        _mark(storage, words), storage.name, hump.p50_ns, units=step.runs, details=details
    )


def _random(storage: Storage, knee: Step, by_index: Sequence[Step]) -> Iterator[RandomReads]:
    """At the scan's knee, against where random reads are fastest."""
    there = [s for s in by_index if s.sectors == knee.sectors]
    if len(by_index) < 2 or not there:
        return
    fastest = min(by_index, key=lambda step: step.time.value)
    details = RandomDetails(knee.sectors, fastest.sectors, simulated=storage.simulated)
    if fastest is there[0]:
        words = (
            f"with no step was the index scan faster than with the knee, {knee.sectors:,} sectors"
        )
        words = _mark(storage, words)
        yield RandomReads(words, storage.name, 1.0, units=there[0].runs, details=details)
        return
    ratio = paired.ratio(there[0].elapsed_s, fastest.elapsed_s)
    if ratio:
        words = (
            f"the index scan at the knee, {knee.sectors:,} sectors, by {fastest.sectors:,}, its "
            f"fastest: {paired.verdict(ratio, '{} as long')}"
        )
        words = _mark(storage, words)
        yield RandomReads(words, storage.name, *numbers(ratio), details=details)


def _mark(storage: Storage, words: str) -> str:
    return f"simulated: {words}" if storage.simulated else words
