"""Which tests run here, and that none is left out in silence.

`pg("15")`, `pg(">= 17")` and `kernel("6.1")` name the cells of the matrix in which a test has
something to say; in other cells it is deselected, and the summary names it. A test that belongs
here but cannot run skips with its reason, and with CI=true that is a failure.
"""

import operator
import os
import platform
import re
from collections import Counter
from collections.abc import Generator
from typing import Any

import pytest

PG_VERSION = int(os.environ.get("PGTRACE_TEST_PG", "15"))
"""The major version of PostgreSQL under test."""

COMPARE = {
    "==": operator.eq,
    ">=": operator.ge,
    "<=": operator.le,
    ">": operator.gt,
    "<": operator.lt,
}
elsewhere: list[str] = []


def matches(version: str, wanted: str) -> bool:
    """Is "6.1.0-50-amd64" what ">= 6" or "6.1" wants? Compared as far as the wish is written."""
    wish = re.fullmatch(r"\s*([<>=]=|[<>])?\s*(\d+(?:\.\d+)*)\s*", wanted)
    if wish is None:
        raise pytest.UsageError(f"not a version: {wanted!r}")
    right = tuple(map(int, wish[2].split(".")))
    left = tuple(map(int, re.findall(r"\d+", version)))[: len(right)]
    return bool(COMPARE[wish[1] or "=="](left, right))


@pytest.hookimpl(trylast=True)  # of what -m and -k choose
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    here = {"pg": str(PG_VERSION), "kernel": platform.release()}
    other = [
        item
        for item in items
        if not all(
            matches(here[name], str(mark.args[0]))
            for name in here
            for mark in item.iter_markers(name)
        )
    ]
    if other:
        config.hook.pytest_deselected(items=other)
        elsewhere.extend(item.nodeid for item in other)
        items[:] = [item for item in items if item not in other]


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """A worker of pytest-xdist has ended, which alone knows what it left out; all collect alike."""
    elsewhere[:] = getattr(node, "workeroutput", {}).get("elsewhere", elsewhere)


def pytest_sessionfinish(session: pytest.Session) -> None:
    if hasattr(session.config, "workeroutput"):
        session.config.workeroutput["elsewhere"] = elsewhere


def pytest_report_header() -> str:
    settings = f"PostgreSQL {PG_VERSION}, CI={os.environ.get('CI', '')}"
    return f"kernel {platform.release()}, {settings}"


def pytest_terminal_summary(terminalreporter: Any) -> None:
    for name, times in Counter(nodeid.partition("[")[0] for nodeid in elsewhere).items():
        count = f" ({times})" if times > 1 else ""
        terminalreporter.write_line(f"NOT FOR THIS KERNEL OR SERVER {name}{count}")


class _AtOnce:
    """Says what failed when it does: a run that is ended, or a log that is cut, has it too."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config

    @pytest.hookimpl(trylast=True)  # after the letter
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            reporter: Any = self._config.pluginmanager.get_plugin("terminalreporter")
            said = re.findall(r"^E\s+(.*)", report.longreprtext, re.MULTILINE)
            reporter.write_line(f"\n{report.nodeid} failed ({report.when}): {' '.join(said[:1])}")


def pytest_configure(config: pytest.Config) -> None:
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(_AtOnce(config))


def _forbid_skip(report: Any) -> None:
    if report.skipped and os.environ.get("CI") == "true" and not hasattr(report, "wasxfail"):
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else report.longrepr
        report.outcome = "failed"
        report.longrepr = f"cannot run here, and in CI every test must: {reason}"


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, Any, Any]:
    report = yield
    _forbid_skip(report)
    return report


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report() -> Generator[None, Any, Any]:
    report = yield
    _forbid_skip(report)
    return report
