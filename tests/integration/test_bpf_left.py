"""The witnesses of what tracing leaves behind must themselves see it."""

import ctypes
import os
import platform
import signal
import struct
import subprocess
import time

from bpf_left import leftovers, ours, raised, semaphores, show
from fix_cluster import Connection
from pgtrace.postgres.cluster import PrivateCluster

SCRIPT = "usdt:{binary}:query__start {{ @n = count(); }}"


def bpftrace(cluster: PrivateCluster) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        ["bpftrace", "-e", SCRIPT.format(binary=cluster.binary), "-p", f"{cluster.postmaster_pid}"],
        stdout=subprocess.DEVNULL,
    )


def test_semaphores_rise_and_fall(cluster: PrivateCluster, connection: Connection) -> None:
    pid = connection.info.backend_pid
    assert len(semaphores(pid)) > 50
    assert raised(pid) == {}
    with bpftrace(cluster) as tracer:
        deadline = time.monotonic() + 30
        while not raised(cluster.postmaster_pid) and time.monotonic() < deadline:
            time.sleep(0.1)
        assert raised(cluster.postmaster_pid) == {"query__start": 1}
        tracer.send_signal(signal.SIGINT)
    assert raised(cluster.postmaster_pid) == {}


# pin nothing: bpftool would mount a file system for it
BPF_PROG_LOAD = 5
RETURN_0 = bytes.fromhex("b700000000000000 9500000000000000")
NUMBER = {"x86_64": 321, "aarch64": 280}


def load_program(name: bytes) -> int:
    """Load a socket filter that returns 0; return its descriptor."""
    libc = ctypes.CDLL(None, use_errno=True)
    code, licence = ctypes.create_string_buffer(RETURN_0), ctypes.create_string_buffer(b"GPL")
    # struct bpf_attr: type, count, instructions, license, log (unused), version, flags, name
    attributes = struct.pack(
        "=IIQQIIQII16s",
        1,
        2,
        ctypes.addressof(code),
        ctypes.addressof(licence),
        0,
        0,
        0,
        0,
        0,
        name,
    )
    descriptor: int = libc.syscall(
        NUMBER[platform.machine()], BPF_PROG_LOAD, attributes, len(attributes)
    )
    if descriptor < 0:
        raise OSError(ctypes.get_errno(), "bpf(BPF_PROG_LOAD)")
    return descriptor


def test_leftovers_sees_a_program() -> None:
    before = ours()
    descriptor = load_program(b"pgt_witness")
    try:
        assert list(leftovers(before, within=0).values()) == ["pgt_witness"]
    finally:
        os.close(descriptor)
    assert leftovers(before) == {}


def test_anothers_program_is_left_out() -> None:
    """One that a process outside this run holds; it gets there without our environment."""
    descriptor = load_program(b"pgt_witness")
    other = subprocess.Popen(["sleep", "60"], pass_fds=[descriptor], env={"PATH": os.defpath})
    os.close(descriptor)
    try:
        assert leftovers() == {}
        assert "pgt_witness" in [program.get("name") for program in show("prog")]
    finally:
        other.kill()
        other.wait()
