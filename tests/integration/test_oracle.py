"""The same work seen by others at once: by bpftrace, and by PostgreSQL's own clock."""

import json
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from bpf_left import raised
from child import Child, wait_for
from pgtrace import trace
from pgtrace.lab.core.private_cluster import PrivateCluster
from scans import ATTEMPTS, SCANS, count, explain_traced, histogram, new_backend, prepare, the_query

SCRIPT = Path(__file__).parents[1] / "oracles" / "seed_query_reads.bt"
PERCENTILES = (50, 90, 99)

pytestmark = [pytest.mark.pg("15"), pytest.mark.alone]  # they compare times


class Oracle(Child):
    """bpftrace with the script, attached to one backend."""

    def __init__(self, binary: Path, pid: int, directory: Path) -> None:
        script = directory / "oracle.bt"
        script.write_text(SCRIPT.read_text().replace("POSTGRES", str(binary)))
        super().__init__("bpftrace", "-f", "json", script, pid)
        try:
            # It says so before it attaches; the first and the last of the script are of USDT
            wait_for(lambda: {"query__start", "query__done"} <= raised(pid).keys() or self.code)
            assert self.code is None, f"bpftrace ended: {self.out}"
        except BaseException:
            self.kill()
            raise

    def first(self, kind: str) -> Any:
        """The first of what it printed of this kind, once it is there."""
        self.wait_for(rf'"type":\s*"{kind}"')
        printed = map(json.loads, filter(None, self.out.split("\n")[:-1]))
        return next(each["data"] for each in printed if each["type"] == kind)


def log2_of_rank(buckets: Iterable[tuple[int, int]], percentile: int) -> int:
    """The n of the bucket [2^n, 2^(n+1)) in which that percentile lies: buckets of (low, count)."""
    ordered = sorted(buckets)
    rank, seen = sum(n for _, n in ordered) * percentile / 100, 0
    for low, n in ordered:
        seen += n
        if seen >= rank:
            return low.bit_length() - 1
    raise AssertionError(f"no values: {ordered}")


@pytest.mark.parametrize("scan", SCANS)
def test_bpftrace_counts_the_same_reads_of_a_query(
    cluster: PrivateCluster, tmp_path: Path, scan: str
) -> None:
    """The same work watched at once by the published script in bpftrace: the same count, and
    p50, p90, p99 at most one log2 bucket apart."""
    with new_backend(cluster) as backend, cluster.connect() as gate, ThreadPoolExecutor(1) as pool:
        text = f"select pg_advisory_lock(2); {prepare(cluster, backend, scan, 'cold')}"
        pid = backend.info.backend_pid
        with Oracle(cluster.binary, pid, tmp_path) as oracle, trace(pid, literals=True) as tracer:
            # bpftrace clears its map some time after the query began: no read before that
            gate.execute("select pg_advisory_lock(2)")
            running = pool.submit(backend.execute, text)
            try:
                oracle.first("printf")
            finally:
                gate.execute("select pg_advisory_unlock(2)")
            running.result()
            printed = oracle.first("hist")
    ours = the_query(tracer.capture(), text).io
    theirs = [(bucket["min"], bucket["count"]) for bucket in printed["@ns"]]
    folded = [(low, n) for low, _, n in histogram(ours).fold()]
    assert count(ours) > 1000
    assert count(ours) == sum(n for _, n in theirs)
    for p in PERCENTILES:
        apart = log2_of_rank(folded, p) - log2_of_rank(theirs, p)
        assert abs(apart) <= 1, f"p{p}: {apart} buckets apart, ours {folded}, theirs {theirs}"


def test_reads_take_the_time_that_track_io_timing_says(cluster: PrivateCluster) -> None:
    """On the cold index scan: at most EXPLAIN's I/O Timings, and at least 80 % of it.

    PostgreSQL's own clock also counts the time in which another process had the CPU between a
    read's end and that clock: on a busy machine the best of some attempts is meant.
    """
    shares: list[float] = []
    while max(shares, default=0) < 0.8 and len(shares) < ATTEMPTS:
        with new_backend(cluster) as backend:
            query = prepare(cluster, backend, "index", "cold")
            buffers, traced, _ = explain_traced(backend, query, "tracepoint")
        shares.append(sum(reads.total_ns for reads in traced.io) / 1e6 / buffers.io_ms)
    assert max(shares) <= 1, shares
    assert max(shares) >= 0.8, shares
