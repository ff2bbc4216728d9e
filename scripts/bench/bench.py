"""What the benchmarks share: compilers, this host in a line, ratios and how sure they are."""

import argparse
import json
import math
import os
import platform
import random
import re
import shutil
import signal
import struct
import subprocess
import sys
import time
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from fnmatch import fnmatchcase
from itertools import chain
from pathlib import Path
from statistics import median, quantiles
from typing import Any, NoReturn

from pgtrace.engines import libbpf_engine, probes
from pgtrace.errors import PgtraceError
from pgtrace.libbpf.objects import Object
from pgtrace.postgres.binary import Programs, known_address

HERE = Path(__file__).parent
NUMBERS = ("value", "low", "high")
QUARTILES = ("lower_quartile", "median", "upper_quartile")
ARCHITECTURES = {"x86_64": "x86", "aarch64": "arm64"}
"""As libbpf's headers call them."""
STATISTICS = Path("/proc/sys/kernel/bpf_stats_enabled")
RESAMPLES = 2000
ROUNDS_MIN = 10
"""Fewer rounds decide nothing: drawing from so few shows too narrow an interval."""

_LOOKED_AT = ("MyBEEntry", "my_wait_event_info")
_ABOUT_QUERY_ID = 392
"""Where in a PgBackendStatus it is, in PostgreSQL 15; elsewhere what is there costs as much."""

Rounds = Sequence[list[float]]
"""What was measured, by round: what a round has in common is drawn or left out together."""


class BenchError(PgtraceError):
    """A benchmark could not be run."""


@dataclass(frozen=True)
class Ratio:
    """A ratio of two medians with its 95 % interval, and the goal that it is held against."""

    name: str
    value: float
    low: float
    high: float
    goal: float | None
    rounds: int

    @property
    def verdict(self) -> str:
        """The goal is met, or not, if the whole interval is on one side of it.

        One without an end decides nothing: its divisor cannot be told from 0 (Fieller 1954).
        """
        if self.goal is None:
            return "no goal"
        if self.rounds < ROUNDS_MIN or math.isinf(self.high):
            return "not decided"
        if self.high <= self.goal:
            return "met"
        return "not met" if self.low > self.goal else "not decided"

    def as_json(self) -> dict[str, Any]:
        """For programs. JSON has no infinity, which a divisor of 0 gives."""
        numbers = {"value": self.value, "low": self.low, "high": self.high}
        finite = {k: round(v, 4) if math.isfinite(v) else None for k, v in numbers.items()}
        return {"name": self.name, **finite, "goal": self.goal, "verdict": self.verdict}


def line(found: Mapping[str, Any]) -> str:
    """A ratio, as JSON has it, for people."""
    value, low, high = ("∞" if found[k] is None else f"{found[k]:.2f}" for k in NUMBERS)
    goal = found["goal"]
    said = "" if goal is None else f"   goal at most {goal:g}: {found['verdict']}"
    return f"  {found['name']:<48} {value:>6}  [{low}, {high}]{said}"


def goal(benchmark: str, name: str) -> float | None:
    """What a ratio of a benchmark may be at most: gates.toml. None: nothing is asked of it."""
    of_it = tomllib.loads((HERE / "gates.toml").read_text()).get(benchmark, {})
    return next((most for pattern, most in of_it.items() if fnmatchcase(name, pattern)), None)


def ratio(name: str, ours: Rounds, theirs: Rounds, goal: float | None) -> Ratio:
    """Compare two series of the same rounds; the interval is a bootstrap over rounds."""

    def of(rounds: Sequence[int]) -> float:
        above, below = (median(chain(*(side[r] for r in rounds))) for side in (ours, theirs))
        return above / below if below > 0 else math.inf

    count = len(ours)
    draw = random.Random(count)
    drawn = sorted(of(draw.choices(range(count), k=count)) for _ in range(RESAMPLES))
    cut = RESAMPLES // 40
    return Ratio(name, of(range(count)), drawn[cut], drawn[-cut - 1], goal, count)


def quartiles(rounds: Rounds) -> tuple[float, float, float]:
    """Lower quartile, median and upper quartile of all that was measured."""
    values = list(chain(*rounds))
    if len(values) == 1:
        return values[0], values[0], values[0]
    low, middle, high = quantiles(values, n=4, method="inclusive")
    return low, middle, high


def named_quartiles(rounds: Rounds) -> dict[str, float]:
    """The same for programs, by QUARTILES."""
    return dict(zip(QUARTILES, quartiles(rounds), strict=True))


