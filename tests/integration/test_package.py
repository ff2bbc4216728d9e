"""The package: what a build needs, what it holds, and that what was built runs elsewhere."""

import os
import re
import shlex
import shutil
import subprocess
import sys
import tarfile
import venv
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from captures import some_backend, some_capture
from fix_cluster import Connection
from pgtrace.files import documents
from pgtrace.lab.core.private_cluster import PrivateCluster

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


@pytest.fixture(scope="module")
def sdist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of a copy: setuptools adds to it what the tree's own egg-info lists."""
    copy = tmp_path_factory.mktemp("sdist") / "pgtrace"
    unwanted = shutil.ignore_patterns(".*", "build", "dist", "*.egg-info", "__pycache__", "objects")
    shutil.copytree(ROOT, copy, ignore=unwanted)
    build = "from setuptools.build_meta import build_sdist; build_sdist('dist')"
    subprocess.run([sys.executable, "-c", build], cwd=copy, check=True, stdout=subprocess.DEVNULL)
    (file,) = (copy / "dist").glob("*.tar.gz")
    return file


@pytest.fixture(scope="module")
def wheel_of_sdist(sdist: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    unpacked = tmp_path_factory.mktemp("unpacked")
    subprocess.run(["tar", "-xf", sdist, "-C", unpacked], check=True)
    (tree,) = unpacked.iterdir()
    command = [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "-w", unpacked, tree]
    subprocess.run(command, check=True)
    return next(unpacked.glob("*.whl"))


@pytest.fixture(scope="module")
def host(wheel_of_sdist: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A virtual environment with it and what it depends on, on a host without compiler."""
    directory = tmp_path_factory.mktemp("host")
    venv.create(directory, with_pip=True)
    python = directory / "bin" / "python"
    subprocess.run([python, "-m", "pip", "install", "-q", wheel_of_sdist], check=True)
    return directory


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
    assets = "collector/pgtrace/reporters/html/assets"
    ours = [file for file in (ROOT / assets).rglob("*") if file.is_file()]
    assert ours
    for file in ours:
        assert str(file.relative_to(ROOT / "collector")) in names
    assert not [name for name in names if name.startswith("tests")]
    shared = {name.partition(".data/data/")[2] for name in names} - {""}
    assert shared == {
        "share/bash-completion/completions/pgtrace",
        "share/zsh/site-functions/_pgtrace",
        "share/fish/vendor_completions.d/pgtrace.fish",
        "share/man/man1/pgtrace.1",
    }


def test_the_source_distribution_makes_the_same_wheel(wheel: Path, wheel_of_sdist: Path) -> None:
    assert wheel_of_sdist.name == wheel.name
    made, expected = (zipfile.ZipFile(each).namelist() for each in (wheel_of_sdist, wheel))
    assert sorted(made) == sorted(expected)


def test_the_source_distribution_has_what_is_tested_and_nothing_that_was_built(sdist: Path) -> None:
    with tarfile.open(sdist) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    for needed in "bpf/pgtrace.bpf.c", "tests/conftest.py", "scripts/test", "docs/man/pgtrace.1":
        assert needed in names
    assert not [name for name in names if name.endswith((".o", ".pyc")) or "/objects/" in name]


def installed(host: Path, *words: object, **settings: Any) -> subprocess.CompletedProcess[str]:
    command = [host / "bin" / "pgtrace", *map(str, words)]
    return subprocess.run(command, capture_output=True, text=True, check=False, **settings)


def test_it_runs_where_there_is_no_compiler(
    host: Path, tmp_path: Path, without_clang: dict[str, str]
) -> None:
    done = installed(host, "doctor", env=without_clang, cwd=tmp_path)
    assert "object file: pgtrace.bpf.o" in done.stdout
    assert done.returncode == 0, done.stdout + done.stderr


def test_it_connects_with_nothing_else_installed(
    host: Path, connection: Connection, cluster: PrivateCluster
) -> None:
    """By compiled code: in pure Python the client is several times slower than the server."""
    options = "--duration", "0.2", "--dsn", cluster.dsn(), "--require-names"
    done = installed(host, "capture", *options, "-p", connection.info.backend_pid)
    assert done.returncode == 0, done.stderr
    which = [host / "bin" / "python", "-c", "import psycopg; print(psycopg.pq.__impl__)"]
    assert subprocess.check_output(which, text=True) == "binary\n"


def test_what_hdrhistogram_asks_for_is_not_needed(host: Path, tmp_path: Path) -> None:
    """Its metadata has pbr and setuptools, which only building it takes."""
    pip = [host / "bin" / "python", "-m", "pip", "-q"]
    subprocess.run([*pip, "uninstall", "-y", "pbr", "setuptools"], check=True)
    documents.write(some_capture(some_backend()), tmp_path / "capture")
    done = installed(host, "report", "--format", "hlog", tmp_path / "capture")
    assert done.returncode == 0, done.stderr
    assert "HIST" in done.stdout


@pytest.mark.parametrize("lacks", ["psycopg", "libpq"])
def test_what_is_said_without_psycopg_works_as_printed(
    host: Path, connection: Connection, cluster: PrivateCluster, lacks: str
) -> None:
    """It names no package that is not PyPI's own, and the interpreter that runs."""
    pip = [host / "bin" / "python", "-m", "pip", "-q"]
    gone = {"psycopg": ["psycopg"], "libpq": ["psycopg-binary"]}[lacks]
    subprocess.run([*pip, "uninstall", "-y", *gone], check=True)
    no_library = {**os.environ, "PSYCOPG_IMPL": "binary"}
    options = "--duration", "0.2", "--dsn", cluster.dsn(), "--require-names"
    for command, code in (
        (("capture", *options, "-p", connection.info.backend_pid), 7),
        (("lab", "pages", "--memory", "--rows", 1000), 5),
    ):
        done = installed(host, *command, env=no_library)
        assert done.returncode == code, done.stderr
        (line,) = re.findall(r"psycopg cannot be imported \(.*\): (.*)", done.stderr)
        assert line.startswith(f"{host}/bin/python"), line
    subprocess.run([*shlex.split(line), "-q"], check=True)
    done = installed(host, "capture", *options, "-p", connection.info.backend_pid)
    assert done.returncode == 0, done.stderr


@pytest.fixture
def isolated(host: Path) -> Iterator[Path]:
    """It sees nothing of the distribution's, and does not again afterwards."""
    yield host
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", host], check=True)


def test_bcc_in_a_virtual_environment(isolated: Path, tmp_path: Path) -> None:
    """What is typed as doctor says brings the distribution's, and takes PyPI's away."""

    def doctor() -> str:
        (told,) = re.findall("engine bcc: (.*)", installed(isolated, "doctor", cwd=tmp_path).stdout)
        return told

    pip = [isolated / "bin" / "python", "-m", "pip"]
    (line,) = re.findall(r"which this virtual environment does not see: (.*)", doctor())
    assert line == f"/usr/bin/python3 -m venv --system-site-packages {isolated}"
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
        "pgtrace: clang is needed to build: apt-get install clang libbpf-dev, or "
        "dnf install clang libbpf-devel"
    ]
