"""Statements are added up in the kernel: by query id or by text, within a fixed number."""

import os
import random
import re
import signal
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import psycopg
import pytest

from child import wait_for
from fix_cluster import Connection
from pgtrace.engines import ProbeType, layout
from pgtrace.engines.libbpf_engine import LibbpfEngine
from pgtrace.lab.core.private_cluster import PrivateCluster
from pgtrace.model.capture import Capture, Query
from pgtrace.postgres.statement_hash import text_hash
from pgtrace.reporters.terminal import capture_report as report
from pgtrace.tracing.tracer import Tracer, trace
from pgtrace_command import Pgtrace

PROBE_TYPE: ProbeType = "tracepoint"
MANY = 20_000
ROOM = 5_000


def named(taken: Capture) -> dict[str | None, Query]:
    (backend,) = taken.backends
    return {query.text: query for query in backend.queries}


def hashes(tracer: Tracer) -> dict[bytes, int]:
    """What the kernel made of each text."""
    engine = tracer.engine
    assert isinstance(engine, LibbpfEngine)
    table = engine._statements
    found = {}
    for indexes in table.of([serial for serial, _, _ in engine.serials()]).values():
        for one in map(table._at, indexes):
            text = bytes(one)[layout.Statement.text.offset :][: one.text_length]
            found[text] = one.key.id
    return found


def texts() -> Iterator[str]:
    """Of each character that the hash looks at, in all neighbourhoods."""
    yield from (
        "select 1",
        "select 'it''s', 12.5, a1b2 from (values (1, 2, 3)) as v(a1b2, c, d)",
        "select 1 -- it's",
        "select /* it's */ 1",
        'select 1 as "it\'s"',
        "select $a$it's$a$",
        "select e'it\\'s'",
        "select 1.5e10, 1e-3, 'ä', 'é' as ü1",
        "select '" + "x" * 1500 + "'",
        r"select 'a\' || 'b' || 'c\'d'",
        "select 1 /* " + "x" * 1500,
        "select 1 " + " " * 1100 + "+ 2",
    )
    chance = random.Random(11)
    for _ in range(300):
        yield "select 1 " + "".join(chance.choices("a1_.' 2-*/", k=chance.randint(1, 130)))
        yield "select 1 " + "".join(chance.choices("eux.'\"$\\\n -1&*/", k=chance.randint(1, 130)))


def test_the_kernel_hashes_texts_as_python_does(cluster: PrivateCluster) -> None:
    """Also those that are no SQL: errors are calls, too."""
    with (
        cluster.connect() as connection,
        trace(connection.info.backend_pid, probe_type=PROBE_TYPE) as tracer,
    ):
        for text in texts():
            connection.pgconn.exec_(text.encode())
        found = hashes(tracer)
    assert len(found) > 200
    assert found == {text: text_hash(text, len(text) == layout.TEXT - 1) for text in found}


def test_literals_do_not_make_statements(cluster: PrivateCluster) -> None:
    """A thousand texts that differ in a number and a string are one."""
    with (
        cluster.connect() as connection,
        trace(connection.info.backend_pid, probe_type=PROBE_TYPE, most_statements=3) as tracer,
    ):
        for i in range(1000):
            connection.pgconn.exec_(f"select {i}, 'it is {i}'".encode())
    query = named(tracer.capture())["select $1, $2"]
    assert query.calls == query.latency.count == 1000
    assert query.query_id is None and query.text_hash is not None
    assert tracer.capture().probes.no_query_ids


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        (
            'select "Person"."id" from (values (1)) as "Person" ("id") where "Person"."id" = {}',
            'select "Person"."id" from (values ($1)) as "Person" ("id") where "Person"."id" = $2',
        ),
        ("select 1 /*traceparent='00-{0}-{0}-01'*/", "select $1"),
        ("/* {} /* it is */ */ select 1 -- {}\n;", "select $1"),
        ("/* {} /* it's */ */ select 1 -- {}\n;", "<unparsed ...>"),
        ("select $tag$ {} $$ ' $tag$, E'it\\'s {}'", "select $1, $2"),
        ("set my.token to 'x{}'", "set my.token to $1"),
    ],
)
@pytest.mark.parametrize("protocol", ["simple", "extended"])
def test_a_thousand_calls_of_a_statement_are_one(
    cluster: PrivateCluster, text: str, shown: str, protocol: str
) -> None:
    """What tells them apart is in literals and comments: they leave room for the others."""
    with (
        cluster.connect() as connection,
        trace(connection.info.backend_pid, probe_type=PROBE_TYPE, most_statements=3) as tracer,
    ):
        server = connection.pgconn
        execute = (
            server.exec_ if protocol == "simple" else partial(server.exec_params, param_values=[])
        )
        for i in range(1000):
            execute(text.replace("{}", str(i)).replace("{0}", str(i)).encode())
        server.exec_(b"select 'another' as one")
    queries = named(tracer.capture())
    seen = [(re.sub(r"(?<=^<unparsed )\w+", "...", text), q.calls) for text, q in queries.items()]
    assert sorted(seen) == sorted([(shown, 1000), ("select $1 as one", 1)])


