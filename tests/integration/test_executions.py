"""Calls of statements in the light tier, which has no probe that could count them: by
pg_stat_statements, held against the calls that the full tier counts.
"""

import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from test_light import calibrate

import html_page
from copied_cluster import CopiedCluster
from fix_cluster import Connection, bindir
from fix_markers import PG_VERSION
from pgtrace.engines import ProbeType
from pgtrace.files.documents import load
from pgtrace.lab.core.private_cluster import PrivateCluster
from pgtrace.model.capture import Capture
from pgtrace.model.encoding import encode
from pgtrace.tracing.tracer import Tracer, trace
from pgtrace_command import PATIENT, Pgtrace, patched, run

pytestmark = pytest.mark.usefixtures("patient")

PROBE_TYPE: ProbeType = "tracepoint"
SETTINGS = {
    "shared_preload_libraries": "pg_stat_statements",
    "shared_buffers": "1MB",
    "max_wal_senders": 0,
    "fsync": False,
    "max_parallel_workers_per_gather": 0,
}
LARGE = "select count(*) from tbl_cost_align"


@pytest.fixture(scope="module")
def server(disk_directory: Path) -> Iterator[PrivateCluster]:
    """With so few buffers that each scan reads."""
    options: dict[str, Any] = {"bindir": bindir(PG_VERSION), "directory": disk_directory}
    with CopiedCluster(SETTINGS, table=True, **options) as server:
        with server.connect() as connection:
            connection.execute("create schema elsewhere")
            connection.execute("create extension pg_stat_statements schema elsewhere")
            connection.execute("create role poor login")
            connection.execute("grant usage on schema elsewhere to poor")
            connection.execute("create role poorer login")
            connection.execute("create database bare")
        yield server


@contextmanager
def light(server: PrivateCluster, **dsn: str) -> Iterator[Tracer]:
    """The light tier, once the first look at the server is over."""
    with trace(
        server.postmaster_pid, probe_type=PROBE_TYPE, queries="light", dsn=server.dsn(**dsn)
    ) as tracer:
        assert tracer.names
        tracer.names.require()
        yield tracer


def scan(connection: Connection, times: int, column: str = "*") -> None:
    for _ in range(times):
        connection.execute(f"select count({column}) from tbl_cost_align", prepare=False)


def calls(taken: Capture) -> Counter[int]:
    """By query id, as the full tier has counted them, of statements that read."""
    found: Counter[int] = Counter()
    for query in (query for backend in taken.backends for query in backend.queries):
        if query.query_id and query.calls and query.io:
            found[query.query_id] += query.calls
    return found


def test_calls_are_those_that_the_full_tier_counts(server: PrivateCluster) -> None:
    with server.connect() as one, server.connect() as two:
        scan(one, 2)  # before
        with (
            trace(server.postmaster_pid, probe_type=PROBE_TYPE) as full,
            light(server) as tracer,
        ):
            scan(one, 3)
            scan(two, 4)
            scan(two, 2, "id")
        taken, whole = tracer.capture(), full.capture()
    known = calls(whole)
    found = {each.query_id: each.calls for each in taken.executions}
    assert sorted(found.values()) == [2, 7]
    assert found.items() <= known.items()
    assert taken.probes.no_calls is None
    latencies: Counter[int] = Counter()
    for query in (query for backend in whole.backends for query in backend.queries):
        latencies[query.query_id or 0] += query.latency.sum if query.latency else 0
    for each in taken.executions:
        assert 0 < each.total_ns < latencies[each.query_id]
        assert each.total_ns > latencies[each.query_id] / 2  # it scans, and is planned in no time


@pytest.mark.parametrize(
    ("dsn", "said"),
    [
        ({"dbname": "bare"}, "pg_stat_statements is not in the connection's database"),
        ({"user": "poorer"}, "pg_stat_statements: permission denied for schema elsewhere"),
        ({"user": "poor"}, "the role may not see those of others: grant it pg_read_all_stats"),
    ],
)
def test_why_there_are_no_calls_is_said(
    server: PrivateCluster, dsn: dict[str, str], said: str
) -> None:
    with server.connect() as connection, light(server, **dsn) as tracer:
        calibrate(tracer, connection)
        scan(connection, 1)
    taken = tracer.capture()
    assert (taken.executions, taken.probes.no_calls) == ([], said)
    assert taken.probes.not_measured == []


