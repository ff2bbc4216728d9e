"""One process, as /proc shows it, and whether its binary is PostgreSQL's server.

A process is PostgreSQL by what its binary holds, whatever the file is called. The binary is
never executed, and never looked up by its path, which may be another root's or replaced.
"""

import errno
import os
import re
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from .. import sudo
from ..errors import PermissionDeniedError, PgtraceError, TargetError
from ..linux import foreign_files, in_time, namespaces
from . import binary, program

_KERNEL_THREAD = 0x00200000  # PF_KTHREAD, include/linux/sched.h
_MOST_PIDS = 4 << 20  # PID_MAX_LIMIT, include/linux/threads.h
_MOST_HEAD = 128
"""Of /proc/PID/stat, in bytes: the pid, 64 of the name, which may hold anything, and the parent."""
_MOST_STAT = 4096
_MOST_TITLE = 16 << 10
"""In bytes. What follows the first string is not looked at, and may be of any size."""
_OF_STATUS = re.compile(rb"^(Tgid|Uid|NSpid):\t(.*)$", re.MULTILINE)
_DELETED = " (deleted)"
Family = dict[int, list[int]]
"""Pids of children, by their parent's."""


class NotToldError(TargetError):
    """What a process runs could not be looked at, though it may be a server."""


class _NoneSuchError(TargetError):
    """Its words are looked for when somebody reads them: every process may have to be looked at,
    and whoever follows many processes meets the end of some at each look."""

    def __init__(self, words: Callable[[], str]) -> None:
        super().__init__(words)
        self._words = words

    def __str__(self) -> str:
        return self._words()


@dataclass(frozen=True, slots=True)
class Process:
    """A process that runs a program."""

    pid: int
    ppid: int
    inner_pid: int
    """Its pid in its own PID namespace: what its server knows it by."""
    start_time_ticks: int
    """Clock ticks since boot; tells a process from a later one of the same pid."""
    uid: int
    comm: str
    exe: str
    """Path of the binary when it was started; open `binary` instead, which is what runs."""
    exe_replaced: bool
    """The file of that path is gone, as after an upgrade."""
    title: str
    """First string of its command line: for PostgreSQL what `ps` shows."""
    title_cut: bool
    """There was no room for the whole title, or it could not be read in time."""

    @property
    def binary(self) -> Path:
        """Path to open the running binary by."""
        return Path(f"/proc/{self.pid}/exe")


def pids() -> list[int]:
    """List all processes that /proc shows, in order."""
    return sorted(int(name) for name in os.listdir("/proc") if name.isdecimal())  # noqa: PTH208


def parent(pid: int) -> int | None:
    """Pid of a process's parent; None when it is gone. Cheaper than process()."""
    try:
        # Of what may be thousands: a Path of each, and its text, take longer than the kernel does
        head = foreign_files.read_descriptor(f"/proc/{pid}/stat", _MOST_HEAD)
    except OSError:
        return None
    return int(head.rpartition(b")")[2].split(maxsplit=2)[1])


def start_time_ticks(pid: int) -> int | None:
    """When a process started, as process() has it; None when it has ended. Cheaper than that."""
    try:
        stat = foreign_files.read_descriptor(f"/proc/{pid}/stat", _MOST_STAT)
    except OSError:
        return None
    fields = stat.rpartition(b")")[2].split()
    return None if fields[0] in {b"Z", b"X"} else int(fields[19])


def runs(pid: int, since_ticks: int) -> bool:
    """Whether the process that started then has not ended: its pid may be another's by now."""
    return start_time_ticks(pid) == since_ticks


def by_parent() -> Family:
    """All processes that /proc shows now: the pids of each one's children, in order."""
    found: Family = {}
    for pid in pids():
        if (of := parent(pid)) is not None:
            found.setdefault(of, []).append(pid)
    return found


def process(pid: int) -> Process:
    """Look at a process.

    Raise TargetError when it is none that runs a program, PermissionDeniedError when its
    binary may not be read.
    """
    try:
        comm, fields = _stat(pid)
        if int(fields[6]) & _KERNEL_THREAD:
            what = f"Process {pid} ({_shown(comm)}) is a kernel thread"
            raise _NoneSuchError(lambda: f"{what}. {_meant(pid) or _list()}")
        if fields[0] in "ZX":
            raise TargetError(
                f"Process {pid} ({_shown(comm)}) has ended, and its parent {fields[1]} has not "
                "collected it yet (zombie)."
            )
        status = _status(pid)
        if (process_id := int(status[b"Tgid"])) != pid:
            raise TargetError(f"{pid} is a thread of process {process_id}. {_list()}")
        title, end = _title(pid)
        exe = os.readlink(f"/proc/{pid}/exe")  # noqa: PTH115  # as in parent()
    except (FileNotFoundError, ProcessLookupError) as error:
        raise _no_such(pid) from error
    except PermissionError as error:
        raise binary.may_not_look(f"The binary of process {pid} may not be read", error) from error
    except OSError as error:
        if error.errno != errno.ENAMETOOLONG:
            raise
        # Of its program: whoever starts one chooses how deep it lies, and it is to cost him alone
        what = f"Process {pid} cannot be looked at, by the path of its program"
        raise TargetError(f"{what}: {error.strerror}.") from error
    room = int(fields[48]) - int(fields[45])  # env_end - arg_start, 0 when not shown to us
    return Process(
        pid=pid,
        ppid=int(fields[1]),
        inner_pid=int(status[b"NSpid"].split()[-1]) if b"NSpid" in status else pid,
        start_time_ticks=int(fields[19]),
        uid=int(status[b"Uid"].split()[0]),
        comm=comm,
        exe=exe.removesuffix(_DELETED),
        exe_replaced=exe.endswith(_DELETED),
        title=title.decode(errors="backslashreplace"),
        title_cut=0 < room <= len(title) + 1 or not end,
    )


