"""Servers, backends and running queries found in /proc, against what the server says itself."""

import argparse
import errno
import json
import os
import platform
import re
import shutil
import signal
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg
import pytest

from child import OWN_MOUNTS, Child, Idle, children_of, stopped, wait_for, wait_until_gone
from copied_cluster import CopiedCluster
from fix_markers import PG_VERSION
from pgtrace.commands import doctor, list_
from pgtrace.doctor import server as server_abilities
from pgtrace.errors import PermissionDeniedError, PgtraceError, TargetError, UnsupportedError
from pgtrace.lab.core.private_cluster import PrivateCluster
from pgtrace.postgres import binary, discovery, proc, program
from pgtrace.postgres.discovery import Server
from pgtrace_command import run

Connection = psycopg.Connection[Any]
NOBODY = 65534

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root")


@contextmanager
def running(
    connection: Connection, *statement: Any, outer_pid: int | None = None, **options: Any
) -> Iterator[int]:
    """A backend in the midst of a statement that sleeps, and is canceled in the end."""

    def execute() -> None:
        with connection.cursor() as cursor, pytest.raises(psycopg.errors.QueryCanceled):
            cursor.execute(*statement, **options)

    def asleep() -> bool:
        """Not before: a statement that is prepared is already one while it is parsed."""
        found = watcher.execute(
            "select wait_event = 'PgSleep' from pg_stat_activity where pid = %s",
            [connection.info.backend_pid],
        ).fetchone()
        return found is not None and found[0] is True

    thread = threading.Thread(target=execute)
    thread.start()
    try:
        with psycopg.connect(connection.info.dsn, autocommit=True) as watcher:
            wait_for(asleep)
        yield outer_pid or connection.info.backend_pid
    finally:
        connection.cancel()
        thread.join()


@pytest.fixture
def known(cluster: PrivateCluster) -> Server:
    return discovery.server(cluster.postmaster_pid)


# --- servers


def test_a_server_is_described_as_it_describes_itself(
    cluster: PrivateCluster, connection: Connection
) -> None:
    (found,) = [
        each for each in discovery.servers() if each.postmaster_pid == cluster.postmaster_pid
    ]
    row = connection.execute(
        "select current_setting('server_version'), current_setting('data_directory'),"
        " current_setting('block_size')::int, current_setting('port')::int,"
        " current_setting('unix_socket_directories'), current_setting('cluster_name')"
    ).fetchone()
    assert row is not None
    assert (found.version or "?") == row[0].split()[0]
    assert found.major == PG_VERSION
    assert (found.data_directory, found.block_size, found.port) == row[1:4]
    assert (found.socket_directory, found.cluster_name) == row[4:]
    assert found.directory.samefile(cluster.datadir)


def test_any_process_leads_to_its_server(cluster: PrivateCluster, connection: Connection) -> None:
    assert discovery.server(connection.info.backend_pid) == discovery.server(cluster.postmaster_pid)


def test_tablespaces_are_found_where_they_are(
    cluster: PrivateCluster, connection: Connection, known: Server
) -> None:
    assert discovery.tablespaces(known) == []
    real = cluster.socket_dir / "real"
    real.mkdir()
    shutil.chown(real, cluster.datadir.owner())
    link = cluster.socket_dir / "link"
    link.symlink_to("real")
    connection.execute(f"create tablespace odd location '{link}'")
    try:
        (space,) = discovery.tablespaces(known)
        row = connection.execute("select oid from pg_tablespace where spcname = 'odd'").fetchone()
        assert (space.oid, space.location) == (row and row[0], str(link))
        assert space.path.samefile(real)
        assert not space.path.is_symlink()
    finally:
        connection.execute("drop tablespace odd")


# --- backends


def test_backends_are_those_of_pg_stat_activity(connection: Connection, known: Server) -> None:
    both: list[object] = []

    def agree() -> bool:
        """Who has just gone is not in pg_stat_activity, but is a process for a moment yet."""
        asked = "select pid, backend_type, datname, usename from pg_stat_activity"
        # The superuser's name is no client's name in the title of a background process.
        said = {known.postmaster_pid: ("postmaster", None, None)} | {
            pid: (kind, datname, usename) if kind == "client backend" else (kind, None, None)
            for pid, kind, datname, usename in connection.execute(asked)
        }
        found = {
            backend.pid: (backend.backend_type, backend.datname, backend.usename)
            for backend in known.backends()
        }
        rest = {kind for pid, (kind, *_) in found.items() if pid not in said}
        both[:] = said, found
        return said.items() <= found.items() and rest <= {"logger", "stats collector", "io worker"}

    wait_for(agree, instead=lambda: both)


