"""Servers built without --enable-dtrace, and without symbols: what is the same, what is not.

Their binaries are copies of the version under test, from which the notes of USDT are taken out,
and the names of the functions that pgtrace would use instead.
"""

import inspect
import re
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Collection, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import psycopg
import pytest
import test_queries
from elftools.elf.elffile import ELFFile
from test_queries import PROBE_TYPE, Watched, own, running

from copied_cluster import CopiedCluster
from fix_cluster import (
    SEQUENTIAL,
    SETTINGS,
    Connection,
    bindir,
    data_directory,
    explain_buffers,
    make_cold,
)
from fix_markers import PG_VERSION
from pgtrace import trace
from pgtrace.lab.core.private_cluster import PrivateCluster
from pgtrace.lab.core.server_root import find_root
from pgtrace.postgres import binary
from pgtrace.reporters.terminal.capture_report import render
from pgtrace.tracing.options import TraceOptions
from pgtrace.tracing.targets import Target
from pgtrace.tracing.tracer import Tracer
from scans import anything_lost

NAMES = (
    "AbortCurrentTransaction",
    "PortalRun",
    "application_name",
    "debug_query_string",
    "pgstat_report_activity",
    "pgstat_report_query_id",
    "smgrstartreadv",
)
"""What pgtrace looks for in a server's binary."""

# Every test there that looks at the records of one traced backend runs here too, on a server
# without notes: it must come to the same calls and errors, protocols, texts and latencies.
for _name, _test in vars(test_queries).items():
    if _name.startswith("test_") and "watched" in inspect.signature(_test).parameters:
        globals()[_name] = _test
watched = test_queries.watched


def change(file: Path, *, notes: bool, lacking: Collection[str]) -> None:
    """Take the notes out of a server's binary, and names too."""
    if not notes:
        subprocess.run(["objcopy", "--remove-section=.note.stapsdt", file], check=True)
    with file.open("r+b") as stream:
        symbols = ELFFile(stream).get_section_by_name(".dynsym")
        for number, symbol in enumerate(symbols.iter_symbols()):
            if symbol.name in lacking:
                stream.seek(symbols["sh_offset"] + number * symbols["sh_entsize"])
                stream.write(bytes(4))  # st_name: it is called nothing
    assert bool(binary.probes(file)) == notes
    for name in NAMES:
        if name != "smgrstartreadv":  # which 18 is the first to have
            assert binary.has_symbol(file, name) == (name not in lacking)


@contextmanager
def programs(
    disk_directory: Path, *, notes: bool = False, lacking: Collection[str] = ()
) -> Iterator[Path]:
    """Where a server's programs are whose binary was changed."""
    original = bindir(PG_VERSION)
    root = find_root(original)
    base = disk_directory if root == Path("/") else root / "var/lib"
    with ExitStack() as stack:
        copy = Path(tempfile.mkdtemp(prefix="pgt-bin-", dir=base))
        stack.callback(shutil.rmtree, copy)
        copy.chmod(0o755)
        shutil.copytree(original, copy / "bin")
        # Beside its programs the server looks for what it loads
        (copy / "lib").symlink_to(Path("/") / (original.parent / "lib").relative_to(root))
        change(copy / "bin/postgres", notes=notes, lacking=lacking)
        yield copy / "bin"


@contextmanager
def without(
    disk_directory: Path, *, notes: bool = False, lacking: Collection[str] = ()
) -> Iterator[PrivateCluster]:
    """A server whose binary was changed, with the table."""
    with (
        programs(disk_directory, notes=notes, lacking=lacking) as changed,
        CopiedCluster(
            # smaller than the table, so that each scan of it reads
            SETTINGS | {"shared_buffers": "2MB"},
            table=True,
            bindir=changed,
            directory=data_directory(PG_VERSION, disk_directory),
        ) as server,
    ):
        yield server


@pytest.fixture(scope="module")
def no_notes(disk_directory: Path) -> Iterator[PrivateCluster]:
    with without(disk_directory) as server:
        yield server


@pytest.fixture(scope="module")
def no_names(disk_directory: Path) -> Iterator[PrivateCluster]:
    with without(disk_directory, lacking=NAMES) as server:
        yield server


@contextmanager
def watching(server: PrivateCluster, queries: str) -> Iterator[Watched]:
    """A backend of that server, of whose queries all can be measured in the end."""
    with server.connect() as connection:
        tracer = Tracer(
            Target.find(connection.info.backend_pid),
            TraceOptions(probe_type=PROBE_TYPE, per_query=True),
        )
        try:
            watched = Watched(connection, tracer)
            # Without notes each kind of message is known from its first that was right
            watched.extended("select 1")()
            yield watched
        finally:
            taken = tracer.stop()
    assert not anything_lost(taken), taken.lost
    assert (taken.probes.queries, taken.probes.not_measured) == (queries, [])


