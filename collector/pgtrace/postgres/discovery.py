"""PostgreSQL's servers and what their processes do, found in /proc without a connection.

Files of a server
are read through /proc/PID/cwd and /proc/PID/root, which lead into its own mount namespace.
"""

import os
import re
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

from .. import sudo
from ..errors import PermissionDeniedError, PgtraceError, TargetError
from ..linux import foreign_files, in_time
from ..linux.other_root import inside
from ..linux.process_user import user_of
from . import binary, proc, titles
from .proc import Family, Process
from .versions import major_of

_PAGE_SIZES = {1024 << shift for shift in range(6)}
_VERSION = re.compile(rb"\d{1,4}(?:\.\d{1,4})?")
_MOST_PORT = 65535
_STATUS = 7
"""In the lock file: LOCK_FILE_LINE_PM_STATUS, src/include/utils/pidfile.h, counted from 1 there."""
_OID_DIGITS = 10


@dataclass(frozen=True, slots=True)
class Backend:
    """One process of a server; None is what its title does not say for certain."""

    process: Process
    postmaster_pid: int | None
    """None when the postmaster is gone and left this process behind."""
    backend_type: str | None
    """As pg_stat_activity.backend_type; `postmaster` for the postmaster."""
    datname: str | None = None
    usename: str | None = None
    application_name: str | None = None
    """Never in the title: only a database connection can fill it in."""
    client_addr: str | None = None
    client_port: int | None = None
    activity: str | None = None
    leader_pid: int | None = None
    """The backend that a parallel worker works for."""

    @property
    def pid(self) -> int:
        """Its pid, as seen from here."""
        return self.process.pid

    @property
    def title(self) -> titles.Title:
        """What is known of it of that which stays the same."""
        return titles.Title(
            backend_type=self.backend_type,
            usename=self.usename,
            datname=self.datname,
            leader_pid=self.leader_pid,
        )


@dataclass(frozen=True, slots=True)
class Tablespace:
    """A directory outside the data directory that holds relations."""

    oid: int
    location: str
    """As the server sees it."""
    path: Path
    """The same directory, seen from here."""


class Place(NamedTuple):
    """A data directory. Containers have different ones of one name."""

    path: str
    inode: tuple[int, int]
    mounts: tuple[int, int] | None
    """The mount namespace in which it has that name; None: it is not told."""

    def is_that_of(self, server: "Place") -> bool:
        """Or was made anew in its place, as from a backup."""
        known = self.inode == server.inode or self.mounts == server.mounts
        return self.path == server.path and known


@dataclass(frozen=True, slots=True)
class Server:
    """A running server. None is what could not be found out."""

    postmaster: Process
    version: str | None
    """Such as `15.18` or `18beta1`."""
    place: Place
    """By which the one is known, too, that is started in its stead."""
    block_size: int | None
    """In bytes."""
    port: int | None
    socket_directory: str | None
    cluster_name: str | None

    @property
    def postmaster_pid(self) -> int:
        """Its postmaster's pid, as seen from here."""
        return self.postmaster.pid

    @property
    def data_directory(self) -> str:
        """As the kernel names it: a path of its mount namespace. Open `directory` instead."""
        return self.place.path

    @property
    def major(self) -> int | None:
        """Major version, such as 15."""
        return major_of(self.version)

    @property
    def directory(self) -> Path:
        """Path to open the data directory by."""
        return Path(f"/proc/{self.postmaster_pid}/cwd")

    def runs(self) -> bool:
        """Whether it has not stopped since it was found. Cheaper than backends()."""
        return proc.runs(self.postmaster_pid, self.postmaster.start_time_ticks)

    def lets_in(self) -> bool:
        """Whether it runs, and says that clients may come; also where that may not be read."""
        try:
            return is_ready(self.directory, self.postmaster.uid) and self.runs()
        except PermissionError:
            return self.runs()
        except OSError:
            return False

    def backends(self, family: Family | None = None, *, activity: bool = True) -> list[Backend]:
        """List all processes of this server, the postmaster first; empty once it has stopped.

        `family` is proc.by_parent(), where several servers are looked at together. Without
        `activity`, which takes a look into each one's memory, that is None.
        """
        try:
            now = proc.process(self.postmaster_pid)
        except TargetError:
            return []
        if now.start_time_ticks != self.postmaster.start_time_ticks:
            return []
        found = [self.postmaster, *_children(self.postmaster, family)]
        outer = {process.inner_pid: process.pid for process in found}
        return [
            _backend(process, self.postmaster, self.major, outer, activity=activity)
            for process in found
        ]

    def backend(self, pid: int) -> Backend:
        """What a process does for this server. As the function below, which finds the server, too;
        TargetError also for a process of another one."""
        process = proc.postgresql(pid)
        if process.ppid != self.postmaster_pid:
            raise TargetError(f"Process {pid} is none of the server's, but of {process.ppid}.")
        return _backend(process, self.postmaster, self.major)


