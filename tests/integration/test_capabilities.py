"""The least that suffices, by trial; and what pgtrace still may do once it is attached."""

import contextlib
import json
import os
import re
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from fix_cluster import Connection
from pgtrace.lab.core.private_cluster import PrivateCluster
from pgtrace.linux import capabilities
from pgtrace_command import PGTRACE, Pgtrace, run, wait_for

UID = 47_110
LEAST = capabilities.least()
LOOKING = {"CAP_SYS_PTRACE", "CAP_DAC_READ_SEARCH"}
RESERVE = {*capabilities.for_probes(), "CAP_SETUID", "CAP_SETGID", "CAP_KILL"}

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="becomes other users: needs root")


def allowed(*names: str) -> tuple[str, ...]:
    """pgtrace as an ordinary user who has these capabilities, and can get no other."""
    words = [f"+{name.removeprefix('CAP_').lower()}" for name in names]
    exactly = ",".join(["-all", *words])
    return (
        "setpriv", f"--reuid={UID}", f"--regid={UID}", "--clear-groups",
        f"--inh-caps={exactly}", f"--ambient-caps={exactly}", f"--bounding-set={exactly}",
        *PGTRACE,
    )  # fmt: skip


@pytest.fixture(autouse=True)
def reachable() -> None:
    done = subprocess.run([*allowed(), "--version"], capture_output=True, check=False)
    if done.returncode != 0:
        pytest.skip("another user cannot run this interpreter")


def statuses(pid: int) -> list[str]:
    """Of all its threads; one may end meanwhile."""
    found = []
    for status in Path(f"/proc/{pid}/task").glob("*/status"):
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            found.append(status.read_text())
    assert found
    return found


def let_go(pid: int) -> bool:
    """Whether all its threads did; one that subscribes to the process connector ends soon."""
    return all(re.search(r"^NoNewPrivs:\s+1$", text, re.MULTILINE) for text in statuses(pid))


def sets_of(pid: int) -> dict[str, set[str]]:
    """Of all its threads together, each set's capabilities by name; others by their number."""
    names = {number: name for name, number in capabilities.NUMBERS.items()}
    assert let_go(pid)
    found: dict[str, set[str]] = {}
    for text in statuses(pid):
        for kind, bits in re.findall(r"^Cap(\w+):\s+([0-9a-f]+)$", text, re.MULTILINE):
            of = found.setdefault("Inheritable" if kind.startswith("I") else kind, set())
            of |= {names.get(n, str(n)) for n in range(64) if int(bits, 16) >> n & 1}
    return found


@contextlib.contextmanager
def tracing(*arguments: object, cwd: Path | None = None) -> Iterator[int]:
    """The pid of pgtrace, once it is attached."""
    with Pgtrace(*arguments, cwd=cwd) as started:
        started.attached()
        wait_for(lambda: let_go(started.pid), seconds=20)
        yield started.pid
        started.send(2)
        assert started.ended()[0] == 0


# What suffices


def test_what_is_named_suffices_to_capture(cluster: PrivateCluster, connection: Connection) -> None:
    server = f"--server={cluster.datadir}"
    for target, way in (
        ((connection.info.backend_pid,), "usdt"),
        ((server, "--queries=full"), "usdt"),
        ((server,), "memory"),
    ):
        arguments = ("capture", *target, "--duration", "1", "--json")
        code, out, err = run(*arguments, command=allowed(*LEAST))
        assert code == 0, err
        taken = json.loads(out)
        assert taken["probes"]["queries"] == way
        assert [b["pid"] for b in taken["backends"] if b["pid"] == connection.info.backend_pid]
        assert not taken["partial"]
        others = [words for words in taken["probes"]["not_measured"] if "connector" not in words]
        assert others == []


def test_the_one_that_stands_for_others_does_as_well(connection: Connection) -> None:
    command = allowed("CAP_SYS_ADMIN", *LOOKING)
    pid = str(connection.info.backend_pid)
    code, out, err = run("capture", pid, "--duration", "0.5", "--json", command=command)
    assert code == 0, err
    assert json.loads(out)["probes"]["queries"] == "usdt"


