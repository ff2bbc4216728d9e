"""What `pgtrace attach` shows while it runs: at three in the morning, and to a program."""

import json
import os
import re
import signal
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from itertools import pairwise

import pytest

from bpf_left import leftovers, ours
from child import stopped
from fix_cluster import SEQUENTIAL, Connection
from pgtrace.lab.core.private_cluster import PrivateCluster
from pgtrace_command import Pgtrace, last_sentence, wait_for
from terminal import Terminal

WAITS = "select pg_advisory_xact_lock(8), 'waits'"
READS_AND_WAITS = "select (select count(*) from big), pg_advisory_xact_lock(8)"
UNITS = {"ns": 1e-9, "µs": 1e-6, "ms": 1e-3, "s": 1.0}
HEAD = re.compile(r"▶ (begun before )?\d\d:\d\d:\d\d  (.*)")
END = re.compile(r"■ +([\d.,]+ (?:ns|µs|ms|s)) ")
LOOK = re.compile(r"… +([\d.,]+ (?:ns|µs|ms|s)) ")
SUM = re.compile(r"▶ [\d:]+  (\d+) quer(?:y|ies) in this second, (\d+) failed, [\d,]+ reads\n")


def seconds(text: str) -> float:
    number, unit = text.split()
    return float(number.replace(",", "")) * UNITS[unit]


@pytest.fixture(autouse=True)
def nothing_left() -> Iterator[None]:
    before = ours()
    yield
    assert leftovers(before) == {}


@contextmanager
def waiting(
    cluster: PrivateCluster, connection: Connection, query: str = WAITS
) -> Iterator[threading.Event]:
    """Its backend in a query that waits for a lock, until the event is set."""
    free = threading.Event()
    with cluster.connect() as other:
        other.execute("select pg_advisory_lock(8)")
        thread = threading.Thread(target=connection.execute, args=(query,))
        thread.start()
        wait_for(
            lambda: other.execute(
                "select 1 from pg_locks where locktype = 'advisory' and not granted"
            ).fetchall()
        )

        def unlock() -> None:
            free.wait()
            other.execute("select pg_advisory_unlock(8)")

        unlocker = threading.Thread(target=unlock)
        unlocker.start()
        try:
            yield free
        finally:
            free.set()
            unlocker.join()
            thread.join()


def test_query_that_began_before_is_shown_at_once_and_looked_at(
    cluster: PrivateCluster, connection: Connection
) -> None:
    """Its text first; after a second, and then every --every seconds, how far it is; its end."""
    pid = connection.info.backend_pid
    with (
        waiting(cluster, connection) as free,
        Pgtrace("attach", pid, "--every", "0.4", "--probe", "tracepoint") as tracer,
    ):
        tracer.wait_for("'waits'")
        wait_for(lambda: len(LOOK.findall(tracer.out)) >= 4)
        free.set()
        tracer.wait_for("since tracing began")
        code, out, err = tracer.stop()
    begin, _, rest = out.partition("\n\n")
    words = " ".join(begin.split())
    assert words.startswith(f"Backend {pid} postgres@postgres client backend PostgreSQL ")
    assert " Reads by tracepoint (" in words
    assert " queries by USDT. Ctrl-C to stop. Not measured: " in words
    assert HEAD.match(rest), rest
    assert out.index("'waits'") < out.index("…"), "it was looked at before it was named"
    assert HEAD.findall(out) == [("begun before ", WAITS)]
    looks = [seconds(elapsed) for elapsed in LOOK.findall(out)]
    assert looks[0] >= 1
    assert all(later - earlier >= 0.3 for earlier, later in pairwise(looks))
    assert seconds(END.findall(out)[0]) >= looks[-1]
    assert (code, err) == (0, "")


def test_on_a_terminal_a_running_query_is_looked_at_in_place(
    cluster: PrivateCluster, connection: Connection
) -> None:
    """At most what fits, line by line; what others say is above it; and at the end it is gone.

    LINES and COLUMNS may be another terminal's: GNU readline puts its 24 and 80 into the
    environment of whoever imports it, as pytest's workers find out.
    """
    pid = connection.info.backend_pid
    connection.execute("set temp_buffers = '800kB'")
    connection.execute("create temp table big as select * from tbl_cost_align")
    settings = {"env": os.environ | {"TERM": "xterm", "LINES": "24", "COLUMNS": "80"}}
    with closing(Terminal(rows=6, columns=40)) as terminal:
        streams = {"stdout": terminal.fd, "stderr": terminal.fd}
        with Pgtrace("attach", pid, "-v", "--probe", "tracepoint", **streams, **settings) as tracer:
            wait_for(lambda: "Ctrl-C to stop" in terminal.written)
            with waiting(cluster, connection, READS_AND_WAITS) as free:
                wait_for(lambda: len(LOOK.findall(terminal.written)) >= 5)
                # Not while the line of what is in use in the kernel has taken its place
                during: list[str] = wait_for(
                    lambda: len(lines := terminal.screen()) > 6 and LOOK.match(lines[-6]) and lines
                )
                wait_for(lambda: terminal.written.count("In use in the kernel") >= 2)
                wait_for(
                    lambda: tracer.code is not None or any(map(LOOK.match, terminal.screen()[-6:])),
                    instead=lambda: (terminal.written, connection.info.transaction_status),
                )
                assert tracer.code is None, terminal.screen()[-40:]
                free.set()
            wait_for(lambda: "■" in terminal.written)
            tracer.send(signal.SIGINT)
            assert tracer.ended().code == 0
        looks = [seconds(elapsed) for elapsed in LOOK.findall(terminal.written)]
        assert all(later - earlier >= 0.9 for earlier, later in pairwise(looks))
        shown = [line for line in during if LOOK.match(line)]
        assert len(shown) == 1
        assert during[-6] == shown[0]
        assert during[-1] == ""
        assert all(len(line) <= 40 for line in during[-6:])
        at_the_end = "\n".join(terminal.screen())
    assert not LOOK.search(at_the_end)
    assert at_the_end.count("In use in the kernel") >= 2
    assert len(END.findall(at_the_end)) == 1


