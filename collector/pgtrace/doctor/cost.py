"""What tracing costs on this host, measured there and then: on a machine of another kind, or where
others trace too, figures of ours say little.
"""

import os
import subprocess
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from itertools import repeat
from statistics import quantiles

from ..errors import PermissionDeniedError, UnsupportedError
from . import Ability, Group

ROUNDS = 5
RUNS = 40
CALLS = 500
"""Of a run: some tenths of a millisecond, so that few are disturbed."""
_BLOCK = 8192

Attach = Callable[[int], AbstractContextManager[str]]
"""Counts the reads of a process while it is entered, and yields the probe type."""


def group(attach: Attach) -> Group:
    """Take some seconds: with probes and without in turn, of this process's own calls."""
    block, file = [bytearray(_BLOCK)], os.memfd_create("pgtrace")

    def read() -> object:
        return os.preadv(file, block, 0)

    try:
        os.write(file, bytes(_BLOCK))
        with subprocess.Popen(["sleep", "infinity"]) as other:
            try:
                (call, passed_by), way = _added(attach, other.pid, os.getppid, read)
            finally:
                other.kill()
        (traced,), _ = _added(attach, os.getpid(), read)
    except (UnsupportedError, PermissionDeniedError) as error:
        return Group("Cost", [Ability("cost", None, f"not measured: {error}")])
    finally:
        os.close(file)
    return Group(
        f"Cost, by {way}: medians of {ROUNDS} rounds, and their quartiles",
        [
            Ability("a system call of any process", None, said(call)),
            Ability("a read of 8 KiB that is not traced", None, said(passed_by)),
            Ability("a traced read of 8 KiB", None, said(traced)),
        ],
    )


def said(added_ns: Sequence[float]) -> str:
    """In words; what is within noise is no number."""
    low, middle, high = quantiles(added_ns, method="inclusive")
    if low <= 0:
        return f"no more that could be told: at most {max(high, 1):.0f} ns"
    return f"{middle:.0f} ns more ({low:.0f} to {high:.0f})"


def _added(attach: Attach, pid: int, *calls: Callable[[], object]) -> tuple[list[list[float]], str]:
    """Nanoseconds that each call takes more while it is attached, by round; and the probe type."""
    added: list[list[float]] = [[] for _ in calls]
    name, before = "", [_time(call) for call in calls]
    for _ in range(ROUNDS):
        with attach(pid) as way:
            during, name = [_time(call) for call in calls], way
        after = [_time(call) for call in calls]
        for of_it, *times in zip(added, before, during, after, strict=True):
            of_it.append(times[1] - (times[0] + times[2]) / 2)
        before = after
    return added, name


def _time(call: Callable[[], object]) -> float:
    """Nanoseconds of CPU time of one: the lower quartile of some runs, as what disturbs a run makes
    it longer; the first fills caches."""
    runs = []
    for _ in range(RUNS + 1):
        began = time.thread_time_ns()
        for _ in repeat(None, CALLS):
            call()
        runs.append((time.thread_time_ns() - began) / CALLS)
    return quantiles(runs[1:])[0]
