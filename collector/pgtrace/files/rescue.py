"""Where a capture goes that cannot go where it was meant to: no hour was measured in vain."""

import contextlib
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

from .. import units
from ..errors import UsageError
from . import output_file, output_stream

LEAST_ROOM = 16 << 20
"""Bytes of a file system below which a capture may not fit: one of 5,000 statements takes some."""


def keep(data: bytes, near: Path | None) -> Path | None:
    """Write a capture, or a lab result, into the first directory that has room for it: that of the
    file `near`, TMPDIR, /tmp, /var/tmp, the user's own. None if there is none.

    It is made under a name of its own, for its owner alone: it can be nobody else's file.
    """
    for directory in _directories(near):
        with contextlib.suppress(OSError, UsageError):
            return output_file.keep(data, directory)
    return None


def little_room(output: Path) -> str | None:
    """Words of a warning if there is little room where a capture is meant to go."""
    try:
        free = shutil.disk_usage(output.parent).free
    except OSError:
        return None
    if free >= LEAST_ROOM or (output.exists() and not output.is_file()):
        return None
    there = f"{units.size(free)} are free in {output.parent}"
    said = f"Only {there}, which a capture may not fit into. "
    if any(map(_has_room, _directories(None))):
        return f"{said}If it does not, it will be kept elsewhere, and a line says where."
    return (
        f"{said}There is as little in TMPDIR, /tmp, /var/tmp and at home: make room, else it "
        "goes to stdout."
    )


def _has_room(directory: Path) -> bool:
    try:
        return shutil.disk_usage(directory).free >= LEAST_ROOM
    except OSError:
        return False


def _directories(near: Path | None) -> Iterator[Path]:
    names = [
        near.parent if near and may_be_file(near) else None,
        os.environ.get("TMPDIR"),
        "/tmp",
        "/var/tmp",
        os.environ.get("HOME"),
    ]
    found: dict[Path, None] = {}
    for name in names:
        if not name:
            continue
        with contextlib.suppress(OSError):  # relative to a directory that is gone
            found[Path(name).absolute()] = None
    yield from found


def may_be_file(path: Path) -> bool:
    """Unless it was meant to be a stream: a device's directory is none for files."""
    try:
        return output_stream.descriptor(path) is None and (path.is_file() or not path.exists())
    except OSError:
        return True
