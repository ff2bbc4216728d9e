"""What the file of a sync experiment holds."""

from typing import Literal

import msgspec

from ...model.capture import Io
from ...model.lab_result import Cell, Details, DeviceWork, Finding, Options, Result

LoadName = Literal["wide", "narrow", "bulk"]
Phase = Literal["load", "checkpoint"]
"""The load itself, or the checkpoint after it."""


class Checkpoint(msgspec.Struct, omit_defaults=True):
    """Phases of an explicit checkpoint, seconds; None is what was not measured.

    What begins with `logged_` is from the server's own line, to its millisecond.
    """

    total_s: float | None = None
    """Of CreateCheckPoint(), by uprobe."""
    write_s: float | None = None
    """Writing of buffers, by USDT: from buffer__checkpoint__start to __sync__start."""
    sync_s: float | None = None
    """Syncing of their files: from there to buffer__checkpoint__done."""
    logged_write_s: float | None = None
    logged_sync_s: float | None = None
    logged_total_s: float | None = None
    buffers: int | None = None
    files: int | None = None
    """That were synced."""


class SyncCell(Cell, kw_only=True):
    """One phase of one load of one server."""

    server: str
    load: LoadName
    phase: Phase
    began_s: float | None = None
    """When, after Result.started."""
    tps: float | None = None
    """Of the writers, as pgbench counts."""
    reading_tps: float | None = None
    checkpoint: Checkpoint | None = None
    by_backend_type: dict[str, list[Io]] = {}
    """Writes and fsyncs of a whole server."""
    devices: dict[str, DeviceWork] = {}
    """By the name of the storage."""


def called(cell: SyncCell) -> str:
    """What one measured: `CHECKPOINT after the wide load of A`."""
    what = f"the {cell.load} load of {cell.server}"
    return what if cell.phase == "load" else f"CHECKPOINT after {what}"


class ComparedServer(msgspec.Struct):
    """One of the two; `settings` are those of its own."""

    name: str
    bindir: str
    version: str | None = None
    settings: dict[str, str] = {}
    fsync: str | None = None
    wal_sync_method: str | None = None


class SyncOptions(Options):
    """What both servers did, and where."""

    servers: list[ComparedServer]
    differences: dict[str, dict[str, str]]
    """Settings in which they differ: by its name, the value of each server."""
    wal_storage: str
    data_storage: str
    rows: int
    transactions: int
    clients: int
    bulk_rows: int
    narrow_keys: int
    order: list[list[str]] = []
    """Of the servers' turns in each run."""


class DifferenceDetails(Details):
    """What is compared: `by`, in a phase of a load, of server `of` by that of `against`."""

    load: LoadName
    phase: Phase
    by: str
    of: str
    against: str


class Difference(Finding, tag="difference", kw_only=True):
    """One server by the other; without a value where one has zeros."""

    details: DifferenceDetails


class SyncResult(Result, tag="sync", kw_only=True):
    """Of what making data last costs two servers."""

    options: SyncOptions
    cells: list[SyncCell]
    findings: list[Difference] = []


RESULT = SyncResult
