"""What one process tells the other once is known there as long as it is needed, and no longer."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pgtrace.engines import Key, StatementName
from pgtrace.errors import PgtraceError
from pgtrace.live import tabs
from pgtrace.live.frame import Frame
from pgtrace.live.kept import Kept
from pgtrace.live.names import MOST, SPARE
from pgtrace.live.teller import Teller
from pgtrace.model.capture import Tablespace
from pgtrace.postgres.titles import Title
from pgtrace.tracing.file_names import Place
from pgtrace.tracing.gains import Gain
from pgtrace.tracing.recorder import Recorder
from pgtrace.tracing.targets import Filters
from pgtrace.tracing.traced_process import TracedProcess

SECOND = 10**9
LONGEST = MOST + SPARE + 60
"""Frames that a name is kept, at most, once none has it."""


class Server:
    """One that is traced, by hand: each second somebody reads something."""

    def __init__(self) -> None:
        self.seconds = 0
        self.asked = 0
        self.processes: dict[int, TracedProcess] = {}
        self.texts: dict[int, bytes] = {}
        self.names: dict[int, str] = {}
        self.spaces = ["pg_default"]
        self.recorder = Recorder(self.statement, self.processes.get)
        self.teller = Teller(self.tracer(), self.recorder)
        self.begin = self.teller.begin(by_relation=True)
        self.kept = Kept()

    def tracer(self) -> Any:
        server = self

        def backend(pid: int) -> None:
            raise PgtraceError("it cannot be looked at")

        one = SimpleNamespace(version="15.18", backend=backend, are_away=lambda: False)

        class Intervals:
            @property
            def cut_ns(self) -> int:
                return server.seconds * SECOND

        def wall_time(ns: int) -> datetime:
            return datetime(2026, 1, 1, tzinfo=UTC) + timedelta(microseconds=ns // 1000)

        class Target(SimpleNamespace):
            def __str__(self) -> str:
                return "the server in /data"

        return SimpleNamespace(
            started_ns=0,
            target=Target(servers=[one], filters=Filters(), is_of_databases=True),
            block_size=8192,
            engine=SimpleNamespace(operations=["read"], times=False, query_source="memory"),
            names=None,
            lost=lambda: pytest.fail("is not looked at so often"),
            kept=lambda: pytest.fail("is not looked at so often"),
            intervals=Intervals(),
            wall_time=wall_time,
            registry=SimpleNamespace(
                servers=one,
                processes=self.processes.values,
                identities=SimpleNamespace(is_meant=lambda _: True),
            ),
            places=SimpleNamespace(
                place=self.place,
                tablespaces=lambda: [Tablespace(each) for each in sorted(self.spaces)],
            ),
        )

    def statement(self, serial: int, query: int) -> StatementName:
        self.asked += 1
        return StatementName(query, self.texts[query])

    def place(self, file: int) -> Place:
        if file not in self.names:
            return Place("unknown")
        return Place("heap", self.spaces[0], self.names[file])

    def connect(self, serial: int) -> None:
        title = Title("client backend", "postgres", "mydb")
        self.processes[serial] = TracedProcess(serial, 4000 + serial, 4000 + serial, 1, title, 0)

    def read(self, serial: int, query_id: int, file: int) -> None:
        self.texts.setdefault(query_id, b"select %d from t" % query_id)
        self.names.setdefault(file, f"public.t{file}")
        key = Key("query", "backend", False, "1", "random", "device", file)
        gain = Gain((serial, query_id), key, (1, 8192, 1000))
        self.recorder.count(serial, StatementName(query_id, None), gain)

    def second(self) -> Frame:
        self.seconds += 1
        frame = self.teller.frame()
        assert frame is not None
        told = msgspec.structs.replace(frame)
        self.kept.add(frame)  # which keeps the names elsewhere
        return told

    def shown(self, kind: tabs.Kind) -> set[str]:
        listing = tabs.listing(kind, self.kept.window(1), self.kept, self.begin)
        return {
            " ".join([*(v for v in row.values if isinstance(v, str)), row.name])
            for row in listing.rows
        }


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    monkeypatch.setattr("pgtrace.reporters.losses.Watch.tick", lambda _: None)
    yield Server()


EVERYTHING: tuple[tabs.Kind, ...] = ("backend", "statement", "relation")


def test_who_was_idle_for_a_quarter_of_an_hour_has_its_row_again(server: Server) -> None:
    """As a connection of a pool; and what it runs and reads has its name."""
    server.connect(1)
    server.read(1, 7, 3)
    server.second()
    before = [server.shown(kind) for kind in EVERYTHING]
    assert before == [
        {"4001 postgres/mydb idle, or not looked at"},
        {"select $1 from t"},
        {"public.t3 (heap)"},
    ]
    for _ in range(900):
        server.second()
    server.read(1, 7, 3)
    server.second()
    assert [server.shown(kind) for kind in EVERYTHING] == before


@settings(max_examples=20, deadline=None)
@given(st.lists(st.tuples(st.integers(0, LONGEST + 20), st.integers(1, 3)), max_size=9))
def test_whoever_comes_back_whenever_has_a_name(pauses: list[tuple[int, int]]) -> None:
    """Just before, while and after both sides forget."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("pgtrace.reporters.losses.Watch.tick", lambda _: None)
        server = Server()
        for number in (1, 2, 3):
            server.connect(number)
        for pause, number in pauses:
            for _ in range(pause):
                server.second()
            server.read(number, 10 + number, 20 + number)
            server.second()
            assert server.shown("backend") == {
                f"{4000 + number} postgres/mydb idle, or not looked at"
            }
            assert server.shown("statement") == {"select $1 from t"}
            assert server.shown("relation") == {f"public.t{20 + number} (heap)"}


