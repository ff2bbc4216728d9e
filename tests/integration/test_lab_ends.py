"""However an experiment ends, nothing of it is left, and what was whole is kept."""

import json
import os
import pty
import pwd
import shutil
import signal
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from fix_storage import private_mounts
from hidden import hide
from pgtrace.lab import result_file
from pgtrace.model.lab_result import Result
from pgtrace.postgres import discovery
from pgtrace_command import Ended, Pgtrace, patched, run, terminating, wait_for, waiting

pytestmark = pytest.mark.pg("15")

STATE = Path("/run/pgtrace")
SERVERS = Path("/var/tmp")
ROWS = 20_000
RUNS = 4


@pytest.fixture(scope="module", autouse=True)
def own_state() -> Iterator[None]:
    """What other experiments of this host made is not seen here, nor tried to be undone."""
    STATE.mkdir(mode=0o700, exist_ok=True)
    with private_mounts():
        for directory in STATE, SERVERS:
            subprocess.run(["sh", "-ec", hide(directory)], check=True)
        yield


@pytest.fixture
def place(request: pytest.FixtureRequest) -> Iterator[Path]:
    """A directory in memory of the server's user, or of another by parameter; empty at the end."""
    own = Path("/dev/shm") / f"lab-{os.getpid()}"
    own.mkdir(mode=0o755)
    user = pwd.getpwnam(getattr(request, "param", "postgres"))
    os.chown(own, user.pw_uid, user.pw_gid)
    yield own
    shutil.rmtree(own)


def pages(place: Path, file: Path, *options: object, rows: int = ROWS, **settings: Any) -> Pgtrace:
    sizes = "--rows", rows, "--runs", RUNS
    named = "--storage", f"shm={place}"
    return Pgtrace("lab", "pages", "-v", *named, *sizes, "-o", file, *options, **settings)


def clusters() -> set[Path]:
    return set(SERVERS.glob("pgtrace-*"))


def ours(started: Pgtrace) -> set[Path]:
    """The base directories of its servers: its state names them."""
    changes = json.loads((STATE / f"lab-{started.pid}.json").read_text())["changes"]
    return {Path(change["base"]) for change in changes if change["type"] == "cluster"}


