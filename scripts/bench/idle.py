"""What a capture of a whole server costs the collector while nothing happens: its share of a CPU.

`scripts/bench/idle` calls it where tracefs is mounted. Every third connection ran a query before;
with `--later`, all are made, and run one, while it is traced.
"""

import argparse
import resource
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack, closing
from pathlib import Path

import bench

from pgtrace.lab.core.private_cluster import PrivateCluster

SETTLE_S = 5


def main(arguments: Sequence[str] | None = None) -> int:
    """Run it, with each set of options in turn."""
    parser = argparse.ArgumentParser(prog="scripts/bench/idle", description=__doc__)
    parser.add_argument("--connections", type=int, default=1000, metavar="N", help="(1000)")
    parser.add_argument("--seconds", type=float, default=60, metavar="S", help="for each (60)")
    parser.add_argument("--later", action="store_true", help="connect while it is traced")
    args = parser.parse_args(arguments)
    bench.interruptible()
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    print(bench.host())
    print(f"{args.connections:,} connections, {args.seconds:g} s each")
    for options in [], ["--by", "relation"], ["--dsn"]:
        settings = {"max_connections": args.connections + 20}
        with ExitStack() as stack:
            cluster = stack.enter_context(PrivateCluster(settings))
            output = stack.enter_context(tempfile.TemporaryDirectory())
            if not args.later:
                connect(stack, cluster, args.connections, every=3)
            more = [*options, cluster.dsn()] if "--dsn" in options else options
            file = Path(output) / "capture.json"
            collector = stack.enter_context(closing(bench.Collector(cluster.datadir, file, *more)))
            starting = collector.cpu_s()
            if args.later:
                connect(stack, cluster, args.connections, every=1)
            time.sleep(SETTLE_S)
            before, began = collector.cpu_s(), time.monotonic()
            time.sleep(args.seconds)
            share = (collector.cpu_s() - before) / (time.monotonic() - began)
            print(
                f"  {' '.join(options):<14} {100 * share:5.2f} % of a CPU, {starting:.2f} s of CPU "
                f"to start, at most {collector.peak_mib():.0f} MiB",
                flush=True,
            )
    return 0


def connect(stack: ExitStack, cluster: PrivateCluster, count: int, *, every: int) -> None:
    """That many connections, of which some run a query."""
    for number in range(count):
        connection = stack.enter_context(cluster.connect())
        if number % every == 0:
            connection.execute("select count(*) from pg_class")


if __name__ == "__main__":
    sys.exit(main())
