"""Abilities of the host: kernel, privileges, libraries."""

import os
import resource
from pathlib import Path

from ..errors import PermissionDeniedError, UnsupportedError
from ..linux import capabilities, namespaces
from ..linux.kernel import options, version
from ..sudo import type_or_else
from . import Ability

_LEAST_FILES = 256
_OLDEST_KERNEL = (5, 8)  # the ring buffer of BPF
_WHOLE_HOST = "0 0 4294967295"  # uid_map of a process in no user namespace
_OPTIONS = ("BPF_SYSCALL", "BPF_EVENTS", "PERF_EVENTS")


def abilities() -> list[Ability]:
    """Examine the host: reads files, and loads nothing that is attached to anything."""
    uid_map = (_text("/proc/self/uid_map") or _WHOLE_HOST).split()
    return [
        kernel(os.uname().release, os.uname().machine),
        *privileges(
            capabilities.effective(),
            uid_map == _WHOLE_HOST.split(),
            namespaces.in_first_pid_namespace(),
        ),
        _btf(),
        lockdown(_text("/sys/kernel/security/lockdown")),
        configuration(options()),
        tracefs(),
        libbpf(),
        *preemption(),
        *open_files(resource.getrlimit(resource.RLIMIT_NOFILE)[0]),
        object_file(Path(__file__).parent.parent / "objects" / "pgtrace.bpf.o"),
        io_accounting(Path("/proc/self/io").exists()),
        delay_accounting(_text("/proc/sys/kernel/task_delayacct")),
    ]


def open_files(most: int) -> list[Ability]:
    """Only where so few may be open at once that tracing may fail."""
    if most == resource.RLIM_INFINITY or most >= _LEAST_FILES:
        return []
    reason = f"only {most} may be open at once (`ulimit -n`), which is too few to trace servers"
    return [Ability("open files", False, reason, f"ulimit -n {_LEAST_FILES * 4}")]


def kernel(release: str, machine: str) -> Ability:
    """Judge the version of the kernel."""
    if version(release) >= _OLDEST_KERNEL:
        return Ability("kernel", True, f"{release}, {machine}")
    return Ability(
        "kernel",
        False,
        f"{release} has no BPF ring buffer",
        f"boot Linux {'.'.join(map(str, _OLDEST_KERNEL))} or later",
    )


def preemption() -> list[Ability]:
    """Only where the kernel interrupts programs that then are not safe."""
    from ..engines.select import check_preemption
    from ..libbpf.objects import library

    try:
        library()
    except UnsupportedError:
        return []  # it is told of the library
    try:
        check_preemption()
    except UnsupportedError as error:
        reason, _, remedy = str(error).partition(": ")
        return [Ability("preemption", False, reason, remedy)]
    return []


def privileges(
    effective: int, whole_host: bool, first_pid_namespace: bool, release: str | None = None
) -> list[Ability]:
    """Judge what this process may do on a kernel of this release.

    effective: capabilities as in CapEff. CAP_SYS_ADMIN stands for CAP_BPF and CAP_PERFMON.
    """
    for_probes = capabilities.for_probes(release)
    names = " and ".join(for_probes)

    def may(*names: str) -> bool:
        return not capabilities.missing(names, effective)

    def judge(name: str, ok: bool, there: str, missing: str) -> Ability:
        remedy = None if ok else type_or_else("doctor")
        return Ability(name, ok, there if ok else missing, remedy, permission=not ok)

    found = [
        judge(
            "load programs",
            may("CAP_SYS_ADMIN") or may("CAP_BPF", "CAP_PERFMON"),
            "permitted by CAP_SYS_ADMIN, or CAP_BPF and CAP_PERFMON",
            "CAP_BPF and CAP_PERFMON are missing",
        ),
        judge(
            "attach to queries",
            may("CAP_SYS_ADMIN") or may(*for_probes),
            "permitted by CAP_SYS_ADMIN" + (f", or {names}" if len(for_probes) > 1 else ""),
            f"{names} {'are' if len(for_probes) > 1 else 'is'} missing, for uprobes and USDT",
        ),
        _look_into(effective),
    ]
    suffice = f"these suffice: {', '.join(capabilities.least(release))}"
    found.append(Ability("capabilities", None, f"on this kernel {suffice}"))
    if not whole_host:
        why = "its capabilities do not reach the kernel's tracing"
        remedy = "run pgtrace on the host, as its root"
        found.append(Ability("user namespace", False, why, remedy, permission=True))
    if not first_pid_namespace:
        why = "pgtrace runs in a PID namespace of its own, where pids are not the kernel's"
        found.append(Ability("PID namespace", False, why, namespaces.SEE_ALL))
    return found


