"""What a read costs that an I/O worker of PostgreSQL 18 makes: `scripts/bench/async_read` calls it
where tracefs is mounted.

CPU time of the backend that asks and of the one worker, by /proc/PID/schedstat, for each block of a
table that is scanned block by block from the page cache; each scan with a tracer is held against
those before and after it. Of what is added, the backend's part is in it, too: who asked has to be
noted, at a breakpoint.
"""

import argparse
import random
import struct
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import bench
import psycopg
from bench import BenchError
from read_cost import (
    ADDED,
    RATIOS_OF_ADDED,
    Series,
    added_line,
    attach_bpftrace,
    compare,
    probe_type,
)

from pgtrace.engines import probes
from pgtrace.lab.core.private_cluster import PrivateCluster
from pgtrace.libbpf.objects import Object
from pgtrace.postgres.binary import Programs
from pgtrace.tracing.options import TraceOptions
from pgtrace.tracing.targets import Target
from pgtrace.tracing.tracer import Tracer

PER_ATTACH = 5
"""Scans while a tracer is attached once,"""
FIRST = 10
"""after so many that do not count: by then pgtrace knows where the server tells what it needs."""
BLOCKS = 16_000
IN_MEMORY = 2048
"""So many of them at most are found in shared_buffers."""
SETTINGS = {
    "autovacuum": False,
    "fsync": False,
    "shared_buffers": "16MB",
    "io_method": "worker",
    "io_combine_limit": 1,  # each block is a read
    "max_parallel_workers_per_gather": 0,
}
ONE_WORKER = {18: {"io_workers": 1}, 19: {"io_min_workers": 1, "io_max_workers": 1}}
"""By version."""
SCAN = b"select count(*) from scanned"
# By the block alone: that of a relation is not to be had from the worker's read.
SCRIPT = """
uprobe:{binary}:smgrstartreadv {{ @asked[arg3] = pid; }}
tracepoint:syscalls:sys_enter_pread64 /@asked[(uint64)args->pos / 8192]/ {{
  $file = (struct file *)*kptr((uint64 *)((uint64)curtask->files->fdt->fd + (uint64)args->fd * 8));
  if (($file->f_inode->i_mode & 0170000) == 0100000) {{
    $block = (uint64)args->pos / 8192;
    @start[tid] = (nsecs, curtask->ioac.read_bytes, curtask->nvcsw, @asked[$block]);
    delete(@asked[$block]);
  }}
}}
tracepoint:syscalls:sys_exit_pread64 /@start[tid].0/ {{
  $start = @start[tid];
  @ns[$start.3, curtask->ioac.read_bytes != $start.1, curtask->nvcsw != $start.2] =
    hist(nsecs - $start.0);
  delete(@start[tid]);
}}
"""
TRACERS = {
    "clocks": "floor: two clock reads, one breakpoint",
    "light": "pgtrace, light",
    "full": "pgtrace, full",
    "bpftrace": "bpftrace: the same fields, and who asked",
}
COMPARED = [("light", "bpftrace"), ("light", "clocks"), ("full", "bpftrace"), ("full", "clocks")]

Tracing = AbstractContextManager[Callable[[], object]]
"""While it is entered something is traced; it yields what looks at it now and then."""


class Scans:
    """A backend that scans the table, and what that costs it and the worker."""

    def __init__(self, cluster: PrivateCluster, connection: psycopg.Connection[Any]) -> None:
        connection.execute(
            "create table scanned as select repeat('x', 1900) as filler"
            f" from generate_series(1, {BLOCKS * 4})"
        )
        connection.execute("vacuum analyze scanned")
        self.binary, self.postmaster = cluster.binary, cluster.postmaster_pid
        (self.worker,) = (
            pid
            for (pid,) in connection.execute(
                "select pid from pg_stat_activity where backend_type = 'io worker'"
            )
        )
        self._server, self.pid = connection.pgconn, connection.info.backend_pid
        self._pids = self.pid, self.worker
        self.made = 0

    def run(self) -> float:
        """Nanoseconds of CPU for each block of one scan."""
        before = self._cpu_ns()
        if self._server.exec_(SCAN).status != psycopg.pq.ExecStatus.TUPLES_OK:
            raise BenchError(f"the scan failed: {self._server.error_message.decode()}")
        self.made += 1
        return (self._cpu_ns() - before) / BLOCKS

    def _cpu_ns(self) -> int:
        return sum(int(Path(f"/proc/{pid}/schedstat").read_text().split()[0]) for pid in self._pids)


def check(tracer: str, counted: int, scans: int) -> None:
    """Raise BenchError where one misses reads."""
    least = scans * (BLOCKS - IN_MEMORY)
    if counted < least:
        raise BenchError(f"{tracer}: {counted} of {least} reads or more were counted")


