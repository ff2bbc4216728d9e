"""What tests make once and keep in $PGTRACE_CACHE (~/.cache/pgtrace), by what it is made of."""

import fcntl
import hashlib
import os
import tempfile
from collections.abc import Callable
from pathlib import Path

KEPT = Path(os.environ.get("PGTRACE_CACHE", "~/.cache/pgtrace")).expanduser()


def kept(kind: str, made_of: tuple[object, ...], make: Callable[[Path], object]) -> Path:
    """Where it is: put there by make(path) if it was not, all of it or nothing, and by one worker
    of pytest-xdist, or run, at a time.
    """
    path = KEPT / kind / hashlib.sha256(repr(made_of).encode()).hexdigest()[:16]
    path.parent.mkdir(parents=True, exist_ok=True)
    with Path(f"{path}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not path.exists():
            with tempfile.TemporaryDirectory(dir=path.parent) as making:
                make(Path(making) / "made")
                (Path(making) / "made").rename(path)
    return path
