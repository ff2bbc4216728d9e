"""Where nobody has mounted tracefs pgtrace does, for itself alone: the host's mounts stay."""

import json
import re
from pathlib import Path

import pytest

from child import OWN_MOUNTS
from fix_cluster import Connection
from pgtrace_command import PGTRACE, Ended, Pgtrace, patched, run

UNMOUNTED = "umount -l /sys/kernel/tracing /sys/kernel/debug 2>/dev/null"
ROOT_OF_ITS_OWN = f"""{UNMOUNTED}
root=$(mktemp -d) && mount --bind / $root && mount -t proc -o ro none $root/proc &&
mount -t sysfs -o ro none $root/sys && mount --bind /dev $root/dev && cd $root || exit"""
"""As a container has it: /sys is read-only, and nothing is mounted below it."""
NO_MOUNTS = """
import ctypes, struct
# If the system call is fsopen (430), SECCOMP_RET_ERRNO with EPERM; else SECCOMP_RET_ALLOW
steps = (0x20, 0, 0, 0), (0x15, 0, 1, 430), (0x06, 0, 0, 0x00050001), (0x06, 0, 0, 0x7FFF0000)
code = ctypes.create_string_buffer(b"".join(struct.pack("=HBBI", *step) for step in steps))
program = struct.pack("@HP", len(steps), ctypes.addressof(code))
assert ctypes.CDLL(None).prctl(22, 2, program, 0, 0) == 0  # PR_SET_SECCOMP, SECCOMP_MODE_FILTER
"""
"""What a container's seccomp or AppArmor does to a root that may trace and not mount."""


def where(mounts: str, *command: str, enter: str = "") -> list[str]:
    """A command in a mount namespace of its own, where these commands were run before."""
    return [*OWN_MOUNTS, "sh", "-c", f'{mounts}; exec {enter} "$@"', "sh", *command]


def mounts(pid: int | str) -> list[str]:
    return Path(f"/proc/{pid}/mounts").read_text().splitlines()


@pytest.mark.apart  # others mount their simulated devices
@pytest.mark.parametrize(
    "command",
    [where(UNMOUNTED, *PGTRACE), where(ROOT_OF_ITS_OWN, *PGTRACE, enter="chroot .")],
    ids=["host", "container"],
)
def test_tracefs_is_mounted_for_pgtrace_alone(connection: Connection, command: list[str]) -> None:
    """In no namespace that anybody has a process in; with -v it is said."""
    options = "capture", connection.info.backend_pid, "--probe", "tracepoint", "--json"
    before = mounts("self")
    for verbose in [], ["-v"]:
        with Pgtrace(*verbose, *options, command=command) as tracer:
            tracer.attached()
            assert not [line for line in mounts(tracer.pid) if " tracefs " in line]
            assert mounts("self") == before
            connection.execute("select 1 as one")
            ended = tracer.stop()
        assert ended.code == 0, ended
        said = "tracefs is not mounted here: mounted it for this process alone.\n"
        assert ended.err.count(said) == len(verbose)
        capture = json.loads(ended.out)
        assert capture["probes"]["not_measured"] == []
        (query,) = capture["backends"][0]["queries"]
        assert query["text"] == "select $1 as one"


def test_reads_are_counted_there(connection: Connection) -> None:
    command = where(UNMOUNTED, *PGTRACE)
    options = "capture", connection.info.backend_pid, "--probe", "tracepoint", "--json"
    file = "'/proc/self/exe'"  # no regular file of a real file system by its name, but by its inode
    with Pgtrace(*options, command=command) as tracer:
        tracer.attached()
        connection.execute(f"select length(pg_read_binary_file({file}, 0, 8192))")
        ended = tracer.stop()
    (query,) = json.loads(ended.out)["backends"][0]["queries"]
    assert sum(each["latency"]["count"] for each in query["io"]) > 0


def doctors(ended: Ended) -> str:
    return "\n".join(re.findall(r".*tracefs: .*(?:\n +→ .*)?", ended.out))


def test_doctor_says_who_mounts_it() -> None:
    ended = run("doctor", command=where(UNMOUNTED, *PGTRACE))
    assert doctors(ended) == "  ok  tracefs: not mounted: pgtrace mounts it, for itself alone"
    assert ended.code == 0, ended


def test_a_mount_that_is_refused(connection: Connection) -> None:
    """The remedy is the flag that is missing."""
    command = where(UNMOUNTED, *patched(NO_MOUNTS))
    pid = connection.info.backend_pid
    ended = run("capture", pid, "--probe", "tracepoint", command=command)
    assert (ended.code, ended.out) == (5, "")
    why = "tracefs is not mounted, and cannot be mounted here: Operation not permitted"
    assert re.search(f"{why}.*--pid=host --privileged", ended.err), ended
    assert len(ended.err.splitlines()) <= 2
    told = doctors(run("doctor", command=command))
    assert re.search(rf" no +tracefs: {why}\n +→ .*--pid=host --privileged", told), told


def test_tracefs_below_debugfs_does_where_a_mount_is_refused(connection: Connection) -> None:
    debugfs = f"{UNMOUNTED}; mount -t debugfs none /sys/kernel/debug || exit 77"
    command = where(debugfs, *patched(NO_MOUNTS))
    options = "--probe", "tracepoint", "--duration", "0.2", "--json"
    ended = run("capture", connection.info.backend_pid, *options, command=command)
    if ended.code == 77:
        pytest.skip("the kernel has no debugfs")
    assert ended.code == 0, ended
