"""The line for systemd in docs/security.md: systemd knows what it says, and a capture is whole with
what that does. No systemd runs here: mounts, setpriv and a seccomp filter stand for it.
"""

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

from child import OWN_MOUNTS
from fix_cluster import Connection
from pgtrace.lab.core.private_cluster import PrivateCluster
from pgtrace.linux import capabilities
from pgtrace_command import PGTRACE, Pgtrace

DOCS = Path(__file__).parents[2] / "docs/security.md"
HEADER = (
    Path("/usr/include/asm-generic/unistd.h"),
    Path("/usr/include/x86_64-linux-gnu/asm/unistd_64.h"),
)
FAMILIES = {"AF_UNIX": 1, "AF_INET": 2, "AF_INET6": 10, "AF_NETLINK": 16}
STATE = "/var/lib/pgtrace"

pytestmark = [
    pytest.mark.skipif(os.geteuid() != 0, reason="confines root"),
    pytest.mark.skipif(not shutil.which("systemd-analyze"), reason="systemd is not installed"),
]


def words() -> list[str]:
    (line,) = re.findall(r"^systemd-run (?:.*\\\n)*.*$", DOCS.read_text(), re.MULTILINE)
    return shlex.split(line)


def options() -> dict[str, str]:
    said = words()
    return dict(said[i + 1].split("=", 1) for i, word in enumerate(said) if word == "-p")


@cache
def calls(name: str) -> frozenset[str]:
    """System calls of a set, as this systemd has it, or the one of that name."""
    if not name.startswith("@"):
        return frozenset({name})
    ran = subprocess.run(
        ["systemd-analyze", "syscall-filter", name], capture_output=True, text=True, check=True
    )
    inside = [line.strip() for line in ran.stdout.splitlines()[1:]]
    return frozenset().union(*(calls(each) for each in inside if each and each[0] != "#"))


def test_systemd_takes_the_options(tmp_path: Path) -> None:
    unit = tmp_path / "pgtrace.service"
    settings = "\n".join(f"{name}={value}" for name, value in options().items())
    unit.write_text(f"[Service]\nExecStart=/bin/true\n{settings}\n")
    ran = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", unit], capture_output=True, text=True, check=False
    )
    assert "pgtrace.service" not in ran.stderr, ran.stderr
    unit.write_text(unit.read_text() + "ProtectSystm=strict\n")
    ran = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", unit], capture_output=True, text=True, check=False
    )
    assert "ProtectSystm" in ran.stderr  # so it would have been told


def test_the_bounding_set_is_the_least() -> None:
    assert set(options()["CapabilityBoundingSet"].split()) == set(capabilities.least("6.1"))


FILTER = """
import ctypes, json, os, struct, sys
allowed, families = json.loads(sys.argv[1])
steps = [(0x20, 0, 0, 4), (0x15, 1, 0, 0xC000003E), (0x06, 0, 0, 0x00050001), (0x20, 0, 0, 0)]
steps += [step for n in allowed if n != 41 for step in ((0x15, 0, 1, n), (0x06, 0, 0, 0x7FFF0000))]
steps += [(0x15, 1, 0, 41), (0x06, 0, 0, 0x00050001), (0x20, 0, 0, 16)]  # socket(): its family
steps += [step for f in families for step in ((0x15, 0, 1, f), (0x06, 0, 0, 0x7FFF0000))]
steps += [(0x06, 0, 0, 0x00050000 | 97)]  # EAFNOSUPPORT
code = ctypes.create_string_buffer(b"".join(struct.pack("=HBBI", *step) for step in steps))
program = struct.pack("@HP", len(steps), ctypes.addressof(code))
libc = ctypes.CDLL(None, use_errno=True)
assert libc.prctl(38, 1, 0, 0, 0) == 0  # PR_SET_NO_NEW_PRIVS
assert libc.prctl(22, 2, program, 0, 0) == 0, ctypes.get_errno()  # PR_SET_SECCOMP
os.execvp(sys.argv[2], sys.argv[2:])
"""


def filtered(said: dict[str, str]) -> list[str]:
    """With the filter of system calls, and that of address families."""
    header = next(path for path in reversed(HEADER) if path.exists())
    numbers = dict(re.findall(r"#define __NR_(\w+) (\d+)", header.read_text()))
    names = frozenset().union(*(calls(each) for each in said["SystemCallFilter"].split()))
    assert names & {"bpf", "read", "setresuid"} == {"bpf", "read", "setresuid"}
    assert not names & {"mount", "reboot", "init_module", "swapon"}
    allowed = sorted(int(numbers[name]) for name in names if name in numbers)
    families = [FAMILIES[name] for name in said["RestrictAddressFamilies"].split()]
    return [sys.executable, "-c", FILTER, json.dumps([allowed, families])]


def capable(said: dict[str, str]) -> list[str]:
    """In the bounding set, and without new privileges."""
    names = [name.removeprefix("CAP_").lower() for name in said["CapabilityBoundingSet"].split()]
    exactly = ",".join(["-all", *(f"+{name}" for name in names)])
    return ["setpriv", "--no-new-privs", f"--bounding-set={exactly}", "--inh-caps=-all"]


def mounted(writable: Path) -> list[str]:
    """Where all is read-only but one directory, no home is seen, and /tmp is its own."""
    assert {options()[n] for n in ("ProtectSystem", "ProtectHome", "PrivateTmp")} == {
        "strict",
        "yes",
    }
    script = f"""
mkdir -p {STATE} && mount --bind {shlex.quote(str(writable))} {STATE} || exit
mount -t tmpfs tmpfs /tmp || exit
for each in /home /root; do mount -t tmpfs -o ro,mode=0 tmpfs $each || exit; done
while read -r _ place type _; do
    case $type:$place in
    *:{STATE} | *:/tmp | *:/dev* | *:/proc*) ;;
    *) mount -o remount,bind,ro "$place" 2>/dev/null ;;
    esac
done </proc/self/mounts
! touch /etc/written 2>/dev/null && touch {STATE}/written || exit
exec "$@"
"""
    return [*OWN_MOUNTS, "bash", "-c", script, "bash"]


@pytest.mark.parametrize("part", ["capabilities", "filters", "mounts", "all"])
def test_a_capture_is_whole(
    cluster: PrivateCluster, connection: Connection, tmp_path: Path, part: str
) -> None:
    said = options()
    where = Path(sys.prefix).resolve()
    if part in {"mounts", "all"} and where.parts[1] in {"home", "root", "tmp"}:
        pytest.skip("this interpreter would not be seen")
    before = {
        "capabilities": capable(said),
        "filters": filtered(said),
        "mounts": mounted(tmp_path),
        "all": [*mounted(tmp_path), *capable(said), *filtered(said)],
    }[part]
    output = f"{STATE}/capture.json" if part in {"mounts", "all"} else tmp_path / "capture.json"
    assert words()[-1].startswith(f"{STATE}/")
    options_ = ("capture", "--server", cluster.datadir, "--queries", "full", "-o", output)
    with Pgtrace(*options_, command=[*before, *PGTRACE], cwd="/") as tracer:
        tracer.attached()
        connection.execute("select count(*) from pg_class")
        connection.execute("select 1 as one")
        ended = tracer.stop()
    assert ended.code == 0, ended
    taken = json.loads((tmp_path / "capture.json").read_text())
    assert not taken["partial"]
    assert taken["probes"]["queries"] == "usdt"
    assert taken["probes"]["not_measured"] == []
    (mine,) = [b for b in taken["backends"] if b["pid"] == connection.info.backend_pid]
    assert {"select $1 as one"} <= {query["text"] for query in mine["queries"]}
