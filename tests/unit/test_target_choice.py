"""What is asked of the engine for servers that pgtrace is not made for, and where it refuses."""

import dataclasses
import os
from collections.abc import Iterable
from pathlib import Path

import pytest

from child import Child
from pgtrace.engines import Probed, Request, Tier, layout, select
from pgtrace.errors import UnsupportedError
from pgtrace.linux import namespaces, program_file
from pgtrace.postgres import binary, proc
from pgtrace.postgres.binary import Programs
from pgtrace.postgres.discovery import Backend, Place, Server
from pgtrace.tracing import targets
from pgtrace.tracing.options import TraceOptions
from pgtrace.tracing.targets import Filters, Target
from pgtrace.tracing.tracer import Tracer

CLIENT, WORKER, IO_WORKER = 1, 2, 3
"""Added to ten times the postmaster's pid: a client, its parallel worker, an I/O worker."""


def server(pid: int, version: str) -> Server:
    """A server whose binary is that of a process which runs for certain."""
    return Server(proc.process(pid), version, Place("/data", (1, 2), None), 8192, 5432, None, None)


def program(process: proc.Process) -> Path:
    """What the server's children would run."""
    runs = process.pid if Path(f"/proc/{process.pid}").exists() else process.ppid
    return Path(f"/proc/{runs}/exe")


def family(one: Server, *, activity: bool = True) -> list[Backend]:
    pid = one.postmaster_pid

    def member(number: int) -> proc.Process:
        own = pid * 10 + number
        return dataclasses.replace(one.postmaster, pid=own, inner_pid=own, ppid=pid)

    return [
        Backend(one.postmaster, pid, "postmaster"),
        Backend(member(CLIENT), pid, "client backend"),
        Backend(member(WORKER), pid, "parallel worker", leader_pid=pid * 10 + CLIENT),
        Backend(member(IO_WORKER), pid, "io worker"),
    ]


@pytest.fixture(autouse=True)
def families(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Server, "backends", family)
    monkeypatch.setattr(proc.Process, "binary", property(program))


def request(target: Target, *, charge: bool = True, most: int = 1024) -> Request:
    return asked_with(target, TraceOptions(charge=charge, most_backends=most))


def asked_with(target: Target, options: TraceOptions) -> Request:
    """What is asked, whose files are closed by now."""
    with Programs() as programs:
        return target.request(options, programs)


def probed(binaries: Iterable[Probed]) -> list[tuple[str, int]]:
    return [(program.name, pid) for program, pid in binaries]


def one_backend(of: Server) -> Target:
    client = family(of)[CLIENT]
    return Target((client.pid,), (client,), (of,))


def test_what_the_server_counts_by_databases_is_that_of_whole_databases_alone() -> None:
    own = server(os.getpid(), "15.18")
    for filters, expected in (
        (Filters(), True),
        (Filters(datnames=frozenset({"shop"})), True),
        (Filters(datnames=frozenset({"shop"}), usenames=frozenset({"web"})), False),
        (Filters(backend_types=frozenset({"client backend"})), False),
    ):
        assert Target.of_servers([own], filters).is_of_databases is expected
    assert not one_backend(own).is_of_databases


@pytest.mark.parametrize(
    "version", ["14.22", "15.18", "18.1", "18beta1", "19rc1", "20devel", "99.1"]
)
def test_supported_version(version: str) -> None:
    """Or one that came after pgtrace, which is tried with what its binary offers."""
    own = server(os.getpid(), version)
    asked = request(Target.of_servers([own]))
    assert probed(asked.binaries) == [(f"/proc/{os.getpid()}/exe", -1)]
    assert (asked.unfollowed, asked.not_measured) == (frozenset(), ())
    assert asked.aio == asked.io_uring == (int(version[:2]) >= 18)
    assert asked.askers == asked.waiters == (asked.binaries if asked.aio else ())


