"""The problems of scripts/problems: the first lines of a capture of the whole server name each, and
the screens of docs/recipes.md are what it says of them. To draw these anew:
PGTRACE_UPDATE_DOCS=1 scripts/test tests/integration/test_problems.py
"""

import os
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

RECIPES = Path(__file__).resolve().parents[2] / "docs" / "recipes.md"
FIRST = 20
"""Lines, at 80 columns: what is on a terminal before anybody scrolls."""
NAMED = {
    "autovacuum": r"of it as fdatasync, .*, autovacuum worker",
    "cold-reads": r"select sum\(length\(note\)\) from orders.*public\.orders",
    "evicting-scan": r"While select count\(\*\) from archive .*read .*iB, between .* all others",
    "n-plus-one": r"select note from orders where id = \$1.*public\.orders.* times a second",
    "fsync-stalls": r"fdatasync, wal, client backend.*one statement: insert into orders values",
}
SHOWN = {
    "autovacuum": ["Fsync and its like"],
    "cold-reads": ["Statements that read", r"\d+ % of that"],
    "evicting-scan": ["Waiting for the device each second", "Most at", "While "],
    "fsync-stalls": ["Fsync and its like", "Fsync each second", "Most at"],
    "n-plus-one": ["Statements that read", r"\d+ % of that", "One statement ran"],
}
"""How what recipes show of it begins: sentences, or a strip with the line above it."""
_MASKS = [
    (r"\b\d\d:\d\d:\d\d\b", "TIME"),
    (r"[·▁▂▃▄▅▆▇█]+", "STRIP"),
    # It is chance whether a call goes on at the end, or was over before the server was first asked
    (r" ran for at least ", " ran for "),
    # Whether others waited, and which relation took longest, is chance
    (r", and for read-ahead on its way, locks or memory for [\d.]+ [nµm]?s", ""),
    (r"; [<>\d.]+ % was (?:in|for|the) .*?(?=; |\.$|…$)", ""),
    (r"; [<>\d.]+ % was (?:in|for|the) .*?(?=; |\.$|…$)", ""),
    (r"waited for \w+ for", "waited for DEVICE for"),
    (r" \((?:public|pg_catalog)\.\w+\)", " (RELATION)"),
    (r"[<>]?[\d,.]*\d(?: (?:%|ns|µs|ms|s|B|KiB|MiB|GiB))?", "N"),
    (r"…$", "."),  # whether what is chance was cut
]


def sentences(text: str, begins: list[str]) -> str:
    """Those of a report that begin so, as they stand there."""
    found = []
    for begin in begins:
        strip = re.search(rf"^(?:{begin}).*\n\d\d:.*\n", text, re.MULTILINE)
        match = strip or re.search(rf"^(?:{begin}).*?[.…]\n", text, re.MULTILINE | re.DOTALL)
        assert match, (begin, text)
        found.append(match[0])
    return "".join(found)


def told(text: str) -> str:
    """Without figures, line ends, and what is chance."""
    kept = []
    for line in re.split(r"(?<=[.…])\n(?=[A-Z\d])", text.strip()):
        words = " ".join(line.split())
        for pattern, instead in _MASKS:
            words = re.sub(pattern, instead, words)
        kept.append(words)
    return "\n".join(kept)


def screen(name: str) -> re.Match[str]:
    """What recipes show of it: its marker and command, and its text."""
    found = re.search(
        rf"(<!-- run: problem {name} -->\n\n?```console\n\$ [^\n]+\n)(.*?)(?=^```$)",
        RECIPES.read_text(),
        re.MULTILINE | re.DOTALL,
    )
    assert found, f"docs/recipes.md has no line <!-- run: problem {name} -->"
    return found


@pytest.mark.parametrize(
    "name",
    [
        # 500 calls of a client in a second are many on any host, if that has nothing else to do
        pytest.param(name, marks=[pytest.mark.alone] * (name == "n-plus-one"))
        for name in problems.PROBLEMS
    ],
)
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
    real, shown = sentences(ended.out, SHOWN[name]), screen(name)
    options = " ".join((*problem.options, f"--duration {problem.seconds}"))
    assert shown[1].endswith(f"$ sudo pgtrace capture --server 5432 {options}\n")
    if "PGTRACE_UPDATE_DOCS" in os.environ:
        page = RECIPES.read_text()
        RECIPES.write_text(f"{page[: shown.start(2)]}{real}{page[shown.end(2) :]}")
    else:
        assert told(shown[2]) == told(real), "PGTRACE_UPDATE_DOCS=1 draws it anew"


def test_what_is_told_differs_in_more_than_figures() -> None:
    one = "Fsync and its like took 3.26 s of all\nprocesses, 99 % of it as wal: 17 calls.\n"
    other = "Fsync and its like took 900 µs of all processes, 7 % of it\nas wal: 2,170 calls.\n"
    assert told(one) == told(other)
    assert told(one) != told(other.replace("wal", "heap"))
