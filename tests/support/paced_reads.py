"""A client that reads at random and at its pace, and captures of it that differ in one thing."""

import os
import time
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from random import Random

from fix_cluster import Connection
from pgtrace import trace
from pgtrace.lab.core import benchmark_table
from pgtrace.lab.core.page_cache import relation_files
from pgtrace.lab.core.private_cluster import PrivateCluster
from pgtrace.model.capture import Capture

QUERY = f"select count(info) from {benchmark_table.TABLE} where id between %s and %s"
WIDTH = benchmark_table.HIGHEST_ID // 200_000 * 5
"""Of ids: about five rows, each in a block of its own."""


@dataclass(frozen=True)
class Load:
    """What differs from one capture to another."""

    seconds: float
    calls_per_s: float = 20.0
    cached: float = 0.0
    """Share of the heap's blocks that the page cache holds."""
    rows: int = 1
    """Times as many in a call."""


def captured(cluster: PrivateCluster, load: Load, seed: object) -> Capture:
    """Read so for a while, everything else evicted before each call."""
    rng = Random(f"{seed}")
    with ExitStack() as stack:
        backend = stack.enter_context(cluster.connect(options=benchmark_table.INDEX_FIRST))
        heap = _heap(cluster, backend)
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


def _heap(cluster: PrivateCluster, connection: Connection) -> Path:
    return relation_files(cluster.datadir, connection, benchmark_table.TABLE)[0]


def _call(connection: Connection, rng: Random, load: Load) -> None:
    width = WIDTH * load.rows
    low = rng.randrange(benchmark_table.HIGHEST_ID - width)
    connection.execute(QUERY, (low, low + width), prepare=True)
