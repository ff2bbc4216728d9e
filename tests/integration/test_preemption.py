"""A kernel that takes the CPU from whom it likes mixes up no query, and before 7.2 loses no read.

It may do so in the midst of a program, and give the CPU to a task that comes to the same probe.
"""

import os
import subprocess
import threading
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path

import pytest

from fix_engines import IN_VM
from pgtrace.lab.core.private_cluster import PrivateCluster
from pgtrace.tracing.tracer import trace
from scans import anything_lost, count
from wire import Wire, query
from worker import Worker

pytestmark = [pytest.mark.vm(engines=["libbpf"]), pytest.mark.kernel(">= 6.1")]

SCHED = Path("/sys/kernel/debug/sched/preempt")
TASKS = 6
TIMES = 100


@pytest.fixture(autouse=True)
def preempted() -> Iterator[None]:
    """In the virtual machine the kernel is told to do so always; the host's is left as it is."""
    if not IN_VM:
        yield
        return
    if not SCHED.exists():
        subprocess.run(["mount", "-t", "debugfs", "none", "/sys/kernel/debug"], check=True)
    before = SCHED.read_text().partition("(")[2].partition(")")[0]
    SCHED.write_text("full")
    try:
        yield
    finally:
        SCHED.write_text(before)


@pytest.mark.kernel("< 7.2")
def test_reads_of_many_on_one_cpu(worker: Worker, data_file: Path) -> None:
    """By a probe type of which the kernel leaves nothing out."""
    os.sched_setaffinity(worker.pid, {0})
    worker.do(
        f"fd = os.open({str(data_file)!r}, os.O_RDONLY)\n"
        f"go, ready, end = threading.Event(), threading.Barrier({TASKS + 1}), threading.Event()\n"
        "def reads():\n"
        "    go.wait()\n"
        f"    for i in range({TIMES}): call('pread', fd, length=1 << 20)\n"
        "    ready.wait()\n"
        "    end.wait()\n"
        f"threads = [threading.Thread(target=reads) for _ in range({TASKS})]\n"
        "for thread in threads: thread.start()"
    )
    with trace(worker.pid, any_process=True) as tracer:
        worker.do("go.set()\nready.wait()")
    taken = tracer.capture()
    assert taken.probes.type == "tracepoint"
    assert sorted(count(one.io) for one in taken.backends) == [0, *[TIMES] * TASKS]
    assert not anything_lost(taken), taken.lost


@pytest.mark.parametrize("per_query", [False, True])
def test_queries_of_many_on_one_cpu(cluster: PrivateCluster, per_query: bool) -> None:
    """Each with its text, where it belongs: what their programs work with is their own."""
    texts = [
        [f"select '{i} {j}{'abcdefgh'[i] * (600 - 97 * j)}'" for j in range(5)]
        for i in range(TASKS)
    ]

    def work(client: Wire, texts: Sequence[str]) -> None:
        for _ in range(TIMES):
            client.ask(*map(query, texts))

    with ExitStack() as stack:
        clients = [stack.enter_context(Wire(cluster)) for _ in range(TASKS)]
        for client in clients:
            os.sched_setaffinity(client.pid, {0})
        with trace(cluster.postmaster_pid, literals=True, per_query=per_query) as tracer:
            threads = [
                threading.Thread(target=work, args=one) for one in zip(clients, texts, strict=True)
            ]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        taken = tracer.capture()
    of = {backend.pid: backend for backend in taken.backends}
    for client, its in zip(clients, texts, strict=True):
        found: Counter[str | None] = Counter()
        for one in of[client.pid].queries:
            found[one.text] += one.calls or 0
        assert found == dict.fromkeys(its, TIMES)
    assert not anything_lost(taken), taken.lost