def figures(name: str, *options: str) -> dict[str, Any]:
    """What another benchmark measures. CalledProcessError if it fails, which it says itself."""
    command = [sys.executable, str(HERE / f"{name}.py"), *options, "--json"]
    printed = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout
    found: dict[str, Any] = json.loads(printed)
    return found


def programs(version: int) -> Path:
    """Where the programs of that PostgreSQL are, installed if they were not. CalledProcessError."""
    command = ["scripts/pg", str(version)]
    printed = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout
    return Path(printed.strip())


def compile_c(name: str, directory: Path) -> Path:
    """Compile a program of this folder."""
    compiler = shutil.which("cc") or shutil.which("clang") or "cc"
    binary = directory / name
    _compile([compiler, "-O2", "-Wall", "-Wextra", "-Werror"], HERE / f"{name}.c", binary)
    return binary


def compile_bpf(name: str, directory: Path, sources: Path = HERE) -> Path:
    """Compile an object of this folder, or of another, with setup.py's flags."""
    machine = platform.machine()
    flags = ["-g", "-O2", "-Wall", "-Werror", "-target", "bpf", "-mcpu=v3"]
    flags += [f"-D__TARGET_ARCH_{ARCHITECTURES[machine]}", f"-I/usr/include/{machine}-linux-gnu"]
    path = directory / f"{name}.bpf.o"
    _compile(["clang", *flags, "-c"], sources / f"{name}.bpf.c", path)
    return path


def _compile(command: list[str], source: Path, target: Path) -> None:
    try:
        subprocess.run([*command, source, "-o", target], check=True)
    except FileNotFoundError:
        raise BenchError(f"{command[0]} is needed: apt-get install clang") from None
    except subprocess.CalledProcessError:
        raise BenchError(f"{command[0]} could not compile {source.name}") from None


@contextmanager
def counted() -> Iterator[None]:
    """Let the kernel take the time of programs."""
    before = STATISTICS.read_text()
    STATISTICS.write_text("1")
    try:
        yield
    finally:
        STATISTICS.write_text(before)


def ran() -> dict[int, tuple[str, int, int]]:
    """Of each program of pgtrace's that is loaded, by its number: its name, nanoseconds, and how
    often it ran. Those of a tracer that has ended may be among them.
    """
    command = ["bpftool", "--json", "prog", "show"]
    listed = json.loads(subprocess.run(command, capture_output=True, check=True).stdout)
    return {
        each["id"]: (each["name"], each.get("run_time_ns", 0), each.get("run_cnt", 0))
        for each in listed
        if each.get("name", "").startswith("pgt_")
    }


class Collector:
    """A capture of a whole server, which traces once this is made, and leaves no report."""

    def __init__(self, server: str, output: Path, *options: str) -> None:
        command = [sys.executable, "-m", "pgtrace", "capture", "--server", server]
        self._process = subprocess.Popen(
            [*command, "-o", output, *options], stderr=subprocess.PIPE, text=True
        )
        assert self._process.stderr
        self._said = self._process.stderr
        while "Ctrl-C to stop" not in self._said.readline():
            assert self._process.poll() is None

    def cpu_s(self) -> float:
        """Of all its threads, in user space and in the kernel."""
        # As clock_getcpuclockid(3) has it
        return time.clock_gettime((~self._process.pid << 3) | 2)

    def peak_mib(self) -> float:
        """What it took at most."""
        status = Path(f"/proc/{self._process.pid}/status").read_text()
        return int(status.partition("VmHWM:")[2].split()[0]) / 1024

    def close(self) -> str:
        """End it, if it is not yet, and return what else it said."""
        self._process.send_signal(signal.SIGINT)  # to nobody once it was waited for
        said = self._said.read()
        self._process.wait()
        return said


@contextmanager
def empty_programs(
    floors: Path,
    binary: Path | None,
    *,
    switch: bool = False,
    asked_in: Path | None = None,
    uring: bool = False,
) -> Iterator[None]:
    """Programs of floors.bpf.c that do nothing, where pgtrace has its own: at reads; with `binary`
    at the queries of all that run it; with `switch` at each switch of tasks; with `asked_in` where
    all that run it hand reads to I/O workers, or else ask for them; with `uring` at requests of
    io_uring.
    """
    requests = probes.uring() if uring else {}
    if isinstance(requests, str):
        raise BenchError(requests)
    names = [probes.prefix("tracepoint", "read"), probes.EXIT]
    names += [probes.QUERIES, probes.ABORT] if binary else []
    names += [probes.times("tracepoint")] if switch else []
    names += [probes.AIO] if asked_in else []
    names += requests.values()
    with Object(floors) as loaded, Programs() as programs:
        loaded.choose(lambda name: name.startswith(tuple(names)))
        loaded.load()
        probes.attach_operation(loaded, "tracepoint", "read")
        probes.attach_exit(loaded)
        probes.attach_uring(loaded, requests)
        if switch:
            probes.attach_times(loaded, "tracepoint")
        missing = []
        if binary:
            missing += probes.attach_queries(loaded, programs.of(binary), -1, done=False)
        if (
            asked_in
            and not probes.attach_submissions(loaded, programs.of(asked_in), -1)
            and (lacking := probes.attach_io_workers(loaded, programs.of(asked_in), -1))
        ):
            missing.append(lacking)
        if missing:
            raise BenchError(*missing)
        yield


