"""Messages as no library sends them: what is a call, and what only looks like one.

Everything here is done to two servers: one with USDT probes, and one without. The witness of the
sequences that are drawn at random is the server's own log, in which each message has its line.
"""

import random
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import pytest
from test_no_usdt import no_notes as no_notes  # noqa: PLC0414  # a fixture
from test_queries import PROBE_TYPE, Record, wait_for

from pgtrace.engines import QueryEvent
from pgtrace.lab.core.private_cluster import PrivateCluster
from pgtrace.postgres import binary
from pgtrace.tracing.options import TraceOptions
from pgtrace.tracing.targets import Target
from pgtrace.tracing.tracer import Tracer
from scans import anything_lost
from wire import FLUSH, SYNC, Wire, bind, close, describe, execute, parse, query


class Session:
    """A backend that is traced twice: each query by itself, and summed up by the kernel."""

    def __init__(self, cluster: PrivateCluster) -> None:
        self.cluster = cluster
        self.wire = Wire(cluster)
        target = Target.find(self.wire.pid)
        self.tracer = Tracer(target, TraceOptions(probe_type=PROBE_TYPE, per_query=True))
        self.summed = Tracer(target, TraceOptions(probe_type=PROBE_TYPE, literals=True))
        self._marks = 0
        self._events: list[QueryEvent] = []
        self.wire.ask(query("select 'so that each kind of message was seen once'"))
        self.wire.ask(parse("select 'the same'"), bind(), execute(), SYNC)

    def mark(self) -> bytes:
        """A query by which to find one's place among the others."""
        self._marks += 1
        text = f"select 'mark {self._marks}'"
        self.wire.ask(query(text))
        return text.encode()

    def events_between(self, before: bytes, after: bytes) -> list[QueryEvent]:
        def seen() -> bool:
            self._events += self.tracer.poll()
            return any(event.text == after for event in self._events)

        wait_for(seen)
        texts = [event.text for event in self._events]
        return self._events[texts.index(before) + 1 : texts.index(after)]

    def seen(self) -> list[QueryEvent]:
        """All that this backend was asked, from the first on."""
        last = self.mark()
        self.events_between(self._events[0].text or b"", last)
        return self._events

    def records(self, *messages: bytes) -> list[Record]:
        """The calls that these messages made."""
        before = self.mark()
        self.wire.ask(*messages)
        events = self.events_between(before, self.mark())
        return [Record((e.text or b"").decode(), e.protocol, e.error) for e in events]


@pytest.fixture(scope="module", params=["usdt", "uprobe"])
def either(request: pytest.FixtureRequest) -> PrivateCluster:
    """With probes, and without."""
    found = request.getfixturevalue("cluster" if request.param == "usdt" else "no_notes")
    assert isinstance(found, PrivateCluster)
    return found


@pytest.fixture(scope="module")
def session(either: PrivateCluster) -> Iterator[Session]:
    session = Session(either)
    try:
        yield session
    finally:
        session.summed.stop()
        taken = session.tracer.stop()
        session.wire.end()
    assert not anything_lost(taken), taken.lost
    assert taken.probes.queries == ("usdt" if binary.probes(either.binary) else "uprobe")


ROWS = "select generate_series(1, 10)"
COMMENTED = "/* a /* nested */ one */ -- and a line\n ;"