def works_in(base: Path) -> list[str]:
    """Processes whose working directory is there."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if str((process / "cwd").readlink()).startswith(str(base)):
                found.append(process.name)
        except OSError:
            continue
    return found


def ended(started: Pgtrace, place: Path, bases: set[Path]) -> Ended:
    """Wait for its end, after which nothing is there."""
    end = started.ended()
    assert list(place.iterdir()) == []
    assert list(STATE.iterdir()) == []
    for base in bases:
        assert not base.exists()
        assert works_in(base) == []
    return end


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_before_a_whole_run_leaves_nothing(
    place: Path, tmp_path: Path, number: signal.Signals
) -> None:
    moment = {signal.SIGINT: "Loading", signal.SIGTERM: "1 of", signal.SIGHUP: "2 of"}[number]
    with pages(place, tmp_path / "F", command=waiting(2)) as started:
        started.wait_for(moment)
        bases = ours(started)
        assert bases
        started.send(number)
        end = ended(started, place, bases)
    assert end.code == 130, end.err
    assert "interrupted before one run was whole" in end.err
    assert not (tmp_path / "F").exists()


def test_a_signal_while_the_server_is_made_leaves_nothing(place: Path, tmp_path: Path) -> None:
    before = clusters()
    with pages(place, tmp_path / "F") as started:
        started.wait_for("Preparing")
        wait_for(lambda: clusters() - before)
        bases = clusters() - before
        started.send(signal.SIGINT)
        end = ended(started, place, bases)
    assert end.code == 130, end.err


@pytest.mark.parametrize("place", ["postgres", "root"], indirect=True)
def test_runs_that_were_whole_are_kept(place: Path, tmp_path: Path) -> None:
    """In a directory of root's alone, too: there the server's user gets one of its own."""
    file = tmp_path / "F"
    before = place.stat().st_uid
    with pages(place, file, command=waiting(4)) as started:
        started.wait_for("4 of 8")
        bases = ours(started)
        started.send(signal.SIGINT)
        end = ended(started, place, bases)
    assert end.code == 0, end.err
    assert "\nPartial: 1 of 4 runs; it did not get to the rest.\n" in end.err
    assert place.stat().st_uid == before
    result = result_file.load_any(file)
    assert isinstance(result, Result)
    assert result.partial
    assert {cell.run for cell in result.cells} == {1}
    assert len(result.cells) == 2
    shown = run("report", file)
    assert shown.code == 0
    assert "Partial: 1 of 4 runs; it did not get to the rest." in shown.out


def test_a_server_that_dies_is_an_error_and_leaves_nothing(place: Path, tmp_path: Path) -> None:
    with pages(place, tmp_path / "F", rows=1_400_000) as started:
        started.wait_for("Loading")
        (base,) = ours(started)
        master = int((base / "data/postmaster.pid").read_text().split()[0])
        sessions = wait_for(
            lambda: [
                backend.pid
                for backend in discovery.server(master).backends()
                if backend.backend_type == "client backend"
            ]
        )
        os.kill(sessions[0], signal.SIGKILL)
        end = ended(started, place, {base})
    assert end.code == 1
    assert "the server gave up: " in end.err
    assert "unexpected" not in end.err.split(":")[1]


@pytest.mark.parametrize("output", [["-o", "F"], []], ids=["a file", "a report"])
def test_a_terminal_that_goes_away_costs_no_whole_run(
    place: Path, tmp_path: Path, output: list[str]
) -> None:
    """As a connection does that breaks: nothing can be shown on it, nor said."""
    terminal, end = pty.openpty()
    arguments = "--storage", f"shm={place}", "--rows", ROWS, "--runs", RUNS, *output
    settings = {"cwd": tmp_path, "env": os.environ | {"TMPDIR": str(tmp_path)}}
    streams = dict.fromkeys(("stdin", "stdout", "stderr"), end)
    command = "setsid", "--ctty", *waiting(4)
    with Pgtrace("lab", "pages", *arguments, command=command, **settings, **streams) as started:
        os.close(end)
        shown = b""
        while b"4 of 8" not in shown:
            shown += os.read(terminal, 1 << 16)
        bases = ours(started)
        os.close(terminal)
        ended(started, place, bases)
    (file,) = tmp_path.iterdir()
    result = result_file.load_any(file)
    assert isinstance(result, Result)
    assert {cell.run for cell in result.cells} == {1}


def test_an_error_in_the_last_run_keeps_those_before_it(place: Path, tmp_path: Path) -> None:
    file = tmp_path / "F"
    with pages(place, file, command=patched(terminating(2 * RUNS))) as started:
        started.wait_for("Loading")
        end = ended(started, place, ours(started))
    assert end.code == 1
    *_, wrote, partial, error = end.err.splitlines()
    assert wrote.startswith(f"Wrote {file}")
    assert partial == "Partial: 3 of 4 runs; it did not get to the rest."
    assert error.startswith("pgtrace: the server gave up: ")
    result = result_file.load_any(file)
    assert isinstance(result, Result)
    assert result.partial
    assert sorted({cell.run for cell in result.cells}) == [1, 2, 3]
    assert len(result.cells) == 2 * 3
    assert result.findings


def test_an_error_in_the_first_run_leaves_no_file(place: Path, tmp_path: Path) -> None:
    with pages(place, tmp_path / "F", command=patched(terminating(2))) as started:
        started.wait_for("Loading")
        end = ended(started, place, ours(started))
    assert end.code == 1
    assert "the server gave up: " in end.err
    assert not (tmp_path / "F").exists()


def test_an_error_and_a_file_that_cannot_be_written_are_both_said(
    place: Path, tmp_path: Path
) -> None:
    """A disk that is full is the reason of both."""
    settings = {"env": os.environ | {"TMPDIR": str(tmp_path)}}
    command = patched(terminating(2 * RUNS))
    with pages(place, Path("/dev/full"), command=command, **settings) as started:
        started.wait_for("Loading")
        end = ended(started, place, ours(started))
    (kept,) = tmp_path.glob("*.json")
    assert end.code == 1
    *_, error, unwritten = end.err.splitlines()
    assert error.startswith("pgtrace: the server gave up: ")
    assert unwritten.endswith(f"The result was kept: {kept}")
    assert isinstance(result_file.load_any(kept), Result)


def test_server_and_tracer_keep_to_their_cpus(place: Path, tmp_path: Path) -> None:
    last = max(os.sched_getaffinity(0))
    cpus = "--cpu-server", last, "--cpu-tracer", 0
    with pages(place, tmp_path / "F", *cpus, rows=1_400_000) as started:
        started.wait_for("Loading")
        (base,) = ours(started)
        master = int((base / "data/postmaster.pid").read_text().split()[0])
        family = [backend.pid for backend in discovery.server(master).backends()]
        assert len(family) > 1
        for pid in family:
            with suppress(ProcessLookupError):
                assert os.sched_getaffinity(pid) == {last}
        assert os.sched_getaffinity(started.pid) == {0}
        started.send(signal.SIGINT)
        ended(started, place, {base})


@pytest.mark.parametrize(
    ("place", "moment"),
    [("postgres", "Loading"), ("root", "Loading"), ("postgres", "1 of"), ("postgres", "4 of")],
    indirect=["place"],
)
def test_what_a_killed_run_left_is_restored(place: Path, tmp_path: Path, moment: str) -> None:
    with pages(place, tmp_path / "F") as started:
        started.wait_for(moment)
        (base,) = ours(started)
        early = run("lab", "restore")
        assert early.code == 2
        assert f"process {started.pid} is still at work" in early.err
        assert base.exists()
        started.send(signal.SIGKILL)
        assert started.ended().code == -signal.SIGKILL
    assert list(place.iterdir())
    restored = run("lab", "restore")
    assert restored.code == 0, restored.err
    assert f"Removed {place}/pgtrace-lab-{started.pid}" in restored.out
    assert list(place.iterdir()) == []
    assert list(STATE.iterdir()) == []
    assert not base.exists()
    assert works_in(base) == []
    again = run("lab", "restore")
    nothing = "Nothing was left to restore since this host was started.\n"
    assert (again.code, again.out) == (0, nothing)


def killed(started: Pgtrace) -> None:
    started.send(signal.SIGKILL)
    assert started.ended().code == -signal.SIGKILL


AWAY = {
    "pid": 1 << 30,
    "start_time_ticks": 1,
    "changes": [
        {"type": "statement", "conninfo": "host=/away", "present": "select 1", "drop": "drop it"}
    ],
}
"""What a run left that was killed, on a server that is gone."""


def test_what_cannot_be_restored_keeps_nothing_else_from_it(place: Path, tmp_path: Path) -> None:
    with pages(place, tmp_path / "F") as started:
        started.wait_for("1 of")
        (base,) = ours(started)
        killed(started)
    away, torn = STATE / "lab-0.json", STATE / "lab-00.json"
    away.write_text(json.dumps(AWAY))
    torn.write_text("{")
    restored = run("lab", "restore")
    assert restored.code == 1
    assert f"Removed {place}/pgtrace-lab-{started.pid}" in restored.out
    assert list(place.iterdir()) == []
    assert not base.exists()
    assert sorted(STATE.iterdir()) == [away, torn]
    first, second = restored.err.splitlines()
    assert "drop it (host=/away) failed: " in first
    assert f"{torn} cannot be read: " in second
    for file in away, torn:
        file.unlink()


ENDS_MEANWHILE = """
import os, signal, time
from pgtrace.lab.core.undo_log import Directory
def undo(self, true=Directory.undo):
    os.kill({pid}, signal.SIGINT)
    while os.path.exists("{state}"):
        time.sleep(0.01)
    return true(self)