def test_block_of_a_query_that_reads(connection: Connection) -> None:
    """Sums, where it was served, what that comes to, and the histogram."""
    connection.execute("set temp_buffers = '800kB'")
    connection.execute("create temp table big as select * from tbl_cost_align")
    with Pgtrace("attach", connection.info.backend_pid, "--probe", "tracepoint") as tracer:
        tracer.attached()
        connection.execute("select count(*) from big")
        tracer.wait_for("Reading took")
        connection.execute("select 1 as first_after_it")
        tracer.wait_for("first_after_it")
        code, out, err = tracer.stop()
    blocks = re.split(r"\n(?=▶)", out)
    assert re.search(r"■ .* [\d,]+ reads +[\d.]+ MiB", blocks[1])
    assert re.search(r" mean .* p50 .* p99 .* max ", blocks[1])
    assert "page cache " in blocks[1]
    assert re.search(r"from +reads +time\n( +[\d.]+ .s +[\d,]+ .*%\n)+", blocks[1])
    waited = r"(never waiting for the device\b|waiting for the device )"
    assert re.search(rf"  Reading took .* of .* \(\d+ %\), {waited}", blocks[1])
    assert "no reads" in blocks[2]
    end = r"Traced [\d.]+ m?s: 2 queries, 0 failed, [\d,]+ reads, 0 of them outside queries\."
    assert re.fullmatch(end, last_sentence(out))
    assert (code, err) == (0, "")


def test_where_queries_were_not_asked_for_nothing_is_outside_them(connection: Connection) -> None:
    arguments = ("--queries", "none", "--probe", "tracepoint")
    with Pgtrace("attach", connection.info.backend_pid, *arguments) as tracer:
        tracer.attached()
        connection.execute("select count(*) from tbl_cost_align")
        code, out, _ = tracer.stop()
    assert re.fullmatch(r"Traced [\d.]+ m?s: [\d,]+ reads?\.", last_sentence(out))
    assert code == 0


def test_failed_query_is_marked(connection: Connection) -> None:
    with Pgtrace("attach", connection.info.backend_pid, "--probe", "tracepoint") as tracer:
        tracer.attached()
        connection.pgconn.exec_(b"select 1/0 as division")
        tracer.wait_for("✗")
        code, out, _ = tracer.stop()
    assert HEAD.findall(out) == [("", "select 1/0 as division")]
    assert re.search(
        r"^✗ [\d.]+ (?:ns|µs|ms|s)  failed  (no reads|1 read|[\d,]+ reads)\b", out, re.MULTILINE
    )
    assert " 1 failed, " in last_sentence(out)
    assert code == 0


def test_many_queries_are_summed_up_by_second(connection: Connection) -> None:
    """At most five a second one by one, the others by statement; none is left out."""
    with Pgtrace("attach", connection.info.backend_pid, "--probe", "tracepoint") as tracer:
        tracer.attached()
        for n in range(400):
            text = f"select {n}" if n % 4 else f"select {n}, {n}"
            if n % 2:
                connection.pgconn.exec_(text.encode())
            else:
                connection.execute(text, prepare=False)
        tracer.wait_for(r"queries in this second")
        code, out, err = tracer.stop()
    alone = len(END.findall(out))
    together = [int(number) for number, _ in SUM.findall(out)]
    by_statement = re.findall(
        r"^ +(\d+) calls? +mean .* max .* reads \(0 device\)  (.*)$", out, re.M
    )
    assert alone + sum(together) == 400
    traced = re.search(r"^Traced ([\d.]+ m?s):", out, re.MULTILINE)
    assert traced
    assert 0 < alone <= 5 * (int(seconds(traced[1])) + 2)
    assert sum(int(calls) for calls, _ in by_statement) == sum(together)
    assert {text for _, text in by_statement} == {"select $1", "select $1, $2"}
    assert len(by_statement) <= 2 * len(together)
    assert "400 queries, 0 failed" in last_sentence(out)
    assert (code, err) == (0, "")


