"""What the device under a file or directory did: Documentation/block/stat.rst."""

import os
from pathlib import Path

from ..model.lab_result import DeviceWork

_SECTOR = 512
_FLUSHES = 15
"""Index of a field that is there since Linux 5.5."""


def device_counts(path: Path) -> tuple[int, int, int] | tuple[None, None, None]:
    """Reads that it completed, their bytes, and the milliseconds in which it had requests, all of
    anybody. None where no single block device is below.
    """
    fields = _counters(path)
    return (fields[0], fields[2] * _SECTOR, fields[9]) if fields else (None, None, None)


def device_work(directory: Path) -> DeviceWork | None:
    """What it wrote so far. None where no single block device is below."""
    fields = _counters(directory)
    if fields is None:
        return None
    flushes = fields[_FLUSHES] if len(fields) > _FLUSHES else None
    return DeviceWork(fields[4], fields[5], fields[6] * _SECTOR, fields[9] / 1e3, flushes)


def _counters(path: Path) -> list[int] | None:
    number = path.stat().st_dev
    file = Path(f"/sys/dev/block/{os.major(number)}:{os.minor(number)}/stat")
    try:
        return [int(field) for field in file.read_text().split()]
    except OSError:
        return None


def since(before: DeviceWork | None, after: DeviceWork | None) -> DeviceWork | None:
    """What was done between two looks."""
    if before is None or after is None:
        return None
    flushes = None
    if before.flushes is not None and after.flushes is not None:
        flushes = after.flushes - before.flushes
    return DeviceWork(
        after.writes - before.writes,
        after.merges - before.merges,
        after.bytes - before.bytes,
        after.busy_s - before.busy_s,
        flushes,
    )
