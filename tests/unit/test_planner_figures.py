"""The planner's sweep: regret, range and crossing points of devices whose costs are known."""

import re
from collections.abc import Sequence
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pgtrace.lab.pages.result import PagesResult
from pgtrace.lab.planner import findings as planner_findings
from pgtrace.lab.planner import report as planner_report
from pgtrace.lab.planner.points import VALUES, Circumstance, Point
from pgtrace.lab.planner.regret import (
    PLANS,
    TOLERATED,
    Plan,
    Timed,
    best_range,
    crossing,
    excess,
    fastest_time,
    held_out,
    regrets,
)
from pgtrace.lab.planner.result import (
    Crossing,
    CrossingDetails,
    Picked,
    PickedDetails,
    PlanCell,
    Range,
    SweepOptions,
)
from pgtrace.model.capture import Host, Lost, Probes, Server
from pgtrace.model.lab_result import Device, Medium, Storage
from pgtrace.reporters.terminal.chapters import chapters

PAGES = 20_000
SELECTIVITIES = [10 ** (-4 + n / 4) for n in range(15)]


def costs(selectivity: float, random_page_cost: float) -> dict[Plan, float]:
    """A planner for which a bitmap scan reads each page once, and an index scan any page twice."""
    pages = PAGES * selectivity
    return {
        "sequential": PAGES,
        "bitmap": pages * random_page_cost + PAGES / 200,
        "index": 2 * pages * random_page_cost,
    }


def pick(selectivity: float, random_page_cost: float) -> Plan:
    of = costs(selectivity, random_page_cost)
    return min(PLANS, key=lambda plan: of[plan])


def device(
    truth: float, runs: int = 5, noise: float = 0.01, values: Sequence[float] = VALUES
) -> list[Timed]:
    """One on which a random page takes `truth` times as long as a sequential one."""
    rng = Random(f"{truth} {runs} {noise}")
    return [
        Timed(
            {
                plan: [cost * 1e-4 * rng.lognormvariate(0, noise) for _ in range(runs)]
                for plan, cost in costs(selectivity, truth).items()
            },
            [pick(selectivity, value) for value in values],
        )
        for selectivity in SELECTIVITIES
    ]


@given(st.floats(1, 256), st.integers(2, 6))
def test_the_range_holds_the_truth(truth: float, runs: int) -> None:
    values = sorted({*VALUES, truth})
    points = device(truth, runs, 0, values)
    found = best_range(points, values)
    assert values[found.low] <= truth <= values[found.high]
    assert found.low <= found.best <= found.high
    assert found.low <= found.middle <= found.high
    chosen = excess(points, found.middle, found.best)
    assert chosen and chosen.is_in and not chosen.is_out


TIMES = st.floats(1e-4, 1e4)


@st.composite
def anything(draw: st.DrawFn) -> list[Timed]:
    """Points of any times and picks."""
    runs, values = draw(st.integers(2, 4)), draw(st.integers(1, 6))
    series = st.lists(TIMES, min_size=runs, max_size=runs)
    one = st.builds(
        Timed,
        st.fixed_dictionaries(dict.fromkeys(PLANS, series)),
        st.lists(st.sampled_from(PLANS), min_size=values, max_size=values),
    )
    return draw(st.lists(one, min_size=2, max_size=8))


@given(anything())
def test_no_value_is_better_than_the_fastest_plans(points: list[Timed]) -> None:
    whole = fastest_time(points)
    for each in zip(*regrets(points), strict=True):
        assert sum(each) / len(each) >= -1e-9 * whole


@given(anything())
def test_the_range_is_what_is_tolerated_and_its_neighbours_are_not(points: list[Timed]) -> None:
    values = [2.0**n for n in range(len(points[0].picked))]
    found = best_range(points, values)
    means = [sum(each) / len(each) for each in zip(*regrets(points), strict=True)]
    most = min(means) + TOLERATED * fastest_time(points)
    slack = 1e-9 * fastest_time(points)
    assert all(mean <= most + slack for mean in means[found.low : found.high + 1])
    assert found.low == 0 or means[found.low - 1] > most - slack
    assert found.high == len(means) - 1 or means[found.high + 1] > most - slack
    assert means[found.best] == pytest.approx(min(means))
    assert held_out(points, values) is not None


