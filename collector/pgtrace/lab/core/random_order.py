"""Runs, each of which measures everything once, in an order that is drawn anew."""

import functools
from collections.abc import Callable, Sequence
from random import Random
from typing import TypeVar

from ...model.lab_result import QueryCell, TableOptions, TableResult
from .interruption import Interruption
from .laboratory import Laboratory, Setup, laboratory
from .progress import Progress
from .rehearsal import rehearse

M = TypeVar("M", bound=tuple[str | int, ...])
C = TypeVar("C", bound=QueryCell)
R = TypeVar("R", bound=TableResult)
_SEEDS = 1 << 32


def in_random_order(
    kind: type[R],
    setup: Setup,
    measured: Sequence[M],
    cell: Callable[[Laboratory, int, M], C],
    *,
    runs: int,
    options: TableOptions,
    progress: Progress,
    interruption: Interruption,
    then: Callable[[Laboratory, int], None] | None = None,
    like: Callable[[M], M] = lambda one: one,
) -> R:
    """Make a cell of each of `measured` in every run, by `cell(laboratory, run, which)`; `then` is
    called with the laboratory and the seed. The result is of this kind, with these options and
    what the laboratory adds to them. `like` is as of rehearse().

    Raises what Interruption.keeping() does, and laboratory(); ended later, the result is partial.
    """
    seed = Random().randrange(_SEEDS)
    random = Random(seed)
    orders = [random.sample(measured, len(measured)) for _ in range(runs)]
    cells: list[C] = []
    partial = True
    rehearsal = functools.partial(
        rehearse, measured=measured, cell=cell, runs=runs, like=like, progress=progress
    )
    with (
        interruption.keeping(lambda: bool(cells)),
        laboratory(setup, progress, interruption, rehearsal) as lab,
    ):
        progress.plan(runs * len(measured))
        for run, order in enumerate(orders, 1):
            cells += [cell(lab, run, which) for which in order]
        if then:
            then(lab, seed)
        partial = False
    options.runs, options.seed, options.order = runs, seed, [[*order] for order in orders]
    return lab.result(kind, cells, options, partial=partial)
