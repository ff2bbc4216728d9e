"""The benchmark's two scans under a tracer, and what a capture says of them."""

import re
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from fix_cluster import (
    INDEX_SCAN,
    SEQUENTIAL,
    Buffers,
    Connection,
    explain_buffers,
    make_cold,
)
from pgtrace import trace
from pgtrace.engines import ProbeType
from pgtrace.lab.core import benchmark_table
from pgtrace.lab.core.page_cache import relation_files
from pgtrace.lab.core.private_cluster import PrivateCluster
from pgtrace.model.capture import Backend, Capture, Io, Lost, Query
from pgtrace.model.histogram import Histogram

BLOCK = 8192
MAY_EXCEED = 16
"""Reads of catalogs beside those that EXPLAIN counts."""
ATTEMPTS = 5
"""A host may reclaim page cache at any moment, as it likes: what was warm may need another try."""
SCANS = {"sequential": SEQUENTIAL, "index": INDEX_SCAN}


@contextmanager
def new_backend(cluster: PrivateCluster) -> Iterator[Connection]:
    """The first backend of a server with empty shared buffers."""
    cluster.restart()
    with cluster.connect() as connection:
        yield connection


def prepare(cluster: PrivateCluster, connection: Connection, scan: str, state: str) -> str:
    """Have the session plan the query, and its relation's files be cold, or warm. The query."""
    if scan == "index":
        connection.execute("set enable_seqscan = off")
        connection.execute("set enable_bitmapscan = off")
    connection.execute(f"explain {SCANS[scan]}")
    make_cold(cluster, connection)
    if state == "warm":
        for file in relation_files(cluster.datadir, connection, benchmark_table.TABLE):
            file.read_bytes()
    return SCANS[scan]


def explain_traced(
    connection: Connection, query: str, way: ProbeType
) -> tuple[Buffers, Query, Capture]:
    """What EXPLAIN says of the query, and what pgtrace does of that EXPLAIN."""
    with trace(connection.info.backend_pid, probe_type=way, literals=True) as tracer:
        buffers = explain_buffers(connection, query)
    capture = tracer.capture()
    assert capture.probes.type == way, capture.probes
    assert not anything_lost(capture), capture.lost
    return buffers, the_query(capture, query), capture


def accounted(pid: int) -> int:
    """The bytes that this process ever had its devices read, as the kernel counts them."""
    found = re.search(r"^read_bytes: (\d+)$", Path(f"/proc/{pid}/io").read_text(), re.MULTILINE)
    assert found
    return int(found[1])


def only(capture: Capture) -> Backend:
    """The one backend of the capture."""
    (backend,) = capture.backends
    return backend


def the_query(capture: Capture, end_of_text: str) -> Query:
    """The one record of the one query that ends so."""
    queries = only(capture).queries
    found = [q for q in queries if q.text and q.text.endswith(end_of_text)]
    counts = [(q.calls, q.errors, q.unfinished) for q in found]
    assert counts == [(1, 0, False)], f"{counts} for {end_of_text} in {queries}"
    return found[0]


def count(reads: list[Io]) -> int:
    """How many reads these are."""
    return sum(one.count for one in reads)


def device_bytes(reads: list[Io]) -> int:
    """How many bytes of the device these reads asked for."""
    return sum(one.device_bytes for one in reads)


def patterns(reads: list[Io]) -> Counter[str]:
    """How many reads there were of each pattern."""
    found: Counter[str] = Counter()
    for one in reads:
        found[one.pattern] += one.count
    return found


def by_source(reads: list[Io]) -> Counter[str]:
    """How many reads each source served."""
    found: Counter[str] = Counter()
    for one in reads:
        found[one.source] += one.count
    return found


def histogram(reads: list[Io]) -> Histogram:
    """All of these reads in one histogram."""
    return Histogram.of(reads)


def anything_lost(capture: Capture) -> bool:
    """Whether anything happened that no number counts."""
    return capture.lost != Lost(in_flight=dict.fromkeys(capture.probes.operations, 0))


@contextmanager
def scanning(cluster: PrivateCluster) -> Iterator[None]:
    """Somebody scans a table that is not cached, over and over."""
    over = threading.Event()

    def work() -> None:
        with cluster.connect() as connection:
            while not over.is_set():
                make_cold(cluster, connection)
                connection.execute(SEQUENTIAL)
                time.sleep(0.1)

    thread = threading.Thread(target=work)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
