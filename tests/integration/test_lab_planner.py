"""`pgtrace lab pages --planner` on a simulated SSD: the range of random_page_cost that it finds is
the one that the device's own log implies.
"""

import itertools
import os
import pwd
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import msgspec
import pytest

from fix_awake import timed
from fix_cluster import bindir
from fix_markers import PG_VERSION
from fix_storage import Request, Simulated, SimulatedSsd
from pgtrace.lab import result_file
from pgtrace.lab.core.interruption import Interruption
from pgtrace.lab.core.laboratory import Laboratory, Setup, laboratory
from pgtrace.lab.core.progress import Progress
from pgtrace.lab.core.storages import Place
from pgtrace.lab.pages.result import PagesResult
from pgtrace.lab.planner import findings as planner_findings
from pgtrace.lab.planner.points import SELECTIVITIES, Circumstance
from pgtrace.lab.planner.regret import Timed, best_range
from pgtrace.lab.planner.result import PlanCell, SweepOptions
from pgtrace.lab.planner.sweep import Sweep
from pgtrace.lab.planner.table import hold
from pgtrace.model.lab_result import Finding
from pgtrace_command import Pgtrace, run

pytestmark = pytest.mark.pg("15")

ROWS = 18_000
PAGES = 1_000
RUNS = 3
LATENCY_US = 500
PARTLY = Circumstance(column="ordered", cached=0.5, clients=2)


def usable(directory: Path) -> Path:
    """A new directory there that the server's user may write to."""
    own = Path(tempfile.mkdtemp(prefix="lab-", dir=directory))
    user = pwd.getpwnam("postgres")
    os.chown(own, user.pw_uid, user.pw_gid)
    return own


@contextmanager
def opened(*places: Place) -> Iterator[Laboratory]:
    interruption = Interruption()
    setup = Setup(places, rows=1000, bindir=bindir(PG_VERSION))
    try:
        with laboratory(setup, Progress(quiet=True), interruption) as lab:
            yield lab
    finally:
        interruption.restore()


@dataclass
class Swept:
    result: PagesResult
    requests: dict[int, list[Request]]
    """The device's reads during each cell, by the cell's index."""


@pytest.fixture(scope="module")
def ssd(simulated: Simulated) -> SimulatedSsd:
    return simulated(latency_us=LATENCY_US)


@pytest.fixture(scope="module")
def swept(ssd: SimulatedSsd) -> Swept:
    """A column without order, cold, one client; and few points of another circumstance."""
    plans: list[PlanCell] = []
    requests = {}
    with opened(Place("ssd", usable(ssd.directory))) as lab:
        sweep = Sweep(lab, ROWS, RUNS, seed=1, circumstances=(Circumstance(),))
        asked = sweep.prepare()
        for cell in sweep.cells():
            assert cell.began_s is not None
            began = lab.started.timestamp() + cell.began_s
            requests[len(plans)] = ssd.reads_between(began - 0.005, time.time())
            plans.append(cell)
        options = SweepOptions(points=sweep.points)
        result = lab.result(PagesResult, [], options, partial=False)
    result.plans = plans
    result.findings = [*asked]
    result.findings += planner_findings.findings(result)
    return Swept(result, requests)


def named(result: PagesResult, name: str) -> list[Finding]:
    return [finding for finding in result.findings if finding.name == name]


def busy_s(requests: list[Request]) -> float:
    """How long the device had something to do."""
    total = end = 0
    for request in sorted(requests):
        over = request.start_ns + request.duration_ns
        total += max(0, over - max(end, request.start_ns))
        end = max(end, over)
    return total / 1e9


@timed
def test_every_point_is_timed_by_every_plan(swept: Swept) -> None:
    for number, point in itertools.product(range(1, RUNS + 1), range(len(SELECTIVITIES))):
        cells = [c for c in swept.result.plans if (c.run, c.point) == (number, point)]
        plans = [cell.plan for cell in cells]
        assert len(set(plans)) == len(plans)
        assert "sequential" in plans
        assert all(cell.resident_before == 0 for cell in cells)
    order = [(c.point, c.plan) for c in swept.result.plans if c.run == 1]
    assert order != [(c.point, c.plan) for c in swept.result.plans if c.run == 2]


@timed
def test_nothing_is_left_in_shared_buffers(swept: Swept) -> None:
    scans = [cell for cell in swept.result.plans if cell.plan == "sequential"]
    assert {cell.shared_reads for cell in scans} == {PAGES}
    assert {cell.shared_hits for cell in scans} == {0}


