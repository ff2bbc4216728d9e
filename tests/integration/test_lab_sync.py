"""`pgtrace lab sync`: settings make the difference that they promise, and checkpoints take as long
as the server says; what cannot be compared is refused, and nothing is left."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from fix_cluster import bindir
from fix_markers import PG_VERSION
from fix_storage import LAB_STATE
from lab_runs import lab, loaded, usable
from pgtrace.lab.sync.findings import is_difference
from pgtrace.model import encoding
from pgtrace.model.capture import Io
from pgtrace.model.lab_result import Cell, Result
from pgtrace_command import Ended, Pgtrace, patched, run

pytestmark = pytest.mark.pg("15")
alone = pytest.mark.alone  # of a whole experiment, the times of checkpoints are compared

RUNS = 2
TRANSACTIONS = 200
BULK_ROWS = 50_000
SIZES = (
    "--rows", 5000, "--transactions", TRANSACTIONS, "--clients", 4, "--bulk-rows", BULK_ROWS,
)  # fmt: skip
LOADS = ["wide", "narrow", "bulk"]


@pytest.fixture(scope="module")
def programs() -> Path:
    return bindir(PG_VERSION)


@pytest.fixture(scope="module")
def places(disk_directory: Path) -> Iterator[dict[str, Path]]:
    found = {"wal": usable(disk_directory), "data": usable(disk_directory)}
    yield found
    for place in found.values():
        assert list(place.iterdir()) == []
        place.rmdir()


def measure(
    programs: Path, places: dict[str, Path], file: Path, settings: str, runs: int = RUNS
) -> Result:
    lab(
        "sync", "--server", f"A={programs}", "--server", f"B={programs},{settings}", *SIZES,
        "--wal-storage", f"log={places['wal']}", "--data-storage", f"disk={places['data']}",
        "--runs", runs, "-o", file,
    )  # fmt: skip
    return loaded(file)


@pytest.fixture(scope="module")
def careless(
    programs: Path, places: dict[str, Path], tmp_path_factory: pytest.TempPathFactory
) -> Result:
    """A server as it should be, and one with fsync off."""
    return measure(programs, places, tmp_path_factory.mktemp("sync") / "F", "fsync=off")


@pytest.fixture(scope="module")
def by_writes(
    programs: Path, places: dict[str, Path], tmp_path_factory: pytest.TempPathFactory
) -> Result:
    """One that makes WAL last by fdatasync, and one by its writes."""
    file = tmp_path_factory.mktemp("sync") / "F"
    return measure(programs, places, file, "wal_sync_method=open_datasync")


def cells(result: Result, server: str, phase: str, *loads: str) -> list[Cell]:
    return [
        c
        for c in result.cells
        if (c.server, c.phase) == (server, phase) and c.load in (loads or LOADS)
    ]


def done(cell: Cell, *backend_types: str) -> list[Io]:
    return [
        each
        for backend_type, reads in cell.by_backend_type.items()
        for each in reads
        if not backend_types or backend_type in backend_types
    ]


def count(reads: list[Io], kind: str | None = None, operation: str = "fsync") -> int:
    return sum(
        r.count for r in reads if r.operation == operation and (kind is None or r.kind == kind)
    )


def differs(result: Result, load: str, phase: str, by: str) -> str | None:
    """What is said of it; None if that is no difference."""
    (found,) = [
        f
        for f in result.findings
        if (f.details.load, f.details.phase, f.details.by.strip()) == (load, phase, by)
    ]
    return found.verdict if is_difference(found) else None


@alone
def test_both_do_the_same_work_in_every_run(careless: Result) -> None:
    for number in range(1, RUNS + 1):
        order = [c.server for c in careless.cells if c.run == number][:: 2 * len(LOADS)]
        assert sorted(map(str, order)) == ["A", "B"]
        assert order == careless.options.order[number - 1]
        for server in "A", "B":
            own = [c for c in careless.cells if (c.server, c.run) == (server, number)]
            assert [(c.load, c.phase) for c in own] == [
                (load, phase) for load in LOADS for phase in ("load", "checkpoint")
            ]
    for run_ in range(1, RUNS + 1):
        sizes = {
            server: sum(
                r.bytes
                for c in cells(careless, server, "load", "bulk")
                if c.run == run_
                for r in done(c)
                if (r.operation, r.kind) == ("write", "wal")
            )
            for server in ("A", "B")
        }
        assert sizes["A"] == pytest.approx(sizes["B"], rel=0.05)
        assert sizes["A"] > BULK_ROWS * 40
    assert careless.options.transactions == TRANSACTIONS
    assert careless.options.differences == {"fsync": {"A": "on", "B": "off"}}
    assert not careless.partial
    lost = careless.lost
    assert (lost.write, lost.fsync, lost.backends) == (0, 0, 0)


@alone
def test_without_fsync_nothing_is_synced(careless: Result) -> None:
    """And with it every writer's WAL, and every file of a checkpoint."""
    for cell in cells(careless, "B", "load") + cells(careless, "B", "checkpoint"):
        assert count(done(cell)) == 0
        assert count(done(cell), operation="write") > 0
    for cell in cells(careless, "A", "load", "wide", "narrow"):
        # Group commit: one sync may be for several
        assert count(done(cell, "client backend"), "wal") >= TRANSACTIONS / 4
        assert count(done(cell), "wal") <= 2 * TRANSACTIONS
    for cell in cells(careless, "A", "checkpoint"):
        assert cell.checkpoint and cell.checkpoint.files
        data = [r for r in done(cell, "checkpointer") if r.kind != "wal"]
        # And the file pg_control, and directories and files of what is no relation
        assert sum(r.count for r in data if r.call == "fsync") >= cell.checkpoint.files
    for load in "wide", "narrow":
        assert differs(careless, load, "load", "WAL syncs") == (
            "a difference: A has some in every run, B none"
        )
        assert differs(careless, load, "checkpoint", "data syncs") == (
            "a difference: A has some in every run, B none"
        )


