"""A private PostgreSQL on a real disk, with the benchmark table, in which reads can be counted.

Count a statement that its session has planned before (`explain` it once), with only its relation
evicted (`make_cold`): then its reads are those of explain_buffers(), planning included.
"""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import psycopg
import pytest

from child import wait_for, wait_until_gone
from copied_cluster import ROWS, CopiedCluster
from fix_markers import PG_VERSION
from pgtrace.lab.core import benchmark_table
from pgtrace.lab.core.page_cache import evict, relation_files, residency
from pgtrace.lab.core.private_cluster import PrivateCluster
from pgtrace.lab.core.server_root import find_root
from pgtrace.postgres import activity, catalog, names_of_servers, proc

Connection = psycopg.Connection[Any]
Server = Callable[..., PrivateCluster]

SCRIPT = Path(__file__).parents[2] / "scripts/pg"

SEQUENTIAL = benchmark_table.SEQUENTIAL
INDEX_SCAN = benchmark_table.index_scan(ROWS)

SETTINGS: dict[str, object] = {
    # one process makes all reads of a query, and each is a block that EXPLAIN counts
    "max_parallel_workers_per_gather": 0,
    "jit": False,
    "track_io_timing": True,
    "synchronize_seqscans": False,
    # less than four times the table, so that a scan keeps to a ring of 32 buffers and reads still
    # reach the kernel: for some fifty scans, each of which leaves a ring; enough for the catalogs
    "shared_buffers": "16MB",
    # nothing reads, writes or evicts in the background
    "autovacuum": False,
    "bgwriter_lru_maxpages": 0,
    "checkpoint_timeout": "1d",
    "max_wal_size": "4GB",
    "wal_level": "minimal",
    "max_wal_senders": 0,
    "fsync": False,
    "full_page_writes": False,
    "synchronous_commit": False,
}


@dataclass(frozen=True)
class Buffers:
    """What EXPLAIN (ANALYZE, BUFFERS) says of one execution, planning included."""

    hit: int
    read: int
    io_ms: float
    planning_hit: int
    planning_read: int
    total_ms: float


def explain_buffers(connection: Connection, query: str) -> Buffers:
    """Execute the query under EXPLAIN; the EXPLAIN is the statement that a tracer sees."""
    row = connection.execute(f"explain (analyze, buffers, format json) {query}").fetchone()
    assert row is not None
    ((explained,),) = row
    plan, planning = explained["Plan"], explained.get("Planning", {})

    def both(name: str) -> float:
        return float(plan.get(name, 0) + planning.get(name, 0))

    return Buffers(
        hit=int(both("Shared Hit Blocks")),
        read=int(both("Shared Read Blocks")),
        io_ms=both("I/O Read Time") + both("Shared I/O Read Time"),  # the second from 17 on
        planning_hit=planning.get("Shared Hit Blocks", 0),
        planning_read=planning.get("Shared Read Blocks", 0),
        total_ms=explained["Planning Time"] + explained["Execution Time"],
    )


def make_cold(
    cluster: PrivateCluster, connection: Connection, relation: str = benchmark_table.TABLE
) -> None:
    """Evict the relation's files alone from the page cache, and prove it."""
    connection.execute("checkpoint")
    files = relation_files(cluster.datadir, connection, relation)

    def gone() -> bool:
        """POSIX_FADV_DONTNEED leaves a page that is being read ahead at that moment."""
        evict(files)
        return sum(residency(file)[0] for file in files) == 0

    wait_for(gone)


