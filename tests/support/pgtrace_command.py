"""pgtrace as its users run it: a process of its own, by its output, its end and what it leaves."""

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Self

from child import PATIENCE_S, Child, Ended, wait_for

__all__ = [
    "NOT_COVERED", "PATIENCE_S", "PGTRACE", "Ended", "Pgtrace", "copy_programs", "patched", "run",
    "stopping", "terminating", "wait_for",
]  # fmt: skip

PGTRACE = (sys.executable, "-m", "pgtrace")
NOT_COVERED = os.environ | {"COVERAGE_PROCESS_CONFIG": ""}
"""The environment of one that notes no coverage: its time counts, or what it writes, or it finds no
room for that."""


class Pgtrace(Child):
    """A running pgtrace. `command` stands for `python -m pgtrace`; `settings` are Child's.

    Unless it `connects`, or --dsn is given, the server's backends are those of the test alone.
    """

    def __init__(
        self,
        *arguments: object,
        command: Sequence[object] = PGTRACE,
        connects: bool = False,
        **settings: Any,
    ) -> None:
        usual = {"stdin": subprocess.DEVNULL, "stderr": subprocess.PIPE}
        alone = arguments[:1] in {("attach",), ("capture",)} and not connects
        quiet = ("--no-connect",) if alone and "--dsn" not in arguments else ()
        whole = *command, *arguments[:1], *quiet, *arguments[1:]
        super().__init__(*whole, **(usual | settings))

    def attached(self) -> Self:
        """Once it traces: attach and capture then say how to stop them."""
        self.wait_for(r"Ctrl-C to stop\.\n")
        return self


def copy_programs(bindir: Path, to: Path) -> Path:
    """A server's programs in a folder of one's own: files that no other tracer has probes in."""
    to.mkdir(parents=True)
    for name in "postgres", "initdb", "pg_ctl":
        shutil.copy2(bindir / name, to)
    for name in "pgbench", "psql":
        (to / name).symlink_to(bindir / name)
    return to


def run(*arguments: object, command: Sequence[object] = PGTRACE, **settings: Any) -> Ended:
    """Run it to its end; as Pgtrace()."""
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


PATIENT = """
from pgtrace.postgres import catalog, names_of_servers
catalog.LAST_S = names_of_servers.LAST_S = 60
"""
"""Code that lets names take long at the end, as on a busy host."""


def seeing(*postmasters: int) -> str:
    """Code that lets it find no servers but these: other tests start and stop some meanwhile."""
    return f"""
from pgtrace.postgres import discovery
found = discovery.servers
discovery.servers = lambda: [each for each in found() if each.postmaster_pid in {postmasters}]
"""


def stopping(pid: int, place: str) -> str:
    """Code that lets a server stop before or after the first call of a function of pgtrace's, as
    `before lab.core.undo_log Statement undo`."""
    when, module, name, function = place.split(" ")
    return f"""
import os, signal, time
from pgtrace.postgres import proc
from pgtrace.{module} import {name}
def stop():
    os.kill({pid}, signal.SIGQUIT)
    while proc.start_time_ticks({pid}):
        time.sleep(0.001)
def meanwhile(*arguments, true={name}.{function}, **settings):
    {name}.{function} = true
    {"stop()" if when == "before" else ""}
    found = true(*arguments, **settings)
    {"stop()" if when == "after" else ""}
    return found
{name}.{function} = meanwhile
"""


def terminating(call: int) -> str:
    """Code that lets the server end a session whose query an experiment measures, at that one."""
    return _before_query(call, "os.kill(backend.info.backend_pid, signal.SIGTERM)")


def waiting(call: int) -> tuple[str, ...]:
    """A command in which an experiment waits for a signal, in the query that it measures for that
    time."""
    return patched(_before_query(call, "time.sleep(600)"))


def _before_query(call: int, done: str) -> str:
    """Code by which that is done before the query that an experiment measures for that time."""
    return f"""
import os, signal, time
from pgtrace.lab.core.runner import Query
calls = 0
def execute(self, backend, true=Query.execute):
    global calls
    calls += 1
    if calls == {call}:
        {done}
    return true(self, backend)
Query.execute = execute
"""


def last_sentence(out: str) -> str:
    """The last of what was printed, in one line: it is folded where it is long."""
    *_, begin = (number for number, line in enumerate(out.splitlines()) if line[:2].strip())
    return " ".join(line.strip() for line in out.splitlines()[begin:])
