"""What cannot be done ends with the exit code that is promised, and a line or two that help."""

import json
import os
import re
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from bpf_left import leftovers, ours
from child import OWN_MOUNTS, Child, Idle, state_of, wait_until_gone
from copied_cluster import CopiedCluster
from fix_cluster import Connection
from fix_markers import PG_VERSION
from pgtrace.engines.select import probe_types
from pgtrace.files import documents
from pgtrace.lab.core.private_cluster import PrivateCluster, find_bindir
from pgtrace_command import PGTRACE, Ended, Pgtrace, copy_programs, patched, run, wait_for

NOBODY = (
    "setpriv", "--reuid=nobody", "--regid=nogroup", "--clear-groups",
    "--inh-caps=-all,+dac_read_search", "--ambient-caps=+dac_read_search", *PGTRACE,
)  # fmt: skip
"""pgtrace run by a user of no rights, but that of coming to it: the clone may be in /root."""
KERNEL_THREAD = 0x00200000
"""PF_KTHREAD of include/linux/sched.h"""
NO_PROCESS = 4194303
"""The highest that a pid can be, and hardly ever is: PID_MAX_LIMIT of include/linux/threads.h"""


@pytest.fixture(autouse=True, scope="module")
def nothing_left() -> Iterator[None]:
    """After all of these tests together: programs, maps and links are not there any more."""
    before = ours()
    yield
    assert leftovers(before) == {}


def check(ended: Ended, code: int, says: str) -> None:
    """Nothing on stdout; on stderr one line or two, that say what and what next."""
    assert re.search(says, ended.err), ended
    assert (ended.code, ended.out) == (code, ""), ended
    lines = ended.err.splitlines()
    assert lines[0].startswith("pgtrace: ")
    assert len(lines) <= 2
    assert "Traceback" not in ended.err
    assert "unexpected" not in ended.err


# Targets


@pytest.mark.parametrize("command", ["attach", "capture", "doctor -p"])
def test_no_such_pid(command: str) -> None:
    check(run(*command.split(), NO_PROCESS), 3, rf"[Nn]o process {NO_PROCESS}\b.*pgtrace list")


@pytest.mark.parametrize("command", ["attach", "capture"])
def test_pid_that_is_not_postgresql(command: str) -> None:
    with Idle() as other:
        check(
            run(command, other.pid), 3, rf"{other.pid} is not PostgreSQL but .*sleep.*pgtrace list"
        )


def test_zombie() -> None:
    with Child("true") as other:
        wait_for(lambda: state_of(other.pid) == "Z")
        check(run("attach", other.pid), 3, rf"{other.pid} .*has ended")