@pytest.mark.parametrize(
    ("messages", "expected"),
    [
        pytest.param([parse("select 1"), SYNC], [], id="parse"),
        # Of which something is left to tell: the catalogs that its analysis reads
        pytest.param(
            [parse("select * from pg_stats, pg_locks, pg_matviews"), SYNC], [], id="parse, read"
        ),
        pytest.param(
            [parse("select 1"), SYNC, query("select 2")],
            [Record("select 2", "simple", False)],
            id="parse, then a simple query",
        ),
        pytest.param(
            [parse("select 1"), FLUSH, query("select 1")],
            [Record("select 1", "simple", False)],
            id="parse, then the same as a simple query",
        ),
        pytest.param([parse("select 1"), bind(), SYNC], [], id="bind"),
        pytest.param(
            [parse("select 1"), bind(), describe("P"), close("P"), SYNC], [], id="bind and describe"
        ),
        pytest.param(
            [parse("select 1"), bind(portal="a"), bind(portal="b"), SYNC], [], id="bind twice"
        ),
        pytest.param(
            [parse(ROWS), bind(), execute(3), execute(3), execute(), SYNC],
            [Record(ROWS, "extended", False)] * 3,
            id="a portal in parts",
        ),
        pytest.param(
            [query("begin"), parse(ROWS), bind(portal="p"), execute(3, "p"), SYNC,
             execute(3, "p"), SYNC, execute(0, "p"), SYNC, query("commit")],
            [Record("begin", "simple", False), *[Record(ROWS, "extended", False)] * 3,
             Record("commit", "simple", False)],
            id="a portal in parts, each by itself",
        ),
        pytest.param(
            [parse("select 1"), bind(portal="a"), bind(portal="b"),
             execute(portal="a"), execute(portal="b"), SYNC],
            [Record("select 1", "extended", False)] * 2,
            id="two portals of one statement",
        ),
        pytest.param([query("selec")], [Record("selec", "simple", True)], id="syntax, simple"),
        pytest.param(
            [parse("selec"), SYNC], [Record("selec", "extended", True)], id="syntax, extended"
        ),
        pytest.param([query(COMMENTED)], [Record(COMMENTED, "simple", False)], id="empty, simple"),
        pytest.param(
            [parse(COMMENTED), bind(), execute(), SYNC],
            [Record(COMMENTED, "extended", False)],
            id="empty, extended",
        ),
        pytest.param(
            [parse("/* not */ select 1 -- empty"), bind(), SYNC], [], id="bind, with comments"
        ),
        pytest.param([parse("/", "x"), SYNC], [Record("/", "extended", True)], id="a lone slash"),
        pytest.param([bind(statement="unknown"), SYNC], [], id="bind to what is unknown"),
    ],
)  # fmt: skip
def test_what_is_a_call(session: Session, messages: list[bytes], expected: list[Record]) -> None:
    assert session.records(*messages) == expected


def test_error_without_a_text_is_that_of_the_open_query(session: Session) -> None:
    """As a bind to what was never prepared: it undoes what came before it up to a Sync."""
    assert session.records(parse("select 5"), bind(statement="unknown"), SYNC) == [
        Record("select 5", "extended", True)
    ]
    assert session.records(parse("select 6"), bind(), execute(), execute(portal="?"), SYNC) == [
        Record("select 6", "extended", True)
    ]


# At random

TEXTS = [
    "select 1",
    "select 2",
    "select 1; select 2",
    ROWS,
    ROWS,
    "select g / (g - 3) from generate_series(1, 5) g",
    "select 1/0",
    "select nothing",
    "selec",
    "begin",
    "commit",
    "rollback",
    "savepoint a",
    "rollback to a",
    "show work_mem",
    "set work_mem = '4MB'",
    "do $$ begin perform 1; end $$",
    "create temp table if not exists t (a int)",
    "insert into t values (1) returning a",
    "declare c cursor with hold for select 1",
    "",
    "-- nothing",
]
NAMES = "", "", "a", "b"
EMPTY = {"", "-- nothing"}
GROUPS = 400


class Line(NamedTuple):
    """Of the server's log: what it did with one message."""

    what: str
    """statement, parse, bind, execute, or error."""
    text: str | None
    """None of an error that has none."""


