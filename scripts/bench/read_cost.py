"""What a traced read costs: `scripts/bench/read_cost` calls it where tracefs is mounted."""

import argparse
import contextlib
import os
import random
import re
import signal
import struct
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import bench
from bench import BenchError

from pgtrace.engines import Member, Postmaster, Request
from pgtrace.engines.select import start
from pgtrace.libbpf.objects import Object

CALLS = 4000
"""Of one short run: about two milliseconds, so that few runs are interrupted."""
PER_ATTACH = 8
"""Pairs while a tracer is attached once."""
FILE_BYTES = 1 << 20
FILES = 8
"""For reads of several files in turn, as an index scan makes them."""

BARE = """
tracepoint:syscalls:sys_enter_pread64 /pid == $1/ { @start[tid] = nsecs; }
tracepoint:syscalls:sys_exit_pread64 /@start[tid]/ {
  @ns = hist(nsecs - @start[tid]);
  delete(@start[tid]);
}
"""
# At its best: one map holds all that is kept from entry to exit.
SAME_FIELDS = """
tracepoint:syscalls:sys_enter_pread64 /pid == $1/ {
  $file = (struct file *)*kptr((uint64 *)((uint64)curtask->files->fdt->fd + args->fd * 8));
  if (($file->f_inode->i_mode & 0170000) == 0100000) {
    @start[tid] = (nsecs, curtask->ioac.read_bytes, curtask->nvcsw);
  }
}
tracepoint:syscalls:sys_exit_pread64 /@start[tid].0/ {
  $start = @start[tid];
  @ns[curtask->ioac.read_bytes != $start.1, curtask->nvcsw != $start.2] = hist(nsecs - $start.0);
  delete(@start[tid]);
}
"""
# It handles what a program prints only once all are attached.
READY = 'BEGIN { printf("ready\\n"); }'
BUCKET = re.compile(r"^[\[(][^)\]]*[)\]]\s+(\d+) ", re.MULTILINE)

TRACERS = {
    "empty": "floor: two empty programs",
    "clocks": "floor: thread group, two clock reads",
    "pgtrace": "pgtrace",
    "by_file": "pgtrace --by relation",
    "bare": "bpftrace: start map and hist()",
    "same": "bpftrace: the same fields",
}
# What else is measured while a tracer is attached: whose loop, and which call.
BESIDE = {
    "turns": ("pgtrace", "traced", "turns", f"pgtrace, {FILES} files in turn"),
    "by_file_turns": ("by_file", "traced", "turns", "… --by relation"),
    "backend_pread": (
        "pgtrace",
        "backend",
        "pread",
        "another backend of the server: 8 KiB pread",
    ),
    "process_pread": ("pgtrace", "process", "pread", "any other process: 8 KiB pread"),
    "process_getppid": ("pgtrace", "process", "getppid", "any other process: getppid"),
}
BYSTANDERS = [name for name, (_, whose, *_) in BESIDE.items() if whose != "traced"]
NAMES = TRACERS | {name: what for name, (*_, what) in BESIDE.items()}
COMPARED = [
    ("pgtrace", "same"),
    ("pgtrace", "bare"),
    ("pgtrace", "clocks"),
    ("by_file", "pgtrace"),
    ("by_file_turns", "turns"),
]
ADDED = f"{'Traced with':<50} {'alone':>6}   {'added':>5}  [quartiles]"
RATIOS_OF_ADDED = f"{'Ratios of what was added':<50}  value  [95 % interval]"
NO_CHILD = ("sh", "-c", 'exec 3<&0; "$@" <&3 & wait', "sh")
"""Runs a command such that its parent is not this process."""

Detach = Callable[[], int | None]
"""Detaches, and says how many reads were counted; None if that tracer counts none."""


