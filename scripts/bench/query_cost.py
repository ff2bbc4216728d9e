"""What a traced query costs its backend: `scripts/bench/query_cost` calls it where tracefs is
mounted.

CPU time of the backend by /proc/PID/schedstat, divided by queries; each series of queries with a
tracer is held against those before and after it.
"""

import argparse
import contextlib
import random
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import bench
import psycopg
from bench import BenchError

from pgtrace.lab.core.private_cluster import PrivateCluster
from pgtrace.tracing.options import TraceOptions
from pgtrace.tracing.targets import Target
from pgtrace.tracing.tracer import Tracer

PER_ATTACH = 5
"""Series while a tracer is attached once."""
ROWS = 100_000
SETTINGS = {
    "autovacuum": False,
    "fsync": False,
    "shared_buffers": "128MB",
    "compute_query_id": "on",
}
SCRIPT = """
usdt:{binary}:postgresql:query__start {{ @in[pid] = nsecs; }}
usdt:{binary}:postgresql:query__done {{ @queries = hist(nsecs - @in[pid]); delete(@in[pid]); }}
tracepoint:syscalls:sys_enter_pread64 /pid == {pid}/ {{ @start[tid] = nsecs; }}
tracepoint:syscalls:sys_exit_pread64 /@start[tid]/ {{
  @ns = hist(nsecs - @start[tid]);
  delete(@start[tid]);
}}
BEGIN {{ printf("ready\\n"); }}
"""
LONG = ", ".join(f"{number} as column_{number}" for number in range(40))
TEXTS = {
    "short": b"select filler from bench where id = $1",
    "of 700 characters": f"select filler, {LONG} from bench where id = $1".encode(),
}
PROTOCOLS = ("prepared", "simple")
TRACERS = {
    "light": "capture of the server, light",
    "server": "capture of the server",
    "backend": "attach",
    "reads": "attach --no-time",
    "bpftrace": "bpftrace",
    "floor": "floor: empty programs at the same probes",
}

Tracing = contextlib.AbstractContextManager[Callable[[], object]]
"""While it is entered something is traced; it yields what fetches records."""


@dataclass
class Series:
    """Nanoseconds of CPU for each query without a tracer and with one; by round."""

    untraced: list[list[float]] = field(default_factory=list)
    traced: list[list[float]] = field(default_factory=list)

    def add(self, before: list[float], traced: list[float], after: list[float]) -> None:
        """Hold each series against the ones as long before and after: a steady drift cancels."""
        around = zip(before, after, strict=True)
        self.untraced.append([(first + second) / 2 for first, second in around])
        self.traced.append(traced)


class Client:
    """One that runs queries, and knows what they cost its backend."""

    def __init__(self, connection: psycopg.Connection[Any], queries: int) -> None:
        self.server = connection.pgconn
        self.queries = queries
        self.pid = connection.info.backend_pid
        for name, text in TEXTS.items():
            self.server.prepare(name.encode(), text)

    def series(self, name: str, protocol: str) -> list[float]:
        """Nanoseconds for each query of some series, after one that fills caches."""
        self._run(name, protocol)
        return [self._run(name, protocol) for _ in range(PER_ATTACH)]

    def _run(self, name: str, protocol: str) -> float:
        draw = random.Random(1)
        before = self._cpu_ns()
        for _ in range(self.queries):
            number = b"%d" % draw.randrange(ROWS)
            if protocol == "simple":
                self.server.exec_(TEXTS[name].replace(b"$1", number))
            else:
                self.server.exec_prepared(name.encode(), [number])
        return (self._cpu_ns() - before) / self.queries

    def _cpu_ns(self) -> int:
        return int(Path(f"/proc/{self.pid}/schedstat").read_text().split()[0])


@contextmanager
def pgtrace(target: Target, **options: Any) -> Iterator[Callable[[], object]]:
    """As the commands do it."""
    tracer = Tracer(target, TraceOptions(**options))
    try:
        yield tracer.poll
    finally:
        tracer.stop()


@contextmanager
def floor(floors: Path, binary: Path) -> Iterator[Callable[[], object]]:
    """Nothing that is attached there can cost less."""
    with bench.empty_programs(floors, binary):
        yield lambda: None


