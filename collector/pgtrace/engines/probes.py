"""Which program goes where: the names of kernel and server functions are only here."""

import errno
import os
from collections.abc import Iterable
from pathlib import Path

from .. import sudo
from ..errors import PermissionDeniedError, PgtraceError, TargetError, UnsupportedError
from ..libbpf import btf, trials
from ..libbpf.objects import LibbpfError, Object
from ..libbpf.uprobes import Place
from ..linux import capabilities, kernel, tracepoints
from ..linux.program_file import Program
from ..model.capture import Operation
from ..postgres.binary import probe_offset, sites, submission_offset, symbol_offset
from . import Probed, ProbeType, usdt

PROBE_TYPES: tuple[ProbeType, ...] = ("fentry", "tracepoint", "kprobe")
"""The best first. A kretprobe has places for few calls at once (one for each CPU, or twice that, at
least 10: register_kretprobe() in kernel/kprobes.c), and every process of the host that sleeps in a
read, as of a pipe, keeps one: what finds none left ends unseen."""
_PREFIX = {"fentry": "pgt_f", "kprobe": "pgt_k", "tracepoint": "pgt_tp"}
_OPERATION = {"read": "_", "write": "w_", "fsync": "s_"}
QUERIES, NO_USDT, ABORT, QUERY_ID, AIO = "pgt_q_", "pgt_n_", "pgt_x_", "pgt_i_", "pgt_a_"
DONE = "pgt_d_"
EXIT, FILL = "pgt_exit", "pgt_fill"
CALIBRATION = "pgt_l_"
CHECKPOINTS = "pgt_c_"
_SWITCH = {True: "pgt_sb_", False: "pgt_sr_"}
KPROBES = Path("/sys/bus/event_source/devices/kprobe")
_FENTRY = (5, 17)
"""bb6728d75611, "bpf: Allow access to int pointer arguments in tracing programs": the position
of a read is one. On 5.10 that can be got round, but the kernel hung as such programs came and
went; system-call tracepoints do as well there."""

_FUNCTIONS: dict[Operation, tuple[str, ...]] = {
    "read": ("readv", "read"),
    "write": ("writev", "write"),
    "fsync": ("fsync", "fdatasync", "range"),
}
_SYSTEM_CALLS: dict[Operation, dict[str, str]] = {
    "read": {
        "read": "read",
        "readv": "read",
        "pread64": "pread",
        "preadv": "pread",
        "preadv2": "pread",
    },
    "write": {
        "write": "write",
        "writev": "write",
        "pwrite64": "pwrite",
        "pwritev": "pwrite",
        "pwritev2": "pwrite",
    },
    "fsync": dict.fromkeys(("fsync", "fdatasync", "sync_file_range"), "fsync"),
}
_PROVIDER = "postgresql"
_USDT = {
    "statement__status": "pgt_q_status",
    "query__start": "pgt_q_start",
    "query__execute__done": "pgt_q_portal_done",
}
"""Not query__execute__start: a portal that began ends, or fails, and either is seen. Nor
query__done, where aborts are: a simple query that fails is aborted."""
_DONE = {"query__done": "pgt_d_done"}
_OF_TEXTS = ("pgt_q_status", "pgt_q_start")
"""Those that are to know where their probe's first argument lies."""
USDT_OF_QUERIES = frozenset(_USDT | _DONE)
FUNCTIONS_OF_QUERIES = {
    "pgstat_report_activity": ("pgt_n_activity", False),
    "pgstat_report_query_id": ("pgt_i_query_id", False),
    "PortalRun": ("pgt_n_portal", False),
    "PortalRun at its end": ("pgt_n_portal_ret", True),
    "AbortCurrentTransaction": ("pgt_x_abort", False),
}
_ABORT = "AbortCurrentTransaction"
_CHECKPOINT = "CreateCheckPoint"
_CHECKPOINT_PHASES = {
    "buffer__checkpoint__start": "pgt_c_write",
    "buffer__checkpoint__sync__start": "pgt_c_sync",
    "buffer__checkpoint__done": "pgt_c_synced",
}
_SUBMITS = {"io_uring_submit_req": "pgt_u_req", "io_uring_submit_sqe": "pgt_u_sqe"}
_WAITS = (("pgt_a_wait", "pgaio_wref_wait", False), ("pgt_a_wait_ret", "pgaio_wref_wait", True))
_COMPLETE = ("io_uring_complete", "pgt_u_complete")


