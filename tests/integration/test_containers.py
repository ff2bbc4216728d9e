"""Servers in namespaces and roots of their own, as in a container: the same as outside."""

import os
import re
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path

import pytest
from test_targets import capturing

from child import children_of, inner_pid
from copied_cluster import CopiedCluster
from fix_cluster import (
    SETTINGS,
    Buffers,
    Connection,
    Server,
    explain_buffers,
    make_cold,
)
from fix_markers import PG_VERSION
from pgtrace import trace
from pgtrace.errors import DatabaseError
from pgtrace.lab.core import benchmark_table
from pgtrace.lab.core.private_cluster import PrivateCluster
from pgtrace.model.capture import Query
from pgtrace.postgres import discovery
from pgtrace.postgres.catalog import Name
from pgtrace.postgres.owners_connection import OwnersConnections
from pgtrace.tracing.options import TraceOptions
from pgtrace.tracing.targets import Target
from pgtrace.tracing.tracer import Tracer
from pgtrace_command import PGTRACE, run, wait_for

COUNT = f"select count(*) from {benchmark_table.TABLE}"
OWN_BACKENDS = "select count(*) from pg_stat_activity where application_name = 'pgtrace'"
FIRST_ID = 200_000
"""What a user namespace's root is outside."""


def pids_of(server: PrivateCluster) -> dict[int, int]:
    """Of its processes, by what they are in their own namespace; without who ends meanwhile."""
    found = {}
    for pid in children_of(server.postmaster_pid):
        with suppress(FileNotFoundError, ProcessLookupError):
            found[inner_pid(pid)] = pid
    return found


def scan_in_parallel(server: PrivateCluster, whole: bool) -> tuple[Buffers, Query]:
    """A scan of a cold table by a leader and two workers, under a tracer of it."""
    server.restart()  # with nothing in shared buffers
    with server.connect() as connection:
        for name in "min_parallel_table_scan_size", "parallel_setup_cost", "parallel_tuple_cost":
            connection.execute(f"set {name} = 0")
        connection.execute("set max_parallel_workers_per_gather = 2")
        connection.execute(f"explain {COUNT}")
        make_cold(server, connection)
        host_pid = pids_of(server)[connection.info.backend_pid]
        with capturing(server.postmaster_pid if whole else host_pid) as captured:
            buffers = explain_buffers(connection, COUNT)
    (backend,) = (b for b in captured.taken.backends if b.pid == host_pid)
    assert (backend.backend_type, backend.datname) == ("client backend", "postgres")
    assert not [b for b in captured.taken.backends if b.backend_type == "parallel worker"]
    (query,) = (q for q in backend.queries if (q.text or "").endswith(COUNT))
    return buffers, query


@pytest.mark.parametrize("whole", [True, False], ids=["server", "backend"])
@pytest.mark.parametrize("version", sorted({PG_VERSION, 17}))
def test_server_in_a_container(server: Server, version: int, whole: bool) -> None:
    """In a root and a PID namespace of its own, by its pid of here: the same as outside.

    Its workers' titles have the leader's pid of there. Beside the table, each worker reads some
    catalogs as it starts.
    """
    found = []
    for inside in True, False:
        one = server(version, pid_namespace=inside)
        assert inner_pid(one.postmaster_pid) == (1 if inside else one.postmaster_pid)
        buffers, query = scan_in_parallel(one, whole)
        blocks = sum(reads.blocks for reads in query.io)
        assert buffers.read > 1000
        assert buffers.read <= blocks <= buffers.read + 100, (inside, blocks, buffers)
        found.append(blocks)
        performers = {reads.performed_by for reads in query.io}
        assert "parallel worker" in performers, performers
    assert abs(found[0] - found[1]) <= 16, found


LEFT_BEHIND = """
import os, sys, time
time.sleep(1)
with open(sys.argv[1], "rb", buffering=0) as file:
    while file.read(8192):
        pass
open(sys.argv[1] + ".read", "w").close()
time.sleep(60)
"""


