"""In which namespaces pgtrace runs: tracing sees the pids, and the clock, of the first one."""

from pathlib import Path

_FIRST_PID_NAMESPACE = 0xEFFFFFFC  # PROC_PID_INIT_INO, include/linux/proc_ns.h

SEE_ALL = (
    "run pgtrace on the host, or its container with --pid=host --privileged "
    "(Kubernetes: hostPID: true, privileged: true)"
)
"""What to do where pgtrace sees or may do too little, as in a container."""


def in_first_pid_namespace() -> bool:
    """Whether pids here are those that the kernel's tracing sees."""
    return Path("/proc/self/ns/pid").stat().st_ino == _FIRST_PID_NAMESPACE


def has_the_first_clock() -> bool:
    """Whether CLOCK_MONOTONIC here is the one by which the kernel's tracing tells times. Since
    Linux 5.6 a time namespace may have another: time_namespaces(7).
    """
    try:
        offsets = Path("/proc/self/timens_offsets").read_text().splitlines()
    except OSError:
        return True
    told = {name: (seconds, rest) for name, seconds, rest in map(str.split, offsets)}
    return told.get("monotonic", ("0", "0")) == ("0", "0")
