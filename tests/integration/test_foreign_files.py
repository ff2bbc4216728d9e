"""Another user's process that pretends to be a server: it hangs nobody, and no secret is told."""

import io
import json
import os
import re
import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from elftools.elf.elffile import ELFFile

from child import children_of
from fix_cluster import Connection
from hostile import SECRET, Pretended, compiled, pretended, section
from pgtrace.lab.core.private_cluster import PrivateCluster
from pgtrace.tracing.targets import MOST_SERVERS
from pgtrace_command import PGTRACE, Pgtrace, patched, run, seeing

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="becomes other users: needs root")

MOST_SECONDS = 60
MOST_KIB = 150 << 10
MEASURED = (
    sys.executable,
    "-c",
    "import resource, subprocess, sys\n"
    f"done = subprocess.run({PGTRACE!r} + tuple(sys.argv[1:]), timeout={MOST_SECONDS})\n"
    "most = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss\n"
    f"sys.exit(done.returncode if most < {MOST_KIB} else f'took {{most}} KiB')\n",
)


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compiled(tmp_path_factory.mktemp("hostile") / "postgres")


@pytest.fixture(scope="module")
def nameless(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compiled(tmp_path_factory.mktemp("hostile") / "postgres", version=None)


@pytest.fixture
def attacker(nameless: Path) -> Iterator[Pretended]:
    with pretended(nameless) as place:
        yield place


def listed(cluster: PrivateCluster) -> list[dict[str, object]]:
    """What `list` shows, of others than the server that is there for certain."""
    done = run("list", "--json", command=MEASURED)
    assert done.code == 0, done.err
    assert SECRET not in done.out + done.err
    servers = {each["postmaster_pid"]: each for each in json.loads(done.out)["servers"]}
    assert cluster.postmaster_pid in servers, done
    assert servers.pop(cluster.postmaster_pid)["block_size"] == 8192
    return list(servers.values())


KINDS = ("fifo", "huge", "link", "root's", "directory")


@pytest.mark.parametrize("kind", KINDS)
def test_no_lock_file(cluster: PrivateCluster, attacker: Pretended, kind: str) -> None:
    attacker.put(kind, "postmaster.pid")
    with attacker.running() as process:
        assert process.pid not in [each["postmaster_pid"] for each in listed(cluster)]
        done = run("doctor", "--json", command=MEASURED)
        assert done.code in {0, 4, 5}, done.err
        assert SECRET not in done.out + done.err


@pytest.mark.parametrize("name", ["PG_VERSION", "global/1"])
@pytest.mark.parametrize("kind", KINDS)
def test_no_file_of_a_server(
    cluster: PrivateCluster, attacker: Pretended, kind: str, name: str
) -> None:
    """It is a server by its lock file; what the others are to say is not known."""
    attacker.put(kind, name)
    with attacker.running() as process:
        (found,) = [each for each in listed(cluster) if each["postmaster_pid"] == process.pid]
        assert (found["version"], found["block_size"]) == (None, None)
        assert run("doctor", "--pid", process.pid, command=MEASURED).code in {0, 4, 5}


def test_no_title_of_its_children(cluster: PrivateCluster, attacker: Pretended) -> None:
    """CPython refuses to read 5,000 digits, and the kernel a path of 300."""
    titles = [
        *(f"postgres: parallel worker for PID {'1' * digits}" for digits in (300, 5000)),
        f"postgres: alice shop 10.0.0.1({'1' * 5000}) idle",
        "postgres: " + "io worker : " * 680 + "a(1) " * 1600,
    ]
    with attacker.running(*titles) as process:
        for option in "--json", "--all":
            done = run("list", option, command=MEASURED)
            assert done.code == 0, done.err
        (found,) = [each for each in listed(cluster) if each["postmaster_pid"] == process.pid]
        backends = found["backends"]
        assert isinstance(backends, list)
        assert len(backends) == 1 + len(titles)
        assert not any(each["leader_pid"] or each["client_port"] for each in backends)


def test_a_child_whose_program_has_a_path_that_is_too_long_for_the_kernel(
    cluster: PrivateCluster, attacker: Pretended
) -> None:
    """/proc/PID/exe cannot be read, and it is no permission that is missing."""
    with ExitStack() as stack:
        directory = os.open(attacker.place, os.O_RDONLY)
        stack.callback(lambda: os.close(directory))
        for _ in range(20):
            os.mkdir("d" * 250, 0o755, dir_fd=directory)
            inner = os.open("d" * 250, os.O_RDONLY, dir_fd=directory)
            os.close(directory)
            directory = inner
        here = f"/proc/self/fd/{directory}"
        shutil.copy(attacker.program, f"{here}/postgres")
        running = attacker.running(f"{here}/postgres", pass_fds=[directory])
        process = stack.enter_context(running)
        (child,) = children_of(process.pid)
        with pytest.raises(OSError, match="name too long"):
            Path(f"/proc/{child}/exe").readlink()
        (found,) = [each for each in listed(cluster) if each["postmaster_pid"] == process.pid]
        assert isinstance(found["backends"], list)
        done = run("attach", child)
        assert done.code == 3, done


def test_what_it_says_of_itself_is_bounded(cluster: PrivateCluster, attacker: Pretended) -> None:
    attacker.write("PG_VERSION", "15\n" * 1000)
    attacker.write("global/1", b"\0" * 18 + (8192 | 4).to_bytes(2, sys.byteorder))
    with attacker.running() as process:
        attacker.write("postmaster.pid", f"{process.pid}\n/\n1\n{'9' * 4000}\n")
        (found,) = [each for each in listed(cluster) if each["postmaster_pid"] == process.pid]
        assert (found["version"], found["block_size"], found["port"]) == (None, 8192, None)


def _in_section(data: bytearray, name: str, offset: int, value: bytes) -> None:
    at = ELFFile(io.BytesIO(bytes(data))).get_section_by_name(name)["sh_offset"] + offset
    data[at : at + len(value)] = value


def _many_segments(data: bytearray) -> None:
    data[0x3C:0x3E] = b"\xff\xff"  # e_shnum


MUTATIONS: dict[str, Callable[[bytearray], None]] = {
    "a hash without buckets": lambda data: _in_section(data, ".gnu.hash", 0, b"\0" * 4),
    "notes of a terabyte": lambda data: section(data, ".note.stapsdt", 0x20, 1 << 40),
    "notes of 4.3 GB": lambda data: section(data, ".note.stapsdt", 0x20, 4300 << 20),
    "notes beyond the end": lambda data: section(data, ".note.stapsdt", 0x18, 1 << 62),
    "a note that is too long": lambda data: _in_section(data, ".note.stapsdt", 0, b"\xff" * 8),
    "a name that is no text": lambda data: _in_section(data, ".note.stapsdt", 44, b"\xff" * 24),
    "sections without end": _many_segments,
}


@pytest.mark.parametrize("mutation", MUTATIONS)
def test_a_hostile_program(
    cluster: PrivateCluster,
    connection: Connection,
    program: Path,
    tmp_path: Path,
    mutation: str,
) -> None:
    """Whatever cannot be known of it, what is known of another server is as without it."""
    with pretended(program) as attacker:
        data = bytearray(attacker.program.read_bytes())
        MUTATIONS[mutation](data)
        attacker.program.write_bytes(data)
        os.truncate(attacker.program, 4300 << 20)
        with attacker.running() as process:
            (found,) = [each for each in listed(cluster) if each["postmaster_pid"] == process.pid]
            assert found["version"] == "15.18"
            done = run("doctor", command=MEASURED)
            assert done.code == 0, done.err
            assert str(attacker.place) in done.out
            file = tmp_path / "capture.json"
            arguments = ("capture", "--all", "--queries", "full", "-v", "-o", file)
            both = patched(seeing(cluster.postmaster_pid, process.pid))
            with Pgtrace(*arguments, command=both) as tracing:
                tracing.attached()
                connection.execute("select 1 as column_of_a_query")
                done = tracing.stop()
            assert done.code == 0, done.err
            capture = json.loads(file.read_text())
            assert capture["probes"]["queries"] != "none", capture["probes"]
            assert "column_of_a_query" in file.read_text()


@pytest.mark.apart  # beside it, others that trace all servers would have no room for their own
def test_more_servers_than_there_is_room_for(
    cluster: PrivateCluster, connection: Connection, program: Path, tmp_path: Path
) -> None:
    """Those that were there first are traced; the others are named."""
    file = tmp_path / "capture.json"
    with ExitStack() as stack:
        for _ in range(MOST_SERVERS):
            attacker = stack.enter_context(pretended(program))
            last = stack.enter_context(attacker.running())
        with Pgtrace("capture", "--all", "--queries", "full", "-v", "-o", file) as tracing:
            tracing.attached()
            connection.execute("select 1 as column_of_a_query")
            done = tracing.stop()
    assert done.code == 0, done.err
    (line,) = [each for each in done.err.splitlines() if "more than" in each]
    assert str(last.pid) in line
    assert str(cluster.postmaster_pid) not in re.findall(r"\d+", line)
    assert "column_of_a_query" in file.read_text()
