"""Who holds a lock that a process waits for, by the server's memory: also where nobody is let in.

PostgreSQL's locks are structures in memory that all its processes share (storage/lock.h, proc.h).
MyProc leads to the waiting process's own PGPROC, whose fields are in another order in each version:
where it points to the lock is seen from what is there, which points back. What hangs on the lock is
alike from PostgreSQL 14 to 19. It changes while it is read, so that all must hang together, or
nobody is told.
"""

import struct
from collections.abc import Iterator
from typing import NamedTuple

from ..errors import PgtraceError
from ..terminal_text import decode
from . import binary
from .activity import Looker
from .blockers import MOST, PREPARED, Blocker
from .discovery import Backend, Server

_PGPROC = 1024
"""So much of it is looked at: more than what lies before the lock, in all versions."""
_WAIT = struct.Struct("=QQi")
"""waitLock, waitProcLock, waitLockMode."""
_PROCLOCK = struct.Struct("=QQQi")
"""myLock, myProc, groupLeader, holdMask."""
_LINK = 32
"""Where in it lockLink is, which leads to the lock's next one: prev, next."""
_LOCK = struct.Struct("=24xQQQQ")
"""procLocks and waitProcs: prev, next."""
_HELD, _QUEUE = 24, 40
"""Where in the lock they are."""
_MOST_LINKS = 4096
_CONFLICTS = (
    (), (8,), (7, 8), (5, 6, 7, 8), (4, 5, 6, 7, 8), (3, 4, 6, 7, 8), (3, 4, 5, 6, 7, 8),
    (2, 3, 4, 5, 6, 7, 8), (1, 2, 3, 4, 5, 6, 7, 8),
)  # fmt: skip
"""With which modes each is not to be had: LockConflicts in storage/lmgr/lock.c."""
_NAMES = struct.Struct("=i236xQQ")
"""st_changecount, st_appname and st_activity_raw of PgBackendStatus, utils/backend_status.h."""
_NAME, _TEXT = 64, 1024


class _ChangedError(Exception):
    """What was read does not hang together."""


class _Waiting(NamedTuple):
    """A process that waits for a lock."""

    lock: int
    group: int
    """Its PGPROC, or its leader's: they do not stand in each other's way."""
    mode: int


class LockHolders:
    """Looks into one server. What its binary does not export is not told."""

    def __init__(self, server: Server) -> None:
        self._server = server
        pid = server.postmaster_pid
        self._proc, self._status, self._name = (
            binary.known_address(pid, each) for each in ("MyProc", "MyBEEntry", "application_name")
        )
        self._looker = Looker(pid)

    def of(self, pid: int) -> list[Blocker]:
        """Who holds, or stands before a process in the queue for, the lock that it waits for."""
        if not self._proc:
            return []
        try:
            procs = self._before(pid)
            if not procs:
                return []
            known = self._backends()
            # A prepared transaction has a PGPROC, and no process
            found = [self._told(known[each]) if each in known else PREPARED for each in procs]
        except (PgtraceError, _ChangedError):
            return []
        return found[:MOST]

    def _before(self, pid: int) -> list[int]:
        """The PGPROCs of those who are before it."""
        proc = binary.pointer(pid, self._proc)
        memory = binary.read_memory(pid, proc, _PGPROC)
        where = _where_it_waits(pid, proc, memory)
        if where is None:
            return []
        own = _waiting(pid, proc, where)
        conflicts = sum(1 << mode for mode in _CONFLICTS[own.mode])
        *_, first_held, _, first_waiting = _read(_LOCK, pid, own.lock)
        found = []
        for node in _links(pid, own.lock + _HELD, first_held):
            lock, holder, group, held = _read(_PROCLOCK, pid, node - _LINK)
            if lock != own.lock:
                raise _ChangedError
            if held & conflicts and group != own.group:
                found.append(holder)
        queue = list(_links(pid, own.lock + _QUEUE, first_waiting))
        # Where in a PGPROC the link is, its own tells; what comes behind it is its neighbour's
        place = min((node for node in queue if proc <= node < proc + _PGPROC), default=0)
        if not place:
            raise _ChangedError
        for node in queue[: queue.index(place)]:
            other = _waiting(pid, node - (place - proc), where)
            if other.lock == own.lock and other.group != own.group and conflicts >> other.mode & 1:
                found.append(node - (place - proc))
        if _waiting(pid, proc, where) != own:
            raise _ChangedError
        return list(dict.fromkeys(found))

    def _backends(self) -> dict[int, Backend]:
        """The server's processes, by their PGPROC."""
        found = {}
        for backend in self._server.backends(activity=False):
            try:
                found[binary.pointer(backend.pid, self._proc)] = backend
            except PgtraceError:  # it has ended
                continue
        return found

    def _told(self, backend: Backend) -> Blocker:
        shown = self._server.backend(backend.pid)
        doing = self._looker.look(shown)
        name, query = self._names(backend.pid)
        return Blocker(
            backend.process.inner_pid, shown.usename, name, doing.state, doing.seconds, query
        )

    def _names(self, pid: int) -> tuple[str | None, str | None]:
        """Its application_name, and what it runs, or ran last."""
        if not self._name:
            return None, None
        name = _text(pid, binary.pointer(pid, self._name), _NAME)
        entry = binary.pointer(pid, self._status) if self._status else 0
        if not entry:
            return name or None, None
        before, shown_name, shown = _read(_NAMES, pid, entry)
        query = _text(pid, shown, _TEXT) if _text(pid, shown_name, _NAME) == name else None
        after, *_ = _read(_NAMES, pid, entry)
        return name or None, query if before == after and before % 2 == 0 else None


def _where_it_waits(pid: int, proc: int, memory: bytes) -> int | None:
    """Where in a PGPROC are the fields that say for what it waits; None: it does not."""
    for place in range(0, len(memory) - _WAIT.size, 8):
        lock, proclock, mode = _WAIT.unpack_from(memory, place)
        if not lock or not proclock or lock % 8 or proclock % 8 or not 0 < mode < len(_CONFLICTS):
            continue
        try:
            of_lock, of_proc, _, _ = _read(_PROCLOCK, pid, proclock)
        except (PgtraceError, _ChangedError):  # it was no pointer
            continue
        if (of_lock, of_proc) == (lock, proc):
            return place
    return None


def _waiting(pid: int, proc: int, where: int) -> _Waiting:
    lock, proclock, mode = _read(_WAIT, pid, proc + where)
    if not proclock or not 0 < mode < len(_CONFLICTS):
        raise _ChangedError
    of_lock, of_proc, group, _ = _read(_PROCLOCK, pid, proclock)
    if (of_lock, of_proc) != (lock, proc):
        raise _ChangedError
    return _Waiting(lock, group, mode)


def _links(pid: int, head: int, first: int) -> Iterator[int]:
    """The addresses of the links of a list."""
    node = first
    for _ in range(_MOST_LINKS):
        if node == head:
            return
        yield node
        node = binary.pointer(pid, node + 8)
    raise _ChangedError


def _read(what: struct.Struct, pid: int, address: int) -> tuple[int, ...]:
    data = binary.read_memory(pid, address, what.size)
    if len(data) < what.size:
        raise _ChangedError
    return what.unpack(data)


def _text(pid: int, address: int, size: int) -> str:
    return decode(binary.read_memory(pid, address, size).partition(b"\0")[0]) if address else ""