class NoBtfError(UnsupportedError):
    """libbpf finds the kernel's types nowhere."""


class MissingProbesError(Exception):
    """A binary has no USDT notes, or not all that are needed."""


def why_not(way: ProbeType) -> str | None:
    """Why this kernel cannot have that probe type, where it says so before anything is loaded."""
    if way == "fentry" and kernel.version() < _FENTRY:
        return "before Linux 5.17 programs may not load an argument that points to a number"
    if way == "kprobe" and not KPROBES.exists():
        return "the kernel was built without kprobes"
    return None


def check_permitted(way: ProbeType) -> None:
    """Raise what refuses that probe type, where the kernel tells before anything is built: what is
    built for nothing takes as long as all of a start.
    """
    if way == "fentry" and trials.denies_fentry():
        raise refusal(LibbpfError(errno.EPERM, "fentry"), f"{way} programs")


def prefix(way: ProbeType, operation: Operation) -> str:
    """With what the names of its programs begin."""
    return _PREFIX[way] + _OPERATION[operation]


def attach_operation(loaded: Object, way: ProbeType, operation: Operation) -> None:
    """Attach one probe type. Exits first: a read whose entry was not seen is not counted."""
    of_it = prefix(way, operation)
    try:
        if way == "tracepoint":
            for call, program in _SYSTEM_CALLS[operation].items():
                loaded.attach_tracepoint(f"{of_it}exit", "syscalls", f"sys_exit_{call}")
                loaded.attach_tracepoint(of_it + program, "syscalls", f"sys_enter_{call}")
        else:
            for suffix in ("_exit", ""):
                for function in _FUNCTIONS[operation]:
                    loaded.attach(of_it + function + suffix)
    except LibbpfError as error:
        raise refusal(error, f"{operation}s by {way}") from error


def attach_exit(loaded: Object) -> None:
    """Learn of the end of threads before their pids can be others'."""
    try:
        loaded.attach_raw_tracepoint(EXIT, "sched_process_exit")
    except LibbpfError as error:
        raise refusal(error, "tracepoint sched_process_exit") from error


def times(way: ProbeType) -> str:
    """With what the name of the program begins at the switch of tasks. Where fentry is allowed, so
    is one that has the kernel's own types.
    """
    return _SWITCH[way == "fentry"]


def attach_times(loaded: Object, way: ProbeType) -> None:
    """See each switch from one task to another. Raises UnsupportedError if it is refused."""
    program = f"{times(way)}switch"
    try:
        if way == "fentry":
            loaded.attach(program)
        else:
            loaded.attach_raw_tracepoint(program, "sched_switch")
    except LibbpfError as error:
        raise refusal(error, "tracepoint sched_switch") from error


def tells_of_aborts(binary: Program) -> bool:
    """Whether it tells which queries fail. Of one that cannot be read whoever attaches to it says
    so: it is not to cost other servers theirs.
    """
    try:
        return symbol_offset(binary, _ABORT) is not None
    except PgtraceError:
        return True


