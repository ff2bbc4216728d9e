"""What went wrong is noted, without what is not for a file; and captures find a place."""

from pathlib import Path

import pytest

import html_page
from captures import some_capture
from pgtrace.errors import PgtraceError, TargetError
from pgtrace.failures import Failures
from pgtrace.files import documents, rescue
from pgtrace.lab.core.session_totals import Kept
from pgtrace.reporters.terminal import capture_report


def test_an_error_costs_its_block_alone() -> None:
    failures, done = Failures(), []
    for number in range(3):
        with failures.kept("numbers"):
            if number != 1:
                raise KeyError("SECRET")
            done.append(number)
    assert done == [1]
    (reason,) = failures.reasons()
    assert reason.startswith("numbers: KeyError in test_failures.py, line ")
    assert reason.endswith(" (2 times)")
    ((said, traceback),) = failures.news()
    assert said.endswith(": 'SECRET'")
    assert "Traceback" in traceback
    assert failures.news() == []


def test_an_error_on_purpose_is_told_in_its_own_words() -> None:
    failures = Failures()
    with failures.kept("servers"):
        raise TargetError("it has stopped\nand more")
    assert failures.reasons() == ["servers: it has stopped"]


def test_errors_that_differ_each_time_do_not_fill_the_memory() -> None:
    failures = Failures()
    for number in range(1000):
        failures.add(f"part {number}", ValueError())
    reasons = failures.reasons()
    assert len(reasons) == 21
    assert reasons[-1] == "other errors: 980"


def test_nothing_but_errors_is_held_back() -> None:
    with pytest.raises(KeyboardInterrupt), Failures().kept("all"):
        raise KeyboardInterrupt


def test_a_partial_capture_says_so_first() -> None:
    capture = some_capture(partial=["costs over time: IndexError in timeline.py, line 96"])
    capture.probes.not_measured = ["names: none"]
    lines = capture_report.render(capture).splitlines()
    assert " ".join(line.strip() for line in lines[1:3]) == (
        "Partial, because of an error in pgtrace: "
        "costs over time: IndexError in timeline.py, line 96."
    )
    page = html_page.render(capture)
    assert page.count("Partial, because of") == 1
    assert page.index("Partial, because of") < page.index("<section")


def test_no_experiment_takes_a_run_that_is_partial() -> None:
    with pytest.raises(PgtraceError, match="costs over time"):
        Kept().keep(some_capture(partial=["costs over time: IndexError"]))


def test_a_path_that_is_not_utf_8_costs_no_capture(tmp_path: Path) -> None:
    """Such as a data directory's: its bytes are shown."""
    capture = some_capture()
    capture.server.data_directory = "/srv/d\udce4ta"
    documents.write(capture, tmp_path / "o.json")
    assert documents.load(tmp_path / "o.json").server.data_directory == r"/srv/d\xe4ta"


def test_a_capture_is_kept_in_the_first_directory_that_takes_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    there = tmp_path / "there"
    there.mkdir()
    monkeypatch.setenv("TMPDIR", str(there))
    kept = rescue.keep(b"{}", tmp_path / "missing" / "o.json")
    assert kept is not None
    assert kept.parent == there
    assert kept.read_bytes() == b"{}"
    assert kept.stat().st_mode & 0o777 == 0o600
    second = rescue.keep(b"{}", there / "o.json")
    assert second is not None
    assert second != kept
    monkeypatch.setattr(rescue, "_directories", lambda _: iter([tmp_path / "missing"]))
    assert rescue.keep(b"{}", None) is None