def test_per_query_prints_each(connection: Connection) -> None:
    arguments = "attach", connection.info.backend_pid, "--per-query", "--probe", "tracepoint"
    with Pgtrace(*arguments) as tracer:
        tracer.attached()
        for n in range(50):
            connection.execute(f"select {n}", prepare=False)
        code, out, _ = tracer.stop()
    assert [text for _, text in HEAD.findall(out)] == [f"select {n}" for n in range(50)]
    assert len(END.findall(out)) == 50
    assert SUM.findall(out) == []
    assert code == 0


@pytest.mark.parametrize("literals", [False, True])
def test_json_prints_one_object_for_each_query(connection: Connection, literals: bool) -> None:
    """And nothing else on stdout; what people wrote into queries only if it is asked for."""
    arguments = ["attach", connection.info.backend_pid, "--json", "--probe", "tracepoint"]

    with Pgtrace(*arguments, *["--literals"] * literals) as tracer:

        def heard() -> bool:
            connection.execute("select 'ready'", prepare=False)
            return bool(tracer.out)

        wait_for(heard)
        connection.execute("select 'secret' as a", prepare=False)
        connection.execute("select %s::int as b", (1,))
        connection.pgconn.exec_(b"select 1/0 as c")
        code, out, err = tracer.stop()
    *objects, last = map(json.loads, out.splitlines())
    assert last["summary"]["queries"] == len(objects)
    assert last["summary"]["lost"]["queries"] == 0
    assert {one["pid"] for one in objects} == {connection.info.backend_pid}
    assert all(
        re.fullmatch(r"20\d\d-\d\d-\d\dT[\d:]{8}\.\d{6}Z", one["started"]) for one in objects
    )
    ready = "select 'ready'" if literals else "select $1"
    told = [
        (one["text"], one["protocol"], one["calls"], one["errors"], one["latency"]["count"])
        for one in objects
        if one["text"] != ready
    ]
    texts = ["select 'secret' as a", "select 1/0 as c"]
    if not literals:
        texts = ["select $1 as a", "select $1/$2 as c"]
    assert told == [
        (texts[0], "simple", 1, 0, 1),
        ("select $1::int as b", "extended", 1, 0, 1),
        (texts[1], "simple", 1, 1, 1),
    ]
    assert (code, err) == (0, "")


def test_it_ends_with_its_backend(cluster: PrivateCluster) -> None:
    with cluster.connect() as connection:
        tracer = Pgtrace("attach", connection.info.backend_pid, "--probe", "tracepoint")
        with tracer:
            tracer.attached()
            connection.execute("select 1 as last_words")
            connection.close()
            code, out, err = tracer.ended()
    assert HEAD.findall(out) == [("", "select 1 as last_words")]
    assert last_sentence(out).startswith("The backend ended. Traced ")
    assert (code, err) == (0, "")


def test_query_that_has_not_ended_is_told_in_the_end(
    cluster: PrivateCluster, connection: Connection
) -> None:
    """Though another look at it was due at that moment."""
    pid = connection.info.backend_pid
    with (
        waiting(cluster, connection),
        Pgtrace("attach", pid, "--every", "0.001", "--probe", "tracepoint") as tracer,
    ):
        wait_for(lambda: LOOK.search(tracer.out))
        code, out, err = tracer.stop()
    assert "\n▷ not ended: select pg_advisory_xact_lock(8), 'waits'\n" in out
    assert " 0 queries, 0 failed" in last_sentence(out)
    assert (code, err) == (0, "")


def test_reader_that_has_seen_enough(connection: Connection) -> None:
    """As in `pgtrace attach PID | head -1`: the end, and no traceback."""
    pid = connection.info.backend_pid
    reads, writes = os.pipe()
    with Pgtrace("attach", pid, "--probe", "tracepoint", stdout=writes) as tracer:
        os.close(writes)
        with os.fdopen(reads) as shown:
            assert shown.readline().startswith("Backend ")
            assert shown.readline().startswith("Reads by ")

        def ended() -> bool:
            connection.execute(SEQUENTIAL + " limit 1")
            return tracer.code is not None

        wait_for(ended)
        assert tracer.ended() == (0, "", "")


def test_lost_queries_are_in_the_last_line_of_json(connection: Connection) -> None:
    """Nobody fetches the records for a while: more queries end than the ring holds."""
    arguments = ["attach", connection.info.backend_pid, "--json", "--probe", "tracepoint"]
    many = 4000
    with Pgtrace(*arguments, "--strict") as tracer:

        def heard() -> bool:
            connection.execute("select 1", prepare=False)
            return bool(tracer.out)

        wait_for(heard)
        connection.execute("select 1 as the_last", prepare=False)
        tracer.wait_for("the_last")
        before = len(tracer.out.splitlines())
        with stopped(tracer.pid):
            for _ in range(many):
                connection.execute("select 1 -- " + "x" * 900, prepare=False)
        ended = tracer.stop()
    *queries, last = map(json.loads, ended.out.splitlines())
    summary = last["summary"]
    assert summary["lost"]["queries"] > 0
    assert len(queries) == summary["queries"]
    assert len(queries) + summary["lost"]["queries"] == many + before
    assert ended.code == 6 and "queries" in ended.err
    assert "Lost so far: " in ended.err