def _title(pid: int) -> tuple[bytes, bool]:
    """And whether it is known to its end."""
    try:
        line = in_time.command_line(pid, _MOST_TITLE)
    except TimeoutError:
        return b"", False
    title, end, _ = line.partition(b"\0")
    return title, bool(end) or len(line) < _MOST_TITLE


def postgresql(pid: int) -> Process:
    """Look at a process of PostgreSQL's server. As process(); TargetError for any other."""
    found = process(pid)
    if version(found) is None:
        what = f"{_shown(found.exe)} ({_shown(found.comm)})"
        what = f"Process {pid} is not PostgreSQL but {what}"
        raise _NoneSuchError(lambda: f"{what}. {_meant(pid) or _list()}")
    return found


def version(process: Process) -> str | None:
    """Version of the PostgreSQL server that a process runs, such as `15.18` or `18beta1`.

    Empty when the binary does not say; None when it is no PostgreSQL server, or has ended.
    Raise PermissionDeniedError when it may not be read, NotToldError when it was not looked at, as
    others of its user took too long, or the look came to nothing.
    """
    try:
        return version_of(process.binary)
    except (FileNotFoundError, ProcessLookupError):
        return None
    except PermissionError as error:
        what = f"The binary of process {process.pid} may not be read"
        raise binary.may_not_look(what, error) from error
    except OSError as error:
        raise NotToldError(f"The binary of process {process.pid}: {error.strerror}.") from error


def version_of(path: Path) -> str | None:
    """The same of a server's binary. Raise OSError when it cannot be read."""
    kind = program.look(path).kind
    return kind.version if kind.server else None


def _stat(pid: int) -> tuple[str, list[str]]:
    """Name, and the fields of /proc/PID/stat from the third on, see proc_pid_stat(5)."""
    stat = foreign_files.read_descriptor(f"/proc/{pid}/stat", _MOST_STAT)
    comm, _, fields = stat.partition(b"(")[2].rpartition(b")")
    return comm.decode(errors="backslashreplace"), fields.decode().split()


def _status(pid: int) -> dict[bytes, bytes]:
    """Those of its lines that are used here. A process may be in thousands of groups."""
    with open(f"/proc/{pid}/status", "rb", buffering=0) as file:  # noqa: PTH123  # as in parent()
        return dict(_OF_STATUS.findall(file.readall()))


def _no_such(pid: int) -> PgtraceError:
    if _hidden(pid):
        return PermissionDeniedError(
            f"Process {pid} is hidden from you: /proc is mounted with hidepid. {sudo.how()}"
        )
    return _NoneSuchError(lambda: _no_process(pid))


def _no_process(pid: int) -> str:
    hint = _meant(pid)
    if not hint and not namespaces.in_first_pid_namespace():
        return (
            f"No process {pid} in this PID namespace, as pgtrace runs in a container: "
            f"{namespaces.SEE_ALL}."
        )
    return f"No process {pid}. {hint or _list()}"


def _meant(pid: int) -> str:
    """What to say where servers in containers have a process of that pid; nothing if none has."""
    outer = [str(other.pid) for other in _known_inside_as(pid)]
    if not outer:
        return ""
    return (
        f"PostgreSQL process {' or '.join(outer)} has that pid in a PID namespace of its own "
        f"(a container). Type: {_with_pid(pid, outer[0])}"
    )


def _with_pid(named: int, meant: str) -> str:
    """What was typed, with that pid in the place of this one."""
    words = [meant if word == str(named) else word for word in sys.argv[1:]]
    return sudo.as_root(*(words if meant in words else ("attach", meant)))


def _list() -> str:
    return f"`{sudo.as_root('list')}` shows PostgreSQL's processes."


def _hidden(pid: int) -> bool:
    if not 0 < pid <= _MOST_PIDS or Path(f"/proc/{pid}").exists():
        return False
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return not Path(f"/proc/{pid}").exists()


def _known_inside_as(inner: int) -> Iterator[Process]:
    for pid in pids():
        try:
            if _status(pid).get(b"NSpid", b"").split()[1:][-1:] == [b"%d" % inner]:
                found = process(pid)
                if version(found) is not None:
                    yield found
        except (OSError, PgtraceError):
            continue


def _shown(name: str) -> str:
    return name if name.isprintable() else ascii(name)