Directory.undo = undo
"""


def test_a_run_that_ends_while_others_are_restored_is_no_error(place: Path, tmp_path: Path) -> None:
    with pages(place, tmp_path / "F") as left:
        left.wait_for("Loading")
        killed(left)
    (STATE / f"lab-{left.pid}.json").rename(STATE / "lab-0.json")
    other = place / "other"
    other.mkdir(mode=0o777)
    other.chmod(0o777)
    with pages(other, tmp_path / "G") as started:
        started.wait_for("1 of")
        state = STATE / f"lab-{started.pid}.json"
        command = patched(ENDS_MEANWHILE.format(pid=started.pid, state=state))
        restored = run("lab", "restore", command=command)
        assert started.ended().code in (0, 130)
    assert restored.code == 0, restored.err
    assert f"Removed {place}/pgtrace-lab-{left.pid}" in restored.out
    assert list(STATE.iterdir()) == []


def test_a_setting_comes_back(tmp_path: Path) -> None:
    """As read-ahead does, which the next experiments set."""
    from pgtrace.lab.core.undo_log import Changes, Setting

    file = tmp_path / "read_ahead_kb"
    file.write_text("128\n")
    with Changes() as changes:
        changes.will(Setting(str(file), "128\n"))
        file.write_text("4096\n")
    assert file.read_text() == "128\n"
    assert list(STATE.iterdir()) == []
