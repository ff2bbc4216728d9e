"""Whether the cause is named: `scripts/bench/compare_causes` calls it where tracefs is mounted.

A real server on a simulated device is captured, and again with one thing changed on purpose. What
`pgtrace compare` says of the two is right if it names that, and wrong if it names anything else.
"""

import argparse
import json
import re
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import mean

sys.path.append(str(Path(__file__).parents[2] / "tests/support"))
import bench

from copied_cluster import CopiedCluster
from fix_cluster import SETTINGS
from fix_storage import SimulatedSsd, simulated_device
from paced_reads import Load, captured, make_small
from pgtrace.comparing.captures import compare
from pgtrace.comparing.side import side_of
from pgtrace.lab.core.private_cluster import PrivateCluster, find_bindir
from pgtrace.model.capture import Capture
from pgtrace.reporters.sections.comparison_answer import answer

PAGE = Path(__file__).parents[2] / "docs/comparing.md"
LATENCY_US = 1000
LATENCIES = {1.0: LATENCY_US, 1.2: 1200, 2.0: 2000}
CAUSES = {
    "slower": r"^Slower in B: .*The same kinds of reads take 1\.\d+ to [12]\.\d+ times as long",
    "elsewhere": r"^Faster in B: .*Blocks came from elsewhere, which makes it 0\.\d+ to 0\.\d+ "
    r"times as long: the page cache served",
    "plan": r"reads \d+(\.\d+)? times as many blocks a call .*, and in another order: .* in "
    r"sequence, .*: its plan has probably changed",
    "calls": r"statements made (1\.9|2\.0)\d* times the calls, .* was called (1\.9|2\.0)\d* times",
}
"""What has to be said of each."""
NAMED = {
    "slower": r"\bkinds of reads( together)? take |^(Random|Sequential|Near|Reads)[^.]* take ",
    "elsewhere": r"(came from elsewhere|other sizes), which makes it",
    "plan": r"times as many blocks a call|in another order",
    "calls": r"was called",
    "another statement": r" alone: ",
}
"""What names a cause, sentence by sentence, that may be another's."""


@dataclass(frozen=True)
class Case:
    """What is changed, and which cause that is."""

    name: str
    cause: str | None
    a: Load
    b: Load
    slower: float = 1.0
    goes_along: frozenset[str] = frozenset()
    """What else is true then."""


def cases(seconds: float) -> list[Case]:
    """All of them: each is held against a capture that was taken right before, or soon."""
    usual = Load(seconds)
    small = replace(usual, small=True, calls_per_s=4.0)
    return [
        Case("nothing", None, usual, usual),
        Case("device 20 % slower", "slower", usual, usual, 1.2),
        Case("device 100 % slower", "slower", usual, usual, 2.0),
        Case("half of the table cached", "elsewhere", usual, replace(usual, cached=0.5)),
        Case(
            "another plan", "plan", small, replace(small, plan="sequential"),
            goes_along=frozenset({"elsewhere"}),  # blocks in sequence are of another kind
        ),
        Case("twice the calls", "calls", usual, replace(usual, calls_per_s=40.0)),
    ]  # fmt: skip


@dataclass(frozen=True)
class Stage:
    """A server on a device that says itself how long it took."""

    device: SimulatedSsd
    cluster: PrivateCluster

    def take(self, load: Load, seed: object) -> tuple[Capture, float]:
        """A capture, and the mean of the device's requests meanwhile, by its own log."""
        began = time.time()
        capture = captured(self.cluster, load, seed)
        requests = self.device.reads_between(began, time.time())
        return capture, mean(each.duration_ns for each in requests)


@contextmanager
def stages() -> Iterator[dict[float, Stage]]:
    """A server for each speed of the device."""
    settings = SETTINGS | {"shared_buffers": "256kB", "max_connections": 10}
    found = {}
    with ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(dir="/var/tmp")))
        directory.chmod(0o755)
        for slower, latency_us in LATENCIES.items():
            where = directory / f"{latency_us}us"
            device = stack.enter_context(simulated_device(where, latency_us, "512M"))
            device.read_ahead(0)
            options = {"bindir": find_bindir(), "directory": where}
            cluster = stack.enter_context(CopiedCluster(settings, table=True, **options))
            make_small(cluster)
            found[slower] = Stage(device, cluster)
        yield found


