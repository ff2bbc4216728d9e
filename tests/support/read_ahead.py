"""How far ahead the kernel reads, for as long as a test needs it."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

USUAL_KIB = 128
"""What Linux does where nobody changed it, and the near window then."""


@contextmanager
def read_ahead(path: Path, kib: int) -> Iterator[None]:
    """Set the read-ahead of the files below a device that are opened from now on."""
    device = path.stat().st_dev
    file = Path(f"/sys/class/bdi/{os.major(device)}:{os.minor(device)}/read_ahead_kb")
    before = file.read_text()
    file.write_text(f"{kib}")
    try:
        yield
    finally:
        file.write_text(before)
