"""pgtrace as its users run it: a process of its own, by its output, its end and what it leaves."""

import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, Self

PGTRACE = (sys.executable, "-m", "pgtrace")
PATIENCE_S = 180
"""In an emulated machine bcc compiles for half a minute."""


class Ended(NamedTuple):
    """`code` is negative if a signal ended it."""

    code: int
    out: str
    err: str


def wait_for(look: Callable[[], Any], seconds: float = PATIENCE_S) -> Any:
    """What `look` returns once it is true."""
    end = time.monotonic() + seconds
    while not (found := look()):
        assert time.monotonic() < end, "it did not come"
        time.sleep(0.02)
    return found


class Pgtrace:
    """A running pgtrace; killed, if need be, when the block is left.

    `command` stands for `python -m pgtrace`; `settings` are subprocess.Popen's.
    """

    def __init__(
        self, *arguments: object, command: Sequence[object] = PGTRACE, **settings: Any
    ) -> None:
        self._process = subprocess.Popen(
            [*map(str, command), *map(str, arguments)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            **settings,
        )
        self.out = self.err = ""
        self._readers = [
            threading.Thread(target=self._read, args=(name,), daemon=True)
            for name in ("out", "err")
        ]
        for reader in self._readers:
            reader.start()

    @property
    def pid(self) -> int:
        return self._process.pid

    def wait_for(self, pattern: str) -> None:
        """Until it has printed that, on stdout or stderr."""
        wait_for(
            lambda: re.search(pattern, self.out + self.err) or self._process.poll() is not None
        )
        assert re.search(pattern, self.out + self.err), (self.out, self.err)

    def attached(self) -> Self:
        """Once it traces: attach and capture then say how to stop them."""
        self.wait_for(r"Ctrl-C to stop\.\n")
        return self

    def send(self, number: signal.Signals) -> None:
        self._process.send_signal(number)

    def ended(self) -> Ended:
        """Wait for its end."""
        code = self._process.wait(PATIENCE_S)
        for reader in self._readers:
            reader.join()
        return Ended(code, self.out, self.err)

    def stop(self, number: signal.Signals = signal.SIGINT) -> Ended:
        """Send it a signal, and wait for its end."""
        self.send(number)
        return self.ended()

    def _read(self, name: str) -> None:
        stream = self._process.stdout if name == "out" else self._process.stderr
        assert stream is not None
        for line in stream:
            setattr(self, name, getattr(self, name) + line)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._process.poll() is None:
            self._process.kill()
            self._process.wait()


def copy_programs(bindir: Path, to: Path) -> Path:
    """A server's programs in a folder of one's own: files that no other tracer has probes in."""
    to.mkdir(parents=True)
    for name in "postgres", "initdb", "pg_ctl":
        shutil.copy2(bindir / name, to)
    for name in "pgbench", "psql":
        (to / name).symlink_to(bindir / name)
    return to


def run(*arguments: object, command: Sequence[object] = PGTRACE, **settings: Any) -> Ended:
    """Run it to its end."""
    with Pgtrace(*arguments, command=command, **settings) as started:
        return started.ended()


MAIN = """
import sys
from pgtrace.__main__ import main
sys.exit(main())
"""


def patched(code: str) -> tuple[str, ...]:
    """A command for Pgtrace() that runs this Python before the command line is looked at."""
    return sys.executable, "-c", code + MAIN