@contextmanager
def least_time(compiled: Path, postmaster: int, *, by_statement: bool = False) -> Iterator[None]:
    """The program of least_time.bpf.c, where pgtrace has its own at each switch of tasks."""
    addresses = (known_address(postmaster, name) for name in _LOOKED_AT)
    server = struct.pack("<QQIIII", *addresses, _ABOUT_QUERY_ID, postmaster, by_statement, 0)
    with Object(compiled) as loaded:
        loaded.map(".rodata.server").set_initial(server)
        loaded.load()
        probes.attach_times(loaded, "tracepoint")
        yield


def update(page: Path, name: str, text: str) -> None:
    """Let a page of docs/ have this between the marks of that bench."""
    form = rf"(<!-- bench: {re.escape(name)} -->\n```text\n).*?(?=^```$)"
    new, times = re.subn(
        form, lambda m: f"{m[1]}{text}\n", page.read_text(), flags=re.MULTILINE | re.DOTALL
    )
    assert times == 1, f"{page} has no line <!-- bench: {name} -->"
    page.write_text(new)


def host() -> str:
    """When and where this is measured. The load tells how quiet it was."""
    now = datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")
    cpus, load = os.cpu_count(), os.getloadavg()[0]
    return f"{now}, kernel {platform.release()}, {cpus} CPUs, load {load:.1f}"


def other_tracers() -> int:
    """How many other processes have probes attached, as far as they show."""
    found = 0
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if int(process.name) != os.getpid() and any(
                str(descriptor.readlink()) == "anon_inode:[perf_event]"
                for descriptor in (process / "fd").iterdir()
            ):
                found += 1
        except OSError:
            continue  # ended meanwhile
    return found


def parser(name: str, description: str) -> argparse.ArgumentParser:
    """Of the command line of a benchmark."""
    return argparse.ArgumentParser(prog=f"scripts/bench/{name}", description=description)


def accept_object(parser: argparse.ArgumentParser) -> None:
    """Let run() have other programs measured."""
    parser.add_argument(
        "--object", type=Path, metavar="FILE",
        help="pgtrace's programs, compiled otherwise, in place of its own",
    )  # fmt: skip


def run(
    parser: argparse.ArgumentParser,
    measure: Callable[[argparse.Namespace], dict[str, Any]],
    shown: Callable[[Mapping[str, Any]], Iterable[str]],
) -> int:
    """Print what a benchmark measures, as JSON or as `shown`. Returns the exit code."""
    parser.add_argument("--json", action="store_true", help="print JSON")
    args = parser.parse_args()
    interruptible()
    if getattr(args, "object", None):
        libbpf_engine.OBJECT = args.object.resolve()
    try:
        found = measure(args)
    except PgtraceError as error:
        print(f"{parser.prog}: {error}", file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        return 130
    print(json.dumps(found, indent=2) if args.json else "\n".join(shown(found)))
    return 0


def here(tracers: int) -> dict[str, Any]:
    """With what each document begins."""
    return {"host": host(), "other_tracers": tracers}


def head(found: Mapping[str, Any], *what: str) -> list[str]:
    """The same for people: where what was measured, and what makes the figures doubtful."""
    tracers = found["other_tracers"]
    warning = (
        f"Warning: {tracers} other processes trace too: what a first tracer costs is paid already"
    )
    return [found["host"], *what, *([warning] if tracers else []), ""]


def progress(text: str) -> None:
    """One line on a terminal, in place of the one before."""
    if sys.stderr.isatty():
        print(f"\r\033[K{text}", end="", file=sys.stderr, flush=True)


def bpftrace(*arguments: str | int) -> list[str]:
    """Its command line, such that it ends with us, however we end."""
    if shutil.which("bpftrace") is None:
        raise BenchError("bpftrace is needed to compare with: apt-get install bpftrace")
    return ["setpriv", "--pdeathsig", "KILL", "bpftrace", *map(str, arguments)]


def interruptible() -> None:
    """Let SIGTERM clean up as Ctrl-C does."""

    def stop(*_: object) -> NoReturn:
        raise KeyboardInterrupt

    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, stop)
