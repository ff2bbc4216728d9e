"""What a sequential and a random page read really cost, on each storage.

Each run measures both queries on every storage once, in an order that is drawn
anew: what drifts with time, such as a busy neighbour, hits all alike. Before each measurement the
server is restarted, and the table's files are evicted from the page cache, or, where the storage
is memory, brought into it; both are proven.
"""

from ...model.lab_result import Pattern, QueryCell
from ..core import benchmark_table
from ..core.interruption import Interruption
from ..core.laboratory import Laboratory, Setup
from ..core.progress import Progress
from ..core.random_order import in_random_order
from ..core.runner import Query
from ..planner.result import Picked, PlanCell, SweepOptions
from ..planner.sweep import Sweep
from .result import PagesResult


def queries(rows: int, run: int | None = None) -> dict[Pattern, Query]:
    """Both, by the pattern in which they read; where what an earlier run read may be in
    shared buffers still, rows that are this run's own.
    """
    by_index = benchmark_table.index_scan(rows, run)
    return {
        "sequential": Query(benchmark_table.SEQUENTIAL),
        "random": Query(by_index, benchmark_table.INDEX_FIRST),
    }


def measure(setup: Setup, runs: int, progress: Progress, interruption: Interruption) -> PagesResult:
    """Do it, and the planner's sweep where the setup has rows for it.

    Raises what in_random_order() does.
    """
    shown = queries(setup.rows, None if setup.dsn is None else 1)
    options = SweepOptions(queries={pattern: query.text for pattern, query in shown.items()})
    measured = [(place.name, pattern) for place in setup.places for pattern in shown]
    picked: list[Picked] = []
    plans: list[PlanCell] = []

    def sweep(lab: Laboratory, seed: int) -> None:
        planned = Sweep(lab, setup.planner_rows, runs, seed)
        picked.extend(planned.prepare())
        options.points = planned.points
        for cell in planned.cells():
            plans.append(cell)  # one by one: those before an interruption are kept

    result = in_random_order(
        PagesResult, setup, measured, _cell, runs=runs, options=options,
        progress=progress, interruption=interruption, then=sweep if setup.planner_rows else None,
    )  # fmt: skip
    result.findings += picked
    result.plans = plans
    return result


def _cell(lab: Laboratory, run: int, measured: tuple[str, Pattern]) -> QueryCell:
    storage, pattern = measured
    lab.progress.step(f"run {run}, {storage}, {pattern}")
    state = lab.state_of(storage)
    query = queries(lab.setup.rows, None if lab.server.restarts else run)[pattern]
    cell = QueryCell(storage, run, 0, pattern=pattern, state=state)
    return lab.runner.run(lab.tables[storage], query, state, cell)