@timed
def test_the_range_holds_what_the_device_s_own_requests_imply(swept: Swept) -> None:
    (asked,) = named(swept.result, "planner")
    implied: dict[tuple[int | None, str | None], list[float]] = {}
    for number, cell in enumerate(swept.result.plans):
        requests = swept.requests[number]
        assert requests
        implied.setdefault((cell.point, cell.plan), []).append(busy_s(requests))
    points = [
        Timed(
            {
                plan: [sum(times) / len(times)] * RUNS
                for plan in ("sequential", "bitmap", "index")
                if (times := implied.get((point, plan), [60.0]))
            },
            asked.details.picked[point],
        )
        for point in range(len(SELECTIVITIES))
    ]
    values = asked.details.values
    best = best_range(points, values)
    (found,) = named(swept.result, "random_page_cost")
    assert found.low is not None and found.high is not None
    # The best of the device's own is one of several that pick the same plans
    assert found.low <= values[best.high]
    assert values[best.low] <= found.high
    assert found.low <= values[best.best] <= found.high
    # A request brings 16 pages in order, or one; the planner takes four times as much for one
    assert found.low > 4


@timed
def test_it_is_said_to_be_simulated_and_there_is_nothing_to_set(swept: Swept) -> None:
    (found,) = named(swept.result, "random_page_cost")
    assert found.verdict.startswith("simulated: ")
    assert found.details.sql is None
    assert "ALTER" not in msgspec.json.encode(swept.result).decode()


@timed
def test_plans_cross_where_the_device_s_requests_do(swept: Swept) -> None:
    (found,) = [
        f
        for f in named(swept.result, "crossing")
        if (f.details.first, f.details.then) == ("index", "sequential")
    ]
    assert found.value is not None
    # There an index scan reads about as many pages as a sequential scan makes requests
    requests = max(
        len(swept.requests[n]) for n, c in enumerate(swept.result.plans) if c.plan == "sequential"
    )
    assert 0.3 * requests < found.value * ROWS < 2 * requests
    assert found.details.believed > found.value


@timed
def test_part_of_a_table_is_cached_and_clients_read_at_once(ssd: SimulatedSsd) -> None:
    with opened(Place("ssd", usable(ssd.directory))) as lab:
        sweep = Sweep(lab, ROWS, 1, seed=1, circumstances=(PARTLY,), selectivities=(0.1,))
        (asked,) = sweep.prepare()
        cells = list(sweep.cells())
        table = sweep.tables["ssd"]
        for state in (0, 1):
            assert hold(table, state, sweep._random) == state
    assert asked.details.correlations["ordered"] == pytest.approx(1)
    assert abs(asked.details.correlations["scattered"]) < 0.1
    assert {cell.plan for cell in cells} == {"sequential", "bitmap", "index"}
    for cell in cells:
        assert cell.resident_before == pytest.approx(0.5, abs=0.25)
    (sequential,) = [cell for cell in cells if cell.plan == "sequential"]
    assert (sequential.shared_hits or 0) + (sequential.shared_reads or 0) == 2 * PAGES
    assert len(table.files) >= 4  # the heap, its maps, and three indexes


def test_the_command_on_memory_says_the_range_and_nothing_to_set(tmp_path: Path) -> None:
    file = tmp_path / "planner.json"
    ended = run("lab", "pages", "--memory", "--planner", "--rows", 20_000, "--runs", 1, "-o", file)
    assert ended.code == 0, ended.err
    result = result_file.load_any(file)
    assert isinstance(result, PagesResult)
    points = result.options.points
    assert {points[cell.point].cached for cell in result.plans} == {1}
    assert {cell.resident_before for cell in result.plans} == {1}
    assert not result.partial
    (found,) = named(result, "random_page_cost")
    assert found.low and found.high and found.details.sql is None
    shown = run("report", file)
    assert "What random_page_cost should be" in shown.out
    assert "ALTER" not in shown.out


def test_a_server_that_is_there_already_is_not_started_again_for_it() -> None:
    ended = run("lab", "pages", "--memory", "--planner", "--dsn", "")
    assert ended.code == 2
    assert "--planner is for a server of its own" in ended.err


def test_an_interrupted_sweep_keeps_what_was_measured_and_decides_nothing(tmp_path: Path) -> None:
    file = tmp_path / "planner.json"
    sizes = "--rows", 20_000, "--runs", 1
    with Pgtrace("-v", "lab", "pages", "--memory", "--planner", *sizes, "-o", file) as started:
        started.wait_for("4 of 24: planner")
        ended = started.stop()
    assert ended.code == 0, ended.err
    result = result_file.load_any(file)
    assert isinstance(result, PagesResult)
    assert result.partial
    assert 3 <= len(result.plans) < 24
    assert {cell.pattern for cell in result.cells} == {"sequential", "random"}
    (found,) = named(result, "random_page_cost")
    assert found.verdict == "not decided: no run of the sweep is whole"
    assert "no run of the sweep is whole" in run("report", file).out