def test_a_view_of_somebody_else_is_not_asked(server: PrivateCluster) -> None:
    """Where the extension is older than its own, its functions would run as a superuser."""
    with server.connect(dbname="bare") as connection:
        connection.execute("create extension pg_stat_statements version '1.8'")
        connection.execute("grant create on schema public to poor")
        connection.execute("set role poor")
        connection.execute(
            "create function public.attack() returns timestamptz language plpgsql as"
            " $$ begin raise 'ran as %', current_user; end $$"
        )
        connection.execute(
            "create view public.pg_stat_statements_info as"
            " select public.attack() as stats_reset, 0::bigint as dealloc"
        )
    try:
        with server.connect() as connection, light(server, dbname="bare") as tracer:
            scan(connection, 1)
        said = tracer.capture().probes.no_calls
    finally:
        with server.connect(dbname="bare") as connection:
            connection.execute("drop view public.pg_stat_statements_info")
            connection.execute("drop extension pg_stat_statements")
    assert said == "pg_stat_statements is older than 1.9: alter extension … update"


def test_numbers_that_were_reset_meanwhile_are_none(server: PrivateCluster) -> None:
    with server.connect() as connection, light(server) as tracer:
        scan(connection, 1)
        connection.execute("select elsewhere.pg_stat_statements_reset()")
        scan(connection, 1)
    taken = tracer.capture()
    assert taken.executions == []
    assert taken.probes.no_calls == "the numbers of pg_stat_statements were reset meanwhile"


def test_a_statement_that_was_reset_alone_is_left_out(server: PrivateCluster) -> None:
    """The one that resets it reads the texts' file, and may be among the others."""
    with server.connect() as connection:
        scan(connection, 3)
        scan(connection, 1, "id")
        ids = dict(
            connection.execute("select query, queryid from elsewhere.pg_stat_statements").fetchall()
        )
        with light(server) as tracer:
            connection.execute(
                "select elsewhere.pg_stat_statements_reset(userid, dbid, queryid)"
                " from elsewhere.pg_stat_statements where query = %s",
                [LARGE],
            )
            scan(connection, 1)
            scan(connection, 5, "id")
    found = {each.query_id: each.calls for each in tracer.capture().executions}
    assert found[ids[LARGE.replace("*", "id")]] == 5
    assert ids[LARGE] not in found


def test_what_was_forgotten_for_want_of_room_is_said(disk_directory: Path) -> None:
    settings = SETTINGS | {"pg_stat_statements.max": 100}
    own = CopiedCluster(settings, table=True, bindir=bindir(PG_VERSION), directory=disk_directory)
    with own as server, server.connect() as connection:
        connection.execute("create extension pg_stat_statements")
        with light(server) as tracer:
            scan(connection, 1)
            for i in range(120):
                connection.execute(f"select {', '.join(['1'] * (i + 1))}")
        said = tracer.capture().probes.no_calls
    assert said
    assert said.startswith("pg_stat_statements had no room and forgot some ")


def test_reports_show_them(server: PrivateCluster, tmp_path: Path) -> None:
    file = tmp_path / "a.json"
    with server.connect() as connection, light(server) as tracer:
        calibrate(tracer, connection)
        scan(connection, 3)
    file.write_bytes(encode(tracer.capture()))
    shown = run("report", file).out
    said = "Calls of statements and their time are those of pg_stat_statements; --queries full"
    assert said in " ".join(shown.split())
    (line,) = (line for line in shown.splitlines() if f"  {LARGE[:20]}" in line)
    assert "    3  " in line
    whole = run("report", file, "--backends").out
    (line,) = (line for line in whole.splitlines() if line.endswith(f"  {LARGE[:33]}…"))
    assert line.split()[0] == "3"
    assert "Calls and the time to execute them" in html_page.render(load(file))


@pytest.mark.parametrize(
    ("options", "no_calls", "no_buffers"),
    [
        (
            ("--usename", "postgres"),
            "pg_stat_statements was not asked: it counts calls of the whole server, of which a "
            "part is traced",
            "of whole databases",
        ),
        ((), None, "reset meanwhile"),
    ],
)
def test_neither_calls_nor_hits_are_told_that_are_not_those_of_who_was_traced(
    server: PrivateCluster,
    tmp_path: Path,
    options: tuple[str, ...],
    no_calls: str | None,
    no_buffers: str,
) -> None:
    file = tmp_path / "a.json"
    names = ("--dsn", server.dsn(), "--require-names")  # it has them when it begins
    arguments = ("--server", server.datadir, *options, *names, "-o", file)
    command = patched(PATIENT)
    with server.connect() as connection, Pgtrace("capture", *arguments, command=command) as tracer:
        tracer.attached()
        for _ in range(20):  # by some of them it finds out where ids are
            scan(connection, 1)
            time.sleep(0.06)
        connection.execute("select pg_stat_reset()")
        time.sleep(1.2)  # which others see within a second
        assert tracer.stop().code == 0
    taken = load(file)
    assert (taken.probes.no_calls, taken.probes.no_buffers) == (no_calls, no_buffers)
    assert bool(taken.executions) == (no_calls is None)
    shown = " ".join(run("report", file).out.split())
    assert f"? ? shared_buffers ({no_buffers})" in shown