def main() -> int:
    """Return 0 if each cause was named each time, and no other; 1 if not."""
    parser = argparse.ArgumentParser(
        prog="scripts/bench/compare_causes",
        description="Capture a server on a simulated device, again with one thing changed, and "
        "compare: is that thing named, and no other?",
    )
    parser.add_argument("--times", type=int, default=10, help="of each (10)")
    parser.add_argument("--seconds", type=float, default=30, help="of each capture (30)")
    parser.add_argument("--only", default="", metavar="REGEX", help="those whose names match")
    parser.add_argument("--results", type=Path, help="a file of results that these are added to")
    parser.add_argument("--update", action="store_true", help="write it into docs/comparing.md")
    args = parser.parse_args()
    if args.results:
        args.results = args.results.absolute()
    bench.interruptible()
    results: list[dict[str, object]] = []
    if args.results and args.results.exists():
        results = [json.loads(line) for line in args.results.read_text().splitlines()]
    if args.times:
        with stages() as found:
            for number in range(args.times):
                seed = f"{time.time_ns()} {number}"
                for each in repetition(found, args.seconds, seed, args.only):
                    results.append(each)
                    print(f"{each['name']}: {each['verdict']}: {each['text']}", flush=True)
                    if args.results:
                        with args.results.open("a") as file:
                            file.write(json.dumps(each) + "\n")
    text = table(results)
    print(text)
    if args.update:
        bench.update(PAGE, "compare_causes", text)
    return 1 if any(each["verdict"] != "right" for each in results) else 0


def repetition(
    found: dict[float, Stage], seconds: float, seed: object, only: str
) -> Iterator[dict[str, object]]:
    """Each case once; what is usual is captured once for all of them, and before them."""
    taken: dict[Load, tuple[Capture, float]] = {}
    for case in cases(seconds):
        if not re.search(only, case.name):
            continue
        if case.a not in taken:
            taken[case.a] = found[1.0].take(case.a, f"a {seed}")
        a, a_ns = taken[case.a]
        b, b_ns = found[case.slower].take(case.b, f"b {seed}")
        compared = compare(side_of(a), side_of(b))
        sentences = answer(compared)
        yield {
            "host": bench.host(),
            "name": case.name,
            "seconds": seconds,
            "verdict": verdict(case, sentences),
            "device": b_ns / a_ns,
            "ratio": [getattr(compared.findings[0], name) for name in ("low", "high")],
            "text": " ".join(sentences),
        }


def verdict(case: Case, sentences: list[str]) -> str:
    """right, wrong, or not decided: then nothing is named, though there is something."""
    named = {
        cause
        for cause, words in NAMED.items()
        for sentence in sentences
        if re.search(words, sentence)
    }
    if wrong := named - {case.cause} - case.goes_along:
        return f"wrong: {', '.join(sorted(wrong))}"
    text = " ".join(sentences)
    if case.cause is None:
        return "wrong: slower or faster" if re.search("^(Slower|Faster)", text) else "right"
    return "right" if re.search(CAUSES[case.cause], text) else "not decided"


def table(results: list[dict[str, object]]) -> str:
    """How often each was right."""
    lengths = sorted({each["seconds"] for each in results}, key=str)
    hosts = dict.fromkeys([results[0]["host"], results[-1]["host"]]) if results else []
    lines = [
        *hosts,
        f"captures of {', '.join(f'{length:g}' for length in lengths)} s",
        "",
        "what was changed            right  not decided  wrong  device, B by A  a block, B by A",
    ]
    for name in dict.fromkeys(each["name"] for each in results):
        own = [each for each in results if each["name"] == name]
        right = sum(each["verdict"] == "right" for each in own)
        undecided = sum(each["verdict"] == "not decided" for each in own)
        device = [each["device"] for each in own]
        lines.append(
            f"{name:<26} {right:3} of {len(own):<2} {undecided:8} {len(own) - right - undecided:8}"
            f"    {min(device):.2f} to {max(device):.2f}    {_widest(own)}"
        )
    return "\n".join(lines)


def _widest(own: list[dict[str, object]]) -> str:
    ratios = [each["ratio"] for each in own]
    return f"{min(low for low, _ in ratios):.2f} to {max(high for _, high in ratios):.2f}"


if __name__ == "__main__":
    sys.exit(main())