def test_open_datasync_makes_wal_last_by_its_writes(by_writes: Result) -> None:
    for cell in cells(by_writes, "B", "load", "wide", "narrow"):
        clients = done(cell, "client backend")
        assert [r for r in clients if r.call == "fdatasync"] == []
        assert count(clients, "wal", "write") >= TRANSACTIONS / 4
        waited = [r for r in clients if (r.operation, r.kind) == ("write", "wal")]
        assert {r.source for r in waited} - {"unknown"} <= {"device"}
    for cell in cells(by_writes, "A", "load", "wide", "narrow"):
        clients = done(cell, "client backend")
        assert sum(r.count for r in clients if r.call == "fdatasync") >= TRANSACTIONS / 4
    for cell in cells(by_writes, "B", "checkpoint", "wide"):
        assert any(r.call == "fsync" and r.kind == "relation" for r in done(cell, "checkpointer"))
    for load in "wide", "narrow":
        assert differs(by_writes, load, "load", "by durable writes") == (
            "a difference: B has some in every run, A none"
        )
        assert differs(by_writes, load, "load", "by fsync, fdatasync")
    servers = {each.name: each for each in by_writes.options.servers}
    assert servers["B"].settings == {"wal_sync_method": "open_datasync"}
    assert servers["A"].wal_sync_method == "fdatasync"


@alone
def test_checkpoints_take_as_long_as_the_server_says(careless: Result) -> None:
    """As traced, within 2 % and the millisecond to which the log rounds: all but one of each,
    which another process may have kept waiting between the server's clock and ours.
    """
    every = [c for c in careless.cells if c.phase == "checkpoint"]
    assert len(every) == 2 * RUNS * len(LOADS)
    for traced, logged in (
        ("total_s", "logged_total_s"),
        ("write_s", "logged_write_s"),
        ("sync_s", "logged_sync_s"),
    ):
        pairs = [(getattr(c.checkpoint, traced), getattr(c.checkpoint, logged)) for c in every]
        apart = [(a, b) for a, b in pairs if abs(a - b) > 0.02 * b + 0.001]
        assert len(apart) <= 1, (traced, apart)
    for cell in every:
        found = cell.checkpoint
        assert found and found.total_s and found.write_s is not None and found.sync_s is not None
        assert found.write_s + found.sync_s < found.total_s < cell.elapsed_s


@alone
def test_wal_and_data_lie_where_they_were_put(careless: Result, places: dict[str, Path]) -> None:
    assert {s.name: s.directory for s in careless.storages} == {
        "disk": str(places["data"]),
        "log": str(places["wal"]),
    }
    assert (careless.options.wal_storage, careless.options.data_storage) == ("log", "disk")
    for cell in cells(careless, "A", "load", "wide", "narrow"):
        assert cell.devices["log"].writes > 0
        assert cell.devices["log"].bytes > 0
        assert cell.tps and cell.reading_tps


