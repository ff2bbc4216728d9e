"""What a read costs, against its goals: `scripts/bench/gate` calls it where tracefs is mounted.

A ratio whose whole interval is beyond its goal fails; one within passes. Else more pairs are
measured, and what is not decided in the end passes with a warning.
"""

import random
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence, Set
from pathlib import Path
from typing import Any

import bench

PAIRS = (80, 160, 320)
"""One after the other, until all is decided."""
SLOWED_NS = 200
"""What the gate has to find, in the hot path."""
BEFORE = "\tlose_unended_read(task);\n"
"""Where each read begins, before it takes the time."""
SLOWER = f"""\
	for (__u64 began = bpf_ktime_get_ns(), i = 0; i < 64; i++)
		if (bpf_ktime_get_ns() - began >= {SLOWED_NS})
			break;
"""

Measure = Callable[[int], Sequence[Mapping[str, Any]]]
"""Measures so many pairs: ratios, as JSON has them."""


def is_passed(measure: Measure) -> bool:
    """Measure until all is decided; False if a goal is missed.

    What was met stays so: the more often one looks, the likelier is one run that is odd.
    """
    met: set[str] = set()
    for pairs in PAIRS:
        found = _verdicts(measure, pairs, met)
        if "not met" in found.values():
            return False
        met |= {name for name, verdict in found.items() if verdict == "met"}
        left = sorted(found.keys() - met)
        if not left:
            return True
    print(f"Warning: not decided: {'; '.join(left)}")
    return True


def _verdicts(measure: Measure, pairs: int, without: Set[str]) -> dict[str, str]:
    print(f"{pairs} pairs", flush=True)
    ratios = [r for r in measure(pairs) if r["goal"] is not None and r["name"] not in without]
    print(*map(bench.line, ratios), sep="\n", flush=True)
    return {each["name"]: each["verdict"] for each in ratios}


def read_cost(*options: str | Path) -> Measure:
    """Measure what a read costs."""
    return lambda pairs: bench.figures("read_cost", "--pairs", str(pairs), *map(str, options))[
        "ratios"
    ]


def slowed(directory: Path) -> Path:
    """pgtrace's own programs, but at each read they wait a while. BenchError."""
    shutil.copytree(bench.HERE.parents[1] / "bpf", directory / "bpf")
    source = directory / "bpf/reads.bpf.h"
    text = source.read_text()
    if text.count(BEFORE) != 1:
        raise bench.BenchError(f"{source.name} has not the line after which each read begins")
    source.write_text(text.replace(BEFORE, BEFORE + SLOWER))
    return bench.compile_bpf("pgtrace", directory, directory / "bpf")


def is_worth_it(times: int) -> bool:
    """Try the gate itself, so often with slower programs and so often without, in random order."""
    with tempfile.TemporaryDirectory(prefix="pgtrace-bench-") as directory:
        slower = read_cost("--object", slowed(Path(directory)))
        runs = [(True, slower), (False, read_cost())] * times
        wrong = {True: 0, False: 0}
        for number, (is_slower, measure) in enumerate(random.sample(runs, len(runs))):
            kind = f"{SLOWED_NS} ns more" if is_slower else "as it is"
            print(f"── {number + 1} of {len(runs)}: {kind}", flush=True)
            passed = is_passed(measure)
            print("passed" if passed else "failed", flush=True)
            wrong[is_slower] += passed == is_slower
    print(
        f"Failed with {SLOWED_NS} ns more at each read: {times - wrong[True]} of {times};"
        f" passed without: {times - wrong[False]} of {times}"
    )
    return not any(wrong.values())


def main() -> int:
    """Return 1 if a goal is missed."""
    parser = bench.parser(
        "gate", "Fail if a traced read costs more than gates.toml says. Takes minutes."
    )
    parser.add_argument(
        "--trial", type=int, metavar="N",
        help=f"whether it fails with {SLOWED_NS} ns more at each read, and passes without: N times"
        " each, which takes about an hour for 10",
    )  # fmt: skip
    args = parser.parse_args()
    bench.interruptible()
    print(bench.host(), flush=True)
    try:
        passed = is_worth_it(args.trial) if args.trial else is_passed(read_cost())
    except subprocess.CalledProcessError as error:
        return error.returncode  # it has said why
    except bench.BenchError as error:
        print(f"{parser.prog}: {error}", file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        return 130
    return 0 if passed else 1


if __name__ == "__main__":
    sys.exit(main())
