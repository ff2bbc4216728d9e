"""What measuring times takes at each switch of tasks: `scripts/bench/switch_cost` calls it where
tracefs is mounted.

pgbench runs all the time. The kernel's own statistics (kernel.bpf_stats_enabled) say how long a
tracer's programs ran, in the processes of the server and in others: held against the CPU time of
the server's processes, that is less noisy than what a transaction costs with them and without, as
scripts/bench/server_cost has it. The way to them and what their memory costs whoever runs next are
not in it, so that a tracer costs no less.

Then the server has nothing to do, and two processes that nobody traces wake each other in turn.
"""

import argparse
import os
import random
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import bench
from server_cost import CLIENTS, SCALE, SECONDS, SETTINGS, WORKLOADS, Load, prepared

from pgtrace.lab.core.private_cluster import PrivateCluster
from pgtrace.tracing.tracer import trace

AT_SWITCH = ("pgt_sb_switch", "pgt_sr_switch")
EMPTY, LEAST, BY_STATEMENT, LIGHT, TIME = TRACERS = (
    "empty programs",
    "least of time",
    "least of time, by statement",
    "light",
    "light, time",
)
TURNS = 20_000
PASSED_BY = 4
"""Rounds of those that are not traced, for each of the others: they are short, and in one after
another the same programs took 47 to 81 ns a switch.
"""
FLOOR = f"{LIGHT} + {BY_STATEMENT}"

Rounds = dict[str, list[list[float]]]
"""By tracer, by round."""


class Counts(NamedTuple):
    """What the kernel has counted so far."""

    ns: int
    """Of all programs,"""
    switch_ns: int
    """of those at the switch alone,"""
    switches: int
    """and how often these ran."""


@dataclass
class Measured:
    """By tracer: the share of the server's CPU time, and nanoseconds of a switch."""

    share: Rounds = field(default_factory=dict)
    switch_ns: Rounds = field(default_factory=dict)
    untraced_ns: Rounds = field(default_factory=dict)
    """Of one from an untraced process to another."""


def taken() -> Counts:
    """Of all programs that run now."""
    ours = bench.ran().values()
    switch = [(ns, times) for name, ns, times in ours if name in AT_SWITCH]
    return Counts(
        sum(ns for _, ns, _ in ours),
        sum(ns for ns, _ in switch),
        sum(times for _, times in switch),
    )


def traced(
    name: str, cluster: PrivateCluster, compiled: Mapping[str, Path]
) -> AbstractContextManager[object]:
    """One of TRACERS."""
    if name == EMPTY:
        return bench.empty_programs(compiled["floors"], None, switch=True)
    if name in (LIGHT, TIME):
        return trace(cluster.postmaster_pid, queries="light", times=name == TIME)
    by_statement = name == BY_STATEMENT
    least = compiled["least_time"]
    return bench.least_time(least, cluster.postmaster_pid, by_statement=by_statement)


def measure(
    cluster: PrivateCluster, compiled: Mapping[str, Path], load: Load, rounds: int
) -> Measured:
    """Each tracer once a round, in random order."""
    found = Measured()
    for turn in range(rounds):
        for name in random.sample(TRACERS, len(TRACERS)):
            bench.progress(f"round {turn + 1} of {rounds}, {name}")
            with traced(name, cluster, compiled):
                load.seconds(1)  # what is met for the first time
                before, cpu_ns = taken(), load.cpu_ns()
                load.seconds(SECONDS)
                after, cpu_ns = taken(), load.cpu_ns() - cpu_ns
            found.share.setdefault(name, []).append([(after.ns - before.ns) / cpu_ns])
            if after.switches > before.switches:
                found.switch_ns.setdefault(name, []).append([each_ns(before, after)])
        found.share.setdefault(FLOOR, []).append(
            [found.share[LIGHT][turn][0] + found.share[BY_STATEMENT][turn][0]]
        )
    bench.progress("")
    return found


@contextmanager
def woken_in_turn() -> Iterator[Callable[[], None]]:
    """A process that waits for this one, on the same CPU; what is called has each wait for the
    other so many times.
    """
    (ours, to_other), (others, to_us) = os.pipe(), os.pipe()
    allowed = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(allowed)})
    child = os.fork()
    if not child:
        while os.read(ours, 1) != b"e":
            os.write(to_us, b"w")
        os._exit(0)

    def wake() -> None:
        for _ in range(TURNS):
            os.write(to_other, b"w")
            os.read(others, 1)

    try:
        yield wake
    finally:
        os.write(to_other, b"e")
        os.waitpid(child, 0)
        os.sched_setaffinity(0, allowed)
        for end in (ours, to_other, others, to_us):
            os.close(end)


