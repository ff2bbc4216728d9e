"""Which engine, and which way in for reads: the best that loads."""

from ..abilities import host
from ..errors import PermissionDeniedError, UnsupportedError
from . import Engine, Member, ReadsWay, Request
from .libbpf_engine import LibbpfEngine
from .probes import WAYS, MissingProbesError


def start(request: Request) -> Engine:
    """Attach the probes. Raises UnsupportedError, PermissionDeniedError or TargetError."""
    check_pid_namespace()
    reasons = []
    for way in (request.reads,) if request.reads else WAYS:
        try:
            return _start(request, way)
        except UnsupportedError as error:
            reasons.append(str(error))
    if request.reads:
        raise UnsupportedError(
            f"{reasons[0]}; `pgtrace doctor` says what this kernel allows, "
            "or leave --reads out to take the best that it does"
        )
    raise UnsupportedError(f"reads cannot be traced here: {'; '.join(dict.fromkeys(reasons))}")


def check_pid_namespace() -> None:
    """Raise UnsupportedError where pids are not the kernel's, as in most containers."""
    if not host.in_first_pid_namespace():
        raise UnsupportedError(
            "pgtrace sees only its container's processes, by pids that are not the kernel's: "
            "run the container with --pid=host, or pgtrace on the host"
        )


def _start(request: Request, way: ReadsWay) -> LibbpfEngine:
    try:
        return LibbpfEngine(request, way)
    except MissingProbesError:
        return LibbpfEngine(request, way, no_usdt=True)


def reads_ways(pid: int) -> dict[ReadsWay, str | None]:
    """Try each way in on a process, such as the caller's own: None if it works, or why not."""
    ways: dict[ReadsWay, str | None] = {}
    for way in WAYS:
        try:
            LibbpfEngine(Request((Member(pid, pid),), only=pid), way).close()
            ways[way] = None
        except (UnsupportedError, PermissionDeniedError) as error:
            ways[way] = str(error)
    return ways
