"""The laboratory's own server is its user's, who is not trusted: what root connects to, and what it
waits for.

The attacker is a process of that user, without capabilities.
"""

import json
import os
import signal
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import psycopg
import pytest

from copied_cluster import CopiedCluster
from fix_cluster import Connection
from fix_storage import LAB_STATE
from pgtrace.errors import PgtraceError
from pgtrace.lab.core import (
    cluster_keeper,
    existing_server,
    page_cache,
    private_cluster,
    private_server,
    undo_log,
)
from pgtrace.lab.core.cpu_affinity import Pins
from pgtrace.lab.core.interruption import Interrupted
from pgtrace.lab.core.private_cluster import PrivateCluster
from pgtrace.lab.core.private_server import PrivateServer
from pgtrace.lab.core.runner import Copy
from pgtrace.lab.core.undo_log import Changes, Cluster, Directory, Setting, Statement, restore
from pgtrace.linux import as_user
from servers_user import IDS, NOBODY, attack, attacker, attackers_directory

pytestmark = pytest.mark.pg("15")

SECRET = "root's-password"


@pytest.fixture
def storage(disk_directory: Path) -> Iterator[Path]:
    with attackers_directory(disk_directory) as directory:
        yield directory


FAKE = r"""
import os, socket, struct, sys
name, greeting = sys.argv[1], bytes.fromhex(sys.argv[2])
server = socket.socket(socket.AF_UNIX)
server.bind(name + ".mine")
server.listen()
os.rename(name + ".mine", name)
print("ready")
while True:
    client, _ = server.accept()
    client.recv(4096)  # who it is
    client.sendall(greeting)
    client.settimeout(10)
    try:
        print("heard", client.recv(4096))
    except OSError:
        print("heard nothing")
"""
"""Takes the place of the server's socket, says that to each who comes, and tells what it hears."""

WELCOME = (
    b"R\0\0\0\x08\0\0\0\0"  # AuthenticationOk
    b"K\0\0\0\x0c\0\0\0\x07\0\0\0\x08"  # BackendKeyData
    b"Z\0\0\0\x05I"  # ReadyForQuery
)
PASSWORD = b"R\0\0\0\x08\0\0\0\x03"  # AuthenticationCleartextPassword


def socket_of(cluster: PrivateCluster) -> Path:
    return cluster.base / f".s.PGSQL.{cluster.port}"


@pytest.fixture
def secrets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Root's own, wherever libpq looks for them."""
    (tmp_path / ".pgpass").write_text(f"*:*:*:*:{SECRET}\n")
    (tmp_path / ".pgpass").chmod(0o600)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("PGPASSWORD", SECRET)
    monkeypatch.setenv("PGPASSFILE", str(tmp_path / ".pgpass"))


