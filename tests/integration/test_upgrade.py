"""A server that is started again with another binary, as after an upgrade of its package."""

import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from test_charging import blocks, create, explain, performers, prepare, the_query

from copied_cluster import CopiedCluster
from fix_cluster import SETTINGS, bindir, data_directory
from fix_markers import PG_VERSION
from pgtrace import trace
from pgtrace.lab.core.private_cluster import PrivateCluster
from pgtrace.lab.core.server_root import find_root
from pgtrace.model.capture import Backend
from pgtrace.tracing.tracer import Tracer
from pgtrace_command import wait_for

SCAN = "select * from scanned"
WORKERS = {"io_method": "worker"} if PG_VERSION >= 18 else {}


@pytest.fixture
def upgradable(disk_directory: Path) -> Iterator[PrivateCluster]:
    """A server whose binary is a file of its own."""
    original = bindir(PG_VERSION)
    root = find_root(original)
    base = disk_directory if root == Path("/") else root / "var/lib"
    copy = Path(tempfile.mkdtemp(prefix="pgt-bin-", dir=base))
    copy.chmod(0o755)
    try:
        shutil.copytree(original, copy / "bin")
        # Beside its programs the server looks for what it loads
        (copy / "lib").symlink_to(Path("/") / (original.parent / "lib").relative_to(root))
        with CopiedCluster(
            SETTINGS | WORKERS,
            bindir=copy / "bin",
            directory=data_directory(PG_VERSION, disk_directory),
        ) as cluster:
            with cluster.connect() as connection:
                create(connection, "scanned", 4000)
            yield cluster
    finally:
        shutil.rmtree(copy)


def upgrade(cluster: PrivateCluster, tracer: Tracer, *, notes: bool = True) -> None:
    """Start it again with another file in the place of the binary, where dpkg puts it."""
    cluster.stop()
    new = cluster.binary.with_name("postgres.dpkg-new")
    shutil.copy2(cluster.binary, new)
    if not notes:
        subprocess.run(["objcopy", "--remove-section=.note.stapsdt", new], check=True)
    assert new.stat().st_ino != cluster.binary.stat().st_ino
    new.rename(cluster.binary)
    cluster.start()
    wait_for(lambda: [gap for gap in tracer.capture().gaps if gap.ended])


def scan(cluster: PrivateCluster, tracer: Tracer) -> tuple[int, Backend]:
    """A scan of the cold table: what EXPLAIN says it read, and its backend."""
    with cluster.connect() as connection:
        pid = connection.info.backend_pid
        prepare(cluster, connection, SCAN, "scanned")
        plan = explain(connection, SCAN)
    (backend,) = wait_for(
        lambda: [b for b in tracer.capture().backends if b.pid == pid and b.ended]
    )
    return plan["Shared Read Blocks"], backend


def test_a_server_with_another_binary(upgradable: PrivateCluster) -> None:
    """Its queries are told as before, and the reads that others make for them are theirs."""
    found = []
    with trace(upgradable.postmaster_pid, literals=True) as tracer:
        found.append(scan(upgradable, tracer))
        upgrade(upgradable, tracer)
        found.append(scan(upgradable, tracer))
    assert tracer.capture().probes.not_measured == []
    for read, backend in found:
        query = the_query(backend, f"format json) {SCAN}")
        assert read > 3000
        assert read <= blocks(query.io) <= read * 1.005
        if WORKERS:
            assert "io worker" in performers(query.io)


def test_a_server_with_a_binary_that_has_no_probes(upgradable: PrivateCluster) -> None:
    """What cannot be told of it is said; its reads count."""
    with trace(upgradable.postmaster_pid, literals=True, charge=False) as tracer:
        upgrade(upgradable, tracer, notes=False)
        read, backend = scan(upgradable, tracer)
    (missing,) = tracer.capture().probes.not_measured
    assert missing.startswith("queries of the server started since: the binary has no USDT probe")
    assert backend.queries == []
    if not WORKERS:
        assert blocks(backend.io) >= read > 3000
