"""How large the file of a long capture is, and what writing it as it goes takes.

`scripts/bench/capture_file` calls it where tracefs is mounted. Connections run statements as those
of a pool do, any of them any statement, once a second; each reads.
"""

import argparse
import random
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import bench

from pgtrace.files import documents
from pgtrace.files.so_far import SUFFIX
from pgtrace.lab.core.private_cluster import PrivateCluster

COLUMNS = 13
"""Of which each statement asks for some: 8,191 that differ."""
ROWS = 40_000
EVERY_S = 1.0
SETTINGS = {"shared_buffers": "1MB", "compute_query_id": "on", "jit": False}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run it, and print sizes."""
    parser = argparse.ArgumentParser(prog="scripts/bench/capture_file", description=__doc__)
    parser.add_argument("--minutes", type=float, default=60, metavar="M", help="(60)")
    parser.add_argument("--backends", type=int, default=100, metavar="N", help="(100)")
    parser.add_argument("--statements", type=int, default=5000, metavar="N", help="(5000)")
    parser.add_argument("--each", type=int, metavar="N", help="a backend runs N of them (all)")
    parser.add_argument("--keep", type=Path, metavar="FILE", help="keep the capture there")
    args = parser.parse_args(arguments)
    bench.interruptible()
    with ExitStack() as stack:
        settings = SETTINGS | {"max_connections": args.backends + 20}
        cluster = stack.enter_context(PrivateCluster(settings))
        make_table(cluster)
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        output = args.keep or directory / "capture.json"
        collector = stack.enter_context(closing(bench.Collector(cluster.datadir, output)))
        connections = [stack.enter_context(cluster.connect()) for _ in range(args.backends)]
        began, starting = time.monotonic(), collector.cpu_s()
        calls = load(connections, args, output)
        share = (collector.cpu_s() - starting) / (time.monotonic() - began)
        peak_mib = collector.peak_mib()
        said = collector.close()
        taken = documents.load(output)
        told = {query.query_id for backend in taken.backends for query in backend.queries}
        print(bench.host())
        print(f"{args.minutes:g} minutes, {args.backends} backends, {args.statements:,} statements")
        print(f"  calls           {calls:,}, of {len(told):,} statements in the file")
        print(f"  intervals       {len(taken.intervals)}")
        print(f"  the file        {output.stat().st_size / 2**20:.1f} MiB")
        print(f"  the collector   {100 * share:.2f} % of a CPU, at most {peak_mib:.0f} MiB")
        print(said, end="")
    return 0


def make_table(cluster: PrivateCluster) -> None:
    """Larger than shared_buffers."""
    columns = ", ".join(f"c{number} int default {number}" for number in range(COLUMNS))
    with cluster.connect() as connection:
        connection.execute(f"create table item (id int, {columns}, filler text)")
        connection.execute(
            "insert into item (id, filler) "
            f"select i, repeat('x', 400) from generate_series(1, {ROWS}) i"
        )
        connection.execute("create index on item (id)")
        connection.execute("vacuum analyze item")


def load(connections: Sequence[Any], args: argparse.Namespace, output: Path) -> int:
    """Run statements for so long, and return how many."""
    began, calls = time.monotonic(), 0
    partial = output.with_name(output.name + SUFFIX)
    while (now := time.monotonic()) < began + 60 * args.minutes:
        for number, connection in enumerate(connections):
            chosen = random.randrange(args.each or args.statements)
            chosen = (number * (args.each or 0) + chosen) % args.statements
            connection.execute(statement(chosen), (random.randrange(ROWS),))
            calls += 1
        written = partial.stat().st_size if partial.exists() else 0
        bench.progress(f"{now - began:.0f} s, {calls:,} calls, {written / 2**20:.1f} MiB so far")
        time.sleep(max(0.0, now + EVERY_S - time.monotonic()))
    return calls


def statement(number: int) -> str:
    """One of those that differ in what they ask for."""
    wanted = [f"c{column}" for column in range(COLUMNS) if number + 1 >> column & 1]
    return f"select {', '.join(wanted)} from item where id = %s"


if __name__ == "__main__":
    sys.exit(main())
