"""Servers in containers of one image: each has a file system of its own over the same files, so
that one program has two inodes by stat(2), and one by which the kernel knows where probes are."""

import subprocess
import tempfile
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
from test_charging import create, explain, of, prepare
from test_no_usdt import programs

from copied_cluster import CopiedCluster
from fix_cluster import data_directory
from fix_markers import PG_VERSION
from pgtrace.engines import Tier
from pgtrace.lab.core.private_cluster import PrivateCluster
from pgtrace.postgres import discovery
from pgtrace.tracing.options import TraceOptions
from pgtrace.tracing.targets import Target
from pgtrace.tracing.tracer import Tracer

SETTINGS = {"shared_buffers": "8MB", "compute_query_id": "on"}
BLOCKS = 4000
SCAN = "select * from scanned"


@contextmanager
def overlaid(lower: Path) -> Iterator[Path]:
    """What is in a directory, as a container shows it that was made of it."""
    with tempfile.TemporaryDirectory(prefix="pgt-overlay-", dir=lower.parent) as base:
        upper, work, shown = (Path(base) / each for each in ("upper", "work", "shown"))
        for each in upper, work, shown:
            each.mkdir(mode=0o755)
        Path(base).chmod(0o755)
        options = f"lowerdir={lower},upperdir={upper},workdir={work}"
        subprocess.run(["mount", "-t", "overlay", "overlay", "-o", options, shown], check=True)
        try:
            yield shown
        finally:
            subprocess.run(["umount", "-l", shown], check=True)


@contextmanager
def of_one_image(directory: Path) -> Iterator[tuple[PrivateCluster, PrivateCluster]]:
    with ExitStack() as stack:
        image = stack.enter_context(programs(directory, notes=True)).parent

        def started() -> PrivateCluster:
            bindir = stack.enter_context(overlaid(image)) / "bin"
            where = data_directory(PG_VERSION, directory)
            return stack.enter_context(CopiedCluster(SETTINGS, bindir=bindir, directory=where))

        yield started(), started()


@pytest.mark.parametrize("tier", ["light", "full"])
def test_each_probe_is_there_once(disk_directory: Path, tier: Tier) -> None:
    """Else each read that is asked for is noted twice, and each query ends twice."""
    with of_one_image(disk_directory) as servers, ExitStack() as stack:
        programs = [Path(f"/proc/{each.postmaster_pid}/exe").stat() for each in servers]
        assert len({each.st_dev for each in programs}) == 2
        connections = [stack.enter_context(each.connect()) for each in servers]
        for each, connection in zip(servers, connections, strict=True):
            create(connection, "scanned", BLOCKS)
            connection.execute("set max_parallel_workers_per_gather = 0")
            prepare(each, connection, SCAN, "scanned")
        pids = [connection.info.backend_pid for connection in connections]
        found = [discovery.server(each.postmaster_pid) for each in servers]
        tracer = Tracer(Target.of_servers(found), TraceOptions(literals=True, queries=tier))
        try:
            for connection in connections:
                for _ in range(10):
                    connection.pgconn.exec_(b"insert into scanned values (1)")
                explain(connection, SCAN)
        finally:
            taken = tracer.stop()
    for pid in pids:
        texts = {query.text: query for query in of(taken, pid).queries}
        patterns: Counter[str] = Counter()
        (explained,) = [each for text, each in texts.items() if (text or "").endswith(SCAN)]
        for one in explained.io:
            patterns[one.pattern] += one.count
        assert patterns["sequential"] > 0.9 * patterns.total() > 100, patterns
        if tier == "full":
            inserts = texts["insert into scanned values (1)"]
            assert (inserts.calls, bool(inserts.query_id)) == (10, True)