def _look_into(effective: int) -> Ability:
    name, missing = "look into processes", capabilities.missing(capabilities.LOOKING, effective)
    if not missing:
        return Ability(name, True, f"permitted by {' and '.join(capabilities.LOOKING)}")
    closed = {
        "CAP_SYS_PTRACE": "other users' processes in /proc",
        "CAP_DAC_READ_SEARCH": "their data directories",
    }
    why = "; ".join(f"{each} is missing, which opens {closed[each]}" for each in missing)
    return Ability(name, False, why, type_or_else("doctor"))


def _btf() -> Ability:
    from ..libbpf.btf import of_kernel

    try:
        return btf(of_kernel())
    except UnsupportedError as error:
        return Ability("BTF", None, f"not looked for: {error}")


def btf(file: Path | None) -> Ability:
    """Judge whether the kernel describes its own types, and where."""
    if file:
        return Ability("BTF", True, f"the kernel describes its types in {file}")
    why = "the kernel has no /sys/kernel/btf/vmlinux: only the bcc engine can do without"
    return Ability("BTF", None, why, "boot a kernel built with CONFIG_DEBUG_INFO_BTF=y")


def lockdown(text: str | None) -> Ability:
    """Judge /sys/kernel/security/lockdown, such as `none [integrity] confidentiality`."""
    if text is None:
        why = "cannot be read: the kernel has none, or securityfs is not mounted"
        return Ability("lockdown", None, why)
    mode = text.partition("[")[2].partition("]")[0] or text.strip()
    if mode == "confidentiality":
        why = "confidentiality: the kernel lets no program read its memory"
        remedy = "boot with lockdown=integrity, or without Secure Boot's lockdown"
        return Ability("lockdown", False, why, remedy)
    return Ability("lockdown", True, f"{mode}: does not hinder tracing")


def configuration(options: dict[str, str] | None) -> Ability:
    """Judge how the kernel was built."""
    name = "kernel configuration"
    if options is None:
        return Ability(name, None, "cannot be read (/proc/config.gz, /boot/config-…)")
    missing = [f"CONFIG_{option}" for option in _OPTIONS if options.get(option) not in ("y", "m")]
    if missing:
        remedy = f"boot a kernel built with {' and '.join(missing)}"
        return Ability(name, False, f"lacks {', '.join(missing)}", remedy)
    return Ability(name, True, "BPF and perf events are built in")


def tracefs() -> Ability:
    """Judge whether tracepoints can be found by name; mounts tracefs for this process, if need be.

    Without it there is no probe type by tracepoint, and no io_uring.
    """
    from ..linux import tracepoints

    try:
        place = tracepoints.tracefs()
    except PermissionDeniedError as error:
        return Ability("tracefs", False, str(error), type_or_else("doctor"), permission=True)
    except UnsupportedError as error:
        return Ability("tracefs", False, str(error).partition("; ")[0], namespaces.SEE_ALL)
    if tracepoints.is_own_mount(place):
        return Ability("tracefs", True, "not mounted: pgtrace mounts it, for itself alone")
    return Ability("tracefs", True, f"mounted at {place}")


def libbpf() -> Ability:
    """Judge the library that loads programs."""
    from ..libbpf.objects import version

    try:
        return Ability("libbpf", True, f"libbpf.so.1, version {version()}")
    except UnsupportedError as error:
        return Ability(
            "libbpf", False, str(error), "apt-get install libbpf1, or dnf install libbpf"
        )


def object_file(file: Path) -> Ability:
    """Judge whether the programs for the kernel were built and shipped."""
    if file.is_file():
        return Ability("object file", True, f"{file.name}, {file.stat().st_size:,} bytes")
    why = f"{file} is missing: pgtrace was not built"
    remedy = "apt-get install clang libbpf-dev, then install pgtrace again"
    return Ability("object file", False, why, remedy)


def io_accounting(there: bool) -> Ability:
    """Judge whether the kernel counts what a task asked the device for."""
    name = "task I/O accounting"
    if there:
        return Ability(name, True, "page cache and device are told apart")
    why = "off: where a read was served stays `unknown`"
    return Ability(name, False, why, "boot a kernel built with CONFIG_TASK_IO_ACCOUNTING=y")


def delay_accounting(text: str | None) -> Ability:
    """Report the kernel's own count of block-I/O delays, a cross-check that nothing depends on."""
    name = "task delay accounting"
    if text is None:
        return Ability(name, None, "not in this kernel; only a cross-check uses it")
    if text.strip() == "0":
        return Ability(name, None, "off; only a cross-check uses it")
    return Ability(name, True, "on")


def _text(name: str) -> str | None:
    try:
        return Path(name).read_text(errors="replace")
    except OSError:
        return None
