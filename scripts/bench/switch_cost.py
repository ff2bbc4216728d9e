"""What measuring times takes at each switch of tasks: `scripts/bench/switch_cost` calls it where
tracefs is mounted.

pgbench runs all the time. The kernel's own statistics (kernel.bpf_stats_enabled) say how long the
program at the switch ran, in the processes of the server and in others: held against the CPU time
of the server's processes, that is less noisy than what a transaction costs with it and without, as
scripts/bench/server_cost has it. What its memory costs whoever runs next is not in it.
"""

import argparse
import json
import random
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, closing, contextmanager
from pathlib import Path
from typing import Any

import bench
from server_cost import CLIENTS, SCALE, SECONDS, SETTINGS, WORKLOADS, Load

from pgtrace.errors import PgtraceError
from pgtrace.lab.core.private_cluster import PrivateCluster
from pgtrace.tracing.tracer import trace

PROGRAMS = ("pgt_sb_switch", "pgt_sr_switch")
STATISTICS = Path("/proc/sys/kernel/bpf_stats_enabled")
TRACERS = ("empty", "least", "least by statement", "pgtrace")

Rounds = dict[str, dict[str, list[list[float]]]]
"""By tracer: `share` of the server's CPU time, and nanoseconds of `a switch`, by round."""


@contextmanager
def counted() -> Iterator[None]:
    """Let the kernel take the time of programs."""
    before = STATISTICS.read_text()
    STATISTICS.write_text("1")
    try:
        yield
    finally:
        STATISTICS.write_text(before)


def taken() -> tuple[int, int]:
    """Nanoseconds that programs at the switch took so far, and how often one ran."""
    command = ["bpftool", "--json", "prog", "show"]
    listed = json.loads(subprocess.run(command, capture_output=True, check=True).stdout)
    found = [each for each in listed if each.get("name") in PROGRAMS]
    return sum(e["run_time_ns"] for e in found), sum(e["run_cnt"] for e in found)


def traced(
    name: str, cluster: PrivateCluster, compiled: Mapping[str, Path]
) -> AbstractContextManager[object]:
    """One of TRACERS."""
    if name == "empty":
        return bench.empty_programs(compiled["floors"], None, switch=True)
    if name == "pgtrace":
        return trace(cluster.postmaster_pid, queries="light", times=True)
    by_statement = name == "least by statement"
    return bench.least_time(
        compiled["least_time"], cluster.postmaster_pid, by_statement=by_statement
    )


def measure(
    cluster: PrivateCluster, compiled: Mapping[str, Path], load: Load, rounds: int
) -> Rounds:
    """Each tracer once a round, in random order."""
    found: Rounds = {name: {"share": [], "switch_ns": []} for name in TRACERS}
    for turn in range(rounds):
        for name in random.sample(TRACERS, len(TRACERS)):
            bench.progress(f"round {turn + 1} of {rounds}, {name}")
            with traced(name, cluster, compiled):
                load.seconds(1)  # what is met for the first time
                (ns, times), cpu_ns = taken(), load.cpu_ns()
                load.seconds(SECONDS)
                (ns_then, times_then), cpu_ns_then = taken(), load.cpu_ns()
            found[name]["share"].append([(ns_then - ns) / (cpu_ns_then - cpu_ns)])
            found[name]["switch_ns"].append([(ns_then - ns) / (times_then - times)])
    bench.progress("")
    return found


def document(found: Rounds, load: str, tracers: int) -> dict[str, Any]:
    """Everything that was measured."""
    return {
        "host": bench.host(),
        "other_tracers": tracers,
        "load": load,
        "rounds": len(found["pgtrace"]["share"]),
        "tracers": {
            name: {what: bench.named_quartiles(rounds) for what, rounds in of_it.items()}
            for name, of_it in found.items()
        },
        "ratios": [
            bench.ratio(f"pgtrace to {name}", found["pgtrace"]["share"], rounds, None).as_json()
            for name, rounds in ((name, found[name]["share"]) for name in TRACERS[:-1])
        ],
    }


def lines(found: Mapping[str, Any]) -> list[str]:
    """The same for people."""
    shown = [
        found["host"],
        f"{found['load']}; {found['rounds']} rounds of {SECONDS} s",
        *bench.warnings(found["other_tracers"]),
        "",
        f"{'At the switch of tasks':<26}the server's CPU time          a switch  [quartiles]",
    ]
    for name, of_it in found["tracers"].items():
        low, share, high = (100 * of_it["share"][each] for each in bench.QUARTILES)
        few, ns, many = (of_it["switch_ns"][each] for each in bench.QUARTILES)
        shown.append(
            f"  {name:<22}{share:6.1f} %  [{low:.1f}, {high:.1f}]"
            f"{ns:>20,.0f} ns  [{few:,.0f}, {many:,.0f}]"
        )
    ratios = f"{'Ratios of medians, of the share':<50}  value  [95 % interval]"
    return [*shown, "", ratios, *map(bench.line, found["ratios"])]


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        prog="scripts/bench/switch_cost",
        description="What measuring times takes at each switch of tasks, by the kernel's account.",
    )
    parser.add_argument("--rounds", type=int, default=10, metavar="N", help="(10)")
    parser.add_argument("--pg", type=int, default=15, metavar="N", help="PostgreSQL's version (15)")
    parser.add_argument("--scale", type=int, default=SCALE, metavar="N", help=f"({SCALE})")
    parser.add_argument("--workload", choices=list(WORKLOADS), default="TPC-B", help="(TPC-B)")
    parser.add_argument(
        "--clients", type=int, default=CLIENTS[-1], metavar="N", help=f"({CLIENTS[-1]})"
    )
    parser.add_argument("--json", action="store_true", help="print JSON")
    args = parser.parse_args()
    bench.interruptible()
    try:
        with (
            PrivateCluster(SETTINGS, bindir=bench.programs(args.pg)) as cluster,
            tempfile.TemporaryDirectory(prefix="pgtrace-bench-") as directory,
            counted(),
        ):
            cluster.run("pgbench", "-q", "-i", "-s", str(args.scale))
            tracers = bench.other_tracers()
            objects = ("floors", "least_time")
            compiled = {name: bench.compile_bpf(name, Path(directory)) for name in objects}
            with closing(Load(cluster, args.workload, args.clients)) as load:
                rounds = measure(cluster, compiled, load, args.rounds)
    except PgtraceError as error:
        print(f"scripts/bench/switch_cost: {error}", file=sys.stderr)
        return 1
    said = f"PostgreSQL {args.pg}, {args.workload}, {args.clients} clients"
    found = document(rounds, said, tracers)
    print(json.dumps(found, indent=2) if args.json else "\n".join(lines(found)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
