"""What keeps the CPUs of this machine awake and at hand, where the times of a device are looked at.

A virtual CPU that sleeps is woken by its host, and a busy host takes its time: in spells of some
minutes a process was woken by another CPU after 0.4 to 1.4 ms (the upper quartiles of 300 times),
at other times, and where no CPU slept, after 0.02 to 0.04 ms. A read of a simulated device wakes
four threads.

Where others want a CPU all the time, some of these wait for it until the next tick: with a busy
loop on each CPU, a device of 2.0 ms answered after 3.5 to 4.0 ms, by its own log after 2.0.
"""

import os
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from pathlib import Path
from typing import TypeVar

import pytest

from fix_reader import compiled

_T = TypeVar("_T")
LATE_NS = 150_000
_LOOK_S = 0.3
_ASKED = 300
_BUSY_S = 0.0005
"""As a device: long enough for CPUs to fall asleep meanwhile."""


def timed(test: _T) -> _T:
    """Mark a test that compares times of a device: it runs alone, and no CPU wakes late."""
    marked: _T = pytest.mark.alone(pytest.mark.usefixtures("awake_cpus")(test))
    return marked


@contextmanager
def _answering() -> Iterator[tuple[int, int]]:
    """Another process, which takes a while and says how long: where to ask, where to read."""
    there, here = os.pipe(), os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.close(there[1])
            while os.read(there[0], 1):
                began = time.perf_counter_ns()
                time.sleep(_BUSY_S)
                os.write(here[1], (time.perf_counter_ns() - began).to_bytes(8))
        finally:
            os._exit(0)
    os.close(there[0])
    os.close(here[1])
    try:
        yield there[1], here[0]
    finally:
        os.close(there[1])
        os.close(here[0])
        os.waitpid(child, 0)


def waking_ns() -> int:
    """What it takes to wake another process and be woken by it: the upper quartile."""
    times = []
    with _answering() as (question, answer):
        for _ in range(_ASKED):
            began = time.perf_counter_ns()
            os.write(question, b"?")
            busy_ns = int.from_bytes(os.read(answer, 8))
            times.append(time.perf_counter_ns() - began - busy_ns)
    return sorted(times)[_ASKED * 3 // 4]


@pytest.fixture(scope="session")
def spinner() -> Path:
    return compiled("spinner")


@pytest.fixture(scope="module")
def awake_cpus(spinner: Path) -> Iterator[None]:
    """While this host wakes CPUs late, none sleeps; nobody who wants one waits for it. While others
    want them, the tests and what they start come before those.
    """
    with (
        _before_all() if _are_wanted() else nullcontext(),
        _spinning(spinner) if waking_ns() > LATE_NS else nullcontext(),
    ):
        yield


@pytest.fixture
def sleepless_cpus(spinner: Path) -> Iterator[None]:
    """No CPU sleeps, whatever this host does: where tens of microseconds decide. A host that polls
    for a while before it gives a CPU away wakes it in 5 µs, or later in 50. And a test and what it
    starts have one of them: to wake somebody on another takes 30 µs more.
    """
    allowed = os.sched_getaffinity(0)
    with _spinning(spinner):
        os.sched_setaffinity(0, {min(allowed)})
        try:
            yield
        finally:
            os.sched_setaffinity(0, allowed)


def _idle() -> list[int]:
    """How long each CPU has had nothing to do, in clock ticks: proc_stat(5)."""
    lines = Path("/proc/stat").read_text().splitlines()
    return [int(line.split()[4]) for line in lines if line.startswith("cpu") and line[3] != " "]


def _are_wanted() -> bool:
    """Whether others want a CPU for most of some time."""
    before = _idle()
    time.sleep(_LOOK_S)
    idle = [after - was for after, was in zip(_idle(), before, strict=True)]
    return min(idle) < _LOOK_S * os.sysconf("SC_CLK_TCK") / 2


@contextmanager
def _before_all() -> Iterator[None]:
    """Not by a nice value: that counts within a session alone (sched_autogroup)."""
    os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(1))
    try:
        yield
    finally:
        os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))


@contextmanager
def _spinning(spinner: Path) -> Iterator[None]:
    with ExitStack() as stack:
        for cpu in sorted(os.sched_getaffinity(0)):
            process = stack.enter_context(subprocess.Popen([spinner, f"{cpu}"]))
            stack.callback(process.kill)
        yield
