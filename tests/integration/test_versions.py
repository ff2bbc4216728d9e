"""Servers of every version: what scripts/pg makes, and clusters in another root and namespace.

A cell of the matrix is PGTRACE_TEST_PG: 15, 17, 18 or 19.
"""

import os
import resource
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from child import Child, inner_pid, wait_for
from fix_cluster import SCRIPT, SETTINGS, Connection, Server, bindir, data_directory
from fix_markers import PG_VERSION
from pgtrace.errors import PgtraceError, UsageError
from pgtrace.lab.core import benchmark_table
from pgtrace.lab.core.private_cluster import PrivateCluster
from pgtrace.postgres import discovery
from pgtrace.postgres.versions import major_of

ROWS = 20_000

METHODS = [
    pytest.param({}, id="default"),
    *(
        pytest.param({"io_method": method}, id=method, marks=pytest.mark.pg(">= 18"))
        for method in ("sync", "worker", "io_uring")
    ),
]

Make = Callable[..., PrivateCluster]


def runs(pid: int) -> bool:
    """Is it a process, and not a zombie that its parent has yet to collect?"""
    try:
        return Path(f"/proc/{pid}/exe").exists()
    except OSError:
        return False


def working_in(directory: Path) -> list[int]:
    """Processes that work below this directory, by its inode: paths differ between roots."""
    wanted = directory.stat()
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            cwd = (process / "cwd").stat()
        except OSError:
            continue
        if (cwd.st_dev, cwd.st_ino) == (wanted.st_dev, wanted.st_ino):
            found.append(int(process.name))
    return found


def segment(datadir: Path) -> str:
    """The System V shared memory of a running server, as /proc/sysvipc/shm has it."""
    return (datadir / "postmaster.pid").read_text().splitlines()[6].split()[1]


def shared_memory() -> list[str]:
    lines = Path("/proc/sysvipc/shm").read_text().splitlines()
    return [line.split()[1] for line in lines]


def left(cluster: PrivateCluster) -> list[str]:
    """What there is of a cluster on the disk and in the table of mounts."""
    name = cluster.datadir.parent.name
    places = [cluster.datadir.parents[1], cluster.socket_dir.parent]
    places += [cluster.root / inner for inner in ("mnt", "run/postgresql", "var/lib")]
    paths = [str(path) for place in places if place.exists() for path in place.iterdir()]
    mounts = Path("/proc/self/mounts").read_text().splitlines()
    return [one for one in paths + mounts if name in one]


@pytest.fixture
def make(disk_directory: Path) -> Iterator[Make]:
    """A cluster to be ended within the test, after which nothing of it may be left."""
    made = []

    def get(**options: Any) -> PrivateCluster:
        settings = SETTINGS | options.pop("settings", {})
        options.setdefault("directory", data_directory(PG_VERSION, disk_directory))
        made.append(PrivateCluster(settings, bindir=bindir(PG_VERSION), **options))
        return made[-1]

    yield get
    assert [one for cluster in made for one in left(cluster)] == []


def value(connection: Connection, query: str) -> Any:
    row = connection.execute(query).fetchone()
    assert row is not None
    return row[0]


def use(cluster: PrivateCluster) -> None:
    """Load a table, and let a leader and its workers read it."""
    with cluster.connect() as connection:
        assert major_of(value(connection, "show server_version")) == PG_VERSION
        benchmark_table.create_table(connection, ROWS)
        for name in ("min_parallel_table_scan_size", "parallel_setup_cost", "parallel_tuple_cost"):
            connection.execute(f"set {name} = 0")
        connection.execute("set max_parallel_workers_per_gather = 2")
        query = f"select count(*) from {benchmark_table.TABLE}"
        (gather,) = value(connection, f"explain (analyze, format json) {query}")[0]["Plan"]["Plans"]
        assert gather["Workers Launched"] == 2
        assert value(connection, query) == ROWS


@pytest.mark.parametrize("settings", METHODS)
@pytest.mark.parametrize("pid_namespace", [False, True], ids=["", "namespace"])
def test_life(make: Make, settings: dict[str, object], pid_namespace: bool) -> None:
    with make(settings=settings, pid_namespace=pid_namespace) as cluster:
        use(cluster)
        with cluster.connect() as connection:
            for name, wanted in settings.items():
                assert value(connection, f"show {name}") == wanted
        postmaster = cluster.postmaster_pid
        assert postmaster in working_in(cluster.datadir)
        assert inner_pid(postmaster) == (1 if pid_namespace else postmaster)
        assert Path(f"/proc/{postmaster}/exe").samefile(cluster.binary)
        found = discovery.server(postmaster)
        assert (found.major, found.port) == (PG_VERSION, cluster.port)
        cluster.restart()
        assert cluster.postmaster_pid != postmaster
        cluster.stop()
        # pg_ctl waits for the lock file to be gone, which a postmaster removes before it ends
        wait_for(lambda: working_in(cluster.datadir) == [])
        with pytest.raises(PgtraceError):
            cluster.stop()
        cluster.start()
        assert left(cluster) != []
        pids = working_in(cluster.datadir)
        memory = segment(cluster.datadir)
        assert memory in shared_memory()
    assert [pid for pid in pids if runs(pid)] == []
    assert memory not in shared_memory()


