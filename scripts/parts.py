"""The parts of scripts/test: which is in which set, and what may run beside what.

Parts of one lane run one after the other. The lanes `servers`, tests with servers of this host, and
`beside`, unit tests, other versions of PostgreSQL and what else makes both take about as long, run
side by side; when `beside` is through, `machines` follows it, which has the virtual ones. When both
`servers` and `beside` are, tests that look at all of the host run, beside a machine at most: those
of `apart`. Then two machines at once, until all have been. Then those of `alone`, beside which
nothing runs, because they measure time: not even
virtual machines at SCHED_IDLE, with which a page took 1,076 ms instead of less than 1,000. What a
part of `beside` or `machines` prints is printed when it has ended.

The sum at the end has the time of each part, and what CPUs worked for it: for the command and what
it waited for, so not for servers, which are nobody's children.
"""

import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

Lane = Literal["servers", "beside", "machines", "apart", "alone"]
BEHIND: tuple[Lane, ...] = ("beside", "machines")
"""They run while others do."""
SETS = ("quick", "default", "full")
VM_LOST = 125
"""How scripts/vm ends if there was no end of the command in the machine."""
NO_TESTS = 5
"""How pytest ends if there was none to run: of those that run alone a version may have none."""
LINES_AGAIN = 150
"""So many of the last that a failed part printed are repeated at the end, where one looks first."""

TWO_AT_ONCE = ("-n", "2", "--dist", "loadfile")
LONGEST = ("--durations", "20", "--durations-min", "5")
BESIDE = ("pytest", *TWO_AT_ONCE, *LONGEST, "-m", "not alone and not apart and not long")
APART = ("pytest", *LONGEST, "-m", "apart and not long")
ALONE = ("pytest", *LONGEST, "-m", "alone and not long")
EITHER = ("pytest", *LONGEST, "-m", "(alone or apart) and not long")
OF_SERVERS = (
    "activity",
    "charging",
    "entries",
    "fsync",
    "io_submissions",
    "io_uring",
    "lab_versions",
    "light",
    "live_figures::test_its_blocks_are_those_of_pg_stat_io",
    "one_image",
    "own_reads",
    "queries",
    "query_ids",
    "relations",
    "time_cases::test_an_event_of_an_extension_has_its_class_and_number",
    "time_held_up::test_reads_past_the_page_cache_wait_for_the_device",
    "times",
    "upgrade",
    "versions",
    "wait_events",
    "workers",
)
"""What differs between versions of PostgreSQL: files of tests, or of some one test."""
SERVERS_BETWEEN = {
    17: ("queries", "relations", "versions"),
    18: (
        *("charging", "io_submissions", "io_uring", "one_image", "own_reads"),
        *("queries", "relations", "versions", "workers"),
    ),
}
"""What is tried in the usual set of those between the oldest and the newest; all in --full. Of 18,
the first with asynchronous reads, whatever has to do with these."""
LAB = "tests/integration/test_lab_*.py"
KERNELS = ("6.1", "7.2", "6.12", "5.10")
"""Two at a time: first those whose tests take longest if all are run."""
BETWEEN = ("6.12",)
"""Left to --full: an older and a newer one are in the usual set, and a smoke test takes some four
minutes."""


class Part(NamedTuple):
    """One command; good if it ends with 0."""

    name: str
    lane: Lane
    sets: str
    """As in SETS, by their initials."""
    command: tuple[str, ...]
    environment: dict[str, str] = {}  # noqa: RUF012  # nobody writes to it


def vm(kernel: str, *tests: str, minutes: int) -> tuple[str, ...]:
    """These tests under that kernel, in one boot. The machine has one processor, with which they
    take half as long as with two.
    """
    limits = ("--timeout", str(minutes * 60), "--cpus", "1")
    return ("scripts/vm", *limits, kernel, "--", *tests)


def soak(version: int, minutes: int) -> tuple[str, ...]:
    """A whole server for so long, its figures held against the server's own."""
    return ("scripts/soak", "--minutes", str(minutes), "--pg", str(version))


def files(*patterns: str) -> tuple[str, ...]:
    """What matches, in the repository."""
    return tuple(str(found) for pattern in patterns for found in sorted(Path().glob(pattern)))


def shell_scripts() -> tuple[str, ...]:
    """Every file that begins as one, or says that it is read by one."""
    found = []
    for path in map(Path, files("scripts/**/*", ".ci/*", "tests/**/*")):
        if path.is_file() and path.suffix != ".pyc":
            begin = path.read_bytes()[:40]
            if begin.startswith(b"#!/bin/bash") or begin.startswith(b"# shellcheck shell"):
                found.append(str(path))
    return tuple(found)


