"""The planner's sweep: sequential, bitmap and index scan of one query, each timed, at each point.

What the planner would pick at another random_page_cost is asked by EXPLAIN, never executed. What
follows from it is in findings.py.
"""

from collections.abc import Iterator
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from datetime import UTC, datetime
from random import Random

from ..core.laboratory import Laboratory
from ..core.tables import Table
from . import plans as planner_plans
from . import table as planner_table
from .points import CIRCUMSTANCES, SELECTIVITIES, VALUES, Circumstance, Point
from .regret import PLANS, Plan
from .result import Picked, PickedDetails, PlanCell
from .timing import run_all

STOPPED_AFTER = 4
"""Times the sequential scan: a plan is not waited for any longer."""
LEAST_WAIT_S = 1.0
_ENOUGH_STOPS = 2
"""A busy moment of the host may stop one."""


@dataclass
class Sweep:
    """Of one laboratory, whose storages are all measured."""

    lab: Laboratory
    rows: int
    runs: int
    seed: int
    circumstances: tuple[Circumstance, ...] = CIRCUMSTANCES
    selectivities: tuple[float, ...] = SELECTIVITIES
    values: tuple[float, ...] = VALUES
    tables: dict[str, Table] = field(default_factory=dict)
    _stopped: dict[tuple[str, Circumstance, Plan], list[float]] = field(default_factory=dict)
    """At which selectivities a plan was."""
    _sequential_s: dict[tuple[str, Circumstance], float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._random = Random(self.seed)
        if self.lab.setup.direct_io:  # past the page cache
            self.circumstances = tuple(c for c in self.circumstances if not c.cached)
        self.points = [Point.of(s, c) for c in self.circumstances for s in self.selectivities]

    def prepare(self) -> list[Picked]:
        """Make the tables, and ask the planner."""
        found = []
        for storage in self._storages():
            with self.lab.runner.interruption.allowed():
                self.lab.progress.say(f"Loading {self.rows:,} rows for the planner into {storage}")
                self.tables[storage] = planner_table.load(self.lab.server, storage, self.rows)
                found.append(self._ask(storage))
        return found

    def cells(self) -> Iterator[PlanCell]:
        """Time everything, run by run, in an order drawn anew for each. A plan that was stopped
        twice is left out, as with more rows it takes no less.
        """
        order = [
            (storage, number, plan)
            for storage in self._storages()
            for number in self._points_of(storage)
            for plan in PLANS
        ]
        self.lab.progress.plan(len(order) * self.runs)
        for run in range(1, self.runs + 1):
            for storage, number, plan in self._random.sample(order, len(order)):
                point = self.points[number]
                self.lab.progress.step(f"planner, run {run}, {storage}, {plan} scan")
                stops = self._stopped.get((storage, point.circumstance, plan), [])
                if sum(at <= point.selectivity for at in stops) < _ENOUGH_STOPS:
                    yield self._cell(storage, run, number, plan)

    def _storages(self) -> list[str]:
        return [place.name for place in self.lab.setup.places]

    def _points_of(self, storage: str) -> list[int]:
        """Memory is nothing but cached."""
        every = self.lab.state_of(storage) == "cold"
        return [n for n, point in enumerate(self.points) if every or point.circumstance.cached == 1]

    def _cell(self, storage: str, run: int, number: int, plan: Plan) -> PlanCell:
        point = self.points[number]
        of = storage, point.circumstance
        limit = None
        if plan != "sequential":
            if of not in self._sequential_s:
                self._sequential_s[of] = self._time(storage, number, "sequential").elapsed_s
            limit = max(LEAST_WAIT_S, STOPPED_AFTER * self._sequential_s[of])
        cell = self._time(storage, number, plan, limit, run)
        if cell.stopped:
            self._stopped.setdefault((*of, plan), []).append(point.selectivity)
        return cell

    def _time(
        self, storage: str, number: int, plan: Plan, limit: float | None = None, run: int = 0
    ) -> PlanCell:
        point, table = self.points[number], self.tables[storage]
        circumstance = point.circumstance
        # The same rows, and the same share cached, for every plan of a point and run
        random = Random(f"{self.seed} {number} {run}")
        wanted = self._wanted(point)
        queries = [
            planner_table.query(
                circumstance.column, self.rows, wanted, random.randint(1, self.rows)
            )
            for _ in range(circumstance.clients)
        ]
        options = f"{table.options} {planner_plans.ALONE} {planner_plans.only(plan)}"
        options += f" -c effective_io_concurrency={circumstance.io_concurrency}"
        with ExitStack() as stack:
            server = self.lab.server
            clients = [stack.enter_context(closing(server.fresh(options)))]
            clients += [stack.enter_context(closing(server.connect(options))) for _ in queries[1:]]
            for client, text in zip(clients, queries, strict=True):
                client.execute(f"explain {text}".encode())  # catalogs are not to be measured
                if limit is not None:
                    client.execute(f"set statement_timeout = {round(limit * 1000)}".encode())
            self.lab.runner.prepare()
            resident = planner_table.hold(table, circumstance.cached, random)
            began_s = (datetime.now(UTC) - self.lab.started).total_seconds()
            with self.lab.runner.interruption.allowed():
                ran = run_all(clients, queries, plan)
        return PlanCell(
            storage,
            run,
            sum(each.elapsed_s for each in ran) / len(ran),
            plan=plan,
            point=number,
            began_s=began_s,
            stopped=any(each.stopped for each in ran),
            shared_hits=_sum([each.hits for each in ran]),
            shared_reads=_sum([each.reads for each in ran]),
            resident_before=resident,
        )

    def _ask(self, storage: str) -> Picked:
        """What the planner picks at each value, and what it believes each plan to cost now."""
        table = self.tables[storage]
        options = f"{table.options} {planner_plans.ALONE}"
        with closing(self.lab.server.connect(options)) as session:
            row = session.execute("select current_setting('random_page_cost')::float").fetchone()
            assert row is not None
            values = sorted({*self.values, row[0]})
            asked: dict[tuple[float, str], tuple[list[Plan], dict[Plan, float]]] = {}
            for point in self.points:
                key = point.selectivity, point.circumstance.column
                if key not in asked:
                    text = planner_table.query(
                        key[1], self.rows, self._wanted(point), self.rows // 3
                    )
                    plans = planner_plans.picked(session, text, values)
                    asked[key] = plans, planner_plans.costs(session, text)
            each = [asked[p.selectivity, p.circumstance.column] for p in self.points]
            details = PickedDetails(
                values=values,
                current=row[0],
                picked=[plans for plans, _ in each],
                costs=[costs for _, costs in each],
                correlations=planner_table.correlations(session),
            )
        return Picked("what the planner picks, and why", storage, details=details)

    def _wanted(self, point: Point) -> int:
        return max(1, round(point.selectivity * self.rows))


def _sum(each: list[int | None]) -> int | None:
    return None if None in each else sum(filter(None, each))
