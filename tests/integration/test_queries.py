"""One record for each query as the client sees it: its calls, errors, latency, reads and text.

Most tests share one traced backend and look at the records of what they did to it.
"""

import itertools
import json
import re
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import psycopg
import pytest
from psycopg import pq

from child import Child, wait_for, wait_until_gone
from fix_cluster import Connection
from pgtrace.commands import live_screen
from pgtrace.engines import EngineName, ProbeType, QueryEvent
from pgtrace.engines.libbpf_engine import LibbpfEngine
from pgtrace.lab.core.private_cluster import PrivateCluster, find_bindir
from pgtrace.libbpf import objects
from pgtrace.model import capture as captures
from pgtrace.model.capture import Capture, Query
from pgtrace.model.encoding import encode
from pgtrace.postgres.redaction import redact
from pgtrace.tracing.options import TraceOptions
from pgtrace.tracing.targets import Target
from pgtrace.tracing.tracer import Tracer, trace
from scans import anything_lost

pytestmark = pytest.mark.vm

Finish = Callable[[], None]

MS = 10**6
PROBE_TYPE: ProbeType = "tracepoint"
"""Which way reads come in is not the question here, and this one attaches fastest."""
TRANSACTIONS = 500


def own(taken: Capture) -> list[Query]:
    """The queries of the one backend."""
    (backend,) = taken.backends
    return backend.queries


PIPELINE_SYNC = pq.ExecStatus.PIPELINE_SYNC


class Record(NamedTuple):
    text: str
    protocol: str
    failed: bool


class Watched:
    """A backend that is traced, by the records of what it is made to do."""

    def __init__(self, connection: Connection, tracer: Tracer) -> None:
        self.connection = connection
        self.server = connection.pgconn
        self.tracer = tracer
        self._marks = 0
        self._events: list[QueryEvent] = []

    def events(self, *actions: Callable[[], Any]) -> list[QueryEvent]:
        """The queries that ended while these were done; every one counts as one call."""
        before = self._mark()
        for action in actions:
            action()
        after = self._mark()
        wait_for(lambda: self._seen(after))
        texts = [event.text for event in self._events]
        events = self._events[texts.index(before) + 1 : texts.index(after)]
        self._events = []
        assert all(event.is_call and not event.begun_before for event in events)
        return events

    def records(self, *actions: Callable[[], Any]) -> list[Record]:
        return [
            Record(event.text.decode(), event.protocol, event.error)
            for event in self.events(*actions)
        ]

    def simple(self, text: str) -> Callable[[], Any]:
        return lambda: self.server.exec_(text.encode())

    def extended(self, text: str, *values: bytes) -> Callable[[], Any]:
        return lambda: self.server.exec_params(text.encode(), list(values))

    def _mark(self) -> bytes:
        """A query by which to find one's place among the others: they are told in their order."""
        self._marks += 1
        text = b"select 'mark %d'" % self._marks
        self.server.exec_(text)
        return text

    def _seen(self, mark: bytes) -> bool:
        self._events += self.tracer.poll()
        return any(event.text == mark for event in self._events)


@pytest.fixture(scope="module")
def shared(cluster: PrivateCluster, engine: EngineName) -> Iterator[Watched]:
    with cluster.connect() as connection:
        tracer = Tracer(
            Target.find(connection.info.backend_pid),
            TraceOptions(probe_type=PROBE_TYPE, per_query=True),
        )
        try:
            yield Watched(connection, tracer)
        finally:
            taken = tracer.stop()
    assert not anything_lost(taken), taken.lost


@pytest.fixture
def watched(shared: Watched) -> Iterator[Watched]:
    yield shared
    if shared.server.pipeline_status:
        shared.server.exit_pipeline_mode()
    if shared.server.transaction_status != pq.TransactionStatus.IDLE:
        shared.server.exec_(b"rollback")
    shared.server.exec_(b"discard all")
    assert shared.server.transaction_status == pq.TransactionStatus.IDLE


def simple(text: str, failed: bool = False) -> Record:
    return Record(text, "simple", failed)


def extended(text: str, failed: bool = False) -> Record:
    return Record(text, "extended", failed)


# One message each


def test_simple_query(watched: Watched) -> None:
    assert watched.records(watched.simple("select 1")) == [simple("select 1")]


def test_simple_query_that_fails(watched: Watched) -> None:
    assert watched.records(watched.simple("select 1/0")) == [simple("select 1/0", True)]


def test_simple_query_with_a_parse_error(watched: Watched) -> None:
    assert watched.records(watched.simple("selec 1")) == [simple("selec 1", True)]


@pytest.mark.parametrize("text", ["", " ", ";", "-- nothing"])
def test_empty_simple_query(watched: Watched, text: str) -> None:
    assert watched.records(watched.simple(text)) == [simple(text)]


@pytest.mark.parametrize("text", ["", "-- nothing"])
def test_empty_extended_query(watched: Watched, text: str) -> None:
    """As a pool's or a driver's sign of life."""
    assert watched.records(watched.extended(text)) == [extended(text)]


def test_three_statements_in_one_message(watched: Watched) -> None:
    """They are one query to the client: it cannot send the next before all have ended."""
    text = "select 1; select 2; select 3"
    assert watched.records(watched.simple(text)) == [simple(text)]


