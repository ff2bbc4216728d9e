"""Names with nothing typed: a child that has become the server's owner connects, and nobody else.

What root does not do is tried by those who would gain: a socket of somebody else's in the place of
the server's, one that never answers, one that answers with what is none.
"""

import json
import os
import pwd
import re
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest

from child import children_of, stopped, wait_until_gone
from copied_cluster import CopiedCluster
from fix_cluster import SETTINGS
from fix_markers import PG_VERSION
from pgtrace import trace
from pgtrace.errors import DatabaseError
from pgtrace.failures import Failures
from pgtrace.files.documents import load
from pgtrace.lab.core import benchmark_table
from pgtrace.lab.core.private_cluster import PrivateCluster
from pgtrace.linux.other_root import inside
from pgtrace.postgres import discovery, owners_child, owners_connection
from pgtrace.postgres.catalog import Name, Names
from pgtrace.postgres.connection import Asked
from pgtrace.postgres.discovery import Server
from pgtrace.postgres.owners_connection import OwnersConnections
from pgtrace.postgres.owners_messages import Answer, send
from pgtrace_command import PATIENT, PGTRACE, Pgtrace, patched, run, seeing, wait_for

TABLE = f"public.{benchmark_table.TABLE}"
OWN_BACKENDS = "select count(*) from pg_stat_activity where application_name = 'pgtrace'"
OWN_QUERIES = (
    "select query_start from pg_stat_activity where application_name = 'pgtrace' and state = 'idle'"
)
OWN_PIDS = "select pid from pg_stat_activity where application_name = 'pgtrace'"
LYING = """
from pgtrace.postgres import connection
def rows(self, text, parameters, true=connection.Connection.rows):
    found = true(self, text, parameters)
    lies = text == connection.query_text({query!r}) and self.peer_pid() == {pid}
    return [row[:1] + (1,) + row[2:] for row in found] if lies else found
connection.Connection.rows = rows
"""
"""Code that lets the child of one server hand back a number in the place of a name."""
GREETING = (
    b"R\0\0\0\x08\0\0\0\0"  # AuthenticationOk
    b"K\0\0\0\x0c\0\0\0\x07\0\0\0\x08"  # BackendKeyData
    b"Z\0\0\0\x05I"  # ReadyForQuery
)


@pytest.fixture(scope="module")
def restartable(disk_directory: Path) -> Iterator[PrivateCluster]:
    settings = SETTINGS | {"log_connections": True}
    with CopiedCluster(settings, table=True, version=PG_VERSION, directory=disk_directory) as own:
        yield own


@pytest.fixture(scope="module")
def other(disk_directory: Path) -> Iterator[PrivateCluster]:
    with CopiedCluster(table=True, version=PG_VERSION, directory=disk_directory) as second:
        yield second


@pytest.fixture
def server(restartable: PrivateCluster) -> Server:
    return discovery.server(restartable.postmaster_pid)


def status_of(pid: int) -> dict[str, list[str]]:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return {name: rest.split() for name, _, rest in (line.partition(":") for line in lines)}


def test_a_capture_of_a_server_names_relations_users_and_applications(
    restartable: PrivateCluster, tmp_path: Path
) -> None:
    """Nothing was typed but which server it is; and pgtrace's own backend is not told of."""
    file = tmp_path / "capture.json"
    target = f"--server={restartable.datadir}"
    with Pgtrace("capture", target, "--by", "relation", "-o", file, connects=True) as started:
        started.attached()
        with restartable.connect(application_name="the shop") as client:
            client.execute(f"select count(*) from {TABLE}")
            looked = f"select max(query_start) > %s from ({OWN_QUERIES}) own"
            now = client.execute("select clock_timestamp()").fetchone()
            wait_for(lambda: client.execute(looked, now).fetchone() == (True,))
        ended = started.stop()
    assert ended.code == 0, ended
    whole = json.loads(file.read_text())
    assert whole["probes"]["not_measured"] == []
    (shop,) = [b for b in whole["backends"] if b["application_name"] == "the shop"]
    assert (shop["datname"], shop["usename"]) == ("postgres", "postgres")
    assert TABLE in {io["relation"] for io in shop["io"]}
    assert whole["buffers"]
    assert not [b for b in whole["backends"] if b["application_name"] == "pgtrace"]


