"""How long pgtrace's own programs run at a query: `scripts/bench/program_cost` calls it where
tracefs is mounted.

The kernel's own statistics (kernel.bpf_stats_enabled) say it: less noisy than what a query costs
with them and without, as scripts/bench/query_cost has it. The breakpoints are not in it; the
kernel's two looks at its clock, which it takes for this, are.
"""

import argparse
import random
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from itertools import count
from pathlib import Path
from typing import Any

import bench
from query_cost import ROWS, SETTINGS, Tracing, fill, floor, pgtrace

from pgtrace.lab.core.private_cluster import PrivateCluster
from pgtrace.tracing.targets import Target

LENGTHS = (60, 200, 700)
QUERIES = 500
"""Of one kind, each time."""
TRACERS = {
    "without times": "full, each query told, without times",
    "with times": "full, with times, as attach has it",
    "added up": "full, added up, as capture has a server",
    "by text": "the same, where queries have no ids",
    "floor": "floor: empty programs at the same probes",
}
KINDS = {
    "prepared": "prepared, the same",
    "simple": "simple, the same",
    "new": "simple, with a literal never seen",
}
COLUMNS = {"status_ns": "pgt_q_status, each time", "query_ns": "all programs, a query"}
"""The second with what others call meanwhile, where tracepoints see all calls of the host."""

Rounds = dict[tuple[str, str, int, str], list[list[float]]]
"""By tracer, kind, characters and column: nanoseconds, by round."""
Programs = Mapping[int, tuple[str, int, int]]
"""As bench.ran() has them."""


def text_of(length: int, literal: str) -> bytes:
    """A look-up of one row, so long."""
    tail = f" from bench where id = {literal}"
    columns = "select filler"
    for number in count():
        longer = f"{columns}, {number} as column_{number}"
        if len(longer) + len(tail) > length:
            break
        columns = longer
    return columns.ljust(length - len(tail)).encode() + tail.encode()


def taken(before: Programs, after: Programs) -> tuple[float, float]:
    """Of the queries between: a run of pgt_q_status, and all programs for a query. A tracer that
    ended before may have gone meanwhile.
    """
    each = [
        (name, ns - before[number][1], times - before[number][2])
        for number, (name, ns, times) in after.items()
        if number in before
    ]
    ns, times = (sum(one[i] for one in each if one[0] == "pgt_q_status") for i in (1, 2))
    return ns / times, sum(ns for _, ns, _ in each) / QUERIES


def measure(cluster: PrivateCluster, floors: Path, rounds: int) -> Rounds:
    """Attach each tracer once a round, in random order, and have it see queries of each kind."""
    found: Rounds = {}
    literals = count(10**8)
    with cluster.connect() as connection, bench.counted():
        fill(connection)
        server, pid = connection.pgconn, connection.info.backend_pid
        for length in LENGTHS:
            server.prepare(b"%d" % length, text_of(length, "$1"))
        tracers: dict[str, Callable[[], Tracing]] = {
            "without times": lambda: pgtrace(Target.find(pid), per_query=True),
            "with times": lambda: pgtrace(Target.find(pid), per_query=True, times=True),
            "added up": lambda: pgtrace(Target.find(pid)),
            "by text": lambda: pgtrace(Target.find(pid)),
            "floor": lambda: floor(floors, cluster.binary),
        }

        def run(kind: str, length: int) -> None:
            for _ in range(QUERIES):
                if kind == "prepared":
                    server.exec_prepared(b"%d" % length, [b"%d" % random.randrange(ROWS)])
                else:
                    literal = next(literals) if kind == "new" else 12345
                    server.exec_(text_of(length, str(literal).zfill(9)))

        for number in range(rounds):
            for tracer in random.sample(list(tracers), len(tracers)):
                bench.progress(f"round {number + 1} of {rounds}, {tracer}")
                ids = b"off" if tracer == "by text" else b"on"
                server.exec_(b"set compute_query_id = " + ids)
                with tracers[tracer]() as poll:
                    for kind, length in random.sample(pairs := list(_pairs()), len(pairs)):
                        run(kind, length)
                        poll()
                        before = bench.ran()
                        run(kind, length)
                        values = taken(before, bench.ran())
                        poll()
                        for column, value in zip(COLUMNS, values, strict=True):
                            found.setdefault((tracer, kind, length, column), []).append([value])
    bench.progress("")
    return found


def _pairs() -> Iterator[tuple[str, int]]:
    return ((kind, length) for kind in KINDS for length in LENGTHS)


def document(found: Rounds, version: int, tracers: int) -> dict[str, Any]:
    """Everything that was measured."""
    return {
        **bench.here(tracers),
        "postgresql": version,
        "rounds": len(next(iter(found.values()))),
        "queries": [
            {
                "tracer": tracer,
                "kind": kind,
                "characters": length,
                **{
                    column: {
                        name: round(value, 1)
                        for name, value in bench.named_quartiles(
                            found[tracer, kind, length, column]
                        ).items()
                    }
                    for column in COLUMNS
                },
            }
            for tracer in TRACERS
            for kind, length in _pairs()
        ],
        "ratios": [],
    }


def lines(found: Mapping[str, Any]) -> list[str]:
    """The same for people."""
    about = f"PostgreSQL {found['postgresql']}; {found['rounds']} rounds of {QUERIES} queries"
    printed = bench.head(found, f"{about}; ns, medians [quartiles]")
    heads = "".join(f"{title:>26}" for title in COLUMNS.values())
    for tracer, title in TRACERS.items():
        printed += [f"{title:<50}{heads}"]
        for each in found["queries"]:
            if each["tracer"] == tracer:
                name = f"{KINDS[each['kind']]}, of {each['characters']} characters"
                figures = "".join(f"{_figure(each[column]):>26}" for column in COLUMNS)
                printed.append(f"  {name:<48}{figures}")
        printed.append("")
    return printed[:-1]


def _figure(of: Mapping[str, float]) -> str:
    low, middle, high = (of[name] for name in bench.QUARTILES)
    return f"{middle:,.0f} [{low:,.0f}, {high:,.0f}]"


def measured(args: argparse.Namespace) -> dict[str, Any]:
    """On a server of its own."""
    with (
        PrivateCluster(SETTINGS, bindir=bench.programs(args.pg)) as cluster,
        tempfile.TemporaryDirectory(prefix="pgtrace-bench-") as directory,
    ):
        tracers = bench.other_tracers()
        floors = bench.compile_bpf("floors", Path(directory))
        return document(measure(cluster, floors, args.rounds), args.pg, tracers)


def main() -> int:
    """Measure and print."""
    parser = bench.parser(
        "program_cost",
        "How long pgtrace's own programs run at a query, by the kernel's statistics.",
    )
    parser.add_argument("--rounds", type=int, default=10, metavar="N", help="of each tracer (10)")
    parser.add_argument("--pg", type=int, default=15, metavar="N", help="PostgreSQL's version (15)")
    bench.accept_object(parser)
    return bench.run(parser, measured, lines)


if __name__ == "__main__":
    sys.exit(main())