class Drawn:
    """Messages that are likely, but not certain, to be of some use."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    def group(self) -> list[bytes]:
        """Some messages, the last of which the server answers by being ready."""
        one = self._random
        found: list[bytes] = []
        for _ in range(one.randint(0, 6)):
            found += self._some()
        return [*found, SYNC]

    def _some(self) -> list[bytes]:
        one = self._random
        name, portal, text = one.choice(NAMES), one.choice(NAMES), one.choice(TEXTS)
        parts = [execute(one.choice((0, 1, 3)), portal) for _ in range(one.randint(0, 3))]
        kinds = [
            [parse(text, name)],
            [parse(text), bind(portal=portal), *parts],
            [close("S", name), parse(text, name), bind(portal=portal, statement=name), *parts],
            [close("P", portal), bind(portal=portal, statement=name), *parts],
            parts,
            [describe("S", name)],
            [close("P", portal)],
            [FLUSH],
            [SYNC],
            [query(text)],
        ]
        return one.choices(kinds, (4, 12, 8, 4, 2, 1, 1, 1, 2, 3))[0]


def lines(cluster: PrivateCluster, pid: int, start: int) -> Iterator[Line]:
    """What one backend wrote into the server's log from there on."""
    with cluster.log.open(errors="replace") as log:
        log.seek(start)
        written = log.read()
    entries = re.findall(
        rf"^[^\n\[]*\[{pid}\] (LOG|ERROR|STATEMENT): {{0,2}}(.*?)(?=\n\S|\n?\Z)",
        written,
        re.MULTILINE | re.DOTALL,
    )
    for number, (level, told) in enumerate(entries):
        done = re.match(
            r"duration: [\d.]+ ms  (statement|parse|bind|execute)[^:]*: ?(.*)", told, 16
        )
        if level == "LOG" and done:
            yield Line(done[1], done[2])
        elif level == "ERROR":
            following = entries[number + 1] if number + 1 < len(entries) else ("", "")
            yield Line("error", following[1] if following[0] == "STATEMENT" else None)


def expected(log: Sequence[Line]) -> list[Record]:
    """What is to be counted between one Sync and the next; `protocol` is "" where that is not told.

    An empty query is never executed, and an error may have no text: then it is that of the text
    which came last, if that is not over. docs/architecture.md says why.
    """
    found: list[Record] = []
    text: str | None = None
    counted = False
    for what, told in log:
        if what in ("parse", "bind"):
            if told != text or (counted and told not in EMPTY):
                text, counted = told, False
            if told in EMPTY and not counted:
                found.append(Record(told, "extended", False))
                counted = True
        elif what == "error" and (told is None or (counted and told == text and told in EMPTY)):
            if counted:
                found[-1] = found[-1]._replace(failed=True)
            elif text is not None:
                found.append(Record(text, "extended", True))
                counted = True
        else:
            protocol = {"statement": "simple", "execute": "extended"}.get(what, "")
            found.append(Record(told or "", protocol, what == "error"))
            # A simple query is over, and with it what was open
            text, counted = (None, False) if what == "statement" else (told, True)
    return found


def split(messages: Sequence[bytes]) -> Iterator[list[bytes]]:
    """What comes up to each Sync, after which nothing is open any more."""
    some: list[bytes] = []
    for each in messages:
        some.append(each)
        if each == SYNC:
            yield some
            some = []


@pytest.mark.parametrize("seed", [1, 2])
def test_calls_are_those_of_the_servers_log(session: Session, seed: int) -> None:
    """Of each message that is executed one, with its text and protocol; and no others."""
    session.wire.ask(query("set log_min_duration_statement = 0"))
    drawn, told = Drawn(seed), []
    before = first = session.mark()
    for _ in range(GROUPS):
        for messages in split(drawn.group()):
            start = session.cluster.log.stat().st_size
            session.wire.ask(*messages)
            log = list(lines(session.cluster, session.wire.pid, start))
            after = session.mark()
            told.append((messages, log, before, after))
            before = after
    session.events_between(first, before)
    wrong = []
    for messages, log, before, after in told:
        events = session.events_between(before, after)
        seen = [Record((e.text or b"").decode(), e.protocol, e.error) for e in events]
        wished = expected(log)
        same = [
            Record(w.text, w.protocol or s.protocol, w.failed)
            for w, s in zip(wished, seen, strict=False)
        ]
        if seen != same or len(seen) != len(wished):
            wrong.append((messages, log, wished, seen))
    assert wrong == []
    assert len(told) >= GROUPS


def test_the_kernel_sums_up_the_same_calls(session: Session) -> None:
    """Of all that was done here before: two ways to count, one result."""
    session.records(parse("select 7"), bind(), SYNC)
    one_by_one = Counter[tuple[str, str]]()
    errors = Counter[tuple[str, str]]()
    for event in session.seen():
        one_by_one[(event.text or b"").decode(), event.protocol] += 1
        errors[(event.text or b"").decode(), event.protocol] += event.error
    (backend,) = session.summed.stop().backends
    summed = {(q.text or "", q.protocol): q.calls for q in backend.queries}
    assert summed == one_by_one
    assert {(q.text or "", q.protocol): q.errors for q in backend.queries} == errors