def test_the_hash_of_a_text_does_not_tell_its_literals(cluster: PrivateCluster) -> None:
    """Also of a text whose literals the kernel does not leave out."""
    secrets = ("12345", "password")
    with (
        cluster.connect() as connection,
        trace(connection.info.backend_pid, probe_type=PROBE_TYPE, literals=True) as tracer,
    ):
        for secret in secrets:
            connection.pgconn.exec_(f"select 1 as \"one\", '{secret}'".encode())
    queries = named(tracer.capture())
    first, second = (queries[f"select 1 as \"one\", '{secret}'"].text_hash for secret in secrets)
    assert first is not None and first == second


def distinct(i: int) -> bytes:
    letters = "".join(chr(ord("a") + int(digit)) for digit in str(i))
    return f"select count(*) as {letters}x from pg_class where oid = 1".encode()


def test_totals_are_exact_with_more_statements_than_room(cluster: PrivateCluster) -> None:
    """20,000 distinct ones and room for 5,000: the rest is one, with all its calls and reads."""
    with (
        cluster.connect() as connection,
        trace(connection.info.backend_pid, probe_type=PROBE_TYPE, most_statements=ROOM) as tracer,
    ):
        for i in range(MANY):
            connection.pgconn.exec_(distinct(i))
    taken = tracer.capture()
    queries = named(taken)
    assert taken.lost.read == taken.lost.queries == 0
    assert sum(query.calls for query in queries.values()) == MANY
    assert sum(query.latency.count for query in queries.values()) == MANY
    assert queries[None].calls == taken.lost.statements == MANY - ROOM
    assert "Lost: the statements of 15,000 calls, which are counted without" in report.render(taken)
    assert "raise --max-statements." in report.render(taken)
    assert sum(query.calls == 1 for query in queries.values()) >= ROOM - 1
    inside = sum(r.count for r in taken.backends[0].io if r.scope == "query")
    assert inside == sum(r.count for query in queries.values() for r in query.io)


def test_as_many_statements_as_were_asked_for_have_a_name(cluster: PrivateCluster) -> None:
    """Also beyond what user space keeps otherwise."""
    with (
        cluster.connect() as connection,
        trace(
            connection.info.backend_pid, probe_type=PROBE_TYPE, most_statements=2 * ROOM
        ) as tracer,
    ):
        for i in range(ROOM + 500):
            connection.pgconn.exec_(distinct(i))
    taken = tracer.capture()
    assert taken.lost.statements == 0
    assert len(named(taken)) == ROOM + 500


def test_that_there_is_no_room_is_said_at_once_and_in_the_end(cluster: PrivateCluster) -> None:
    with cluster.connect() as connection:
        pid = connection.info.backend_pid
        with Pgtrace("capture", pid, "--max-statements", 3, "--strict").attached() as command:
            for i in range(10):
                connection.pgconn.exec_(distinct(i))
            command.wait_for("no room for more statements")
            end = command.stop()
    assert end.code == 6
    assert "7 calls lost their statement (--max-statements)" in end.err
    assert "Lost: the statements of 7 calls" in end.out


def test_who_wakes_before_its_first_query_takes_no_statements_place(
    cluster: PrivateCluster,
) -> None:
    """By a signal, as all do at times: its time is outside queries."""
    with cluster.connect() as connection:
        pid = connection.info.backend_pid
        with trace(pid, probe_type=PROBE_TYPE, most_statements=2, times=True) as tracer:
            woken = switches(pid)
            os.kill(pid, signal.SIGUSR1)
            wait_for(lambda: switches(pid) > woken)
            connection.pgconn.exec_(distinct(1))
            connection.pgconn.exec_(distinct(2))
        taken = tracer.capture()
    assert taken.lost.statements == 0
    assert {text: query.calls for text, query in named(taken).items()} == {
        f"select count(*) as {name}x from pg_class where oid = $1": 1 for name in "bc"
    }


