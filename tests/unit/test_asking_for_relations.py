"""How often a database is asked for its relations while files are read there that nobody knows."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from pgtrace.errors import DatabaseError
from pgtrace.postgres import relations

OWN, OTHER = 5, 16384


class Clock:
    def __init__(self) -> None:
        self.now_s = 1000.0

    def monotonic(self) -> float:
        return self.now_s


class Catalogs:
    """Of that length; no file is found in them, as of temporary tables of transactions that run."""

    def __init__(self, clock: Clock, takes_s: float, *, refuse: bool = False) -> None:
        self.clock, self.takes_s, self.refuse = clock, takes_s, refuse
        self.asked = 0

    def ask(self, query: str, row: type[Any], **_: Any) -> list[Any]:
        if query == "databases":
            return [row(OWN, "postgres", "postgres", True), row(OTHER, "shop", "shop", True)]
        if query == "relations":
            self.asked += 1
            self.clock.now_s += self.takes_s
        return []

    @contextmanager
    def connect(
        self, dbname: str | None = None, opened: Callable[[int], None] | None = None
    ) -> Iterator[Any]:
        if self.refuse:
            self.asked += 1
            raise DatabaseError("not today")
        yield self


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    found = Clock()
    monkeypatch.setattr(relations, "time", found)
    return found


def read_new_files(catalogs: Catalogs, database: int, for_s: float) -> int:
    """Four a second; how often that was asked for."""
    known = relations.Relations(catalogs.connect)
    connection: Any = catalogs
    known.begin(connection, OWN)
    before, end, number = catalogs.asked, catalogs.clock.now_s + for_s, 20_000
    while catalogs.clock.now_s < end:
        known.wish(f"base/{database}/{number}")
        known.ask(connection)
        catalogs.clock.now_s += 0.25
        number += 1
    return catalogs.asked - before


@pytest.mark.parametrize("database", [OWN, OTHER])
@pytest.mark.parametrize("takes_s", [0.01, 0.2, 3.0])
def test_a_server_is_at_work_for_it_a_twentieth_of_the_time_at_most(
    clock: Clock, database: int, takes_s: float
) -> None:
    catalogs = Catalogs(clock, takes_s)
    asked = read_new_files(catalogs, database, for_s=600)
    assert 5 <= asked <= 600
    assert asked * takes_s <= 600 / 20 + takes_s


def test_a_database_that_lets_nobody_in_is_tried_once_a_minute(clock: Clock) -> None:
    catalogs = Catalogs(clock, 0, refuse=True)
    assert 10 <= read_new_files(catalogs, OTHER, for_s=600) <= 16


def test_the_last_time_it_is_asked_in_any_case(clock: Clock) -> None:
    catalogs = Catalogs(clock, 5.0)
    known = relations.Relations(catalogs.connect)
    connection: Any = catalogs
    known.begin(connection, OWN)
    for last in False, True:
        known.wish(f"base/{OWN}/20000")
        clock.now_s += 1.5
        known.ask(connection, last=last)
    assert catalogs.asked == 2 + 1