@contextmanager
def pgtrace(scans: Scans, queries: str) -> Iterator[Callable[[], object]]:
    """As `capture` has a whole server. All that was read has to be counted."""
    options = TraceOptions(queries=queries)  # type: ignore[arg-type]  # one of both
    tracer, made = Tracer(Target.find(scans.postmaster), options), -scans.made
    try:
        yield tracer.poll
    finally:
        taken = tracer.stop(wait=True)
    made += scans.made
    counted = sum(
        one.blocks for backend in taken.backends for one in backend.io if backend.pid == scans.pid
    )
    check("pgtrace", counted, made)


@contextmanager
def bpftrace(scans: Scans) -> Iterator[Callable[[], object]]:
    """A script that tells who asked as far as one can."""
    detach, made = attach_bpftrace(SCRIPT.format(binary=scans.binary), scans.worker), -scans.made
    try:
        yield lambda: None
    finally:
        counted = detach() or 0
    check("bpftrace", counted, made + scans.made)


@contextmanager
def clocks(scans: Scans, floors: Path) -> Iterator[Callable[[], object]]:
    """The time of the worker's reads, and a program that does nothing where it is handed them."""
    with Object(floors) as floor:
        floor.choose(lambda program: program.startswith(("pgt_clocks_", "pgt_a_submit")))
        floor.map(".rodata.target").set_initial(struct.pack("<I", scans.worker))
        floor.load()
        for side in ("exit", "enter"):
            floor.attach_tracepoint(f"pgt_clocks_{side}", "syscalls", f"sys_{side}_pread64")
        with Programs() as programs:
            program = programs.of(Path(f"/proc/{scans.postmaster}/exe"))
            submitted = probes.attach_submissions(floor, program, -1)
        if not submitted:
            raise BenchError("it is not known where this server hands reads to its workers")
        yield lambda: None
        floor.close(wait=True)


def measure(cluster: PrivateCluster, floors: Path, rounds: int) -> dict[str, Series]:
    """Attach each tracer once a round, in random order, and only while it is measured."""
    series = {name: Series() for name in TRACERS}
    with cluster.connect() as connection:
        scans = Scans(cluster, connection)
        tracers: dict[str, Callable[[], Tracing]] = {
            "clocks": lambda: clocks(scans, floors),
            "light": lambda: pgtrace(scans, "light"),
            "full": lambda: pgtrace(scans, "full"),
            "bpftrace": lambda: bpftrace(scans),
        }

        def several(first: int = 1, look: Callable[[], object] = lambda: None) -> list[float]:
            for _ in range(first):
                scans.run()
                look()
            return [scans.run() for _ in range(PER_ATTACH)]

        for number in range(rounds):
            for name in random.sample(list(TRACERS), len(TRACERS)):
                bench.progress(f"round {number + 1} of {rounds}, {name}")
                before = several()
                with tracers[name]() as look:
                    traced = several(FIRST, look)
                series[name].add(before, traced, several())
    bench.progress("")
    return series


def document(series: dict[str, Series], version: int, tracers: int) -> dict[str, Any]:
    """Everything that was measured."""
    return {
        **bench.here(tracers),
        "postgresql": version,
        "reads": probe_type(),
        "rounds": len(series["light"].added),
        "tracers": {name: one.as_json() for name, one in series.items()},
        "ratios": compare("async_read", COMPARED, TRACERS, series),
    }


def lines(found: Mapping[str, Any]) -> list[str]:
    """The same for people."""
    return [
        *bench.head(
            found,
            f"PostgreSQL {found['postgresql']}; 8 KiB reads of the page cache by an I/O worker; "
            f"pgtrace traces reads by {found['reads']}",
            f"{found['rounds']} rounds of {PER_ATTACH} scans of {BLOCKS:,} blocks; "
            "ns of CPU for each block",
        ),
        ADDED,
        *(added_line(TRACERS[name], figures) for name, figures in found["tracers"].items()),
        "",
        RATIOS_OF_ADDED,
        *map(bench.line, found["ratios"]),
    ]


def measured(args: argparse.Namespace) -> dict[str, Any]:
    """On a server of its own."""
    tracers = bench.other_tracers()
    with (
        PrivateCluster(SETTINGS | ONE_WORKER[args.pg], bindir=bench.programs(args.pg)) as cluster,
        tempfile.TemporaryDirectory(prefix="pgtrace-bench-") as directory,
    ):
        floors = bench.compile_bpf("floors", Path(directory))
        series = measure(cluster, floors, args.rounds)
    return document(series, args.pg, max(tracers, bench.other_tracers()))


def main() -> int:
    """Measure and print."""
    parser = bench.parser("async_read", "What a read that an I/O worker makes costs its server.")
    parser.add_argument("--rounds", type=int, default=20, metavar="N", help="of each tracer (20)")
    parser.add_argument("--pg", type=int, default=18, choices=ONE_WORKER, help="(18)")
    bench.accept_object(parser)
    return bench.run(parser, measured, lines)


if __name__ == "__main__":
    sys.exit(main())