@contextmanager
def bpftrace(binary: Path, pid: int) -> Iterator[Callable[[], object]]:
    """The same probes, and a map."""
    script = SCRIPT.format(binary=binary, pid=pid)
    process = subprocess.Popen(
        bench.bpftrace("-B", "line", "-p", pid, "-e", script), stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    if "ready\n" not in iter(process.stdout.readline, ""):
        raise BenchError("bpftrace ended before it had attached")
    try:
        yield lambda: None
    finally:
        process.terminate()
        process.communicate()


def fill(connection: psycopg.Connection[Any]) -> None:
    """Make the table of which rows are looked up."""
    connection.execute(
        "create table bench as select i as id, 'filler of ' || i as filler"
        f" from generate_series(0, {ROWS}) i"
    )
    connection.execute("create index on bench (id)")
    connection.execute("vacuum analyze bench")


def measure(
    cluster: PrivateCluster, floors: Path, rounds: int, queries: int, chosen: Sequence[str]
) -> dict[str, Series]:
    """Attach each tracer once a round, in random order, and only while it is measured."""
    series: dict[str, Series] = {}
    with cluster.connect() as connection:
        fill(connection)
        client = Client(connection, queries)
        tracers: dict[
            str, Callable[[], contextlib.AbstractContextManager[Callable[[], object]]]
        ] = {
            "light": lambda: pgtrace(Target.find(cluster.postmaster_pid), queries="light"),
            "server": lambda: pgtrace(Target.find(cluster.postmaster_pid)),
            "backend": lambda: pgtrace(Target.find(client.pid), per_query=True, times=True),
            "reads": lambda: pgtrace(Target.find(client.pid), per_query=True),
            "bpftrace": lambda: bpftrace(cluster.binary, client.pid),
            "floor": lambda: floor(floors, cluster.binary),
        }
        pairs = [(tracer, name, how) for tracer in chosen for name in TEXTS for how in PROTOCOLS]
        for number in range(rounds):
            random.shuffle(pairs)
            for at, (tracer, name, how) in enumerate(pairs):
                bench.progress(f"round {number + 1} of {rounds}, {at + 1} of {len(pairs)}")
                before = client.series(name, how)
                with tracers[tracer]() as poll:
                    traced = []
                    for _ in range(PER_ATTACH + 1):
                        traced.append(client._run(name, how))
                        poll()
                after = client.series(name, how)
                key = f"{TRACERS[tracer]}: {how}, {name}"
                series.setdefault(key, Series()).add(before, traced[1:], after)
    bench.progress("")
    return series


def document(series: dict[str, Series], version: int, tracers: int) -> dict[str, Any]:
    """Everything that was measured."""
    ratios = [
        bench.ratio(
            name, series[name].traced, series[name].untraced, bench.goal("query_cost", name)
        )
        for name in sorted(series)
    ]
    return {
        **bench.here(tracers),
        "postgresql": version,
        "rounds": ratios[0].rounds,
        "untraced_ns": {
            name: round(bench.quartiles(one.untraced)[1], 1) for name, one in series.items()
        },
        "ratios": [each.as_json() for each in ratios],
    }


def lines(found: Mapping[str, Any]) -> list[str]:
    """The same for people."""
    return [
        *bench.head(found, f"PostgreSQL {found['postgresql']}; {found['rounds']} rounds"),
        f"{'CPU time of a query, to that without a tracer':<50}  value  [95 % interval]",
        *(
            f"{bench.line(each)}, of {found['untraced_ns'][each['name']] / 1000:.1f} µs"
            for each in found["ratios"]
        ),
    ]


def measured(args: argparse.Namespace) -> dict[str, Any]:
    """On a server of its own."""
    with (
        PrivateCluster(SETTINGS, bindir=bench.programs(args.pg)) as cluster,
        tempfile.TemporaryDirectory(prefix="pgtrace-bench-") as directory,
    ):
        tracers = bench.other_tracers()
        floors = bench.compile_bpf("floors", Path(directory))
        series = measure(cluster, floors, args.rounds, args.queries, args.tracer or tuple(TRACERS))
    return document(series, args.pg, tracers)


def main() -> int:
    """Measure and print."""
    parser = bench.parser("query_cost", "What a traced query costs its backend in CPU time.")
    parser.add_argument("--rounds", type=int, default=10, metavar="N", help="of each pair (10)")
    parser.add_argument("--pg", type=int, default=15, metavar="N", help="PostgreSQL's version (15)")
    parser.add_argument(
        "--queries", type=int, default=1000, metavar="N",
        help="of one series; a thousand take some tens of milliseconds (1000)",
    )  # fmt: skip
    parser.add_argument(
        "--tracer", choices=TRACERS, action="append",
        help="measure this alone, so that a run stays short; may be given several times",
    )  # fmt: skip
    return bench.run(parser, measured, lines)


if __name__ == "__main__":
    sys.exit(main())
