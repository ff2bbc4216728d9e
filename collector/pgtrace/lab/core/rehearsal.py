"""How long an experiment will take, before it begins: a small one is done, each kind of measurement
once.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TypeVar

from ... import units
from ...model.lab_result import QueryCell
from . import tables
from .benchmark_table import INDEX_ROWS
from .laboratory import Laboratory, Setup
from .progress import Progress, duration

M = TypeVar("M", bound=tuple[str | int, ...])
_BYTES = 16 << 20
"""Of each table."""
_WORTH_IT = 10
"""So many times larger are the experiments that are rehearsed; others are soon done."""


def plan(setup: Setup, measurements: int, runs: int) -> str:
    """What is about to be done."""
    names = ", ".join(place.name for place in setup.places)
    size = units.size(setup.rows * setup.shape.row_bytes)
    return (
        f"Plan: {setup.rows:,} rows, about {size}, in {'each of ' * (',' in names)}{names}; "
        f"{runs} {'run' if runs == 1 else 'runs'} of {measurements} measurements"
    )


def rehearse(
    load: Callable[[Setup], Laboratory],
    setup: Setup,
    measured: Sequence[M],
    cell: Callable[[Laboratory, int, M], QueryCell],
    *,
    runs: int,
    like: Callable[[M], M],
    progress: Progress,
) -> None:
    """Say what is planned and, of a large experiment, about how long it will take: as it went with
    fewer rows. `like` is the measurement that stands for another one. Raises what these do.
    """
    said = plan(setup, len(measured), runs)
    rows = _BYTES // setup.shape.row_bytes
    # A server that is not started again would have few rows in its shared buffers
    if setup.rows < _WORTH_IT * rows or setup.dsn is not None:
        progress.tell(f"{said}.")
        return
    begin = time.monotonic()
    small = load(replace(setup, rows=rows, planner_rows=0))
    loading = (time.monotonic() - begin) * setup.rows / rows
    stand_ins = list(dict.fromkeys(map(like, measured)))
    progress.plan(len(stand_ins))
    took = {one: _seconds(small, setup, one, cell) for one in stand_ins}
    for place in setup.places:
        tables.drop(small.server, place.name)
    measuring = runs * sum(took[like(one)] for one in measured)
    progress.tell(
        f"{said}. About {duration(loading + measuring)}: {duration(loading)} to load, "
        f"{duration(measuring)} to measure, by what {rows:,} rows took"
        f"{'; the planner is not in it' if setup.planner_rows else ''}."
    )


def _seconds(
    lab: Laboratory, setup: Setup, one: M, cell: Callable[[Laboratory, int, M], QueryCell]
) -> float:
    """What a measurement will take: what belongs to the table grows with what is read of it."""
    begin = time.monotonic()
    found = cell(lab, 1, one)
    whole = time.monotonic() - begin
    growing = found.elapsed_s + sum(each.elapsed_s for each in found.again)
    if found.pattern == "random":  # in a larger table each row is in a page of its own
        by = min(INDEX_ROWS, setup.rows) / max(found.shared_reads or 0, 1)
    else:
        by = setup.rows / lab.setup.rows
    return whole - growing + growing * by