@pytest.fixture(scope="module")
def shared(no_notes: PrivateCluster) -> Iterator[Watched]:
    """What the tests of test_queries watch."""
    with watching(no_notes, "uprobe") as watched:
        yield watched


@pytest.fixture(scope="module")
def with_notes(cluster: PrivateCluster) -> Iterator[Watched]:
    with watching(cluster, "usdt") as watched:
        yield watched


# The same client's work on both servers


def simple(*texts: str) -> Callable[[Connection], None]:
    def act(connection: Connection) -> None:
        for text in texts:
            connection.pgconn.exec_(text.encode())

    return act


def extended(*texts: str) -> Callable[[Connection], None]:
    def act(connection: Connection) -> None:
        for text in texts:
            connection.pgconn.exec_params(text.encode(), [b"0"] if "$1" in text else [])

    return act


def prepared(connection: Connection) -> None:
    connection.pgconn.prepare(b"one", b"select $1::int")
    for value in b"1", b"2", b"3":
        connection.pgconn.exec_prepared(b"one", [value])


def prepare_alone(connection: Connection) -> None:
    connection.pgconn.prepare(b"alone", b"select 'alone'")


def pipeline(*values: int) -> Callable[[Connection], None]:
    def act(connection: Connection) -> None:
        try:
            with connection.pipeline():
                for number, value in enumerate(values):
                    connection.execute(f"select {number} / %s::int", (value,))
        except psycopg.errors.DivisionByZero:
            assert 0 in values

    return act


def copy(connection: Connection) -> None:
    connection.pgconn.exec_(b"create temp table copied (a int)")
    cursor = connection.cursor()
    with cursor.copy("copy copied from stdin") as into:
        into.write_row([7])
    with cursor.copy("copy copied to stdout") as out:
        assert list(out.rows()) == [("7",)]


CAUGHT = test_queries.CATCHES
ROLLS_BACK = "do $$ begin perform 1; rollback; perform 2; end $$"
SEQUENCES = {
    "simple": simple("select 1", "select 1"),
    "simple that fails": simple("select 1/0", "selec 1"),
    "three statements": simple("select 1; select 2; select 3", "select 1; select 1/0; select 3"),
    "empty": simple("", ";", "-- nothing"),
    "extended": extended("select $1::int", "select 1"),
    "extended and empty": extended("", "-- nothing"),
    "prepared": prepared,
    "bind or plan error": extended("select 1/$1::int", "select 1/0 + $1::int"),
    "parse error": extended("selec $1", "select nothing"),
    "prepare alone": prepare_alone,
    "pipeline": pipeline(1, 2, 3),
    "pipeline that fails": pipeline(1, 0, 3),
    "aborted block": simple("begin", "select 1/0", "select 1", "rollback"),
    "savepoint": simple("begin", "savepoint a", "select 1/0", "rollback to a", "commit"),
    "rollback": simple("begin", "select 1", "rollback"),
    "error caught": simple(CAUGHT),
    "error caught, extended": extended(CAUGHT),
    "rolls back within": simple(ROLLS_BACK),
    "rolls back within, extended": extended(ROLLS_BACK),
    "fetch": simple("begin", "declare c cursor for select 1", "fetch 1 from c", "commit"),
    "copy": copy,
}
FAIL = {
    "simple that fails",
    "three statements",
    "bind or plan error",
    "parse error",
    "pipeline that fails",
    "aborted block",
    "savepoint",
}


@pytest.mark.parametrize("name", SEQUENCES)
def test_same_calls_and_errors_as_with_notes(
    with_notes: Watched, watched: Watched, name: str
) -> None:
    """Every sequence by which clients send queries, told by USDT and by functions."""
    told, same = (
        each.records(lambda each=each: SEQUENCES[name](each.connection))
        for each in (with_notes, watched)
    )
    assert told == same
    assert bool(told) == (name != "prepare alone")
    assert any(record.failed for record in told) == (name in FAIL)


def test_without_aborts_simple_queries_that_fail_are_known_and_others_said_not_to_be(
    disk_directory: Path,
) -> None:
    """They are those that do not come to their end."""
    with (
        without(disk_directory, notes=True, lacking=["AbortCurrentTransaction"]) as server,
        server.connect() as connection,
    ):
        with trace(connection.info.backend_pid, probe_type=PROBE_TYPE, literals=True) as tracer:
            for act in (simple("select 1", "select 1/0", "", "selec 1"), extended("select 2/0")):
                act(connection)
        taken = tracer.capture()
    failed = {query.text: query.errors for query in own(taken)}
    assert failed == {"select 1": 0, "select 1/0": 1, "": 0, "selec 1": 1}
    assert taken.probes.not_measured == [
        "errors of extended queries: the binary does not export AbortCurrentTransaction"
    ]


