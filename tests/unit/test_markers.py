"""No test is left out in silence: the rules of fix_markers, on a test run of their own."""

from pathlib import Path

import pytest

from fix_markers import matches

pytest_plugins = ("pytester",)

TESTS = """
import pytest

@pytest.mark.pg(">= 99")
def test_of_another_server(): pass

@pytest.mark.kernel("2.6")
def test_of_another_kernel(): pass

@pytest.mark.pg("< 99")
def test_of_here(): pass

@pytest.fixture
def missing(): pytest.skip("no such disk")

def test_without_its_fixture(missing): pass

@pytest.mark.skipif(True, reason="no such tool")
def test_without_its_tool(): pass

@pytest.mark.xfail
def test_known_fault(): assert False
"""
MARKERS = """
[pytest]
markers =
    pg(version): .
    kernel(version): .
"""


@pytest.mark.parametrize(
    ("version", "wanted", "answer"),
    [
        ("15", "15", True),
        ("15", ">= 17", False),
        ("6.1.0-50-amd64", "6.1", True),
        ("6.18.44", "6.1", False),
        ("6.12.1", ">= 6.2", True),
        ("5.10.0", "<6", True),
    ],
)
def test_versions(version: str, wanted: str, answer: bool) -> None:
    assert matches(version, wanted) is answer


@pytest.fixture(params=[True, False])
def ci(
    request: pytest.FixtureRequest, pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> bool:
    """A test run with the plugin, in CI and at home."""
    monkeypatch.setenv("CI", "true" if request.param else "")
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[1] / "support"))
    pytester.makeini(MARKERS)
    return bool(request.param)


def test_skips(pytester: pytest.Pytester, ci: bool) -> None:
    pytester.makepyfile(TESTS)
    result = pytester.runpytest_subprocess("-p", "fix_markers", "-ra")
    left_out = {"errors": 2} if ci else {"skipped": 2}
    result.assert_outcomes(passed=1, xfailed=1, deselected=2, **left_out)
    result.stdout.fnmatch_lines(["NOT FOR THIS KERNEL OR SERVER *test_of_another_kernel"])
    result.stdout.fnmatch_lines(["*no such tool"])


def test_skipped_module(pytester: pytest.Pytester, ci: bool) -> None:
    pytester.makepyfile("import pytest\npytest.importorskip('no_such_module')\n")
    result = pytester.runpytest_subprocess("-p", "fix_markers")
    result.assert_outcomes(errors=ci, skipped=not ci)
