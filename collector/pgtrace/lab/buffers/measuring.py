"""What shared_buffers does to a scan, and at which of three levels blocks are found.

Each run scans the table once at every size of shared_buffers, and in each of three
states, in an order that is drawn anew. Before each scan the server is started again with that
size, so that its buffers are empty.

- cold: the table's files are out of the page cache;
- cached: they are in it;
- prewarmed: they are in it, and pg_prewarm has put into shared buffers what fits.

Then the same backend scans again, untraced: what an earlier scan left in shared buffers is what
EXPLAIN alone could not explain, and what EXPLAIN's I/O timing is without a tracer.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ...errors import PgtraceError, UsageError
from ..core.interruption import Interruption
from ..core.laboratory import Laboratory, Setup
from ..core.private_server import PrivateServer
from ..core.progress import Progress
from ..core.random_order import in_random_order
from ..core.runner import Query
from ..core.storages import Place
from . import table as buffers_table
from .result import BuffersCell, BuffersOptions, BuffersResult, State
from .sizes import Size

if TYPE_CHECKING:
    import psycopg

STATES: tuple[State, ...] = ("cold", "cached", "prewarmed")
AGAIN = 4
"""Scans after the one that is traced: the ring shows in their differences."""
SETTINGS = (
    "block_size", "data_checksums", "max_connections", "autovacuum_max_workers",
    "autovacuum_worker_slots", "max_worker_processes", "max_wal_senders",
    "effective_io_concurrency", "io_combine_limit", "io_max_combine_limit", "io_method",
)  # fmt: skip
"""Of the server, those that the size of a scan's ring and of its reads come from."""


@dataclass(frozen=True, slots=True)
class Scan(Query):
    """The query, and before it, if it is asked for, pg_prewarm."""

    prewarm: bool = False

    def plan(self, backend: "psycopg.Connection[Any]") -> None:
        """As of Query; what pg_prewarm reads is not in the scan's reads."""
        Query.plan(self, backend)
        if self.prewarm:
            backend.execute(buffers_table.PREWARM.encode())


def check_places(places: Sequence[Place]) -> None:
    """Raise UsageError for one where no file leaves the page cache."""
    for place in places:
        if place.medium != "device":
            raise UsageError(
                f"--storage {place.name}: {place.directory} is in memory ({place.medium}), where "
                "nothing is ever cold; name a directory on a device"
            )


def measure(
    setup: Setup,
    sizes: Sequence[Size],
    *,
    runs: int,
    progress: Progress,
    interruption: Interruption,
) -> BuffersResult:
    """Do it, at each of `sizes`. Raises what in_random_order() does."""
    options = BuffersOptions(
        shared_buffers={size.text: size.buffers for size in sizes},
        queries={"sequential": buffers_table.SCAN, "prewarm": buffers_table.PREWARM},
    )

    def cell(lab: Laboratory, run: int, measured: tuple[str, str, State]) -> BuffersCell:
        if not options.settings:
            options.settings, options.clock_ns = _settings(lab), _clock_ns(lab)
        return _cell(lab, run, *measured)

    measured = [(place.name, s.text, state) for place in setup.places for s in sizes
                for state in STATES]  # fmt: skip
    return in_random_order(
        BuffersResult, setup, measured, cell,
        runs=runs, options=options, progress=progress, interruption=interruption,
        like=lambda one: (one[0], sizes[0].text, one[2]),
    )  # fmt: skip


def _cell(lab: Laboratory, run: int, storage: str, size: str, state: State) -> BuffersCell:
    lab.progress.step(f"run {run}, {storage}, shared_buffers {size}, {state}")
    with lab.server.connect() as connection:
        # what runs is started again before the scan, and has it then
        connection.execute(f"alter system set shared_buffers = '{size}'".encode())
    scan = Scan(
        buffers_table.SCAN,
        "-c track_io_timing=on",
        again=AGAIN,
        prewarm=state == "prewarmed",
    )
    cell = BuffersCell(storage, run, 0, size, pattern="sequential", state=state)
    return lab.runner.run(lab.tables[storage], scan, "cold" if state == "cold" else "cached", cell)


def _settings(lab: Laboratory) -> dict[str, str]:
    with lab.server.connect() as connection:
        rows = connection.execute(
            "select name, setting from pg_catalog.pg_settings where name = any(%s)",
            (list(SETTINGS),),
        )
        return dict(rows.fetchall())


def _clock_ns(lab: Laboratory) -> float | None:
    """What one look at the clock takes a program of the server's, by pg_test_timing."""
    assert isinstance(lab.server, PrivateServer)
    try:
        said = lab.server.cluster.run("pg_test_timing", "-d", "1")
    except PgtraceError:
        return None
    for line in said.splitlines():
        if "loop time including overhead:" in line:
            return float(line.rpartition(":")[2].split()[0])
    return None