def test_reads_are_in_the_query_that_made_them(no_notes: PrivateCluster) -> None:
    """As many as EXPLAIN counts."""
    with no_notes.connect() as connection:
        connection.execute(f"explain {SEQUENTIAL}")
        make_cold(no_notes, connection)
        with trace(connection.info.backend_pid, probe_type=PROBE_TYPE, literals=True) as tracer:
            buffers = explain_buffers(connection, SEQUENTIAL)
    (query,) = own(tracer.capture())
    assert sum(reads.blocks for reads in query.io) == buffers.read > 1000


def test_query_that_runs_when_tracing_begins(
    no_notes: PrivateCluster, request: pytest.FixtureRequest
) -> None:
    """Its text is known, as with notes, and the next query is its own."""
    with no_notes.connect() as connection:
        with (
            running(no_notes, connection, "select pg_advisory_xact_lock(7)") as finish,
            trace(connection.info.backend_pid, probe_type=PROBE_TYPE, literals=True) as tracer,
        ):
            finish()
            connection.execute("select 1")
        first, second = sorted(own(tracer.capture()), key=lambda query: not query.begun_before)
    assert (first.text, first.calls, first.errors) == ("select pg_advisory_xact_lock(7)", 1, 0)
    assert (first.begun_before, second.begun_before) == (True, False)
    assert (second.text, second.calls, second.errors) == ("select 1", 1, 0)


def test_query_whose_text_cannot_be_asked_for(disk_directory: Path) -> None:
    """It is not told to be empty, nor taken for none: it ran before, and its text is not known."""
    found = []
    with (
        without(disk_directory, notes=True, lacking=["debug_query_string"]) as server,
        server.connect() as busy,
        server.connect() as idle,
    ):
        for connection in busy, idle:
            with ExitStack() as stack:
                if connection is busy:
                    lock = running(server, connection, "select pg_advisory_xact_lock(7)")
                    finish = stack.enter_context(lock)
                tracer = stack.enter_context(trace(connection.info.backend_pid, literals=True))
                if connection is busy:
                    finish()
                connection.execute("select 1")
            taken = tracer.capture()
            (missing,) = taken.probes.not_measured
            assert missing.startswith("text of the query that ran before: ")
            found.append({(q.text, q.begun_before, q.calls, q.errors) for q in own(taken)})
            assert ("(text not known)" in render(taken)) == (connection is busy)
    assert found == [{(None, True, 1, 0), ("select 1", False, 1, 0)}, {("select 1", False, 1, 0)}]


# Names taken out too, as of a static build


def test_without_names_reads_are_counted_and_queries_not_measured(
    no_names: PrivateCluster,
) -> None:
    """What cannot be known is said, with its reason. On 18, I/O workers keep what they read."""
    with no_names.connect() as connection:
        connection.execute(f"explain {SEQUENTIAL}")
        make_cold(no_names, connection)
        with trace(connection.info.backend_pid, probe_type=PROBE_TYPE) as tracer:
            buffers = explain_buffers(connection, SEQUENTIAL)
    taken = tracer.capture()
    assert taken.probes.queries == "none"
    (why, *rest) = taken.probes.not_measured
    assert re.fullmatch(
        "queries: the binary has no USDT probes and does not export pgstat_report_activity", why
    )
    assert all("I/O workers" in one for one in rest) and bool(rest) == (PG_VERSION >= 18)
    (backend,) = taken.backends
    assert backend.queries == []
    assert {reads.scope for reads in backend.io} <= {"outside"}
    assert buffers.read > 1000
    if PG_VERSION < 18:
        assert sum(reads.blocks for reads in backend.io) >= buffers.read
    assert not anything_lost(taken), taken.lost
    report = " ".join(render(taken).split())
    assert "queries not measured" in report
    assert f"Not measured: {why}" in report


def test_without_names_a_whole_server_is_traced(no_names: PrivateCluster) -> None:
    """Backends that come are named by their titles, as ever."""
    with (
        trace(no_names.postmaster_pid, probe_type=PROBE_TYPE) as tracer,
        no_names.connect() as connection,
    ):
        pid = connection.info.backend_pid
        make_cold(no_names, connection)
        buffers = explain_buffers(connection, SEQUENTIAL)
    taken = tracer.capture()
    assert taken.probes.queries == "none"
    (backend,) = (backend for backend in taken.backends if backend.pid == pid)
    assert (backend.backend_type, backend.datname, backend.usename) == (
        "client backend",
        "postgres",
        "postgres",
    )
    readers = [b for b in taken.backends if b.pid == pid or b.backend_type == "io worker"]
    assert len(readers) == 1 or PG_VERSION >= 18
    blocks = sum(reads.blocks for reader in readers for reads in reader.io)
    assert blocks >= buffers.read > 1000