def test_relations_of_several_databases_are_named(
    restartable: PrivateCluster, tmp_path: Path
) -> None:
    """Each takes a connection of its own. What libpq warns of reaches no server."""
    file, databases = tmp_path / "capture.json", [f"shop_{number}" for number in range(3)]
    logged = restartable.log.stat().st_size
    with restartable.connect() as connection:
        for name in databases:
            connection.execute(f"create database {name}")
    clients = [restartable.connect(dbname=name) for name in databases]
    try:
        for client in clients:
            # More than shared_buffers have room for
            rows = "select i, repeat('x', 300) from generate_series(1, 60000) i"
            client.execute(f"create table stock as {rows}")
        target = f"--server={restartable.datadir}"
        with Pgtrace("capture", target, "--by", "relation", "-o", file, connects=True) as started:
            started.attached()
            for client in clients:
                client.execute("select count(*) from stock")
                time.sleep(1.2)  # a look comes about each second
            started.send(signal.SIGINT)
            ended = started.ended()
    finally:
        for client in clients:
            client.close()
        with restartable.connect() as connection:
            for name in databases:
                connection.execute(f"drop database {name}")
    assert ended.code == 0, ended
    whole = json.loads(file.read_text())
    assert whole["probes"]["not_measured"] == []
    named = {(b["datname"], io["relation"]) for b in whole["backends"] for io in b["io"]}
    assert {(name, f"{name}.public.stock") for name in databases} <= named
    assert b"FATAL" not in restartable.log.read_bytes()[logged:]


def test_attach_names_the_relation_in_which_a_query_read_longest(
    restartable: PrivateCluster,
) -> None:
    """With each query; and those of all of them at the end."""
    with restartable.connect() as client:
        pid = client.info.backend_pid
        words = "attach", pid, "--require-names"  # it has them when it is attached
        with Pgtrace(*words, command=patched(PATIENT), connects=True) as started:
            started.attached()
            client.execute(f"select count(*) from {TABLE}")
            started.wait_for("■")
            started.send(signal.SIGINT)
            ended = started.ended()
    assert ended.code == 0, ended
    name = re.escape(f"{TABLE} (heap)")
    longest = rf"Longest in {name}: [\d,]+ reads in [\d.]+ .s \(\d+ % of reading\)\."
    words = " ".join(ended.out.split())
    if f"All of it was in {TABLE} (heap)." not in words:  # the catalogs were in shared_buffers
        assert re.search(longest, words)
        in_two_lines = rf" {re.escape(TABLE)}\s+\(heap\)$"
        assert re.search(in_two_lines, ended.out, re.MULTILINE)


def test_who_connects_is_the_owner_who_can_do_nothing_more(
    restartable: PrivateCluster, server: Server
) -> None:
    """All ids, no groups, no capability, no way to get one; nothing of pgtrace's is open in it."""
    with (
        Pgtrace("capture", f"--server={restartable.datadir}", connects=True) as started,
        restartable.connect() as client,
    ):
        started.attached()
        uid = str(server.postmaster.uid)
        wait_for(lambda: client.execute(OWN_BACKENDS).fetchone() == (1,))
        (child,) = [c for c in children_of(started.pid) if status_of(c)["Uid"] == [uid] * 4]
        status = status_of(child)
        seen = ("head", "-c1", f"/proc/{child}/environ")
        looked_into = subprocess.run(
            ["setpriv", f"--reuid={uid}", "--clear-groups", *seen], capture_output=True, check=False
        )
        files = [str(file.readlink()) for file in Path(f"/proc/{child}/fd").iterdir()]
        started.send(signal.SIGINT)
        assert started.ended().code == 0
        wait_for(lambda: client.execute(OWN_BACKENDS).fetchone() == (0,))
    assert status["Groups"] == []
    sets = ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb")
    assert not any(int(status[each][0], 16) for each in sets)
    assert status["NoNewPrivs"] == ["1"]
    assert not [file for file in files if "bpf" in file or "perf" in file], files
    assert looked_into.returncode != 0, looked_into
    wait_until_gone(child)


