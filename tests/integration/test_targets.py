"""Whom a capture is of: by pid, by server, by filter; and who is refused."""

import re
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

import msgspec
import pytest

from child import Child, stopped
from copied_cluster import CopiedCluster
from fix_cluster import SETTINGS, Connection, bindir, data_directory
from fix_markers import PG_VERSION
from pgtrace.lab.core.private_cluster import PrivateCluster
from pgtrace.model.capture import Backend, Capture
from pgtrace.postgres import discovery
from pgtrace_command import PATIENT, PGTRACE, Pgtrace, patched, run, seeing, wait_for
from preloaded import preloaded

OPTIONS = "--json", "--literals", "--probe", "tracepoint", "--queries", "full"
PORT = 54399


@pytest.fixture(scope="module")
def other(disk_directory: Path) -> Iterator[PrivateCluster]:
    """Another server, at another port."""
    with CopiedCluster(
        SETTINGS,
        bindir=bindir(PG_VERSION),
        directory=data_directory(PG_VERSION, disk_directory),
        port=PORT,
    ) as server:
        yield server


@pytest.fixture(autouse=True)
def after_the_last(request: pytest.FixtureRequest) -> None:
    """Who was a client of the test before is a process for a moment yet, and would be one here."""
    for name in {"named", "other"} & {*request.fixturenames}:
        server = discovery.server(request.getfixturevalue(name).postmaster_pid)
        wait_for(
            lambda server=server: all(b.backend_type != "client backend" for b in server.backends())
        )


class Captured:
    """A capture that is being made; `taken` is there when it has ended."""

    taken: Capture
    err: str

    def backend(self, pid: int) -> Backend:
        (one,) = (b for b in self.taken.backends if b.pid == pid)
        return one

    @property
    def clients(self) -> set[int]:
        return {b.pid for b in self.taken.backends if b.backend_type == "client backend"}


@contextmanager
def capturing(
    *arguments: object, command: Sequence[object] = PGTRACE, connects: bool = False
) -> Iterator[Captured]:
    """Capture what happens in the block, which must end well."""
    captured = Captured()
    started = Pgtrace("capture", *arguments, *OPTIONS, command=command, connects=connects)
    with started as tracer:
        tracer.attached()
        yield captured
        time.sleep(0.3)  # the last query is handed over a moment after its end
        ended = tracer.stop()
    assert ended.code == 0, ended
    captured.err = ended.err
    captured.taken = msgspec.json.decode(ended.out, type=Capture)
    assert captured.taken.lost.read == captured.taken.lost.queries == 0


def on_a_host_of(*servers: PrivateCluster, code: str = "") -> tuple[str, ...]:
    """A pgtrace where there are no servers but these, and with that code."""
    return patched(code + seeing(*(server.postmaster_pid for server in servers)))


def texts(backend: Backend) -> set[str | None]:
    return {query.text for query in backend.queries}


# Servers


@pytest.mark.parametrize("way", ["pid", "-p", "directory", "link", "port"])
def test_server(cluster: PrivateCluster, other: PrivateCluster, tmp_path: Path, way: str) -> None:
    """Its backends, of before and to come, with names and queries; nobody else's."""
    link = tmp_path / "link"
    link.symlink_to(other.datadir)
    arguments: dict[str, tuple[object, ...]] = {
        "pid": (other.postmaster_pid,),
        "-p": ("-p", other.postmaster_pid),
        "directory": ("--server", other.datadir),
        "link": ("--server", link),
        "port": ("--server", PORT),
    }
    with cluster.connect() as stranger, other.connect() as before:
        with capturing(*arguments[way]) as captured, other.connect() as new:
            for connection in before, new, stranger:
                connection.execute(f"select 'by {connection.info.backend_pid}'")
            old_pid, new_pid, strange_pid = (c.info.backend_pid for c in (before, new, stranger))
        taken = captured.taken
        assert strange_pid not in {backend.pid for backend in taken.backends}
        for pid in old_pid, new_pid:
            backend = captured.backend(pid)
            assert (backend.backend_type, backend.datname) == ("client backend", "postgres")
            assert f"select 'by {pid}'" in texts(backend)
        # What it reads as it starts, before it is anybody's backend, is its own too
        new_one = captured.backend(new_pid)
        assert sum(reads.count for reads in new_one.io if reads.scope == "outside") > 0
        assert new_one.began is not None
        assert taken.server.data_directory == str(other.inside(other.datadir))
        assert taken.server.postmaster_pid == other.postmaster_pid


