"""The private cluster and the page cache: what every other test stands on."""

import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from child import Child, wait_for, wait_until_gone
from copied_cluster import ROWS, CopiedCluster
from fix_cluster import INDEX_SCAN, SEQUENTIAL, Connection, explain_buffers, make_cold
from fix_reader import Counts, Reader
from pgtrace.errors import PgtraceError, UnsupportedError
from pgtrace.lab.core import benchmark_table
from pgtrace.lab.core.cluster_keeper import keeper_command
from pgtrace.lab.core.page_cache import evict, relation_files, residency
from pgtrace.lab.core.private_cluster import PrivateCluster, find_bindir

READS = 104_729


def backends_of(datadir: Path) -> list[str]:
    """Processes that work in this data directory."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if str((process / "cwd").readlink()).removesuffix(" (deleted)") == str(datadir):
                found.append(process.name)
        except OSError:
            continue
    return found


def test_settings_are_effective(connection: Connection) -> None:
    for name, value in {
        "max_parallel_workers_per_gather": "0",
        "jit": "off",
        "track_io_timing": "on",
        "shared_buffers": "16MB",
        "autovacuum": "off",
        "fsync": "off",
        "listen_addresses": "",
    }.items():
        assert connection.execute(f"show {name}").fetchone() == (value,)


def test_removed_at_a_normal_end(disk_directory: Path) -> None:
    with PrivateCluster({"cluster_name": "it's"}, directory=disk_directory) as cluster:
        assert f"{cluster.postmaster_pid}" in backends_of(cluster.datadir)
        assert cluster.run("psql", "-Atc", "show cluster_name").strip() == "it's"
        assert Path(f"/proc/{cluster.postmaster_pid}/exe").samefile(cluster.binary)
    assert not cluster.socket_dir.exists()
    assert backends_of(cluster.datadir) == []
    cluster.close()


def test_a_copy_is_a_server_of_its_own(cluster: PrivateCluster, disk_directory: Path) -> None:
    """With the rows of the original and the identifier of none, and no setting that made it."""

    def shown(of: PrivateCluster) -> list[Any]:
        with of.connect() as connection:
            query = (
                "select system_identifier, current_setting('autovacuum'),"
                f" (select count(*) from {benchmark_table.TABLE}),"
                f" (select sum(hashtext(t::text)) from {benchmark_table.TABLE} t)"
                " from pg_control_system()"
            )
            row = connection.execute(query).fetchone()
            assert row is not None
            return list(row)

    with CopiedCluster(table=True, directory=disk_directory) as copy:
        first = shown(copy)
        copy.restart()
        assert shown(copy) == first
    usual = shown(cluster)
    assert first[0] != usual[0]
    assert (first[1], usual[1]) == ("on", "off")
    assert first[2:] == usual[2:]
    assert first[2] == ROWS


def test_a_server_with_mounts_of_its_own_holds_none_that_is_unmounted(
    disk_directory: Path,
) -> None:
    """Else nobody could take a device away as long as it runs."""
    mounted = Path("/proc/self/mountinfo").read_text()
    if not re.search(r" / / .* shared:", mounted):
        pytest.skip("/ is not shared with other mount namespaces, as scripts/test makes it")
    volume = disk_directory / "volume"
    volume.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "tmpfs", volume], check=True)
    with PrivateCluster(directory=disk_directory, pid_namespace=True) as cluster:
        seen = Path(f"/proc/{cluster.postmaster_pid}/mountinfo")
        held = f" {volume} " in seen.read_text()
        subprocess.run(["umount", volume], check=True)
        assert held
        assert f" {volume} " not in seen.read_text()
    volume.rmdir()


def test_removed_when_its_server_refuses_to_start(disk_directory: Path) -> None:
    cluster = PrivateCluster({"shared_buffers": "many"}, directory=disk_directory)
    with pytest.raises(PgtraceError, match="shared_buffers"), cluster:
        pass
    assert not cluster.socket_dir.exists()


# A signal that comes just before Python blocks in a read is heard after it: hence the seconds
MAKER = """
import select
import sys
from pathlib import Path
from pgtrace.lab.core.private_cluster import PrivateCluster
with PrivateCluster(directory=Path(sys.argv[1])) as cluster:
    connection = cluster.connect()
    print(cluster.socket_dir, flush=True)
    while not select.select([sys.stdin], [], [], 1)[0]:
        pass
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_removed_when_its_maker_is_killed(disk_directory: Path, number: signal.Signals) -> None:
    with Child(
        sys.executable, "-c", MAKER, disk_directory, stderr=subprocess.DEVNULL, process_group=0
    ) as maker:
        directory = Path(maker.line().strip())
        postmaster = int((directory / "data/postmaster.pid").read_text().split()[0])
        if number == signal.SIGKILL:
            os.kill(postmaster, signal.SIGKILL)  # its backend then holds out alone
        os.killpg(maker.pid, number)  # as a terminal does
        maker.ended()
    wait_for(lambda: not directory.exists())
    assert backends_of(directory / "data") == []


def test_ended_when_its_data_went_first(disk_directory: Path) -> None:
    with PrivateCluster(directory=disk_directory) as cluster:
        assert backends_of(cluster.datadir) != []
        # A server without its files may end by itself, at once; mostly it goes on
        shutil.rmtree(cluster.socket_dir)
    assert backends_of(cluster.datadir) == []


