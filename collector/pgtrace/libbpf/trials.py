"""What the kernel says of a program that does nothing, before one is built that does."""

import ctypes
import errno
import os
from ctypes import c_int, c_size_t

from . import prototypes

_KPROBE, _TRACING = 2, 26
"""Of enum bpf_prog_type in include/uapi/linux/bpf.h, as the number below."""
_TRACE_FENTRY = 24
_RETURN_0 = bytes.fromhex("b700000000000000 9500000000000000")


class _LoadOptions(ctypes.Structure):
    """struct bpf_prog_load_opts, up to the last that is set."""

    _fields_ = (("sz", c_size_t), ("attempts", c_int), ("expected_attach_type", c_int))


def load_for_uprobes(attach_type: int) -> int:
    """Load one for uprobes; its descriptor, or a negative error number."""
    return _load(_KPROBE, attach_type)


def may_do(instructions: bytes) -> bool:
    """Whether the kernel takes a program that does these before it ends; True also where it takes
    none at all from who asks.
    """
    fds = [_load(_KPROBE, 0, code) for code in (instructions + _RETURN_0, _RETURN_0)]
    for fd in fds:
        if fd >= 0:
            os.close(fd)
    return fds[0] >= 0 or fds[1] < 0


def denies_fentry() -> bool:
    """Whether every program for the kernel's own functions is denied, whatever it is attached to.

    One that is attached to nothing is wrong (EINVAL) where the kernel looks at it at all.
    """
    return _load(_TRACING, _TRACE_FENTRY) == -errno.EPERM


def _load(kind: int, attach_type: int, instructions: bytes = _RETURN_0) -> int:
    options = _LoadOptions(sz=ctypes.sizeof(_LoadOptions), expected_attach_type=attach_type)
    loaded: int = prototypes.load().bpf_prog_load(
        kind, b"pgt_probe", b"GPL", instructions, len(instructions) // 8, ctypes.byref(options)
    )
    return loaded
