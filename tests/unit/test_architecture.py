"""The house stands as docs/architecture.md draws it: who may know whom, in both halves."""

import os
import re
import subprocess
from pathlib import Path

import pytest
from importlinter.cli import lint_imports

from scripts import script

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs/architecture.md"
PARTS = sorted((ROOT / "bpf").glob("*.bpf.[ch]"))


def test_nobody_imports_what_stands_above(capsys: pytest.CaptureFixture[str]) -> None:
    failed = lint_imports(config_filename=str(ROOT / "pyproject.toml"), no_cache=True)
    assert not failed, capsys.readouterr().out


def test_the_picture_is_what_imports_say() -> None:
    drawn = script("architecture")
    form = r"(<!-- architecture -->\n```text\n).*?(?=^```$)"
    picture = "\n".join(drawn.lines()) + "\n"
    real, times = re.subn(
        form, lambda m: m[1] + picture, PAGE.read_text(), flags=re.MULTILINE | re.DOTALL
    )
    assert times == 1
    if "PGTRACE_UPDATE_DOCS" in os.environ:
        PAGE.write_text(real)
    assert PAGE.read_text() == real, "PGTRACE_UPDATE_DOCS=1 draws it anew"


def included(path: Path) -> list[str]:
    """Those of our own that it names."""
    return re.findall(r'^#include "(\S+)"$', path.read_text(), flags=re.MULTILINE)


def test_no_part_of_the_kernel_half_includes_itself_by_way_of_others() -> None:
    of = {path.name: included(path) for path in PARTS}

    def follow(name: str, way: tuple[str, ...]) -> None:
        assert name not in way, " includes ".join((*way, name))
        for other in of.get(name, []):
            follow(other, (*way, name))

    for name in of:
        follow(name, ())


@pytest.mark.parametrize("part", [p for p in PARTS if p.suffix == ".h"], ids=lambda p: p.name)
def test_a_header_includes_what_it_uses(part: Path) -> None:
    """It compiles alone, and has a guard of its own name."""
    guard = part.name.upper().replace(".", "_")
    assert f"#ifndef {guard}\n#define {guard}\n" in part.read_text()
    command = ["clang", "-target", "bpf", "-mcpu=v3", "-D__TARGET_ARCH_x86", "-fsyntax-only",
               "-I/usr/include/x86_64-linux-gnu", "-Wall", "-Werror", "-Wno-unused-function",
               "-x", "c", "-include", str(part), "/dev/null"]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_no_two_files_of_tests_have_one_name() -> None:
    """What runs alone is collected from all folders at once, where pytest knows a file by that."""
    names = [path.name for path in (ROOT / "tests").rglob("test_*.py")]
    assert sorted(set(names)) == sorted(names)
