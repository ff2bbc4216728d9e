"""What tests make once and keep in $PGTRACE_CACHE (~/.cache/pgtrace), by what it is made of."""

import fcntl
import hashlib
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

KEPT = Path(os.environ.get("PGTRACE_CACHE", "~/.cache/pgtrace")).expanduser()


@contextmanager
def kept(kind: str, *made_of: object) -> Iterator[Path]:
    """Where it is, or is to be put, whole: no other worker of pytest-xdist, or run, does it too."""
    path = KEPT / kind / hashlib.sha256(repr(made_of).encode()).hexdigest()[:16]
    path.parent.mkdir(parents=True, exist_ok=True)
    with Path(f"{path}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield path
