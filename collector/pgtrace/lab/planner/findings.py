"""What follows from the planner's sweep: a range of random_page_cost, and crossing points.

From a result alone, so that a file says the same again.
"""

from collections.abc import Iterator, Sequence
from itertools import combinations
from statistics import fmean

from ...model.lab_result import Storage
from ...stats import paired
from ..core.finding_text import of_kind
from .points import Circumstance, Point
from .regret import PLANS, Plan, Timed, best_range, crossing, fastest_time, held_out, regrets
from .result import (
    Crossing,
    CrossingDetails,
    HeldOut,
    Picked,
    PickedDetails,
    PlanCell,
    PlannerFinding,
    Range,
    RangeDetails,
    SweepResult,
)
from .verdict import verdict


def findings(result: SweepResult) -> list[PlannerFinding]:
    """By storage: the range, then where plans cross. Nothing if the planner was not swept."""
    found: list[PlannerFinding] = []
    points = result.options.points
    for storage in result.storages:
        picked = [f for f in of_kind(result.findings, Picked) if f.storage == storage.name]
        if points and picked:
            sweep = _Sweep(result, storage, points, picked[0].details)
            found += [sweep.range(), *sweep.crossings()]
    return found


class _Sweep:
    """One storage's."""

    def __init__(
        self, result: SweepResult, storage: Storage, points: Sequence[Point], picked: PickedDetails
    ) -> None:
        self._storage = storage
        self._points = points
        self._picked = picked
        cells: dict[tuple[int, Plan], dict[int, PlanCell]] = {}
        for cell in result.plans:
            if cell.storage == storage.name:
                cells.setdefault((cell.point, cell.plan), {})[cell.run] = cell
        self._cells = cells
        self._used = [n for n in range(len(points)) if (n, "sequential") in cells]
        per_point = [cells[n, "sequential"].keys() for n in self._used]
        last = {cell.run for cell in result.plans}
        whole = set.intersection(*map(set, per_point)) if per_point else set()
        # A run that was interrupted lacks plans that nobody stopped
        self._runs = sorted(whole - {max(last)} if result.partial and last else whole)

    def range(self) -> Range:
        """What to set, or why not."""
        if not self._runs:
            return Range(
                self._mark("not decided: no run of the sweep is whole"), self._storage.name
            )
        values, current = self._picked.values, self._picked.current
        points = [self._timed(number) for number in self._in_turns()]
        found = best_range(points, values)
        means = [fmean(each) for each in zip(*regrets(points), strict=True)]
        words, sql = verdict(self._storage, points, values, current)
        out = held_out(points, values)
        return Range(
            self._mark(words),
            self._storage.name,
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

    def crossings(self) -> Iterator[Crossing]:
        """Of each circumstance: from which selectivity on another plan is faster."""
        for circumstance in self._circumstances() if self._runs else ():
            for then, first in combinations(PLANS, 2):  # a plan of many pages, and one of few
                yield from self._crossing(circumstance, first, then)

    def _crossing(self, circumstance: Circumstance, first: Plan, then: Plan) -> Iterator[Crossing]:
        own = self._of(circumstance)
        at = [self._points[n].selectivity for n in own]
        times = {plan: [self._times(n, plan) for n in own] for plan in (first, then)}
        seconds = {plan: [fmean(each) for each in times[plan]] for plan in times}
        costs = {plan: [self._picked.costs[n][plan] for n in own] for plan in times}
        each = [
            crossing(at, [t[run] for t in times[first]], [t[run] for t in times[then]])
            for run in range(len(self._runs))
        ]
        known = [one for one in each if one is not None]
        spread = paired.mean(known) if len(known) == len(each) else None
        yield Crossing(
            self._mark(
                f"{first} scans are faster than {then} scans "
                f"{_where(at, seconds[first], seconds[then])}; by the planner, "
                f"{_where(at, costs[first], costs[then])}"
            ),
            self._storage.name,
            value=crossing(at, seconds[first], seconds[then]),
            low=spread.low if spread else None,
            high=spread.high if spread else None,
            units=len(self._runs),
            details=CrossingDetails(
                first=first,
                then=then,
                circumstance=circumstance,
                selectivities=at,
                seconds=seconds,
                costs=costs,
                believed=crossing(at, costs[first], costs[then]),
                correlation=self._picked.correlations.get(circumstance.column),
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
        return Timed(times, self._picked.picked[number])

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

    def _mark(self, words: str) -> str:
        return f"simulated: {words}" if self._storage.simulated else words


def _where(at: Sequence[float], first: Sequence[float], then: Sequence[float]) -> str:
    found = crossing(at, first, then)
    if found is not None:
        return f"up to {100 * found:.2g} % of the rows"
    faster = [a < b for a, b in zip(first, then, strict=True)]
    return "everywhere" if all(faster) else "here and there" if any(faster) else "nowhere"