def test_who_is_left_behind_in_a_container_is_no_backend(
    server: Server, disk_directory: Path
) -> None:
    """The postmaster is process 1 there, and adopts it."""
    one = server(PG_VERSION, pid_namespace=True)
    file = disk_directory / "left"
    file.write_bytes(bytes(100 * 8192))
    begin = f"{shlex.quote(sys.executable)} -c {shlex.quote(LEFT_BEHIND)} {file} &"
    with trace(one.postmaster_pid, probe_type="tracepoint") as tracer, one.connect() as connection:
        subprocess.run(
            ["nsenter", f"--target={one.postmaster_pid}", "--pid", "sh", "-c", begin], check=True
        )
        wait_for(Path(f"{file}.read").exists)
        (left,) = (
            pid
            for pid in children_of(one.postmaster_pid)
            if Path(f"/proc/{pid}/exe").samefile(sys.executable)
        )
        own = pids_of(one)[connection.info.backend_pid]
        connection.execute("select pg_read_binary_file('global/pg_control')")
    os.kill(left, signal.SIGKILL)
    taken = tracer.capture()
    assert own in {backend.pid for backend in taken.backends}
    assert left not in {backend.pid for backend in taken.backends}


class Unprivileged(CopiedCluster):
    """In mount, PID and user namespaces: its user 101 is nobody that this host knows."""

    IN_NAMESPACE = """
    holder=$(unshare --user sleep 600 </dev/null >/dev/null 2>&1 & echo $!)
    until [ "$(readlink /proc/$holder/ns/user)" != "$(readlink /proc/self/ns/user)" ]; do
        sleep 0.01
    done
    for map in uid_map gid_map; do echo "0 $1 65536" >/proc/$holder/$map; done
    shift
    exec nsenter --user --target $holder --setuid 0 --setgid 0 \\
        sh -c 'kill $0; exec "$@"' $holder "$@"
    """

    moved = False

    def start(self) -> None:
        if self.pid_namespace and not self.moved:
            self._move(FIRST_ID)
            self.moved = True
        super().start()

    def close(self) -> None:
        if self.moved:  # its keeper is who made it, and has no rights there
            self.stop("immediate")
            self.moved = False
            self._move(-FIRST_ID)
        super().close()

    def owner(self) -> tuple[int, int] | None:
        uid, gid = self.ids()
        return uid + FIRST_ID * self.moved, gid

    def _move(self, by: int) -> None:
        for path in (self.base, *self.base.rglob("*")):
            os.chown(path, path.lstat().st_uid + by, -1, follow_symlinks=False)

    def _command(
        self, program: str, *arguments: str | Path, pid_namespace: bool = False
    ) -> list[str]:
        words = super()._command(program, *arguments, pid_namespace=pid_namespace)
        if not pid_namespace:
            return words
        # A mount of /proc may be refused there, and PostgreSQL needs none
        words = [word for word in words if not word.startswith("--mount-proc")]
        words.insert(words.index("--pid"), "--mount")
        return ["sh", "-c", self.IN_NAMESPACE, "sh", str(FIRST_ID), *words]


@pytest.fixture(scope="module")
def unprivileged(disk_directory: Path) -> Iterator[PrivateCluster]:
    with Unprivileged(SETTINGS, table=True, directory=disk_directory, pid_namespace=True) as server:
        yield server


@pytest.mark.pg("15")
@pytest.mark.parametrize("whole", [True, False], ids=["server", "backend"])
def test_server_in_a_user_namespace(
    unprivileged: PrivateCluster, server: Server, whole: bool
) -> None:
    """By its pid of here, the same as outside."""
    pid, found = unprivileged.postmaster_pid, []
    assert inner_pid(pid) == 1
    assert Path(f"/proc/{pid}").stat().st_uid > FIRST_ID
    for name in "user", "pid", "mnt":
        own = Path(f"/proc/self/ns/{name}").readlink()
        assert Path(f"/proc/{pid}/ns/{name}").readlink() != own
    for one in unprivileged, server():
        buffers, query = scan_in_parallel(one, whole)
        blocks = sum(reads.blocks for reads in query.io)
        assert buffers.read > 1000
        assert buffers.read <= blocks <= buffers.read + 100
        found.append(blocks)
    assert abs(found[0] - found[1]) <= 16, found


