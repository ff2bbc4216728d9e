"""Whatever the probe type, and however tracing ended: nothing of it is left."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from bpf_left import leftovers, ours, raised
from child import Child, wait_for
from fix_cluster import Connection
from pgtrace import trace
from pgtrace.engines import ProbeType

pytestmark = [pytest.mark.kernel(">= 6.1"), pytest.mark.vm]

KILLED = """
import sys, time
from pgtrace import trace
with trace(int(sys.argv[1]), probe_type=sys.argv[2]):
    print(flush=True)
    time.sleep(600)
"""
PROGRAMS = {"fentry": "pgt_f_read", "kprobe": "pgt_k_read"}


@pytest.fixture
def nothing_left(connection: Connection) -> Iterator[None]:
    """No program, map, link, raised semaphore or kprobe is there after that was not before."""
    probes = Path("/sys/kernel/tracing/kprobe_events")
    before, probes_before = ours(), probes.read_text()
    yield
    assert leftovers(before) == {}
    # From 6.12 on a semaphore is lowered after its link has gone
    wait_for(lambda: raised(connection.info.backend_pid) == {}, 30)
    assert probes.read_text() == probes_before


@pytest.mark.usefixtures("nothing_left")
def test_nothing_is_left_after_an_end(connection: Connection, way: ProbeType) -> None:
    """While it runs there are the programs and a raised semaphore, so that they would be seen."""
    pid = connection.info.backend_pid
    with trace(pid, probe_type=way):
        assert PROGRAMS[way] in ours().values()
        assert raised(pid)["query__start"] == 1


@pytest.mark.usefixtures("nothing_left")
def test_nothing_is_left_after_kill_9(connection: Connection, way: ProbeType) -> None:
    pid = connection.info.backend_pid
    with Child(sys.executable, "-c", KILLED, pid, way) as tracer:
        assert tracer.line() == "\n"
        assert PROGRAMS[way] in ours().values()
        assert raised(pid)["query__start"] == 1