def test_what_is_ever_new_does_not_pile_up(server: Server) -> None:
    """Temporary tables, generated SQL, and clients that come for one query: none is known on either
    side for longer than eleven minutes.
    """
    each = 10
    for second in range(1500):
        for n in range(second * each, (second + 1) * each):
            server.connect(n)
            server.read(n, n + 1, n)
        server.second()
        for n in range(second * each, (second + 1) * each):
            del server.processes[n]
    names, teller, most = server.kept.names, server.teller, LONGEST * each
    sizes = {
        len(found)
        for found in (
            names.processes, names.places, names.statements, server.recorder.texts,
            teller._processes, teller._places, teller._statements,
        )
    }  # fmt: skip
    assert max(sizes) <= most < 1500 * each
    assert min(sizes) >= MOST * each


def test_a_text_is_asked_for_once_while_it_is_known(server: Server) -> None:
    server.connect(1)
    for _ in range(200):
        server.read(1, 7, 3)
        server.second()
    assert server.asked == 1


def test_what_was_read_of_a_file_that_is_gone_has_the_name_that_stands_for_it(
    server: Server,
) -> None:
    """Between the read and the end of its second the file was forgotten."""
    server.connect(1)
    server.read(1, 7, 3)
    server.read(1, 7, 9)
    server.names = {9: "(gone)"}
    server.recorder.fold_files({3: 9})
    frame = server.second()
    assert [(cell.place, cell.count) for cell in frame.cells] == [(9, 2)]
    assert server.shown("relation") == {"(gone) (heap)"}


def test_a_file_that_is_gone_keeps_the_name_that_it_had(server: Server) -> None:
    server.connect(1)
    server.read(1, 7, 3)
    server.second()
    server.names = {}
    server.read(1, 7, 4)
    server.spaces = ["another"]
    frame = server.second()
    assert frame.places.keys() == {4}
    assert server.kept.names.places[3].name == "public.t3 (heap)"


def test_where_a_tablespace_has_its_name_at_last_all_files_are_in_it(server: Server) -> None:
    """Also those that nobody reads again."""
    server.spaces = ["16400"]
    server.connect(1)
    server.read(1, 7, 3)
    server.second()
    server.spaces = ["fast"]
    server.second()
    listing = tabs.listing("device", server.kept.window(2), server.kept, server.begin)
    assert [row.name for row in listing.rows] == ["fast"]


def test_a_text_that_comes_later_is_told_then(server: Server) -> None:
    server.connect(1)
    server.texts[7] = b""
    server.read(1, 7, 3)
    server.second()
    assert server.shown("statement") == {"query_id 7"}
    server.texts[7] = b"select 1"
    server.read(1, 7, 3)
    server.second()
    assert server.shown("statement") == {"select $1"}
    assert server.second().statements == {}