def test_no_name_is_taken_from_who_had_the_pid_before(server: Server) -> None:
    """Names are known for a minute after their process has ended; a host that begins a thousand a
    second has used up all pids by then.
    """
    one = server(17, pid_namespace=True)
    target = Target.of_servers([discovery.server(one.postmaster_pid)])
    tracer = Tracer(target, TraceOptions(as_owner=True))
    try:
        assert tracer.names
        with one.connect() as first:
            first.execute("select 1 as first")
            pid = first.info.backend_pid
            looks = tracer.names.looks

            def named() -> bool:
                tracer.poll()
                return looks + 1 < tracer.names.looks

            wait_for(named)
        wait_for(lambda: pid not in pids_of(one))
        for _ in range(100):
            last_pid = f"echo {pid - 1} >/proc/sys/kernel/ns_last_pid"
            into = ("nsenter", "--pid", "--target", str(one.postmaster_pid))
            subprocess.run([*into, "sh", "-c", last_pid], check=True)
            with one.connect(dbname="template1") as second:
                second.execute("select 1 as second")
                if second.info.backend_pid == pid:
                    break
        else:
            pytest.fail("nobody got the pid again")
        tracer.poll()
    finally:
        taken = tracer.stop()
    databases = {q.text: b.datname for b in taken.backends for q in b.queries}
    assert databases == {"select $1 as first": "postgres", "select $1 as second": "template1"}


def test_the_owner_of_a_server_in_a_container_is_let_in(server: Server) -> None:
    """By the socket in its own root, which it has by a link that is absolute there."""
    one = server(17, pid_namespace=True)
    with closing(OwnersConnections(discovery.server(one.postmaster_pid))) as owners:
        check_asked(owners)


@pytest.mark.pg("15")
def test_the_owner_of_a_server_in_a_user_namespace_is_let_in(unprivileged: PrivateCluster) -> None:
    target = discovery.server(unprivileged.postmaster_pid)
    assert target.postmaster.uid > FIRST_ID
    with closing(OwnersConnections(target)) as owners:
        check_asked(owners)


def check_asked(owners: OwnersConnections) -> None:
    """It is that server which answers, and by one backend that is asked for nobody else."""
    own: list[int] = []
    with owners.connect(opened=own.append) as asked:
        pids = {row.pid for row in asked.ask("activity", Name) if row.application_name == "pgtrace"}
    assert pids == {*own}


class OfOneName(PrivateCluster):
    """In a mount namespace where its data directory has the name that others' have in theirs."""

    name: Path

    def _command(
        self, program: str, *arguments: str | Path, pid_namespace: bool = False
    ) -> list[str]:
        words = super()._command(program, *arguments, pid_namespace=pid_namespace)
        if not pid_namespace:
            return words
        at = words.index("chroot")
        bind = ["sh", "-ec", 'mount --bind "$1" "$2"; shift 2; exec "$@"', "sh"]
        words[words.index(str(self.datadir))] = str(self.name)
        return [*words[:at], *bind, str(self.datadir), str(self.name), *words[at:]]


@pytest.mark.pg("15")
def test_servers_in_directories_of_one_name(disk_directory: Path) -> None:
    """One that stops is not taken to be the other, and is found when it comes back."""
    OfOneName.name = disk_directory / "data"
    OfOneName.name.mkdir()
    with (
        OfOneName(directory=disk_directory, pid_namespace=True) as one,
        OfOneName(directory=disk_directory, pid_namespace=True) as other,
        trace(one.postmaster_pid, literals=True) as tracer,
        other.connect() as connection,
    ):
        one.stop()
        wait_for(lambda: tracer.capture().gaps)
        time.sleep(0.5)  # until its end was told of, by which its begin is put right
        (gap,) = tracer.capture().gaps
        assert gap.data_directory == str(OfOneName.name)
        time.sleep(2)
        connection.execute("select 'other'")
        assert tracer.capture().gaps == [gap]
        one.start()
        wait_for(lambda: tracer.capture().gaps[0].ended)
        with one.connect() as again:
            again.execute("select 'one'")

        def queries() -> list[str | None]:
            return [query.text for b in tracer.capture().backends for query in b.queries]

        wait_for(queries)
    assert queries() == ["select 'one'"]


class Copied(OfOneName):
    """With all that another has, as a standby: also what initdb gave that."""

    of: PrivateCluster

    def _initdb(self) -> None:
        subprocess.run(["cp", "-a", self.of.datadir, self.datadir.parent], check=True)