def kernel_threads() -> Iterator[int]:
    for process in Path("/proc").glob("[0-9]*"):
        try:
            fields = (process / "stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[6]) & KERNEL_THREAD:
            yield int(process.name)


@pytest.mark.apart  # a server in a container may have its pid, which is said as well
def test_kernel_thread() -> None:
    pid = next(kernel_threads(), None)
    if pid is None:
        pytest.skip("no kernel thread is visible in this PID namespace")
    # A server in a container, of another test, may have a process of that number
    check(run("attach", pid), 3, rf"{pid} \(.*\) is a kernel thread.*pgtrace (list|attach)")


def test_thread_of_a_process() -> None:
    """Of this one, as PostgreSQL's have one each: its pid is meant, and said."""
    done = threading.Event()
    thread = threading.Thread(target=done.wait)
    thread.start()
    try:
        check(run("attach", thread.native_id), 3, rf"is a thread of process {os.getpid()}\b")
    finally:
        done.set()
        thread.join()


def test_postmaster_cannot_be_watched_alone(cluster: PrivateCluster) -> None:
    pid = cluster.postmaster_pid
    check(run("attach", pid), 3, rf"{pid} is a postmaster.*pgtrace capture {pid}")


def test_no_such_server(tmp_path: Path) -> None:
    check(run("capture", "--server", tmp_path), 3, r"no server .*pgtrace list")


# Permission


def test_backend_of_another_user(connection: Connection) -> None:
    pid = connection.info.backend_pid
    for command in "attach", "capture":
        ended = run(command, pid, command=NOBODY, connects=True)
        check(ended, 4, f"may not be read.*sudo .* -m pgtrace {command} {pid}$")


@pytest.fixture(scope="module")
def nobodys(disk_directory: Path) -> Iterator[PrivateCluster]:
    with CopiedCluster(version=PG_VERSION, directory=disk_directory, user="nobody") as cluster:
        yield cluster


def test_backend_of_ones_own_without_root(nobodys: PrivateCluster) -> None:
    """It may be looked into, but not traced."""
    with nobodys.connect() as connection:
        pid = connection.info.backend_pid
        ended = run("attach", pid, command=NOBODY, connects=True)
        check(ended, 4, f"not permit.*sudo .* -m pgtrace attach {pid}$")
        told = run("attach", pid, "-v", command=NOBODY).err
        assert re.search("^libbpf: .*permi", told, re.IGNORECASE | re.MULTILINE), told


@pytest.mark.parametrize(
    ("kept", "says"),
    [
        pytest.param("", "CAP_SYS_PTRACE.*This root lacks capabilities", id="none"),
        pytest.param(
            ",+sys_ptrace,+dac_override",
            "CAP_(SYS_ADMIN|BPF).*This root lacks capabilities",
            id="sees processes",
        ),
        pytest.param(
            ",+sys_ptrace,+dac_override,+bpf",
            "CAP_(SYS_ADMIN|PERFMON).*This root lacks capabilities",
            id="BPF",
        ),
    ],
)
def test_root_without_the_capability(connection: Connection, kept: str, says: str) -> None:
    """As in most containers: root by name, and one who lacks the last that tracing needs. sudo
    would change nothing.
    """
    command = ["setpriv", f"--bounding-set=-all{kept}", "--inh-caps=-all", *PGTRACE]
    check(run("attach", connection.info.backend_pid, command=command), 4, says)


# The backend ends


STARTED = """
import os, signal, time
from pgtrace.engines import select

def start(request, start=select.start):
    {before}
    engine = start(request)
    {after}
    return engine

def end(pid):
    os.kill(pid, signal.SIGTERM)
    while os.path.exists(f"/proc/{{pid}}"):
        time.sleep(0.01)

select.start = start
"""


@pytest.mark.parametrize("command", ["attach", "capture"])
def test_backend_that_ended_before(cluster: PrivateCluster, command: str) -> None:
    with cluster.connect() as connection:
        pid = connection.info.backend_pid
    wait_until_gone(pid)
    check(run(command, pid), 3, f"[Nn]o process {pid}")


@pytest.mark.parametrize("command", ["attach", "capture"])
def test_backend_that_ends_while_attaching(cluster: PrivateCluster, command: str) -> None:
    with cluster.connect() as connection:
        pid = connection.info.backend_pid
        code = STARTED.format(before=f"end({pid})", after="pass")
        check(run(command, pid, command=patched(code)), 3, "ended before it could be traced|ended")


@pytest.mark.parametrize("command", ["attach", "capture"])
def test_backend_that_ends_as_soon_as_it_is_traced(cluster: PrivateCluster, command: str) -> None:
    """A normal end: there is nothing to tell, and that is told."""
    with cluster.connect() as connection:
        pid = connection.info.backend_pid
        code = STARTED.format(before="pass", after=f"end({pid})")
        ended = run(command, pid, "--probe", "tracepoint", command=patched(code))
    assert ended.code == 0, ended
    assert "Traceback" not in ended.err
    assert f"{pid}" in ended.out


def test_backend_that_ends_while_it_is_traced(cluster: PrivateCluster, tmp_path: Path) -> None:
    """What was captured until then is there."""
    file = tmp_path / "file"
    with cluster.connect() as connection:
        pid = connection.info.backend_pid
        with Pgtrace("capture", pid, "-o", file, "--probe", "tracepoint") as tracer:
            tracer.attached()
            connection.execute("select 1 as last_words")
            connection.close()
            code, out, err = tracer.ended()
    assert (code, out) == (0, "")
    assert err.splitlines()[-1] == f"Wrote {file}"
    (query,) = documents.load(file).backends[0].queries
    assert (query.text, query.calls) == ("select $1 as last_words", 1)


# The binary


def test_binary_that_was_replaced(disk_directory: Path) -> None:
    """As by an upgrade: what runs is still the old one, and is what is traced."""
    bindir = copy_programs(find_bindir(PG_VERSION), disk_directory / "replaced")
    with (
        CopiedCluster(bindir=bindir, directory=disk_directory) as cluster,
        cluster.connect() as connection,
    ):
        cluster.binary.unlink()
        cluster.binary.write_bytes(b"another version")
        pid = connection.info.backend_pid
        with Pgtrace("capture", pid, "--json", "--probe", "tracepoint") as tracer:
            tracer.attached()
            connection.execute("select 1 as one")
            code, out, _ = tracer.stop()
    taken = json.loads(out)
    assert code == 0
    assert taken["probes"]["queries"] == "usdt"
    assert [query["text"] for query in taken["backends"][0]["queries"]] == ["select $1 as one"]


# The kernel


def test_way_in_that_is_refused(connection: Connection) -> None:
    refused = [way for way, reason in probe_types(os.getpid()).items() if reason]
    if not refused:
        pytest.skip("this kernel refuses no probe type")
    for way in refused:
        ended = run("attach", connection.info.backend_pid, "--probe", way)
        check(ended, 5, rf"{way}.*pgtrace doctor")


def without(mounts: str) -> Sequence[str]:
    """pgtrace in a mount namespace of its own, where these commands were run before."""
    return *OWN_MOUNTS, "sh", "-c", f'{mounts}; exec "$@"', "sh", *PGTRACE


def test_no_btf(connection: Connection) -> None:
    """Nor in any other place where libbpf looks for it."""
    command = without("mount -t tmpfs none /sys/kernel/btf; mount -t tmpfs none /boot")
    ended = run("attach", connection.info.backend_pid, command=command)
    check(ended, 5, "no BTF.*/sys/kernel/btf/vmlinux")


# Output files


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("existing", "exists; --force overwrites it"),
        ("link", "is a symbolic link"),
        (".", "is not a file"),
        ("none/file", "no such directory"),
        ("existing/file", "no such directory|Not a directory"),
    ],
)
def test_output_file_is_looked_at_before_tracing(tmp_path: Path, name: str, says: str) -> None:
    """Before even the process is: there is none of this pid."""
    existing = tmp_path / "existing"
    existing.write_text("precious")
    (tmp_path / "link").symlink_to(existing)
    check(run("capture", NO_PROCESS, "-o", tmp_path / name), 2, says)
    assert existing.read_text() == "precious"


