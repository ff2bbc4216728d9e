"""Captures made up for tests: of the reads of a sequential scan, unless told otherwise."""

from collections.abc import Iterable
from typing import Any

from pgtrace.model.capture import (
    Backend,
    Capture,
    Host,
    Io,
    Lost,
    Probes,
    Query,
    Server,
)
from pgtrace.model.histogram import Histogram


def some_reads(latencies: Iterable[tuple[int, int]], **fields: Any) -> Io:
    """Reads of one 8 KiB block each, from (ns, how many)."""
    histogram = Histogram()
    for ns, count in latencies:
        histogram.add(ns, count)
    count = histogram.count
    usual: dict[str, Any] = {
        "source": "page_cache",
        "pattern": "sequential",
        "size": "1",
        "scope": "query",
        "bytes": count * 8192,
        "blocks": count,
        "device_bytes": 0,
        "latency": histogram.to_data(),
    }
    return Io(**(usual | fields))


CACHED = some_reads([(6_000, 109), (9_400, 86_181), (23_000, 2_045)])
ISSUED = some_reads([(40_000, 90)], source="readahead_issued", device_bytes=11_796_480)
DEVICE = some_reads([(78_500, 4_948), (87_000, 955)], source="device", device_bytes=761_921_536)
WAITED = some_reads(
    [(200_000, 72), (300_000, 7), (600_000, 9), (1_500_000, 1), (2_300_000, 1)], source="wait"
)


def some_histogram(latencies: Iterable[tuple[int, int]]) -> Histogram:
    histogram = Histogram()
    for ns, count in latencies:
        histogram.add(ns, count)
    return histogram


def some_query(**fields: Any) -> Query:
    calls = some_histogram([(10**9, 2), (2 * 10**9, 1)])
    usual: dict[str, Any] = {
        "text": "select $1",
        "protocol": "extended",
        "calls": 3,
        "errors": 1,
        "latency": calls.to_data(),
        "io": [CACHED],
    }
    return Query(**(usual | fields))


def some_backend(**fields: Any) -> Backend:
    usual: dict[str, Any] = {
        "pid": 5167,
        "backend_type": "client backend",
        "datname": "digoal",
        "usename": "postgres",
        "application_name": "psql",
        "io": [CACHED, DEVICE, some_reads([(4_000, 51)], scope="outside")],
        "queries": [some_query()],
    }
    return Backend(**(usual | fields))


def some_capture(*backends: Backend, **fields: Any) -> Capture:
    usual: dict[str, Any] = {
        "started": "2026-01-31T12:00:00.000000Z",
        "duration_s": 10.0,
        "host": Host("6.1.0", 2),
        "server": Server("15.18", 1, "/data"),
        "probes": Probes("libbpf", "fentry", "usdt"),
        "lost": Lost(),
        "totals": {},
        "backends": list(backends),
    }
    return Capture(**(usual | fields)).add_up()


HOSTILE = "</script></style>--><img src=x onerror=alert(1)>\"'&amp;\x00\x1b[2J\u2028\u202e\ud800]]>"
HOSTILE_SHOWN = (
    "</script></style>--><img src=x onerror=alert(1)>\"'&amp;\\x00\\x1b[2J\\u2028\\u202e\\ud800]]>"
)
"""The same as reports have it."""
