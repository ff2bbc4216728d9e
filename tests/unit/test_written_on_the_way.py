"""What was captured so far: when it is written anew, and what it says of itself."""

import errno
import os
import re
import signal
import time
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest

import html_page
from captures import some_capture
from pgtrace.errors import UsageError
from pgtrace.files import documents, output_file, so_far
from pgtrace.files.so_far import SoFar
from pgtrace.linux import forked
from pgtrace.model.capture import Capture
from pgtrace.reporters.terminal import capture_report, server_report
from pgtrace_command import wait_for

COSTS_S = 0.02


@pytest.fixture(autouse=True)
def _soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(so_far, "EVERY_S", 0.05)
    monkeypatch.setattr(so_far, "_MOST_OF_TIME", 1.0)


def fail(words: str) -> None:
    raise AssertionError(words)


def seen(written: SoFar) -> None:
    """It is written, and known to be."""
    wait_for(lambda: written.look(some_capture, time.monotonic_ns()) or written.path.exists())


def started(output: Path) -> SoFar:
    """Whose first file is due."""
    found = SoFar(output, force=False, say=fail)
    time.sleep(so_far.EVERY_S)
    return found


def test_it_is_not_made_again_where_nothing_was_counted(tmp_path: Path) -> None:
    """A server that does nothing costs nothing."""
    written, made = started(tmp_path / "o"), tmp_path / "made"

    def capture() -> Capture:
        with made.open("a") as file:
            file.write(".")
        return some_capture()

    counted_ns = time.monotonic_ns()
    for _ in range(10):
        written.look(capture, counted_ns)
        time.sleep(so_far.EVERY_S / 2)
    assert made.read_text() == "."
    # On a busy host the first took long, and the second waits for that
    wait_for(lambda: written.look(capture, time.monotonic_ns()) or len(made.read_text()) > 1)
    assert made.read_text() == ".."
    written.remove()
    written.look(capture, time.monotonic_ns())
    assert made.read_text() == ".."
    assert list(tmp_path.iterdir()) == [made]


def test_it_takes_a_share_of_a_cpu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What takes long comes less often."""
    monkeypatch.setattr(so_far, "_MOST_OF_TIME", 0.05)
    written, began = started(tmp_path / "o"), list[float]()

    def capture() -> Capture:
        end = time.thread_time() + COSTS_S
        while time.thread_time() < end:
            pass
        return some_capture()

    while len(began) < 3:
        before = written._began
        written.look(capture, time.monotonic_ns())
        if written._began != before:
            began.append(written._began)
        time.sleep(0.005)
    first, second, third = began
    assert min(second - first, third - second) >= COSTS_S / 0.05
    written.remove()


def test_an_error_is_said_once_and_costs_nothing_else(tmp_path: Path) -> None:
    """Where it was to be made, a directory was made meanwhile, which goes again, and comes."""
    said, path = list[str](), tmp_path / "o.partial"
    written = SoFar(tmp_path / "o", force=False, say=said.append)
    path.mkdir()
    wait_for(lambda: written.look(some_capture, time.monotonic_ns()) or said)
    for _ in range(3):
        time.sleep(so_far.EVERY_S)
        written.look(some_capture, time.monotonic_ns())
    path.rmdir()
    # It is tried again though nothing is counted any more
    wait_for(lambda: written.look(some_capture, 0) or path.exists())
    assert len(said) == 1
    assert "there is something that is not a file. Until" in said[0]
    assert f"Until {tmp_path}/o is written at the end, it is in memory alone." in said[0]
    wait_for(lambda: written.look(some_capture, 0) or not written.is_writing)
    path.unlink()
    path.mkdir()
    wait_for(lambda: written.look(some_capture, time.monotonic_ns()) or len(said) > 1)
    assert re.search(r"what came after \d\d:\d\d:\d\d is in memory alone", said[1])
    written.remove()
    assert (len(said), path.is_dir()) == (2, True)


def test_a_child_that_is_killed_costs_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As the kernel does it where memory is short."""
    said, began = list[str](), list[int]()

    def hang(_data: bytes, _path: Path, **_: object) -> str:
        time.sleep(60)
        return ""

    def remembered(work: Callable[[], None], kept: Iterable[int] | None) -> int:
        began.append(left_running(work, kept))
        return began[-1]

    left_running = forked.left_running
    monkeypatch.setattr(forked, "left_running", remembered)
    monkeypatch.setattr(output_file, "write", hang)
    written = SoFar(tmp_path / "o", force=False, say=said.append)
    time.sleep(so_far.EVERY_S)
    written.look(some_capture, time.monotonic_ns())
    time.sleep(so_far.EVERY_S)
    written.look(some_capture, time.monotonic_ns())
    assert len(began) == 1  # it is not waited for, nor is there another
    os.kill(began[0], signal.SIGKILL)
    written.remove()
    assert len(said) == 1
    assert "the child that was to write it ended with -9. Until" in said[0]
    assert list(tmp_path.iterdir()) == []


def begun(directory: Path) -> list[Path]:
    """Files that are not whole."""
    return list(directory.glob(".pgtrace-*"))


