"""How many verdicts are false: `scripts/bench/lab_verdicts` calls it where tracefs is mounted.

`pgtrace lab sync` compares a server with itself, again and again: each difference that it finds is
a false one. The goal is at most one of ten.
"""

import argparse
import subprocess
import sys
from collections import Counter

import bench

from pgtrace.errors import PgtraceError
from pgtrace.lab.core.private_cluster import find_bindir
from pgtrace.lab.sync.findings import is_difference
from pgtrace.lab.sync.result import Difference, SyncResult
from pgtrace.model.decoding import decode_lab_result

MOST_FALSE = 0.1


def main() -> int:
    """Return 0 if the goal is met, 1 if not."""
    parser = argparse.ArgumentParser(
        prog="scripts/bench/lab_verdicts",
        description="Compare a server with itself by pgtrace lab sync, and count the differences "
        "that are found: all of them are false. At most one of ten may be.",
    )
    parser.add_argument("--times", type=int, default=4, help="experiments (4)")
    parser.add_argument("--runs", type=int, default=3, help="of each experiment (3)")
    parser.add_argument("--transactions", type=int, default=400, help="of each load (400)")
    args = parser.parse_args()
    found: Counter[str] = Counter()
    try:
        for time in range(1, args.times + 1):
            findings = _findings(args.runs, args.transactions)
            kinds = Counter(_kind(each) for each in findings)
            found += kinds
            said = ", ".join(f"{n} {kind}" for kind, n in sorted(kinds.items()))
            print(f"{time} of {args.times}: {said}", flush=True)
            for each in findings:
                if is_difference(each):
                    told = each.details
                    where = f"{told.load}, {told.phase}, {told.by.strip()}"
                    print(f"  false: {where}: {each.verdict}", flush=True)
    except (bench.BenchError, PgtraceError) as error:
        print(f"lab_verdicts: {error}", file=sys.stderr)
        return 1
    share = found["false"] / found.total()
    print(f"{found['false']} of {found.total()} verdicts are false: {100 * share:.1f} %")
    decided = found["false"] + found["no difference"]
    print(f"Of those that decide, {found['false']} of {decided}")
    met = share <= MOST_FALSE
    print(f"Goal, at most {100 * MOST_FALSE:.0f} %: {'met' if met else 'missed'}")
    return 0 if met else 1


def _kind(found: Difference) -> str:
    if is_difference(found):
        return "false"
    return "not decided" if "not decided" in found.verdict else "no difference"


def _findings(runs: int, transactions: int) -> list[Difference]:
    programs = find_bindir()
    ended = subprocess.run(
        [
            sys.executable, "-m", "pgtrace", "lab", "sync", "--json", "-q",
            "--server", f"A={programs}", "--server", f"B={programs}",
            "--rows", "5000", "--transactions", str(transactions), "--clients", "4",
            "--bulk-rows", "50000", "--runs", str(runs),
        ],
        capture_output=True,
        check=False,
    )  # fmt: skip
    if ended.returncode != 0:
        raise bench.BenchError(
            f"pgtrace ended with {ended.returncode}: {ended.stderr.decode().strip()}"
        )
    return decode_lab_result(ended.stdout, SyncResult).findings


if __name__ == "__main__":
    sys.exit(main())
