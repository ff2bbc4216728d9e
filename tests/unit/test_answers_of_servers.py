"""What a server answers to the queries for names: it may be anybody's, and one file has all."""

import math
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest

from captures import some_capture
from pgtrace.errors import DatabaseError
from pgtrace.failures import Failures
from pgtrace.postgres import connection, database_stats, explain, explain_roles
from pgtrace.postgres.blockers import Blockers
from pgtrace.postgres.catalog import Names
from pgtrace.postgres.connection import Asked, Connection
from pgtrace.postgres.executions import Counter
from pgtrace.postgres.owners_connection import _Asked
from pgtrace.postgres.owners_messages import Answer, Ask
from pgtrace.postgres.relations import Relations

ROWS: dict[str, tuple[Any, ...]] = {
    "activity": (7, "shop", "alice", "psql", "client backend", 8),
    "blockers": (7, "alice", "psql", "active", 1.5, "select 1"),
    "buffers": (5, 1.5, "shop", 10, 3),
    "cluster": (1 << 62, 5, 9),
    "databases": (5, "shop", "shop", True),
    "executions": (1 << 62, 5, 10, 3, 1.5),
    "executions_of": ("public", True),
    "executions_since": (1.5, 0),
    "extension": ("public",),
    "own_page_costs": ("ssd",),
    "page_costs": ("shop", "17.6", 4.0, 1.0),
    "relations": ("base/5/16385", "public.stock", "heap"),
    "roles": ("alice", True, False, None),
    "statements": (1 << 62, "select $1"),
    "tablespaces": (1663, "pg_default"),
}
"""One that a server gives, by the query."""
NO_NULL = {
    "cluster", "databases", "executions_of", "executions_since", "extension", "own_page_costs",
    "page_costs", "tablespaces",
}  # fmt: skip
WRONG: dict[type, list[object]] = {
    int: ["x", 1.5, True, [1], {"a": 1}, 1 << 80],
    str: [7, 1.5, True, ["x"], {"x": "x"}],
    bool: ["t", 1, [True]],
    float: ["x", True, math.nan, math.inf, [1.5]],
    type(None): [7, ["x"]],
}
PATHS = "abc", "", "base/x/1", "/5", "5", f"base/{'9' * 5000}/1", "base/5/"
KINDS = "relation", "x" * 100, "HEAP"


def wrong(query: str) -> Iterator[tuple[object, ...]]:
    row = ROWS[query]
    yield (*row, 1)
    yield row[:-1]
    for at, value in enumerate(row):
        for other in [*WRONG[type(value)], *([None] if query in NO_NULL else [])]:
            yield (*row[:at], other, *row[at + 1 :])
    if query == "relations":
        yield from ((path, *row[1:]) for path in PATHS)
        yield from ((*row[:2], kind) for kind in KINDS)


class Server:
    """Which gives one row to each query."""

    def __init__(self, *replaced: tuple[str, list[Any]]) -> None:
        answers = {query: [row] for query, row in ROWS.items()} | dict(replaced)
        self.answers = {connection.query_text(q, "public"): rows for q, rows in answers.items()}

    def rows(self, text: str, _parameters: dict[str, Any]) -> list[Any]:
        return self.answers[text]

    def as_owner(self) -> Asked:
        def answer(ask: Ask) -> Answer:
            return Answer(rows=self.rows(ask.query, {}))

        return _Asked(answer, 1)

    def by_dsn(self) -> Connection:
        class Faked(Connection):
            rows = staticmethod(self.rows)  # type: ignore[assignment]

        return Faked.__new__(Faked)


def names() -> Names:
    return Names(never, [], Failures())


def never(*_: object, **__: object) -> Any:
    raise AssertionError


def cluster(asked: Any) -> object:
    names()._begin(asked)
    return True


def activity(asked: Any) -> object:
    found = names()
    found._look(asked)
    return found.of(7, 0, 0)


def texts(asked: Any) -> object:
    found = names()
    found._query_ids = [1 << 62]
    found._ask_texts(asked)
    return found.texts


def relations(asked: Any) -> object:
    found = Relations(never)
    found.begin(asked, 5)
    found.ask(asked)
    return found.known


def executions(asked: Any) -> object:
    counter = Counter()
    counter.begin(asked)
    return counter._first


def blockers(asked: Any) -> object:
    found = Blockers()
    found.of = 7
    found.ask(asked)
    return found.found()


def roles(asked: Any) -> object:
    asked.may_become_anybody = lambda: False
    return explain_roles.own_role(asked, ["alice"], "shop")


FEED: dict[str, Callable[[Any], object]] = {
    "activity": activity,
    "blockers": blockers,
    "buffers": database_stats.ask,
    "cluster": cluster,
    "databases": relations,
    "executions": executions,
    "executions_of": executions,
    "executions_since": executions,
    "extension": texts,
    "relations": relations,
    "roles": roles,
    "statements": texts,
    "tablespaces": relations,
}
PLANS = {"page_costs", "own_page_costs"}


def took(query: str, asked: Any) -> bool:
    """Whether anything was believed; nothing but a DatabaseError may come of it."""
    try:
        return bool(FEED[query](asked))
    except DatabaseError as error:
        assert len(str(error)) < 200
        return False


def test_every_query_is_tried() -> None:
    queries = {path.stem for path in (Path(connection.__file__).parent / "queries").iterdir()}
    assert queries == ROWS.keys() == FEED.keys() | PLANS


@pytest.mark.parametrize("way", [Server.as_owner, Server.by_dsn])
@pytest.mark.parametrize("query", FEED)
def test_an_answer_is_taken_only_if_it_is_one(query: str, way: Callable[[Server], Any]) -> None:
    assert took(query, way(Server()))
    for row in wrong(query):
        assert not took(query, way(Server((query, [row])))), row


@pytest.mark.parametrize("query", ["cluster", "executions_of", "executions_since"])
@pytest.mark.parametrize("times", [0, 2])
def test_there_is_one_row_where_there_is_to_be_one(query: str, times: int) -> None:
    assert not took(query, Server((query, [ROWS[query]] * times)).as_owner())


@pytest.mark.parametrize("query", sorted(PLANS))
def test_costs_of_pages_are_checked_too(query: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(explain, "own_role", lambda *_: "alice")
    for row in wrong(query):
        asked = nullcontext(Server((query, [row])).by_dsn())
        monkeypatch.setattr(explain, "connect", lambda _, asked=asked: asked)
        with pytest.raises(DatabaseError, match=query):
            explain.explain("", some_capture())