def attach_queries(loaded: Object, binary: Program, pid: int, *, done: bool) -> list[str]:
    """Attach the USDT probes that bracket queries, with `done` also that which tells that a simple
    query did not fail; what is not measured, each with its reason.

    Raises MissingProbesError if they are not all there.
    """
    before = loaded.attached
    wanted = _USDT | _DONE if done else _USDT
    missing = [
        probe for probe, program in wanted.items() if not _usdt(loaded, program, pid, binary, probe)
    ]
    if missing:
        loaded.detach(keep=before)
        raise MissingProbesError(f"the binary has no USDT probe {', '.join(missing)}")
    if not _uprobe(loaded, "pgt_x_abort", pid, binary, _ABORT):
        which = "extended queries" if done else "queries"
        return [f"errors of {which}: the binary does not export {_ABORT}"]
    return []


def attach_functions(loaded: Object, binary: Program, pid: int) -> list[str]:
    """The same at the functions in which the probes would be; all of them or none."""
    wanted = [
        (program, name.split()[0], returns)
        for name, (program, returns) in FUNCTIONS_OF_QUERIES.items()
    ]
    if function := _attach_all(loaded, binary, pid, wanted):
        return [f"queries: the binary has no USDT probes and does not export {function}"]
    return []


def attach_query_ids(loaded: Object, binary: Program, pid: int) -> list[str]:
    """Learn the query ids that the server computes. What is not measured."""
    function = "pgstat_report_query_id"
    if not _uprobe(loaded, "pgt_i_query_id", pid, binary, function):
        return [f"query ids: the binary does not export {function}"]
    return []


def attach_calibration(loaded: Object, binary: Program, pid: int, *, ids: bool) -> str | None:
    """See what the server reports of its backends; why not, if that cannot be."""
    # First that of ids: what is known of a thread begins with a state
    wanted = {"pgt_l_query_id": "pgstat_report_query_id"} if ids else {}
    for program, function in (wanted | {"pgt_l_activity": "pgstat_report_activity"}).items():
        if not _uprobe(loaded, program, pid, binary, function):
            return f"the binary does not export {function}"
    return None


def attach_io_workers(loaded: Object, binary: Program, pid: int) -> str | None:
    """PostgreSQL 18's I/O workers: who asked for what. Why it is not measured."""
    function = "smgrstartreadv"
    if not _uprobe(loaded, "pgt_a_ask", pid, binary, function):
        return f"reads by I/O workers, as their queries': the binary does not export {function}"
    return None


def attach_submissions(loaded: Object, binary: Program, pid: int) -> bool:
    """What is handed to those workers. Whether that can be seen."""
    offset = submission_offset(binary)
    if offset is None:
        return False
    try:
        loaded.attach_places("pgt_a_submit", pid, binary.file, [Place(offset)])
    except LibbpfError:
        return False  # the other probe tells as much
    return True


def attach_waits(loaded: Object, binary: Program, pid: int) -> str | None:
    """How long who asked waits for an asynchronous read. Why it is not measured."""
    if function := _attach_all(loaded, binary, pid, _WAITS):
        return f"waiting for asynchronous reads: the binary does not export {function}"
    return None


def attach_checkpoints(loaded: Object, binaries: Iterable[Probed]) -> list[str]:
    """When checkpoints and their phases begin and end. What is not measured."""
    missing = []
    for binary, pid in binaries:
        for program, returns in (("pgt_c_begin", False), ("pgt_c_end", True)):
            if not _uprobe(loaded, program, pid, binary, _CHECKPOINT, returns=returns):
                missing.append(f"durations of checkpoints: the binary has no {_CHECKPOINT}")
        for probe, program in _CHECKPOINT_PHASES.items():
            if not _usdt(loaded, program, pid, binary, probe):
                missing.append(f"phases of checkpoints: the binary has no USDT probe {probe}")
    return list(dict.fromkeys(missing))


def uring() -> dict[str, str] | str:
    """Tracepoints of io_uring and their programs; or why there are none."""
    try:
        submit = next((name for name in _SUBMITS if tracepoints.exists("io_uring", name)), None)
    except PgtraceError as error:
        return str(error)
    if submit is None:
        return "the kernel has no tracepoint for them"
    if kernel.version() < (6, 0):
        return "before Linux 6.0 its tracepoints do not tell one request from another"
    return {_COMPLETE[0]: _COMPLETE[1], submit: _SUBMITS[submit]}


