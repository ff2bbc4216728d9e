"""What a report of a large capture takes: `scripts/bench/report` calls it."""

import argparse
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import bench

sys.path.append(str(Path(__file__).parents[2] / "tests/support"))
import large_capture

GOALS = {"seconds": 5.0, "mebibytes": 500.0}
FORMS = ("text", "html", "json")
UNITS = {"seconds": ("wall time", "s"), "mebibytes": ("peak memory", "MiB")}

Runs = dict[str, dict[str, list[float]]]
"""Of each form, what UNITS names, by round."""


def run(launcher: Path, form: str, file: Path) -> dict[str, float]:
    """One report, from the start of the process to its end; what it prints is thrown away."""
    command = [launcher, sys.executable, "-m", "pgtrace", "report", "--format", form]
    # To a file, as launch says on stdout what it measured
    command += ["--force", "-o", str(file.with_suffix(f".{form}.out")), str(file)]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    if ran.returncode != 0:
        raise bench.BenchError(ran.stderr.strip())
    nanoseconds, _, kibibytes, status = map(int, ran.stdout.split())
    if status != 0:
        raise bench.BenchError(ran.stderr.strip())
    return {"seconds": nanoseconds / 1e9, "mebibytes": kibibytes / 1024}


def measure(directory: Path, size: int, rounds: int) -> Runs:
    """Each form in turn."""
    launcher, file = bench.compile_c("launch", directory), directory / "large.json"
    bench.progress("making the capture")
    large_capture.write(file, size)
    runs: Runs = {form: {unit: [] for unit in UNITS} for form in FORMS}
    for number in range(rounds):
        for form in FORMS:
            bench.progress(f"round {number + 1} of {rounds}: {form}")
            for unit, value in run(launcher, form, file).items():
                runs[form][unit].append(value)
    bench.progress("")
    return runs


def lines(found: Mapping[str, Any]) -> list[str]:
    """Medians, with their least and greatest."""
    size = found["mebibytes_of_capture"]
    shown = [found["host"], f"A capture of {size} MiB, read and written as a report", ""]
    for form, of_form in found["forms"].items():
        for unit, (what, sign) in UNITS.items():
            values = sorted(of_form[unit])
            middle, goal = values[len(values) // 2], GOALS[unit]
            met = "met" if middle <= goal else "NOT met"
            shown.append(
                f"  {form:<6} {what:<12} {middle:7.4g} {sign:<4} [{values[0]:.4g}, "
                f"{values[-1]:.4g}]  goal {goal:g}: {met}"
            )
    return shown


def measured(args: argparse.Namespace) -> dict[str, Any]:
    """With files of its own."""
    size = max(1, args.size)
    with tempfile.TemporaryDirectory(prefix="pgtrace-bench-", dir="/var/tmp") as directory:
        runs = measure(Path(directory), size << 20, max(1, args.rounds))
    return {"host": bench.host(), "mebibytes_of_capture": size, "forms": runs}


def main() -> int:
    """Measure and print."""
    parser = bench.parser(
        "report", "What a report of a large capture takes; docs/benchmarks.md says more."
    )
    parser.add_argument("--size", type=int, default=200, metavar="MIB", help="of the capture (200)")
    parser.add_argument("--rounds", type=int, default=5, metavar="N", help="of each form (5)")
    return bench.run(parser, measured, lines)


if __name__ == "__main__":
    sys.exit(main())
