"""What read-ahead does to a scan, and to random reads.

Each run measures a `copy … to stdout` and an index scan of 5,000 rows once at every
read-ahead, on every storage, in an order that is drawn anew. Read-ahead is set before the server
is started again: a file keeps the one that its device had when it was opened. The table's files
are out of the page cache when a run begins, which is proven. At whatever end the device gets back
the read-ahead that it had.
"""

import mmap
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial

from ... import units
from ...errors import UnsupportedError, UsageError
from ...model.lab_result import Pattern
from ..core import benchmark_table
from ..core.existing_server import Given
from ..core.interruption import Interruption
from ..core.laboratory import Laboratory, Setup
from ..core.progress import Progress
from ..core.random_order import in_random_order
from ..core.runner import Copy, Query
from .device_settings import SECTOR, read_ahead
from .result import ReadaheadCell, ReadaheadOptions, ReadaheadResult

SECTORS = (0, 256, 512, 1024, 2048, 4096, 8192, 16384, 32768, 327680)
"""The steps of digoal's sweep of 2012, and before them none at all."""
FEWEST_STEPS = 2
_MOST = 1 << 32
_NOTHING = f"copy (select * from {benchmark_table.TABLE} limit 0) to stdout"


def steps(text: str) -> list[int]:
    """What `--sectors 0,256,…` says, ascending. Raises UsageError."""
    page = mmap.PAGESIZE // SECTOR
    found = []
    for each in text.split(","):
        if not each.strip().isascii() or not each.strip().isdecimal():
            raise UsageError(
                f"--sectors {text}: {each.strip() or 'nothing'} is no number of sectors; say it "
                "as in --sectors 0,256,4096"
            )
        sectors = int(each)
        if sectors % page:
            raise UsageError(
                f"--sectors {text}: the kernel reads ahead whole pages, of {page} sectors; "
                f"{sectors} is no multiple: take {sectors // page * page} or "
                f"{(sectors // page + 1) * page}"
            )
        if sectors > _MOST:
            raise UsageError(f"--sectors {text}: {sectors} are more than any device has")
        found.append(sectors)
    if len(set(found)) < len(found):
        raise UsageError(f"--sectors {text}: a step is there twice; --runs measures all again")
    if len(found) < FEWEST_STEPS:
        raise UsageError(
            f"--sectors {text}: one step shows no difference; name {FEWEST_STEPS} or more"
        )
    return sorted(found)


def queries(rows: int, turn: int | None = None) -> dict[Pattern, Query]:
    """The documents', by the pattern in which they read; where what was read before may be in
    shared buffers still, rows that are this turn's own.
    """
    by_index = benchmark_table.index_scan(rows, turn)
    return {
        "sequential": Copy(benchmark_table.COPY, planned=_NOTHING),
        "random": Query(by_index, benchmark_table.INDEX_FIRST),
    }


def check_given(setup: Setup, found: Given) -> None:
    """Raise UnsupportedError if files of the server of --dsn keep an earlier read-ahead, UsageError
    if its shared buffers would hold the table, so that nothing of it would be read.
    """
    if any(b.backend_type == "io worker" for b in found.server.backends()):
        raise UnsupportedError(
            "--dsn: its I/O workers keep files open, with the read-ahead that they had then; set "
            "io_method = sync there, or leave --dsn out for a server that is restarted"
        )
    held = found.shared_buffers
    if setup.rows * setup.shape.row_bytes < 2 * held:
        raise UsageError(
            f"--dsn: its shared buffers, {units.size(held)}, would hold most of the table, and it "
            f"is not restarted; take {2 * held // setup.shape.row_bytes + 1:,} or more --rows"
        )


def measure(
    setup: Setup,
    sectors: Sequence[int],
    *,
    runs: int,
    left_out: Mapping[str, str],
    progress: Progress,
    interruption: Interruption,
) -> ReadaheadResult:
    """Do it, at each of `sectors`; `left_out` are storages whose read-ahead cannot be set, and why.

    Raises what in_random_order() does, and PgtraceError if somebody else sets it meanwhile.
    """
    setup = replace(setup, check_given=check_given)
    shown = queries(setup.rows, None if setup.dsn is None else 1)
    options = ReadaheadOptions(
        sectors=list(sectors),
        left_out=dict(left_out),
        queries={pattern: query.text for pattern, query in shown.items()},
    )
    measured = [
        (place.name, step, pattern) for place in setup.places for step in sectors
        for pattern in shown
    ]  # fmt: skip
    # Without any a scan waits for each page
    some = next(step for step in sectors if step)
    return in_random_order(
        ReadaheadResult, setup, measured, partial(_cell, sectors),
        runs=runs, options=options, progress=progress, interruption=interruption,
        like=lambda one: (one[0], min(one[1], some), one[2]),
    )  # fmt: skip


def _cell(
    steps: Sequence[int], lab: Laboratory, run: int, measured: tuple[str, int, Pattern]
) -> ReadaheadCell:
    storage, sectors, pattern = measured
    lab.progress.step(f"run {run}, {storage}, {pattern}, read-ahead {sectors:,} sectors")
    (place,) = (place for place in lab.setup.places if place.name == storage)
    device = read_ahead(place)
    device.set(sectors, lab.changes)
    turn = (run - 1) * len(steps) + steps.index(sectors) + 1
    query = queries(lab.setup.rows, None if lab.server.restarts else turn)[pattern]
    cell = ReadaheadCell(storage, run, 0, sectors, pattern=pattern, state="cold")
    lab.runner.run(lab.tables[storage], query, "cold", cell)
    device.check(sectors)
    return cell
