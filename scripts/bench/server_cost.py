"""What tracing costs a server that is busy: `scripts/bench/server_cost` calls it where tracefs is
mounted.

pgbench runs all the time. CPU time of the server's processes by /proc/PID/schedstat, divided by
transactions, second by second; seconds with a tracer are held against those before and after them.
Those in which it attaches or detaches are in neither.
"""

import argparse
import contextlib
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

import bench

from pgtrace.engines import OPERATIONS
from pgtrace.files import documents
from pgtrace.lab.core.private_cluster import PrivateCluster
from pgtrace.postgres import discovery, proc
from pgtrace.tracing.targets import has_aio, postmaster

SCALE = 50
SECONDS = 2
"""Of one stretch, with a tracer and without."""
COLLECTOR_SETTLES_S = 3
"""While it gets to know who is there, it takes more than later."""
WORKLOADS = {"select-only": ("-S",), "TPC-B": ()}
LEAST_S = 0.5
"""Of a second, as this process sees it: where the host kept it from running two come at once."""
CLIENTS = (8, 50)
SETTINGS = {
    "autovacuum": False,
    "compute_query_id": "on",
    "max_connections": 100,
    "max_wal_size": "4GB",
    "shared_buffers": "32MB",
    "synchronous_commit": False,
}


@dataclass(frozen=True)
class Tier:
    """How a server is traced."""

    options: tuple[str, ...] = ()
    """Of `pgtrace capture`."""
    names: bool = False
    floor: bool = False
    """Programs that do nothing, in the place of pgtrace's."""
    least: bool = False
    """At the switch of tasks alone, what no program that measures times can do without."""


FULL = ("--queries", "full")
TIERS = {
    "light": Tier(("--queries", "light")),
    "full": Tier(FULL),
    "light, time": Tier(("--queries", "light", "--time")),
    "light, everything": Tier(
        ("--queries", "light", "--by", "relation", "--operations", ",".join(OPERATIONS)), names=True
    ),
    "floor of light": Tier(floor=True),
    "floor of full": Tier(FULL, floor=True),
    "floor of light, time": Tier(("--time",), floor=True),
    "least of time": Tier(least=True),
}


@dataclass
class Second:
    """What one second was like."""

    ns: float
    """CPU time of the server for one transaction."""
    tps: float
    collector: float
    """CPU time of the collector, as a share of a core."""


@dataclass
class Series:
    """Seconds without a tracer and with one, by round."""

    untraced: list[list[Second]] = field(default_factory=list)
    traced: list[list[Second]] = field(default_factory=list)
    peak_mib: float = 0.0
    """What the collector took at most."""

    def of(self, name: str) -> tuple[list[list[float]], list[list[float]]]:
        """One figure of all seconds, traced and untraced."""
        traced, untraced = (
            [[getattr(second, name) for second in one] for one in side]
            for side in (self.traced, self.untraced)
        )
        return traced, untraced


class Load:
    """pgbench, and what the server needs for it."""

    def __init__(self, cluster: PrivateCluster, workload: str, clients: int) -> None:
        self._postmaster = cluster.postmaster_pid
        options = ["-n", "-M", "prepared", "-P", "1", "-T", "86400"]
        options += ["-c", str(clients), "-j", "2", *WORKLOADS[workload]]
        command = cluster.command("pgbench", *options)  # its root may not be ours
        self._process = subprocess.Popen(
            command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
        )
        self._pids: tuple[int, ...] = ()
        self._next()
        self._pids = tuple(pid for pid in proc.pids() if proc.parent(pid) == self._postmaster)

    def close(self) -> None:
        """End it."""
        self._process.terminate()
        self._process.communicate()

    def seconds(self, number: int, collector: bench.Collector | None = None) -> list[Second]:
        """So many of them, after one that is not looked at, or, of a collector, more."""

        def own() -> float:
            return collector.cpu_s() if collector else 0.0

        settled = time.monotonic() + (COLLECTOR_SETTLES_S if collector else 1)
        while time.monotonic() < settled:  # lines of meanwhile come at once
            self._next()
        found = []
        before, own_before, began = self.cpu_ns(), own(), time.monotonic()
        while len(found) < number:
            tps = self._next()
            after, own_after, ended = self.cpu_ns(), own(), time.monotonic()
            took = ended - began
            if took < LEAST_S:
                continue
            share = (own_after - own_before) / took
            found.append(Second((after - before) / (tps * took), tps, share))
            before, own_before, began = after, own_after, ended
        return found

    def cpu_ns(self) -> int:
        """What the server's processes have taken so far."""
        total = 0
        for pid in self._pids:
            with contextlib.suppress(OSError):
                total += int(Path(f"/proc/{pid}/schedstat").read_text().split()[0])
        return total

    def _next(self) -> float:
        """Wait for the next second, and return its transactions."""
        assert self._process.stderr is not None
        for line in self._process.stderr:
            words = line.split()
            if words[:1] == ["progress:"]:
                return float(words[3])
        raise bench.BenchError("pgbench has ended")


@contextmanager
def prepared(
    pg: int, scale: int, settings: Mapping[str, Any]
) -> Iterator[tuple[PrivateCluster, dict[str, Path], int]]:
    """A server with pgbench's tables, the programs to hold pgtrace's against, and how many others
    trace.
    """
    with (
        PrivateCluster(dict(settings), bindir=bench.programs(pg)) as cluster,
        tempfile.TemporaryDirectory(prefix="pgtrace-bench-") as directory,
    ):
        cluster.run("pgbench", "-q", "-i", "-s", str(scale))
        objects = ("floors", "least_time")
        compiled = {name: bench.compile_bpf(name, Path(directory)) for name in objects}
        yield cluster, compiled, bench.other_tracers()