@pytest.mark.usefixtures("secrets")
@pytest.mark.parametrize("newest", [True, False], ids=["", "old libpq"])
def test_a_server_that_asks_for_a_password_gets_none(
    storage: Path, newest: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also by a libpq that does not know `require_auth`, as before PostgreSQL 16's."""
    if not newest:
        monkeypatch.setattr(psycopg.pq, "version", lambda: 150000)
    with (
        CopiedCluster(directory=storage) as cluster,
        attacker(FAKE, socket_of(cluster), PASSWORD.hex()) as fake,
    ):
        with pytest.raises(psycopg.OperationalError):
            cluster.connect()
        assert fake.line() == "heard b''\n"
    assert os.environ["PGPASSWORD"] == SECRET


@pytest.mark.parametrize("pid_namespace", [False, True], ids=["", "namespace"])
def test_another_process_at_the_socket_is_asked_nothing(storage: Path, pid_namespace: bool) -> None:
    with (
        CopiedCluster(directory=storage, pid_namespace=pid_namespace) as cluster,
        attacker(FAKE, socket_of(cluster), WELCOME.hex()) as fake,
    ):
        with pytest.raises(PgtraceError, match="another process's"):
            cluster.connect()
        assert fake.line() in {"heard b''\n", "heard b'X\\x00\\x00\\x00\\x04'\n"}


def test_a_socket_that_never_answers_is_waited_for_in_bounded_time(
    storage: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(private_cluster, "CONNECT_S", 2, raising=False)
    with (
        CopiedCluster(directory=storage) as cluster,
        attacker(FAKE, socket_of(cluster), ""),
        pytest.raises(psycopg.errors.ConnectionTimeout),
    ):
        cluster.connect()


def test_nothing_of_roots_environment_leads_elsewhere(
    storage: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A password that is right in another place is no reason to go there."""
    monkeypatch.setenv("PGHOSTADDR", "127.0.0.1")
    monkeypatch.setenv("PGSERVICE", "nowhere")
    monkeypatch.setenv("PGOPTIONS", "-c statement_timeout=1234")
    monkeypatch.setenv("PGTZ", "Antarctica/Troll")
    monkeypatch.setenv("PGREQUIREPEER", "nobody")
    with CopiedCluster(directory=storage) as cluster, cluster.connect() as connection:
        assert connection.execute("show statement_timeout").fetchone() == ("0",)
        assert connection.execute("show timezone").fetchone() != ("Antarctica/Troll",)
    assert os.environ["PGSERVICE"] == "nowhere"


def test_no_other_account_gets_the_password_for_a_server_of_dsn(
    disk_directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Anybody may make a socket where the server's was, as in /tmp, while that is away."""
    common = Path(tempfile.mkdtemp(prefix="common-", dir=disk_directory))
    common.chmod(0o1777)
    with CopiedCluster(directory=disk_directory) as cluster:
        with cluster.connect() as connection:
            connection.execute(f"alter system set unix_socket_directories = '{common}'".encode())
        cluster.restart()
        monkeypatch.setattr(cluster, "socket_dir", common)
        conninfo = existing_server.find(cluster.dsn(), shared_host=True).conninfo
        change = Statement(conninfo, "select 1 where false", "select 1")
        assert change.undo() is None
        cluster.stop()
        monkeypatch.setenv("PGPASSWORD", SECRET)
        at = common / f".s.PGSQL.{cluster.port}"
        with attacker(FAKE, at, PASSWORD.hex(), ids=NOBODY) as fake:
            with pytest.raises(psycopg.OperationalError):
                change.undo()
            assert SECRET not in fake.line()
            at.unlink()


class Lying:
    """A server that says that of where a relation lies."""

    def __init__(self, *said: object) -> None:
        self._said = said

    def execute(self, *_: object) -> list[tuple[object]]:
        return [(each,) for each in self._said]


@pytest.mark.parametrize(
    "said",
    ["base/5/(a+)+$", "base/5/16384|postmaster.pid", "../16384", "/etc/shadow", "base/../../x",
     "pg_tblspc/7/../16384", "base/5/16384\n", "", None, 16384],
)  # fmt: skip
def test_a_relations_path_is_one(tmp_path: Path, said: object) -> None:
    connection: Any = Lying("base/5/16384", said)
    (tmp_path / "base/5").mkdir(parents=True)
    with pytest.raises(PgtraceError, match="no relation's file"):
        page_cache.relation_files(tmp_path, connection, "t")


@pytest.mark.parametrize(
    "said",
    ["base/5/16384", "global/1213", "base/5/t3_16384", "pg_tblspc/16390/PG_15_202209061/5/7"],
)
def test_what_servers_say_of_relations_is_taken(tmp_path: Path, said: str) -> None:
    file = tmp_path / said
    file.parent.mkdir(parents=True)
    for name in file, file.with_name(f"{file.name}_vm"), file.with_name(f"{file.name}.1"):
        name.touch()
    file.with_name(f"{file.name}0").touch()
    connection: Any = Lying(said)
    found = page_cache.relation_files(tmp_path, connection, "t")
    assert [path.name for path in found] == [file.name, f"{file.name}.1", f"{file.name}_vm"]


# What root waits for

STOPPER = r"""
import os, signal, sys, time
own, words = os.getuid(), [word.encode() for word in sys.argv[1:]]
print("ready")
while True:
    time.sleep(0.001)
    for pid in filter(str.isdecimal, os.listdir("/proc")):
        try:
            if os.stat("/proc/" + pid).st_uid == own and int(pid) != os.getpid():
                line = open(f"/proc/{pid}/cmdline", "rb").read()
                if all(word in line for word in words) and b"python" not in line:
                    os.kill(int(pid), signal.SIGSTOP)
        except OSError:
            pass
"""
"""Stops whatever of its user's has these words in its command line: not what other tests began."""

TRACER = r"""
import ctypes, os, signal, sys, time
print("ready")
while True:
    for pid in filter(str.isdecimal, os.listdir("/proc")):
        try:
            line = open(f"/proc/{pid}/cmdline", "rb").read()
            if line == b"sleep\0" + sys.argv[1].encode() + b"\0":
                if ctypes.CDLL(None).ptrace(0x4206, int(pid), None, None) == 0:  # PTRACE_SEIZE
                    print("traces it")
                    time.sleep(1000)
        except OSError:
            pass
"""
"""Nobody but a debugger can collect what it debugs."""

SECONDS = 2
"""The patience of root in these tests."""


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Whoever waits longer than twice as long, and what was not to be waited for, waits in vain."""
    monkeypatch.setattr(as_user, "PATIENCE_S", SECONDS)
    monkeypatch.setattr(as_user, "COLLECTED_S", 1)
    signal.alarm(60)
    begin = time.monotonic()
    yield
    signal.alarm(0)
    assert time.monotonic() - begin < 30


@pytest.mark.usefixtures("impatient")
def test_a_child_that_is_stopped_is_killed() -> None:
    with pytest.raises(PgtraceError, match=f"sh did not end within {SECONDS} s"):
        as_user.run(IDS, ["sh", "-c", "kill -STOP $$"])


@pytest.mark.usefixtures("impatient")
def test_one_that_leaves_its_output_to_others_has_ended() -> None:
    assert as_user.run(IDS, ["sh", "-c", "echo done; sleep 59 &"]) == "done"


@pytest.mark.usefixtures("impatient")
def test_what_a_child_is_given_is_not_waited_for_either() -> None:
    with pytest.raises(PgtraceError, match="did not end within"):
        as_user.run(IDS, ["sh", "-c", "kill -STOP $$"], data=b"x" * (1 << 20))


def test_what_a_child_says_and_takes_is_as_before() -> None:
    assert as_user.run(IDS, ["cat"], data=b"x" * 1000) == "x" * 1000
    much = "head -c 1000000 /dev/zero | tr '\\0' x; true"
    assert as_user.run(IDS, ["sh", "-c", much]) == "x" * 4096
    assert as_user.run(IDS, ["true"], data=b"x" * (1 << 20)) == ""
    with pytest.raises(PgtraceError, match=r"^no$"):
        as_user.run(IDS, ["sh", "-c", "echo no; exit 3"])


@pytest.mark.usefixtures("impatient")
def test_a_child_that_is_debugged_cannot_be_collected() -> None:
    seconds = f"{os.getpid()}.5"  # which nobody else sleeps
    with attacker(TRACER, seconds) as tracer:
        with pytest.raises(PgtraceError, match="did not end within"):
            as_user.run(IDS, ["sleep", seconds])
        assert tracer.line() == "traces it\n"


@pytest.mark.usefixtures("impatient")
def test_a_keeper_that_is_stopped_is_killed_and_what_is_left_is_said(
    storage: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = CopiedCluster(directory=storage)
    cluster.__enter__()
    change = Cluster.of(cluster)
    assert cluster._keeper is not None
    attack('kill -STOP "$1"', cluster._keeper.pid)
    with pytest.raises(PgtraceError, match=f"could not remove {cluster.base}: .* {SECONDS} s"):
        cluster.close()
    assert cluster.base.exists()
    monkeypatch.undo()  # what is not stopped may take its time
    assert change.undo() == f"removed the server in {cluster.base}"
    assert not cluster.base.exists()


@pytest.mark.usefixtures("impatient")
def test_so_is_what_removes_it_later(storage: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (storage / "pgtrace-1").mkdir()
    os.chown(storage / "pgtrace-1", *IDS)
    change = Cluster(*3 * (str(storage / "pgtrace-1"),), *IDS)
    with monkeypatch.context() as patch, pytest.raises(PgtraceError, match=f" {SECONDS} s"):
        patch.setattr(cluster_keeper, "KEEPER", f"kill -STOP $$\n{cluster_keeper.KEEPER}")
        change.undo()
    monkeypatch.undo()  # what is not stopped may take its time
    assert change.undo()


@pytest.mark.usefixtures("impatient")
def test_a_program_of_the_server_that_is_stopped_is_killed(
    storage: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with CopiedCluster(directory=storage) as cluster:
        monkeypatch.setattr(private_cluster, "WAIT_S", SECONDS / 2)
        with (
            attacker(STOPPER, "pg_ctl", storage),
            pytest.raises(PgtraceError, match="did not end within"),
        ):
            cluster.restart()
        monkeypatch.undo()


def test_settings_are_undone_before_anything_that_waits_for_others(
    own_state: None, storage: Path, tmp_path: Path
) -> None:
    """Those of all runs that were killed."""
    ahead = [tmp_path / "read_ahead_kb", tmp_path / "another"]
    made = [storage / "made", storage / "also"]
    for number, (setting, directory) in enumerate(zip(ahead, made, strict=True)):
        setting.write_text("4")
        attack('mkdir "$1"', directory)
        changes = [
            {"type": "setting", "path": str(setting), "value": "128"},
            {"type": "directory", "path": str(directory), "uid": IDS[0], "gid": IDS[1]},
        ]
        document = {"pid": 1 << 30, "start_time_ticks": 1, "changes": changes}
        (LAB_STATE / f"lab-{number}.json").write_text(json.dumps(document))
    lines = list(restore())
    assert [line.split()[0] for line in lines] == ["set", "set", "removed", "removed"]
    assert [setting.read_text() for setting in ahead] == ["128", "128"]
    assert list(LAB_STATE.iterdir()) == []


def test_a_run_undoes_them_when_it_is_told_to(own_state: None, tmp_path: Path) -> None:
    file = tmp_path / "read_ahead_kb"
    file.write_text("128")
    with Changes() as changes:
        changes.will(Directory(str(tmp_path / "none"), *IDS))
        changes.once(Setting(str(file), "128"))
        file.write_text("4")
        changes.undo_settings()
        assert file.read_text() == "128"
        (state,) = LAB_STATE.iterdir()
        assert [each["type"] for each in json.loads(state.read_text())["changes"]] == ["directory"]
        file.write_text("64")  # by somebody else, since
    assert file.read_text() == "64"
    assert list(LAB_STATE.iterdir()) == []


def test_ctrl_c_ends_a_copy_whose_backend_is_stopped(storage: Path) -> None:
    """libpq's own waiting would not hear of it, nor of the next."""

    def interrupt(*_: object) -> None:
        raise Interrupted

    before = signal.signal(signal.SIGALRM, interrupt)
    copy = Copy("copy (select generate_series(1, 10000000)) to stdout")
    with CopiedCluster(directory=storage) as cluster, closing(cluster.connect()) as backend:
        pid = backend.info.backend_pid
        later = threading.Timer(1, lambda: attack('kill -STOP "$1"', pid))
        goes_on = threading.Timer(20, lambda: os.kill(pid, signal.SIGCONT))
        later.start(), goes_on.start()
        begin = time.monotonic()
        signal.alarm(3)
        try:
            with pytest.raises(Interrupted):
                copy.execute(backend)
        finally:
            signal.alarm(0)
            signal.signal(signal.SIGALRM, before)
            goes_on.cancel()
        assert time.monotonic() - begin < 10


def test_a_server_just_started_is_not_waited_for_without_end(
    storage: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its buffers are touched where Ctrl-C leaves nothing."""
    monkeypatch.setattr(private_server, "WAIT_S", SECONDS)
    with CopiedCluster(directory=storage) as cluster:
        server = PrivateServer(cluster, Pins())
        server.prepare()
        true = cluster.connect

        def connect(**parameters: Any) -> Connection:
            made = true(**parameters)
            attack('kill -STOP "$1"', made.info.backend_pid)
            return made

        monkeypatch.setattr(cluster, "connect", connect)
        begin = time.monotonic()
        with pytest.raises(psycopg.OperationalError):
            server.fresh()
        assert time.monotonic() - begin < 20


def test_what_is_to_be_dropped_is_not_waited_for_without_end(
    storage: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another session keeps it, or the server is stopped."""
    monkeypatch.setattr(undo_log, "_STATEMENT_S", 2)
    monkeypatch.setattr(undo_log, "TIMEOUT_S", 2)
    with CopiedCluster(directory=storage) as cluster, cluster.connect() as other:
        other.execute("create schema made; create table made.t (a int)")
        present = "select 1 from pg_catalog.pg_namespace where nspname = 'made'"
        drop = Statement(cluster.dsn(), present, "drop schema made cascade")
        with other.transaction():
            other.execute("lock table made.t")
            begin = time.monotonic()
            with pytest.raises(psycopg.Error):
                drop.undo()
        attack('kill -STOP "$1"', cluster.postmaster_pid)
        with pytest.raises(psycopg.Error):
            drop.undo()
        assert time.monotonic() - begin < 20
        attack('kill -CONT "$1"', cluster.postmaster_pid)
        monkeypatch.undo()  # who answers may take his time
        assert drop.undo()
        assert drop.undo() is None
