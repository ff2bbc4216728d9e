"""What starting costs: `scripts/bench/startup` calls it where tracefs is mounted."""

import argparse
import os
import random
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import bench
from bench import BenchError

from pgtrace.engines.select import probe_types
from pgtrace.errors import PgtraceError
from pgtrace.lab.core.private_cluster import PrivateCluster

BCC = "pgtrace --engine bcc"
# As the published script watches a backend. It handles the exit only once all are attached.
SCRIPT = """
usdt:{binary}:postgresql:query__start {{ printf("start %s\\n", str(arg0)); }}
usdt:{binary}:postgresql:query__done {{ print(@ns); clear(@ns); }}
tracepoint:syscalls:sys_enter_pread64 /pid == {pid}/ {{ @start[tid] = nsecs; }}
tracepoint:syscalls:sys_exit_pread64 /@start[tid]/ {{
  @ns = hist(nsecs - @start[tid]);
  delete(@start[tid]);
}}
BEGIN {{ exit(); }}
"""
UNITS = {
    "seconds": ("wall time", "s"),
    "mebibytes": ("peak memory", "MiB"),
    "seconds_until_gone": ("until gone", "s"),
    "seconds_after_end": ("after end", "s"),
}
COMPARED = ("seconds", "mebibytes")

Runs = dict[str, dict[str, list[list[float]]]]
"""Of each tool, what UNITS names, by round."""


def launch(launcher: Path, command: Sequence[str | Path]) -> dict[str, float]:
    """Run it from its start to its end."""
    ran = subprocess.run([launcher, *command], capture_output=True, text=True, check=False)
    if ran.returncode != 0:
        raise BenchError(ran.stderr.strip())
    nanoseconds, later, kibibytes, status = map(int, ran.stdout.split())
    if status != 0:
        how = os.waitstatus_to_exitcode(status)
        raise BenchError(f"{command[0]} ended with {how}: {ran.stderr.strip()}")
    return {
        "seconds": nanoseconds / 1e9,
        "mebibytes": kibibytes / 1024,
        "seconds_until_gone": later / 1e9,
        "seconds_after_end": (later - nanoseconds) / 1e9,
    }


def why_no_bcc() -> str | None:
    """Why the second engine cannot be measured here."""
    try:
        probe_types(os.getpid(), "bcc")
    except PgtraceError as error:
        return str(error)
    return None


def measure(directory: Path, rounds: int, *, bcc: bool) -> Runs:
    """All tools on one idle backend, in turn; which is first is drawn each time."""
    launcher = bench.compile_c("launch", directory)
    with PrivateCluster() as cluster, cluster.connect() as backend:
        pid = backend.info.backend_pid
        script = SCRIPT.format(binary=cluster.binary, pid=pid)
        capture = [sys.executable, "-m", "pgtrace", "capture", str(pid), "--duration", "0.001"]
        capture += ["--force", "-o", str(directory / "capture.json")]
        commands: dict[str, list[str]] = {
            "pgtrace": capture,
            "bpftrace": bench.bpftrace("-p", pid, "-e", script),
        }
        if bcc:
            commands[BCC] = [*capture, "--engine", "bcc"]
        for command in commands.values():
            launch(launcher, command)  # from a warm page cache, with compiled Python
        runs: Runs = {name: {unit: [] for unit in UNITS} for name in commands}
        for number in range(rounds):
            bench.progress(f"round {number + 1} of {rounds}")
            for name in random.sample(list(commands), len(commands)):
                for unit, value in launch(launcher, commands[name]).items():
                    runs[name][unit].append([value])
        bench.progress("")
    return runs


def document(runs: Runs, tracers: int, no_bcc: str | None) -> dict[str, Any]:
    """Everything that was measured."""
    compared = [("pgtrace", "bpftrace")] + ([(BCC, "pgtrace")] if BCC in runs else [])
    ratios = []
    for ours, other in compared:
        for unit in COMPARED:
            name = f"{ours} to {other}: {UNITS[unit][0]}"
            pair = runs[ours][unit], runs[other][unit]
            ratios.append(bench.ratio(name, *pair, bench.goal("startup", name)).as_json())
    return {
        **bench.here(tracers),
        "rounds": len(runs["pgtrace"]["seconds"]),
        "no_bcc": no_bcc,
        "tools": {
            name: {unit: bench.named_quartiles(values) for unit, values in of_tool.items()}
            for name, of_tool in runs.items()
        },
        "ratios": ratios,
    }


def lines(found: Mapping[str, Any]) -> list[str]:
    """The same for people."""
    shown = [
        *bench.head(
            found,
            f"Start, attach to one backend, stop; {found['rounds']} rounds",
            *([f"The bcc engine is not measured: {found['no_bcc']}"] if found["no_bcc"] else []),
        ),
        f"{'Started':<20} {'median':>27}  [quartiles]",
    ]
    for name, of_tool in found["tools"].items():
        for unit, (what, sign) in UNITS.items():
            if unit not in of_tool:
                continue  # measured before there was that figure
            low, middle, high = (of_tool[unit][each] for each in bench.QUARTILES)
            shown.append(
                f"  {name:<20} {what:<12} {middle:7.4g} {sign:<3}  [{low:.4g}, {high:.4g}]"
            )
    shown += ["", f"{'Ratios of medians':<50}  value  [95 % interval]"]
    return [*shown, *map(bench.line, found["ratios"])]


def measured(args: argparse.Namespace) -> dict[str, Any]:
    """With files of its own."""
    tracers = bench.other_tracers()
    no_bcc = why_no_bcc()
    with tempfile.TemporaryDirectory(prefix="pgtrace-bench-") as directory:
        runs = measure(Path(directory), max(1, args.rounds), bcc=no_bcc is None)
    return document(runs, max(tracers, bench.other_tracers()), no_bcc)


def main() -> int:
    """Measure and print."""
    parser = bench.parser(
        "startup", "What starting, attaching and stopping costs; docs/benchmarks.md says more."
    )
    parser.add_argument("--rounds", type=int, default=20, metavar="N", help="of each tool (20)")
    return bench.run(parser, measured, lines)


if __name__ == "__main__":
    sys.exit(main())
