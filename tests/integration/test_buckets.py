"""The kernel's histogram is that of the very durations it was made of."""

from collections.abc import Callable
from pathlib import Path

import pytest

from fix_reader import Reader
from pgtrace import trace
from pgtrace.engines import ProbeType
from pgtrace.lab.core.page_cache import evict
from pgtrace.lab.core.private_cluster import PrivateCluster
from pgtrace.model.capture import Io
from pgtrace.model.histogram import Histogram
from pgtrace.tracing.tracer import Tracer
from scans import anything_lost, histogram, new_backend, only, prepare

pytestmark = pytest.mark.vm

READS = 40_000
"""Fewer than fit in the ring of durations, which nobody empties meanwhile."""


def compare(tracer: Tracer, reads: list[Io]) -> Histogram:
    """Hold the kernel's histogram of all keys against its durations; return the latter's."""
    durations = tracer.durations()
    of_durations = Histogram()
    for ns in durations:
        of_durations.add(ns)
    of_kernel = histogram(reads)
    assert of_kernel.counts == of_durations.counts
    assert of_kernel == of_durations, "the sum, the least or the greatest"
    assert not anything_lost(tracer.capture()), tracer.capture().lost
    return of_durations


@pytest.mark.parametrize("order", [(), ("--random", 5)], ids=["in_order", "random"])
def test_durations_bucketed_in_user_space_are_the_kernels_histogram(
    reader: Callable[..., Reader], data_file: Path, way: ProbeType, order: tuple[object, ...]
) -> None:
    """Bucket by bucket, over reads from the device and from the page cache, of all keys."""
    evict([data_file])
    one = reader(data_file, "--count", READS, *order)
    with trace(one.pid, any_process=True, probe_type=way, emit_durations=True) as tracer:
        one.go()
        emitted = compare(tracer, only(tracer.capture()).io)
    assert emitted.count == READS
    assert len(emitted.counts) > 20, emitted.counts
    assert len(only(tracer.capture()).io) >= 3
    # What is left after the end is the same
    assert histogram(only(tracer.capture()).io) == emitted


@pytest.mark.pg("15")
def test_so_are_those_of_queries(cluster: PrivateCluster, way: ProbeType) -> None:
    """The reads of many queries, whose slots are read, emptied and given back in between, and
    those outside of queries: each query has its own, and the backend all."""
    with new_backend(cluster) as backend:
        query = prepare(cluster, backend, "sequential", "cold")
        pid = backend.info.backend_pid
        with trace(pid, probe_type=way, literals=True, emit_durations=True) as tracer:
            for i in range(8):
                backend.execute(f"select count(*), {i} from ({query}) as t")
            emitted = compare(tracer, only(tracer.capture()).io)
    assert emitted.count > 8000
    reads, queries = only(tracer.capture()).io, only(tracer.capture()).queries
    assert len(queries) == 8
    of_queries = sum((histogram(q.io) for q in queries), Histogram())
    outside = histogram([r for r in reads if r.scope == "outside"])
    assert of_queries + outside == histogram(reads) == emitted