def test_what_a_slow_disk_has_not_taken_at_the_end_is_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "fsync", lambda _: time.sleep(30))
    monkeypatch.setattr(so_far, "_END_S", 0.2)
    written = started(tmp_path / "o.json")
    wait_for(lambda: written.look(some_capture, time.monotonic_ns()) or begun(tmp_path))
    (tmp_path / "o.json").write_text("whole")
    written.remove()
    assert list(tmp_path.iterdir()) == [tmp_path / "o.json"]


def test_a_disk_that_does_not_answer_is_not_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SIGKILL does not end who waits for it. What it leaves there is said."""
    said, kill = list[str](), os.kill
    killed: list[int] = []
    monkeypatch.setattr(os, "fsync", lambda _: time.sleep(30))
    monkeypatch.setattr(so_far, "_END_S", 0.2)
    monkeypatch.setattr(forked, "_END_S", 0.2)
    monkeypatch.setattr(os, "kill", lambda pid, _: killed.append(pid))
    written = SoFar(tmp_path / "o.json", force=False, say=said.append)
    wait_for(lambda: written.look(some_capture, time.monotonic_ns()) or begun(tmp_path))
    began = time.monotonic()
    written.remove()
    assert time.monotonic() - began < 15
    (left,) = begun(tmp_path)
    assert len(said) == 1
    assert f"o.json.partial, and {left.name} beside it, could not be removed" in said[0]
    (child,) = killed
    kill(child, signal.SIGKILL)
    os.waitpid(child, 0)


def test_the_next_child_removes_what_was_left_by_one_that_was_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As the kernel does it where memory is short, minute after minute."""
    said, began = list[str](), list[int]()

    def remembered(work: Callable[[], None], kept: Iterable[int] | None) -> int:
        began.append(left_running(work, kept))
        return began[-1]

    def hang(file: int) -> None:
        if len(began) < 2:  # as those who were forked before were
            time.sleep(30)
        fsync(file)

    left_running, fsync = forked.left_running, os.fsync
    monkeypatch.setattr(forked, "left_running", remembered)
    monkeypatch.setattr(os, "fsync", hang)
    written = SoFar(tmp_path / "o", force=False, say=said.append)
    seen_before = set[Path]()
    for number in range(2):
        wait_for(lambda n=number: written.look(some_capture, time.monotonic_ns()) or began[n:])
        wait_for(lambda: set(begun(tmp_path)) - seen_before)
        seen_before.update(begun(tmp_path))
        os.kill(began[number], signal.SIGKILL)
    seen(written)
    wait_for(lambda: written.look(some_capture, 0) or not written.is_writing)
    assert list(tmp_path.iterdir()) == [tmp_path / "o.partial"]
    written.remove()
    assert list(tmp_path.iterdir()) == []


def test_where_there_can_be_no_child_it_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A host that promises no more memory than it has may refuse it."""

    def refuse(_work: Callable[[], None], _kept: Iterable[int] | None) -> int:
        raise OSError(errno.ENOMEM, os.strerror(errno.ENOMEM))

    said = list[str]()
    monkeypatch.setattr(forked, "left_running", refuse)
    written = SoFar(tmp_path / "o", force=False, say=said.append)
    for _ in range(3):
        time.sleep(so_far.EVERY_S)
        written.look(some_capture, time.monotonic_ns())
    written.remove()
    assert len(said) == 1
    assert "no child can be made that writes it: Cannot allocate memory. Until" in said[0]


def test_it_is_removed_only_if_it_was_written(tmp_path: Path) -> None:
    written = SoFar(tmp_path / "o", force=False, say=fail)
    (tmp_path / "o.partial").write_text("somebody's")
    written.remove()
    assert (tmp_path / "o.partial").read_text() == "somebody's"


def test_one_that_is_there_is_no_reason_to_end_in_the_middle(tmp_path: Path) -> None:
    """What was made there since the start is not overwritten, nor removed."""
    said = list[str]()
    written = SoFar(tmp_path / "o", force=False, say=said.append)
    (tmp_path / "o.partial").write_text("somebody's")
    time.sleep(so_far.EVERY_S)
    written.look(some_capture, time.monotonic_ns())
    written.remove()
    assert "there is another file by now" in said[0]
    assert (tmp_path / "o.partial").read_text() == "somebody's"
    with pytest.raises(UsageError, match="did not come to its end"):
        SoFar(tmp_path / "o", force=False, say=fail)
    SoFar(tmp_path / "o", force=True, say=fail)


def test_who_reads_it_is_told_first_that_it_is_not_all(tmp_path: Path) -> None:
    written = started(tmp_path / "o")
    seen(written)
    taken = documents.load(written.path)
    assert taken.so_far
    for text in capture_report.render(taken), server_report.render(taken):
        assert text.splitlines()[1].startswith("Not to its end: ")
    page = html_page.render(taken)
    assert 0 < page.index("Not to its end: ") < page.index("<section")
    written.remove()
    assert list(tmp_path.iterdir()) == []
