"""A process that a test starts: its lines, its signals, its end, and that it never outlives it."""

import os
import queue
import re
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, Self

PATIENCE_S = int(os.environ.get("PGTRACE_TEST_PATIENCE", "180"))
"""In an emulated machine bcc compiles for half a minute."""
OWN_MOUNTS = ("unshare", "--mount", "--propagation", "slave")
"""Before a command that is to have mounts of its own: what is unmounted outside, such as a device
of another test, it does not hold."""


def wait_for(
    look: Callable[[], Any],
    seconds: float = PATIENCE_S,
    instead: Callable[[], object] = lambda: "",
) -> Any:
    """What `look` returns once it is true; `instead` is asked what is there if it never is."""
    end = time.monotonic() + seconds
    while not (found := look()):
        assert time.monotonic() < end, f"it did not come: {instead()}"
        time.sleep(0.02)
    return found


def wait_until_gone(*pids: int, seconds: float = PATIENCE_S) -> None:
    """Until none of these runs, or waits to be collected."""
    left = [Path(f"/proc/{pid}") for pid in pids]
    wait_for(lambda: not any(path.exists() for path in left), seconds, lambda: left)


def state_of(pid: int) -> str:
    """The letter of proc(5) for what a process does: S if it sleeps, Z once it has ended."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2][0]


@contextmanager
def stopped(*pids: int) -> Iterator[None]:
    """These processes do nothing, each from the first line on: the signal alone is not yet the stop
    of one that waits for a processor, and what is sent to it meanwhile comes first."""
    try:
        for pid in pids:
            os.kill(pid, signal.SIGSTOP)
        wait_for(lambda: all(state_of(pid) == "T" for pid in pids))
        yield
    finally:
        for pid in pids:
            os.kill(pid, signal.SIGCONT)


def inner_pid(pid: int) -> int:
    """In its own namespace. FileNotFoundError or ProcessLookupError: it has ended."""
    status = Path(f"/proc/{pid}/status").read_text()
    return next(int(li.split()[-1]) for li in status.splitlines() if li.startswith("NSpid:"))


def children_of(pid: int) -> list[int]:
    """Whatever thread of it began them."""
    found: list[int] = []
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        with suppress(FileNotFoundError, ProcessLookupError):  # the thread has ended
            found += map(int, task.read_text().split())
    return found


class Ended(NamedTuple):
    """`code` is negative if a signal ended it."""

    code: int
    out: str
    err: str


class Child:
    """A running process; killed, if need be, when the block is left.

    `settings` are subprocess.Popen's; without any, stdin and stdout are pipes to here, and stderr
    is the test's own. With a process group or session of its own, all of that is killed.
    """

    def __init__(self, *command: object, **settings: Any) -> None:
        usual = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
        self.process = subprocess.Popen([*map(str, command)], **(usual | settings))
        self._group = settings.get("start_new_session") or settings.get("process_group") == 0
        self.out = self.err = ""
        self._lines: queue.SimpleQueue[str] = queue.SimpleQueue()
        self._readers = [
            threading.Thread(target=self._read, args=(name,), daemon=True)
            for name in ("out", "err")
            if getattr(self.process, f"std{name}")
        ]
        for reader in self._readers:
            reader.start()

    @property
    def pid(self) -> int:
        return self.process.pid

    @property
    def code(self) -> int | None:
        """What it ended with; None while it runs."""
        return self.process.poll()

    def say(self, line: str) -> None:
        """Write a line to its stdin."""
        assert self.process.stdin is not None
        self.process.stdin.write(f"{line}\n")
        self.process.stdin.flush()

    def end_input(self) -> None:
        """Let its stdin be at its end."""
        assert self.process.stdin is not None
        self.process.stdin.close()

    def line(self) -> str:
        """The next line of its stdout, once it is there; "" at the end. queue.Empty if neither."""
        return self._lines.get(timeout=PATIENCE_S)

    def wait_for(self, pattern: str) -> None:
        """Until it has printed that, on stdout or stderr."""
        wait_for(
            lambda: re.search(pattern, self.out + self.err) or self.code is not None,
            instead=lambda: (self.out, self.err),
        )
        if self.code is not None:
            self._join()
        assert re.search(pattern, self.out + self.err), (self.out, self.err)

    def send(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    def ended(self) -> Ended:
        """Wait for its end."""
        try:
            code = self.process.wait(PATIENCE_S)
        except subprocess.TimeoutExpired:
            columns = "pid,ppid,stat,wchan:24,etimes,args"
            shown = subprocess.run(["ps", "-eHo", columns], capture_output=True, check=False).stdout
            raise AssertionError(f"{self.pid} has not ended:\n{shown.decode()}") from None
        self._join()
        return Ended(code, self.out, self.err)

    def stop(self, number: signal.Signals = signal.SIGINT) -> Ended:
        """Send it a signal, and wait for its end."""
        self.send(number)
        return self.ended()

    def kill(self) -> None:
        """End it, whatever it does; nothing if it has ended."""
        if self.process.poll() is None and self._group:
            with suppress(ProcessLookupError):
                os.killpg(self.pid, signal.SIGKILL)
        self.process.kill()
        self.process.wait()
        if self.process.stdin:
            with suppress(BrokenPipeError):  # of what it never read
                self.process.stdin.close()
        self._join(5)  # what it started may hold its output open

    def _join(self, seconds: float = PATIENCE_S) -> None:
        for reader in self._readers:
            reader.join(seconds)

    def _read(self, name: str) -> None:
        for line in getattr(self.process, f"std{name}"):
            setattr(self, name, getattr(self, name) + line)
            if name == "out":
                self._lines.put(line)
        if name == "out":
            self._lines.put("")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.kill()


class Idle(Child):
    """A process that does nothing: sleep, which is its name by now."""

    def __init__(self, **settings: Any) -> None:
        usual = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL}
        super().__init__("sleep", 600, **(usual | settings))
        wait_for(lambda: Path(f"/proc/{self.pid}/comm").read_text() == "sleep\n")


def busy_loop(cpu: int) -> Child:
    """Wants that CPU all the time, in a session with a share (sched_autogroup) of its own."""
    loop = ["taskset", "-c", cpu, "sh", "-c", "while :; do :; done"]
    return Child(*loop, start_new_session=True)