def test_a_backend_s_activity(cluster: PrivateCluster, connection: Connection) -> None:
    pid = connection.info.backend_pid
    assert discovery.backend(pid).activity == "idle"
    assert discovery.backend(pid).client_addr == "[local]"
    assert discovery.backend(pid).postmaster_pid == cluster.postmaster_pid
    connection.execute("begin")
    assert discovery.backend(pid).activity == "idle in transaction"
    connection.execute("rollback")
    with running(connection, "select pg_sleep(60)"):
        assert discovery.backend(pid).activity == "SELECT"


def test_a_title_that_is_not_updated_tells_no_activity(connection: Connection) -> None:
    connection.execute("set update_process_title = off")
    connection.execute("begin")
    found = discovery.backend(connection.info.backend_pid)
    assert found.activity is None
    assert found.datname == "postgres"


@pytest.mark.parametrize("user", ["two words", "checkpointer", "15/main: eve", "[local]", "öß"])
def test_odd_names(cluster: PrivateCluster, connection: Connection, user: str) -> None:
    connection.execute(f'create role "{user}" login')
    try:
        with cluster.connect(user=user) as other:
            found = discovery.backend(other.info.backend_pid)
            assert found.backend_type == "client backend"
            assert found.usename == (None if " " in user else user)
            assert found.datname == (None if " " in user else "postgres")
    finally:
        connection.execute(f'drop role "{user}"')


def test_a_parallel_worker_s_leader(connection: Connection, known: Server) -> None:
    connection.execute("set max_parallel_workers_per_gather = 2")
    connection.execute("set parallel_setup_cost = 0")
    connection.execute("set parallel_tuple_cost = 0")
    connection.execute("set min_parallel_table_scan_size = 0")
    query = "select count(pg_sleep(0.01)) from tbl_cost_align"
    with running(connection, query) as pid:
        workers = wait_for(
            lambda: [each for each in known.backends() if each.backend_type == "parallel worker"]
        )
        assert {worker.leader_pid for worker in workers} == {pid}
        assert {(worker.datname, worker.usename) for worker in workers} == {
            ("postgres", "postgres")
        }

        def shown() -> bool:
            """A worker has its title before it is told what to run."""
            found = [binary.running_query(worker.pid) for worker in workers]
            return (query.encode(), False) in found

        wait_for(shown)


# --- the running query


def test_an_idle_backend_runs_no_query(connection: Connection) -> None:
    assert binary.running_query(connection.info.backend_pid) is None
    connection.execute("begin")
    connection.execute("select 1")
    assert binary.running_query(connection.info.backend_pid) is None


@pytest.mark.parametrize(
    ("statement", "options", "text"),
    [
        (("select pg_sleep(60), 'marker é'",), {}, "select pg_sleep(60), 'marker é'"),
        (("select pg_sleep(60), %s::text", ["x"]), {}, "select pg_sleep(60), $1::text"),
        (
            ("select pg_sleep(60), %s::int", [1]),
            {"prepare": True},
            "select pg_sleep(60), $1::int",
        ),
        (("do $$ begin perform pg_sleep(60); end $$",), {}, None),
    ],
    ids=["simple", "extended", "prepared", "function"],
)
def test_the_running_query_is_read(
    connection: Connection, statement: tuple[Any, ...], options: dict[str, Any], text: str | None
) -> None:
    with running(connection, *statement, **options) as pid:
        assert binary.running_query(pid) == ((text or statement[0]).encode(), False)
    assert binary.running_query(connection.info.backend_pid) is None


@pytest.mark.parametrize(("length", "cut"), [(1024, False), (1025, True), (100_000, True)])
def test_a_long_query_is_cut(connection: Connection, length: int, cut: bool) -> None:
    query = "select pg_sleep(60) /*".ljust(length - 2, "x") + "*/"
    with running(connection, query) as pid:
        assert binary.running_query(pid) == (query.encode()[:1024], cut)


# --- the binary


