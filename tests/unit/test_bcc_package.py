"""Which package bcc is, by what lies in its folder; a real PyPI's is in test_package.py."""

import sys
from pathlib import Path

import pytest

from pgtrace.engines.bcc import package as bcc_package
from pgtrace.errors import UnsupportedError


@pytest.fixture(autouse=True)
def nothing_installed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(sys, "path", [str(tmp_path)])
    monkeypatch.setattr(bcc_package, "_DISTRIBUTIONS", (str(tmp_path / "system"),))
    monkeypatch.delitem(sys.modules, "bcc", raising=False)


def make(folder: Path, *names: str) -> Path:
    package = folder / "bcc"
    package.mkdir(parents=True)
    for name in ("__init__.py", *names):
        (package / name).touch()
    return package


def test_the_distributions(tmp_path: Path) -> None:
    package = make(tmp_path, "libbcc.py")
    assert bcc_package.find() == package


def test_pypis(tmp_path: Path) -> None:
    package = make(tmp_path, "bcc.py")
    with pytest.raises(UnsupportedError, match=rf"{package} is PyPI's.* pip uninstall bcc, then"):
        bcc_package.find()


def test_none() -> None:
    with pytest.raises(UnsupportedError, match=r"^bcc is not installed: apt-get install python3"):
        bcc_package.find()


def test_one_that_the_virtual_environment_does_not_see(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make(tmp_path / "system", "libbcc.py")
    monkeypatch.setattr(sys, "prefix", "/some/where else")
    says = "-m venv --system-site-packages '/some/where else'"
    with pytest.raises(UnsupportedError, match=says):
        bcc_package.find()
    monkeypatch.setattr(sys, "prefix", sys.base_prefix)
    with pytest.raises(UnsupportedError, match="not installed"):
        bcc_package.find()