def is_ready(directory: Path, uid: int) -> bool:
    """Whether the lock file of a server that runs as this user says so. Raise OSError."""
    lock = foreign_files.read(directory, "postmaster.pid", uid)
    return b"".join(lock.splitlines()[_STATUS : _STATUS + 1]).strip() == b"ready"


def backend(pid: int) -> Backend:
    """Tell what a process does for PostgreSQL.

    Raise TargetError when there is no such process or it is not PostgreSQL,
    PermissionDeniedError when it may not be looked into.
    """
    process = proc.postgresql(pid)
    postmaster = _postmaster_of(process)
    return _backend(process, postmaster, major_of(proc.version(process)))


def server(pid: int) -> Server:
    """Find the server that a process belongs to. Errors as backend()."""
    postmaster = _postmaster_of(proc.postgresql(pid))
    if postmaster is None:
        raise TargetError(
            f"Process {pid} is PostgreSQL, but its postmaster is gone or it never had one. "
            f"`{sudo.as_root('list')}` shows the servers that run."
        )
    return _server(postmaster)


_not_told: list[int] = []


def servers() -> list[Server]:
    """Find every server that may be looked into; see hidden_servers.py for the others."""
    found: list[Server] = []
    _not_told.clear()
    known: set[int] = set()
    family: Family | None = None
    for pid in proc.pids():
        try:
            if pid in known or not has_lock_file(pid):
                continue
            # A child may come before it: pids begin anew, at the latest after 4 million
            postmaster = _postmaster_of(proc.postgresql(pid))
            if postmaster and postmaster.pid not in known:
                family = proc.by_parent() if family is None else family
                found.append(_server(postmaster, family))
                # Of which there may be thousands: they work in its directory, but are none
                known.update((postmaster.pid, *family.get(postmaster.pid, ())))
        except proc.NotToldError:
            _not_told.append(pid)
        except PgtraceError:
            continue
    _not_told[:] = [pid for pid in _not_told if pid not in known]
    return sorted(found, key=lambda server: server.postmaster_pid)


def not_told() -> list[int]:
    """Pids of processes that may be of servers which servers() did not find: there is a lock file
    where they work, and what they run could not be looked at."""
    return [*_not_told]


def successor(server: Server) -> Server | None:
    """Who runs now in the place of a server that has stopped, as the same user.

    Of other processes nothing is looked at that they could make large, many, or slow.
    """
    for pid in proc.pids():
        try:
            if not _may_succeed(pid, server) or not has_lock_file(pid):
                continue
            postmaster = _postmaster_of(proc.postgresql(pid))
            # A command of the server's may work there, too
            if postmaster and _place(postmaster).is_that_of(server.place):
                return _server(postmaster)
        except (PgtraceError, OSError):
            continue
    return None


def _may_succeed(pid: int, server: Server) -> bool:
    """By its user and the name of its directory, which is not looked into. Raise OSError."""
    if user_of(pid) != server.postmaster.uid:
        return False
    return os.readlink(f"/proc/{pid}/cwd") == server.data_directory  # noqa: PTH115


