"""A plan that is forced, one that is told, and what the planner says of a query: EXPLAIN alone."""

from typing import TYPE_CHECKING, Any

from ...errors import PgtraceError
from .regret import PLANS, Plan

if TYPE_CHECKING:
    import psycopg

ALONE = (
    "-c max_parallel_workers_per_gather=0 -c jit=off -c enable_indexonlyscan=off -c seq_page_cost=1"
)
"""For a connection's `options`: one process scans, and it reads the table."""
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


def only(plan: Plan) -> str:
    """For a connection's `options`: no other plan."""
    return " ".join(f"-c {_ENABLED[other]}={other == plan}" for other in PLANS)


def picked(session: "psycopg.Connection[Any]", query: str, values: list[float]) -> list[Plan]:
    """The plan at each value of random_page_cost."""
    found = []
    for value in values:
        session.execute(f"set random_page_cost = {value}".encode())
        found.append(scan(_explain(session, query))[0])
    session.execute("reset random_page_cost")
    return found


def costs(session: "psycopg.Connection[Any]", query: str) -> dict[Plan, float]:
    """Of each plan, in the planner's unit, at the present settings."""
    found = {}
    for plan in PLANS:
        for other in PLANS:
            session.execute(f"set {_ENABLED[other]} = {other == plan}".encode())
        found[plan] = scan(_explain(session, query))[1]
    for plan in PLANS:
        session.execute(f"reset {_ENABLED[plan]}".encode())
    return found


def scan(plan: dict[str, Any]) -> tuple[Plan, float]:
    """Which scan is below the aggregate, and what it costs by the planner.

    Raises PgtraceError if it is none of PLANS.
    """
    below = plan["Plans"][0]
    for name, node in _NODES.items():
        if below["Node Type"] == node:
            return name, below["Total Cost"]
    raise PgtraceError(f"the planner chose a {below['Node Type']}, which is not known here")


def _explain(session: "psycopg.Connection[Any]", text: str) -> dict[str, Any]:
    row = session.execute(f"explain (format json) {text}".encode()).fetchone()
    assert row is not None
    plan: dict[str, Any] = row[0][0]["Plan"]
    return plan
