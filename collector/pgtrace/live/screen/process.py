"""The process that draws, as the one that traces has it: it is begun, fed and ended, and the
terminal is put back as it was whatever became of it.
"""

import os
import select
import signal
import socket
import termios
from contextlib import suppress
from types import TracebackType
from typing import Self

from ...errors import PgtraceError
from ...linux import capabilities, forked
from ..frame import Asked, Kind, Told
from ..link import tracing_end

_END_S = 2.0
"""For it to leave the screen by itself, without those in which it waits for a processor,"""
_MOST_BUSY = 3
"""but not more than so many times as long: it may be the processor's that it does not leave."""
_MOST_WAITING = 64 << 20
"""Bytes that it was sent and does not take: then it hangs."""
_RESET = (
    "\x1b[?2026l\x1b[?1000l\x1b[?1003l\x1b[?1015l\x1b[?1006l\x1b[?1016l\x1b[?1004l\x1b[?2004l"
    "\x1b[?2048l\x1b[<u\x1b[?1049l\x1b[?7h\x1b[?25h\x1b[0m"
)
"""What textual switches on, off: synchronous output, the mouse, focus, bracketed paste, sizes,
kitty's keys, the other screen; the cursor and folding of lines on."""


class DrawingProcess:
    """Is there from the start, so that it comes up while probes are attached; shows nothing before
    it is sent Begin. Raises OSError when there can be none.
    """

    def __init__(self, tab: Kind, *, verbose: bool) -> None:
        self._terminal = termios.tcgetattr(0)
        ours, theirs = socket.socketpair()

        def draw() -> None:
            from .child import draw  # in the child alone, as all that draws

            draw(theirs, tab, verbose)

        with theirs:
            self._pid = forked.left_running(draw, {0, 1, theirs.fileno()})
        self._ended: int | None = None
        """Its status, as of waitpid(2)."""
        self._link = tracing_end(ours)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        self.end()

    def fileno(self) -> int:
        """To wait for what is asked."""
        return self._link.fileno()

    @property
    def closed(self) -> bool:
        """Whether it has left, or hangs."""
        return self._link.closed or self._link.waiting > _MOST_WAITING

    def tell(self, told: Told) -> None:
        """Let it know, now or later."""
        self._link.send(told)

    def asked(self) -> list[Asked]:
        """What it has asked for since the last call. ValueError where that is nonsense."""
        self._link.flush()
        return self._link.receive()

    def end(self) -> None:
        """Let it leave the screen. Raises PgtraceError if it did not end as it should."""
        if self._ended is not None:
            return
        self._link.close()
        self._ended = self._waited()
        killed = os.WIFSIGNALED(self._ended)
        if killed:
            with suppress(OSError):
                os.write(1, _RESET.encode())
        with suppress(termios.error):
            termios.tcsetattr(0, termios.TCSAFLUSH, self._terminal)
        if killed:
            name = signal.Signals(os.WTERMSIG(self._ended)).name
            raise PgtraceError(f"the process that draws the screen was ended by {name}")
        if self._ended:
            raise PgtraceError("the process that draws the screen failed")

    def _waited(self) -> int:
        if not self._leaves():
            with suppress(ProcessLookupError, PermissionError), capabilities.raised():
                os.kill(self._pid, signal.SIGKILL)
        return os.waitpid(self._pid, 0)[1]

    def _leaves(self) -> bool:
        poll = select.poll()
        try:
            handle = os.pidfd_open(self._pid)
            try:
                poll.register(handle, select.POLLIN)
                return forked.comes(poll, self._pid, _END_S, _MOST_BUSY)
            finally:
                os.close(handle)
        except OSError:  # no file can be opened any more; the terminal is put back all the same
            return False
