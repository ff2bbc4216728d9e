"""A capture of any size, written in pieces: what made it needs no more memory than one backend."""

import random
import re
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

import msgspec

from pgtrace.model import encoding
from pgtrace.model.buckets import plain
from pgtrace.model.capture import (
    Backend,
    Capture,
    Host,
    Io,
    Lost,
    Pattern,
    Probes,
    Query,
    Server,
    Size,
    Source,
    Total,
    sums_of,
)
from pgtrace.model.histogram import Histogram

STATEMENTS = 400
READS = 30
QUERIES = 24
READS_OF_A_QUERY = 3
_BUCKETS = 16
"""Of one histogram, about."""


def write(path: Path, size: int) -> None:
    """Write a capture of at least `size` bytes, as pgtrace would; the same for the same size."""
    drawn, totals, written = random.Random(size), Total(), 0
    with tempfile.TemporaryFile(dir=path.parent) as backends, path.open("wb") as file:
        for number, backend in enumerate(_backends(drawn)):
            _add(totals, sums_of([backend])["read"])
            text = _formatted(_members(backend)).replace(b"\n", b"\n    ")
            written += backends.write((b"," if number else b"") + b"\n    " + text)
            if written >= size:
                break
        whole = Capture("2026-01-31T12:00:00.000000Z", 600.0, Host("6.1.0", 8),
                        Server("15.18", 1, "/data"), Probes("libbpf", "fentry", "usdt"),
                        Lost(), {"read": totals}, [])  # fmt: skip
        before, name, after = encoding.encode(whole).partition(b'"backends": [')
        file.write(before + name)
        backends.seek(0)
        shutil.copyfileobj(backends, file)
        file.write(b"\n  " + after)


def _members(value: Any) -> dict[str, Any]:
    members: dict[str, Any] = msgspec.to_builtins(value, enc_hook=plain)
    return members


def _formatted(value: Any) -> bytes:
    text = msgspec.json.format(msgspec.json.encode(value), indent=2)
    return re.sub(rb"\[\n\s+(\d+),\n\s+(\d+),\n\s+(\d+)\n\s+\]", rb"[\1, \2, \3]", text)


def _add(totals: Total, more: Total) -> None:
    for name in totals.__struct_fields__:
        setattr(totals, name, getattr(totals, name) + getattr(more, name))


def _backends(drawn: random.Random) -> Iterator[Backend]:
    pid = 1000
    while True:
        pid += 1
        yield Backend(
            pid,
            "client backend",
            f"app{pid % 3}",
            f"user{pid % 7}",
            "web",
            io=[_reads(drawn, number) for number in range(READS)],
            queries=[_query(drawn, drawn.randrange(STATEMENTS)) for _ in range(QUERIES)],
        )


def _query(drawn: random.Random, number: int) -> Query:
    latency = _histogram(drawn)
    return Query(
        f"select a, b, c from orders as o join lines_{number} as l using (id) where o.day = $1",
        "extended",
        latency.count,
        0,
        latency.to_data(),
        [_reads(drawn, each) for each in range(READS_OF_A_QUERY)],
        query_id=number * 7919 - 10**6,
        text_hash=f"{number:016x}",
        application_name="web",
    )


def _reads(drawn: random.Random, number: int) -> Io:
    source = get_args(Source)[number % 4]
    latency = _histogram(drawn)
    return Io(
        source,
        get_args(Pattern)[number % 3],
        get_args(Size)[number % 4],
        "query" if number % 5 else "outside",
        latency.count * 8192,
        latency.count,
        latency.count * 8192 if source == "device" else 0,
        latency.to_data(),
        kind="heap",
        tablespace="pg_default",
        relation=f"public.table_{drawn.randrange(300)}",
    )


def _histogram(drawn: random.Random) -> Histogram:
    histogram, middle = Histogram(), drawn.choice((2_000, 9_000, 80_000, 400_000))
    for _ in range(_BUCKETS):
        histogram.add(int(middle * drawn.lognormvariate(0, 0.7)), drawn.randrange(1, 3000))
    return histogram