def test_the_probes_of_the_binary(cluster: PrivateCluster) -> None:
    found = binary.sites(cluster.binary)
    assert set(server_abilities.QUERY_PROBES) <= {site.name for site in found}
    data = cluster.binary.read_bytes()
    for site in found:
        assert site.semaphore is not None
        assert data[site.semaphore : site.semaphore + 2] == b"\0\0"
        if platform.machine() == "x86_64":
            assert data[site.offset] == 0x90  # nop


def test_a_variable_in_memory(connection: Connection) -> None:
    pid = connection.info.backend_pid
    address = binary.variable_address(pid, "MyProcPid")
    assert binary.read_memory(pid, address, 4) == pid.to_bytes(4, "little")
    with pytest.raises(UnsupportedError, match="does not export"):
        binary.variable_address(pid, "no_such_variable")
    with pytest.raises(TargetError, match="No memory at 0x10"):
        binary.read_memory(pid, 0x10, 4)


def test_symbols_without_section_headers(cluster: PrivateCluster, tmp_path: Path) -> None:
    bare = tmp_path / "bare"
    data = bytearray(cluster.binary.read_bytes())
    data[0x28:0x30] = bytes(8)  # e_shoff
    data[0x3C:0x40] = bytes(4)  # e_shnum, e_shstrndx
    bare.write_bytes(data)
    for name in ("AbortCurrentTransaction", "debug_query_string", "no_such_symbol", "malloc"):
        assert binary.symbol_address(bare, name) == binary.symbol_address(cluster.binary, name)
    assert binary.has_symbol(bare, "AbortCurrentTransaction")
    assert not binary.has_symbol(bare, "malloc")  # it is another's
    assert binary.probes(bare) == set()


def test_another_architecture_is_refused(cluster: PrivateCluster, tmp_path: Path) -> None:
    foreign = tmp_path / "foreign"
    data = bytearray(cluster.binary.read_bytes())
    data[0x12:0x14] = (183 if platform.machine() == "x86_64" else 62).to_bytes(2, "little")
    foreign.write_bytes(data)
    with pytest.raises(UnsupportedError, match="own architecture"):
        binary.probes(foreign)


