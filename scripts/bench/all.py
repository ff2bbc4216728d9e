"""Everything that docs/benchmarks.md has, measured anew: `scripts/bench/all` calls it where tracefs
is mounted.

Results go into docs/benchmarks.json, from which the page's figures are drawn.
"""

import argparse
import json
import random
import subprocess
import sys
from pathlib import Path

import bench

RESULTS = bench.HERE.parents[1] / "docs/benchmarks.json"
TIERS = [
    word
    for tier in ("light", "full", "floor of light", "floor of full")
    for word in ("--tier", tier)
]
"""All of them take more than half an hour for one server."""
ALL: dict[str, tuple[str, ...]] = {
    "read_cost": ("read_cost",),
    "async_read": ("async_read",),
    "query_cost 15": ("query_cost", "--pg", "15"),
    "query_cost 18": ("query_cost", "--pg", "18"),
    "program_cost": ("program_cost",),
    "server_cost 15": ("server_cost", "--pg", "15", *TIERS),
    **{
        f"server_cost 18 {method}": ("server_cost", "--pg", "18", "--io-method", method, *TIERS)
        for method in ("sync", "worker", "io_uring")
    },
    "startup": ("startup",),
}


def main() -> int:
    """Measure in random order; what was measured before a failure is kept."""
    parser = argparse.ArgumentParser(
        prog="scripts/bench/all",
        description="Measure everything anew, which takes long. Nothing else should run.",
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(ALL)} (all)")
    parser.add_argument("-o", "--output", type=Path, default=RESULTS, help="(docs/benchmarks.json)")
    args = parser.parse_args()
    if unknown := set(args.names) - ALL.keys():
        parser.error(f"no such benchmark: {', '.join(sorted(unknown))}")
    bench.interruptible()
    names = args.names or list(ALL)
    for name in random.sample(names, len(names)):
        script, *options = ALL[name]
        print(f"── {name}", flush=True)
        try:
            found = bench.figures(script, *options)
        except subprocess.CalledProcessError as error:
            return error.returncode
        known = json.loads(args.output.read_text()) if args.output.exists() else {}
        args.output.write_text(json.dumps(dict(sorted((known | {name: found}).items())), indent=1))
        print(*map(bench.line, found["ratios"]), sep="\n", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
