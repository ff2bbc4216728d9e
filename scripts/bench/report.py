"""What a report of a large capture takes: `scripts/bench/report` calls it."""

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

import bench

sys.path.append(str(Path(__file__).parents[2] / "tests/support"))
import large_capture
from pgtrace.errors import PgtraceError

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


def shown(runs: Runs, size: int) -> str:
    """Medians, with their least and greatest."""
    lines = [bench.host(), f"A capture of {size >> 20} MiB, read and written as a report", ""]
    for form, of_form in runs.items():
        for unit, (what, sign) in UNITS.items():
            values = sorted(of_form[unit])
            middle, goal = values[len(values) // 2], GOALS[unit]
            met = "met" if middle <= goal else "NOT met"
            lines.append(
                f"  {form:<6} {what:<12} {middle:7.4g} {sign:<4} [{values[0]:.4g}, "
                f"{values[-1]:.4g}]  goal {goal:g}: {met}"
            )
    return "\n".join(lines)


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        prog="scripts/bench/report",
        description="What a report of a large capture takes; docs/benchmarks.md says more.",
    )
    parser.add_argument("--size", type=int, default=200, metavar="MIB", help="of the capture (200)")
    parser.add_argument("--rounds", type=int, default=5, metavar="N", help="of each form (5)")
    parser.add_argument("--json", action="store_true", help="print JSON")
    args = parser.parse_args()
    bench.interruptible()
    try:
        with tempfile.TemporaryDirectory(prefix="pgtrace-bench-", dir="/var/tmp") as directory:
            runs = measure(Path(directory), max(1, args.size) << 20, max(1, args.rounds))
    except PgtraceError as error:
        print(f"report: {error}", file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        return 130
    size = max(1, args.size) << 20
    host = {"host": bench.host(), "mebibytes_of_capture": size >> 20}
    print(json.dumps(host | {"forms": runs}, indent=2) if args.json else shown(runs, size))
    return 0


if __name__ == "__main__":
    sys.exit(main())
