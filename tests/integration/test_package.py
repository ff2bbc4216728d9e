"""The package: what a build needs, what its wheel holds, and that the wheel runs elsewhere."""

import os
import re
import shlex
import subprocess
import sys
import venv
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
NEEDED = ("sh", "env", "ld", "cc", "gcc", "as")


@pytest.fixture(autouse=True)
def _only_what_is_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PYTHONPATH", raising=False)


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("wheel")
    subprocess.run(
        [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "-w", directory, ROOT],
        check=True,
    )
    return next(directory.glob("*.whl"))


@pytest.fixture
def without_clang(tmp_path: Path) -> dict[str, str]:
    """An environment whose PATH has no compiler for bpf."""
    directory = tmp_path / "bin"
    directory.mkdir()
    for name in NEEDED:
        found = Path("/usr/bin") / name
        if found.exists():
            (directory / name).symlink_to(found)
    environment = {**os.environ, "PATH": str(directory)}
    environment.pop("PYTHONPATH", None)
    return environment


def test_wheel_holds_the_object_and_is_of_its_machine(wheel: Path) -> None:
    assert wheel.name.startswith("pgtrace-")
    assert "-py3-none-linux_" in wheel.name
    names = zipfile.ZipFile(wheel).namelist()
    assert "pgtrace/objects/pgtrace.bpf.o" in names
    assert "pgtrace/objects/types.bcc.c" in names
    assert any(name.endswith("GPL-2.0-only.txt") for name in names)
    assets = "collector/pgtrace/reporters/assets"
    ours = [file for file in (ROOT / assets).rglob("*") if file.is_file()]
    assert ours
    for file in ours:
        assert str(file.relative_to(ROOT / "collector")) in names
    assert not [name for name in names if name.startswith("tests")]


def test_wheel_runs_where_there_is_no_compiler(
    wheel: Path, tmp_path: Path, without_clang: dict[str, str]
) -> None:
    venv.create(tmp_path / "host", with_pip=True)
    python = tmp_path / "host" / "bin" / "python"
    subprocess.run([python, "-m", "pip", "install", "-q", wheel], check=True)
    done = subprocess.run(
        [tmp_path / "host" / "bin" / "pgtrace", "doctor"],
        env=without_clang,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert "object file: pgtrace.bpf.o" in done.stdout
    assert done.returncode == 0, done.stdout + done.stderr


def test_bcc_in_a_virtual_environment(wheel: Path, tmp_path: Path) -> None:
    """What is typed as doctor says brings the distribution's, and takes PyPI's away."""

    def doctor() -> str:
        command = [host / "bin" / "pgtrace", "doctor"]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
        (told,) = re.findall("engine bcc: (.*)", done.stdout)
        return told

    host = tmp_path / "host"
    venv.create(host, with_pip=True)
    pip = [host / "bin" / "python", "-m", "pip"]
    subprocess.run([*pip, "install", "-q", wheel], check=True)
    (line,) = re.findall(r"which this virtual environment does not see: (.*)", doctor())
    assert line == f"/usr/bin/python3 -m venv --system-site-packages {host}"
    subprocess.run(shlex.split(line), check=True)
    found = doctor()
    assert not re.search("virtual environment|not installed|PyPI", found), found
    subprocess.run([*pip, "install", "-q", "--no-deps", "--ignore-installed", "bcc"], check=True)
    (uninstall,) = re.findall(r"is PyPI's, .*: (\S+ -m pip uninstall bcc), then", doctor())
    subprocess.run([*shlex.split(uninstall), "-q", "-y"], check=True)
    assert doctor() == found


def test_build_without_clang_says_so_in_one_line(
    tmp_path: Path, without_clang: dict[str, str]
) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "pip", "wheel", "--no-deps", "-w", tmp_path, ROOT],
        env=without_clang,
        capture_output=True,
        text=True,
        check=False,
    )
    said = [line for line in (done.stdout + done.stderr).splitlines() if "clang" in line]
    assert done.returncode != 0
    assert [line.strip() for line in said] == [
        "pgtrace: clang is needed to build: apt-get install clang libbpf-dev"
    ]
