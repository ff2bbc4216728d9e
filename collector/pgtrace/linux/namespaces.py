"""In which namespaces pgtrace runs: tracing sees the pids of the first one."""

from pathlib import Path

_FIRST_PID_NAMESPACE = 0xEFFFFFFC  # PROC_PID_INIT_INO, include/linux/proc_ns.h


def in_first_pid_namespace() -> bool:
    """Whether pids here are those that the kernel's tracing sees."""
    return Path("/proc/self/ns/pid").stat().st_ino == _FIRST_PID_NAMESPACE
