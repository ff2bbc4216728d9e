"""What a read costs, against its goals: `scripts/bench/gate` calls it where tracefs is mounted.

A ratio whose whole interval is beyond its goal fails; one within passes. Else more pairs are
measured, and what is not decided in the end passes with a warning.
"""

import argparse
import sys

import bench

PAIRS = (80, 160, 320)
"""One after the other, until all is decided."""


def main() -> int:
    """Measure until all is decided; 1 if a goal is missed."""
    parser = argparse.ArgumentParser(
        prog="scripts/bench/gate",
        description="Fail if a traced read costs more than gates.toml says. Takes minutes.",
    )
    parser.parse_args()
    bench.interruptible()
    print(bench.host())
    decided: set[str] = set()
    for pairs in PAIRS:
        print(f"{pairs} pairs", flush=True)
        ratios = bench.figures("read_cost", "--pairs", str(pairs))["ratios"]
        ratios = [r for r in ratios if r["goal"] is not None and r["name"] not in decided]
        print(*map(bench.line, ratios), sep="\n", flush=True)
        if any(each["verdict"] == "not met" for each in ratios):
            return 1
        left = [each["name"] for each in ratios if each["verdict"] == "not decided"]
        if not left:
            return 0
        decided |= {each["name"] for each in ratios} - set(left)
    print(f"Warning: not decided: {'; '.join(left)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