def test_the_report_shows_both_servers(by_writes: Result, tmp_path: Path) -> None:
    """Also to another user, without root."""
    file = tmp_path / "again.json"
    file.write_bytes(encoding.encode(by_writes))
    shown = subprocess.run(
        [sys.executable, "-m", "pgtrace", "report", "-"],
        input=file.read_bytes(),
        capture_output=True,
        user="nobody",
        extra_groups=[],
        check=True,
    ).stdout.decode()
    assert shown == run("report", file).out
    sentences = " ".join(shown.split())
    assert "Settings in which they differ: wal_sync_method fdatasync and open_da" in sentences
    for words in (
        "\nWAL, client backend, fdatasync\n",
        "\nWAL, client backend, durable write\n",
        "\ndata, checkpointer, fsync\n",
        "sync time per GiB",
        "wide, load, by durable writes: B has some in every run, A none.",
    ):
        assert words in shown
    page = run("report", file, "--format", "html")
    assert page.code == 0, page.err
    assert "by durable writes" in page.out


def sync(place: Path, *arguments: object) -> Ended:
    """With its data there, unless the arguments say where; it is empty again at the end."""
    where = () if "--data-storage" in arguments else ("--data-storage", f"disk={place}")
    end = run("lab", "sync", "--runs", 1, *SIZES, *where, *arguments)
    assert list(place.iterdir()) == []
    assert end.out == ""
    assert len(end.err.splitlines()) == 1, end.err
    return end


@pytest.fixture(scope="module")
def others(programs: Path, disk_directory: Path) -> dict[str, Path]:
    """A server whose clusters have WAL files of another size, and programs that are no server."""
    found = {"SMALL": disk_directory / "small", "FALSE": disk_directory / "false"}
    for directory in found.values():
        directory.mkdir()
        directory.chmod(0o755)  # the server's user must come through
        for program in programs.iterdir():
            (directory / program.name).symlink_to(program)
    initdb = found["SMALL"] / "initdb"
    initdb.unlink()
    initdb.write_text(f'#!/bin/sh\nexec {programs}/initdb --wal-segsize=1 "$@"\n')
    initdb.chmod(0o755)
    postgres = found["FALSE"] / "postgres"
    postgres.unlink()
    postgres.symlink_to("/bin/true")
    return {"BIN": programs, **found}


@pytest.mark.parametrize(
    ("options", "code", "message"),
    [
        ([], 2, "two servers are compared, 0 are named: --server A=BINDIR --server B="),
        (["--server", "A=BIN"], 2, "two servers are compared, 1 is named"),
        (["--server", "A=BIN", "--server", "A=BIN"], 2, "two servers are named A: give each"),
        (["--server", "BIN"], 2, "say it as in --server A=/usr/lib/postgresql/15/bin"),
        (["--server", "a-b=BIN"], 2, "a name has up to 10 letters"),
        (["--server", "A=BIN,fsync"], 2, "'fsync' is no setting=value"),
        (["--server", "A=BIN,fsync=on,fsync=off"], 2, "fsync is set twice"),
        (["--server", "A=BIN,port=1"], 2, "port is set by pgtrace itself"),
        (["--server", "A=BIN", "--server", "B=/usr/bin"], 5, "there is no postgres in it"),
        (["--server", "A=BIN", "--server", "B=FALSE"], 5, "FALSE/postgres is not PostgreSQL"),
        (["--server", "A=BIN", "--server", "B=BIN,fsynk=off"], 2,
         'fsynk=off: unrecognized configuration parameter "fsynk"'),
        (["--server", "A=BIN", "--server", "B=BIN,wal_sync_method=soon"], 2,
         "Available values: fsync, fdatasync"),
        (["--server", "A=BIN", "--server", "B=BIN,block_size=4096"], 2, "cannot be changed"),
        (["--server", "A=BIN", "--server", "B=BIN,shared_buffers=100TB"], 2, "shared_buffers"),
        (["--server", "A=BIN", "--server", "B=SMALL"], 2,
         "cannot be compared: their wal_segment_size are 16MB and 1MB"),
        (["--server", "A=BIN", "--server", "B=BIN", "--wal-storage", "x=/dev/shm"], 2,
         "is memory"),
        (["--server", "A=BIN", "--server", "B=BIN", "--wal-storage", "/nowhere"], 2,
         "say it as in --wal-storage ssd="),
        (["--server", "A=BIN", "--server", "B=BIN", "--data-storage", "x=/usr"], 2,
         "--data-storage x: /usr is not empty"),
        (["--server", "A=BIN", "--server", "B=BIN", "--clients", "500"], 2,
         "are fewer than --clients 500"),
    ],
)  # fmt: skip
def test_what_cannot_be_compared(
    others: dict[str, Path],
    places: dict[str, Path],
    options: list[str],
    code: int,
    message: str,
) -> None:
    for name, directory in others.items():
        options = [option.replace(f"={name}", f"={directory}") for option in options]
    end = sync(places["data"], *options)
    assert end.code == code, end.err
    assert message.replace("FALSE", str(others["FALSE"])) in end.err


