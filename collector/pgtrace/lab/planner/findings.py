"""What follows from the planner's sweep: a range of random_page_cost, and crossing points.

From a result alone, so that a file says the same again. The details of a finding are what a page
draws.
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations
from statistics import fmean
from typing import Any

import msgspec

from ...model.lab_result import Cell, Finding, Result, Storage
from ...stats import paired
from .points import Circumstance, Point, from_option
from .regret import PLANS, Plan, Timed, best_range, crossing, fastest_time, held_out, regrets
from .verdict import verdict

ASKED, RANGE, CROSSING = "planner", "random_page_cost", "crossing"
NAMES = frozenset({ASKED, RANGE, CROSSING})


class HeldOut(msgspec.Struct):
    """What a value chosen on half of the points costs on the others, more than the best one there.

    Shares of the fastest plans' time; `spread` is half of the 95 % interval.
    """

    share: float
    spread: float


class RangeDetails(msgspec.Struct):
    """Of the finding RANGE. `regret_s` is one for each of `values`, the mean of the runs."""

    values: list[float]
    regret_s: list[float]
    fastest_s: float
    """Of the fastest plans, all points added up."""
    current: float
    best: float
    points: int
    held_out: HeldOut | None = None
    sql: str | None = None


class CrossingDetails(msgspec.Struct):
    """Of the finding CROSSING: where plan `first` gives way to plan `then`, and both curves."""

    first: Plan
    then: Plan
    circumstance: Circumstance
    selectivities: list[float]
    seconds: dict[Plan, list[float]]
    costs: dict[Plan, list[float]]
    """In the planner's unit, at its present settings."""
    believed: float | None = None
    """Where they cross by the planner's costs; a share of the rows, as the finding's value."""
    correlation: float | None = None
    """Of the column with the order of the heap."""
    between: dict[Plan, list[tuple[float, float] | None]] | None = None
    """The 95 % intervals of `seconds`, by the runs; None of a plan that was stopped, or of one run.
    In files of before there were any, None for all."""


def findings(result: Result) -> list[Finding]:
    """By storage: the range, then where plans cross. Nothing if the planner was not swept."""
    found: list[Finding] = []
    points = [from_option(option) for option in result.options.get("points", ())]
    for storage in result.storages:
        asked = [f for f in result.findings if (f.name, f.storage) == (ASKED, storage.name)]
        if points and asked:
            sweep = _Sweep(result, storage, points, asked[0].details)
            found += [sweep.range(), *sweep.crossings()]
    return found