def test_programs(make: Make) -> None:
    with make() as cluster:
        assert cluster.run("psql", "-Atc", "select 1 + 1") == "2\n"
        cluster.run("pgbench", "-i", "-s", "1", "-q")
        assert "number of failed" in cluster.run("pgbench", "-t", "10", "-S")
        script = cluster.datadir.parent / "script.sql"
        script.write_text("select 'script'")
        assert cluster.run("psql", "-At", "-f", script) == "script\n"
        with Child(*cluster.command("psql", "-Atc", "select pg_sleep(600)")) as client:
            psql = cluster.bindir / "psql"
            wait_for(lambda: Path(f"/proc/{client.pid}/exe").samefile(psql))


def test_pg_ctl_would_signal_our_process_1(make: Make) -> None:
    with make(pid_namespace=True) as cluster:
        with pytest.raises(UsageError):
            cluster.run("pg_ctl", "stop", "-D", cluster.datadir)
        with pytest.raises(PgtraceError, match="runs already"):
            cluster.start()


def test_refuses_to_start_in_a_namespace(make: Make) -> None:
    cluster = make(settings={"shared_buffers": "many"}, pid_namespace=True)
    with pytest.raises(PgtraceError, match="shared_buffers"), cluster:
        pass


@pytest.mark.pg(">= 17")
@pytest.mark.parametrize("pid_namespace", [False, True], ids=["", "namespace"])
def test_volume(make: Make, disk_directory: Path, pid_namespace: bool) -> None:
    with make(directory=disk_directory, pid_namespace=pid_namespace) as cluster:
        assert cluster.datadir.is_relative_to(disk_directory)
        use(cluster)
        assert cluster.postmaster_pid in working_in(cluster.datadir)
        with cluster.connect() as connection:
            assert value(connection, "show data_directory") == str(cluster.inside(cluster.datadir))
        cluster.restart()


@pytest.mark.pg(">= 17")
def test_long_path(make: Make, disk_directory: Path) -> None:
    long = disk_directory / ("long" * 30)
    long.mkdir()
    with make(directory=long) as cluster:
        use(cluster)
        assert cluster.run("psql", "-Atc", "select 1") == "1\n"
        assert cluster.socket_dir != cluster.datadir.parent
    assert not os.path.lexists(cluster.socket_dir)
    long.rmdir()


# A signal that comes just before Python blocks in a read is heard after it: hence the seconds
MAKER = """
import select
import sys
from pathlib import Path
from pgtrace.lab.core.private_cluster import PrivateCluster
bindir, directory, pid_namespace = sys.argv[1:]
directory = Path(directory) if directory else None
with PrivateCluster(
    {"dynamic_shared_memory_type": "mmap"},
    bindir=Path(bindir), directory=directory, pid_namespace=bool(pid_namespace)
) as cluster:
    connection = cluster.connect()
    print(cluster.datadir, flush=True)
    while not select.select([sys.stdin], [], [], 1)[0]:
        pass
"""


@pytest.mark.parametrize("volume", [False, pytest.param(True, marks=pytest.mark.pg(">= 17"))])
@pytest.mark.parametrize("pid_namespace", [False, True])
def test_removed_when_its_maker_is_killed(
    disk_directory: Path, volume: bool, pid_namespace: bool
) -> None:
    place = disk_directory if volume else data_directory(PG_VERSION, disk_directory)
    with Child(
        sys.executable, "-c", MAKER, bindir(PG_VERSION), place or "", "1" * pid_namespace,
        process_group=0,
    ) as maker:  # fmt: skip
        datadir = Path(maker.line().strip())
        pids = working_in(datadir)
        assert len(pids) > 4
        memory = segment(datadir)
    wait_for(lambda: not datadir.parent.exists())
    assert [pid for pid in pids if runs(pid)] == []
    assert memory not in shared_memory()
    assert datadir.parent.name not in Path("/proc/self/mounts").read_text()


def test_one_server_for_one_set_of_arguments(server: Server) -> None:
    one = server()
    assert server(PG_VERSION) is one
    other = server(work_mem="5MB", pid_namespace=True)
    assert server(pid_namespace=True, work_mem="5MB") is other is not one
    with other.connect() as connection:
        assert value(connection, "show work_mem") == "5MB"
        assert value(connection, f"select count(*) > {ROWS} from {benchmark_table.TABLE}")


def test_script_is_quick_once_it_has_made_a_server() -> None:
    bindir.cache_clear()
    programs = bindir(PG_VERSION)
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run([SCRIPT, f"{PG_VERSION}"], capture_output=True, text=True, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime < 1
    assert (done.stdout, done.stderr) == (f"{programs}\n", "")
    assert {"initdb", "pg_ctl", "pgbench", "postgres", "psql"} <= set(os.listdir(programs))  # noqa: PTH208


@pytest.mark.parametrize(("arguments", "status"), [(["14"], 5), (["16"], 5), ([], 2), (["x"], 2)])
def test_script_refuses(arguments: list[str], status: int) -> None:
    done = subprocess.run([SCRIPT, *arguments], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (status, "")
    assert "15" in done.stderr
