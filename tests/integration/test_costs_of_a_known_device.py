"""Page costs on a simulated device, against what its own log of requests implies."""

import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from math import ceil, inf

import pytest

from copied_cluster import CopiedCluster
from fix_cluster import INDEX_SCAN, SEQUENTIAL, SETTINGS, bindir, make_cold
from fix_markers import PG_VERSION
from fix_storage import Request, Simulated, SimulatedSsd
from pgtrace import trace
from pgtrace.lab.core import benchmark_table
from pgtrace.lab.core.private_cluster import PrivateCluster
from pgtrace.model.capture import Pattern
from pgtrace.stats.page_costs import Cell, PatternCosts, costs
from pgtrace.tracing import timeline
from scans import ATTEMPTS

pytestmark = [pytest.mark.alone, pytest.mark.usefixtures("awake_cpus")]  # they compare times

TOLERANCE = 0.15
BLOCK = 8192
LONG_S = 8.0


@dataclass
class Stage:
    """A server on the device, whose scans always read."""

    device: SimulatedSsd
    cluster: PrivateCluster


@pytest.fixture(scope="module")
def stage(simulated: Simulated) -> Iterator[Stage]:
    device = simulated(latency_us=2000)
    settings = SETTINGS | {"shared_buffers": "1MB"}
    where = {"bindir": bindir(PG_VERSION), "directory": device.directory}
    with CopiedCluster(settings, table=True, **where) as cluster:
        yield Stage(device, cluster)


def scans(stage: Stage, query: str) -> tuple[PatternCosts, list[Request]]:
    """Run it again and again with nothing cached: what blocks cost, and the device's requests."""
    mark = len(stage.device.requests())
    with (
        stage.cluster.connect(options=benchmark_table.INDEX_FIRST) as backend,
        stage.cluster.connect() as helper,
        trace(backend.info.backend_pid) as tracer,
    ):
        end = time.monotonic() + LONG_S
        while time.monotonic() < end:
            make_cold(stage.cluster, helper)
            backend.execute(query).fetchall()
    pattern: Pattern = "sequential" if query == SEQUENTIAL else "random"
    return costs(tracer.capture())[0].patterns[pattern], stage.device.reads_since(mark)


def implied_ns(requests: list[Request]) -> float:
    """The time of a block: a read of one waits for all requests that it takes, one by one. Most
    have the same length; longer ones bring also what nobody waits for yet.
    """
    ((usual, _),) = Counter(r.length for r in requests).most_common(1)
    return ceil(BLOCK / usual) * sum(r.duration_ns for r in requests) / len(requests)


def off(cell: Cell, implied: float) -> float:
    """By what share; infinite if the session was too unsteady to tell."""
    return abs(cell.cost.value / implied - 1) if cell.cost.value else inf


@pytest.mark.pg("15")
@pytest.mark.parametrize(
    ("query", "read_ahead_kib"),
    [(SEQUENTIAL, 0), (INDEX_SCAN, 0), (INDEX_SCAN, 128)],
    ids=["in order", "by index", "by index, with read-ahead"],
)
def test_a_block_costs_what_its_requests_took(
    stage: Stage, query: str, read_ahead_kib: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without read-ahead a block is two requests, in whatever order blocks are read. With it, a
    sequential scan goes on while the device reads: the log implies no time of a block.
    """
    monkeypatch.setattr(timeline, "LENGTH_S", 0.2)  # enough of them in a short time
    stage.device.read_ahead(read_ahead_kib)
    tried = []
    for _ in range(ATTEMPTS):
        stage.cluster.restart()  # files keep the read-ahead with which they were opened
        found, requests = scans(stage, query)
        tried.append(off(found.by_source["device"], implied_ns(requests)))
        if tried[-1] <= TOLERANCE:
            return
    pytest.fail(f"shares by which it was off: {tried}")
