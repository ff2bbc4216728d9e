"""`pgtrace lab pages --dsn`: on a server that was there before, and is afterwards as before."""

import os
import signal
from contextlib import suppress
from pathlib import Path
from typing import Any

import psycopg
import pytest

from fix_storage import LAB_STATE, SimulatedSsd
from lab_runs import blocks, lab, loaded, of, usable
from pgtrace.lab.core.private_cluster import PrivateCluster
from pgtrace.postgres import discovery
from pgtrace_command import Ended, Pgtrace, patched, run, stopping, terminating, wait_for

pytestmark = pytest.mark.pg("15")

ROWS = 30_000
OURS = """
select 'schema ' || nspname from pg_namespace where nspname like 'pgtrace%'
union all select 'tablespace ' || spcname from pg_tablespace where spcname like 'pgtrace%'
"""


def ours(cluster: PrivateCluster) -> list[tuple[Any, ...]]:
    with cluster.connect() as connection:
        return connection.execute(OURS).fetchall()


@pytest.fixture
def place(simulated_ssd: SimulatedSsd) -> Path:
    return usable(simulated_ssd.directory)


def test_each_run_reads_rows_of_its_own(
    cluster: PrivateCluster, place: Path, tmp_path: Path
) -> None:
    """Otherwise the second would find the first one's blocks in shared buffers; what is found
    there all the same is counted."""
    server = cluster.postmaster_pid
    file = tmp_path / "F"
    sizes = "--rows", ROWS, "--runs", 2
    lab("pages", "--dsn", cluster.dsn(), "--storage", f"ssd={place}", *sizes, "-o", file)
    assert cluster.postmaster_pid == server
    assert list(place.iterdir()) == []
    assert ours(cluster) == []
    result = loaded(file)
    assert result.options.restarted is False
    assert result.server.postmaster_pid == server
    for pattern in "sequential", "random":
        for cell in of(result, "ssd", pattern):
            assert blocks(cell.io) == cell.shared_reads
            assert cell.shared_hits is not None
            assert cell.resident_before == 0
    first, second = of(result, "ssd", "random")
    assert first.rows != second.rows or first.io != second.io
    assert "and id <=" in result.options.queries["random"]


def test_a_killed_run_leaves_nothing_on_the_server_after_restore(
    cluster: PrivateCluster, place: Path, own_state: None, tmp_path: Path
) -> None:
    """The password of the connection string stands in no file."""
    secret = "not-to-be-written"
    arguments = "--dsn", cluster.dsn(password=secret), "--storage", f"ssd={place}", "--rows", ROWS
    with Pgtrace("lab", "pages", "-v", *arguments, "-o", tmp_path / "F") as started:
        started.wait_for("2 of")
        state = LAB_STATE / f"lab-{started.pid}.json"
        written = state.read_text()
        assert state.stat().st_mode & 0o777 == 0o600
        assert len(ours(cluster)) == 2
        started.send(signal.SIGKILL)
        started.ended()
    assert secret not in written
    assert str(cluster.socket_dir) in written
    restored = run("lab", "restore")
    assert restored.code == 0, restored.err
    assert "drop tablespace" in restored.out.lower()
    assert ours(cluster) == []
    assert list(place.iterdir()) == []
    assert not state.exists()


def test_files_of_a_server_that_is_away_are_not_touched(
    cluster: PrivateCluster, place: Path, tmp_path: Path
) -> None:
    """Its tablespace would be torn out of it; the next try finds everything as it was."""
    arguments = "--dsn", cluster.dsn(), "--storage", f"ssd={place}", "--rows", ROWS
    with Pgtrace("lab", "pages", "-v", *arguments, "-o", tmp_path / "F") as started:
        started.wait_for("1 of")
        state = LAB_STATE / f"lab-{started.pid}.json"
        started.send(signal.SIGKILL)
        started.ended()
    cluster.stop()
    try:
        refused = run("lab", "restore")
        assert refused.code == 1
        assert "drop schema" in refused.err
        assert "`pgtrace lab restore` tries again" in refused.err
        assert [file for file in place.rglob("*") if file.is_file()]
        assert state.exists()
    finally:
        cluster.start()
    run("lab", "restore")
    assert ours(cluster) == []
    assert list(place.iterdir()) == []
    assert not state.exists()


