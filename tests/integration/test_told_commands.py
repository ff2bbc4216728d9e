"""What the tutorial and the recipes tell to type does what they say, on a server that has the
problem: short, and in a folder of the test's.
"""

import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from copied_cluster import CopiedCluster
from fix_cluster import bindir
from fix_markers import PG_VERSION
from pgtrace.lab.core.private_cluster import PrivateCluster
from pgtrace_command import PGTRACE, wait_for

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "scripts" / "problems"))

import problems

ROOT = Path(__file__).resolve().parents[2]
ATTACHED_S = 6
"""On a busy disk one of the slow queries takes seconds, and is shown when it has ended."""
COURSE_S = 5
"""A session of four seconds has a course."""
SLOW = "select sum(length(note))"

pytestmark = pytest.mark.pg("15")


class Told(NamedTuple):
    """What a page tells to type."""

    page: str
    command: str


def told() -> Iterator[Told]:
    """Line by line, without what makes or ends the server."""
    for page in "tutorial", "recipes":
        text = (ROOT / "docs" / f"{page}.md").read_text()
        for block in re.findall(r"^```sh\n(.*?)^```$", text, re.MULTILINE | re.DOTALL):
            for line in block.splitlines():
                if "scripts/problems" not in line:
                    yield Told(page, line)


@pytest.fixture(scope="module")
def server(disk_directory: Path) -> Iterator[PrivateCluster]:
    where = {"bindir": bindir(PG_VERSION), "directory": disk_directory}
    with problems.running(problems.PROBLEMS["cold-reads"], CopiedCluster, **where) as running:
        yield running


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("told")


def slow_pid(server: PrivateCluster) -> str:
    """Of the client that is slow, once it is there."""
    found = "select pid from pg_stat_activity where application_name = 'heavy'"
    with server.connect() as connection:
        return str(wait_for(lambda: connection.execute(found).fetchone())[0])


def typed(
    command: str, server: PrivateCluster, folder: Path, *, seconds: int = 2
) -> subprocess.CompletedProcess[str]:
    """As it stands there, but for names, and how long it takes."""
    words = command.removeprefix("0 * * * * ").replace(r"\%", "%")
    words = words.replace("--server 5432", f"--server {server.datadir}")
    words = words.replace("DIRECTORY", str(server.datadir)).replace("/var/lib/pgtrace", str(folder))
    words = re.sub(r"\bPID\b", slow_pid(server), words)
    words = re.sub(r"--duration \d+", f"--duration {seconds}", words)
    if " capture " in words and "--duration" not in words:
        words += f" --duration {seconds}"
    if " attach " in words:
        words += f" --duration {ATTACHED_S}"
    words = re.sub(r"^(?:sudo )?pgtrace ", f"{shlex.join(PGTRACE)} ", words)
    if " -o " in words and "--force" not in words:
        words += " --force"
    return subprocess.run(
        ["bash", "-c", words], cwd=folder, capture_output=True, text=True, timeout=60, check=False
    )


def test_each_line_that_is_told_can_be_typed(server: PrivateCluster, folder: Path) -> None:
    """In the order in which they stand there, as one makes the file that the next one shows."""
    every = list(told())
    assert len(every) > 10
    for each in every:
        command = each.command
        if "--since" in command:
            continue  # a time of the day: the next test
        for name in "yesterday.json", "today.json":
            if name in command and not (folder / name).exists():
                typed(f"sudo pgtrace capture --server 5432 -o {name}", server, folder)
        ended = typed(command, server, folder)
        assert ended.returncode == 0, (each, ended)
        if each.page == "tutorial" and command.endswith(("attach PID", "report slow.json")):
            assert SLOW in " ".join(ended.stdout.split()), (each, ended)


def test_the_report_says_what_the_tutorial_does_and_shows_a_part_by_its_time(
    server: PrivateCluster, folder: Path
) -> None:
    text = (ROOT / "docs" / "tutorial.md").read_text()
    (said,) = re.findall(r"^```text\n(.*?)\n```$", text, re.MULTILINE | re.DOTALL)
    command = "sudo pgtrace capture --server DIRECTORY --duration 10 -o part.json"
    typed(command, server, folder, seconds=COURSE_S)
    whole = typed("pgtrace report part.json", server, folder).stdout
    assert said in " ".join(whole.split()), whole
    worst = re.search(r"\bMost at (\d\d:\d\d:\d\d)", whole)
    assert worst, whole
    ended = typed(f"pgtrace report part.json --since {worst[1]}", server, folder)
    assert ended.returncode == 0, ended
