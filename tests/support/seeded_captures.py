"""Captures made up of reads whose truth is known, by the second: for comparisons."""

from collections import Counter, defaultdict
from math import exp
from random import Random
from typing import Any

from captures import some_backend, some_capture
from pgtrace.model.capture import (
    Capture,
    Cost,
    Heaviest,
    Interval,
    IntervalIo,
    Io,
    Pattern,
    Query,
    Source,
)
from pgtrace.model.histogram import Histogram

DEVICE_NS, CACHED_NS = 200_000, 5_000
BLOCK = 8192
STATEMENT = "select * from t where id = $1"
NUMBER = 4711


def seeded_capture(
    seed: object = 1,
    *,
    seconds: int = 60,
    slower: float = 1.0,
    cached: float = 0.0,
    calls: float = 20.0,
    blocks_per_call: int = 10,
    text: str = STATEMENT,
    tablespace: str = "pg_default",
    relation: str | None = None,
    noise: float = 0.1,
    pattern: Pattern = "random",
    query_id: int = NUMBER,
    **fields: Any,
) -> Capture:
    """One statement that reads, each second `calls` times; a share is cached."""
    rng = Random(f"{seed}")
    intervals, number = [], 0
    whole: defaultdict[Source, Histogram] = defaultdict(Histogram)
    for second in range(seconds):
        level = exp(rng.gauss(0, noise))
        executed = max(1, round(rng.gauss(calls, calls / 10)))
        number += executed
        sums: defaultdict[Source, Histogram] = defaultdict(Histogram)
        powers: defaultdict[Source, Counter[int]] = defaultdict(Counter)
        for _ in range(executed * blocks_per_call):
            source: Source = "page_cache" if rng.random() < cached else "device"
            mean = CACHED_NS if source == "page_cache" else slower * DEVICE_NS
            ns = round(level * mean * (0.2 + rng.expovariate(1) * 0.8))
            sums[source].add(ns)
            powers[source][max(3, ns.bit_length() - 1)] += 1
        for source, found in sums.items():
            whole[source] += found
        of = Heaviest(
            "read", 0, 0, 0, query_id=query_id, kind="heap", tablespace=tablespace,
            relation=relation,
        )  # fmt: skip
        intervals.append(_interval(float(second), sums, powers, pattern, of))
    io = [
        Io(
            source, pattern, "1", "query", found.count * BLOCK, found.count, 0, found.to_data(),
            tablespace=tablespace, relation=relation, kind="heap",
        )
        for source, found in sorted(whole.items())
    ]  # fmt: skip
    query = Query(text, "extended", number, 0, None, io, query_id=query_id)
    usual: dict[str, Any] = {"duration_s": float(seconds), "intervals": intervals}
    return some_capture(some_backend(io=io, queries=[query]), **(usual | fields))


def _interval(
    second: float,
    sums: dict[Source, Histogram],
    powers: dict[Source, Counter[int]],
    pattern: Pattern,
    of: Heaviest,
) -> Interval:
    ordered = sorted(sums.items())
    of.count, of.total_ns = (
        sum(getattr(h, name) for h in sums.values()) for name in ("count", "total_ns")
    )
    of.bytes = of.count * BLOCK
    device = sums.get("device", Histogram())
    of.device_count, of.device_ns = device.count, device.total_ns
    return Interval(
        second,
        [
            Cost(of.tablespace, pattern, s, "1", h.count, h.total_ns, h.count)
            for s, h in ordered
        ],
        1.0,
        [
            IntervalIo(
                "read", s, h.count, h.count * BLOCK, h.total_ns, dict(sorted(powers[s].items()))
            )
            for s, h in ordered
        ],
        [of],
    )  # fmt: skip


def at_once(*several: Capture) -> Capture:
    """What these did, in one capture: each its own backend."""
    first, *others = several
    for other in others:
        for into, each in zip(first.intervals, other.intervals, strict=True):
            into.costs += each.costs
            into.heaviest += each.heaviest
            into.io = _added([*into.io, *each.io])
        first.backends += other.backends
    for number, backend in enumerate(first.backends):
        backend.pid += number
    return first.add_up()


def _added(several: list[IntervalIo]) -> list[IntervalIo]:
    found: dict[tuple[str, str], IntervalIo] = {}
    for each in several:
        of = found.setdefault(
            (each.operation, each.source), IntervalIo(each.operation, each.source, 0, 0, 0)
        )
        of.count += each.count
        of.bytes += each.bytes
        of.total_ns += each.total_ns
        of.powers = dict(sorted((Counter(of.powers) + Counter(each.powers)).items()))
    return [*found.values()]