def two_runs(cluster: PrivateCluster, place: Path, file: Path, code: str) -> Ended:
    """Of pages, as what Python this is changes them."""
    sizes = "--rows", ROWS, "--runs", 2
    arguments = "--dsn", cluster.dsn(), "--storage", f"ssd={place}", *sizes, "-o", file
    return run("lab", "pages", *arguments, command=patched(code))


def test_clean_up_that_fails_costs_no_result(
    cluster: PrivateCluster, place: Path, own_state: None, tmp_path: Path
) -> None:
    """The server is stopped when everything is measured."""
    file = tmp_path / "F"
    stops = stopping(cluster.postmaster_pid, "before lab.core.undo_log Statement undo")
    try:
        ended = two_runs(cluster, place, file, stops)
    finally:
        cluster.start()
    assert ended.code == 1
    _, wrote, error = ended.err.splitlines()
    assert wrote == f"Wrote {file}"
    assert "drop schema" in error
    assert "`pgtrace lab restore` tries again" in error
    result = loaded(file)
    assert not result.partial
    assert len(result.cells) == 2 * 2
    assert result.findings
    assert run("lab", "restore").code == 0
    assert ours(cluster) == []
    assert list(place.iterdir()) == []


def test_an_error_of_the_server_keeps_runs_that_were_whole(
    cluster: PrivateCluster, place: Path, own_state: None, tmp_path: Path
) -> None:
    file = tmp_path / "F"
    ended = two_runs(cluster, place, file, terminating(4))
    assert ended.code == 7
    *_, partial, error = ended.err.splitlines()
    assert partial == "Partial: 1 of 2 runs; it did not get to the rest."
    assert error.startswith("pgtrace: --dsn: ")
    assert error.endswith("; what was made there is removed")
    assert loaded(file).partial
    assert ours(cluster) == []


def test_ctrl_c_leaves_nothing_on_the_server(
    cluster: PrivateCluster, place: Path, tmp_path: Path
) -> None:
    arguments = "--dsn", cluster.dsn(), "--storage", f"ssd={place}", "--rows", 2_000_000
    with Pgtrace("lab", "pages", "-v", *arguments, "-o", tmp_path / "F") as started:
        started.wait_for("Loading")
        end = started.stop()
    assert end.code == 130
    assert ours(cluster) == []
    assert list(place.iterdir()) == []


def test_libpqs_environment_is_enough(
    cluster: PrivateCluster, place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in psycopg.conninfo.conninfo_to_dict(cluster.dsn()).items():
        monkeypatch.setenv({"dbname": "PGDATABASE"}.get(name, f"PG{name.upper()}"), str(value))
    sizes = "--rows", 5000, "--runs", 1
    lab("pages", "--dsn", "", "--storage", f"ssd={place}", *sizes, "-o", tmp_path / "F")
    assert ours(cluster) == []


def affinities(cluster: PrivateCluster) -> list[set[int]]:
    """Of the server's sessions now."""
    found = []
    for backend in discovery.server(cluster.postmaster_pid).backends():
        if backend.backend_type == "client backend":
            with suppress(ProcessLookupError):
                found.append(os.sched_getaffinity(backend.pid))
    return found


def test_cpus_are_those_that_were_asked_for(
    cluster: PrivateCluster, place: Path, tmp_path: Path
) -> None:
    """Of the server's process and of our own, while they work."""
    last = max(os.sched_getaffinity(0))
    arguments = "--dsn", cluster.dsn(), "--storage", f"ssd={place}", "--rows", ROWS
    pins = "--cpu-server", last, "--cpu-tracer", 0
    with Pgtrace("lab", "pages", "-v", *arguments, *pins, "-o", tmp_path / "F") as started:
        started.wait_for("3 of")
        assert os.sched_getaffinity(started.pid) == {0}
        wait_for(lambda: {last} in affinities(cluster))
        started.send(signal.SIGINT)
        assert started.ended().code == 0
    assert loaded(tmp_path / "F").options.cpu_server == last