def connected_at_once(cluster: PrivateCluster) -> Connection:
    """To a backend that came to its first line soon after it was made. Of another, as there is on a
    busy host, pgtrace tells no times: by them it sees whose memory it is.
    """
    asked = (
        "select extract(epoch from backend_start)::float8 from pg_stat_activity"
        " where pid = pg_backend_pid()"
    )
    while True:
        connection = cluster.connect()
        pid = connection.info.backend_pid
        ((began_s,),) = connection.execute(asked).fetchall()
        apart_us = began_s * 1e6 - activity._EPOCH_US - activity._started_us(proc.process(pid))
        if abs(apart_us) < activity._MOST_APART_US / 2:
            return connection
        connection.close()
        wait_until_gone(pid)


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a busy host names may take long at the end: as PATIENT, in this process."""
    monkeypatch.setattr(catalog, "LAST_S", 60.0)
    monkeypatch.setattr(names_of_servers, "LAST_S", 60.0)


@pytest.fixture(scope="session")
def disk_directory() -> Iterator[Path]:
    """A folder below which reads reach a device: not on tmpfs or an overlay."""
    base = os.environ.get("PGTRACE_TEST_DIRECTORY")
    if base is None:
        base = "/mnt/disk" if os.path.ismount("/mnt/disk") else "/var/tmp"
    if os.major(Path(base).stat().st_dev) == 0:
        pytest.skip(f"{base} is on no block device: set PGTRACE_TEST_DIRECTORY")
    directory = Path(tempfile.mkdtemp(prefix="pgt-", dir=base))
    directory.chmod(0o755)  # the server's user must come through
    _spread(directory)
    yield directory
    shutil.rmtree(directory)


@cache
def _spread(directory: Path) -> None:
    """Let what is made here lie in a block group by the hash of its name, if it is on ext4.

    ext4 gives no inode of the last minutes away again, and looks at each of them to find that out
    (recently_deleted() of fs/ext4/ialloc.c): after some other clusters had been removed, a copy of
    one took 1.0 to 1.4 s of a processor, and takes 0.12 s so.
    """
    subprocess.run(["chattr", "+T", directory], stderr=subprocess.DEVNULL, check=False)


@cache
def bindir(version: int) -> Path:
    """Where the programs of a version are, which the first call may have to download."""
    done = subprocess.run([SCRIPT, f"{version}"], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        pytest.skip(done.stderr.strip()[-1000:])
    return Path(done.stdout.strip())


def data_directory(version: int, disk_directory: Path) -> Path | None:
    """Where to put a cluster of a version: in its own root, if that is on the disk under test."""
    own = find_root(bindir(version)) / "var/lib"
    if own == Path("/var/lib") or own.stat().st_dev != disk_directory.stat().st_dev:
        return disk_directory
    _spread(own)
    return None


@pytest.fixture(scope="session")
def server(disk_directory: Path) -> Iterator[Server]:
    """Return the server of this version and these settings, with sample.TABLE of ROWS rows.

    It is made once, and kept up until the end of the session: restart it, but leave it up.

        server(version=PG_VERSION, *, pid_namespace=False, **settings) -> PrivateCluster
    """
    made: dict[str, PrivateCluster] = {}
    with ExitStack() as stack:

        def get(
            version: int = PG_VERSION, *, pid_namespace: bool = False, **settings: object
        ) -> PrivateCluster:
            key = repr((version, pid_namespace, sorted(settings.items())))
            if key not in made:
                private = CopiedCluster(
                    SETTINGS | settings,
                    table=True,
                    bindir=bindir(version),
                    directory=data_directory(version, disk_directory),
                    pid_namespace=pid_namespace,
                )
                made[key] = stack.enter_context(private)
            return made[key]

        yield get


@pytest.fixture(scope="session")
def cluster(server: Server) -> PrivateCluster:
    """The server of this session, of the version under test and with SETTINGS alone."""
    return server()


@pytest.fixture
def connection(cluster: PrivateCluster) -> Iterator[Connection]:
    """A backend of one's own, in autocommit: `connection.info.backend_pid`."""
    with cluster.connect() as connection:
        yield connection


@pytest.fixture
def index_only(connection: Connection) -> Connection:
    """The same backend, made to use the index as the benchmark does."""
    connection.execute("set enable_seqscan = off")
    connection.execute("set enable_bitmapscan = off")
    return connection
