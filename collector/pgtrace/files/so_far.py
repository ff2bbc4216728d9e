"""What was captured so far, in a file of its own while tracing goes on: that is left if pgtrace is
killed, by whomever, or the host ends.

It lies beside the file that is written at the end, and goes once that is there.
"""

import shlex
import shutil
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from ..errors import PgtraceError, UsageError, reason
from ..linux import heap
from ..units import size
from . import output_file
from .rescue import LEAST_ROOM

if TYPE_CHECKING:
    from ..model.capture import Capture

SUFFIX = ".partial"
EVERY_S = 60.0
_MOST_OF_TIME = 0.002
"""Share of a CPU: of a server with many backends it is written less often."""
_NO_CALLS = "pg_stat_statements is asked at the end"


class SoFar:
    """Of a capture that is meant for the file `output`. Errors do not end it: `say` tells once."""

    def __init__(self, output: Path, *, force: bool, say: Callable[[str], None]) -> None:
        """Raises UsageError if one is there, of a capture that was killed."""
        self.path = output.with_name(output.name + SUFFIX)
        self._output, self._force, self._say = output, force, say
        self._next = time.monotonic() + EVERY_S
        self._made_ns = 0
        self._writer: threading.Thread | None = None
        self._failed: PgtraceError | None = None
        self._said = self._is_there = False
        try:
            output_file.check(self.path, force)
        except UsageError as error:
            if not self.path.is_file():
                raise
            raise UsageError(
                f"{error}. It is of a capture that did not come to its end: `pgtrace report "
                f"{shlex.quote(str(self.path))}` shows it"
            ) from None

    def look(self, capture: "Callable[[], Capture]", counted_ns: int) -> None:
        """Write it anew if that is due, and something was counted since, the last of it then, by
        time.monotonic_ns(). To write may take long on a busy disk, and is not waited for."""
        if self._writer and not self._writer.is_alive():
            self._writer = None
            heap.give_back()  # what was written, tens of MiB of many backends
        if self._writer or time.monotonic() < self._next:
            return
        self._tell()
        if counted_ns < self._made_ns:
            return
        self._made_ns = time.monotonic_ns()
        began = time.thread_time()
        data = _encoded(capture())
        heap.give_back()
        self._writer = threading.Thread(target=self._write, args=(data,), name="so far")
        self._writer.start()
        busy = time.thread_time() - began
        self._next = time.monotonic() + max(EVERY_S, busy / _MOST_OF_TIME)

    def end(self) -> None:
        """From here on nothing is written."""
        self._next = float("inf")
        if self._writer:
            self._writer.join()
        self._tell()

    def remove(self) -> None:
        """The whole is somewhere else by now."""
        if self._is_there:
            try:
                output_file.remove(self.path)
            except (OSError, PgtraceError) as error:
                self._say(f"{self.path} could not be removed: {error}")

    def _write(self, data: bytes) -> None:
        try:
            # Beside the one before; and what else is on this file system is worth more
            free = shutil.disk_usage(self.path.parent).free
            if free < len(data) + LEAST_ROOM:
                raise UsageError(f"{size(free)} are free in {self.path.parent}")
            output_file.write(data, self.path, force=self._force or self._is_there)
            self._is_there = True
        except PgtraceError as error:
            self._failed = error
        except OSError as error:
            self._failed = UsageError(reason(error))

    def _tell(self) -> None:
        if self._failed and not self._said:
            self._said = True
            self._say(
                f"what is captured so far could not be written to {self.path}: {self._failed}. "
                f"Until {self._output} is written at the end, it is in memory alone."
            )


def _encoded(taken: "Capture") -> bytes:
    from ..model import encoding

    taken.so_far = True
    if taken.probes.queries == "memory":
        taken.probes.no_calls = taken.probes.no_calls or _NO_CALLS
    return encoding.encode(taken)
