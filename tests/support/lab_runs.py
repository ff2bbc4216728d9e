"""Experiments as their users run them: places for them, their good end, and their file."""

import os
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pgtrace.lab import result_file
from pgtrace.model.capture import Io
from pgtrace.model.lab_result import Cell, Result
from pgtrace_command import PGTRACE

BLOCK = 8192


def usable(directory: Path) -> Path:
    """A new directory there that any server's user may write to."""
    own = Path(tempfile.mkdtemp(prefix="lab-", dir=directory))
    own.chmod(0o777)
    return own


@contextmanager
def in_memory() -> Iterator[Path]:
    """Such a directory on tmpfs."""
    own = usable(Path("/dev/shm"))
    try:
        yield own
    finally:
        own.rmdir()


def lab(*arguments: object) -> "subprocess.CompletedProcess[str]":
    """Run an experiment to its good end, which may be minutes away."""
    command = [*PGTRACE, "lab", *map(str, arguments)]
    environment = {name: value for name, value in os.environ.items() if name != "PGPASSWORD"}
    ended = subprocess.run(
        command, capture_output=True, text=True, timeout=600, check=False, env=environment
    )
    assert ended.returncode == 0, ended.stderr
    return ended


def loaded(file: Path) -> Result:
    """The result in a file."""
    result = result_file.load_any(file)
    assert isinstance(result, Result)
    return result


def of(result: Result, storage: str, pattern: str) -> list[Cell]:
    """The cells of one storage and query."""
    return [c for c in result.cells if (c.storage, c.pattern) == (storage, pattern)]


def blocks(reads: list[Io]) -> int:
    """How many blocks these reads brought."""
    return sum(one.blocks for one in reads)