def measure_untraced(
    found: Measured, cluster: PrivateCluster, compiled: Mapping[str, Path], rounds: int
) -> None:
    """The same of switches that are none of the server's."""
    with woken_in_turn() as wake:
        for _ in range(rounds):
            for name in random.sample((EMPTY, TIME), 2):
                with traced(name, cluster, compiled), cluster.connect() as connection:
                    connection.execute("select 'by which the server is known'")
                    wake()
                    before = taken()
                    wake()
                    found.untraced_ns.setdefault(name, []).append([each_ns(before, taken())])


def each_ns(before: Counts, after: Counts) -> float:
    """Of one switch meanwhile."""
    return (after.switch_ns - before.switch_ns) / (after.switches - before.switches)


def document(found: Measured, load: str, tracers: int) -> dict[str, Any]:
    """Everything that was measured."""
    ours = found.share[TIME]

    def spread(of: Rounds) -> dict[str, dict[str, float]]:
        return {name: bench.named_quartiles(rounds) for name, rounds in of.items()}

    return {
        **bench.here(tracers),
        "load": load,
        "rounds": len(ours),
        "share": spread(found.share),
        "switch_ns": spread(found.switch_ns),
        "untraced_ns": spread(found.untraced_ns),
        "ratios": [
            bench.ratio(f"{TIME} to {name}", ours, of_it, None).as_json()
            for name, of_it in found.share.items()
            if name != TIME
        ],
    }


def lines(found: Mapping[str, Any]) -> list[str]:
    """The same for people."""
    shown = [
        *bench.head(found, f"{found['load']}; {found['rounds']} rounds of {SECONDS} s"),
        f"{'Programs':<38}the server's CPU time   a switch  [quartiles]",
    ]
    for name, of_it in found["share"].items():
        low, share, high = (100 * of_it[each] for each in bench.QUARTILES)
        line = f"  {name:<36}{share:5.1f} %  [{low:.1f}, {high:.1f}]"
        if name in found["switch_ns"]:
            few, ns, many = (found["switch_ns"][name][each] for each in bench.QUARTILES)
            line = f"{line:<62}{ns:6,.0f} ns  [{few:,.0f}, {many:,.0f}]"
        shown.append(line)
    shown += ["", f"{'A switch between processes that are not traced':<62}      ns  [quartiles]"]
    for name, of_it in found["untraced_ns"].items():
        few, ns, many = (of_it[each] for each in bench.QUARTILES)
        shown.append(f"  {name:<60}{ns:6,.0f} ns  [{few:,.0f}, {many:,.0f}]")
    ratios = f"{'Ratios of medians, of that time':<50}  value  [95 % interval]"
    return [*shown, "", ratios, *map(bench.line, found["ratios"])]


def measured(args: argparse.Namespace) -> dict[str, Any]:
    """On a server of its own."""
    with prepared(args.pg, args.scale, SETTINGS) as (cluster, compiled, tracers), bench.counted():
        with closing(Load(cluster, args.workload, args.clients)) as load:
            found = measure(cluster, compiled, load, args.rounds)
        measure_untraced(found, cluster, compiled, PASSED_BY * args.rounds)
    said = f"PostgreSQL {args.pg}, {args.workload}, {args.clients} clients"
    return document(found, said, tracers)


def main() -> int:
    """Measure and print."""
    parser = bench.parser(
        "switch_cost",
        "What measuring times takes at each switch of tasks, by the kernel's account.",
    )
    parser.add_argument("--rounds", type=int, default=10, metavar="N", help="(10)")
    parser.add_argument("--pg", type=int, default=15, metavar="N", help="PostgreSQL's version (15)")
    parser.add_argument("--scale", type=int, default=SCALE, metavar="N", help=f"({SCALE})")
    parser.add_argument("--workload", choices=list(WORKLOADS), default="TPC-B", help="(TPC-B)")
    parser.add_argument(
        "--clients", type=int, default=CLIENTS[-1], metavar="N", help=f"({CLIENTS[-1]})"
    )
    return bench.run(parser, measured, lines)


if __name__ == "__main__":
    sys.exit(main())
