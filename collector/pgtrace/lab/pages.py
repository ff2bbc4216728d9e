"""Document 002: what a sequential and a random page read really cost, on each storage.

Each run measures both of the document's queries on every storage once, in an order that is drawn
anew: what drifts with time, such as a busy neighbour, hits all alike. Before each measurement the
server is restarted, and the table's files are evicted from the page cache, or, where the storage
is memory, brought into it; both are proven.
"""

from random import Random
from typing import Any

from ..errors import NothingCapturedError
from ..postgres import sample
from .interruption import Interrupted, Interruption
from .laboratory import Laboratory, Setup, laboratory
from .planner_sweep import Sweep
from .progress import Progress
from .result import Cell, Finding, Pattern, Result
from .runs import Query

INDEX_FIRST = "-c enable_seqscan=off -c enable_bitmapscan=off"
_SEEDS = 1 << 32


def queries(rows: int, run: int | None = None) -> dict[Pattern, Query]:
    """The document's, by the pattern in which they read; where what an earlier run read may be in
    shared buffers still, rows that are this run's own.
    """
    by_index = sample.index_scan(rows) if run is None else sample.index_scan_of(rows, run)
    return {
        "sequential": Query(sample.SEQUENTIAL),
        "random": Query(by_index, INDEX_FIRST),
    }


def measure(setup: Setup, runs: int, progress: Progress, interruption: Interruption) -> Result:
    """Do it, and the planner's sweep where the setup has rows for it.

    Raises NothingCapturedError if it was interrupted before one run was whole, and what
    laboratory() does; interrupted later, the result is partial.
    """
    seed = Random().randrange(_SEEDS)
    orders = _orders(setup, runs, seed)
    cells: list[Cell] = []
    asked: list[Finding] = []
    more: dict[str, Any] = {}
    partial = True
    try:
        with laboratory(setup, progress, interruption) as lab:
            progress.plan(sum(map(len, orders)))
            for run, order in enumerate(orders, 1):
                cells += [_cell(lab, run, storage, pattern) for storage, pattern in order]
            if setup.planner_rows:
                sweep = Sweep(lab, setup.planner_rows, runs, seed)
                asked = sweep.prepare()
                more["points"] = [point.as_option() for point in sweep.points]
                for cell in sweep.cells():
                    cells.append(cell)  # one by one: those before an interruption are kept
            partial = False
    except Interrupted:
        if not cells:
            raise NothingCapturedError("interrupted before one run was whole") from None
    finally:
        progress.clear()
    shown = queries(setup.rows, None if lab.server.restarts else 1)
    options = {
        "runs": runs,
        "queries": {pattern: query.text for pattern, query in shown.items()},
        "seed": seed,
        "order": orders,
    }
    result = lab.result("pages", cells, options | more, partial=partial)
    result.findings += asked
    return result


def _orders(setup: Setup, runs: int, seed: int) -> list[list[tuple[str, Pattern]]]:
    """Of each run, which storage is measured by which query when."""
    random = Random(seed)
    measured: list[tuple[str, Pattern]] = [
        (place.name, pattern) for place in setup.places for pattern in queries(setup.rows)
    ]
    return [random.sample(measured, len(measured)) for _ in range(runs)]


def _cell(lab: Laboratory, run: int, storage: str, pattern: Pattern) -> Cell:
    lab.progress.step(f"run {run}, {storage}, {pattern}")
    state = lab.state_of(storage)
    query = queries(lab.setup.rows, None if lab.server.restarts else run)[pattern]
    measured = lab.runner.run(lab.tables[storage], query, state)
    return Cell(storage, run, pattern=pattern, state=state, **measured.as_cell())
