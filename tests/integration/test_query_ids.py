"""The full tier's query ids: from the memory of backends once it is known where, else by a probe.

Both are held against each other: what follows is run under one tracer of each kind at a time.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
import pytest

from child import wait_for
from fix_cluster import Connection, Server
from pgtrace.engines import ProbeType, layout
from pgtrace.engines.libbpf_engine import LibbpfEngine
from pgtrace.engines.query_ids import QueryIds
from pgtrace.lab.core.private_cluster import PrivateCluster
from pgtrace.model.capture import Capture
from pgtrace.tracing.tracer import Tracer, trace

PROBE_TYPE: ProbeType = "tracepoint"
WITHIN_S = 20.0
SMALL = {"shared_buffers": "1MB", "max_wal_senders": 0, "compute_query_id": "on"}
SAMPLE = "select $1 as sample"
Told = dict[tuple[str | None, str], tuple[int | None, int, int, bool]]
"""By text and protocol: query id, calls, errors, and whether anything was read: how much differs
with what buffers have."""


def ids_of(tracer: Tracer) -> QueryIds:
    assert isinstance(tracer.engine, LibbpfEngine)
    assert tracer.engine._query_ids
    return tracer.engine._query_ids


def has_probe(tracer: Tracer) -> bool:
    """Whether any is left that tells ids."""
    binaries = ids_of(tracer)._binaries.values()
    assert binaries
    return any(each.links for each in binaries)


@contextmanager
def knowing(pid: int, connection: Connection, **options: Any) -> Iterator[Tracer]:
    """A tracer that knows where ids are."""
    with trace(pid, probe_type=PROBE_TYPE, queries="full", **options) as tracer:
        end = time.monotonic() + WITHIN_S
        while has_probe(tracer):
            assert time.monotonic() < end
            connection.execute("select 1 as sample", prepare=False)
            time.sleep(0.02)
        yield tracer


def told(taken: Capture, pid: int) -> Told:
    assert taken.partial == []
    (backend,) = (each for each in taken.backends if each.pid == pid)
    return {
        (query.text, query.protocol): (
            query.query_id,
            query.calls or 0,
            query.errors or 0,
        )
        for query in backend.queries
        if query.text != SAMPLE
    }


def statements(connection: Connection) -> None:
    """Of all kinds that begin, end and fail in their own ways."""
    server = connection.pgconn
    for i in range(3):
        server.exec_(b"select count(*) from tbl_cost_align where id <> %d" % i)
        server.exec_params(b"select count(*) from tbl_cost_align where id > $1", [b"%d" % i])
    server.prepare(b"kept", b"select max(id) from tbl_cost_align where id < $1")
    server.exec_prepared(b"kept", [b"7"])
    server.exec_prepared(b"kept", [b"seven"])  # fails while it is bound
    server.exec_(b"select 1; select count(*) from tbl_cost_align where id = 5")
    server.exec_(b"select 2; select 1 / 0")
    server.exec_(b"select 1 / 0")
    server.exec_params(b"select 1 / $1::int", [b"0"])
    server.exec_(b"selec")
    server.exec_(b"begin")
    server.exec_(b"selec in it")
    server.exec_(b"select 'after a failure'")
    server.exec_(b"rollback")
    server.exec_(b"")
    server.exec_(b"do $$ begin perform count(*) from tbl_cost_align; end $$")
    server.exec_(b"create table if not exists changed (id int)")
    server.exec_(b"insert into changed select generate_series(1, 5)")
    server.exec_(b"update changed set id = id + 1")
    server.exec_params(b"update changed set id = id + $1", [b"1"])
    server.exec_(b"insert into changed values (1); delete from changed")
    server.exec_(b"begin; declare c cursor for select id from tbl_cost_align; fetch 10 from c; end")


def parallel(connection: Connection) -> None:
    """Workers ask for their leader's statement when they first read."""
    for setting in ("parallel_setup_cost = 0", "parallel_tuple_cost = 0"):
        connection.execute(f"set {setting}")
    connection.execute("set min_parallel_table_scan_size = 0")
    for _ in range(3):
        connection.pgconn.exec_(b"select sum(id) from tbl_cost_align")


