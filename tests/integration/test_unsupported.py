"""A server of a version that is not supported: its reads are traced; the rest is not guessed."""

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
from pgtrace.postgres import sample
from pgtrace.postgres.cluster import PrivateCluster
from pgtrace_command import run

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
            sample.create_table(connection, ROWS)
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
    reason = f"PostgreSQL {taken.server.version} is not supported, 14 to 18 are"
    assert taken.probes.not_measured == [
        f"queries: {reason}",
        f"charging reads of helpers to them: {reason}",
    ]
    assert backend.queries == []
    assert {reads.scope for reads in backend.reads} == {"outside"}
    assert buffers.read > 1000
    assert buffers.read <= sum(reads.blocks for reads in backend.reads) <= buffers.read + 16


def test_doctor_says_so(old: PrivateCluster) -> None:
    ended = run("doctor", "--pid", old.postmaster_pid)
    assert f"version: {VERSION}." in ended.out
    assert "14 to 18" in ended.out