def test_the_child_ends_with_pgtrace_however_that_ends(restartable: PrivateCluster) -> None:
    """And so does the one that looks into processes."""
    with Pgtrace("capture", f"--server={restartable.datadir}", connects=True) as started:
        started.attached()
        children = wait_for(lambda: len(found := children_of(started.pid)) > 1 and found)
        wait_for(lambda: all(status_of(child)["NoNewPrivs"] == ["1"] for child in children))
        started.send(signal.SIGKILL)
        wait_until_gone(*children)


def test_ctrl_c_of_the_terminal_is_not_the_childs(restartable: PrivateCluster) -> None:
    """A terminal sends it to the whole group; the last names are asked for after that."""
    with Pgtrace("capture", f"--server={restartable.datadir}", "--json", connects=True) as started:
        started.attached()
        for child in wait_for(lambda: children_of(started.pid)):
            os.kill(child, signal.SIGINT)
        started.send(signal.SIGINT)
        ended = started.ended()
    assert ended.code == 0
    assert json.loads(ended.out)["buffers"]


def test_no_connect_connects_to_nothing(restartable: PrivateCluster) -> None:
    log = restartable.log
    before = log.stat().st_size
    ended = run(
        "capture", f"--server={restartable.datadir}", "--no-connect", "--duration", 1, connects=True
    )
    assert ended.code == 0, ended
    assert b"connection" not in log.read_bytes()[before:]
    assert "pg_stat_statements was not asked" in ended.out


@pytest.mark.parametrize("other", [["--dsn", ""], ["--require-names"]], ids="".join)
def test_no_connect_goes_with_no_connection(other: list[str]) -> None:
    ended = run("capture", "--no-connect", *other, "--duration", 1)
    assert ended.code == 2
    assert f"{other[0]} needs a connection" in ended.err


def test_a_server_that_is_started_again_is_connected_to_again(
    restartable: PrivateCluster, tmp_path: Path
) -> None:
    """Its postmaster is another process by then."""
    file = tmp_path / "capture.json"
    target = f"--server={restartable.datadir}"
    with Pgtrace("capture", target, "--by", "relation", "-o", file, connects=True) as started:
        started.attached()
        with restartable.connect() as client:
            wait_for(lambda: client.execute(OWN_BACKENDS).fetchone() == (1,))
        restartable.restart()
        with restartable.connect(application_name="after") as client:
            looked = f"select max(query_start) > %s from ({OWN_QUERIES}) own"
            now = client.execute("select clock_timestamp()").fetchone()
            least = time.monotonic() + 4  # reads before the new server is noticed are in the gap

            def is_asked_again() -> bool:
                client.execute(f"select count(*) from {TABLE}")
                asked = client.execute(looked, now).fetchone() == (True,)
                return asked and time.monotonic() >= least

            wait_for(is_asked_again)
            ended = started.stop()  # which looks for the last time
    assert ended.code == 0, ended
    whole = json.loads(file.read_text())
    assert [b for b in whole["backends"] if b["application_name"] == "after"]
    assert not [text for text in whole["probes"]["not_measured"] if "names" in text], ended.err


def test_a_server_that_stops_before_it_lets_anybody_in_is_connected_to_again(
    restartable: PrivateCluster, server: Server
) -> None:
    tried: list[DatabaseError | None] = []
    owners = OwnersConnections(server)

    @contextmanager
    def connect(
        dbname: str | None = None, opened: Callable[[int], None] | None = None
    ) -> Iterator[Asked]:
        try:
            with owners.connect(dbname, opened) as asked:
                tried.append(None)
                yield asked
        except DatabaseError as error:
            tried.append(error)
            raise

    stop = threading.Thread(target=restartable.stop)
    with closing(owners), closing(Names(connect, [server], Failures())) as names:
        with stopped(server.postmaster_pid):
            stop.start()
            sigint = 1 << signal.SIGINT - 1  # beside those of children that end
            wait_for(lambda: int(status_of(server.postmaster_pid)["ShdPnd"][0], 16) & sigint)
            names.start()
        stop.join()
        wait_for(lambda: any(tried))
        restartable.start()
        names.require()
        assert names.missing() == []
    assert tried[0] is not None


