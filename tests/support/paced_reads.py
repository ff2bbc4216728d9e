"""A client that reads at random and at its pace, and captures of it that differ in one thing."""

import os
import time
from contextlib import ExitStack
from dataclasses import dataclass
from random import Random
from typing import Literal

from copied_cluster import ROWS
from fix_cluster import Connection
from pgtrace import trace
from pgtrace.lab.core import benchmark_table
from pgtrace.lab.core.page_cache import relation_files
from pgtrace.lab.core.private_cluster import PrivateCluster
from pgtrace.model.capture import Capture

SMALL = "few_blocks"
SMALL_ROWS = 10_000
"""Nearly a hundred blocks: all of it can be read in a call, and is not held by shared_buffers."""
FOUND = 5
"""Rows, each in a block of its own, more or less."""
PLANS = {
    "index": benchmark_table.INDEX_FIRST,
    "sequential": "-c enable_indexscan=off -c enable_bitmapscan=off -c enable_indexonlyscan=off",
}


@dataclass(frozen=True)
class Load:
    """What differs from one capture to another."""

    seconds: float
    calls_per_s: float = 20.0
    cached: float = 0.0
    """Share of the heap's blocks that the page cache holds."""
    rows: int = 1
    """Times as many in a call."""
    small: bool = False
    """Of the table with few blocks."""
    plan: Literal["index", "sequential"] = "index"


def captured(cluster: PrivateCluster, load: Load, seed: object) -> Capture:
    """Read so for a while, everything else evicted before each call."""
    rng = Random(f"{seed}")
    with ExitStack() as stack:
        backend = stack.enter_context(cluster.connect(options=PLANS[load.plan]))
        heap = relation_files(cluster.datadir, backend, _table(load))[0]
        file = os.open(heap, os.O_RDONLY)
        stack.callback(os.close, file)
        kept = int(load.cached * os.fstat(file).st_size) // 8192 * 8192
        os.pread(file, kept, 0)
        for _ in range(3):  # its plan, and the catalogs
            _call(backend, rng, load)
        tracer = stack.enter_context(trace(backend.info.backend_pid))
        began = due = time.monotonic()
        while due < began + load.seconds:
            time.sleep(max(0.0, due - time.monotonic()))
            due += 1 / load.calls_per_s
            os.posix_fadvise(file, kept, 0, os.POSIX_FADV_DONTNEED)
            _call(backend, rng, load)
        return tracer.stop()


def make_small(cluster: PrivateCluster) -> None:
    """Beside the benchmark table, some rows of it."""
    with cluster.connect() as connection:
        connection.execute(
            f"create table {SMALL} as select * from {benchmark_table.TABLE} limit {SMALL_ROWS}"
        )
        connection.execute(f"create index on {SMALL} (id)")
        connection.execute(f"vacuum analyze {SMALL}")
        connection.execute("checkpoint")


def _table(load: Load) -> str:
    return SMALL if load.small else benchmark_table.TABLE


def _call(connection: Connection, rng: Random, load: Load) -> None:
    rows = SMALL_ROWS if load.small else ROWS
    width = benchmark_table.HIGHEST_ID // rows * FOUND * load.rows
    low = rng.randrange(benchmark_table.HIGHEST_ID - width)
    query = f"select count(info) from {_table(load)} where id between %s and %s"
    connection.execute(query, (low, low + width), prepare=True)