LATE = """#!/bin/bash
if [ ! -e {folder}/pid ]; then
    (cd {folder}/base/data && exec sleep 60 >/dev/null 2>&1) &
    echo $! >{folder}/pid
    until [ "$(readlink /proc/$!/cwd)" = {folder}/base/data ]; do sleep 0.01; done
fi
exec /bin/rm "$@"
"""


def test_a_server_that_was_only_starting_is_ended_too(tmp_path: Path) -> None:
    """It went to its directory after the keeper had looked who works there."""
    programs = tmp_path / "programs"
    programs.mkdir()
    (programs / "rm").write_text(LATE.format(folder=tmp_path))
    (programs / "rm").chmod(0o755)
    data = tmp_path / "base" / "data"
    data.mkdir(parents=True)
    subprocess.run(
        keeper_command("base", data, None, False, None),
        stdin=subprocess.DEVNULL,
        cwd=tmp_path,
        env=os.environ | {"PATH": f"{programs}:{os.environ['PATH']}"},
        check=True,
    )
    assert not data.parent.exists()
    pid = int((tmp_path / "pid").read_text())
    wait_until_gone(pid, seconds=10)


def test_restart_is_another_server(cluster: PrivateCluster) -> None:
    before = cluster.postmaster_pid
    cluster.restart()
    assert cluster.postmaster_pid != before


def test_no_binaries() -> None:
    with pytest.raises(UnsupportedError, match=r"version 9.*apt-get install postgresql-9"):
        find_bindir(9)


def test_evict_and_read_again(cluster: PrivateCluster, connection: Connection) -> None:
    connection.execute(SEQUENTIAL)
    files = relation_files(cluster.datadir, connection, benchmark_table.TABLE)
    assert len(files) >= 4  # heap, its free space map and visibility map, index
    make_cold(cluster, connection)
    heap = files[0]
    assert residency(heap) == (0, heap.stat().st_size // 4096)

    def held() -> bool:
        """All of it. A kernel may page out at any time what nobody has mapped, as with DAMON."""
        heap.read_bytes()
        pages, of = residency(heap)
        return pages == of

    wait_for(held)


def test_files_of_toast_and_other_forks(cluster: PrivateCluster, connection: Connection) -> None:
    connection.execute("create temp table wide (a int primary key, b text)")
    connection.execute("alter table wide alter b set storage external")
    connection.execute("insert into wide select i, repeat('x', 9000) from generate_series(1, 9) i")
    toast = connection.execute(
        "select pg_relation_filepath(reltoastrelid) from pg_class where oid = 'wide'::regclass"
    ).fetchone()
    assert toast is not None
    files = relation_files(cluster.datadir, connection, "wide")
    assert cluster.datadir / toast[0] in files
    assert len({f.name.split("_")[1] for f in files}) == 4  # t3_16400: heap, key, toast, its index


def test_residency_of_an_empty_file_and_of_a_part(tmp_path: Path, data_file: Path) -> None:
    (tmp_path / "empty").touch()
    assert residency(tmp_path / "empty") == (0, 0)
    evict([data_file])
    with data_file.open("rb") as file:
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_RANDOM)
        os.pread(file.fileno(), 8192, 1 << 20)
    assert residency(data_file) == (2, 4096)


def test_explain_counts_every_page(cluster: PrivateCluster) -> None:
    cluster.restart()
    with cluster.connect() as connection:
        connection.execute(f"explain {SEQUENTIAL}")
        make_cold(cluster, connection)
        cold = explain_buffers(connection, SEQUENTIAL)
        pages = connection.execute(
            "select relpages from pg_class where relname = %s", (benchmark_table.TABLE,)
        ).fetchone()
    assert pages == (cold.hit + cold.read,)
    assert cold.io_ms > 0


def test_index_scan_reads_about_a_page_a_row(index_only: Connection) -> None:
    buffers = explain_buffers(index_only, INDEX_SCAN)
    assert 4_500 < buffers.hit + buffers.read < 5_500


@pytest.mark.parametrize("call", ["pread", "read", "readv", "preadv", "preadv2"])
@pytest.mark.parametrize("order", [(), ("--random", 7)])
def test_reader_reads_exactly(
    reader: Callable[..., Reader], data_file: Path, call: str, order: tuple[object, ...]
) -> None:
    with reader(data_file, "--call", call, "--count", READS, "--warm", *order) as one:
        assert one.go()[:4] == (READS, 0, 0, READS * 8192)


def test_reader_fails_and_comes_short(
    reader: Callable[..., Reader], data_file: Path, disk_directory: Path
) -> None:
    def go(file: Path, *options: object) -> Counts:
        with reader(file, "--count", 10, *options) as one:
            return one.go()

    for call in ("pread", "readv"):
        for failure in ("ebadf", "noread", "efault"):
            assert go(data_file, "--call", call, "--fail", failure)[:4] == (0, 0, 10, 0)
        assert go(disk_directory, "--call", call, "--fail", "eisdir")[:4] == (0, 0, 10, 0)
        assert go(data_file, "--call", call, "--end")[:4] == (0, 10, 0, 40_960)
        assert go(data_file, "--call", call, "--past")[:4] == (0, 10, 0, 0)
    assert go(data_file, "--direct")[:4] == (10, 0, 0, 81_920)
