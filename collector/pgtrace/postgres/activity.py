"""What backends do now, by their own memory: also of a server that lets nobody in any more.

A backend shows itself in pg_stat_activity by a structure, PgBackendStatus, to which its variable
MyBEEntry points. The structure begins alike from PostgreSQL 14 to 19 (utils/backend_status.h); that
it is one is seen from its own pid and start in it, and without them nothing is taken from it.
"""

import os
import struct
import sys
import time
from collections.abc import Iterable
from typing import NamedTuple

from ..errors import PgtraceError
from ..terminal_text import decode
from . import binary
from .discovery import Backend
from .proc import Process
from .redaction import redact

LOOKED_AT = frozenset({"client backend", "autovacuum worker"})
"""Types of backends that run statements for somebody. Parallel workers run their leader's."""
_STATUS = struct.Struct("=iii4xqqqq")
"""st_changecount, st_procpid, st_backendType; when the process, its transaction, its statement and
its state began."""
_EPOCH_US = 946_684_800_000_000
"""From 1970 to 2000, when PostgreSQL's time begins."""
_MOST_APART_US = 500_000
"""Between the kernel's start of a process and the server's, by clocks that may have been set."""
_LOOKS = 3
_WAITS = {
    0x01: "LWLock", 0x03: "Lock", 0x04: "BufferPin", 0x05: "Activity", 0x06: "Client",
    0x07: "Extension", 0x08: "IPC", 0x09: "Timeout", 0x0A: "IO", 0x0B: "InjectionPoint",
}  # fmt: skip
"""The highest byte of a wait event: utils/wait_classes.h."""


class Activity(NamedTuple):
    """None is what could not be read, or what there is not."""

    state: str | None = None
    """In pg_stat_activity's words, if the title says it."""
    seconds: float | None = None
    """How long the statement runs; of a session that is idle, how long it is."""
    wait_event_type: str | None = None
    query: str | None = None
    """What it runs, without literals."""


class Looker:
    """Looks at backends of one server. What its binary does not export is None."""

    def __init__(self, server_pid: int) -> None:
        self._status = binary.known_address(server_pid, "MyBEEntry")
        self._wait = binary.known_address(server_pid, "my_wait_event_info")
        self._text = binary.known_address(server_pid, "debug_query_string")

    def look(self, backend: Backend) -> Activity:
        """What it does. One that has nothing to do is not looked into, if its title says so."""
        state = _state(backend)
        if state == "idle" or backend.backend_type not in LOOKED_AT:
            return Activity(state)
        try:
            began = self._began(backend)
            text = binary.running_query(backend.pid, variable=self._text) if self._text else None
            wait = self._waits(backend.pid)
        except PgtraceError:  # it has ended
            return Activity(state)
        if state is None:  # its title is not kept up to date
            state = "active" if text else None
        seconds = None
        if began and state:
            since = began[0] if state == "active" else began[1]
            seconds = max(0.0, time.time() - (since + _EPOCH_US) / 1e6) if since else None
        query = redact(decode(text[0], text[1]), text[1]) if text and text[0] else None
        return Activity(state, seconds, wait, query)

    def _began(self, backend: Backend) -> tuple[int, int] | None:
        """When its statement began, and its state, in µs since 2000."""
        process = backend.process
        for _ in range(_LOOKS if self._status else 0):
            entry = binary.pointer(process.pid, self._status)
            data = binary.read_memory(process.pid, entry, _STATUS.size) if entry else b""
            if len(data) < _STATUS.size:
                return None
            count, pid, _, started, _, statement, state = _STATUS.unpack(data)
            if pid != process.inner_pid or abs(started - _started_us(process)) > _MOST_APART_US:
                return None
            if count % 2 == 0:  # else it is being written
                return statement, state
        return None

    def _waits(self, pid: int) -> str | None:
        """pg_stat_activity.wait_event_type."""
        where = binary.pointer(pid, self._wait) if self._wait else 0
        if not where:
            return None
        event = int.from_bytes(binary.read_memory(pid, where, 4), sys.byteorder)
        return _WAITS.get(event >> 24)


def longest_first(
    backends: Iterable[tuple[Backend, Activity]],
) -> list[tuple[Backend, Activity]]:
    """Those that run longest first; how long is not known of the last."""
    return sorted(backends, key=lambda each: -(each[1].seconds or 0.0))


def _state(backend: Backend) -> str | None:
    """By the title, which ends in the command, or in `idle`."""
    said = backend.activity
    return said if said is None or said.startswith("idle") else "active"


def _started_us(process: Process) -> float:
    """In µs since 2000."""
    ago = time.clock_gettime(time.CLOCK_BOOTTIME) - process.start_time_ticks / os.sysconf(
        "SC_CLK_TCK"
    )
    return (time.time() - ago) * 1e6 - _EPOCH_US