@contextmanager
def traced(
    cluster: PrivateCluster, tier: Tier, compiled: Mapping[str, Path]
) -> Iterator[bench.Collector | None]:
    """By `capture` of the whole server; or a floor, which has no collector."""
    if tier.least:
        with bench.least_time(compiled["least_time"], cluster.postmaster_pid):
            yield None
        return
    if tier.floor:
        binary = Path(f"/proc/{cluster.postmaster_pid}/exe")
        server = discovery.server(cluster.postmaster_pid)
        with bench.empty_programs(
            compiled["floors"],
            binary if tier.options == FULL else None,
            switch="--time" in tier.options,
            asked_in=binary if postmaster(server).io_workers else None,
            uring=has_aio(server),
        ):
            yield None
        return
    names = ("--dsn", cluster.dsn()) if tier.names else ("--no-connect",)
    with tempfile.TemporaryDirectory(prefix="pgtrace-bench-") as directory:
        output = Path(directory) / "capture.json"
        with closing(bench.Collector(cluster.datadir, output, *tier.options, *names)) as collector:
            yield collector
        lost = documents.load(output).lost
    if lost.read or lost.queries or lost.backends:
        raise bench.BenchError(f"something was lost: {lost}")


def measure(
    cluster: PrivateCluster,
    compiled: Mapping[str, Path],
    tiers: Sequence[str],
    loads: list[tuple[str, int]],
    rounds: int,
) -> dict[str, Series]:
    """Each tier once a round, in random order, under each load."""
    found: dict[str, Series] = {}
    for turn in range(rounds):
        random.shuffle(loads)
        for workload, number in loads:
            with closing(Load(cluster, workload, number)) as load:
                before = load.seconds(SECONDS)
                for name in random.sample(tiers, len(tiers)):
                    key = f"{name}: {workload}, {number} clients"
                    bench.progress(f"round {turn + 1} of {rounds}, {key}")
                    series = found.setdefault(key, Series())
                    with traced(cluster, TIERS[name], compiled) as collector:
                        during = load.seconds(SECONDS, collector)
                        if collector:
                            series.peak_mib = max(series.peak_mib, collector.peak_mib())
                    after = load.seconds(SECONDS)
                    series.untraced.append(before + after)
                    series.traced.append(during)
                    before = after
    bench.progress("")
    return found


def document(series: dict[str, Series], server: str, tracers: int) -> dict[str, Any]:
    """Everything that was measured."""
    found: dict[str, Any] = {
        **bench.here(tracers),
        "server": server,
        "loads": {},
        "ratios": [],
    }
    for name in sorted(series):
        of_it = series[name]
        cpu, tps = of_it.of("ns"), of_it.of("tps")
        found["rounds"] = len(of_it.traced)
        found["ratios"].append(bench.ratio(name, *cpu, bench.goal("server_cost", name)).as_json())
        found["loads"][name] = {
            "untraced_ns": round(bench.quartiles(cpu[1])[1], 1),
            "untraced_tps": round(bench.quartiles(tps[1])[1], 1),
            "tps": bench.ratio(name, *tps, None).as_json(),
            "collector": round(median(v for one in of_it.of("collector")[0] for v in one), 4),
            "collector_mib": round(of_it.peak_mib, 1),
        }
    return found


def lines(found: Mapping[str, Any]) -> list[str]:
    """The same for people."""
    shown = [
        *bench.head(found, f"{found['server']}; {found['rounds']} rounds of {SECONDS} s"),
        f"{'CPU time of a transaction, to that without':<50}  value  [95 % interval]",
    ]
    for each in found["ratios"]:
        load = found["loads"][each["name"]]
        tps = load["tps"]
        collector = ""
        if mib := load.get("collector_mib"):  # programs that do nothing have none
            collector = f"; the collector {load['collector']:.1%} of a core, {mib:.0f} MiB"
        shown += [
            bench.line(each),
            f"      of {load['untraced_ns'] / 1000:,.0f} µs; {tps['value']:.2f} "
            f"[{tps['low']:.2f}, {tps['high']:.2f}] of {load['untraced_tps']:,.0f} tps{collector}",
        ]
    return shown


def measured(args: argparse.Namespace) -> dict[str, Any]:
    """On a server of its own."""
    settings = SETTINGS | ({"io_method": args.io_method} if args.io_method else {})
    loads = [
        (workload, number)
        for workload in args.workload or WORKLOADS
        for number in args.clients or CLIENTS
    ]
    with prepared(args.pg, args.scale, settings) as (cluster, compiled, tracers):
        series = measure(cluster, compiled, args.tier or list(TIERS), loads, args.rounds)
    version = f"PostgreSQL {args.pg}" + (f", io_method {args.io_method}" if args.io_method else "")
    return document(series, version, tracers)


def main() -> int:
    """Measure and print."""
    parser = bench.parser(
        "server_cost", "What tracing costs a server that is busy, in CPU time of a transaction."
    )
    parser.add_argument("--rounds", type=int, default=10, metavar="N", help="(10)")
    parser.add_argument("--pg", type=int, default=15, metavar="N", help="PostgreSQL's version (15)")
    parser.add_argument("--io-method", help="of PostgreSQL 18: sync, worker or io_uring")
    parser.add_argument("--scale", type=int, default=SCALE, metavar="N", help=f"({SCALE})")
    parser.add_argument("--workload", choices=list(WORKLOADS), action="append")
    parser.add_argument("--clients", type=int, metavar="N", action="append", help="(8 and 50)")
    parser.add_argument("--tier", choices=list(TIERS), action="append", help="(all)")
    return bench.run(parser, measured, lines)


if __name__ == "__main__":
    sys.exit(main())