def test_a_file_that_is_no_program(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("no program")
    with pytest.raises(TargetError, match="not a program"):
        binary.probes(tmp_path / "text")
    with pytest.raises(TargetError, match="no file"):
        binary.probes(tmp_path / "none")


def test_a_client_program_is_no_server(cluster: PrivateCluster) -> None:
    # It holds "postgres (PostgreSQL) N.M", to compare with the server's.
    assert proc.version_of(cluster.binary.parent / "pg_ctl") is None


# --- processes that are something else


def message(pid: int) -> str:
    with pytest.raises(TargetError) as error:
        discovery.backend(pid)
    return str(error.value)


def test_no_such_process() -> None:
    with Child("true") as child:
        child.ended()
    for pid in (child.pid, 0, -1, 1 << 22, 1 << 70):
        assert f"No process {pid}." in message(pid)


def test_who_is_gone_costs_no_look_at_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only words for people say whether some container has that pid: whoever follows hundreds of
    processes meets the end of many, and reads none of that."""
    with Child("true") as child:
        child.ended()
    looks: list[int] = []
    monkeypatch.setattr(proc, "pids", lambda: looks.append(1) or [])
    with pytest.raises(TargetError) as error:
        discovery.backend(child.pid)
    assert not looks
    assert "No process" in str(error.value) and looks


def test_another_program_is_named() -> None:
    with Idle() as child:
        assert "is not PostgreSQL but /" in message(child.pid)
        assert "(sleep)" in message(child.pid)


def test_a_zombie_is_named() -> None:
    with Child("true") as child:
        wait_for(lambda: "zombie" in message(child.pid))


@pytest.mark.skipif(
    not Path("/proc/2/comm").exists() or Path("/proc/2/comm").read_text() != "kthreadd\n",
    reason="no kernel threads in this PID namespace",
)
def test_a_kernel_thread_is_named() -> None:
    assert "(kthreadd) is a kernel thread" in message(2)


def test_a_thread_is_named() -> None:
    done = threading.Event()
    thread = threading.Thread(target=done.wait)
    thread.start()
    try:
        assert thread.native_id is not None
        assert f"is a thread of process {os.getpid()}" in message(thread.native_id)
    finally:
        done.set()
        thread.join()


def as_nobody(function: Callable[[], object]) -> str:
    """What a function raises in a process without any privilege."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        said = "nothing"
        try:
            os.setgroups([])
            os.setgid(NOBODY)
            os.setuid(NOBODY)
            function()
        except PgtraceError as error:
            said = f"{type(error).__name__}: {error}"
        except BaseException as error:
            said = repr(error)
        finally:
            os.write(writer, said.encode())
            os._exit(0)
    os.close(writer)
    said = b"".join(iter(lambda: os.read(reader, 4096), b"")).decode()
    os.close(reader)
    os.waitpid(child, 0)
    return said


@as_root
def test_another_user_is_told_what_is_missing(
    cluster: PrivateCluster, connection: Connection
) -> None:
    pid = connection.info.backend_pid
    for look in (discovery.backend, discovery.server, binary.running_query):
        said = as_nobody(lambda look=look: look(pid))  # type: ignore[misc]
        assert said.startswith(PermissionDeniedError.__name__)
        assert "CAP_SYS_PTRACE" in said


@as_root
@pytest.mark.apart  # another test may have a server of nobody's, which can be listed
def test_another_users_list_is_refused(cluster: PrivateCluster) -> None:
    assert discovery.server(cluster.postmaster_pid)
    said = as_nobody(lambda: list_.COMMAND.run(argparse.Namespace(json=False)))
    assert said.startswith(PermissionDeniedError.__name__)


# --- servers in trouble, and in containers


def test_a_look_to_which_nothing_came_hides_no_server(
    cluster: PrivateCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its other processes lead to it, and nobody is told that it may be missed."""
    failed = 0
    remembered, pids = program._remembered, proc.pids

    def once(*arguments: Any) -> program.Known:
        nonlocal failed
        failed += 1
        if failed == 1:
            raise program.NotLookedAtError(errno.EAGAIN, "nothing could be told of it")
        return remembered(*arguments)

    monkeypatch.setattr(program, "_remembered", once)
    monkeypatch.setattr(
        proc, "pids", lambda: sorted(pids(), key=lambda pid: pid != cluster.postmaster_pid)
    )
    found = [server.postmaster_pid for server in discovery.servers()]
    assert failed > 1
    assert cluster.postmaster_pid in found
    assert discovery.not_told() == []


def test_a_backend_whose_postmaster_is_gone(disk_directory: Path) -> None:
    with CopiedCluster(version=PG_VERSION, directory=disk_directory) as cluster:
        connection = cluster.connect()
        pid = connection.info.backend_pid
        postmaster = cluster.postmaster_pid
        with stopped(pid):  # or it would see the end and follow
            os.kill(postmaster, signal.SIGKILL)
            wait_until_gone(postmaster)
            found = discovery.backend(pid)
            assert found.postmaster_pid is None
            assert (found.backend_type, found.datname) == ("client backend", "postgres")
            with pytest.raises(TargetError, match="postmaster is gone"):
                discovery.server(pid)


@pytest.fixture(scope="module")
def contained(disk_directory: Path) -> Iterator[tuple[PrivateCluster, int]]:
    """A server as in a container, and its pid here: own pids and mounts, its binary deleted."""
    if os.geteuid() != 0 or shutil.which("unshare") is None or shutil.which("setpriv") is None:
        pytest.skip("needs root, unshare and setpriv")
    with CopiedCluster(
        {"cluster_name": "in a box"}, version=PG_VERSION, directory=disk_directory, port=54322
    ) as cluster:
        cluster.stop()
        copy = cluster.socket_dir / "copy"
        shutil.copy(cluster.binary, copy)
        script = (
            'mount --bind "$1" "$2" && exec setpriv --reuid postgres --regid postgres '
            '--clear-groups "$2" -D "$3"'
        )
        outside = Child(
            *[*OWN_MOUNTS, "--pid", "--fork", "sh", "-c", script, "sh"],
            *(copy, cluster.binary, cluster.datadir),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            cwd="/",
        )
        lock = cluster.datadir / "postmaster.pid"
        inside: list[int] = []
        try:
            wait_for(lambda: lock.exists() and "ready" in lock.read_text())
            inside = children_of(outside.pid)
            # Which processes have in their titles some time after they are there
            wait_for(lambda: discovery.server(inside[0]).cluster_name)
            assert lock.read_text().split()[0] == "1"  # never give this to pg_ctl
            copy.unlink()
            yield cluster, inside[0]
        finally:
            for pid in inside:
                os.kill(pid, signal.SIGQUIT)
            outside.kill()


def test_a_server_in_a_container(contained: tuple[PrivateCluster, int]) -> None:
    cluster, postmaster = contained
    found = discovery.server(postmaster)
    assert found.postmaster.inner_pid == 1
    assert found.postmaster.exe_replaced
    assert found.postmaster.exe == str(cluster.binary)
    assert found.major == PG_VERSION
    assert found.cluster_name == "in a box"
    assert found in discovery.servers()
    assert set(server_abilities.QUERY_PROBES) <= binary.probes(found.postmaster.binary)


def test_its_backends_have_pids_of_ours(contained: tuple[PrivateCluster, int]) -> None:
    cluster, postmaster = contained
    with psycopg.connect(cluster.dsn(), autocommit=True) as connection:  # started by hand
        inner = connection.info.backend_pid
        clients = [
            each
            for each in discovery.server(postmaster).backends()
            if each.backend_type == "client backend"
        ]
        assert [client.process.inner_pid for client in clients] == [inner]
        outer = clients[0].pid
        assert outer != inner
        said = message(inner)
        # In containers of other tests there may be others of that pid
        told = rf"PostgreSQL process ((\d+ or )*{outer}( or \d+)*) has that pid"
        found = re.search(rf"{told} .* Type: sudo .* attach (\d+)$", said)
        assert found, said
        assert found[4] in found[1].split(" or ")
        assert binary.running_query(outer) is None
        with running(connection, "select pg_sleep(60), 'boxed'", outer_pid=outer):
            assert binary.running_query(outer) == (b"select pg_sleep(60), 'boxed'", False)


# --- the commands


def test_list_shows_the_server(
    cluster: PrivateCluster, connection: Connection, capsys: pytest.CaptureFixture[str]
) -> None:
    assert list_.COMMAND.run(argparse.Namespace(json=False, all=True)) == 0
    text = capsys.readouterr().out
    assert str(cluster.datadir) in text
    assert f"{connection.info.backend_pid}  client backend" in text
    assert list_.COMMAND.run(argparse.Namespace(json=True, all=False)) == 0
    found = json.loads(capsys.readouterr().out)
    (server,) = [
        each for each in found["servers"] if each["postmaster_pid"] == cluster.postmaster_pid
    ]
    assert connection.info.backend_pid in [each["pid"] for each in server["backends"]]


def test_doctor_finds_nothing_wrong_with_this_server(known: Server) -> None:
    found = server_abilities.abilities(known)
    assert [ability for ability in found if not ability.ok] == []
    assert "data directory" in [ability.name for ability in found]


def asked(pid: int, **options: bool) -> argparse.Namespace:
    return argparse.Namespace(
        **{"pid": pid, "json": False, "verbose": False, "measure": False} | options
    )


@as_root
def test_doctor_says_what_this_host_can(
    connection: Connection, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = asked(connection.info.backend_pid, json=True)
    code = doctor.COMMAND.run(arguments)
    found = json.loads(capsys.readouterr().out)
    assert found["exit_code"] == code
    groups = {group["name"].split()[0]: group["abilities"] for group in found["groups"]}
    assert list(groups) == ["Host", "Engines", "Reads", "Queries", "Server"]
    works = [each["name"] for each in groups["Reads"] if each["ok"]]
    assert ("reads" in works) == (code == 0)
    assert code == 0 or any(
        each["remedy"] for group in found["groups"] for each in group["abilities"]
    )


@as_root
def test_doctor_measures_what_tracing_costs_here() -> None:
    code, out, err = run("doctor", "--measure")
    assert (code, err) == (0, "")
    (way,) = re.findall(r"ok  reads: by (\w+)", out)
    (found,) = re.findall(rf"^Cost, by {way}: .*\n((?:  .*\n)+)", out, re.M)
    cost = r"(\d+ ns more \(\d+ to \d+\)|no more that could be told: at most \d+ ns)"
    calls = ("a system call of any process", "a read of 8 KiB that is not traced",
             "a traced read of 8 KiB")  # fmt: skip
    for line, call in zip(found.splitlines(), calls, strict=True):
        assert re.fullmatch(rf"  -   {call}: {cost}", line)


def test_doctor_of_a_process_that_is_something_else() -> None:
    with pytest.raises(TargetError, match="is not PostgreSQL"):
        doctor.COMMAND.run(asked(os.getpid()))