class Loop:
    """The pinned loop of system calls (loop.c); `title` is what `ps` shows of it."""

    def __init__(self, *command: str | Path, title: str | None = None) -> None:
        self._process = subprocess.Popen(
            [title or command[0], *command[1:]],
            executable=command[0],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.pid = self._process.pid
        self.reads = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._process.communicate()

    def run(self, call: str) -> float:
        """One short run: nanoseconds per call."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f"{call} {CALLS}\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        if not line:
            raise BenchError(f"the loop ended with {self._process.wait()}")
        self.reads += CALLS * (call != "getppid")
        return int(line) / CALLS

    def runs(self, call: str = "pread") -> list[float]:
        """As many as there are pairs, after one that fills caches and does not count."""
        self.run(call)
        return [self.run(call) for _ in range(PER_ATTACH)]


def request(pid: int, *, by_file: bool = False) -> Request:
    """As `pgtrace attach` on one backend, but without queries, which are no part of a read.

    The postmaster is this process.
    """
    master = os.getpid()
    member = Member(pid, pid, pid, master)
    return Request(
        members=(member,),
        postmasters=(Postmaster(master),),
        only=pid,
        helpers_only=True,
        by_file=by_file,
    )


def attach_pgtrace(by_file: bool, pid: int) -> Detach:
    """By the probe type that pgtrace takes by itself."""
    engine = start(request(pid, by_file=by_file))

    def detach() -> int:
        engine.detach()
        snapshots = [each for each in engine.snapshot() if each.tid == pid]
        counted = sum(counts.count for each in snapshots for counts in each.reads.values())
        engine.close()
        return counted

    return detach


def attach_bpftrace(script: str, pid: int) -> Detach:
    """What its histograms hold at the end is what it counted."""
    process = subprocess.Popen(
        bench.bpftrace("-B", "line", "-e", script + READY, pid),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None

    def detach() -> int:
        while True:
            process.send_signal(signal.SIGINT)
            # It misses a signal that comes while it does not wait for one
            with contextlib.suppress(subprocess.TimeoutExpired):
                output, errors = process.communicate(timeout=5)
                break
        if process.returncode != 0:
            raise BenchError(f"bpftrace ended with {process.returncode}: {errors}")
        return sum(int(count) for count in BUCKET.findall(output))

    if "ready\n" not in iter(process.stdout.readline, ""):
        detach()
        raise BenchError("bpftrace ended before it had attached")
    return detach


def attach_floor(path: Path, name: str, pid: int) -> Detach:
    """One of the two in floors.bpf.c."""
    with contextlib.ExitStack() as stack:
        floor = stack.enter_context(Object(path))
        floor.choose(lambda program: program.startswith(f"pgt_{name}_"))
        floor.map(".rodata.target").set_initial(struct.pack("<I", pid))
        floor.load()
        for side in ("exit", "enter"):
            floor.attach_tracepoint(f"pgt_{name}_{side}", "syscalls", f"sys_{side}_pread64")
        stack.pop_all()
    return floor.close


@dataclass
class Series:
    """Nanoseconds per call without a tracer, and what it added; by round."""

    untraced: list[list[float]] = field(default_factory=list)
    added: list[list[float]] = field(default_factory=list)

    def add(self, before: list[float], traced: list[float], after: list[float]) -> None:
        """Hold each run against the ones as long before and after: a steady drift cancels."""
        around = [(b + a) / 2 for b, a in zip(before, after, strict=True)]
        self.untraced.append(around)
        self.added.append([t - u for t, u in zip(traced, around, strict=True)])

    def as_json(self) -> dict[str, Any]:
        """Medians, and quartiles of the differences, in ns."""
        low, middle, high = bench.quartiles(self.added)
        return {
            "untraced_ns": round(bench.quartiles(self.untraced)[1], 1),
            "added_ns": round(middle, 1),
            "lower_quartile_ns": round(low, 1),
            "upper_quartile_ns": round(high, 1),
        }


def measure(directory: Path, rounds: int) -> dict[str, Series]:
    """Attach each tracer once a round, in random order, and only while it is measured."""
    floors = bench.compile_bpf("floors", directory)
    binary = bench.compile_c("loop", directory)
    data = [directory / f"data{number}" for number in range(FILES)]
    for number, file in enumerate(data):
        file.write_bytes(os.urandom(FILE_BYTES // (FILES if number else 1)))
    cpu = max(os.sched_getaffinity(0))
    attach: dict[str, Callable[[int], Detach]] = {
        "empty": partial(attach_floor, floors, "empty"),
        "clocks": partial(attach_floor, floors, "clocks"),
        "pgtrace": partial(attach_pgtrace, False),
        "by_file": partial(attach_pgtrace, True),
        "bare": partial(attach_bpftrace, BARE),
        "same": partial(attach_bpftrace, SAME_FIELDS),
    }
    series = {name: Series() for name in NAMES}
    command = (binary, str(cpu), *data)

    with (
        Loop(*command) as loop,
        # Whoever has no title of its own yet is looked at again at each read
        Loop(*command, title="postgres: alice shop [local] idle") as backend,
        Loop(*NO_CHILD, *command) as process,
    ):
        loops = {"traced": loop, "backend": backend, "process": process}

        def runs(name: str) -> dict[str, list[float]]:
            return {name: loop.runs()} | {
                other: loops[whose].runs(call)
                for other, (tracer, whose, call, _) in BESIDE.items()
                if tracer == name
            }

        def one_round(name: str) -> None:
            before = runs(name)
            made = -loop.reads
            detach = attach[name](loop.pid)
            try:
                traced = runs(name)
            finally:
                counted = detach()
            made += loop.reads
            if counted not in (None, made):
                raise BenchError(f"{TRACERS[name]}: {counted} of {made} reads were counted")
            after = runs(name)
            for what, values in series.items():
                if what in before:
                    values.add(before[what], traced[what], after[what])

        for number in range(rounds):
            bench.progress(f"round {number + 1} of {rounds}")
            for name in random.sample(list(TRACERS), len(TRACERS)):
                one_round(name)
        bench.progress("")
    return series


def compare(
    benchmark: str,
    compared: Iterable[tuple[str, str]],
    names: Mapping[str, str],
    series: Mapping[str, Series],
) -> list[dict[str, Any]]:
    """The ratios of what such pairs of tracers add, held against that benchmark's goals."""
    ratios = []
    for ours, other in compared:
        name = f"{names[ours]} to {names[other]}"
        goal = bench.goal(benchmark, name)
        ratios.append(bench.ratio(name, series[ours].added, series[other].added, goal).as_json())
    return ratios


def added_line(name: str, figures: Mapping[str, float]) -> str:
    """A line below ADDED, of what Series.as_json() has."""
    low, high = figures["lower_quartile_ns"], figures["upper_quartile_ns"]
    untraced, middle = figures["untraced_ns"], figures["added_ns"]
    return f"  {name:<48} {untraced:6.0f}   {middle:+5.0f}  [{low:+.0f}, {high:+.0f}]"


def probe_type() -> str:
    """The probe type that was measured."""
    engine = start(request(os.getpid()))
    engine.close()
    return engine.probe_type


def document(series: dict[str, Series], tracers: int) -> dict[str, Any]:
    """Everything that was measured."""
    rounds = len(series["pgtrace"].added)
    return {
        **bench.here(tracers),
        "reads": probe_type(),
        "rounds": rounds,
        "pairs": rounds * PER_ATTACH,
        "tracers": {name: series[name].as_json() for name in NAMES if name not in BYSTANDERS},
        "bystanders": {name: series[name].as_json() for name in BYSTANDERS},
        "ratios": compare("read_cost", COMPARED, NAMES, series),
    }


def lines(found: Mapping[str, Any]) -> list[str]:
    """The same for people."""
    pairs, rounds = found["pairs"], found["rounds"]
    return [
        *bench.head(
            found,
            f"8 KiB pread from the page cache; pgtrace traces reads by {found['reads']}",
            f"{pairs} pairs of {CALLS:,} calls in {rounds} rounds; ns per call",
        ),
        ADDED,
        *(added_line(NAMES[name], figures) for name, figures in found["tracers"].items()),
        "",
        "While pgtrace is attached to that one",
        *(added_line(NAMES[name], figures) for name, figures in found["bystanders"].items()),
        "",
        RATIOS_OF_ADDED,
        *map(bench.line, found["ratios"]),
    ]


def measured(args: argparse.Namespace) -> dict[str, Any]:
    """With files of its own."""
    tracers = bench.other_tracers()
    with tempfile.TemporaryDirectory(prefix="pgtrace-bench-") as directory:
        series = measure(Path(directory), max(1, -(-args.pairs // PER_ATTACH)))
    return document(series, max(tracers, bench.other_tracers()))


def main() -> int:
    """Measure and print."""
    parser = bench.parser(
        "read_cost", "What a traced read costs, in short paired runs; docs/benchmarks.md says more."
    )
    parser.add_argument("--pairs", type=int, default=400, metavar="N", help="of each tracer (400)")
    bench.accept_object(parser)
    return bench.run(parser, measured, lines)


if __name__ == "__main__":
    sys.exit(main())
