"""An attacker who is the server's user: its processes have no capabilities, and never will."""

import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from child import Child

POSTGRES = pwd.getpwnam("postgres") if os.geteuid() == 0 else pwd.getpwuid(os.geteuid())
IDS = POSTGRES.pw_uid, POSTGRES.pw_gid
NOBODY = 65534, 65534
"""Another account."""


def becoming(ids: tuple[int, int] = IDS) -> tuple[str, ...]:
    """The words before a command of a user's."""
    uid, gid = ids
    to = f"--reuid={uid}", f"--regid={gid}", "--clear-groups"
    return "setpriv", *to, "--inh-caps=-all", "--no-new-privs"


def attack(script: str, *arguments: object) -> str:
    """Run a shell script as the server's user."""
    done = subprocess.run(
        [*becoming(), "sh", "-ec", script, "sh", *map(str, arguments)],
        stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False, cwd="/",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


def attacker(program: str, *arguments: object, ids: tuple[int, int] = IDS) -> Child:
    """A Python program that runs as the server's user, or as another; it says when it is ready."""
    started = Child(*becoming(ids), "/usr/bin/python3", "-u", "-c", program, *arguments, cwd="/")
    assert started.line() == "ready\n"
    return started


@contextmanager
def attackers_directory(disk_directory: Path) -> Iterator[Path]:
    """One of the server's user, which that user can put another in the place of."""
    own = Path(tempfile.mkdtemp(prefix="hostile-", dir=disk_directory))
    (own / "storage").mkdir()
    for path in own, own / "storage":
        os.chown(path, *IDS)
    try:
        yield own / "storage"
    finally:
        shutil.rmtree(own)