def test_three_statements_of_which_the_second_fails(watched: Watched) -> None:
    text = "select 1; select 1/0; select 3"
    assert watched.records(watched.simple(text)) == [simple(text, True)]


def test_extended_query(watched: Watched) -> None:
    assert watched.records(watched.extended("select $1::int", b"1")) == [extended("select $1::int")]


def test_extended_query_that_fails(watched: Watched) -> None:
    text = "select 1/$1::int"
    assert watched.records(watched.extended(text, b"0")) == [extended(text, True)]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        pytest.param("selec $1", b"1", id="parse"),
        pytest.param("select nothing", None, id="parse analysis"),
        pytest.param("select $1::int", b"no number", id="bind"),
        pytest.param("select 1/0 + $1::int", b"1", id="plan"),
    ],
)
def test_error_before_anything_ran(watched: Watched, text: str, value: bytes | None) -> None:
    values = () if value is None else (value,)
    assert watched.records(watched.extended(text, *values)) == [extended(text, True)]


def test_deferred_constraint_that_fails_at_commit(watched: Watched) -> None:
    """The statement itself ran; to the client it failed."""
    watched.server.exec_(b"create temp table once (a int unique deferrable initially deferred)")
    watched.server.exec_(b"insert into once values (1)")
    text = "insert into once values (1)"
    assert watched.records(watched.simple(text)) == [simple(text, True)]
    assert watched.records(watched.extended(text)) == [extended(text, True)]


def test_prepare_is_no_call_and_each_execution_one(watched: Watched) -> None:
    text = "select $1::int"
    assert watched.records(lambda: watched.server.prepare(b"one", text.encode())) == []

    def execute() -> None:
        watched.server.exec_prepared(b"one", [b"1"])

    assert watched.records(execute, execute, execute) == [extended(text)] * 3


def test_prepare_that_fails_is_an_error(watched: Watched) -> None:
    """The client sent it, and was told that it is wrong."""
    assert watched.records(lambda: watched.server.prepare(b"bad", b"selec")) == [
        extended("selec", True)
    ]


def test_describe_and_close_are_no_calls(watched: Watched) -> None:
    watched.server.prepare(b"one", b"select 1")
    assert watched.records(lambda: watched.server.describe_prepared(b"one")) == []


def test_sync_alone_is_no_call(watched: Watched) -> None:
    def act() -> None:
        watched.server.enter_pipeline_mode()
        watched.server.pipeline_sync()
        result = watched.server.get_result()
        assert result is not None and result.status == pq.ExecStatus.PIPELINE_SYNC
        watched.server.exit_pipeline_mode()

    assert watched.records(act) == []


# Transactions


def test_error_in_an_aborted_block(watched: Watched) -> None:
    texts = "begin", "select 1/0", "select 1", "rollback"
    assert watched.records(*map(watched.simple, texts)) == [
        simple("begin"),
        simple("select 1/0", True),
        simple("select 1", True),
        simple("rollback"),
    ]
    watched.server.exec_(b"begin")
    watched.server.exec_(b"select 1/0")
    assert watched.records(watched.extended("select 2")) == [extended("select 2", True)]


def test_commit_of_an_aborted_block_is_no_error(watched: Watched) -> None:
    """The server answers ROLLBACK, and no error."""
    watched.server.exec_(b"begin")
    watched.server.exec_(b"select 1/0")
    assert watched.records(watched.simple("commit")) == [simple("commit")]


def test_error_after_a_savepoint(watched: Watched) -> None:
    texts = "begin", "savepoint a", "select 1/0", "rollback to a", "select 1", "commit"
    assert watched.records(*map(watched.simple, texts)) == [
        simple(text, text == "select 1/0") for text in texts
    ]
    watched.server.exec_(b"begin")
    watched.server.exec_(b"savepoint a")
    assert watched.records(
        watched.extended("select 1/$1::int", b"0"), watched.extended("rollback to a")
    ) == [extended("select 1/$1::int", True), extended("rollback to a")]


# Errors caught on the way, and portals within portals

CATCHES = """
do $$ begin
    begin perform 1/0; exception when division_by_zero then null; end;
end $$
"""


def test_error_that_a_function_catches_is_none(watched: Watched) -> None:
    assert watched.records(watched.simple(CATCHES), watched.extended(CATCHES)) == [
        simple(CATCHES),
        extended(CATCHES),
    ]


def test_caught_error_of_a_portal_within_a_portal(watched: Watched) -> None:
    """The inner one never ends: longjmp leaves it."""
    watched.server.exec_(b"prepare fails as select 1/($1 * random())::int")
    text = CATCHES.replace("perform 1/0", "execute 'execute fails(0)'")
    assert watched.records(watched.simple(text), watched.extended(text)) == [
        simple(text),
        extended(text),
    ]
    assert watched.records(watched.extended("select 1")) == [extended("select 1")]


def test_rollback_within_a_procedure_is_no_error(watched: Watched) -> None:
    """It goes through the same function in the server as the end of a failed query."""
    text = "do $$ begin perform 1; rollback; perform 2; end $$"
    assert watched.records(watched.simple(text), watched.extended(text)) == [
        simple(text),
        extended(text),
    ]


