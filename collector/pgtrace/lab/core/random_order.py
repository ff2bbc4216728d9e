"""Runs, each of which measures everything once, in an order that is drawn anew."""

import functools
from collections.abc import Callable, Mapping, Sequence
from random import Random
from typing import Any, TypeVar

from ...errors import NothingCapturedError
from ...model.lab_result import Cell, Experiment, Result
from .interruption import Interrupted, Interruption
from .laboratory import Laboratory, Setup, laboratory
from .progress import Progress
from .rehearsal import rehearse

M = TypeVar("M", bound=tuple[Any, ...])
_SEEDS = 1 << 32


def in_random_order(
    experiment: Experiment,
    setup: Setup,
    measured: Sequence[M],
    cell: Callable[[Laboratory, int, M], Cell],
    *,
    runs: int,
    options: Mapping[str, Any],
    progress: Progress,
    interruption: Interruption,
    then: Callable[[Laboratory, int, list[Cell]], None] | None = None,
    like: Callable[[M], M] = lambda one: one,
) -> Result:
    """Make a cell of each of `measured` in every run, by `cell(laboratory, run, which)`; `then` is
    called with the laboratory, the seed, and the cells, to which it may add. `like` is as of
    rehearse().

    Raises NothingCapturedError if it was interrupted before one run was whole, and what
    laboratory() does; interrupted later, the result is partial.
    """
    seed = Random().randrange(_SEEDS)
    random = Random(seed)
    orders = [random.sample(measured, len(measured)) for _ in range(runs)]
    cells: list[Cell] = []
    partial = True
    try:
        rehearsal = functools.partial(
            rehearse, measured=measured, cell=cell, runs=runs, like=like, progress=progress
        )
        with laboratory(setup, progress, interruption, rehearsal) as lab:
            progress.plan(runs * len(measured))
            for run, order in enumerate(orders, 1):
                cells += [cell(lab, run, which) for which in order]
            if then:
                then(lab, seed, cells)
            partial = False
    except Interrupted:
        if not cells:
            raise NothingCapturedError("interrupted before one run was whole") from None
    finally:
        progress.clear()
    return lab.result(
        experiment,
        cells,
        {"runs": runs, **options, "seed": seed, "order": orders},
        partial=partial,
    )
