"""The witnesses of what tracing leaves behind must themselves see it."""

import ctypes
import os
import platform
import struct

import pytest

from bpf_left import leftovers, ours, raised, semaphores, show
from child import Child, Idle, wait_for
from fix_cluster import Connection
from pgtrace.lab.core.private_cluster import PrivateCluster

pytestmark = pytest.mark.apart  # semaphores are those of all servers of one binary

SCRIPT = """usdt:{binary}:query__start {{ @n = count(); }}
tracepoint:syscalls:sys_enter_getpgid /pid == $1/ {{ exit(); }}
"""
"""Told to exit by a system call of ours: it overlooks signals while it does not wait."""


def bpftrace(cluster: PrivateCluster) -> Child:
    script = SCRIPT.format(binary=cluster.binary)
    return Child("bpftrace", "-e", script, "-p", cluster.postmaster_pid, os.getpid())


def test_semaphores_rise_and_fall(cluster: PrivateCluster, connection: Connection) -> None:
    pid = connection.info.backend_pid
    assert len(semaphores(pid)) > 50
    wait_for(lambda: raised(pid) == {})  # the kernel ends an ended tracer's probes in its time
    with bpftrace(cluster) as tracer:
        wait_for(lambda: raised(cluster.postmaster_pid))
        assert raised(cluster.postmaster_pid) == {"query__start": 1}
        wait_for(lambda: os.getpgid(0) and tracer.code is not None)
    wait_for(lambda: raised(cluster.postmaster_pid) == {})


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
    with Idle(pass_fds=[descriptor], env={"PATH": os.defpath}):
        os.close(descriptor)
        assert leftovers() == {}
        assert "pgt_witness" in [program.get("name") for program in show("prog")]