@pytest.mark.parametrize("run", [statements, parallel], ids=["statements", "parallel"])
@pytest.mark.parametrize("each", [False, True], ids=["sums", "each"])
def test_memory_tells_what_the_probe_tells(
    server: Server,
    run: Callable[[Connection], None],
    each: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """`each`: as `attach` has it, each query by itself."""
    small = server(**SMALL)
    with small.connect() as connection:
        pid = connection.info.backend_pid
        run(connection)  # what is read once of catalogs
        with knowing(pid, connection, per_query=each) as tracer:
            run(connection)
        by_memory = told(tracer.capture(), pid)
        monkeypatch.setattr(QueryIds, "look", lambda _: None)
        with trace(pid, probe_type=PROBE_TYPE, queries="full", per_query=each) as tracer:
            run(connection)
            assert has_probe(tracer)
        by_probe = told(tracer.capture(), pid)
    assert by_memory == by_probe
    assert any(query_id for query_id, _, _ in by_memory.values())


def test_a_statement_that_runs_another_is_told_by_its_text(server: Server) -> None:
    """EXECUTE runs a portal within one, as several statements of a query run several."""
    small = server(**SMALL)
    with small.connect() as connection:
        pid = connection.info.backend_pid
        connection.execute("prepare named as select count(*) from tbl_cost_align where id > $1")
        with knowing(pid, connection) as tracer:
            connection.pgconn.exec_(b"execute named(5)")
    ((query_id, calls, _),) = told(tracer.capture(), pid).values()
    assert (query_id, calls) == (None, 1)


def test_the_id_of_a_query_that_runs(server: Server) -> None:
    small = server(**SMALL)
    with small.connect() as connection, small.connect() as observer:
        pid = connection.info.backend_pid
        with knowing(pid, connection) as tracer:
            connection.pgconn.send_query(b"select count(*), pg_sleep(30) from tbl_cost_align")
            assert isinstance(tracer.engine, LibbpfEngine)
            ((serial, _, _),) = (each for each in tracer.engine.serials() if each[1] == pid)

            def shown() -> int:
                running = tracer.engine.running(serial)
                return running.query_id if running and b"pg_sleep" in running.text else 0

            wait_for(shown, WITHIN_S)
            expected = observer.execute(
                "select query_id from pg_stat_activity where pid = %s", (pid,)
            ).fetchone()
            assert expected == (shown(),)
            observer.execute("select pg_cancel_backend(%s)", (pid,))
            while connection.pgconn.get_result():
                pass


def with_track_activities_off(small: PrivateCluster) -> Connection:
    connection = small.connect()
    connection.execute("set track_activities = off")
    return connection


def test_without_memory_the_probe_stays(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """With track_activities = off it shows no id; or one is found at two places."""
    small = server(**SMALL)
    with with_track_activities_off(small) as connection:
        pid = connection.info.backend_pid
        with trace(pid, probe_type=PROBE_TYPE, queries="full") as tracer:
            for _ in range(200):
                connection.execute("select 'seen by the probe'", prepare=False)
                time.sleep(0.002)
            assert has_probe(tracer)
        found = told(tracer.capture(), pid)
    assert [bool(query_id) for query_id, _, _ in found.values()] == [True] * len(found)
    take = QueryIds.take

    def twice(self: QueryIds, data: bytes) -> None:
        sample = layout.Sample.from_buffer_copy(data)
        sample.entry[40:48] = list(sample.argument.to_bytes(8, "little"))
        take(self, bytes(sample))

    monkeypatch.setattr(QueryIds, "take", twice)
    with small.connect() as connection:
        pid = connection.info.backend_pid
        with trace(pid, probe_type=PROBE_TYPE, queries="full") as tracer:
            (each,) = ids_of(tracer)._binaries.values()
            (votes,) = each.votes.values()
            end = time.monotonic() + WITHIN_S
            while not votes.failure():
                assert time.monotonic() < end
                connection.execute("select 'seen by the probe'", prepare=False)
                time.sleep(0.005)
            assert votes.failure() == "at two places or more" and has_probe(tracer)
            connection.execute("select 'seen by the probe'", prepare=False)
        ((query_id, _, _),) = told(tracer.capture(), pid).values()
    assert query_id


def test_a_server_that_is_started_again(server: Server) -> None:
    """Where ids are is known of its binary already: no probe comes back."""
    small = server(**SMALL)
    with small.connect() as connection, knowing(small.postmaster_pid, connection) as tracer:
        connection.close()
        small.restart()
        with small.connect() as again:
            pid = again.info.backend_pid
            plan = again.execute("explain (verbose, format json) select count(*) from pg_class")
            expected = plan.fetchall()[0][0][0]["Query Identifier"]

            def is_seen() -> bool:
                again.execute("select count(*) from pg_class", prepare=False)
                backends = [each for each in tracer.capture().backends if each.pid == pid]
                found = [query for each in backends for query in each.queries]
                return expected in {query.query_id for query in found}

            wait_for(is_seen, WITHIN_S)
        assert not has_probe(tracer)


def test_a_syntax_error_has_none(server: Server) -> None:
    """The entry is reset when a query begins: what it shows is not the last one's."""
    small = server(**SMALL)
    with small.connect() as connection:
        pid = connection.info.backend_pid
        with knowing(pid, connection) as tracer:
            connection.execute("select 'before it'", prepare=False)
            with pytest.raises(psycopg.errors.SyntaxError):
                connection.execute("selec")
    found = told(tracer.capture(), pid)
    assert {query_id for (text, _), (query_id, _, _) in found.items() if text == "selec"} == {None}
