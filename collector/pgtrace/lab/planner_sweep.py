"""The planner's sweep: sequential, bitmap and index scan of one query, each timed, at each point.

What the planner would pick at another random_page_cost is asked by EXPLAIN, never executed. What
follows from it is in planner_findings.py.
"""

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from datetime import UTC, datetime
from random import Random
from typing import TYPE_CHECKING, Any, NamedTuple

from ..errors import PgtraceError
from . import planner_table
from .laboratory import Laboratory
from .planner_points import CIRCUMSTANCES, SELECTIVITIES, VALUES, Circumstance, Point
from .planner_regret import PLANS, Plan
from .result import Cell, Finding
from .tables import Table

if TYPE_CHECKING:
    import psycopg

MEASURED = "planner"
"""The finding that holds what the planner said."""
STOPPED_AFTER = 4
"""Times the sequential scan: a plan is not waited for any longer."""
LEAST_WAIT_S = 1.0
_ENOUGH_STOPS = 2
"""A busy moment of the host may stop one."""
_EXPLAIN = "explain (analyze, buffers, timing off, format json) "
_NODES: dict[Plan, str] = {
    "sequential": "Seq Scan",
    "bitmap": "Bitmap Heap Scan",
    "index": "Index Scan",
}
_ENABLED: dict[Plan, str] = {
    "sequential": "enable_seqscan",
    "bitmap": "enable_bitmapscan",
    "index": "enable_indexscan",
}
_ALONE = (
    "-c max_parallel_workers_per_gather=0 -c jit=off -c enable_indexonlyscan=off -c seq_page_cost=1"
)


class _Ran(NamedTuple):
    """One client's query: seconds, blocks; how many, and of which source, is not known of one that
    was stopped.
    """

    elapsed_s: float
    stopped: bool = False
    hits: int | None = None
    reads: int | None = None


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
        self.points = [Point(s, c) for c in self.circumstances for s in self.selectivities]

    def prepare(self) -> list[Finding]:
        """Make the tables, and ask the planner."""
        found = []
        for storage in self._storages():
            with self.lab.runner.interruption.allowed():
                self.lab.progress.say(f"Loading {self.rows:,} rows for the planner into {storage}")
                self.tables[storage] = planner_table.load(self.lab.server, storage, self.rows)
                found.append(self._ask(storage))
        return found

    def cells(self) -> Iterator[Cell]:
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

    def _cell(self, storage: str, run: int, number: int, plan: Plan) -> Cell:
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
    ) -> Cell:
        point, table = self.points[number], self.tables[storage]
        circumstance = point.circumstance
        # The same rows, and the same share cached, for every plan of a point and run
        random = Random(f"{self.seed} {number} {run}")
        wanted = max(1, round(point.selectivity * self.rows))
        queries = [
            planner_table.query(
                circumstance.column, self.rows, wanted, random.randint(1, self.rows)
            )
            for _ in range(circumstance.clients)
        ]
        options = f"{table.options} {_ALONE} {_only(plan)}"
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
                ran = _run_all(clients, queries, plan)
        return Cell(
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

    def _ask(self, storage: str) -> Finding:
        """What the planner picks at each value, and what it believes each plan to cost now."""
        table = self.tables[storage]
        with closing(self.lab.server.connect(f"{table.options} {_ALONE}")) as session:
            row = session.execute("select current_setting('random_page_cost')::float").fetchone()
            assert row is not None
            known: dict[tuple[float, str], tuple[list[Plan], dict[Plan, float]]] = {}
            for point in self.points:
                key = point.selectivity, point.circumstance.column
                if key not in known:
                    wanted = max(1, round(point.selectivity * self.rows))
                    text = planner_table.query(key[1], self.rows, wanted, self.rows // 3)
                    known[key] = self._picked(session, text, row[0]), _costs(session, text, row[0])
            each = [known[p.selectivity, p.circumstance.column] for p in self.points]
            details = {
                "values": self._values(row[0]),
                "current": row[0],
                "picked": [picked for picked, _ in each],
                "costs": [costs for _, costs in each],
                "correlations": planner_table.correlations(session),
            }
        return Finding(MEASURED, "what the planner picks, and why", storage, details=details)

    def _values(self, current: float) -> list[float]:
        return sorted({*self.values, current})

    def _picked(self, session: "psycopg.Connection[Any]", text: str, current: float) -> list[Plan]:
        found = []
        for value in self._values(current):
            session.execute(f"set random_page_cost = {value}".encode())
            found.append(_scan(_explain(session, text))[0])
        return found


def _costs(session: "psycopg.Connection[Any]", text: str, current: float) -> dict[Plan, float]:
    """In the planner's unit, at the present setting."""
    session.execute(f"set random_page_cost = {current}".encode())
    found = {}
    for plan in PLANS:
        for other in PLANS:
            session.execute(f"set {_ENABLED[other]} = {other == plan}".encode())
        found[plan] = _scan(_explain(session, text))[1]
    for plan in PLANS:
        session.execute(f"reset {_ENABLED[plan]}".encode())
    return found


def _only(plan: Plan) -> str:
    return " ".join(f"-c {_ENABLED[other]}={other == plan}" for other in PLANS)


def _run_all(
    clients: "list[psycopg.Connection[Any]]", queries: list[str], plan: Plan
) -> list[_Ran]:
    """All at once."""
    with ThreadPoolExecutor(len(clients)) as threads:
        running = [
            threads.submit(_run, client, text, plan)
            for client, text in zip(clients, queries, strict=True)
        ]
        try:
            return [each.result() for each in running]
        except BaseException:
            for client in clients:
                client.cancel()
            raise


def _run(client: "psycopg.Connection[Any]", text: str, plan: Plan) -> _Ran:
    import psycopg

    began = time.perf_counter()
    try:
        row = client.execute(f"{_EXPLAIN}{text}".encode()).fetchone()
    except psycopg.errors.QueryCanceled:
        return _Ran(time.perf_counter() - began, stopped=True)
    assert row is not None
    (explained,) = row[0]
    top = explained["Plan"]
    if _scan(top)[0] != plan:
        raise PgtraceError(f"the server does not run a {plan} scan of {text}")
    return _Ran(
        explained["Execution Time"] / 1000,
        hits=top["Shared Hit Blocks"],
        reads=top["Shared Read Blocks"],
    )


def _sum(each: list[int | None]) -> int | None:
    return None if None in each else sum(filter(None, each))


def _explain(session: "psycopg.Connection[Any]", text: str) -> dict[str, Any]:
    row = session.execute(f"explain (format json) {text}".encode()).fetchone()
    assert row is not None
    plan: dict[str, Any] = row[0][0]["Plan"]
    return plan


def _scan(plan: dict[str, Any]) -> tuple[Plan, float]:
    """Which scan is below the aggregate, and what it costs by the planner."""
    below = plan["Plans"][0]
    for name, node in _NODES.items():
        if below["Node Type"] == node:
            return name, below["Total Cost"]
    raise PgtraceError(f"the planner chose a {below['Node Type']}, which is not known here")