def test_nothing_given_is_the_only_server(other: PrivateCluster) -> None:
    with (
        other.connect() as connection,
        capturing(command=on_a_host_of(other)) as captured,
    ):
        connection.execute("select 'here'")
        pid = connection.info.backend_pid
    assert captured.taken.server.postmaster_pid == other.postmaster_pid
    assert "select 'here'" in texts(captured.backend(pid))


def test_nothing_given_and_several_servers(cluster: PrivateCluster, other: PrivateCluster) -> None:
    """The choices are named, a line each, ready to be typed."""
    ended = run("capture", "--duration", 1, command=on_a_host_of(cluster, other))
    assert (ended.code, ended.out) == (2, "")
    for server in cluster, other:
        assert f"\n  --server {server.inside(server.datadir)}\n" in ended.err
    assert "--all" in ended.err


def test_wait_is_for_filters(cluster: PrivateCluster) -> None:
    """Without one it would wait for nobody."""
    ended = run("capture", "--server", cluster.datadir, "--wait")
    assert (ended.code, ended.out) == (2, "")
    assert "--wait waits for a backend of --datname" in ended.err


def test_no_server() -> None:
    ended = run("capture", "--duration", 1, command=on_a_host_of())
    assert (ended.code, ended.out) == (3, "")
    assert "No PostgreSQL server runs here" in ended.err
    for name in 1, "/nowhere":
        ended = run("capture", "--duration", 1, "--server", name)
        assert (ended.code, ended.out) == (3, "")
        assert f"no server {name} is running here" in ended.err


def test_all_servers(cluster: PrivateCluster, other: PrivateCluster) -> None:
    with (
        capturing("--all", command=on_a_host_of(cluster, other)) as captured,
        cluster.connect() as one,
        other.connect() as two,
    ):
        pids = [connection.info.backend_pid for connection in (one, two)]
        for pid, connection in zip(pids, (one, two), strict=True):
            connection.execute(f"select 'by {pid}'")
    for pid in pids:
        assert f"select 'by {pid}'" in texts(captured.backend(pid))
    assert captured.taken.server.data_directory is None


@pytest.mark.parametrize("answers", [True, False])
def test_names_of_all_servers(
    cluster: PrivateCluster, other: PrivateCluster, answers: bool
) -> None:
    """Each is asked for its own, and they are told apart; one that gives no answer costs no other
    its names."""
    tables = {"one_has": cluster, "other_has": other}
    with ExitStack() as stack:
        connections = {
            table: stack.enter_context(server.connect()) for table, server in tables.items()
        }
        for table, connection in connections.items():
            connection.execute(f"create table {table} as select generate_series(1, 20000)")
            stack.callback(connection.execute, f"drop table {table}")
        if not answers:
            stack.enter_context(stopped(other.postmaster_pid))
        command = on_a_host_of(cluster, other, code=PATIENT if answers else "")
        with capturing("--all", "--by", "relation", connects=True, command=command) as captured:
            for table, connection in connections.items():
                connection.execute(
                    f"select length(pg_read_binary_file(pg_relation_filepath('{table}')))"
                )
    found = {r.relation for b in captured.taken.backends for q in b.queries for r in q.io}
    directory = {table: server.inside(server.datadir) for table, server in tables.items()}
    assert f"public.one_has of {directory['one_has']}" in found
    assert (f"public.other_has of {directory['other_has']}" in found) is answers
    missing = [why for why in captured.taken.probes.not_measured if why.startswith("names")]
    unnamed = f"names in {directory['other_has']}: the server gave none within 3 s at the end"
    assert missing == ([] if answers else [unnamed])
    users = {b.usename for b in captured.taken.backends if b.backend_type == "client backend"}
    assert users == {"postgres"}


# Pids


def test_two_pids(cluster: PrivateCluster) -> None:
    """Both, and no third."""
    with cluster.connect() as one, cluster.connect() as two, cluster.connect() as three:
        pids = [each.info.backend_pid for each in (one, two)]
        with capturing("-p", pids[0], "-p", pids[1]) as captured:
            for each in one, two, three:
                each.execute("select 1")
        assert {backend.pid for backend in captured.taken.backends} == set(pids)
        for pid in pids:
            assert [query.calls for query in captured.backend(pid).queries] == [1]


def test_pids_of_two_servers(cluster: PrivateCluster, other: PrivateCluster) -> None:
    with cluster.connect() as one, other.connect() as two:
        pids = [each.info.backend_pid for each in (one, two)]
        with capturing(pids[0], "-p", pids[1]) as captured:
            for each in one, two:
                each.execute("select 1")
        assert {backend.pid for backend in captured.taken.backends} == set(pids)


