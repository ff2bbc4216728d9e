"""Starts of servers' processes, and ends of these and of servers, as the kernel's process connector
tells them."""

import contextlib
import ctypes
import errno
import os
import socket
import struct
import sys
import threading
from collections.abc import Collection
from typing import NamedTuple

_FORK, _EXIT = 0x1, 0x80000000  # include/uapi/linux/cn_proc.h
_SO_RCVBUFFORCE = 33  # include/uapi/asm-generic/socket.h; Python has no name for it
_BUFFER_BYTES = 16 << 20
"""Holds some 20,000 events."""
_MOST_BYTES = 4096
_EVENT = struct.Struct("=36x2IQ4I")
"""nlmsghdr, cn_msg; struct proc_event: what, cpu, timestamp_ns; of a fork parent_pid, parent_tgid,
child_pid, child_tgid; of an exit process_pid, process_tgid, exit_code, exit_signal."""
_WHAT_AT, _PID_AT, _TGID_AT = 36, 52, 56
_SO_ATTACH_FILTER = 26  # include/uapi/asm-generic/socket.h
_FILTER = struct.Struct("=HBBI")  # struct sock_filter
_LOAD, _IF_EQUAL, _IF_EQUAL_X, _TO_X, _RETURN = 0x20, 0x15, 0x1D, 0x07, 0x06
"""BPF_LD | BPF_W | BPF_ABS and so on, include/uapi/linux/bpf_common.h."""


class Event(NamedTuple):
    """A process started or ended. `at_ns` is CLOCK_MONOTONIC, in nanoseconds."""

    pid: int
    at_ns: int
    ended: bool


class Life:
    """Listens from soon after its start on: pyroute2, which takes a while to import, subscribes in
    a thread of its own. What is heard waits in the kernel for the next poll().

    `failure` says why nothing can be heard, once that is known.
    """

    def __init__(self, postmasters: set[int]) -> None:
        self._postmasters = postmasters
        self.failure: str | None = None
        self.overflows = 0
        """So often the kernel had more to tell than its buffer holds, and dropped events."""
        self.begun = 0
        """So often there was a gap before what is heard, at the start and at each overflow: who was
        started in it is not heard of."""
        self._children: set[int] = set()
        self._socket: socket.socket | None = None
        self._closed = False
        threading.Thread(target=self._subscribe, name="pgtrace-life", daemon=True).start()

    def poll(self) -> list[Event]:
        """What happened since the last call."""
        found: list[Event] = []
        while self._socket:
            try:
                message, sender = self._socket.recvfrom(_MOST_BYTES)
            except BlockingIOError:
                break
            except OSError as error:
                if error.errno != errno.ENOBUFS:
                    self.failure = os.strerror(error.errno or errno.EIO)
                    self.close()
                    break
                self.overflows += 1
                self.begun += 1
                continue
            # Whoever may send to the group can say anything; and some only say that they begin
            if sender[0] == 0 and len(message) >= _EVENT.size:
                self._take(found, *_EVENT.unpack_from(message))
        return found

    def fileno(self) -> int | None:
        """What can be read once there is something to hear; None while nothing can be."""
        return self._socket.fileno() if self._socket and not self.failure else None

    def adopt(self, pid: int) -> None:
        """A child of which no start was heard: its end is told as well."""
        self._children.add(pid)

    def follow(self, old: int, new: int) -> None:
        """Another postmaster has come in the place of one that is gone."""
        self._postmasters = self._postmasters - {old} | {new}
        if self._socket:
            _hear_only(self._socket, self._postmasters)

    def close(self) -> None:
        """Stop listening."""
        self._closed = True
        if self._socket:
            self._socket.close()
            self._socket = None

    def _subscribe(self) -> None:
        try:
            listener = _listener()
            _hear_only(listener, self._postmasters)
            self._socket = listener
            self.begun += 1
        except Exception as error:  # whatever a library does in a thread: it is told, and no more
            self.failure = str(error) or type(error).__name__
        if self._closed:
            self.close()

    def _take(
        self, found: list[Event], what: int, _cpu: int, at_ns: int, pid: int, tgid: int, *rest: int
    ) -> None:
        if what == _FORK and tgid in self._postmasters:
            child, group = rest
            if child == group:
                self._children.add(child)
                found.append(Event(child, at_ns, False))
        elif what == _EXIT and (pid in self._children or pid in self._postmasters):
            self._children.discard(pid)
            self._postmasters = self._postmasters - {pid}  # which may be another's from now on
            found.append(Event(pid, at_ns, True))


def _hear_only(listener: socket.socket, postmasters: Collection[int]) -> None:
    """Of all that happens on the host: starts of these ones' children, and ends of processes.

    The kernel leaves out the rest, as what is heard wakes whoever waits for it.
    """
    fork, drop, keep = 7, 8 + len(postmasters), 9 + len(postmasters)
    # Operation, where to go on if it is true and if it is not, operand; by their places
    program = [
        (_LOAD, 0, 0, _WHAT_AT),
        (_IF_EQUAL, fork, 2, _loaded(_FORK)),
        (_IF_EQUAL, 3, drop, _loaded(_EXIT)),
        (_LOAD, 0, 0, _PID_AT),
        (_TO_X, 0, 0, 0),
        (_LOAD, 0, 0, _TGID_AT),
        (_IF_EQUAL_X, keep, drop, 0),
        (_LOAD, 0, 0, _TGID_AT),
        *((_IF_EQUAL, keep, at, _loaded(pid)) for at, pid in enumerate(postmasters, fork + 2)),
        (_RETURN, 0, 0, 0),
        (_RETURN, 0, 0, _MOST_BYTES),
    ]
    code = b"".join(
        _FILTER.pack(what, max(yes - at - 1, 0), max(no - at - 1, 0), operand)
        for at, (what, yes, no, operand) in enumerate(program)
    )
    memory = ctypes.create_string_buffer(code, len(code))
    whole = struct.pack("HP", len(program), ctypes.addressof(memory))
    listener.setsockopt(socket.SOL_SOCKET, _SO_ATTACH_FILTER, whole)


def _loaded(value: int) -> int:
    """As a filter loads it, which takes what it finds for big-endian."""
    return int.from_bytes(value.to_bytes(4, sys.byteorder), "big")


def _listener() -> socket.socket:
    """Never waits. Raises OSError where the kernel has no connector, or may not be asked."""
    from pyroute2.netlink.connector.cn_proc import ProcEventSocket

    with contextlib.closing(ProcEventSocket()) as connector:
        # The kernel's own choice holds 270 events
        with contextlib.suppress(PermissionError):
            connector.setsockopt(socket.SOL_SOCKET, _SO_RCVBUFFORCE, _BUFFER_BYTES)
        connector.bind()
        connector.control(listen=True)
        # pyroute2 0.9.7 takes 0.4 ms for an event, and needs a new socket after an overflow
        # (netlink/core.py, error_received): the events are read from the same socket without it
        listener = socket.socket(fileno=os.dup(connector.fileno()))
    listener.setblocking(False)
    return listener