def attach_uring(loaded: Object, programs: dict[str, str]) -> None:
    """Requests of io_uring, from submission to completion."""
    for name, program in programs.items():
        try:
            loaded.attach_tracepoint(program, "io_uring", name)
        except LibbpfError as error:
            raise refusal(error, f"tracepoint {name}") from error


def _usdt(loaded: Object, program: str, pid: int, binary: Program, probe: str) -> bool:
    if not btf.has_cookies():
        return _usdt_of_libbpf(loaded, program, pid, binary, probe)
    places = []
    for site in sites(binary):
        if site.name == probe:
            cookie = usdt.cookie(site.arguments) if program in _OF_TEXTS else 0
            if cookie is None:
                return False
            places.append(Place(site.offset, site.semaphore or 0, cookie))
    try:
        loaded.attach_places(program, pid, binary.file, places)
    except LibbpfError as error:
        return _absent(error, f"USDT probe {probe}", pid)
    return bool(places)


def _usdt_of_libbpf(loaded: Object, program: str, pid: int, binary: Program, probe: str) -> bool:
    try:
        loaded.attach_usdt(program, pid, binary.file, _PROVIDER, probe)
    except LibbpfError as error:
        # libbpf tells sites apart by address. So it can serve no processes to come (EOPNOTSUPP),
        # nor two of one server: their addresses are the same
        if error.errno in {errno.EOPNOTSUPP, errno.EEXIST}:
            return False
        return _absent(error, f"USDT probe {probe}", pid)
    return True


def _attach_all(
    loaded: Object, binary: Program, pid: int, wanted: Iterable[tuple[str, str, bool]]
) -> str | None:
    """Attach these programs to their functions, or to the return of them; or none, if the binary
    does not export one: which.
    """
    before = loaded.attached
    for program, function, returns in wanted:
        if not _uprobe(loaded, program, pid, binary, function, returns=returns):
            loaded.detach(keep=before)
            return function
    return None


def _uprobe(
    loaded: Object, program: str, pid: int, binary: Program, function: str, *, returns: bool = False
) -> bool:
    offset = probe_offset(binary, function)
    if offset is None:
        return False
    try:
        loaded.attach_places(program, pid, binary.file, [Place(offset)], returns=returns)
    except LibbpfError as error:
        return _absent(error, f"uprobe {function}", pid)
    return True


def _absent(error: LibbpfError, what: str, pid: int) -> bool:
    """False if the binary has no such thing; else raise what is wrong."""
    if pid > 0 and not Path(f"/proc/{pid}/exe").exists():
        raise TargetError("the process ended before it could be traced")
    if error.errno != errno.ENOENT:
        raise refusal(error, what) from error
    return False


def load_refusal(error: LibbpfError, what: str) -> PgtraceError:
    """The same, for what is loaded and not yet attached."""
    if error.errno == errno.ESRCH:
        return NoBtfError(f"no BTF: this kernel has no {btf.SYSFS}")
    return refusal(error, what)


def refusal(error: LibbpfError, what: str) -> PgtraceError:
    """The error to show for a refusal by the kernel."""
    if error.errno in {errno.EPERM, errno.EACCES} and (lacking := _lacking()):
        return PermissionDeniedError(
            f"the kernel does not permit {what} without {' and '.join(lacking)}. {sudo.how()}"
        )
    return UnsupportedError(f"the kernel refuses {what}: {os.strerror(error.errno or 0)}")


def _lacking() -> list[str]:
    """Root in a container lacks most."""
    if not capabilities.missing(["CAP_SYS_ADMIN"]):
        return []
    return capabilities.missing(capabilities.for_probes())