def test_output_directory_that_may_not_be_written_to(disk_directory: Path) -> None:
    file = disk_directory / "file"
    ended = run("capture", NO_PROCESS, "-o", file, command=NOBODY)
    check(ended, 2, "files cannot be made there")


def test_force_overwrites(connection: Connection, tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("old")
    arguments = "capture", connection.info.backend_pid, "--duration", "0.2", "-o", file, "--force"
    ended = run(*arguments, "--probe", "tracepoint")
    assert ended.code == 0, ended
    assert documents.load(file).backends[0].pid == connection.info.backend_pid


@pytest.mark.parametrize("why", ["the directory went", "another made the file"])
def test_capture_that_cannot_be_written_is_kept(
    connection: Connection, tmp_path: Path, why: str
) -> None:
    """Elsewhere, and where is said: hours of tracing may be in it."""
    file = tmp_path / "directory" / "file"
    file.parent.mkdir()
    pid = connection.info.backend_pid
    with Pgtrace("capture", pid, "-o", file, "--probe", "tracepoint") as tracer:
        tracer.attached()
        connection.execute("select 1 as one")
        if why == "the directory went":
            file.parent.rmdir()
        else:
            file.write_text("precious")
        code, out, err = tracer.stop()
    last = err.splitlines()[-1]
    kept = re.search(r"The capture was kept: (/\S+)$", last)
    assert kept and str(file.parent) in last
    try:
        (query,) = documents.load(kept[1]).backends[0].queries
    finally:
        Path(kept[1]).unlink()
    assert query.text == "select $1 as one"
    assert (code, out) == (1, "")
    if file.exists():
        assert file.read_text() == "precious"


# Files to report


@pytest.fixture(scope="module")
def captured(cluster: PrivateCluster, tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """A capture as it is written."""
    file = tmp_path_factory.mktemp("captured") / "file"
    with cluster.connect() as connection:
        pid = connection.info.backend_pid
        with Pgtrace("capture", pid, "-o", file, "--probe", "tracepoint") as tracer:
            tracer.attached()
            connection.execute("select count(*) from pg_class")
            assert tracer.stop().code == 0
    return file.read_bytes()


def changed(**members: Any) -> Callable[[bytes], bytes]:
    return lambda data: json.dumps(json.loads(data) | members).encode()


@pytest.mark.parametrize(
    ("change", "says"),
    [
        pytest.param(lambda data: data[: len(data) // 2], "ends too early", id="truncated"),
        pytest.param(lambda _: b"", "is empty", id="empty"),
        pytest.param(lambda _: b"\x7fELF\0\1\2\xff", "is not JSON", id="binary"),
        pytest.param(lambda _: b"Backend 1  postgres\n", "is not JSON", id="text"),
        pytest.param(lambda _: b'{"a": 1}', "JSON of another program", id="foreign"),
        pytest.param(lambda _: b"[1, 2]", "JSON of another program", id="list"),
        pytest.param(changed(schema="pgtrace.capture/3"), "upgrade pgtrace", id="future"),
        pytest.param(changed(schema="pgtrace.lab/2"), "not a whole lab result", id="lab"),
        pytest.param(changed(backends=[{"pid": "x"}]), r"not a whole capture.*pid", id="type"),
        pytest.param(changed(backends=[]), r"not a whole capture.*totals", id="contradiction"),
    ],
)
def test_report_of_what_is_no_capture(
    captured: bytes, tmp_path: Path, change: Callable[[bytes], bytes], says: str
) -> None:
    file = tmp_path / "file"
    file.write_bytes(change(captured))
    check(run("report", file), 2, says)


def test_report_of_a_whole_capture(captured: bytes, tmp_path: Path) -> None:
    """The same file, unchanged: it was the change that was refused."""
    file = tmp_path / "file"
    file.write_bytes(captured)
    ended = run("report", file)
    assert (ended.code, ended.err) == (0, "")
    assert "select count(*) from pg_class" in ended.out


def test_report_of_no_file(tmp_path: Path) -> None:
    check(run("report", tmp_path / "none"), 2, "no such file")
    check(run("report", tmp_path), 2, "cannot be read: Is a directory")


# Options


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ("atach 1", "did you mean `pgtrace attach`"),
        ("attach", "which process.*pgtrace list"),
        ("attach x", "'x' is not a pid"),
        ("attach --pid x", "'x' is not a pid"),
        ("attach 0", "'0' is not a pid"),
        ("attach -- -1", "'-1' is not a pid"),
        ("attach 1 -p 2", "different pids.*one pid"),
        ("attach 1 --duration 0", "'0' is not a number of seconds above 0"),
        ("attach 1 --duration nan", "not a number of seconds"),
        ("attach 1 --every -1", "not a number of seconds|expected one argument"),
        ("attach 1 --probe best", "invalid choice: 'best'"),
        ("attach 1 --dur 5", "unrecognized arguments: --dur"),
        ("attach 1 --per", "unrecognized arguments: --per"),
        ("attach 1 --server 5432", "unrecognized arguments: --server"),
        ("capture 1 --lit", "unrecognized arguments: --lit"),
        ("capture 1 --all", "only one of them"),
        ("report", "required: FILE"),
        ("report file --format xml", "invalid choice: 'xml'"),
        ("report file --out f", "unrecognized arguments: --out"),
        ("top -o x", "unrecognized arguments: -o"),
        ("top --batch 1 --output=x y", "unrecognized arguments: --output=x"),
        ("top -v -- -o", "'-o' is not a pid"),
        ("top --dsn -o", "argument --dsn: expected one argument"),
        ("attach -q -o x", "unrecognized arguments: -o;"),
        ("report --frob", "unrecognized arguments: --frob"),
    ],
)
def test_usage(arguments: str, says: str) -> None:
    check(run(*arguments.split()), 2, says)