def test_what_is_named_suffices_to_attach(connection: Connection) -> None:
    pid = str(connection.info.backend_pid)
    code, _, err = run("attach", pid, "--duration", "0.5", command=allowed(*LEAST))
    assert code == 0, err


@pytest.mark.parametrize("left_out", LEAST)
def test_none_of_it_can_be_left_out_and_what_is_missing_is_named(
    cluster: PrivateCluster, connection: Connection, left_out: str
) -> None:
    command = allowed(*(name for name in LEAST if name != left_out))
    for target in (str(connection.info.backend_pid), f"--server={cluster.datadir}"):
        code, _, err = run("capture", target, "--duration", "0.2", "--json", command=command)
        assert code == 4, err
        assert left_out in err


def test_doctor_names_it(cluster: PrivateCluster) -> None:
    code, out, err = run("doctor", command=allowed(*LEAST))
    assert code == 0, out + err
    assert f"these suffice: {', '.join(LEAST)}" in out
    code, out, _ = run("doctor", command=allowed(*set(LEAST) - {"CAP_DAC_READ_SEARCH"}))
    assert code != 0
    assert "CAP_DAC_READ_SEARCH is missing" in out


# What is let go


def test_of_one_backend_only_looking_is_left(
    cluster: PrivateCluster, connection: Connection, tmp_path: Path
) -> None:
    arguments = "capture", connection.info.backend_pid, "--dsn", cluster.dsn(), "-o", "a.json"
    with tracing(*arguments, cwd=tmp_path) as pid:
        found = sets_of(pid)
        assert len(list(Path(f"/proc/{pid}/task").iterdir())) > 1
    assert found["Eff"] == found["Prm"] == found["Bnd"] == LOOKING
    assert found["Inheritable"] == found["Amb"] == set()
    taken = json.loads((tmp_path / "a.json").read_text())
    assert not taken["partial"]
    assert [space["location"] for space in taken["tablespaces"]] != [None]


def test_attach_lets_go_as_well(connection: Connection) -> None:
    with tracing("attach", connection.info.backend_pid) as pid:
        found = sets_of(pid)
    assert found["Eff"] == found["Prm"] == found["Bnd"] == LOOKING


def test_of_a_whole_server_what_a_restart_needs_is_in_reserve(
    cluster: PrivateCluster, tmp_path: Path
) -> None:
    with tracing("capture", "--server", cluster.datadir, "-o", "a.json", cwd=tmp_path) as pid:
        found = sets_of(pid)
        with cluster.connect():  # a new backend is looked at
            time.sleep(1)
    assert found["Eff"] == LOOKING
    assert found["Prm"] == found["Bnd"] == LOOKING | RESERVE
    assert found["Inheritable"] == found["Amb"] == set()


def test_a_file_of_another_user_is_still_written(connection: Connection, tmp_path: Path) -> None:
    place = tmp_path / "theirs"
    place.mkdir()
    os.chown(place, UID, UID)
    place.chmod(0o700)
    with tracing("capture", connection.info.backend_pid, "-o", place / "a.json") as pid:
        found = sets_of(pid)
    assert found["Eff"] == LOOKING
    assert found["Prm"] == LOOKING | {"CAP_SETUID", "CAP_SETGID", "CAP_KILL"}
    assert (place / "a.json").stat().st_uid == UID


@pytest.mark.parametrize("whole", [False, True])
def test_roots_own_file_is_written_where_a_mode_is_against_it(
    cluster: PrivateCluster, connection: Connection, tmp_path: Path, whole: bool
) -> None:
    """/root is such a directory on RHEL."""
    target = f"--server={cluster.datadir}" if whole else connection.info.backend_pid
    tmp_path.chmod(0o550)
    with tracing("capture", target, "-o", "a.json", cwd=tmp_path) as pid:
        found = sets_of(pid)
    assert found["Eff"] == LOOKING
    assert found["Prm"] == LOOKING | {"CAP_DAC_OVERRIDE"} | (RESERVE if whole else set())
    assert not json.loads((tmp_path / "a.json").read_text())["partial"]
