"""Starts and ends of servers' processes, as the kernel's process connector tells them."""

import contextlib
import errno
import socket
import struct
import threading
from collections import deque
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from pyroute2.netlink.connector.cn_proc import ProcEventSocket

_FORK, _EXIT = 0x1, 0x80000000  # include/uapi/linux/cn_proc.h
_SO_RCVBUFFORCE = 33  # include/uapi/asm-generic/socket.h; Python has no name for it
_BUFFER_BYTES = 4 << 20
"""Holds some 5,000 events."""


class Event(NamedTuple):
    """A process started or ended. `at_ns` is CLOCK_MONOTONIC, in nanoseconds."""

    pid: int
    at_ns: int
    ended: bool


class Life:
    """Listens from its start on, in a thread of its own: pyroute2 takes a while to import.

    `failure` says why nothing can be heard, once that is known.
    """

    def __init__(self, postmasters: set[int]) -> None:
        self.postmasters = postmasters
        self.failure: str | None = None
        self.overflows = 0
        """So often the kernel had more to tell than its buffer holds, and dropped events."""
        self.begun = 0
        """So often it began to listen: who was started before that is not heard of."""
        self._children: set[int] = set()
        self._events: deque[Event] = deque()
        self._socket: ProcEventSocket | None = None
        self._closed = False
        self._thread = threading.Thread(target=self._listen, name="pgtrace-life", daemon=True)
        self._thread.start()

    def poll(self) -> list[Event]:
        """What happened since the last call."""
        found = []
        while self._events:
            found.append(self._events.popleft())
        return found

    def adopt(self, pid: int) -> None:
        """A child of which no start was heard: its end is told as well."""
        self._children.add(pid)

    def close(self) -> None:
        """Stop listening."""
        self._closed = True
        if self._socket:
            # RuntimeError: the thread has just ended by itself, and its loop with it, between
            # pyroute2's look at that and its call (netlink/core.py of 0.9.7)
            with contextlib.suppress(OSError, RuntimeError):
                self._socket.close()

    def _listen(self) -> None:
        try:
            while not self._closed:
                self._hear()
                self.overflows += 1
        except Exception as error:  # whatever a library does in a thread: it is told, and no more
            if not self._closed:
                self.failure = str(error) or type(error).__name__

    def _hear(self) -> None:
        """Until events came too fast. Then another socket is needed: pyroute2 0.9.7 keeps the error
        (netlink/core.py, error_received).
        """
        from pyroute2.netlink.connector.cn_proc import ProcEventSocket

        self._socket = ProcEventSocket()
        # The kernel's own choice holds 270 events
        with contextlib.suppress(PermissionError):
            self._socket.setsockopt(socket.SOL_SOCKET, _SO_RCVBUFFORCE, _BUFFER_BYTES)
        self._socket.bind()
        self._socket.control(listen=True)
        self.begun += 1
        while not self._closed:
            # The kernel passes on to all what another listener said when it began, which
            # pyroute2 takes for an event that was cut off: struct.error
            with contextlib.suppress(struct.error):
                try:
                    for message in self._socket.get(msg_seq=-1):
                        self._take(message)
                except OSError as error:
                    if error.errno != errno.ENOBUFS:
                        raise
                    with contextlib.suppress(OSError):  # the same error again
                        self._socket.close()
                    return

    def _take(self, message: dict[str, int]) -> None:
        what, at_ns = message["what"], message["timestamp_ns"]
        if what == _FORK and message["parent_tgid"] in self.postmasters:
            if message["child_pid"] == message["child_tgid"]:
                self._children.add(message["child_pid"])
                self._events.append(Event(message["child_pid"], at_ns, False))
        elif what == _EXIT and message["process_pid"] in self._children:
            self._children.discard(message["process_pid"])
            self._events.append(Event(message["process_pid"], at_ns, True))