@pytest.mark.pg("15")
@pytest.mark.parametrize("kind", [OfOneName, Copied])
def test_another_in_a_directory_of_one_name_is_not_asked_for_one_that_is_away(
    disk_directory: Path, kind: type[OfOneName]
) -> None:
    """Not once, and once it is back it is asked again."""
    OfOneName.name = disk_directory / f"of_{kind.__name__}"
    OfOneName.name.mkdir()
    with OfOneName(directory=disk_directory, pid_namespace=True) as one:
        one.stop()
        Copied.of = one
        with kind(directory=disk_directory, pid_namespace=True):
            one.start()
            with closing(OwnersConnections(discovery.server(one.postmaster_pid))) as owners:
                for _ in range(2):
                    with owners.connect(), one.connect() as connection:
                        assert connection.execute(OWN_BACKENDS).fetchone() == (1,)
                    one.stop()
                    with pytest.raises(DatabaseError, match="has stopped"), owners.connect():
                        pass
                    one.start()


@pytest.mark.pg("15")
def test_what_servers_in_directories_of_one_name_read_is_told_apart(disk_directory: Path) -> None:
    """Each by the postmaster that it had first, also after it was started again."""
    OfOneName.name = disk_directory / "of_both"
    OfOneName.name.mkdir()
    both = [OfOneName(directory=disk_directory, pid_namespace=True) for _ in range(2)]
    with both[0] as one, both[1] as other:
        pids = [each.postmaster_pid for each in both]
        names = {f"{OfOneName.name} (postmaster {pid})" for pid in pids}
        target = Target.of_servers([discovery.server(pid) for pid in pids])
        assert {f"the server in {name}" for name in names} == {*str(target).split(", ")}
        tracer = Tracer(target, TraceOptions(by_relation=True))

        def started_again() -> bool:
            tracer.poll()
            return any(gap.ended for gap in tracer.capture().gaps)

        try:
            one.restart()
            wait_for(started_again)
            for each in one, other:
                with each.connect() as connection:
                    connection.execute("select count(*) from pg_class")
        finally:
            taken = tracer.stop()
    assert {gap.data_directory for gap in taken.gaps} < names
    read = {io.relation or "" for b in taken.backends for io in b.io if io.kind == "relation"}
    assert {each.partition(" of ")[2] for each in read} == names, read
    assert {space.name.partition(" of ")[2] for space in taken.tablespaces} == names


@pytest.mark.pg("15")
@pytest.mark.apart  # every other server would be named too
def test_which_of_servers_in_directories_of_one_name_can_be_typed(disk_directory: Path) -> None:
    OfOneName.name = disk_directory / "typed"
    OfOneName.name.mkdir()
    both = [OfOneName(directory=disk_directory, pid_namespace=True) for _ in range(2)]
    with both[0], both[1]:
        refused = run("capture", "--duration", 0.1)
        assert refused.code == 2
        for each in both:
            words = f"-p {each.postmaster_pid}"
            assert words in refused.err
            assert run("capture", "--duration", 0.1, *words.split()).code == 0


@pytest.mark.parametrize("command", ["capture", "attach"])
def test_pgtrace_in_a_pid_namespace_of_its_own(connection: Connection, command: str) -> None:
    """The flag that is missing is named, whatever else was typed."""
    apart = ("unshare", "--pid", "--fork", "--mount-proc", *PGTRACE)
    ended = run(command, connection.info.backend_pid, "--duration", 1, command=apart)
    assert (ended.code, ended.out) == (5, "")
    assert "--pid=host" in ended.err


def test_doctor_in_a_pid_namespace_of_its_own() -> None:
    ended = run("doctor", command=("unshare", "--pid", "--fork", "--mount-proc", *PGTRACE))
    assert ended.code == 5
    assert re.search(r"no +PID namespace: .*\n +→ .*--pid=host", ended.out), ended.out


def test_a_clock_of_its_own_is_told_and_left(cluster: PrivateCluster) -> None:
    """Times of the kernel's and of pgtrace's would be 1,000 s apart."""
    with cluster.connect() as connection:
        traced = ("attach", "--duration", "0.5", connection.info.backend_pid)
        apart = ("unshare", "--time", "--monotonic", 1000, "--fork")
        refused = run(*traced, command=(*apart, *PGTRACE))
        assert refused.code == 5, refused
        assert refused.out == ""
        (told,) = re.findall(r"put `(.+)` before", " ".join(refused.err.split()))
        traced_all_the_same = run(*traced, command=(*apart, *told.split(), *PGTRACE))
    assert traced_all_the_same.code == 0, traced_all_the_same
    # Half a second, and what it takes on a busy host: not 1,000 s more or less
    assert re.search(r"^Traced ([5-9]\d\d ms|\d\.\d+ s): ", traced_all_the_same.out, re.MULTILINE)
