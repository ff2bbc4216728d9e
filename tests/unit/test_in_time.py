"""Memory of other processes, read by a child; those who make it wait are in test_held_up.py."""

import ctypes
import os
import platform
import signal
from pathlib import Path

import pytest

from child import Idle, state_of, wait_for, wait_until_gone
from pgtrace.linux import capabilities, in_time

READ = {"x86_64": {0, 17, 19, 295}, "aarch64": {63, 67, 65, 69}}
"""read, pread64, readv and preadv."""
TEXT = ctypes.create_string_buffer(b"content")
ADDRESS = ctypes.addressof(TEXT)


def reader() -> int:
    """The child."""
    in_time.command_line(os.getpid(), 1)
    assert in_time._lookers.there
    return in_time._lookers.there.pid


def test_it_is_what_is_there() -> None:
    assert in_time.memory(os.getpid(), ADDRESS, 7) == b"content"
    whole = Path("/proc/self/cmdline").read_bytes()
    assert in_time.command_line(os.getpid(), 4096) == whole[:4096]
    assert len(in_time.command_line(os.getpid(), 3)) == 3


def test_what_is_not_there_is_an_error_of_the_usual_kind() -> None:
    with pytest.raises(OSError, match="Input/output"):
        in_time.memory(os.getpid(), 0x10, 4)
    for address in -1, 1 << 63, 1 << 64:
        with pytest.raises((OSError, OverflowError, ValueError)):
            in_time.memory(os.getpid(), address, 4)
    with Idle() as idle:
        assert in_time.command_line(idle.pid, 5) == b"sleep"
    with pytest.raises((FileNotFoundError, ProcessLookupError)):
        in_time.command_line(idle.pid, 5)


def test_one_child_reads_until_it_is_ended() -> None:
    first = reader()
    assert reader() == first
    os.kill(first, signal.SIGKILL)
    assert in_time.memory(os.getpid(), ADDRESS, 7) == b"content"
    assert reader() != first
    wait_until_gone(first)


def test_it_waits_in_no_read() -> None:
    """There it would have a place of a kretprobe at vfs_read: on one processor the only one."""
    child = reader()
    wait_for(lambda: state_of(child) == "S")
    try:
        number = int(Path(f"/proc/{child}/syscall").read_text().split()[0])
    except PermissionError:  # without root: it lets nobody look into it
        pytest.skip("only root may look into it")
    assert number not in READ[platform.machine()]


def test_a_child_of_ours_has_one_of_its_own() -> None:
    """Whose answers are not mixed up with those that are for us."""
    ours, pipe = reader(), os.pipe()
    child = os.fork()
    if child == 0:
        os.write(pipe[1], str(reader()).encode())
        os._exit(0)
    os.waitpid(child, 0)
    assert int(os.read(pipe[0], 20)) != ours == reader()


def test_it_may_look_and_nothing_else() -> None:
    status = Path(f"/proc/{reader()}/status").read_text()
    most = sum(1 << capabilities.NUMBERS[name] for name in capabilities.LOOKING)
    for name in "CapPrm", "CapEff", "CapInh", "CapAmb":
        assert int(status.partition(f"{name}:")[2].split()[0], 16) & ~most == 0
    files = {each.readlink() for each in Path(f"/proc/{reader()}/fd").iterdir()}
    assert len(files - {Path("/dev/null")}) == 1
