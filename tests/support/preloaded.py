"""Code of a test in every process that is started: servers as they are not built here."""

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest


@contextmanager
def preloaded(source: str, directory: Path) -> Iterator[None]:
    """What is started in the block, and what that starts, has it; the folder is one that all may
    read."""
    library = directory / "preloaded.so"
    command = ["clang", "-shared", "-fPIC", "-pthread", "-x", "c", "-", "-o", library]
    subprocess.run(command, input=source, text=True, check=True)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LD_PRELOAD", str(library))
        yield