@pytest.mark.usefixtures("own_state")
@pytest.mark.parametrize(("moment", "code"), [("2 of 8", 130), ("4 of 8", 0)])
def test_ctrl_c_keeps_turns_that_were_whole_and_nothing_else(
    programs: Path, places: dict[str, Path], tmp_path: Path, moment: str, code: int
) -> None:
    file = tmp_path / "F"
    named = "--server", f"A={programs}", "--server", f"B={programs}"
    where = "--wal-storage", f"log={places['wal']}", "--data-storage", f"disk={places['data']}"
    command = "lab", "sync", "-v", *named, *where, *SIZES, "--runs", 4, "-o", file
    with Pgtrace(*command) as started:
        started.wait_for(moment)
        started.send(signal.SIGINT)
        end = started.ended()
    assert end.code == code, end.err
    assert "\nPlan: A and B, 4 turns each: 5,000 rows are loaded, then " in end.err
    for place in places.values():
        assert list(place.iterdir()) == []
    assert list(LAB_STATE.iterdir()) == []
    if code == 0:
        result = loaded(file)
        assert result.partial
        assert "\nPartial: 1 of 4 runs; it did not get to the rest.\n" in end.err
        assert len(result.cells) == 3 * 2 * len(LOADS)
    else:
        assert "interrupted before one run was whole" in end.err


TERMINATED = """
import os, signal
from pgtrace.lab.sync import load
calls = 0
def do(server, connection, *others, true=load.do):
    global calls
    calls += 1
    if calls == 10:
        os.kill(connection.info.backend_pid, signal.SIGTERM)
    return true(server, connection, *others)
load.do = do
"""
"""A session that the server ends in the fourth turn."""


@pytest.mark.usefixtures("own_state")
def test_an_error_keeps_turns_that_were_whole_and_nothing_else(
    programs: Path, places: dict[str, Path], tmp_path: Path
) -> None:
    file = tmp_path / "F"
    named = "--server", f"A={programs}", "--server", f"B={programs}"
    where = "--wal-storage", f"log={places['wal']}", "--data-storage", f"disk={places['data']}"
    arguments = *named, *where, *SIZES, "--runs", 2, "-o", file
    end = run("lab", "sync", *arguments, command=patched(TERMINATED))
    for place in places.values():
        assert list(place.iterdir()) == []
    assert list(LAB_STATE.iterdir()) == []
    assert end.code == 1, end.err
    *_, wrote, partial, error = end.err.splitlines()
    assert wrote == f"Wrote {file}"
    assert partial == "Partial: 1 of 2 runs; it did not get to the rest."
    assert error.startswith("pgtrace: the server gave up: terminating connection")
    result = loaded(file)
    assert result.partial
    assert len(result.cells) == 3 * 2 * len(LOADS)


@pytest.mark.usefixtures("own_state")
def test_restore_removes_what_kill_left(
    programs: Path, places: dict[str, Path], tmp_path: Path
) -> None:
    named = "--server", f"A={programs}", "--server", f"B={programs}"
    where = "--wal-storage", f"log={places['wal']}", "--data-storage", f"disk={places['data']}"
    with Pgtrace("lab", "sync", "-v", *named, *where, *SIZES, "-o", tmp_path / "F") as started:
        started.wait_for("1 of")
        os.kill(started.pid, signal.SIGKILL)
        started.ended()
    assert list(places["wal"].iterdir())
    assert run("lab", "restore").code == 0
    for place in places.values():
        assert list(place.iterdir()) == []
    assert list(LAB_STATE.iterdir()) == []
