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
    **fields: Any,
) -> Capture:
    """One statement that reads at random, each second `calls` times; a share is cached."""
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
        intervals.append(_interval(float(second), sums, powers, tablespace, relation))
    io = [
        Io(
            source, "random", "1", "query", found.count * BLOCK, found.count, 0, found.to_data(),
            tablespace=tablespace, relation=relation, kind="heap",
        )
        for source, found in sorted(whole.items())
    ]  # fmt: skip
    query = Query(text, "extended", number, 0, None, io, query_id=NUMBER)
    usual: dict[str, Any] = {"duration_s": float(seconds), "intervals": intervals}
    return some_capture(some_backend(io=io, queries=[query]), **(usual | fields))


def _interval(
    second: float,
    sums: dict[Source, Histogram],
    powers: dict[Source, Counter[int]],
    tablespace: str,
    relation: str | None,
) -> Interval:
    ordered = sorted(sums.items())
    count, total = sum(h.count for h in sums.values()), sum(h.total_ns for h in sums.values())
    device = sums.get("device", Histogram())
    counts = {source: dict(sorted(counted.items())) for source, counted in powers.items()}
    return Interval(
        second,
        [Cost(tablespace, "random", s, "1", h.count, h.total_ns, h.count) for s, h in ordered],
        1.0,
        [
            IntervalIo("read", s, h.count, h.count * BLOCK, h.total_ns, counts[s])
            for s, h in ordered
        ],
        [
            Heaviest(
                "read", count, count * BLOCK, total, device.count, device.total_ns,
                query_id=NUMBER, kind="heap", tablespace=tablespace, relation=relation,
            )
        ],
    )  # fmt: skip
