"""Which engine, and which probe type for reads: the best that loads."""

import os
import sys

from .. import sudo
from ..errors import PermissionDeniedError, UnsupportedError
from ..libbpf import keeping_cpu
from ..libbpf.objects import library
from ..linux import kernel, namespaces, preemption
from ..model.capture import Operation
from . import Engine, EngineName, Member, ProbeType, Request
from .libbpf_engine import LibbpfEngine
from .probes import PROBE_TYPES, MissingProbesError, NoBtfError

_STANDS_IN = (
    "This kernel has no BTF: bcc compiled its types from its headers, which takes a moment "
    "(--engine bcc)."
)

_PRIVATE_STACKS = {"x86_64": (6, 13), "aarch64": (6, 17)}
"""Of arm64: 6c17a882d380, "bpf, arm64: JIT support for private stack"."""
_FAULTABLE = (7, 2)

_refused: dict[tuple[EngineName, tuple[Operation, ...]], set[ProbeType]] = {}
"""Ways that the kernel refused where another worked: an experiment starts engines by the hundred,
and each look at what fentry is refused for takes as long as the start itself."""


def start(request: Request) -> Engine:
    """Attach the probes. Raises UnsupportedError, PermissionDeniedError or TargetError."""
    check_pid_namespace()
    check_clock()
    check_preemption()
    if request.options.engine:
        return _start(request, request.options.engine)
    try:
        return _start(request, "libbpf")
    except NoBtfError as error:
        try:
            engine = _start(request, "bcc")
        except UnsupportedError as why:
            raise UnsupportedError(f"{error}, and the bcc engine cannot replace it: {why}") from why
    engine.note = _STANDS_IN
    return engine


def check_pid_namespace() -> None:
    """Raise UnsupportedError where pids are not the kernel's, as in most containers."""
    if not namespaces.in_first_pid_namespace():
        raise UnsupportedError(
            "pgtrace sees only its container's processes, by pids that are not the kernel's: "
            + namespaces.SEE_ALL
        )


def check_clock() -> None:
    """Raise UnsupportedError where times are not the kernel's, as in a restored container."""
    if not namespaces.has_the_first_clock():
        # kthreadd, which is always in the first one
        raise UnsupportedError(
            "pgtrace runs in a time namespace, whose clock is not the kernel's: put "
            "`nsenter --time=/proc/2/ns/time` before it"
        )


def check_preemption() -> None:
    """Raise UnsupportedError where a program at a server's probes may be interrupted by another run
    of it, which writes over its variables: since 6.13 (a76ab5731e32, "bpf: Find eligible subprogs
    for private stack support", on x86) these are in one memory for each CPU, and what the kernel
    says of that, that no program runs twice on a CPU, does not hold for uprobes.
    """
    about = os.uname()
    if kernel.version() < _PRIVATE_STACKS.get(about.machine, (sys.maxsize,)):
        return
    library()  # raises what says that it is missing
    if (
        keeping_cpu.is_possible()
        or keeping_cpu.has_no_jit()
        or preemption.model() in ("none", "voluntary")
    ):
        return
    raise UnsupportedError(
        f"Linux {about.release} mixes up the variables of programs at a server's probes, as it "
        + (
            "may interrupt them: boot with preempt=voluntary, or Linux 6.15 or later"
            if kernel.version() < keeping_cpu.SINCE
            else "has no BTF, by which to forbid that: boot a kernel with CONFIG_DEBUG_INFO_BTF=y"
        )
    )


def _start(request: Request, name: EngineName) -> LibbpfEngine:
    engine = _engine(name)
    reasons: list[str] = []
    denied: PermissionDeniedError | None = None
    known = _refused.setdefault((name, request.options.operations), set())
    tried = set[ProbeType]()
    for way in (
        (request.options.probe_type,)
        if request.options.probe_type
        else (way for way in _by_preference() if way not in known)
    ):
        try:
            started = _start_by(engine, request, way)
        except NoBtfError as error:
            if request.options.engine:
                raise UnsupportedError(f"{error}; --engine bcc can do without") from error
            raise
        except UnsupportedError as error:
            reasons.append(str(error))
            tried.add(way)
        except PermissionDeniedError as error:  # another way may be allowed
            denied = denied or error
        else:
            known |= tried
            return started
    if denied:
        raise denied
    if request.options.probe_type:
        raise UnsupportedError(
            f"{reasons[0]}; `{sudo.as_root('doctor')}` says what this kernel allows, "
            "or leave --probe out to take the best that it does"
        )
    raise UnsupportedError(
        f"reads cannot be traced here: {'; '.join(dict.fromkeys(reasons))}; "
        f"`{sudo.as_root('doctor')}` says what this kernel allows"
    )


def _by_preference() -> tuple[ProbeType, ...]:
    """The probe types, the best first. Where the kernel may take the CPU from a program of fentry,
    it leaves that out for whoever reads there meanwhile; at a tracepoint a program keeps its CPU,
    before 7.2: there system calls' are preempted, too (trace_call_bpf_faultable()).
    """
    if kernel.version() < _FAULTABLE and preemption.may_be_anywhere():
        return ("tracepoint", "fentry", "kprobe")
    return PROBE_TYPES


def _start_by(engine: type[LibbpfEngine], request: Request, way: ProbeType) -> LibbpfEngine:
    try:
        return engine(request, way)
    except MissingProbesError:
        return engine(request, way, no_usdt=True)


def _engine(name: EngineName) -> type[LibbpfEngine]:
    """Raises UnsupportedError or PermissionDeniedError if what it stands on is not there."""
    if name == "libbpf":
        return LibbpfEngine
    from .bcc import kernel_types
    from .bcc.engine import BccEngine

    kernel_types.compiled()
    return BccEngine


def probe_types(pid: int, name: EngineName = "libbpf") -> dict[ProbeType, str | None]:
    """Try each probe type on a process, such as the caller's own: None if it works, or why not.

    Raises UnsupportedError or PermissionDeniedError if the engine works with none.
    """
    engine = _engine(name)
    ways: dict[ProbeType, str | None] = {}
    for way in _by_preference():
        try:
            engine(Request(members=(Member(pid, pid),), only=pid), way).close()
            ways[way] = None
        except NoBtfError:
            raise
        except (UnsupportedError, PermissionDeniedError) as error:
            ways[way] = str(error)
    return ways
