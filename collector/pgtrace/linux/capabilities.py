"""Capabilities: which suffice, which are there, and letting go of them once probes are attached.

A process has three sets that matter here: what it may do now (effective), what it may take up again
(permitted), and what no program that it starts can get (bounding). They are each thread's own: who
lets go of them does that before it starts another.
"""

import ctypes
import os
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path

from .kernel import version

NUMBERS = {
    "CAP_DAC_OVERRIDE": 1,
    "CAP_DAC_READ_SEARCH": 2,
    "CAP_KILL": 5,
    "CAP_SETGID": 6,
    "CAP_SETUID": 7,
    "CAP_SYS_PTRACE": 19,
    "CAP_SYS_ADMIN": 21,
    "CAP_SYS_RESOURCE": 24,
    "CAP_PERFMON": 38,
    "CAP_BPF": 39,
}
"""include/uapi/linux/capability.h"""
LOOKING = ("CAP_SYS_PTRACE", "CAP_DAC_READ_SEARCH")
"""To look into other users' processes, and into their directories: also while tracing."""
BECOMING = ("CAP_SETUID", "CAP_SETGID", "CAP_KILL")
"""To have a child become another user, and to end it."""
WRITING = ("CAP_DAC_OVERRIDE",)
"""To make a file in a directory of root's own whose mode is against it, such as 0550 of /root."""
_BY_DEFAULT = (*BECOMING, "CAP_BPF", "CAP_PERFMON", "CAP_SYS_ADMIN")
_NO_MEMLOCK_LIMIT = (5, 11)
"""From this kernel on memory of BPF is not of RLIMIT_MEMLOCK."""
_OPEN_MAPS_FOR_ALL = (5, 19)
"""From this kernel on a map that is open is for whoever has it; before, bpf(2) was for CAP_BPF
alone where kernel.unprivileged_bpf_disabled is set (commit c8644cd0efe7)."""
_MULTI_UPROBES = (6, 6)
"""From this kernel on probes in another program are attached by bpf(2), see libbpf/uprobes.py."""
_VERSION_3 = 0x20080522
_LAST = 63
_PR_CAPBSET_DROP, _PR_SET_NO_NEW_PRIVS = 24, 38  # include/uapi/linux/prctl.h
_PR_CAP_AMBIENT, _PR_CAP_AMBIENT_CLEAR_ALL = 47, 4

_LIBC = ctypes.CDLL(None, use_errno=True)
"""Loaded before a fork: in a child the loader's lock may be held by a thread that is not there."""

_kept: list[tuple[int, int]] = []
"""What drop() left, effective and permitted; nothing before."""


def for_probes(release: str | None = None) -> tuple[str, ...]:
    """What loads programs and attaches them to a server's, on a kernel of this release.

    Uprobes by perf_event_open(2) want CAP_SYS_ADMIN itself, on kernels since mid-2025
    (CVE-2025-38466), which stands for the others, too.
    """
    if version(release) >= _MULTI_UPROBES:
        return "CAP_BPF", "CAP_PERFMON"
    return ("CAP_SYS_ADMIN",)


def least(release: str | None = None) -> tuple[str, ...]:
    """The capabilities with which everything can be traced, on a kernel of this release, if tracefs
    is mounted: that takes CAP_SYS_ADMIN."""
    more = () if version(release) >= _NO_MEMLOCK_LIMIT else ("CAP_SYS_RESOURCE",)
    return (*for_probes(release), *LOOKING, *more)


def to_attach_again() -> tuple[str, ...]:
    """Those of what this process has that are needed to attach to another server's program."""
    names = for_probes()
    return ("CAP_BPF", "CAP_PERFMON", "CAP_SYS_ADMIN") if missing(names) else names


def effective() -> int:
    """What this thread may do, as a set of bits."""
    return _set("CapEff")


def missing(names: Collection[str], among: int | None = None) -> list[str]:
    """Those of these that are not there."""
    bits = effective() if among is None else among
    return [name for name in names if not bits >> NUMBERS[name] & 1]


def drop(reserve: Collection[str] = ()) -> None:
    """Let go of everything for good but what tracing on needs; no program started from now on gets
    more. What is in `reserve` can be taken up again by raised(), and by it alone.

    Raises OSError. Call it while no other thread is there that is to stay.
    """
    now = LOOKING if version() >= _OPEN_MAPS_FOR_ALL else (*LOOKING, "CAP_BPF", "CAP_SYS_ADMIN")
    there = _set("CapPrm")
    kept, whole = _bits(now) & there, _bits({*now, *reserve}) & there
    bound(whole)
    no_new_privileges()
    take(kept, whole)
    _kept[:] = [(kept, whole)]


def keep(names: Collection[str]) -> None:
    """In a child: have no more than these, nor any in reserve. Raises OSError."""
    kept = _bits(names) & _set("CapPrm")
    bound(kept)
    no_new_privileges()
    take(kept, kept)


@contextmanager
def raised(names: Collection[str] = _BY_DEFAULT) -> Iterator[None]:
    """With these of the reserve, in this thread; before drop() nothing changes."""
    kept, whole = _kept[0] if _kept else (0, 0)
    now = kept | _bits(names) & whole
    if now == kept:
        yield
        return
    take(now, whole)
    try:
        yield
    finally:
        take(kept, whole)


def bound(most: int = 0) -> None:
    """No program started from now on gets more than these; the set of bits is as /proc has it."""
    for number in range(_LAST + 1):
        if not most >> number & 1:  # who may not is no root: what it starts gets nothing anyway
            _LIBC.prctl(_PR_CAPBSET_DROP, number, 0, 0, 0)
    _LIBC.prctl(_PR_CAP_AMBIENT, _PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0)


def no_new_privileges() -> None:
    """No program started from now on becomes another user by its file. Raises OSError."""
    if _LIBC.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0):
        raise OSError(ctypes.get_errno(), "no_new_privs")


def take(now: int = 0, permitted: int = 0) -> None:
    """Have these alone, nothing inheritable; sets of bits as /proc has them. Raises OSError."""
    low = 0xFFFFFFFF
    header = (ctypes.c_uint32 * 2)(_VERSION_3, 0)
    words = now & low, permitted & low, 0, now >> 32, permitted >> 32, 0
    if _LIBC.capset(header, (ctypes.c_uint32 * 6)(*words)):
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


def _bits(names: Collection[str]) -> int:
    return sum(1 << NUMBERS[name] for name in set(names))


def _set(name: str) -> int:
    status = Path("/proc/thread-self/status").read_text()
    return int(status.partition(f"{name}:")[2].split()[0], 16)
