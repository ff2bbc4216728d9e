"""A server that is started again with another binary, as after an upgrade of its package; and one
that runs beside one of an older version, as while a cluster is upgraded.
"""

import shutil
import tempfile
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from test_charging import blocks, create, performers, prepare, the_query
from test_no_usdt import change

from copied_cluster import CopiedCluster
from fix_cluster import SETTINGS, bindir, data_directory, explain_buffers
from fix_markers import PG_VERSION
from pgtrace import trace
from pgtrace.engines import Tier
from pgtrace.lab.core.private_cluster import PrivateCluster
from pgtrace.lab.core.server_root import find_root
from pgtrace.model.capture import Backend, Query
from pgtrace.postgres import discovery
from pgtrace.tracing.options import TraceOptions
from pgtrace.tracing.targets import Target
from pgtrace.tracing.tracer import Tracer
from pgtrace_command import wait_for

SCAN = "select * from scanned"
WORKERS = {"io_method": "worker"} if PG_VERSION >= 18 else {}
OLDER = 17
"""The last without asynchronous reads."""


@pytest.fixture
def upgradable(disk_directory: Path) -> Iterator[PrivateCluster]:
    with with_own_binary(disk_directory) as cluster:
        yield cluster


@contextmanager
def with_own_binary(directory: Path, version: int = PG_VERSION) -> Iterator[PrivateCluster]:
    """A server whose binary is a file of its own."""
    original = bindir(version)
    root = find_root(original)
    base = directory if root == Path("/") else root / "var/lib"
    copy = Path(tempfile.mkdtemp(prefix="pgt-bin-", dir=base))
    copy.chmod(0o755)
    try:
        shutil.copytree(original, copy / "bin")
        # Beside its programs the server looks for what it loads
        (copy / "lib").symlink_to(Path("/") / (original.parent / "lib").relative_to(root))
        with CopiedCluster(
            SETTINGS | (WORKERS if version > OLDER else {}),
            bindir=copy / "bin",
            directory=data_directory(version, directory),
        ) as cluster:
            with cluster.connect() as connection:
                create(connection, "scanned", 4000)
            yield cluster
    finally:
        shutil.rmtree(copy)


def upgrade(cluster: PrivateCluster, tracer: Tracer, *, notes: bool = True) -> None:
    """Start it again with another binary, and wait until that is noticed."""
    start_another(cluster, notes=notes)
    wait_for(lambda: [gap for gap in tracer.capture().gaps if gap.ended])


def start_another(
    cluster: PrivateCluster, *, notes: bool = True, lacking: Collection[str] = ()
) -> None:
    """Start it again with another file in the place of the binary, where dpkg puts it."""
    cluster.stop()
    new = cluster.binary.with_name("postgres.dpkg-new")
    shutil.copy2(cluster.binary, new)
    change(new, notes=notes, lacking=lacking)
    assert new.stat().st_ino != cluster.binary.stat().st_ino
    new.rename(cluster.binary)
    cluster.start()


def scan(cluster: PrivateCluster, tracer: Tracer) -> tuple[int, Backend]:
    """A scan of the cold table: what EXPLAIN says it read, and its backend."""
    with cluster.connect() as connection:
        pid = connection.info.backend_pid
        prepare(cluster, connection, SCAN, "scanned")
        buffers = explain_buffers(connection, SCAN)
    (backend,) = wait_for(
        lambda: [b for b in tracer.capture().backends if b.pid == pid and b.ended]
    )
    return buffers.read, backend


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
            assert query.waited_ns


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


def of_all(*servers: PrivateCluster) -> Target:
    return Target.of_servers([discovery.server(each.postmaster_pid) for each in servers])


def the_scan(backend: Backend) -> Query:
    """It has no calls where only reads are looked at."""
    end = f"format json) {SCAN}"
    (query,) = [query for query in backend.queries if (query.text or "").endswith(end)]
    return query


@pytest.mark.pg(">= 18")
@pytest.mark.parametrize(
    ("queries", "older_first"), [("light", True), ("full", True), ("full", False)]
)
def test_a_server_beside_one_of_an_older_version(
    upgradable: PrivateCluster, disk_directory: Path, queries: Tier, older_first: bool
) -> None:
    """Each is measured as if it were alone, also once the older one was started again."""
    with with_own_binary(disk_directory, OLDER) as older:
        servers = (older, upgradable) if older_first else (upgradable, older)
        tracer = Tracer(of_all(*servers), TraceOptions(literals=True, queries=queries))
        try:
            found = [scan(each, tracer) for each in (older, upgradable)]
            upgrade(older, tracer)
            found.insert(0, scan(older, tracer))
        finally:
            taken = tracer.stop()
    scans = [the_scan(backend) for _, backend in found]
    for (read, _), query in zip(found, scans, strict=True):
        assert read > 3000
        assert read <= blocks(query.io) <= read * 1.005
    *of_older, of_newer = scans
    assert {performer for query in of_older for performer in performers(query.io)} == {"backend"}
    assert {query.waited_ns for query in of_older} == {None}
    assert "io worker" in performers(of_newer.io)
    assert bool(of_newer.waited_ns) == (queries == "full")
    assert taken.probes.not_measured == []


@pytest.mark.pg(">= 18")
def test_a_server_beside_one_whose_binary_lacks_what_is_looked_for(
    upgradable: PrivateCluster, disk_directory: Path
) -> None:
    """As one that came after pgtrace: what is not measured of it is said, and is no zero."""
    with with_own_binary(disk_directory) as lacking:
        start_another(lacking, lacking=("pgaio_wref_wait", "smgrstartreadv"))
        both = lacking, upgradable
        tracer = Tracer(of_all(*both), TraceOptions(literals=True))
        try:
            (_, of_lacking), (read, backend) = [scan(each, tracer) for each in both]
        finally:
            taken = tracer.stop()
    query = the_scan(backend)
    assert read <= blocks(query.io) <= read * 1.005
    assert "io worker" in performers(query.io)
    assert query.waited_ns
    query = the_scan(of_lacking)
    assert "io worker" not in performers(query.io)
    assert query.waited_ns is None
    why = "the binary does not export"
    assert taken.probes.not_measured == [
        f"waiting for asynchronous reads: {why} pgaio_wref_wait",
        f"reads by I/O workers, as their queries': {why} smgrstartreadv",
    ]


@pytest.mark.pg(">= 18")
def test_servers_that_have_io_workers_once_they_are_started_again(
    upgradable: PrivateCluster, disk_directory: Path
) -> None:
    """Each, by probes in its own binary."""
    with with_own_binary(disk_directory) as other:
        both = upgradable, other
        for each in both:
            set_method(each, "sync")
        tracer = Tracer(of_all(*both), TraceOptions(literals=True))
        try:
            for number, each in enumerate(both, 1):
                set_method(each, "worker")
                wait_for(lambda n=number: len([g for g in tracer.capture().gaps if g.ended]) == n)
            found = [scan(each, tracer) for each in both]
        finally:
            taken = tracer.stop()
    for read, backend in found:
        query = the_scan(backend)
        assert read <= blocks(query.io) <= read * 1.005
        assert "io worker" in performers(query.io)
        assert query.waited_ns
    assert taken.probes.not_measured == []


def set_method(cluster: PrivateCluster, method: str) -> None:
    with cluster.connect() as connection:
        connection.execute(f"alter system set io_method = {method}")
    cluster.restart()
