"""The problems of scripts/problems: the first lines of a capture of the whole server name each."""

import re
import sys
from pathlib import Path

import pytest

from copied_cluster import CopiedCluster
from fix_cluster import bindir
from fix_markers import PG_VERSION
from pgtrace_command import run

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "scripts" / "problems"))

import problems

FIRST = 20
"""Lines, at 80 columns: what is on a terminal before anybody scrolls."""
NAMED = {
    "autovacuum": r"of it as fdatasync, .*, autovacuum worker",
    "cold-reads": r"select sum\(length\(note\)\) from orders.*public\.orders",
    "evicting-scan": r"While select count\(\*\) from archive .*read .*iB, between .* all others",
    "n-plus-one": r"select note from orders where id = \$1.*public\.orders",
    "fsync-stalls": r"fdatasync, wal.*client backend",
}


@pytest.mark.parametrize("name", problems.PROBLEMS)
def test_the_first_lines_name_the_cause(name: str, disk_directory: Path) -> None:
    """With nothing typed but which server it is, and what to measure."""
    problem = problems.PROBLEMS[name]
    where = {"bindir": bindir(PG_VERSION), "directory": disk_directory}
    with problems.running(problem, CopiedCluster, **where) as server:
        target = f"--server={server.datadir}"
        ended = run(
            "capture", target, *problem.options, "--duration", problem.seconds, connects=True
        )
    assert ended.code == 0, ended
    lines = ended.out.splitlines()
    assert all(len(line) <= 80 for line in lines), ended.out
    first = " ".join(" ".join(lines[:FIRST]).split())
    assert re.search(NAMED[name], first), ended.out
