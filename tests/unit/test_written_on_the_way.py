"""What was captured so far: when it is written anew, and what it says of itself."""

import time
from pathlib import Path

import pytest

import html_page
from captures import some_capture
from pgtrace.errors import UsageError
from pgtrace.files import documents, so_far
from pgtrace.files.so_far import SoFar
from pgtrace.model.capture import Capture
from pgtrace.reporters.terminal import capture_report, server_report

COSTS_S = 0.02


@pytest.fixture(autouse=True)
def _soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(so_far, "EVERY_S", 0.05)
    monkeypatch.setattr(so_far, "_MOST_OF_TIME", 1.0)


def fail(words: str) -> None:
    raise AssertionError(words)


def started(output: Path) -> SoFar:
    """Whose first file is due."""
    found = SoFar(output, force=False, say=fail)
    time.sleep(so_far.EVERY_S)
    return found


def test_it_is_not_made_again_where_nothing_was_counted(tmp_path: Path) -> None:
    """A server that does nothing costs nothing."""
    written, made = started(tmp_path / "o"), list[int]()

    def capture() -> Capture:
        made.append(0)
        return some_capture()

    counted_ns = time.monotonic_ns()
    for _ in range(10):
        written.look(capture, counted_ns)
        time.sleep(so_far.EVERY_S / 2)
    assert len(made) == 1
    written.look(capture, time.monotonic_ns())
    assert len(made) == 2
    written.end()
    written.look(capture, time.monotonic_ns())
    assert len(made) == 2


def test_it_takes_a_share_of_a_cpu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What takes long comes less often."""
    monkeypatch.setattr(so_far, "_MOST_OF_TIME", 0.05)
    written, made = started(tmp_path / "o"), list[float]()

    def capture() -> Capture:
        end = time.thread_time() + COSTS_S
        while time.thread_time() < end:
            pass
        made.append(time.monotonic())
        return some_capture()

    while len(made) < 3:
        written.look(capture, time.monotonic_ns())
        time.sleep(0.005)
    written.end()
    assert min(made[1] - made[0], made[2] - made[1]) >= COSTS_S / 0.05


def test_an_error_is_said_once_and_costs_nothing_else(tmp_path: Path) -> None:
    """Where it was to be made, a directory was made meanwhile."""
    said = list[str]()
    written = SoFar(tmp_path / "o", force=False, say=said.append)
    (tmp_path / "o.partial").mkdir()
    for _ in range(4):
        time.sleep(so_far.EVERY_S)
        written.look(some_capture, time.monotonic_ns())
    written.end()
    written.remove()
    assert len(said) == 1
    assert f"{tmp_path}/o.partial is not a file" in said[0]
    assert f"Until {tmp_path}/o is written at the end, it is in memory alone." in said[0]
    assert (tmp_path / "o.partial").is_dir()


def test_it_is_removed_only_if_it_was_written(tmp_path: Path) -> None:
    written = SoFar(tmp_path / "o", force=False, say=fail)
    (tmp_path / "o.partial").write_text("somebody's")
    written.end()
    written.remove()
    assert (tmp_path / "o.partial").read_text() == "somebody's"


def test_one_that_is_there_is_no_reason_to_end_in_the_middle(tmp_path: Path) -> None:
    """What was made there since the start is not overwritten, nor removed."""
    said = list[str]()
    written = SoFar(tmp_path / "o", force=False, say=said.append)
    (tmp_path / "o.partial").write_text("somebody's")
    time.sleep(so_far.EVERY_S)
    written.look(some_capture, time.monotonic_ns())
    written.end()
    written.remove()
    assert "exists" in said[0]
    assert (tmp_path / "o.partial").read_text() == "somebody's"
    with pytest.raises(UsageError, match="did not come to its end"):
        SoFar(tmp_path / "o", force=False, say=fail)
    SoFar(tmp_path / "o", force=True, say=fail)


def test_who_reads_it_is_told_first_that_it_is_not_all(tmp_path: Path) -> None:
    written = started(tmp_path / "o")
    written.look(some_capture, time.monotonic_ns())
    written.end()
    taken = documents.load(written.path)
    assert taken.so_far
    for text in capture_report.render(taken), server_report.render(taken):
        assert text.splitlines()[1].startswith("Not to its end: ")
    page = html_page.render(taken)
    assert 0 < page.index("Not to its end: ") < page.index("<section")
    written.remove()
    assert list(tmp_path.iterdir()) == []