def told_apart(servers: Sequence[Server]) -> dict[int, str]:
    """What each of them is called where there are several, by its postmaster's pid: its data
    directory, and if that is the name of another's too, as in containers, also that pid."""
    often = Counter(server.data_directory for server in servers)
    return {
        each.postmaster_pid: each.data_directory
        + (f" (postmaster {each.postmaster_pid})" if often[each.data_directory] > 1 else "")
        for each in servers
    }


def has_lock_file(pid: int) -> bool:
    """Whether a process works in a directory with one, as every server's does.

    It is opened only once the process is known to run PostgreSQL. Raise PermissionDeniedError.
    """
    try:
        return in_time.is_file(pid, "postmaster.pid")
    except (PermissionError, TimeoutError) as error:
        raise _may_not_read(pid, error) from error


def tablespaces(server: Server) -> list[Tablespace]:
    """List a server's tablespaces, without the two inside its data directory.

    Raise PermissionDeniedError when its data directory may not be read.
    """
    links = server.directory / "pg_tblspc"
    root = Path(f"/proc/{server.postmaster_pid}/root")
    found = []
    try:
        for name in filter(_is_oid, foreign_files.names(server.directory, "pg_tblspc")):
            if (link := links / name).is_symlink():
                location = str(link.readlink())
                found.append(Tablespace(int(name), location, inside(root, location)))
    except PermissionError as error:
        raise _may_not_read(server.postmaster_pid, error) from error
    except OSError:
        return found
    return found


def _server(postmaster: Process, family: Family | None = None) -> Server:
    try:
        lock = in_time.read(postmaster.pid, "postmaster.pid", postmaster.uid)
        lines = lock.decode(errors="backslashreplace").splitlines() + [""] * 5
        return Server(
            postmaster,
            proc.version(postmaster) or _version(postmaster),
            _place(postmaster),
            _block_size(postmaster),
            _port(lines[3]),
            lines[4] or None,
            _cluster_name(postmaster, family),
        )
    except (PermissionError, TimeoutError) as error:
        raise _may_not_read(postmaster.pid, error) from error
    except OSError as error:
        raise TargetError(f"The server of postmaster {postmaster.pid} has stopped.") from error


def _place(postmaster: Process) -> Place:
    directory = Path(f"/proc/{postmaster.pid}/cwd")
    path, inode = str(directory.readlink()), in_time.inode(postmaster.pid, "cwd")
    if inode is None:
        raise FileNotFoundError(directory)
    return Place(path, inode, foreign_files.inode(f"/proc/{postmaster.pid}/ns/mnt"))


def _version(postmaster: Process) -> str | None:
    """The major one, where the binary says none."""
    try:
        text = in_time.read(postmaster.pid, "PG_VERSION", postmaster.uid, 16)
    except OSError:
        return None
    return text.strip().decode() if _VERSION.fullmatch(text.strip()) else None


def _port(text: str) -> int | None:
    number = int(text) if text.isascii() and text.isdecimal() else 0
    return number if 0 < number <= _MOST_PORT else None


def _block_size(postmaster: Process) -> int | None:
    """Read it from a page: pd_pagesize_version, src/include/storage/bufpage.h."""
    for name in filter(_is_oid, _names_in(postmaster.pid, "global")):
        try:
            header = in_time.read(postmaster.pid, f"global/{name}", postmaster.uid, 20)
        except OSError:
            continue
        size = int.from_bytes(header[18:20], sys.byteorder) & 0xFF00
        if size in _PAGE_SIZES:
            return size
    return None


def _names_in(pid: int, name: str) -> list[str]:
    try:
        return in_time.names(pid, name)
    except OSError:
        return []


def _is_oid(name: str) -> bool:
    return name.isascii() and name.isdecimal() and len(name) <= _OID_DIGITS


