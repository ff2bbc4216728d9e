"""The kernel's tracepoints by name, from tracefs, which pgtrace mounts for itself if nobody has.

Such a mount is detached (fsmount(2)): its mount namespace is its own, nothing else is in it, and it
goes with its file descriptor. Neither the host nor a process that pgtrace starts sees another file
for it.
"""

import ctypes
import functools
import os
import platform
import struct
from pathlib import Path

from .. import stderr
from ..errors import PermissionDeniedError, UnsupportedError
from . import namespaces

MOUNT_POINT = Path("/sys/kernel/tracing")
_BELOW_DEBUGFS = Path("/sys/kernel/debug/tracing")
"""The kernel mounts tracefs there when somebody looks: so only where its mount is refused."""

_FSOPEN, _FSCONFIG, _FSMOUNT = 430, 431, 432
"""System calls of Linux 5.2, with the same numbers on all machines; glibc has them since 2.36."""
_FSOPEN_CLOEXEC, _FSCONFIG_CMD_CREATE, _FSMOUNT_CLOEXEC = 1, 6, 1  # include/uapi/linux/mount.h
_PERF_EVENT_OPEN = {"x86_64": 298, "aarch64": 241}
_PERF_TYPE_TRACEPOINT, _PERF_FLAG_FD_CLOEXEC = 2, 8  # include/uapi/linux/perf_event.h
_PERF_ATTR_SIZE_VER0 = 64

verbose = False
"""Say on stderr that tracefs was mounted."""


@functools.cache
def tracefs() -> Path:
    """Where tracefs can be read by this process, and by it alone if it was not mounted.

    Raises PermissionDeniedError if only root may look or mount, UnsupportedError if this host lets
    nobody.
    """
    try:
        if (MOUNT_POINT / "events").is_dir():
            return MOUNT_POINT
    except PermissionError:
        raise PermissionDeniedError(f"{MOUNT_POINT} may not be read by this user") from None
    try:
        found = Path(f"/proc/self/fd/{_mount()}")
    except OSError as error:
        return _mounted_by_another(error)
    if verbose:
        stderr.say("tracefs is not mounted here: mounted it for this process alone.")
    return found


def is_own_mount(place: Path) -> bool:
    """Whether what tracefs() returned was mounted by this process."""
    return place.is_relative_to("/proc")


def exists(category: str, name: str) -> bool:
    """Whether the kernel has that tracepoint. Raises what tracefs() does."""
    return (tracefs() / "events" / category / name).exists()


def open_tracepoint(category: str, name: str) -> int:
    """A perf event of all its hits, on all CPUs, for a BPF program to be attached to.

    Raises OSError: of ENOENT, if the kernel has no such tracepoint; and what tracefs() does.
    """
    number = int((tracefs() / "events" / category / name / "id").read_text())
    attributes = struct.pack("=IIQ", _PERF_TYPE_TRACEPOINT, _PERF_ATTR_SIZE_VER0, number)
    # Of the CPU that is named here the kernel counts; a program is run on all of them
    call = _PERF_EVENT_OPEN[platform.machine()]
    attributes = attributes.ljust(_PERF_ATTR_SIZE_VER0, b"\0")
    return _call(call, attributes, -1, 0, -1, _PERF_FLAG_FD_CLOEXEC)


def _mount() -> int:
    context = _call(_FSOPEN, b"tracefs", _FSOPEN_CLOEXEC)
    try:
        _call(_FSCONFIG, context, _FSCONFIG_CMD_CREATE, None, None, 0)
        return _call(_FSMOUNT, context, _FSMOUNT_CLOEXEC, 0)
    finally:
        os.close(context)


def _mounted_by_another(error: OSError) -> Path:
    try:
        if (_BELOW_DEBUGFS / "events").is_dir():
            return _BELOW_DEBUGFS
    except PermissionError:
        pass
    if isinstance(error, PermissionError) and os.geteuid() != 0:
        raise PermissionDeniedError("tracefs is not mounted, and only root may mount it")
    raise UnsupportedError(
        f"tracefs is not mounted, and cannot be mounted here: {error.strerror}; "
        + namespaces.SEE_ALL
    )


def _call(number: int, *arguments: int | bytes | None) -> int:
    """A system call that the C library has no function for. Raises OSError."""
    call = ctypes.CDLL(None, use_errno=True).syscall
    call.restype = ctypes.c_long
    words = [ctypes.c_long(a) if isinstance(a, int) else a for a in arguments]
    result = int(call(ctypes.c_long(number), *words))
    if result < 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
    return result