@given(st.floats(1e-4, 0.5), st.floats(0.2, 3), st.floats(-1, 0.1))
def test_straight_lines_cross_where_they_do(at: float, steep: float, flat: float) -> None:
    xs = [1e-5 * 3**n for n in range(11)]
    first = [(x / at) ** steep for x in xs]
    then = [(x / at) ** flat for x in xs]
    assert crossing(xs, first, then) == pytest.approx(at, rel=1e-6)
    assert crossing(xs, then, first) is None


def test_what_is_always_faster_crosses_nothing() -> None:
    assert crossing([0.1, 0.2], [1, 1], [2, 2]) is None
    assert crossing([0.1, 0.2], [2, 2], [1, 1]) is None
    assert crossing([0.1], [1], [1]) is None


def result(
    timed: list[Timed],
    current: float = 4.0,
    *,
    simulated: bool = False,
    medium: Medium = "device",
    partial: bool = False,
) -> PagesResult:
    """As a sweep leaves it."""
    circumstance = Circumstance()
    points = [Point.of(selectivity, circumstance) for selectivity in SELECTIVITIES]
    details = PickedDetails(
        values=list(VALUES),
        current=current,
        picked=[list(point.picked) for point in timed],
        costs=[costs(selectivity, current) for selectivity in SELECTIVITIES],
        correlations={"scattered": 0.01},
    )
    plans = [
        PlanCell("disk", run, seconds, plan=plan, point=number)
        for number, point in enumerate(timed)
        for plan, series in point.times.items()
        for run, seconds in enumerate(series, 1)
    ]
    return PagesResult(
        partial=partial,
        started="2026-11-21T12:00:00.000000Z",
        duration_s=1.0,
        host=Host("6.1", 2),
        server=Server("15.0", 1, "/data", 8192),
        probes=Probes("libbpf", "fentry", "usdt"),
        lost=Lost(),
        options=SweepOptions(points=points),
        storages=[
            Storage(
                "disk", "/disk", simulated=simulated, medium=medium, device=Device("sd", "ext4")
            )
        ],
        cells=[],
        plans=plans,
        findings=[Picked("asked", "disk", details=details)],
    )


def found_range(of: PagesResult) -> Range:
    found = planner_findings.findings(of)[0]
    assert isinstance(found, Range)
    return found


def crossings(of: PagesResult) -> list[Crossing]:
    return [f for f in planner_findings.findings(of) if isinstance(f, Crossing)]


def test_what_to_set_is_said_for_a_real_device() -> None:
    found = found_range(result(device(20)))
    assert found.low and found.high and found.value
    assert found.low <= 20 <= found.high
    assert found.verdict.startswith(f"{found.low:g} to {found.high:g}: ")
    sql = f"ALTER TABLESPACE … SET (random_page_cost = {found.value:g});"
    assert found.details.sql == sql


def test_a_good_value_is_kept() -> None:
    found = found_range(result(device(20), current=20.0))
    assert found.verdict.startswith("keep 20: ")
    assert found.details.sql is None


@pytest.mark.parametrize(
    ("simulated", "medium", "words"),
    [
        (True, "device", "no setting follows from a simulation"),
        (False, "tmpfs", "memory is no storage"),
        (False, "memory", "memory is no storage"),
    ],
)
def test_what_is_not_real_gets_its_range_and_no_sql(
    simulated: bool, medium: Medium, words: str
) -> None:
    of = result(device(20), simulated=simulated, medium=medium)
    found = found_range(of)
    assert found.low and found.low <= 20 <= (found.high or 0)
    assert words in found.verdict
    assert found.details.sql is None
    of.findings += planner_findings.findings(of)
    text = "\n".join(chapters(planner_report.sections(of), 80))
    assert "ALTER" not in text
    assert ("disk (simulated):" in text) == simulated


