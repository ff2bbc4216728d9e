"""The course of a session: in each second what was done, and by whom, of real servers."""

import contextlib
import random
import threading
import time
from collections import Counter
from pathlib import Path

import psycopg
import pytest

from child import wait_for
from fix_cluster import Connection, Server
from pgtrace.engines import Tier
from pgtrace.files.documents import load
from pgtrace.lab.core import benchmark_table
from pgtrace.lab.core.private_cluster import PrivateCluster
from pgtrace.model.capture import Capture, Heaviest, Io, Operation, Query
from pgtrace.tracing.timeline import LENGTH_S
from pgtrace.tracing.tracer import Tracer, trace
from pgtrace_command import Pgtrace

TABLE = benchmark_table.TABLE
SLOW = f"select count(pg_sleep(0.03)) from {TABLE} where ctid = any(%s::tid[])"
SHORT = f"select count(*) from {TABLE} where ctid = any(%s::tid[])"
OPERATIONS: tuple[Operation, ...] = ("read", "write", "fsync")


@pytest.fixture(params=["light", "full"])
def tier(request: pytest.FixtureRequest) -> Tier:
    found: Tier = request.param
    return found


def rows(number: int) -> list[str]:
    """The first rows of so many blocks."""
    return [f"({block},1)" for block in random.sample(range(500), number)]


@pytest.fixture
def taken(server: Server, tier: Tier) -> Capture:
    """Of a server with one query that reads for seconds, after and before short ones of others who
    leave; with so few buffers that most of what is asked for is read.
    """
    cluster = server(shared_buffers="1MB", max_wal_senders=0)
    pid = cluster.postmaster_pid
    with cluster.connect() as connection:
        connection.execute(SLOW, [rows(1)])  # so that it reads no catalogs any more
        with trace(pid, queries=tier, operations=OPERATIONS) as tracer:
            others(cluster)
            cut_off(tracer)
            connection.execute(SLOW, [rows(150)])
            cut_off(tracer)
            others(cluster)
            cut_off(tracer)
    taken = tracer.capture()
    assert taken.partial == []
    return taken


def cut_off(tracer: Tracer) -> None:
    """Until the second is over in which the last was done: of one that two share, who read longest
    is chance.
    """
    now = time.monotonic_ns()
    wait_for(lambda: tracer.intervals.cut_ns > now)


def others(cluster: PrivateCluster) -> None:
    """Clients that come and go."""
    for _ in range(5):
        with cluster.connect() as client:
            client.execute(SHORT, [rows(300)])


def test_who_ends_in_the_midst_of_a_query_is_in_the_seconds(server: Server, tier: Tier) -> None:
    """Its query has no name any more when it is looked at for the last time."""
    cluster = server(shared_buffers="1MB", max_wal_senders=0)
    with cluster.connect() as other, trace(cluster.postmaster_pid, queries=tier) as tracer:
        for _ in range(3):
            client = cluster.connect()
            pid = client.info.backend_pid

            def work(client: Connection = client) -> None:
                with contextlib.suppress(psycopg.Error):
                    client.execute(SLOW, [rows(400)])

            thread = threading.Thread(target=work)
            thread.start()
            time.sleep(1.5 * LENGTH_S)
            other.execute("select pg_terminate_backend(%s)", [pid])
            thread.join()
            client.close()
        time.sleep(1.5 * LENGTH_S)
        released = next(a.process.serial for a in tracer.accounts() if a.process.ended_ns)
        assert tracer.engine.statement(released, 1) is None
    taken = tracer.capture()
    assert taken.partial == []
    counted = sum(io.count for i in taken.intervals for io in i.io if io.operation == "read")
    assert counted == taken.totals["read"].count


def is_of_the_table(one: Io | Heaviest) -> bool:
    return (one.operation, one.kind, one.tablespace) == ("read", "relation", "pg_default")


def statement(taken: Capture, words: str) -> Query:
    """One of those with these words in their text."""
    return next(q for b in taken.backends for q in b.queries if words in (q.text or ""))


def test_every_read_write_and_fsync_is_in_one_second(taken: Capture) -> None:
    """What is counted in the moment of a look may be in the histogram of one second and the sums of
    the next.
    """
    counts, sizes, times, powers = Counter[str](), Counter[str](), Counter[str](), Counter[str]()
    for interval in taken.intervals:
        for io in interval.io:
            counts[io.operation] += io.count
            sizes[io.operation] += io.bytes
            times[io.operation] += io.total_ns
            powers[io.operation] += sum(io.powers.values())
    for operation, total in taken.totals.items():
        assert counts[operation] == powers[operation] == total.count
        assert sizes[operation] == total.bytes
        assert times[operation] == total.total_ns


def test_a_query_of_seconds_is_in_each_of_them_by_its_name(taken: Capture) -> None:
    """In the full tier that is known only at its end."""
    slow = statement(taken, "pg_sleep")
    seconds = [
        interval.second
        for interval in taken.intervals
        if any(one.text_hash == slow.text_hash for one in interval.heaviest)
    ]
    assert len(seconds) >= 3
    found = sum(
        one.count
        for interval in taken.intervals
        for one in interval.heaviest
        if one.text_hash == slow.text_hash and is_of_the_table(one)
    )
    whole = sum(r.count for r in slow.io if is_of_the_table(r))
    assert found == whole
    assert whole > 100


def test_what_short_sessions_ran_has_its_name(taken: Capture) -> None:
    short = statement(taken, "count(*)")
    assert any(
        one.text_hash == short.text_hash
        for interval in taken.intervals
        for one in interval.heaviest
    )


def test_seconds_are_of_whom_all_other_numbers_are_of(server: Server, tmp_path: Path) -> None:
    """pgtrace's own connection for names is not in them."""
    cluster = server(shared_buffers="1MB")
    file, asked = tmp_path / "capture.json", ",".join(OPERATIONS)
    options = ("capture", f"--server={cluster.datadir}", "--operations", asked, "-o", file)
    with Pgtrace(*options, connects=True) as started:
        started.attached()
        time.sleep(2 * LENGTH_S)
        others(cluster)
        time.sleep(LENGTH_S)
        assert started.stop().code == 0
    taken, counts = load(file), Counter[str]()
    for interval in taken.intervals:
        for io in interval.io:
            counts[io.operation] += io.count
    assert {operation: total.count for operation, total in taken.totals.items()} == {
        operation: counts[operation] for operation in OPERATIONS
    }
    assert counts["read"] > 1_000


def test_waiting_for_a_first_statement_is_a_part_of_none(server: Server) -> None:
    """Also where a backend was woken meanwhile, and so was seen to do something before its first
    statement came.
    """
    cluster = server(max_wal_senders=0)
    with cluster.connect() as client, cluster.connect() as other:
        pid = client.info.backend_pid
        with trace(cluster.postmaster_pid, queries="full", times=True) as tracer:
            for _ in range(3):
                other.execute("select pg_reload_conf()")
                time.sleep(0.5 * LENGTH_S)
            client.execute("select 'the first'")
            time.sleep(1.5 * LENGTH_S)
    taken = tracer.capture()
    (backend,) = (each for each in taken.backends if each.pid == pid)
    waits = [each for each in backend.times if each.wait_event == "ClientRead"]
    assert {each.scope for each in waits} == {"outside"}
    assert sum(each.total_ns for each in waits) >= 2 * LENGTH_S * 10**9
    told = {each.wait_event_type for interval in taken.intervals for each in interval.times}
    assert "Client" not in told
