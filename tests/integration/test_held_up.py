"""Memory whose page faults another user serves, or never does: nobody waits for it, nor its end."""

import json
import os
import re
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from child import Child, children_of, state_of, wait_for
from fix_cluster import Connection
from hostile import (
    compiled,
    in_a_directory_that_never_answers,
    pretended,
    with_memory_that_never_comes,
)
from pgtrace.lab.core.private_cluster import PrivateCluster
from pgtrace.linux import forked, in_time
from pgtrace.postgres import binary, proc
from pgtrace_command import Pgtrace, patched, run, seeing

pytestmark = [
    pytest.mark.skipif(os.geteuid() != 0, reason="becomes other users: needs root"),
    pytest.mark.skipif(not os.path.exists("/dev/fuse"), reason="needs FUSE"),  # noqa: PTH110
]
MOST_SECONDS = 30
"""Of a command that takes two; on a busy host."""


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compiled(tmp_path_factory.mktemp("hostile") / "postgres")


@pytest.fixture(params=[(), ("itself",)], ids=["is read", "is being read"])
def attacker(program: Path, request: pytest.FixtureRequest) -> Iterator[Child]:
    """In the second case already its title cannot be read."""
    with (
        pretended(program) as place,
        place.running(by=with_memory_that_never_comes(*request.param)) as process,
    ):
        if request.param:
            wait_for(
                lambda: any(
                    state_of(pid) in "SD" and "fuse" in stack(pid)
                    for pid in children_of(process.pid)
                )
            )
        yield process


def stack(pid: int) -> str:
    """Where in the kernel a process is."""
    return Path(f"/proc/{pid}/stack").read_text()


def test_a_list(cluster: PrivateCluster, connection: Connection, attacker: Child) -> None:
    began = time.monotonic()
    done = run("list", "--json")
    assert time.monotonic() - began < MOST_SECONDS
    assert done.code == 0, done.err
    servers = {each["postmaster_pid"]: each for each in json.loads(done.out)["servers"]}
    assert {attacker.pid, cluster.postmaster_pid} <= servers.keys(), done
    assert len(servers[attacker.pid]["backends"]) > 1
    own = servers[cluster.postmaster_pid]["backends"]
    (backend,) = [each for each in own if each["pid"] == connection.info.backend_pid]
    assert backend["activity"] == "idle"


@pytest.mark.apart  # whoever looks at all servers of the host waits for it
def test_a_directory_that_never_answers(cluster: PrivateCluster, program: Path) -> None:
    """FUSE without allow_other lets root not look, but an overlay over it does."""
    with (
        pretended(program) as place,
        place.running(by=in_a_directory_that_never_answers()) as process,
    ):
        began = time.monotonic()
        done = run("list", "--json")
        assert time.monotonic() - began < MOST_SECONDS
        assert done.code == 0, done.err
        assert cluster.postmaster_pid in [
            each["postmaster_pid"] for each in json.loads(done.out)["servers"]
        ]
        assert re.search("not listed: .* looks? like PostgreSQL", done.err), done.err
        assert state_of(process.pid) == "S"


def test_a_capture(
    cluster: PrivateCluster, connection: Connection, attacker: Child, tmp_path: Path
) -> None:
    file = tmp_path / "capture.json"
    both = patched(seeing(cluster.postmaster_pid, attacker.pid))
    with Pgtrace("capture", "--all", "-o", file, command=both) as tracing:
        began = time.monotonic()
        tracing.attached()
        connection.execute("select 1 as column_of_a_query, pg_relation_size('pg_class')")
        done = tracing.stop()
        assert time.monotonic() - began < MOST_SECONDS
    assert done.code == 0, done.err
    assert json.loads(file.read_text())["probes"]["queries"] != "none"


@pytest.mark.parametrize("attacker", [()], indirect=True, ids=["is read"])
def test_its_user_is_left_alone_and_others_are_not(
    connection: Connection, attacker: Child, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(in_time, "_lookers", in_time._Lookers())
    before = {*children_of(os.getpid())}
    where = binary.variable_address(attacker.pid, "update_process_title")
    with pytest.raises(binary.TargetError, match="in time"):
        binary.read_memory(attacker.pid, where, 1)
    (stuck,) = {*children_of(os.getpid())} - before
    wait_for(lambda: state_of(stuck) == "D")  # SIGKILL does not end it
    asked: list[bytes] = []
    answer = in_time._Looker.answer

    def noted(looker: in_time._Looker, request: bytes, seconds: float) -> bytes | None:
        asked.append(request)
        return answer(looker, request, seconds)

    with monkeypatch.context() as patched:
        patched.setattr(in_time._Looker, "answer", noted)
        for _ in range(10):
            assert proc.process(attacker.pid).title_cut
    assert not asked, "who cannot be looked at in time is not looked at again"
    pid = connection.info.backend_pid
    assert proc.process(pid).title.startswith("postgres: ")
    assert binary.read_memory(pid, binary.variable_address(pid, "MyProcPid"), 4)
    assert {stuck} < {*children_of(os.getpid())} - before, "another child reads"
    attacker.kill()
    wait_for(lambda: state_of(stuck) == "Z")
    monkeypatch.setattr(in_time.time, "monotonic", lambda now=time.monotonic: now() + 60)
    assert binary.read_memory(pid, binary.variable_address(pid, "MyProcPid"), 4)
    assert stuck not in children_of(os.getpid())


@pytest.mark.parametrize("attacker", [()], indirect=True, ids=["is read"])
def test_a_child_that_cannot_be_killed_is_not_waited_for(attacker: Child) -> None:
    where = binary.variable_address(attacker.pid, "update_process_title")

    def work(tell: forked.Tell) -> None:
        with open(f"/proc/{attacker.pid}/mem", "rb", buffering=0) as memory:  # noqa: PTH123
            memory.seek(where)
            tell(b"waits")
            tell(memory.read(1))

    began = time.monotonic()
    assert forked.told(work, (), 0.2) == b"waits"
    assert time.monotonic() - began < 10