@contextmanager
def letting_in(server: PrivateCluster, how: str) -> Iterator[None]:
    """Everybody by that, and nobody otherwise."""
    hba = server.datadir / "pg_hba.conf"
    before = hba.read_text()
    hba.write_text(f"local all all {how}\n")
    try:
        os.kill(server.postmaster_pid, signal.SIGHUP)
        time.sleep(0.5)
        yield
    finally:
        hba.write_text(before)
        os.kill(server.postmaster_pid, signal.SIGHUP)


def test_a_role_that_is_not_let_in_costs_the_names_alone(
    restartable: PrivateCluster,
) -> None:
    """What was said, and what to type, in one line."""
    target = f"--server={restartable.datadir}"
    with letting_in(restartable, "reject"):
        with Pgtrace("capture", target, connects=True) as started:
            # At once, and not at the end alone
            started.wait_for("pgtrace: no names: as role postgres")
            ended = started.stop()
        required = run("capture", target, "--require-names", "--duration", 1, connects=True)
    assert ended.code == 0, ended
    said = (
        r"names: as role postgres, by the socket in /\S+: FATAL: *pg_hba.conf rejects .*--dsn names"
    )
    assert re.search(said, " ".join(ended.out.split())), ended.out
    assert required.code == 7


def test_root_whom_peer_does_not_let_in_is_told_what_to_type(restartable: PrivateCluster) -> None:
    dsn = f"host={restartable.socket_dir} port={restartable.port} dbname=postgres user=postgres"
    named = (f"--server={restartable.datadir}", "--dsn", dsn)
    with letting_in(restartable, "peer"):
        ended = run("capture", *named, "--require-names", "--duration", 1)
    assert ended.code == 7
    assert re.search("Peer authentication failed .*leave --dsn out.*host=localhost", ended.err)


@contextmanager
def listening(directory: Path, port: int, uid: int, greeting: bytes) -> Iterator[None]:
    """A socket where the server's would be, which says that to all who come."""
    name = directory / f".s.PGSQL.{port}"
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(name))
        os.chown(name, uid, -1)
        server.listen()
        done = threading.Event()

        def serve() -> None:
            kept = []
            while not done.is_set():
                try:
                    client, _ = server.accept()
                except OSError:
                    return
                client.recv(4096)
                client.sendall(greeting)
                kept.append(client)

        threading.Thread(target=serve, daemon=True).start()
        try:
            yield
        finally:
            done.set()
            server.shutdown(socket.SHUT_RDWR)


@pytest.fixture
def elsewhere(server: Server) -> Iterator[Server]:
    """The server, if its owner wrote another directory into postmaster.pid."""
    with tempfile.TemporaryDirectory(prefix="pgt-sockets-", dir="/tmp") as directory:
        Path(directory).chmod(0o755)
        yield replace(server, socket_directory=directory)


def test_another_process_at_the_socket_is_asked_nothing(elsewhere: Server) -> None:
    assert elsewhere.socket_directory
    assert elsewhere.port
    where = Path(elsewhere.socket_directory)
    with (
        listening(where, elsewhere.port, elsewhere.postmaster.uid, GREETING),
        closing(OwnersConnections(elsewhere)) as owners,
        pytest.raises(DatabaseError, match="another process's"),
        owners.connect(),
    ):
        pass


@pytest.mark.parametrize("name", ["@nobody,127.0.0.1", "@nobody,@nobody,127.0.0.1"])
def test_no_second_host_is_tried(server: Server, name: str) -> None:
    """libpq takes a list: the owner of a server in a container would connect from the host."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.setblocking(False)
        listed = replace(server, socket_directory=name, port=listener.getsockname()[1])
        with (
            closing(OwnersConnections(listed)) as owners,
            pytest.raises(DatabaseError, match="is no directory of a socket"),
            owners.connect(),
        ):
            pass
        with pytest.raises(BlockingIOError):
            listener.accept()


def test_a_socket_that_never_answers_holds_up_nobody(
    elsewhere: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What waits there is the child."""
    monkeypatch.setattr(owners_connection, "_PATIENCE_S", 1)
    assert elsewhere.socket_directory
    assert elsewhere.port
    where = Path(elsewhere.socket_directory)
    owners = OwnersConnections(elsewhere)
    with listening(where, elsewhere.port, elsewhere.postmaster.uid, b""):
        begin = time.monotonic()
        with pytest.raises(DatabaseError, match="gave no answer"), owners.connect():
            pass
        with pytest.raises(DatabaseError, match="gave no answer"), owners.connect():
            pass
        owners.close()
        assert time.monotonic() - begin < 5


