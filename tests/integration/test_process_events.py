"""The kernel's process connector, which all who listen share."""

import os
import select
import socket
import struct
import subprocess
import time
from pathlib import Path

import pytest

from child import wait_for
from pgtrace.lab.core.private_cluster import PrivateCluster
from pgtrace.linux import process_events as life_module
from pgtrace.linux.process_events import Event, Life
from pgtrace.tracing.options import TraceOptions
from pgtrace.tracing.targets import Target
from pgtrace.tracing.tracer import Tracer

NETLINK_CONNECTOR, GROUP = 11, 1
LISTEN = struct.pack("=IHHIIIIIIHHI", 40, 3, 0, 0, 0, 1, 1, 0, 0, 4, 0, 1)
"""nlmsghdr, cn_msg, PROC_CN_MCAST_LISTEN: include/uapi/linux/{netlink,connector,cn_proc}.h"""


def test_another_listener_disturbs_nobody() -> None:
    """Some say to the whole group that they begin, as in many an example: all others hear it."""
    life = Life({os.getpid()})
    try:
        _starts_of_a_child(life)
        with socket.socket(socket.AF_NETLINK, socket.SOCK_DGRAM, NETLINK_CONNECTOR) as other:
            other.bind((0, GROUP))
            for _ in range(3):
                other.sendto(LISTEN, (0, GROUP))
        for _ in range(3):
            _starts_of_a_child(life)
    finally:
        life.close()


def test_events_that_come_too_fast_are_said_and_those_after_them_heard(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(life_module, "_BUFFER_BYTES", 64 << 10)
    life = Life({os.getpid()})
    try:
        _starts_of_a_child(life)
        before = life.overflows  # the whole host's ends come
        assert life.begun == 1 + before
        subprocess.run(["bash", "-c", "for i in {1..300}; do (:); done"], check=True)
        _starts_of_a_child(life)
        assert life.overflows > before
        assert life.begun == 1 + life.overflows
    finally:
        life.close()


def test_the_end_of_a_postmaster_is_told_and_wakes() -> None:
    with subprocess.Popen(["sleep", "600"]) as child:
        life = Life({os.getpid(), child.pid})
        try:
            _starts_of_a_child(life)
            fd = life.fileno()
            assert fd is not None
            killed_ns = time.monotonic_ns()
            child.kill()
            assert wait_for(lambda: select.select([fd], [], [], 0)[0])
            child.wait()
            (ended,) = wait_for(lambda: [one for one in life.poll() if one.pid == child.pid])
            assert ended.ended
            assert killed_ns <= ended.at_ns <= time.monotonic_ns()
        finally:
            life.close()
            child.kill()


def _starts_of_a_child(life: Life) -> list[Event]:
    def look() -> list[Event]:
        assert life.failure is None
        with subprocess.Popen(["true"]) as child:
            pass
        return [event for event in life.poll() if event.pid == child.pid]

    found: list[Event] = wait_for(look, 30)
    return found


def test_a_backend_that_ended_is_told_once(cluster: PrivateCluster, tmp_path: Path) -> None:
    """Also where more ended between two looks than ever before."""
    script = tmp_path / "one.sql"
    script.write_text("select count(*) from pg_class;\n")
    tracer = Tracer(Target.find(cluster.postmaster_pid), TraceOptions(most_backends=2000))
    try:
        program = cluster.bindir / "pgbench"
        command = [program, "-n", "-C", "-c", "4", "-t", "75", "-f", script, cluster.dsn()]
        subprocess.run(command, check=True, capture_output=True)
        time.sleep(0.3)  # so long after its end a backend is let go
        tracer.poll()
    finally:
        backends = tracer.stop().backends
    unknown = [one for one in backends if one.backend_type is None]
    assert not unknown, f"{len(unknown)} of {len(backends)}"
    clients = [one for one in backends if one.backend_type == "client backend"]
    assert len(clients) - 4 * 75 in (0, 1, 2), len(clients)  # pgbench asks something first