def test_noise_is_not_taken_for_a_reason() -> None:
    found = found_range(result(device(20, runs=3, noise=1.0)))
    assert found.verdict.startswith("not decided: ")
    assert found.details.sql is None


def test_one_run_decides_nothing() -> None:
    found = found_range(result(device(20, runs=1)))
    assert found.verdict.startswith("not decided: ")
    assert "one run" in found.verdict


def test_noise_changes_nothing_that_is_good() -> None:
    """Of settings that are good, at most 1 of 40 is to be changed: the tail of the interval."""
    changed = 0
    for seed in range(200):
        points = device(20 + seed / 1000, runs=4, noise=0.3)
        changed += found_range(result(points, current=20.0)).details.sql is not None
    assert changed <= 5


def test_crossing_points_are_those_of_the_device_and_the_planner_s_its_own() -> None:
    found = crossings(result(device(20)))
    by = {(f.details.first, f.details.then): f for f in found}
    index = by["index", "sequential"]
    assert index.value == pytest.approx(1 / 40, rel=0.05)
    assert index.details.believed == pytest.approx(1 / 8, rel=0.05)
    assert index.low and index.high
    assert index.low < 1 / 40 < index.high
    assert "up to 2.5 % of the rows; by the planner, up to 13 %" in index.verdict
    # Where they are, these two cross with the start of a bitmap scan, before all is read
    assert by["index", "bitmap"].value == pytest.approx(100 / (20 * PAGES), rel=0.05)


def test_a_plan_that_was_stopped_takes_at_least_so_long() -> None:
    of = result(device(20))
    last = len(SELECTIVITIES) - 1
    of.plans = [c for c in of.plans if not (c.plan == "index" and c.point == last)]
    for cell in of.plans:
        if cell.plan == "index" and cell.point == last - 1:
            cell.stopped, cell.elapsed_s = True, 8.0
    whole, cut = found_range(result(device(20))), found_range(of)
    assert (cut.low, cut.high, cut.units) == (whole.low, whole.high, 5)
    details = next(f.details for f in crossings(of) if f.details.first == "index")
    assert details.seconds["index"][-2:] == [8.0, 8.0]
    assert details.between["index"][-2:] == [None, None]


def test_each_mean_lies_within_its_interval_which_one_run_does_not_have() -> None:
    def details(runs: int) -> CrossingDetails:
        of = result(device(20, runs=runs, noise=0.3))
        return next(f.details for f in crossings(of) if f.details.first == "index")

    told = details(5)
    for plan, seconds in told.seconds.items():
        for mean, (low, high) in zip(seconds, told.between[plan], strict=True):
            assert low < mean < high
    assert {end for each in details(1).between.values() for end in each} == {None}


def test_a_run_that_was_interrupted_is_left_out() -> None:
    of = result(device(20), partial=True)
    of.plans = [c for c in of.plans if not (c.run == 5 and c.point > 3)]
    assert found_range(of).units == 4
    of.plans = [c for c in of.plans if c.run == 5]
    assert found_range(of).verdict == "not decided: no run of the sweep is whole"


def test_without_a_sweep_there_is_nothing_to_say() -> None:
    of = result(device(20))
    of.findings = []
    assert planner_findings.findings(of) == []
    assert planner_report.sections(of) == []


def test_the_report() -> None:
    of = result(device(20))
    of.findings += planner_findings.findings(of)
    text = "\n".join(chapters(planner_report.sections(of), 80))
    assert "What random_page_cost should be" in text
    assert f"  {of.findings[1].details.sql}\n" in text
    assert "4*" in text
    assert "15 points, 5 runs" in text
    assert re.search(
        r"^  column scattered(?: \(.*?\))?, 0 % cached, effective_io_concurrency 1, 1\n  client$.*?"
        r"^    index and sequential +2.5 % .*?  13 %$",
        text,
        re.MULTILINE | re.DOTALL,
    )
