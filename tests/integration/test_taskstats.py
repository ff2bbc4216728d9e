"""The time of device reads, against the kernel's own account of how long a task waited for blocks.

taskstats adds up, for each task, how long it slept for block I/O. It counts only while
kernel.task_delayacct is 1, for processes that began then.
"""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyroute2 import TaskStats

from child import Child
from copied_cluster import CopiedCluster
from fix_cluster import SETTINGS, bindir
from fix_markers import PG_VERSION
from fix_storage import Simulated
from pgtrace import trace
from pgtrace.lab.core.private_cluster import PrivateCluster
from scans import ATTEMPTS, anything_lost, by_source, new_backend, only, prepare

# Delay accounting is the whole host's, and times are compared
pytestmark = [pytest.mark.alone, pytest.mark.usefixtures("awake_cpus")]

SWITCH = Path("/proc/sys/kernel/task_delayacct")
TOLERANCE = 0.15


@pytest.fixture(scope="module")
def delay_accounting() -> Iterator[None]:
    """It is on for these tests, and then as it was before, also if they are killed."""
    if not SWITCH.exists():
        pytest.skip("this kernel has no task delay accounting: CONFIG_TASK_DELAY_ACCT")
    before = SWITCH.read_text().strip()
    # It waits for the end of its input, which is that of this process at the latest.
    guard = Child("sh", "-c", f"cat; echo {before} >{SWITCH}", start_new_session=True)
    try:
        SWITCH.write_text("1")
        yield
    finally:
        guard.end_input()
        guard.ended()
    assert SWITCH.read_text().strip() == before


@pytest.fixture(scope="module")
def slow_server(delay_accounting: None, simulated: Simulated) -> Iterator[PrivateCluster]:
    """A server with sample.TABLE on a simulated device of 1 ms."""
    directory = simulated(latency_us=1000).directory
    bin_ = bindir(PG_VERSION)
    with CopiedCluster(SETTINGS, table=True, bindir=bin_, directory=directory) as server:
        yield server


def blocked_ns(pid: int) -> int:
    """How long this process ever slept for block I/O."""
    with TaskStats() as taskstats:
        taskstats.bind()
        (answer,) = taskstats.get_pid_stat(pid)
    of_pid = answer.get_attr("TASKSTATS_TYPE_AGGR_PID")
    return int(of_pid.get_attr("TASKSTATS_TYPE_STATS")["blkio_delay_total"])


def test_device_time_is_the_delay_that_the_kernel_counts(slow_server: PrivateCluster) -> None:
    """A cold index scan: the time of its device reads is at least what its backend slept for
    blocks, but for the few that waited for another's request, and at most 15 % more: reads are
    timed until they return, the kernel counts until the backend may run again.
    """
    ratios = []
    for _ in range(ATTEMPTS):
        with new_backend(slow_server) as backend:
            pid = backend.info.backend_pid
            query = prepare(slow_server, backend, "index", "cold")
            with trace(pid, literals=True) as tracer:
                before = blocked_ns(pid)
                backend.execute(query).fetchall()
                blocked = blocked_ns(pid) - before
        capture = tracer.capture()
        assert not anything_lost(capture), capture.lost
        times = Counter[str]()
        for one in only(capture).io:
            times[one.source] += one.total_ns
        assert by_source(only(capture).io)["device"] > 500
        assert blocked <= times["device"] + times["wait"]
        assert times["device"] > 0.95 * blocked
        ratios.append(times["device"] / blocked)
        if ratios[-1] <= 1 + TOLERANCE:
            return
    pytest.fail(f"device time to block-I/O delay: {ratios}")