@pytest.mark.parametrize("version", ["9.6.24", "13.5"])
def test_unsupported_version(version: str) -> None:
    """Reads are traced; queries and charging are not measured, and both are said with why."""
    own = server(os.getpid(), version)
    why = f"PostgreSQL {version} is not supported, 14 to 19 are"
    for target in Target.of_servers([own]), one_backend(own):
        asked = request(target)
        assert (asked.binaries, asked.askers) == ((), ())
        assert not asked.aio
        assert not asked.io_uring
        assert asked.unfollowed == {own.postmaster_pid}
        assert asked.not_measured == (
            f"queries: {why}",
            f"charging reads of helpers to them: {why}",
        )
        assert [each.pid for each in asked.postmasters] == [own.postmaster_pid]
    pids = [member.pid % 10 for member in request(one_backend(own)).members]
    assert pids == [(own.postmaster_pid * 10 + CLIENT) % 10]
    assert len(request(Target.of_servers([own])).members) == 3


def test_unsupported_version_without_charging() -> None:
    own = server(os.getpid(), "13.5")
    (missing,) = request(Target.of_servers([own]), charge=False).not_measured
    assert missing.startswith("queries: ")


def test_backend_without_its_workers_reads() -> None:
    """With --no-charge they are nowhere in the capture, where only that backend is traced."""
    own = server(os.getpid(), "15.18")
    (missing,) = request(one_backend(own), charge=False).not_measured
    assert missing.startswith("reads of its parallel and I/O workers: ")
    assert request(Target.of_servers([own]), charge=False).not_measured == ()


def test_requests_of_a_backend_are_its_own_without_charging() -> None:
    """No probe in the server tells whose they are, and it need not be known."""
    own = server(os.getpid(), "18.1")
    asked = asked_with(one_backend(own), TraceOptions(charge=False))
    assert (asked.aio, asked.io_uring) == (False, True)
    asked = asked_with(one_backend(own), TraceOptions(charge=True, operations=("write",)))
    assert (asked.aio, asked.io_uring) == (False, False)


def test_unsupported_version_beside_a_supported_one() -> None:
    """The other is measured as if it were alone."""
    old, new = server(os.getpid(), "13.5"), server(os.getppid(), "18.1")
    asked = request(Target.of_servers([old, new]))
    ((program, pid),) = asked.binaries  # both may run the same, which is opened once
    assert (program.identity, pid) == (program_file.identity(f"/proc/{os.getppid()}/exe"), -1)
    assert asked.unfollowed == {os.getpid()}
    assert asked.aio
    assert len(asked.members) == 6


@pytest.mark.parametrize("whole", [True, False], ids=["servers", "backends"])
def test_reads_are_asked_for_and_waited_for_in_servers_that_may_leave_them_to_others(
    monkeypatch: pytest.MonkeyPatch, whole: bool
) -> None:
    monkeypatch.setattr(targets, "all_unfollowed", lambda *_: {})
    with Child("sleep", "60") as other:  # of another binary
        servers = old, new = server(os.getpid(), "17.6"), server(other.pid, "18.1")
        clients = tuple(family(each)[CLIENT] for each in servers)
        backends = Target(tuple(each.pid for each in clients), clients, servers)
        asked = request(Target.of_servers(servers) if whole else backends)
        assert probed(asked.askers) == [(f"/proc/{new.postmaster_pid}/exe", -1)]
        assert asked.waiters == asked.binaries[1:]
        assert [each.aio for each in asked.postmasters] == [False, True]
        assert not request(Target.of_servers([old])).waiters