def test_postmaster_beside_a_backend(cluster: PrivateCluster, connection: Connection) -> None:
    ended = run("capture", "-p", cluster.postmaster_pid, "-p", connection.info.backend_pid)
    assert (ended.code, ended.out) == (3, "")
    assert "a postmaster stands for its whole server" in ended.err


def test_pids_and_a_server(other: PrivateCluster) -> None:
    ended = run("capture", other.postmaster_pid, "--server", PORT)
    assert (ended.code, ended.out) == (2, "")


# Filters


@pytest.fixture(scope="module")
def named(other: PrivateCluster) -> PrivateCluster:
    """The other server with databases and users to choose from."""
    with other.connect() as connection:
        connection.execute("create database one")
        connection.execute("create role someone login")
    return other


@pytest.mark.parametrize(
    ("filters", "meant"),
    [
        (("--datname", "one"), {"a", "b"}),
        (("--usename", "someone"), {"b", "c"}),
        (("--datname", "one", "--usename", "someone"), {"b"}),
        (("--datname", "one", "--datname", "postgres"), {"a", "b", "c"}),
        (("--backend-type", "client backend"), {"a", "b", "c"}),
        (("--backend-type", "checkpointer"), set()),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
@pytest.mark.parametrize("when", ["before", "after"])
def test_filters(
    named: PrivateCluster, filters: tuple[str, ...], meant: set[str], when: str
) -> None:
    """Of backends that were there, and of those that came."""
    parameters = {
        "a": {"dbname": "one"},
        "b": {"dbname": "one", "user": "someone"},
        "c": {"user": "someone"},
    }
    with ExitStack() as stack:

        def connect() -> dict[str, Connection]:
            return {
                name: stack.enter_context(named.connect(**each))
                for name, each in parameters.items()
            }

        clients = connect() if when == "before" else {}
        wait = () if clients else ("--wait",)
        with capturing("--server", PORT, *filters, *wait) as captured:
            clients = clients or connect()
            for client in clients.values():
                client.execute("select 1")
            pids = {name: client.info.backend_pid for name, client in clients.items()}
        assert captured.clients == {pids[name] for name in meant}
        if "checkpointer" in filters:
            assert {b.backend_type for b in captured.taken.backends} <= {"checkpointer"}


def test_filter_among_pids(named: PrivateCluster) -> None:
    """It chooses among those that are given."""
    with named.connect() as one, named.connect(user="someone") as two:
        pids = [each.info.backend_pid for each in (one, two)]
        with capturing("-p", pids[0], "-p", pids[1], "--usename", "someone") as captured:
            for each in one, two:
                each.execute("select 1")
        assert [backend.pid for backend in captured.taken.backends] == [pids[1]]


@pytest.mark.parametrize(
    ("filters", "told"),
    [
        (("--datname", "nothing"), "no backend passes --datname nothing now: there are one;"),
        (("--usename", "nobody"), "no backend passes --usename nobody now: there are "),
        (
            ("--datname", "one", "--backend-type", "checkpointer"),
            "no backend passes --datname and --backend-type at once now;",
        ),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_filter_that_matches_nothing(
    named: PrivateCluster, filters: tuple[str, ...], told: str
) -> None:
    """It is named, with what there is."""
    with named.connect(dbname="one"):
        ended = run("capture", "--server", PORT, *filters, "--duration", 1)
    assert (ended.code, ended.out) == (3, "")
    assert told in ended.err
    assert "--wait" in ended.err


def test_filter_that_matches_later(named: PrivateCluster) -> None:
    """With --wait it says so, goes on, and captures the first that comes."""
    with capturing("--server", PORT, "--datname", "one", "--wait") as captured:
        time.sleep(0.5)
        with named.connect(dbname="one") as connection:
            connection.execute("select 'at last'")
            pid = connection.info.backend_pid
    assert "waiting for one" in captured.err
    assert captured.clients == {pid}
    assert "select 'at last'" in texts(captured.backend(pid))


# More backends than there is room for


def test_more_backends_than_room(other: PrivateCluster, tmp_path: Path) -> None:
    """Those that ran have it; the others are lost, their number told, and what raises it."""
    file = tmp_path / "capture.json"
    with other.connect() as before, ExitStack() as stack:
        pid = before.info.backend_pid
        arguments = ("capture", "--server", PORT, "--max-backends", 2, *OPTIONS[2:], "-o", file)
        with Pgtrace(*arguments) as tracer:
            tracer.attached()
            for _ in range(10):
                client = stack.enter_context(other.connect())
                client.execute("select 'lost'")
                client.execute("select 'lost'")
            before.execute("select 'kept'")
            time.sleep(0.3)
            ended = tracer.stop()
    assert ended.code == 0, ended
    said = " ".join(run("report", file).out.split())
    (lost,) = re.findall(r"Lost, and in no number below: (\d+) whole backends\.(.*)", said)
    assert lost[0] == "10"
    assert "--max-backends" in lost[1]
    whole = run("report", file, "--backends").out
    assert f"Backend {pid}  " in whole
    assert "▶ select $1\n  1 call " in whole


def test_more_backends_than_room_is_incomplete(other: PrivateCluster) -> None:
    with Pgtrace("capture", "--server", PORT, "--max-backends", 1, "--strict", *OPTIONS) as tracer:
        tracer.attached()
        with other.connect() as connection:
            connection.execute("select 1")
        ended = tracer.stop()
    assert ended.code == 6, ended
    assert msgspec.json.decode(ended.out, type=Capture).lost.backends == 1
    assert "1 backends were lost" in ended.err


def test_room_is_used_again(other: PrivateCluster) -> None:
    """What counts is how many run at once."""
    with capturing("--server", PORT, "--max-backends", 12) as captured:
        pids = set()
        for _ in range(12):
            with other.connect() as connection:
                connection.execute("select 1")
                pid = connection.info.backend_pid
            pids.add(pid)
            wait_for(lambda pid=pid: not Path(f"/proc/{pid}").exists())
            time.sleep(0.4)  # until its account was read
    assert captured.taken.lost.backends == 0
    assert pids <= captured.clients


# Processes that are called something else


def rename(pid: int, name: bytes) -> None:
    """Do what a process does that writes over its arguments."""
    start = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[45])
    with Path(f"/proc/{pid}/mem").open("r+b", buffering=0) as memory:
        memory.seek(start)
        memory.write(name)
    assert Path(f"/proc/{pid}/cmdline").read_bytes().startswith(name)


def test_backend_that_calls_itself_otherwise(cluster: PrivateCluster) -> None:
    """It is judged by its binary: traced by its pid, and as its server's."""
    with cluster.connect() as connection:
        pid = connection.info.backend_pid
        rename(pid, b"sshd: someone@pts/0\0")
        for target in pid, cluster.postmaster_pid:
            with capturing(target) as captured:
                connection.execute("select 'mine'")
            assert texts(captured.backend(pid)) == {"select 'mine'"}


RENAMES = """
#include <pthread.h>
#include <sys/prctl.h>
static void child(void) { prctl(PR_SET_NAME, "sshd"); }
__attribute__((constructor)) static void here(void)
{
    prctl(PR_SET_NAME, "nginx");
    pthread_atfork(0, 0, child);
}
"""


def test_server_whose_processes_rename_themselves(disk_directory: Path) -> None:
    """By prctl(), so that `ps -e` and `pkill` do not find them. It is found, and traced."""
    with ExitStack() as stack:
        with preloaded(RENAMES, disk_directory):
            server = stack.enter_context(CopiedCluster(directory=disk_directory, port=PORT + 1))
        connection = stack.enter_context(server.connect())
        pid = connection.info.backend_pid
        assert Path(f"/proc/{server.postmaster_pid}/comm").read_text() == "nginx\n"
        assert Path(f"/proc/{pid}/comm").read_text() == "sshd\n"
        for target in (pid,), (server.postmaster_pid,), ("--server", PORT + 1):
            with capturing(*target) as captured, server.connect() as later:
                connection.execute("select 'mine'")
                later.execute("select 'yours'")
                other_pid = later.info.backend_pid
            assert texts(captured.backend(pid)) == {"select 'mine'"}
            if target != (pid,):
                assert texts(captured.backend(other_pid)) == {"select 'yours'"}


def test_other_program_that_calls_itself_postgres(tmp_path: Path) -> None:
    title = "postgres: postgres postgres [local] idle"
    with Child("bash", "-c", f"exec -a {title!r} sleep 600") as process:
        wait_for(lambda: Path(f"/proc/{process.pid}/comm").read_text() == "sleep\n")
        ended = run("capture", process.pid, "--duration", 1)
    assert (ended.code, ended.out) == (3, "")
    assert "not PostgreSQL" in ended.err or "is sleep" in ended.err, ended
