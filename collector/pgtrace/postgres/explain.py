"""Which statements of a capture would have another plan at another random_page_cost.

A statement is only ever prepared, and its prepared form explained: never executed. It is sent by
the extended protocol, where the server itself refuses more than one statement. What is explained is
the generic plan, because a capture has $n in place of literals: the NULLs that stand for them are
not looked at. Planning evaluates functions: so each statement is explained as the role that ran it,
and that is the role of the connection (explain_roles.py).
"""

import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ..errors import ConnectionLostError, DatabaseError
from ..model.capture import Capture, Query
from .connection import Connection, Number, connect, only
from .explain_roles import own_role
from .redaction import UNPARSED

if TYPE_CHECKING:
    import psycopg

LADDER = (1.0, 1.1, 2.0, 4.0, 8.0, 16.0, 32.0)
"""Times seq_page_cost: of these, the two below and the two above the present setting."""
MOST_STATEMENTS = 200
MOST_S = 60.0
SPARE_S = 15.0
"""What the last statement may take beyond that: longer than the server's own timeouts."""
_NAME = "pgtrace_plan"
_PLANNED = frozenset({"select", "insert", "update", "delete", "merge", "with", "values", "table"})


@dataclass(slots=True)
class Statement:
    """One text, of all backends and protocols together."""

    text: str
    total_ns: int = 0
    plans: list[tuple[list[float], str]] = field(default_factory=list)
    """Settings of random_page_cost, and the plan that they have in common."""


@dataclass(slots=True)
class Plans:
    """What became of the statements of one database."""

    database: str
    role: str
    """Of the connection: its statements alone are explained."""
    server_version: str
    random_page_cost: float
    """The present setting."""
    tried: list[float]
    own_costs: list[str]
    """Tablespaces that have page costs of their own: these were left as they are."""
    explained: int = 0
    changed: list[Statement] = field(default_factory=list)
    """Those with more than one plan; those that took longest first."""
    failed: dict[str, int] = field(default_factory=dict)
    """How many could not be explained, by why."""
    others: int = 0
    """Commands that have no plan, such as COMMIT."""
    elsewhere: int = 0
    """Statements of other databases."""
    of_others: dict[str, int] = field(default_factory=dict)
    """Statements of this database that other roles ran."""


def explain(dsn: str, capture: Capture) -> Plans:
    """Explain the capture's statements that the role of `dsn` ran in the database it leads to.

    Raises DatabaseError if the connection fails, UsageError if that role may do more than is to be
    lent to the functions in statements.
    """
    with connect(dsn) as connection:
        costs = connection.ask("page_costs", tuple[str, str, Number, Number])
        database, version, current, sequential = only(costs)
        role = own_role(connection, _roles(capture, database), database)
        own = [name for (name,) in connection.ask("own_page_costs", tuple[str])]
        plans = Plans(database, role, version, current, ladder(current, sequential), own)
        failed: Counter[str] = Counter()
        statements = list(_statements(capture, plans, failed))
        with connection.given_up_after(MOST_S + SPARE_S) as given_up:
            _explain_each(connection, statements, plans, failed, given_up)
        plans.failed = dict(failed.most_common())
        return plans


def _explain_each(
    connection: Connection,
    statements: Sequence[Statement],
    plans: Plans,
    failed: Counter[str],
    given_up: threading.Event,
) -> None:
    began = time.monotonic()
    for number, statement in enumerate(statements):
        took_s = time.monotonic() - began
        if number >= MOST_STATEMENTS or took_s > MOST_S:
            failed["it was not asked for: there are too many"] += len(statements) - number
            return
        try:
            statement.plans = _plans(connection, statement.text, plans.tried)
        except ConnectionLostError:
            if not given_up.is_set():
                raise
            failed["the server gave no answer in time"] += len(statements) - number
            return
        except DatabaseError as error:
            failed[str(error)] += 1
            continue
        plans.explained += 1
        if len(statement.plans) > 1:
            plans.changed.append(statement)


def _roles(capture: Capture, database: str) -> list[str]:
    """Those that ran statements there, those that ran longest first."""
    found: Counter[str] = Counter()
    for backend in capture.backends:
        if backend.datname == database and backend.usename is not None:
            found[backend.usename] += sum(map(_took_ns, backend.queries))
    return [name for name, _ in found.most_common()]


def _took_ns(query: Query) -> int:
    """Its calls, or, where these were not measured, its reads."""
    if query.latency is None:
        return sum(reads.total_ns for reads in query.io)
    return query.latency.sum


def ladder(current: float, sequential: float) -> list[float]:
    """The settings to try, in order: the present one, and two on either side."""
    steps = [round(step * (sequential or 1), 4) for step in LADDER]
    below = [step for step in steps if step < current]
    above = [step for step in steps if step > current]
    return [*below[-2:], current, *above[:2]]