def test_a_backend_that_answers_late_costs_no_names(
    restartable: PrivateCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As after `docker pause`, or a read of the catalogs that waits for its disk."""

    def are_missing() -> bool:
        return any("names" in text for text in tracer.not_measured)

    with restartable.connect(application_name="the shop") as client:
        with trace(restartable.postmaster_pid, as_owner=True, by_relation=True) as tracer:
            tracer.require_names()
            wait_for(lambda: client.execute(OWN_BACKENDS).fetchone() == (1,))
            (own,) = client.execute(OWN_PIDS).fetchone() or ()
            monkeypatch.setattr(owners_connection, "_PATIENCE_S", 1)
            with stopped(own):
                # More than shared_buffers have room for
                rows = "select i, repeat('x', 300) from generate_series(1, 60000) i"
                client.execute(f"create table of_meanwhile as {rows}")
                client.execute("select count(*) from of_meanwhile")
                with restartable.connect() as another:  # who has come is asked for
                    another.execute("select count(*) from of_meanwhile")
                wait_for(are_missing)
                monkeypatch.undo()
            wait_for(lambda: not are_missing())
            wait_for(lambda: client.execute(OWN_BACKENDS).fetchone() == (1,))
            assert client.execute(OWN_PIDS).fetchone() != (own,)
        client.execute("drop table of_meanwhile")
    taken = tracer.capture()
    assert not [text for text in taken.probes.not_measured if "names" in text]
    (shop,) = [each for each in taken.backends if each.application_name == "the shop"]
    assert "public.of_meanwhile" in {io.relation for io in shop.io}
    assert taken.buffers
    assert not [each for each in taken.backends if each.application_name == "pgtrace"]


def test_what_the_child_hands_back_is_not_trusted(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is another user's by then: bytes that are no answer end it, and so do too many."""
    for said in (
        b"\x05\0\0\0hello",
        b"\xff\xff\xff\xff",
        b"\x0e\0\0\0" + bytes.fromhex("81a4726f777391 91 c0 00 00 00 00 00 00".replace(" ", "")),
    ):
        owners = OwnersConnections(server)
        ours, theirs = socket.socketpair()
        theirs.sendall(said)
        monkeypatch.setattr(owners, "_socket", ours)
        with pytest.raises(DatabaseError, match="is gone"), owners.connect():
            pass
        owners.close()
        theirs.close()


def test_what_the_child_says_of_an_error_is_no_file_of_its_own(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It stands in the capture of all servers."""
    owners = OwnersConnections(server)
    ours, theirs = socket.socketpair()
    said = msgspec.msgpack.encode(Answer("x" * 100_000))
    with closing(owners), theirs:
        send(theirs, said, [])
        monkeypatch.setattr(owners, "_socket", ours)
        with pytest.raises(DatabaseError) as raised, owners.connect():
            pass
    assert len(str(raised.value)) == 1000


@pytest.mark.parametrize("query", ["activity", "relations", "tablespaces"])
def test_an_answer_of_another_kind_costs_the_names_of_its_server_alone(
    restartable: PrivateCluster, other: PrivateCluster, tmp_path: Path, query: str
) -> None:
    """One file has the names of all, and nobody would read it any more."""
    file = tmp_path / "capture.json"
    both = PATIENT + seeing(restartable.postmaster_pid, other.postmaster_pid)
    command = patched(both + LYING.format(query=query, pid=restartable.postmaster_pid))
    arguments = ("capture", "--all", "--by", "relation", "-o", file)
    with Pgtrace(*arguments, command=command, connects=True) as started, ExitStack() as clients:
        started.attached()
        for each in restartable, other:
            client = clients.enter_context(each.connect(application_name="the shop"))
            client.execute(f"select count(*) from {TABLE}")
        ended = started.stop()  # which looks for the last time
    assert ended.code == 0, ended
    taken = load(file)
    assert taken.partial == []
    missing = [text for text in taken.probes.not_measured if "names" in text]
    assert [text.partition(": ")[0] for text in missing] == [f"names in {restartable.datadir}"], (
        missing
    )
    assert missing[0].endswith(f"no answer to the query for {query}")
    assert "the shop" in {backend.application_name for backend in taken.backends}


def test_an_answer_that_is_too_long_costs_nothing_but_itself(
    restartable: PrivateCluster, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next one is as good as before."""
    monkeypatch.setattr(owners_child, "MOST_ANSWERED", 10_000)
    with closing(OwnersConnections(server)) as owners, owners.connect() as asked:
        with pytest.raises(DatabaseError, match="more than"):
            asked.ask("relations", tuple[str | None, str, str])
        assert asked.ask("cluster", tuple[int, int, int])


def test_the_owner_himself_needs_no_right_to_become_anybody(
    restartable: PrivateCluster, server: Server
) -> None:
    """pgtrace may run as the server's user, with what capabilities it takes to trace."""
    uid, looking = server.postmaster.uid, "+sys_ptrace,+dac_read_search"
    owner = (
        "setpriv", f"--reuid={uid}", f"--regid={uid}", "--clear-groups",
        f"--inh-caps=-all,{looking}", f"--ambient-caps=-all,{looking}",
        f"--bounding-set=-all,{looking}", sys.executable, "-c",
    )  # fmt: skip
    code = (
        "import sys; from pgtrace.postgres import discovery; "
        "from pgtrace.postgres.owners_connection import OwnersConnections; "
        "own = OwnersConnections(discovery.server(int(sys.argv[1]))).connect(); "
        "print(own.__enter__().ask('cluster', tuple[int, int, int])[0][0] > 0)"
    )
    ran = subprocess.run(
        [*owner, code, str(server.postmaster_pid)], capture_output=True, text=True, check=False
    )
    assert ran.stdout == "True\n", ran


def test_a_path_of_the_servers_cannot_lead_the_owner_out_of_its_own_root(tmp_path: Path) -> None:
    """A link is followed as the server would: what is absolute begins at its root."""
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "sockets").mkdir()
    (tmp_path / "var").symlink_to("/run")
    assert inside(tmp_path, "/var/sockets") == tmp_path / "run" / "sockets"
    assert inside(tmp_path, "/../../var/../run") == tmp_path / "run"


def test_without_the_right_to_become_the_owner_it_says_so(
    restartable: PrivateCluster,
) -> None:
    less = ("setpriv", "--bounding-set=-setuid,-setgid", "--inh-caps=-setuid,-setgid", "--")
    with Pgtrace(
        "capture", f"--server={restartable.datadir}", command=(*less, *PGTRACE), connects=True
    ) as started:
        started.attached()
        time.sleep(1)
        started.send(signal.SIGINT)
        ended = started.ended()
    assert ended.code == 0, ended
    assert "CAP_SETUID and CAP_SETGID" in " ".join(ended.out.split())


def test_the_name_is_that_in_the_servers_own_list_of_users(restartable: PrivateCluster) -> None:
    """peer compares it with the role's."""
    target = discovery.server(restartable.postmaster_pid)
    with closing(OwnersConnections(target)) as owners, owners.connect() as asked:
        names = {row.pid: row.usename for row in asked.ask("activity", Name)}
    assert pwd.getpwuid(target.postmaster.uid).pw_name in names.values()


def test_root_by_a_dsn_is_told_what_to_leave_out(restartable: PrivateCluster) -> None:
    """Which is what sudo makes of `--dsn ''`."""
    dsn = f"host={restartable.socket_dir} port={restartable.port} dbname=postgres user=root"
    target = f"--server={restartable.datadir}"
    ended = run("capture", target, "--dsn", dsn, "--require-names", "--duration", 1)
    assert ended.code == 7
    assert "leave --dsn out" in ended.err