def path_of(name: str) -> str:
    """Of one of OF_SERVERS, as pytest has it."""
    file, colons, test = name.partition("::")
    return f"tests/integration/test_{file}.py{colons}{test}"


def of_server(version: int) -> tuple[Part, ...]:
    """What differs between versions of PostgreSQL, on that one."""
    there = {"PGTRACE_TEST_PG": str(version)}

    def both(name: str, sets: str, of: Sequence[str]) -> tuple[Part, Part]:
        tests = [path_of(each) for each in of]
        return (
            Part(name, "beside", sets, (*BESIDE, *tests), there),
            Part(f"{name} alone", "alone", sets, (*EITHER, *tests), there),
        )

    if version not in SERVERS_BETWEEN:
        return both(f"PostgreSQL {version}", "df", OF_SERVERS)
    return (
        *both(f"PostgreSQL {version}", "d", SERVERS_BETWEEN[version]),
        *both(f"PostgreSQL {version} whole", "f", OF_SERVERS),
    )


def of_kernel(kernel: str) -> tuple[Part, ...]:
    """Its tests in one boot: whether all loads, attaches and counts; or all, over both engines.

    The verifier is emulated too, and bcc's compiler: that takes two minutes.
    """
    chosen = "libbpf and not bcc_is_installed"
    smoke = ("pytest", *LONGEST, "-m", "core", "-k", chosen, "tests/kernel/test_smoke.py")
    whole = ("pytest", "-m", "vm", "tests/kernel", "tests/integration")
    if kernel == "5.10":
        whole = ("pytest", "-m", "core", "tests/kernel")
    # None of pytest's plugins is used, and to import them takes some 25 seconds there
    no_plugins = {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    both = (
        Part(f"kernel {kernel}", "machines", "d", vm(kernel, *smoke, minutes=30), no_plugins),
        Part(f"kernel {kernel} whole", "machines", "f", vm(kernel, *whole, minutes=90), no_plugins),
    )
    return both[1:] if kernel in BETWEEN else both


def parts() -> tuple[Part, ...]:
    """All there are, in their order."""
    sources = files("bpf/*.[ch]", "scripts/**/*.[ch]", "tests/**/*.c")
    return (
        Part("ruff", "servers", "qdf", ("ruff", "check")),
        Part("format", "servers", "qdf", ("ruff", "format", "--check")),
        Part("mypy", "servers", "qdf", ("mypy",)),
        Part("mypy of tests", "servers", "qdf", ("mypy", "--config-file", "tests/mypy.ini")),
        Part("clang-format", "servers", "qdf", ("clang-format", "--dry-run", "-Werror", *sources)),
        Part("codespell", "servers", "qdf", ("codespell",)),
        Part("shellcheck", "servers", "qdf", ("shellcheck", "-x", *shell_scripts())),
        Part("docs", "servers", "qdf", ("scripts/docs",)),
        Part("quick", "servers", "q", (*BESIDE, "tests/integration/test_reads.py")),
        Part(
            "integration", "servers", "df", (*BESIDE, f"--ignore-glob={LAB}", "tests/integration")
        ),
        Part("apart", "apart", "df", (*APART, "tests/integration")),
        Part("alone", "alone", "df", (*ALONE, "tests/unit", "tests/integration")),
        Part("gate", "alone", "df", ("scripts/bench/gate",)),
        # Downloads first: they wait for the network, and not for a processor.
        *(Part(f"root {v}", "beside", "df", ("scripts/pg", str(v))) for v in (17, 18, 19)),
        Part("unit", "beside", "qdf", (*BESIDE, "tests/unit")),
        # Not with the other integration tests, so that both lanes take about as long
        Part("lab", "beside", "df", (*BESIDE, *files(LAB))),
        *(part for kernel in KERNELS for part in of_kernel(kernel)),
        # In one minute what falls between two looks is more than a tenth of a percent
        *(Part(f"soak {version}", "beside", "f", soak(version, 3)) for version in (15, 18)),
        # In one lane, and with the soaks: what a user's rings hold in all is limited to 8 MiB,
        # which was enough for integration beside any of these
        *(part for version in (17, 18, 19) for part in of_server(version)),
    )


def whole(part: Part) -> Part:
    """The same with what takes long, and with what it covers of pgtrace noted."""
    if part.command[0] != "pytest":
        return part
    command = [word.removesuffix(" and not long") for word in part.command]
    return part._replace(command=("coverage", "run", "-m", *command))


class Run:
    """One run of a set."""

    def __init__(self, wanted: Sequence[Part]) -> None:
        self._wanted = wanted
        self._lock = threading.Lock()
        self._running: set[subprocess.Popen[str]] = set()
        self._begun: set[str] = set()
        self._stopped = False
        self._lines: dict[str, str] = {}
        self._failed_said: dict[str, list[str]] = {}
        self._warnings: list[str] = []
        self.failed = False

    def stop(self, number: int, _: Any) -> None:
        """End what runs, as it is used to; a second signal ends this as well."""
        signal.signal(number, signal.SIG_DFL)
        self._stopped = self.failed = True
        for process in list(self._running):
            os.killpg(process.pid, signal.SIGINT)

    def all(self) -> None:
        """Run everything, and print the sum."""
        beside = threading.Thread(target=self._lane, args=("beside",))
        machines = threading.Thread(target=self._lane, args=("machines", beside))
        beside.start()
        machines.start()
        self._lane("servers")
        beside.join()
        self._lane("apart")
        self._lane("machines")  # what the other has not begun
        machines.join()
        self._lane("alone")
        for name, said in self._failed_said.items():
            print(f"\n── the last lines of {name}, which failed:\n{''.join(said)}")
        print("", *self._warnings, sep="\n")
        print(f"{'part':<20} {'time':>7} {'of CPUs':>9}")
        for part in self._wanted:
            print(self._lines.get(part.name, f"{part.name:<20}       -         -  not run"))
        self.failed |= len(self._lines) < len(self._wanted)

    def _lane(self, lane: Lane, after: threading.Thread | None = None) -> None:
        if after:
            after.join()
        for part in self._wanted:
            if part.lane == lane and not self._stopped and self._is_first(part):
                self._part(part)

    def _is_first(self, part: Part) -> bool:
        """Whether nobody has begun it; it is begun then."""
        with self._lock:
            known = part.name in self._begun
            self._begun.add(part.name)
        return not known

    def _part(self, part: Part) -> None:
        begin = time.monotonic()
        if part.lane not in BEHIND:
            self._say(f"── {part.name}: {' '.join(part.command)}")
        process = subprocess.Popen(
            part.command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env=os.environ | part.environment,
            errors="replace",
            start_new_session=True,
        )
        self._running.add(process)
        if self._stopped:
            os.killpg(process.pid, signal.SIGINT)
        said, cpu_s = self._read(process, at_once=part.lane not in BEHIND)
        self._running.discard(process)
        seconds = time.monotonic() - begin
        warnings = [line for line in said if line.startswith("Warning: ")]
        result = "ok, with a warning" if warnings else "ok"
        self._warnings += [f"{part.name}: {line.rstrip()}" for line in warnings]
        if process.returncode and not (part.lane == "alone" and process.returncode == NO_TESTS):
            lost = part.command[0] == "scripts/vm" and process.returncode == VM_LOST
            result = f"FAILED ({process.returncode})"
            result = "NOT RUN: the virtual machine was lost" if lost else result
            self.failed = True
            self._failed_said[part.name] = said[-LINES_AGAIN:]
        self._lines[part.name] = f"{part.name:<20} {seconds:5.0f} s {cpu_s:7.0f} s  {result}"
        if part.lane in BEHIND:
            self._say(f"── {part.name}: {' '.join(part.command)}\n{''.join(said)}")
        self._say(f"── {self._lines[part.name]}")

    def _read(self, process: subprocess.Popen[str], at_once: bool) -> tuple[list[str], float]:
        """What it prints until its end, by lines; printed as well. And its CPU time, in seconds.

        What it has left running, and has the pipe as well, is not waited for.
        """
        said: list[str] = []

        def read() -> None:
            for line in process.stdout or ():
                said.append(line)
                if at_once:
                    self._say(line.rstrip("\n"))

        reader = threading.Thread(target=read, daemon=True)
        reader.start()
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        reader.join(timeout=10)
        return said, used.ru_utime + used.ru_stime

    def _say(self, text: str) -> None:
        with self._lock:
            print(text, flush=True)


def main(arguments: list[str]) -> int:
    """Run a set, or, by --list, print what is in each."""
    if arguments == ["--list"]:
        for part in parts():
            sets = " ".join(name if name[0] in part.sets else "-" * len(name) for name in SETS)
            print(f"{part.name:<20} {sets}  {part.lane:<8}  {' '.join(part.command)[:100]}")
        return 0
    (chosen,) = arguments
    wanted = [part for part in parts() if chosen[0] in part.sets]
    with tempfile.TemporaryDirectory(prefix="pgtrace-coverage-") as noted:
        if chosen == "full":
            Path(noted).chmod(0o1777)  # some of what is started runs as another user
            os.environ["COVERAGE_FILE"] = f"{noted}/data"
            wanted = [whole(part) for part in wanted]
        run = Run(wanted)
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, run.stop)
        run.all()
        if chosen == "full":
            subprocess.run(["coverage", "combine", "--quiet"], check=False)
            subprocess.run(["coverage", "report"], check=False)
    return int(run.failed)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
