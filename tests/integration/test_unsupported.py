"""Servers of versions that are not supported.

Of one that is too old reads are traced, and the rest is not guessed. One that came after pgtrace is
tried with what its binary offers, and a warning.
"""

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from test_targets import capturing

from fix_cluster import (
    ROWS,
    SEQUENTIAL,
    SETTINGS,
    bindir,
    data_directory,
    explain_buffers,
    make_cold,
)
from pgtrace.lab.core import benchmark_table
from pgtrace.lab.core.private_cluster import PrivateCluster
from pgtrace_command import copy_programs, run

pytestmark = pytest.mark.pg("15")  # once, whatever version is under test
VERSION = 13


class Old(PrivateCluster):
    """Its initdb knows less."""

    def run(self, program: str, *arguments: str | Path) -> str:
        return super().run(program, *(one for one in arguments if one != "--no-instructions"))


@pytest.fixture(scope="module")
def old(disk_directory: Path) -> Iterator[PrivateCluster]:
    with Old(
        SETTINGS, bindir=bindir(VERSION), directory=data_directory(VERSION, disk_directory)
    ) as server:
        with server.connect() as connection:
            benchmark_table.create_table(connection, ROWS)
        yield server


@pytest.mark.parametrize("whole", [True, False], ids=["server", "backend"])
def test_reads_are_traced(old: PrivateCluster, whole: bool) -> None:
    """As many as EXPLAIN counts; queries and charging are not measured, and it is said why."""
    old.restart()  # with nothing in shared buffers
    with old.connect() as connection:
        pid = connection.info.backend_pid
        connection.execute(f"explain {SEQUENTIAL}")
        make_cold(old, connection)
        with capturing(old.postmaster_pid if whole else pid) as captured:
            buffers = explain_buffers(connection, SEQUENTIAL)
    taken, backend = captured.taken, captured.backend(pid)
    assert taken.server.version.startswith(f"{VERSION}.")
    assert taken.probes.queries == "none"
    reason = f"PostgreSQL {taken.server.version} is not supported, 14 to 19 are"
    assert taken.probes.not_measured == [
        f"queries: {reason}",
        f"charging reads of helpers to them: {reason}",
        # Where time goes, which is looked at of single backends, is known without
        *([] if whole else ["wait events: a server's binary does not export my_wait_event_info"]),
    ]
    assert backend.queries == []
    assert {reads.scope for reads in backend.io} == {"outside"}
    assert buffers.read > 1000
    assert buffers.read <= sum(reads.blocks for reads in backend.io) <= buffers.read + 16


def test_doctor_says_so(old: PrivateCluster) -> None:
    ended = run("doctor", "--pid", old.postmaster_pid)
    assert f"version: {VERSION}." in ended.out
    assert "14 to 19" in ended.out


@pytest.fixture(scope="module")
def new(disk_directory: Path) -> Iterator[PrivateCluster]:
    """A server whose programs say of themselves that they are of a version yet to come."""
    with tempfile.TemporaryDirectory(prefix="pgt-bin-", dir=disk_directory) as folder:
        Path(folder).chmod(0o755)
        # Beside its programs the server looks for what it loads
        Path(folder, "lib").symlink_to(bindir(15).parent / "lib")
        programs = copy_programs(bindir(15), Path(folder, "bin"))
        for name in "postgres", "initdb", "pg_ctl":
            file = programs / name
            code = file.read_bytes()
            assert b"postgres (PostgreSQL) 15." in code
            file.write_bytes(
                code.replace(b"postgres (PostgreSQL) 15.", b"postgres (PostgreSQL) 95.")
            )
        with PrivateCluster(SETTINGS, bindir=programs, directory=disk_directory) as server:
            with server.connect() as connection:
                benchmark_table.create_table(connection, ROWS)
            yield server


@pytest.mark.parametrize("whole", [True, False], ids=["server", "backend"])
def test_a_newer_version_is_tried(new: PrivateCluster, whole: bool) -> None:
    """What it has is measured, what it lacks is said, and that nobody has tried it."""
    new.restart()  # with nothing in shared buffers
    with new.connect() as connection:
        pid = connection.info.backend_pid
        connection.execute(f"explain {SEQUENTIAL}")
        make_cold(new, connection)
        with capturing(new.postmaster_pid if whole else pid) as captured:
            buffers = explain_buffers(connection, SEQUENTIAL)
    taken, backend = captured.taken, captured.backend(pid)
    assert taken.server.version.startswith("95.")
    assert taken.probes.queries == "usdt"
    (query,) = backend.queries
    assert sum(reads.blocks for reads in query.io) == buffers.read > 1000
    (warning,) = [line for line in captured.err.splitlines() if "newer than pgtrace" in line]
    assert "14 to 19" in warning
    assert {missing.partition(": the binary")[0] for missing in taken.probes.not_measured} == {
        "waiting for asynchronous reads"
    }


def test_doctor_warns_of_a_newer_version(new: PrivateCluster) -> None:
    ended = run("doctor", "--pid", new.postmaster_pid)
    assert "  -   version: PostgreSQL 95." in ended.out
    assert "14 to 19" in ended.out