def shape(plan: dict[str, Any]) -> str:
    """A plan of EXPLAIN (FORMAT JSON) without costs and conditions, in EXPLAIN's own words."""
    words = [plan["Node Type"]]
    if plan.get("Operation"):
        words = [plan["Operation"]]
    if plan.get("Strategy") not in (None, "Plain"):
        words.insert(0, plan["Strategy"])
    if plan.get("Join Type") not in (None, "Inner"):
        words.append(f"({plan['Join Type']})")
    if plan.get("Partial Mode") not in (None, "Simple"):
        words.insert(0, plan["Partial Mode"])
    if plan.get("Parallel Aware"):
        words.insert(0, "Parallel")
    if plan.get("Scan Direction") == "Backward":
        words.append("Backward")
    if plan.get("Index Name"):
        words.append(f"using {plan['Index Name']}")
    if plan.get("Relation Name"):
        words.append(f"on {plan['Relation Name']}")
    inner = [shape(part) for part in plan.get("Plans", ())]
    return " ".join(words) + (f" ({', '.join(inner)})" if inner else "")


def _statements(capture: Capture, plans: Plans, failed: Counter[str]) -> Iterator[Statement]:
    """Those that can be asked for, those that took longest first; the others are counted."""
    found: dict[str, Statement] = {}
    others: Counter[str] = Counter()
    for backend in capture.backends:
        for query in backend.queries:
            if backend.datname != plans.database:
                plans.elsewhere += 1
            elif backend.usename is None:
                failed["the role that ran it is not known"] += 1
            elif backend.usename != plans.role:
                others[backend.usename] += 1
            elif query.text is None:
                failed["its text is not known"] += 1
            elif query.text_cut:
                failed["its text was cut"] += 1
            elif UNPARSED.fullmatch(query.text):
                failed["its text could not be told from its literals"] += 1
            else:
                one = found.setdefault(query.text, Statement(query.text))
                one.total_ns += _took_ns(query)
    plans.of_others = dict(others.most_common())
    for one in sorted(found.values(), key=lambda s: (-s.total_ns, s.text)):
        words = one.text.lstrip("( \t\n").split(maxsplit=1)
        if words and words[0].lower().rstrip("(*") in _PLANNED:
            yield one
        else:
            plans.others += 1


def _plans(
    connection: Connection, text: str, settings: Sequence[float]
) -> list[tuple[list[float], str]]:
    """Settings by the plan that they lead to."""
    with connection.undone() as session:
        count = _prepare(session, text)
        try:
            with session.transaction(force_rollback=True):
                session.execute("set local plan_cache_mode = force_generic_plan")
                explained = [_explained(session, setting, count) for setting in settings]
                if any(_removed(plan) for made in explained for plan in made):
                    # Pruned with the NULLs, as execution would begin: no partition would be left
                    session.execute("set local enable_partition_pruning = off")
                    explained = [_explained(session, setting, count) for setting in settings]
        finally:
            # It would outlive the transaction, perhaps as somebody else's behind a pooler
            session.execute(f"deallocate {_NAME}")
    found: dict[str, list[float]] = {}
    for setting, made in zip(settings, explained, strict=True):
        found.setdefault("; ".join(map(shape, made)), []).append(setting)
    return [(values, plan) for plan, values in found.items()]


def _prepare(session: "psycopg.Connection[Any]", text: str) -> int:
    """Have the server parse it; how many parameters it has."""
    import psycopg

    name = _NAME.encode()
    result = session.pgconn.prepare(name, text.encode(errors="replace"))
    if result.status == psycopg.pq.ExecStatus.COMMAND_OK:
        result = session.pgconn.describe_prepared(name)
    if result.status != psycopg.pq.ExecStatus.COMMAND_OK:
        raise psycopg.errors.error_from_result(result)
    return result.nparams


def _explained(
    session: "psycopg.Connection[Any]", setting: float, parameters: int
) -> list[dict[str, Any]]:
    """A rule may make several plans of a statement, or none."""
    session.execute("select set_config('random_page_cost', %s, true)", [str(setting)])
    session.execute("discard plans")  # which would be kept, whatever is set
    nulls = f" ({', '.join(['null'] * parameters)})" if parameters else ""
    row = session.execute(f"explain (format json) execute {_NAME}{nulls}".encode()).fetchone()
    assert row is not None
    return [each["Plan"] for each in row[0] if "Plan" in each]


def _removed(plan: dict[str, Any]) -> bool:
    return bool(plan.get("Subplans Removed")) or any(map(_removed, plan.get("Plans", ())))
