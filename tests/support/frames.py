"""Seconds of a server, made up, as a live screen gets them."""

from typing import Any

from pgtrace.live.frame import Begin, Cell, Doing, Frame, Place, Process
from pgtrace.model.capture import Tablespace

BEGIN = Begin(
    server="the server in /data",
    version="15.18",
    block_size=8192,
    cpus=2,
    operations=["read"],
    times=False,
    queries="memory",
    by_relation=True,
    no_buffers="yet",
)
FIRST_S = 1_767_268_800.0
"""2026-01-01 12:00:00 UTC."""


def some_frame(number: int, cells: list[Cell], **fields: Any) -> Frame:
    """The one of so many seconds after the first. Of two backends, statements and relations."""
    usual: dict[str, Any] = {
        "at": FIRST_S + number,
        "length_s": 1.0,
        "cells": cells,
        "spent": [],
        "doing": [Doing(1, "active", 2.5, "IO", "select one")],
        "clients": 2,
        "processes": {
            1: Process(4711, "client backend", "shop", "web", "psql"),
            2: Process(4712, "client backend", "shop", "batch", None),
        },
        "statements": {1: "select one", 2: "select two"},
        "places": {
            1: Place("public.orders (heap)", "pg_default"),
            2: Place("public.items (index)", "fast"),
        },
        "devices": [
            Tablespace("fast", device="nvme0n1", filesystem="xfs", rotational=False),
            Tablespace("pg_default", device="sda", filesystem="ext4", rotational=True),
        ],
    }
    return Frame(**(usual | fields))


def device_read(process: int, statement: int, place: int, count: int, ns: int) -> Cell:
    """So many reads of a block that waited for the device."""
    return Cell(process, statement, place, "read", "device", count, 8192 * count, ns)


def hidden_read(process: int, statement: int, place: int, count: int, ns: int) -> Cell:
    """So many of which it is not known where they were served."""
    return Cell(process, statement, place, "read", "unknown", count, 8192 * count, ns)


def cached_read(process: int, statement: int, place: int, count: int, ns: int) -> Cell:
    """So many from the page cache."""
    return Cell(process, statement, place, "read", "page_cache", count, 8192 * count, ns)