def test_error_after_a_rollback_within_a_procedure_is_one(watched: Watched) -> None:
    text = "do $$ begin rollback; perform 1/0; end $$"
    assert watched.records(watched.simple(text), watched.extended(text)) == [
        simple(text, True),
        extended(text, True),
    ]


def test_nested_functions_and_cursors(watched: Watched) -> None:
    watched.server.exec_(
        b"""
        create function pg_temp.inner_one() returns int language plpgsql as $$
        declare total int := 0; one record;
        begin
            for one in select g from generate_series(1, 10) g loop total := total + one.g; end loop;
            return total;
        end $$
        """
    )
    watched.server.exec_(b"prepare one as select pg_temp.inner_one()")
    text = """
        do $$
        declare c cursor for select pg_temp.inner_one() from generate_series(1, 3); got int;
        begin
            open c; fetch c into got; execute 'execute one'; close c;
        end $$
    """
    assert watched.records(watched.simple(text), watched.extended(text)) == [
        simple(text),
        extended(text),
    ]


def test_execute_of_a_prepared_statement(watched: Watched) -> None:
    texts = "prepare one as select 1", "execute one", "deallocate one"
    assert watched.records(*map(watched.simple, texts)) == list(map(simple, texts))


def test_fetch_from_a_cursor(watched: Watched) -> None:
    texts = (
        "begin",
        "declare c cursor for select generate_series(1, 10)",
        "fetch 3 from c",
        "fetch 3 from c",
        "close c",
        "commit",
    )
    assert watched.records(*map(watched.simple, texts)) == list(map(simple, texts))


def test_copy_in_and_out(watched: Watched) -> None:
    watched.server.exec_(b"create temp table copied (a int)")
    cursor = watched.connection.cursor()

    def copy_in(row: int | str) -> Callable[[], None]:
        def act() -> None:
            with cursor.copy("copy copied from stdin") as copy:
                copy.write_row([row])

        return act

    def copy_out() -> None:
        with cursor.copy("copy copied to stdout") as copy:
            assert list(copy.rows()) == [("7",)]

    def fail() -> None:
        with pytest.raises(psycopg.errors.InvalidTextRepresentation):
            copy_in("no number")()

    assert watched.records(copy_in(7), copy_out, fail) == [
        simple("copy copied from stdin"),
        simple("copy copied to stdout"),
        simple("copy copied from stdin", True),
    ]


# Pipelines


def test_pipeline_of_three(watched: Watched) -> None:
    texts = [f"select {n}::int + %s" for n in (1, 2, 3)]

    def act() -> None:
        with watched.connection.pipeline():
            for text in texts:
                watched.connection.execute(text, (1,))

    assert watched.records(act) == [extended(text.replace("%s", "$1")) for text in texts]


def test_pipeline_of_three_times_the_same(watched: Watched) -> None:
    def act() -> None:
        with watched.connection.pipeline():
            for value in (1, 2, 3):
                watched.connection.execute("select %s::int", (value,))

    assert watched.records(act) == [extended("select $1::int")] * 3


def test_pipeline_that_fails_in_its_second(watched: Watched) -> None:
    """The server skips the third: it never was a query."""

    def act() -> None:
        with pytest.raises(psycopg.errors.DivisionByZero), watched.connection.pipeline():
            for value in (1, 0, 2):
                watched.connection.execute(f"select {value + 6} / %s::int", (value,))

    assert watched.records(act) == [
        extended("select 7 / $1::int"),
        extended("select 6 / $1::int", True),
    ]
    assert watched.records(watched.extended("select 1")) == [extended("select 1")]


def test_bind_to_what_was_not_prepared(watched: Watched) -> None:
    """An error without a text: the client meant a query, and the server never had one."""
    server = watched.server

    def act() -> None:
        assert server.exec_prepared(b"unknown", None).status == pq.ExecStatus.FATAL_ERROR

    assert watched.records(act) == []
    assert watched.records(act, watched.simple("select 1"), act) == [simple("select 1")]

    def act_in_pipeline() -> None:
        server.enter_pipeline_mode()
        server.send_query_params(b"select 2", None)
        server.send_query_prepared(b"unknown", None)
        server.pipeline_sync()
        while (result := server.get_result()) is None or result.status != PIPELINE_SYNC:
            pass
        server.exit_pipeline_mode()

    # Its error undoes what the one before did, too: there is one commit for both
    assert watched.records(act_in_pipeline) == [extended("select 2", True)]


def test_pipeline_that_prepares_and_executes(watched: Watched) -> None:
    server = watched.server

    def act() -> None:
        server.enter_pipeline_mode()
        server.send_prepare(b"a", b"select 1")
        server.send_prepare(b"b", b"select 2")
        server.send_query_prepared(b"a", None)
        server.send_query_prepared(b"b", None)
        server.pipeline_sync()
        statuses = []
        while not statuses or statuses[-1] != pq.ExecStatus.PIPELINE_SYNC:
            if (result := server.get_result()) is not None:
                statuses.append(result.status)
        assert len(statuses) == 5
        server.exit_pipeline_mode()

    assert watched.records(act) == [extended("select 1"), extended("select 2")]


# Time