def switches(pid: int) -> int:
    """How often it has left a CPU by itself."""
    (line,) = re.findall(r"^voluntary.*\t(\d+)$", Path(f"/proc/{pid}/status").read_text(), re.M)
    return int(line)


def test_statements_and_records_say_the_same(cluster: PrivateCluster) -> None:
    """Two tracers of one backend: one adds up in the kernel, one hands over each query."""
    with cluster.connect() as connection:
        pid = connection.info.backend_pid
        with (
            trace(pid, probe_type=PROBE_TYPE, literals=True, per_query=True) as records,
            trace(pid, probe_type=PROBE_TYPE, literals=True) as sums,
        ):
            work(connection)
    for measure in (calls, reads):
        assert measure(sums.capture()) == measure(records.capture())
    assert reads(sums.capture())


def work(connection: Connection) -> None:
    """Each kind of query, with reads before the plan, in the plan, and of a prepare alone."""
    server = connection.pgconn
    for text in (
        "create table if not exists mixed as select i, repeat('x', 500) t from "
        "generate_series(1, 5000) i",
        "select count(*) from mixed",
        "select 1; select count(*) from mixed; select 2",
        "",
        "select 1/0",
        "selec",
        "begin; insert into mixed values (1, 'y'); rollback",
        "do $$ begin perform 1/0; exception when others then null; end $$",
    ):
        server.exec_(text.encode())
    for text in ("select count(*) from mixed where i < $1", "select 1/$1::int", ""):
        server.exec_params(text.encode(), [b"0"] if "$" in text else [])
    server.prepare(b"one", b"select relname from pg_class where relkind = $1")
    for _ in range(3):
        server.exec_prepared(b"one", [b"r"])
    with connection.pipeline():
        for i in range(3):
            connection.execute("select %s::int", (i,))


def calls(taken: Capture) -> Counter[tuple[object, ...]]:
    (backend,) = taken.backends
    found: Counter[tuple[object, ...]] = Counter()
    for query in backend.queries:
        for what in ("calls", "errors"):
            found[query.text, query.protocol, what] += getattr(query, what)
    return found


def reads(taken: Capture) -> Counter[tuple[object, ...]]:
    """What two tracers must agree in: not when a read was served by what."""
    (backend,) = taken.backends
    found: Counter[tuple[object, ...]] = Counter()
    for text, each in [
        *((None, r) for r in backend.io),
        *((query.text, r) for query in backend.queries for r in query.io),
    ]:
        found[text, each.scope, each.kind, each.size, "count"] += each.count
        found[text, each.scope, each.kind, each.size, "bytes"] += each.bytes
    return found


@pytest.fixture(scope="module")
def computing(server: Callable[..., PrivateCluster]) -> PrivateCluster:
    """A server that computes query ids."""
    return server(compute_query_id="on")


def test_the_servers_query_ids(computing: PrivateCluster) -> None:
    """As EXPLAIN shows them; of statements in one query none is the query's."""
    with computing.connect() as connection:
        connection.execute("create table t as select i from generate_series(1, 1000) i")
        plan = connection.execute("explain (verbose, format json) select i from t where i = 5")
        (row,) = plan.fetchall()
        expected = row[0][0]["Query Identifier"]
        with trace(connection.info.backend_pid, probe_type=PROBE_TYPE) as tracer:
            for i in range(10):
                connection.pgconn.exec_(f"select i from t where i = {i}".encode())
            connection.pgconn.exec_params(b"select i from t where i = $1", [b"1"])
            connection.pgconn.exec_(b"select 1; select i from t where i = 5")
            with pytest.raises(psycopg.errors.SyntaxError):
                connection.execute("selec")
    taken = tracer.capture()
    found = {(query.text, query.protocol): query for query in taken.backends[0].queries}
    assert taken.probes.no_query_ids is None
    simple = found["select i from t where i = $1", "simple"]
    assert (simple.query_id, simple.calls) == (expected, 10)
    parameter = found["select i from t where i = $1", "extended"]
    assert parameter.query_id not in {None, expected}, "a parameter is no constant to the server"
    both = found["select $1; select i from t where i = $2", "simple"]
    assert (both.query_id, both.calls) == (None, 1) and both.text_hash
    assert found["selec", "simple"].query_id is None
