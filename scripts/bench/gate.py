"""What a read costs, against its goals: `scripts/bench/gate` calls it where tracefs is mounted.

A ratio whose whole interval is beyond its goal fails; one within passes. Else more pairs are
measured, and what is not decided in the end passes with a warning.
"""

import argparse
import json
import subprocess
import sys
from typing import Any

import bench

PAIRS = (80, 160, 320)
"""One after the other, until all is decided."""


def measure(pairs: int) -> list[dict[str, Any]]:
    """The ratios that have a goal."""
    command = [sys.executable, str(bench.HERE / "read_cost.py"), "--json", "--pairs", str(pairs)]
    found = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    return [each for each in json.loads(found.stdout)["ratios"] if each["goal"] is not None]


def main() -> int:
    """Measure until all is decided; 1 if a goal is missed."""
    parser = argparse.ArgumentParser(
        prog="scripts/bench/gate",
        description="Fail if a traced read costs more than gates.toml says. Takes minutes.",
    )
    parser.parse_args()
    bench.interruptible()
    print(bench.host())
    open_: dict[str, dict[str, Any]] = {}
    for pairs in PAIRS:
        print(f"{pairs} pairs", flush=True)
        for each in measure(pairs):
            if pairs != PAIRS[0] and each["name"] not in open_:
                continue
            print(bench.line(each), flush=True)
            open_[each["name"]] = each
        if any(each["verdict"] == "not met" for each in open_.values()):
            return 1
        open_ = {name: each for name, each in open_.items() if each["verdict"] == "not decided"}
        if not open_:
            return 0
    print(f"Warning: not decided: {'; '.join(open_)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