def _backend(
    process: Process,
    postmaster: Process | None,
    major: int | None,
    outer: Mapping[int, int] | None = None,
    *,
    activity: bool = True,
) -> Backend:
    """`outer` are pids here, by those of the server's own PID namespace, if they are known."""
    if postmaster and process.pid == postmaster.pid:
        return Backend(process, process.pid, "postmaster")
    cluster = _cluster_name(postmaster) if postmaster else None
    title = titles.parse(process.title, cluster, major)
    if process.title_cut and not title.client_addr and not title.leader_pid:
        title = titles.Title()
    leader_pid = title.leader_pid
    if leader_pid is not None and postmaster and process.pid != process.inner_pid:
        outer = {p.inner_pid: p.pid for p in _children(postmaster)} if outer is None else outer
        leader_pid = outer.get(leader_pid)
    session = title if leader_pid is None else _title_of(leader_pid, cluster, major)
    return Backend(
        process,
        postmaster.pid if postmaster else None,
        title.backend_type,
        session.datname,
        session.usename,
        client_addr=title.client_addr,
        client_port=title.client_port,
        activity=title.activity if activity and _title_is_fresh(process, postmaster) else None,
        leader_pid=leader_pid,
    )


def _title_of(pid: int, cluster: str | None, major: int | None) -> titles.Title:
    try:
        return titles.parse(proc.process(pid).title, cluster, major)
    except PgtraceError:
        return titles.Title()


def _title_is_fresh(process: Process, postmaster: Process | None) -> bool:
    """Whether the process keeps its title up to date: update_process_title, a bool."""
    if process.title_cut:
        return False
    owner = postmaster or process
    address = _update_process_title(owner.pid, owner.start_time_ticks)
    if address is None:
        return True
    try:
        return binary.read_memory(process.pid, address, 1) != b"\0"
    except PgtraceError:
        return True


@lru_cache(maxsize=64)
def _update_process_title(pid: int, _start_time_ticks: int) -> int | None:
    try:
        return binary.variable_address(pid, "update_process_title")
    except PgtraceError:
        return None


_cluster_names: dict[tuple[int, int], str] = {}


def _cluster_name(postmaster: Process, family: Family | None = None) -> str | None:
    key = (postmaster.pid, postmaster.start_time_ticks)
    if key not in _cluster_names:
        name = titles.cluster_name(child.title for child in _children(postmaster, family))
        if name is None:  # a server that is only starting has none to tell yet
            return None
        _cluster_names[key] = name
    return _cluster_names[key]


def _children(postmaster: Process, family: Family | None = None) -> Iterator[Process]:
    """Yield the server's processes, without commands that it runs, such as archive_command. Those
    first that follow its own pid: which it starts itself, and whose titles tell most, are there."""
    program = in_time.inode(postmaster.pid, "exe")
    pids = (proc.by_parent() if family is None else family).get(postmaster.pid, ())
    for pid in sorted(pids, key=lambda pid: (pid < postmaster.pid, pid)):
        try:
            process = proc.process(pid)
            same = program is not None and in_time.inode(pid, "exe") == program
            if process.ppid == postmaster.pid and (same or proc.version(process) is not None):
                yield process
        except PgtraceError:
            continue


def _postmaster_of(process: Process) -> Process | None:
    # A backend's parent, and never an older ancestor: a function of one server may start another.
    if _is_postmaster(process):
        return process
    try:
        parent = proc.postgresql(process.ppid)
    except PgtraceError:
        return None
    return parent if _is_postmaster(parent) else None


def _is_postmaster(process: Process) -> bool:
    """By the pid in the lock file, which is negative for --single. Raise PermissionDeniedError."""
    try:
        lock = in_time.read(process.pid, "postmaster.pid", process.uid)
        return int(lock.partition(b"\n")[0]) == process.inner_pid
    except (PermissionError, TimeoutError) as error:
        raise _may_not_read(process.pid, error) from error
    except (OSError, ValueError):
        return False


def _may_not_read(pid: int, error: OSError) -> PermissionDeniedError:
    what = f"The data directory of PostgreSQL process {pid} may not be read"
    return binary.may_not_look(what, error)
