"""Probes at places in a program's file: many by one link, where the kernel has multi-uprobe links.

The kernel waits once for such a link to come and to go, and for each of perf's, of which there is
one for each place. Linux 6.6 has them, libbpf a function for them from 1.3 on, with names of its
own for programs of that kind; Debian 12 has 1.1. So the call is made here.
"""

import ctypes
import errno
import functools
import os
import platform
from collections.abc import Sequence
from ctypes import c_uint32, c_uint64, c_void_p
from typing import NamedTuple

from . import trials

MULTI = 48
"""BPF_TRACE_UPROBE_MULTI of include/uapi/linux/bpf.h, as the numbers below."""
_LINK_CREATE = 28
_RETURNS = 1
_SYSTEM_CALL = {"x86_64": 321, "aarch64": 280}
"""bpf(2) has no function in the C library."""


class Place(NamedTuple):
    """Where a probe goes; offsets are bytes from the start of the file."""

    offset: int
    semaphore: int = 0
    """Offset of the counter that arms it; 0 if there is none."""
    cookie: int = 0
    """What the program gets to know of it."""


class _LinkCreate(ctypes.Structure):
    """union bpf_attr for BPF_LINK_CREATE."""

    _fields_ = (
        ("prog_fd", c_uint32),
        ("target_fd", c_uint32),
        ("attach_type", c_uint32),
        ("link_flags", c_uint32),
        ("path", c_void_p),
        ("offsets", c_void_p),
        ("ref_ctr_offsets", c_void_p),
        ("cookies", c_void_p),
        ("cnt", c_uint32),
        ("flags", c_uint32),
        ("pid", c_uint32),
    )


def link(program: int, path: bytes, pid: int, places: Sequence[Place], *, returns: bool) -> int:
    """Attach a program to all of these places, in one process or, for pid -1, in all.

    Return the link's descriptor. Raises OSError.
    """
    count = len(places)
    offsets, counters, cookies = (
        (c_uint64 * count)(*values) for values in zip(*places, strict=True)
    )
    name = ctypes.create_string_buffer(path)
    attributes = _LinkCreate(
        prog_fd=program,
        attach_type=MULTI,
        path=ctypes.addressof(name),
        offsets=ctypes.addressof(offsets),
        ref_ctr_offsets=ctypes.addressof(counters) if any(counters) else None,
        cookies=ctypes.addressof(cookies),
        cnt=count,
        flags=_RETURNS if returns else 0,
        pid=max(pid, 0),
    )
    libc = ctypes.CDLL(None, use_errno=True)
    number = _SYSTEM_CALL[platform.machine()]
    size = ctypes.sizeof(attributes)
    descriptor: int = libc.syscall(number, _LINK_CREATE, ctypes.byref(attributes), size)
    if descriptor < 0:
        raise OSError(ctypes.get_errno(), "bpf(BPF_LINK_CREATE)")
    return descriptor


@functools.cache
def has_multi() -> bool:
    """Whether the kernel has such links: it says of a directory that there is no place in it only
    if it has. As libbpf asks, from 1.3 on.
    """
    if platform.machine() not in _SYSTEM_CALL:
        return False
    program = trials.load_for_uprobes(MULTI)
    if program < 0:
        return False
    try:
        os.close(link(program, b"/", -1, [Place(0)], returns=False))
    except OSError as error:
        return error.errno == errno.EBADF
    finally:
        os.close(program)
    return False