class _Sweep:
    """One storage's."""

    def __init__(
        self, result: Result, storage: Storage, points: Sequence[Point], asked: Mapping[str, Any]
    ) -> None:
        self._storage = storage
        self._points = points
        self._asked = asked
        cells: dict[tuple[int, Plan], dict[int, Cell]] = {}
        for cell in result.cells:
            if cell.storage == storage.name and cell.plan and cell.point is not None:
                cells.setdefault((cell.point, cell.plan), {})[cell.run] = cell
        self._cells = cells
        self._used = [n for n in range(len(points)) if (n, "sequential") in cells]
        per_point = [cells[n, "sequential"].keys() for n in self._used]
        last = {cell.run for cell in result.cells if cell.plan}
        whole = set.intersection(*map(set, per_point)) if per_point else set()
        # A run that was interrupted lacks plans that nobody stopped
        self._runs = sorted(whole - {max(last)} if result.partial and last else whole)

    def range(self) -> Finding:
        """What to set, or why not."""
        if not self._runs:
            return self._finding(RANGE, "not decided: no run of the sweep is whole")
        values: list[float] = self._asked["values"]
        current: float = self._asked["current"]
        points = [self._timed(number) for number in self._in_turns()]
        found = best_range(points, values)
        means = [fmean(each) for each in zip(*regrets(points), strict=True)]
        words, sql = verdict(self._storage, points, values, current)
        out = held_out(points, values)
        return self._finding(
            RANGE,
            words,
            value=values[found.middle],
            low=values[found.low],
            high=values[found.high],
            units=len(self._runs),
            details=RangeDetails(
                values=values,
                regret_s=means,
                fastest_s=fastest_time(points),
                current=current,
                best=values[found.best],
                points=len(points),
                held_out=HeldOut(out.share, out.spread) if out else None,
                sql=sql,
            ),
        )

    def crossings(self) -> Iterator[Finding]:
        """Of each circumstance: from which selectivity on another plan is faster."""
        for circumstance in self._circumstances() if self._runs else ():
            for then, first in combinations(PLANS, 2):  # a plan of many pages, and one of few
                yield from self._crossing(circumstance, first, then)

    def _crossing(self, circumstance: Circumstance, first: Plan, then: Plan) -> Iterator[Finding]:
        own = self._of(circumstance)
        at = [self._points[n].selectivity for n in own]
        times = {plan: [self._times(n, plan) for n in own] for plan in (first, then)}
        seconds = {plan: [fmean(each) for each in times[plan]] for plan in times}
        costs = {plan: [self._asked["costs"][n][plan] for n in own] for plan in times}
        each = [
            crossing(at, [t[run] for t in times[first]], [t[run] for t in times[then]])
            for run in range(len(self._runs))
        ]
        known = [one for one in each if one is not None]
        spread = paired.mean(known) if len(known) == len(each) else None
        yield self._finding(
            CROSSING,
            f"{first} scans are faster than {then} scans "
            f"{_where(at, seconds[first], seconds[then])}; by the planner, "
            f"{_where(at, costs[first], costs[then])}",
            value=crossing(at, seconds[first], seconds[then]),
            low=spread and spread.low,
            high=spread and spread.high,
            units=len(self._runs),
            details=CrossingDetails(
                first=first,
                then=then,
                circumstance=circumstance,
                selectivities=at,
                seconds=seconds,
                costs=costs,
                believed=crossing(at, costs[first], costs[then]),
                correlation=self._asked["correlations"].get(circumstance.column),
                between={plan: [self._between(n, plan) for n in own] for plan in times},
            ),
        )

    def _between(self, number: int, plan: Plan) -> tuple[float, float] | None:
        """Seconds: as far from the mean, in proportion, as runs tell of their geometric one."""
        cells = self._cells.get((number, plan), {})
        if any(run not in cells or cells[run].stopped for run in self._runs):
            return None
        times = self._times(number, plan)
        spread = paired.mean(times)
        if spread is None or spread.low is None or spread.high is None:
            return None
        factor = fmean(times) / spread.value
        return spread.low * factor, spread.high * factor

    def _in_turns(self) -> list[int]:
        """Points in such an order that every second one has all of every kind among them."""
        found: list[int] = []
        for turn, circumstance in enumerate(self._circumstances()):
            own = self._of(circumstance)
            found += reversed(own) if turn % 2 else own
        return found

    def _circumstances(self) -> list[Circumstance]:
        return list(dict.fromkeys(self._points[n].circumstance for n in self._used))

    def _of(self, circumstance: Circumstance) -> list[int]:
        """Its points, by selectivity."""
        own = [n for n in self._used if self._points[n].circumstance == circumstance]
        return sorted(own, key=lambda n: self._points[n].selectivity)

    def _timed(self, number: int) -> Timed:
        times = {plan: self._times(number, plan) for plan in PLANS}
        return Timed(times, self._asked["picked"][number])

    def _times(self, number: int, plan: Plan) -> list[float]:
        """Seconds by run. Where it was stopped, or left out after that: how long at least."""
        cells = self._cells.get((number, plan), {})
        point = self._points[number]
        fewer = [
            n for n in self._of(point.circumstance)
            if self._points[n].selectivity <= point.selectivity
        ]  # fmt: skip
        stopped = [
            cell.elapsed_s
            for n in fewer
            for cell in self._cells.get((n, plan), {}).values()
            if cell.stopped
        ]
        least = max(stopped, default=0.0)
        return [cells[run].elapsed_s if run in cells else least for run in self._runs]

    def _finding(
        self,
        name: str,
        words: str,
        details: RangeDetails | CrossingDetails | None = None,
        **more: Any,
    ) -> Finding:
        if self._storage.simulated:
            words = f"simulated: {words}"
        known = msgspec.to_builtins(details) if details else {}
        return Finding(name, words, self._storage.name, details=known, **more)


def _where(at: Sequence[float], first: Sequence[float], then: Sequence[float]) -> str:
    found = crossing(at, first, then)
    if found is not None:
        return f"up to {100 * found:.2g} % of the rows"
    faster = [a < b for a, b in zip(first, then, strict=True)]
    return "everywhere" if all(faster) else "here and there" if any(faster) else "nowhere"