def test_another_architecture(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    own = server(os.getpid(), "15.18")
    monkeypatch.setattr(binary, "is_foreign", lambda file: str(file) == f"/proc/{os.getpid()}/exe")
    why = "the server's program is of another architecture than the kernel"
    asked = request(Target.of_servers([own]))
    assert asked.binaries == ()
    assert asked.not_measured[0] == f"queries: {why}"


@pytest.mark.parametrize(
    ("place", "value", "foreign"),
    [(0, None, False), (4, 1, True), (18, 0xF3, True)],
    ids=["own", "32 bits", "RISC-V"],
)
def test_architecture_of_a_program(
    tmp_path: Path, place: int, value: int | None, foreign: bool
) -> None:
    program = bytearray(Path("/proc/self/exe").read_bytes()[:64])
    if value is not None:
        program[place] = value
    file = tmp_path / "program"
    file.write_bytes(program)
    assert binary.is_foreign(file) == foreign
    assert not binary.is_foreign(tmp_path / "none")


@pytest.mark.parametrize(("most", "room"), [(1, 3), (3, 3), (1000, 1000)])
def test_room_for_backends(most: int, room: int) -> None:
    """As many as asked for, and no fewer than run already."""
    assert request(Target.of_servers([server(os.getpid(), "15.18")]), most=most).most_tasks == room


def test_pid_namespace_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """The flag that is missing is named before anything is loaded."""
    assert namespaces.in_first_pid_namespace()
    monkeypatch.setattr(namespaces, "in_first_pid_namespace", lambda: False)
    monkeypatch.setattr(select, "LibbpfEngine", None)
    with pytest.raises(UnsupportedError, match="--pid=host"):
        Tracer(Target((os.getpid(),)))
    assert UnsupportedError.exit_code == 5
    assert targets.unfollowed(server(os.getpid(), "15.18")) is None


def test_there_is_room_for_as_many_servers() -> None:
    assert targets.MOST_SERVERS == layout.SERVERS


def test_light_tier(monkeypatch: pytest.MonkeyPatch) -> None:
    """No probe waits in the server but those of calibration, and each query cannot be told."""
    monkeypatch.setattr(binary, "variable_address", lambda pid, name: len(name))
    own = Target.of_servers([server(os.getpid(), "15.18")])
    asked = asked_with(own, TraceOptions(charge=True, queries="light"))
    assert (asked.light, asked.binaries) == (True, ())
    assert probed(asked.calibrate) == [(f"/proc/{os.getpid()}/exe", -1)]
    (master,) = asked.postmasters
    assert (master.entry, master.text) == (len("MyBEEntry"), len("debug_query_string"))
    with pytest.raises(ValueError, match="when a query ends"):
        asked_with(own, TraceOptions(charge=True, queries="light", per_query=True))


@pytest.mark.parametrize("tier", ["light", "full"])
def test_query_ids_are_looked_for_in_servers_that_compute_them(
    monkeypatch: pytest.MonkeyPatch, tier: Tier
) -> None:
    """In the others they would be waited for as long as tracing lasts."""
    monkeypatch.setattr(targets, "all_unfollowed", lambda *_: {})
    monkeypatch.setattr(binary, "variable_address", lambda pid, name: len(name))
    with Child("sleep", "60") as other:  # of another binary
        servers = server(os.getpid(), "17.6"), server(other.pid, "17.6")
        monkeypatch.setattr(targets, "computes_query_ids", lambda one: one == servers[1])
        asked = asked_with(Target.of_servers(servers), TraceOptions(queries=tier))
        assert asked.query_ids == {program_file.identity(f"/proc/{other.pid}/exe")}
        assert [each.query_ids for each in asked.postmasters] == [False, True]
        none = asked_with(Target.of_servers(servers), TraceOptions(queries="none"))
        assert (none.query_ids, none.postmasters[1].query_ids) == (frozenset(), False)


@pytest.mark.parametrize("missing", ["MyBEEntry", "debug_query_string"])
def test_light_tier_without_what_is_looked_at(
    monkeypatch: pytest.MonkeyPatch, missing: str
) -> None:
    def address(pid: int, name: str) -> int:
        if name == missing:
            raise UnsupportedError("stripped")
        return 8

    monkeypatch.setattr(binary, "variable_address", address)
    own = Target.of_servers([server(os.getpid(), "15.18")])
    asked = asked_with(own, TraceOptions(charge=True, queries="light"))
    assert (asked.calibrate, asked.postmasters[0].entry, asked.postmasters[0].text) == ((), 0, 0)
    assert asked.not_measured == (f"queries: a server's binary does not export {missing}",)
