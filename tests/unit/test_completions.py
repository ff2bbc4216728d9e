"""What the Tab key offers is what the command line takes."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from child import Child, wait_for
from scripts import script

ROOT = Path(__file__).parents[2]
BASH = ROOT / "docs/completions/pgtrace"
_TAB = """
source "$1"; shift
COMP_WORDS=("$@") COMP_CWORD=$(($# - 1)) COMP_LINE="$*" COMP_POINT=${#COMP_LINE}
_shtab_pgtrace
printf '%s\\n' "${COMPREPLY[@]}"
"""


def offered(*words: str, cwd: Path | None = None) -> set[str]:
    """What bash offers for the last of these words."""
    command = ["bash", "-c", _TAB, "bash", BASH, "pgtrace", *words]
    ran = subprocess.run(command, capture_output=True, text=True, check=True, cwd=cwd)
    assert ran.stderr == ""
    return {line.strip() for line in ran.stdout.splitlines()} - {""}


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_it_is_drawn_from_the_command_line_of_today(shell: str) -> None:
    made = script("completions")
    path, real = made.FOLDER / made.FILES[shell], made.drawn(shell)
    if "PGTRACE_UPDATE_DOCS" in os.environ:
        path.write_text(real)
    assert path.read_text() == real, "PGTRACE_UPDATE_DOCS=1 draws it anew"


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("att",), ("attach",)),
        (("lab", "re"), ("readahead", "restore")),
        (("capture", "--que"), ("--queries",)),
        (("capture", "--queries", "l"), ("light",)),
        (("report", "--format", "h"), ("hlog", "html")),
        (("lab", "pages", "--dir"), ("--direct-io",)),
    ],
    ids=" ".join,
)
def test_bash_offers_what_comes_next(words: tuple[str, ...], expected: tuple[str, ...]) -> None:
    assert offered(*words) == set(expected)


def test_bash_offers_files_and_directories(tmp_path: Path) -> None:
    (tmp_path / "busy.json").touch()
    (tmp_path / "backups").mkdir()
    assert "busy.json" in offered("report", "b", cwd=tmp_path)
    assert offered("capture", "--server", "b", cwd=tmp_path) == {"backups"}


def test_bash_offers_the_servers_processes(tmp_path: Path) -> None:
    name = shutil.copy2("/bin/sleep", tmp_path / "postgres")
    with Child(name, 600) as server:
        wait_for(lambda: Path(f"/proc/{server.pid}/comm").read_text() == "postgres\n")
        assert str(server.pid) in offered("attach", "")
        assert str(server.pid) in offered("capture", "-p", str(server.pid)[:-1])
