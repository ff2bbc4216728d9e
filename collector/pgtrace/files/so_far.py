"""What was captured so far, in a file of its own while tracing goes on: that is left if pgtrace is
killed, by whomever, or the host ends.

It lies beside the file that is written at the end, and goes once that is there. A child makes and
writes it: what that takes of memory goes back to the host with it, and a slow disk is not waited
for.
"""

import os
import shlex
import shutil
import stat
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from ..errors import PgtraceError, UsageError, reason
from ..linux import forked
from ..model import encoding
from ..units import size
from . import output_file
from .rescue import LEAST_ROOM

if TYPE_CHECKING:
    from ..model.capture import Capture

SUFFIX = ".partial"
EVERY_S = 60.0
_MOST_OF_TIME = 0.002
"""Share of a CPU: of a server with many backends it is written less often."""
_END_S = 5.0
"""How long the end waits for a slow disk: what was to be kept is written by then."""
_NO_CALLS = "pg_stat_statements is asked at the end"


class _File(NamedTuple):
    """Which one it is, whatever it is called by now."""

    device: int
    inode: int


class SoFar:
    """Of a capture that is meant for the file `output`. Errors do not end it: `say` tells of them,
    once until it is written again.
    """

    def __init__(self, output: Path, *, force: bool, say: Callable[[str], None]) -> None:
        """Raises UsageError if one is there, of a capture that was killed or goes on, or something
        else by that name."""
        self.path = output.with_name(output.name + SUFFIX)
        self._output, self._say = output, say
        self._next = time.monotonic() + EVERY_S
        self._began = 0.0
        self._made_ns = 0
        self._writer: forked.Beside | None = None
        self._begun: list[str] = []
        """What children were to call it until it is whole: who is killed leaves it so."""
        self._said = False
        self._asked: datetime | None = None
        self._of: datetime | None = None
        """Up to when that is which is there."""
        self._own = self._there(force)
        """What is ours to replace, and to remove."""

    def look(self, capture: "Callable[[], Capture]", counted_ns: int) -> None:
        """Write it anew if that is due, and something was counted since, the last of it then, by
        time.monotonic_ns(). What `capture` takes from the kernel, or tells others, is lost."""
        if self._writer and (ended := self._writer.ended()):
            self._see(ended)
        if self._writer or time.monotonic() < self._next or counted_ns < self._made_ns:
            return
        self._made_ns, self._began = time.monotonic_ns(), time.monotonic()
        self._next, self._asked = self._began + EVERY_S, datetime.now().astimezone()
        self._begun.append(output_file.temporary_name())
        try:
            self._writer = forked.Beside(lambda: _marked(capture()), self._write)
        except (OSError, MemoryError) as error:
            self._begun.pop()
            why = reason(error) if isinstance(error, OSError) else "there is no memory"
            self._tell(f"no child can be made that writes it: {why}")

    @property
    def is_writing(self) -> bool:
        """As far as it is known."""
        return self._writer is not None

    def remove(self) -> None:
        """The whole is somewhere else by now, and nothing is written here any more."""
        self._next = float("inf")
        if self._writer:
            if ended := self._writer.ended(within_s=_END_S):
                self._see(ended)
            elif not self._writer.kill():  # nor would any call of ours come back
                self._say(
                    f"{self.path}, and {self._begun[-1]} beside it, could not be removed: the disk "
                    "does not answer"
                )
                return
        try:
            self._remove_begun(self._begun)
            if self._is_own():
                output_file.remove(self.path)
        except OSError as error:
            self._say(f"{self.path} could not be removed: {reason(error)}")
        except PgtraceError as error:
            self._say(f"{self.path} could not be removed: {error}")

    def _remove_begun(self, names: Sequence[str]) -> None:
        for name in names:
            output_file.remove(self.path.with_name(name))

    def _is_own(self) -> bool:
        with suppress(OSError):
            return self._own is not None and self._own == _file_at(self.path)
        return False

    def _there(self, force: bool) -> _File | None:
        try:
            found = _file_at(self.path)
        except OSError as error:
            raise UsageError(
                f"{self.path} cannot be written, where what is captured so far goes: "
                f"{reason(error)}"
            ) from error
        try:
            output_file.check(self.path, force)
        except UsageError as error:
            if not found or self.path.lstat().st_uid != os.geteuid():
                raise
            raise UsageError(
                f"{error}. It is of a capture that did not come to its end, or has not yet: "
                f"`pgtrace report {shlex.quote(_named(self.path))}` shows it"
            ) from None
        return found

    def _write(self, taken: "Capture") -> bytes:
        """In the child: which file that was, or why there is none."""
        with suppress(OSError):  # who traces runs before others, which this need not
            os.setpriority(os.PRIO_PROCESS, 0, 0)
        *left, temporary = self._begun
        try:
            self._remove_begun(left)
            data = encoding.encode(taken)
            # Beside the one before; and what else is on this file system is worth more
            free = shutil.disk_usage(self.path.parent).free
            if free < len(data) + LEAST_ROOM:
                raise UsageError(f"{size(free)} are free in {self.path.parent}")
            if _file_at(self.path) and not self._is_own():
                raise UsageError("there is another file by now")
            output_file.write(data, self.path, force=self._is_own(), temporary=temporary)
            return b"%d %d" % (_file_at(self.path) or (0, 0))
        except PgtraceError as error:
            return str(error).encode()
        except OSError as error:
            return reason(error).encode()

    def _see(self, ended: forked.End) -> None:
        self._writer = None
        self._next = max(self._next, self._began + ended.cpu_s / _MOST_OF_TIME)
        said = ended.said.decode(errors="replace")
        if ended.status:
            number = os.waitstatus_to_exitcode(ended.status)
            self._tell(f"the child that was to write it ended with {number}")
        elif said.replace(" ", "").isdecimal():
            self._begun.clear()
            device, inode = said.split()
            self._own, self._of = _File(int(device), int(inode)), self._asked
            self._said = False
        else:
            self._begun.pop()  # who can say so has cleaned up
            self._tell(said)

    def _tell(self, why: str) -> None:
        self._made_ns = 0  # it is due even if nothing is counted any more
        if self._said:
            return
        self._said = True
        where = "it is in memory alone"
        if self._of:
            where = f"what came after {self._of:%H:%M:%S} is in memory alone"
        self._say(
            f"what is captured so far could not be written to {self.path}: {why}. "
            f"Until {self._output} is written at the end, {where}."
        )


def _file_at(path: Path) -> _File | None:
    """Raises OSError for what is no regular file, and of one that cannot be looked at."""
    try:
        found = path.stat(follow_symlinks=False)
    except FileNotFoundError:
        return None
    if not stat.S_ISREG(found.st_mode):
        raise FileExistsError(None, "there is something that is not a file")
    return _File(found.st_dev, found.st_ino)


def _named(path: Path) -> str:
    """So that a command does not take it for an option."""
    return f"./{path}" if str(path).startswith("-") else str(path)


def _marked(taken: "Capture") -> "Capture":
    taken.so_far = True
    if taken.probes.queries == "memory":
        taken.probes.no_calls = taken.probes.no_calls or _NO_CALLS
    return taken