@pytest.mark.real_time
@pytest.mark.parametrize("protocol", ["simple", "extended"])
def test_latency_is_what_the_server_took(watched: Watched, protocol: str) -> None:
    """No less than it slept, and no more than the client waited."""
    seen = []

    def act() -> None:
        seen.append(time.monotonic_ns())
        getattr(watched, protocol)("select pg_sleep(0.3)")()
        seen.append(time.monotonic_ns())

    (event,) = watched.events(act)
    assert seen[0] <= event.start_ns <= event.end_ns - 300 * MS
    assert event.end_ns <= seen[1]


@pytest.mark.real_time
def test_time_in_which_the_client_is_silent_is_no_latency(watched: Watched) -> None:
    (first, second) = watched.events(
        watched.simple("begin"), lambda: time.sleep(0.2), watched.simple("commit")
    )
    assert first.end_ns + 200 * MS <= second.start_ns


@pytest.mark.real_time
def test_latencies_in_a_pipeline(watched: Watched) -> None:
    """They follow one another in order, and the slow one is the slow one."""

    def act() -> None:
        with watched.connection.pipeline():
            for seconds in (0, 0.4, 0):
                watched.connection.execute("select pg_sleep(%s)", (seconds,))

    events = watched.events(act)
    assert [event.end_ns - event.start_ns >= 400 * MS for event in events] == [False, True, False]
    assert all(a.end_ns <= b.start_ns for a, b in itertools.pairwise(events))


@pytest.mark.real_time
@pytest.mark.parametrize("protocol", ["simple", "extended"])
def test_statement_timeout_and_the_query_after_it(watched: Watched, protocol: str) -> None:
    """The failed query fires no end of its own; the next one must not inherit its start."""
    send = getattr(watched, protocol)
    slow, fast = watched.events(
        watched.simple("set statement_timeout = '500ms'"),
        send("select pg_sleep(60)"),
        send("select 1"),
    )[1:]
    assert (slow.error, fast.error) == (True, False)
    assert (slow.protocol, fast.protocol) == (protocol, protocol)
    assert slow.end_ns - slow.start_ns >= 500 * MS
    assert fast.end_ns - fast.start_ns < 500 * MS
    assert slow.end_ns <= fast.start_ns


@pytest.mark.real_time
@pytest.mark.parametrize("protocol", ["simple", "extended"])
def test_query_that_is_canceled(watched: Watched, protocol: str) -> None:
    done = threading.Event()

    def cancel() -> None:
        while not done.wait(0.1):  # one that comes before the query is lost
            watched.connection.cancel()

    canceler = threading.Thread(target=cancel)
    canceler.start()
    try:
        records = watched.records(getattr(watched, protocol)("select pg_sleep(60)"), done.set)
    finally:
        done.set()
        canceler.join()
    assert records == [Record("select pg_sleep(60)", protocol, True)]


# pgbench

PGBENCH = r"""
\if :gate
select pg_advisory_lock_shared(7);
\set gate 0
\endif
\set value random(1, 1000)
select :value + 1;
"""
MODES = "simple", "extended", "prepared"


def waiting(connection: Connection) -> list[int]:
    """Backends that wait for an advisory lock."""
    rows = connection.execute(
        "select pid from pg_locks where locktype = 'advisory' and not granted"
    )
    return [row[0] for row in rows.fetchall()]


@pytest.fixture(scope="module")
def benches(
    cluster: PrivateCluster, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, captures.Backend]:
    """Three pgbench, whose first queries wait for a lock of ours until all are traced."""
    script = tmp_path_factory.mktemp("pgbench") / "script"
    script.write_text(PGBENCH)
    backends = {}
    with cluster.connect() as connection, ExitStack() as stack:
        connection.execute("select pg_advisory_lock(7)")
        started = {}
        for mode in MODES:
            options = f"-n -D gate=1 -M {mode} -c 1 -t {TRANSACTIONS} -f".split()
            pgbench = stack.enter_context(
                Child(
                    *cluster.command("pgbench", *options, "-"),  # its root may not be ours
                    stdin=stack.enter_context(script.open()),
                    stderr=subprocess.STDOUT,
                )
            )
            known = {pid for pid, _ in started.values()}
            (pid,) = wait_for(lambda known=known: set(waiting(connection)) - known)
            started[mode] = pid, pgbench
        tracer = Tracer(
            Target.of_pids([pid for pid, _ in started.values()]),
            TraceOptions(probe_type=PROBE_TYPE),
        )
        stack.callback(tracer.stop)
        connection.execute("select pg_advisory_unlock(7)")
        for _, pgbench in started.values():
            output = pgbench.ended().out
            assert f"actually processed: {TRANSACTIONS}/{TRANSACTIONS}" in output
        taken = tracer.stop()
        assert not anything_lost(taken), taken.lost
        for mode, (pid, _) in started.items():
            (backends[mode],) = (backend for backend in taken.backends if backend.pid == pid)
    return backends


