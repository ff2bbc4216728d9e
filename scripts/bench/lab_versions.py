"""What a random block costs by version: `scripts/bench/lab_versions` calls it."""

import argparse
import os
import random
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import bench
from bench import BenchError, Ratio

from pgtrace.lab import result_file
from pgtrace.model.lab_result import Cell, Result

VERSIONS = (15, 17, 18)
FIRST, *OTHERS = VERSIONS
TOLERANCE = 1.15
ROWS = 50_000
SCRIPTS = Path(__file__).parents[1]


def run(*command: object) -> str:
    """Run one of our scripts; its output."""
    done = subprocess.run([*map(str, command)], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise BenchError(f"{command[0]}: {done.stderr.strip()[-500:]}")
    return done.stdout.strip()


def random_block_us(cells: list[Cell]) -> float:
    """Microseconds of reading per block, of the query by index."""
    reads = [read for cell in cells if cell.pattern == "random" for read in cell.io]
    return sum(r.total_ns for r in reads) / sum(r.blocks for r in reads) / 1000


def once(version: int, bindir: str, storage: Path, file: Path) -> float:
    """One experiment of one run."""
    place = Path(tempfile.mkdtemp(prefix=f"pg{version}-", dir=storage))
    place.chmod(0o777)  # the user's number differs by root
    sizes = "--rows", ROWS, "--runs", 1, "--force"
    run(sys.executable, "-m", "pgtrace", "lab", "pages", "--storage", f"ssd={place}",
        "--pg-bin", bindir, *sizes, "-o", file)  # fmt: skip
    place.rmdir()
    result = result_file.load_any(file)
    if not isinstance(result, Result) or not str(result.server.version).startswith(f"{version}"):
        raise BenchError(f"{bindir} is not PostgreSQL {version}")
    return random_block_us(result.cells)


def measure(directory: Path, rounds: int) -> dict[int, list[list[float]]]:
    """All versions on one simulated SSD, in turn; which is first is drawn each time."""
    bindirs = {version: run(SCRIPTS / "pg", version).splitlines()[-1] for version in VERSIONS}
    storage = directory / "ssd"
    found: dict[int, list[list[float]]] = {version: [] for version in VERSIONS}
    run(SCRIPTS / "storage", "ssd", storage)
    try:
        for number in range(rounds):
            for version in random.sample(VERSIONS, len(VERSIONS)):
                bench.progress(f"round {number + 1} of {rounds}: PostgreSQL {version}")
                cost = once(version, bindirs[version], storage, directory / "result.json")
                found[version].append([cost])
        bench.progress("")
    finally:
        run(SCRIPTS / "storage", "stop", storage)
    return found


def verdict(ratio: Ratio) -> str:
    """Whether the whole interval is within the tolerance, or outside."""
    if ratio.rounds >= bench.ROUNDS_MIN and 1 / TOLERANCE <= ratio.low <= ratio.high <= TOLERANCE:
        return "met"
    outside = ratio.low > TOLERANCE or ratio.high < 1 / TOLERANCE
    return "not met" if ratio.rounds >= bench.ROUNDS_MIN and outside else "not decided"


def document(found: dict[int, list[list[float]]]) -> dict[str, Any]:
    """Everything that was measured."""
    ratios = [bench.ratio(f"{v} to {FIRST}", found[v], found[FIRST], None) for v in OTHERS]
    return {
        "host": bench.host(),
        "rounds": len(found[FIRST]),
        "random_block_us": {v: bench.named_quartiles(costs) for v, costs in found.items()},
        "ratios": [r.as_json() | {"goal": TOLERANCE, "verdict": verdict(r)} for r in ratios],
    }


def lines(found: Mapping[str, Any]) -> list[str]:
    """The same for people."""
    shown = [
        found["host"],
        f"`lab pages` on a simulated SSD, {ROWS:,} rows; {found['rounds']} rounds",
        "",
        f"{'PostgreSQL':<12} {'a random block':>16}  [quartiles]",
    ]
    for version, costs in found["random_block_us"].items():
        low, middle, high = (costs[each] for each in bench.QUARTILES)
        shown.append(f"  {version:<10} {middle:13.1f} µs  [{low:.1f}, {high:.1f}]")
    shown += ["", f"{'Ratios of medians':<50}  value  [95 % interval]"]
    for each in found["ratios"]:
        line = bench.line(each | {"goal": None})
        shown.append(f"{line}   goal within {TOLERANCE - 1:.0%}: {each['verdict']}")
    return shown


def measured(args: argparse.Namespace) -> dict[str, Any]:
    """With files of its own."""
    base = os.environ.get("PGTRACE_TEST_DIRECTORY", "/var/tmp")
    with tempfile.TemporaryDirectory(prefix="pgtrace-bench-", dir=base) as name:
        directory = Path(name)
        directory.chmod(0o755)
        return document(measure(directory, max(1, args.rounds)))


def main() -> int:
    """Measure and print."""
    parser = bench.parser(
        "lab_versions",
        "Whether `pgtrace lab pages` finds the same random read on PostgreSQL 15, 17 and 18; "
        "docs/benchmarks.md says more.",
    )
    parser.add_argument("--rounds", type=int, default=10, metavar="N", help="of each version (10)")
    return bench.run(parser, measured, lines)


if __name__ == "__main__":
    sys.exit(main())
