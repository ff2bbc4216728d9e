"""Who may not look into a server is told so, and what to type: never that there is none."""

import os
import re
import shlex
import subprocess
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from fix_cluster import Connection
from pgtrace.lab.core.private_cluster import PrivateCluster
from pgtrace_command import PGTRACE, run

UID = 47_111
"""Nobody's: other tests have a server of nobody's."""
SETPRIV = ("setpriv", f"--reuid={UID}", f"--regid={UID}", "--clear-groups")
OTHER = (*SETPRIV, *PGTRACE)

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="becomes other users: needs root")


@pytest.fixture(autouse=True)
def reachable() -> None:
    done = subprocess.run([*OTHER, "--version"], capture_output=True, check=False)
    if done.returncode != 0:
        pytest.skip("another user cannot run this interpreter")


def allowed(*capabilities: str) -> tuple[str, ...]:
    """Another user with these capabilities."""
    names = ",".join(f"+{name}" for name in capabilities)
    return (*SETPRIV, f"--inh-caps={names}", f"--ambient-caps={names}", *PGTRACE)


COMMANDS = (
    ("list",),
    ("capture", "--duration", "0.2"),
    ("capture", "--all", "--duration", "0.2"),
    ("capture", "--server", "PORT", "--duration", "0.2"),
    ("capture", "--server", "DIR", "--duration", "0.2", "-o", "a file.json"),
)


def all_there_is() -> Iterator[Any]:
    """Each command with each capability; whoever may look into processes would find the servers
    that other tests pretend to have in directories for everybody."""
    for capabilities, arguments in product(((), ("sys_ptrace",), ("dac_read_search",)), COMMANDS):
        marks = [pytest.mark.apart] if capabilities == ("sys_ptrace",) else []
        yield pytest.param(capabilities, arguments, marks=marks)


@pytest.mark.parametrize(("capabilities", "arguments"), [*all_there_is()])
def test_a_server_of_another_user(
    cluster: PrivateCluster,
    tmp_path: Path,
    capabilities: tuple[str, ...],
    arguments: tuple[str, ...],
) -> None:
    """Exit code 4, and a line that works as it is printed, but for sudo, which root needs not."""
    known = {"PORT": "54321", "DIR": str(cluster.datadir)}
    typed = [known.get(word, word) for word in arguments]
    os.chown(tmp_path, UID, UID)  # root makes a file there as its user
    command = allowed(*capabilities) if capabilities else OTHER
    code, out, err = run(*typed, command=command, cwd=tmp_path, connects=True)
    assert (code, out) == (4, ""), err
    assert "belong to another user" in err
    (line,) = re.findall(r"Type: sudo (.*)$", err, re.MULTILINE)
    words = shlex.split(line)
    assert words[-len(typed) :] == typed
    if "DIR" in arguments or "list" in arguments:
        done = run(command=words, cwd=tmp_path)
        assert done.code == 0, done.err


def test_a_port_at_which_nobody_is(cluster: PrivateCluster) -> None:
    """For root, who sees all, there is none: 3. Another user cannot know: 4."""
    assert run("capture", "--server", 1).code == 3
    code, _, err = run("capture", "--server", 1, command=OTHER)
    assert code == 4
    assert "no server 1 that you may look into" in err


@pytest.mark.parametrize("arguments", [("list",), ("capture",), ("capture", "--all")])
def test_root_with_few_capabilities(cluster: PrivateCluster, arguments: tuple[str, ...]) -> None:
    """As in a container. sudo would give it no more: none is told."""
    without = "--bounding-set=-sys_ptrace,-dac_read_search,-dac_override"
    code, _, err = run(*arguments, command=("setpriv", without, *PGTRACE))
    assert code == 4
    assert "This root lacks capabilities" in err
    assert "sudo" not in err


def test_a_process_of_another_user(connection: Connection) -> None:
    pid = connection.info.backend_pid
    for command in ("attach", "capture"):
        code, _, err = run(command, pid, command=OTHER, connects=True)
        assert code == 4
        assert err.endswith(f"-m pgtrace {command} {pid}\n"), err


def test_who_may_look_but_not_trace(connection: Connection) -> None:
    command = allowed("sys_ptrace", "dac_read_search")
    code, _, err = run("capture", connection.info.backend_pid, command=command)
    assert code == 4
    assert "Type: sudo " in err


def test_a_file_of_roots(tmp_path: Path) -> None:
    """What root captured: the line works as it is printed."""
    file = tmp_path / "a file.json"
    file.write_text("{}")
    file.chmod(0o600)
    code, out, err = run("report", file, command=OTHER)
    assert (code, out) == (2, "")
    assert re.search(rf"Permission denied\..*type: sudo .*pgtrace report '{file}'$", err.rstrip())


def test_doctor_of_another_user(cluster: PrivateCluster) -> None:
    code, out, _ = run("doctor", command=OTHER)
    assert code == 4
    assert "belong to another user" in out
    assert out.startswith("Nothing can be traced by this user: ")
    code, out, _ = run("doctor", "--measure", command=OTHER)
    assert code == 4
    assert "Cost\n  -   cost: not measured: " in out