@pytest.mark.real_time
@pytest.mark.parametrize("mode", MODES)
def test_pgbench(benches: dict[str, captures.Backend], mode: str) -> None:
    """Exactly its 500 queries, by their protocol, and the one that it waited in before."""
    lock, queries = sorted(benches[mode].queries, key=lambda query: query.calls)
    assert lock.text == "select pg_advisory_lock_shared($1)"
    assert (lock.begun_before, lock.calls, lock.errors) == (True, 1, 0)
    protocol = "simple" if mode == "simple" else "extended"
    assert (queries.protocol, queries.begun_before) == (protocol, False)
    assert (queries.calls, queries.errors, queries.latency.count) == (TRANSACTIONS, 0, TRANSACTIONS)


def test_queries_that_end_faster_than_they_are_handled_are_no_endless_work(
    cluster: PrivateCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = tmp_path / "script"
    script.write_text(PGBENCH)
    take, slow = LibbpfEngine._take_record, [True]

    def slowly(engine: LibbpfEngine, data: bytes) -> None:
        if slow:
            time.sleep(0.002)
        take(engine, data)

    monkeypatch.setattr(LibbpfEngine, "_take_record", slowly)
    monkeypatch.setattr(objects, "_AT_ONCE", 100)
    options = ["-n", "-D", "gate=1", "-c", "1", "-T", "600", "-f"]
    command = cluster.command("pgbench", *options, "-")
    with cluster.connect() as connection, ExitStack() as stack:
        connection.execute("select pg_advisory_lock(7)")
        pgbench = stack.enter_context(Child(*command, stdin=stack.enter_context(script.open())))
        (pid,) = wait_for(lambda: waiting(connection))
        tracer = Tracer(Target.find(pid), TraceOptions(probe_type=PROBE_TYPE, per_query=True))
        stack.callback(tracer.stop)
        connection.execute("select pg_advisory_unlock(7)")
        time.sleep(0.5)
        thread = threading.Thread(target=tracer.poll)
        thread.start()
        thread.join(20)
        ended = not thread.is_alive()
        slow.clear()
        pgbench.process.kill()  # without those that come, all comes to its end
        thread.join()
    assert ended


# One session from the midst of a query into another, traced twice at once


def by_key(reads: list[captures.Io]) -> dict[tuple[object, ...], tuple[int, ...]]:
    """Reads added up, so that lists of them can be compared."""
    sums: dict[tuple[object, ...], tuple[int, ...]] = {}
    for each in reads:
        key = each.scope, each.source, each.pattern, each.size, each.direct
        for low, high, count in each.latency.buckets:
            sums[*key, low, high] = (sums.get((*key, low, high), (0,))[0] + count,)
        old = sums.get(key, (0, 0, 0, 0))
        new = each.count, each.bytes, each.device_bytes, each.total_ns
        sums[key] = tuple(a + b for a, b in zip(old, new, strict=True))
    return sums


def count(reads: list[captures.Io]) -> int:
    return sum(each.count for each in reads)


def blocks(reads: list[captures.Io]) -> int:
    """From 17 on, one read may be of several."""
    return sum(each.blocks for each in reads)


def check_sums(taken: Capture) -> None:
    """The totals are the reads of queries and those outside, kind by kind, to the bucket."""
    (backend,) = taken.backends
    of_queries = [reads for query in backend.queries for reads in query.io]
    outside = [reads for reads in backend.io if reads.scope == "outside"]
    assert {reads.scope for reads in of_queries} <= {"query"}
    assert by_key(backend.io) == by_key([*of_queries, *outside])
    assert taken.totals["read"].count == count(backend.io)
    assert not anything_lost(taken), taken.lost


@contextmanager
def running(cluster: PrivateCluster, connection: Connection, *statement: Any) -> Iterator[Finish]:
    """Its backend in the midst of a statement that waits for advisory lock 7, until finished."""
    with cluster.connect() as other:
        other.execute("select pg_advisory_lock(7)")
        thread = threading.Thread(target=connection.execute, args=statement)
        thread.start()

        def finish() -> None:
            other.execute("select pg_advisory_unlock_all()")
            thread.join()

        try:
            wait_for(lambda: waiting(other))
            yield finish
        finally:
            finish()


def evict_catalogs(cluster: PrivateCluster) -> None:
    """Fill shared buffers with the table, so that a fresh backend must read catalogs again."""
    with cluster.connect() as connection:
        connection.execute("create extension if not exists pg_prewarm")
        connection.execute("checkpoint")
        connection.execute("select pg_prewarm('tbl_cost_align', 'buffer')")


LOCK = "select pg_advisory_xact_lock(7), 'secret 4711'"
LAST = "select pg_advisory_xact_lock(7), 'secret 4711', count(*) from pg_tables, pg_stats"
CUT = f"select 1 as one, 'secret 4711{'é' * 2000}'"
SECRET = b"secret"


class Session(NamedTuple):
    """What two tracers saw of it; times are those of the client's clock."""

    plain: Capture
    literals: Capture
    before_ns: int
    first_ended_ns: int
    steps: list[str]


@pytest.fixture(scope="module")
def session(cluster: PrivateCluster, engine: EngineName) -> Session:
    evict_catalogs(cluster)
    steps = []

    def step(text: str, *values: Any) -> None:
        connection.execute(text, *values)
        steps.append(text)

    with cluster.connect() as connection, ExitStack() as stack:
        finish = stack.enter_context(running(cluster, connection, LOCK))
        before = time.monotonic_ns()
        pid = connection.info.backend_pid
        literals = stack.enter_context(trace(pid, probe_type=PROBE_TYPE, literals=True))
        plain = stack.enter_context(trace(pid, probe_type=PROBE_TYPE))
        finish()
        first_ended = time.monotonic_ns()
        step("select 'secret', 4711008150, $$secret$$, E'secret' -- secret")
        step("select count(*), 'secret' from pg_stats where tablename = %s", ("x",))
        step("prepare one as select 'secret' from pg_locks")
        step("create role someone password 'secret'")
        step("drop role someone")
        connection.pgconn.prepare(b"two", b"select 'secret' from pg_stat_all_indexes, pg_views")
        connection.pgconn.exec_(b"select 'secret' / 0 from pg_user_mappings, pg_matviews")
        steps.append("select 'secret' / 0 from pg_user_mappings, pg_matviews")
        step(CUT)
        with connection.pipeline():
            for value in (1, 2, 3):
                step(f"select count(*), {value} from tbl_cost_align where id > %s", (1,))
        stack.enter_context(running(cluster, connection, LAST))
        return Session(plain.stop(), literals.stop(), before, first_ended, steps)


def of_text(taken: Capture, text: str) -> Query:
    (query,) = (query for query in own(taken) if query.text == text)
    return query


def test_session_has_each_query_once(session: Session) -> None:
    """The first, each step, and the last, which is no call yet; the prepare is none at all."""
    queries = own(session.literals)
    texts = [step.replace("%s", "$1") for step in session.steps]
    texts = [LOCK, *(CUT[:500] if text == CUT else text for text in texts), LAST]
    assert sorted((query.text or "")[:500] for query in queries) == sorted(t[:500] for t in texts)
    assert [query.calls for query in queries if not query.unfinished] == [1] * (len(texts) - 1)
    assert [query.text for query in queries if query.errors] == [
        "select 'secret' / 0 from pg_user_mappings, pg_matviews"
    ]


def test_query_that_runs_when_tracing_begins(session: Session) -> None:
    """One call, marked, with its text; its time counts from the start of tracing. What it began
    with was not seen, and nothing at its end tells one protocol from the other."""
    first = of_text(session.literals, LOCK)
    assert (first.protocol, first.begun_before, first.unfinished) == ("unknown", True, False)
    assert (first.calls, first.errors, first.latency.count) == (1, 0, 1)
    assert 0 < first.latency.sum <= session.first_ended_ns - session.before_ns
    assert [query.text for query in own(session.literals) if query.begun_before] == [LOCK]


def test_query_that_has_not_ended_when_tracing_does(session: Session) -> None:
    """It is there with its text; it is no call, and has no latency."""
    last = of_text(session.literals, LAST)
    assert (last.unfinished, last.begun_before) == (True, False)
    assert (last.calls, last.errors, last.latency.count) == (0, 0, 0)
    assert [query.text for query in own(session.literals) if query.unfinished] == [LAST]


def test_reads_of_a_session_add_up(session: Session) -> None:
    """To the bucket, with reads in many queries, and some of the prepare outside them."""
    for taken in session.plain, session.literals:
        check_sums(taken)
        assert sum(count(query.io) > 0 for query in own(taken)) >= 4
        assert count([r for r in taken.backends[0].io if r.scope == "outside"]) > 0


def test_two_tracers_of_one_backend_see_the_same(session: Session) -> None:
    """Their times differ by what the other costs; all that is counted is equal."""

    def counted(taken: Capture) -> dict[tuple[object, ...], tuple[int, ...]]:
        sums: dict[tuple[object, ...], tuple[int, ...]] = {}
        for query in own(taken):
            text = redact(query.text or "", query.text_cut)
            key = text, query.protocol, query.begun_before, query.unfinished
            new = query.calls, query.errors, query.latency.count, count(query.io)
            sums[key] = tuple(a + b for a, b in zip(sums.get(key, (0,) * 4), new, strict=True))
        return sums

    assert counted(session.plain) == counted(session.literals)
    assert session.plain.totals["read"].bytes == session.literals.totals["read"].bytes > 0


def test_literals_are_left_out_unless_asked_for(session: Session) -> None:
    """Of queries that were begun before, ended, failed, were cut within a literal, or still run."""
    plain, literals = encode(session.plain), encode(session.literals)
    assert SECRET not in plain
    assert b"4711008150" not in plain
    queries = json.loads(literals)["backends"][0]["queries"]
    assert sum("secret" in query["text"] for query in queries) == 8
    assert "select $1, $2, $3, $4" in [query.text for query in own(session.plain)]
    assert "select pg_advisory_xact_lock($1), $2" in [query.text for query in own(session.plain)]


def test_cut_text_ends_with_a_whole_character(session: Session) -> None:
    """1023 bytes are an odd number: half an é is left out."""
    (cut,) = (query for query in own(session.literals) if query.text_cut)
    assert cut.text == CUT.encode()[:1023].decode(errors="ignore")
    (redacted,) = (query for query in own(session.plain) if query.text_cut)
    assert redacted.text == "select $1 as one, …"


# Begun before, and outside


def test_extended_query_that_runs_when_tracing_begins(
    cluster: PrivateCluster, connection: Connection
) -> None:
    """Its protocol cannot be told any more; the next query is its own."""
    pid = connection.info.backend_pid
    with (
        running(cluster, connection, "select pg_advisory_xact_lock(%s)", (7,)) as finish,
        trace(pid, probe_type=PROBE_TYPE) as tracer,
    ):
        finish()
        connection.execute("select %s::int", (1,))
    first, second = sorted(own(tracer.capture()), key=lambda query: not query.begun_before)
    assert (first.text, first.protocol, first.begun_before) == (
        "select pg_advisory_xact_lock($1)",
        "unknown",
        True,
    )
    assert (first.calls, first.errors) == (1, 0)
    assert (second.text, second.protocol, second.begun_before) == (
        "select $1::int",
        "extended",
        False,
    )
    assert (second.calls, second.errors) == (1, 0)


def test_query_that_runs_when_tracing_begins_and_fails(
    cluster: PrivateCluster, connection: Connection
) -> None:
    statement = "select pg_advisory_xact_lock(7), 1/(random() * 0)::int"

    def execute() -> None:
        with pytest.raises(psycopg.errors.DivisionByZero):
            connection.execute(statement)

    with cluster.connect() as other:
        other.execute("select pg_advisory_lock(7)")
        thread = threading.Thread(target=execute)
        thread.start()
        wait_for(lambda: waiting(other))
        with trace(connection.info.backend_pid, probe_type=PROBE_TYPE, literals=True) as tracer:
            other.execute("select pg_advisory_unlock(7)")
            thread.join()
    (query,) = own(tracer.capture())
    assert (query.text, query.begun_before) == (statement, True)
    assert (query.calls, query.errors) == (1, 1)


def test_query_that_runs_through_the_whole_of_tracing(
    cluster: PrivateCluster, connection: Connection
) -> None:
    """Its text is read from the process, as long as any other, and marked where it is cut."""
    statement = f"select pg_advisory_xact_lock(7) -- {'x' * 2000}"
    pid = connection.info.backend_pid
    with running(cluster, connection, statement), trace(pid, probe_type=PROBE_TYPE) as tracer:
        taken = tracer.stop()
    (query,) = own(taken)
    assert (query.text, query.text_cut) == ("select pg_advisory_xact_lock($1) …", True)
    assert (query.unfinished, query.begun_before, query.calls) == (True, True, 0)


def test_idle_backend_has_no_query_begun_before(connection: Connection) -> None:
    """Nor if its first message is no query, so that it is reported idle a second time."""
    connection.execute("begin")
    with trace(connection.info.backend_pid, probe_type=PROBE_TYPE) as tracer:
        assert own(tracer.capture()) == []
        connection.pgconn.enter_pipeline_mode()
        connection.pgconn.pipeline_sync()
        assert connection.pgconn.get_result() is not None
        connection.pgconn.exit_pipeline_mode()
        connection.execute("select 1")
    (query,) = own(tracer.capture())
    assert (query.text, query.begun_before, query.calls) == ("select $1", False, 1)


def test_large_objects_are_no_queries(cluster: PrivateCluster, tmp_path: Path) -> None:
    """Function call messages have no text; what they read is outside queries."""
    file = tmp_path / "large"
    file.write_bytes(bytes(100_000))
    with cluster.connect() as other, ExitStack() as stack:
        other.execute("select pg_advisory_lock(7)")
        psql = stack.enter_context(
            Child(
                find_bindir() / "psql", "-X", "-c", "select pg_advisory_lock(7)",
                "-c", rf"\lo_import {file}", cluster.dsn(),
            )
        )  # fmt: skip
        (pid,) = wait_for(lambda: waiting(other))
        with trace(pid, probe_type=PROBE_TYPE, literals=True) as tracer:
            other.execute("select pg_advisory_unlock(7)")
            assert psql.ended().code == 0
    lookup, *queries = sorted(own(tracer.capture()), key=lambda query: -len(query.text or ""))
    assert lookup.text is not None and "pg_catalog.pg_proc" in lookup.text
    assert {(query.text, query.calls) for query in queries} == {
        ("select pg_advisory_lock(7)", 1),
        ("BEGIN", 1),
        ("COMMIT", 1),
    }


def test_backend_that_is_terminated_in_its_query(
    cluster: PrivateCluster, connection: Connection
) -> None:
    """It never says that the query ended. To the client it failed, and it is in the file so."""

    def execute() -> None:
        with pytest.raises(psycopg.OperationalError):
            connection.execute("select pg_sleep(60)")

    pid = connection.info.backend_pid
    with trace(pid, probe_type=PROBE_TYPE) as tracer:
        thread = threading.Thread(target=execute)
        thread.start()
        wait_for(lambda: tracer.account().running)
        with cluster.connect() as other:
            other.execute("select pg_terminate_backend(%s)", (pid,))
        thread.join()
        wait_until_gone(pid)
    taken = tracer.capture()
    (query,) = own(taken)
    assert (query.text, query.unfinished) == ("select pg_sleep($1)", False)
    assert (query.calls, query.errors, query.latency.count) == (1, 1, 1)
    assert 0 < query.latency.sum <= taken.duration_s * 1e9


# Reads


def test_reads_are_in_the_query_that_made_them(connection: Connection) -> None:
    """A temporary table that is larger than its buffers is read again by each of two scans."""
    connection.execute("set temp_buffers = '800kB'")
    connection.execute("create temp table big as select * from tbl_cost_align")
    row = connection.execute("select pg_relation_size('big') / 8192").fetchone()
    assert row is not None
    with trace(connection.info.backend_pid, probe_type=PROBE_TYPE, literals=True) as tracer:
        for text in "select 1", "select count(*) from big", "select 2":
            connection.pgconn.exec_(text.encode())
            connection.pgconn.exec_params(text.encode(), None)
    taken = tracer.capture()
    found = {(query.text, query.protocol): blocks(query.io) for query in own(taken)}
    assert len(found) == 6
    for (text, _), reads in found.items():
        if text == "select count(*) from big":
            assert row[0] - 100 <= reads <= row[0] + 16
        else:
            assert reads == 0
    check_sums(taken)


def test_reads_of_a_prepare_are_outside(cluster: PrivateCluster) -> None:
    evict_catalogs(cluster)
    with cluster.connect() as fresh, trace(fresh.info.backend_pid, probe_type=PROBE_TYPE) as tracer:
        fresh.pgconn.prepare(b"one", b"select * from pg_stats, pg_locks, tbl_cost_align")
        fresh.pgconn.exec_(b"select 1")
    taken = tracer.capture()
    (query,) = own(taken)
    assert (query.text, query.calls, count(query.io)) == ("select $1", 1, 0)
    assert taken.totals["read"].count > 0
    assert {reads.scope for reads in taken.backends[0].io} == {"outside"}
    check_sums(taken)


# Text


@pytest.mark.parametrize("protocol", ["simple", "extended"])
@pytest.mark.parametrize(
    ("length", "cut"), [(1022, False), (1023, False), (1024, True), (9000, True)]
)
def test_text_is_cut_at_one_kibibyte_and_marked(
    watched: Watched, protocol: str, length: int, cut: bool
) -> None:
    text = f"select '{'x' * (length - 9)}'"
    (event,) = watched.events(getattr(watched, protocol)(text))
    assert (event.text.decode(), event.text_cut) == (text[:1023], cut)


def test_text_that_is_no_utf8(
    cluster: PrivateCluster, connection: Connection, capsys: pytest.CaptureFixture[str]
) -> None:
    """Of other encodings: shown byte by byte, escaped; and the file stays JSON in UTF-8."""
    text = b"select 'secret\xe9' as caf\xe9, $\xe9$secret$\xe9$, e'\\'secret\xff'"
    with ExitStack() as stack:
        clients = []
        for encoding in "LATIN1", "SQL_ASCII":
            name = f"in_{encoding.lower()}"
            connection.execute(f"create database {name} encoding '{encoding}' template template0")
            stack.callback(connection.execute, f"drop database {name}")
            clients.append(stack.enter_context(cluster.connect(dbname=name)))
            clients[-1].execute(f"set client_encoding = '{encoding}'")
        pids = [client.info.backend_pid for client in clients]
        tracer = Tracer(Target.of_pids(pids), TraceOptions(probe_type=PROBE_TYPE, per_query=True))
        stack.callback(tracer.stop)
        for client in clients:
            result = client.pgconn.exec_(text)
            assert result.status == pq.ExecStatus.TUPLES_OK, result.error_message
        taken = tracer.stop()
        live_screen.TextScreen(tracer, 60, per_query=True).end("signal")
    assert capsys.readouterr().out.count(r"select 'secret\xe9' as caf\xe9, ") == 2
    texts = [query.text for backend in taken.backends for query in backend.queries]
    assert texts == [r"select $1 as caf\xe9, $2, $3"] * 2
    data = encode(taken)
    assert SECRET not in data
    assert json.loads(data.decode())["backends"][0]["queries"][0]["text"] == texts[0]


@pytest.mark.parametrize("summed_up", [False, True])
def test_what_acts_on_a_terminal_is_shown_escaped(
    watched: Watched, capsys: pytest.CaptureFixture[str], summed_up: bool
) -> None:
    """Clearing the screen, setting the title, overriding the direction of writing."""
    text = "select '\x1b[2J\x1b]0;title\x07\x9b31m\r\u202e' as \"a\x1b[31mb\u202e\"\n, 1"
    screen = live_screen.TextScreen(watched.tracer, 60, per_query=not summed_up)
    for _ in range(20):
        watched.simple(text)()
    shown = ""

    def look() -> bool:
        nonlocal shown
        screen.tick()
        shown += capsys.readouterr().out
        alone = len(re.findall(r"▶ [\d:]+  select '\\", shown))
        together = sum(map(int, re.findall(r"(\d+) calls? ", shown)))
        return alone + together >= 20 and (together > 0) == summed_up

    wait_for(look)
    assert not set(shown) & set("\x1b\x07\x9b\r\u202e")
    literal = r"'\x1b[2J\x1b]0;title\x07\x9b31m\x0d\u202e'"
    rest = r'as "a\x1b[31mb\u202e" , '
    unbroken = " ".join(shown.split())
    assert f"select {literal} {rest}1" in unbroken
    if summed_up:
        assert f"select $1 {rest}$2" in unbroken
