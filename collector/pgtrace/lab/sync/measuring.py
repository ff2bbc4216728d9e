"""What making data last costs two servers, which do the same work.

Each run gives both servers their turn, in an order that is drawn anew: what drifts with time hits
both alike. In its turn a server is started, gets the tables anew, and does the three
loads, each with a CHECKPOINT after it. The other one is stopped meanwhile. The loads have a fixed
number of transactions: the published one ran for a fixed time, so that its servers' checkpoints had
different work, and their durations did not compare the servers.
"""

import os
import platform
import re
import subprocess
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import UTC, datetime
from random import Random
from typing import TYPE_CHECKING, Any

from ... import units
from ...engines import CheckpointTimes, ProbeType
from ...linux.block_device import device_work, since
from ...model.capture import Host, Operation, Server
from ...tracing.tracer import trace
from ..core import storages
from ..core.aggregate import by_backend_type
from ..core.interruption import Interruption
from ..core.laboratory import check_root
from ..core.private_server import BASE, WORKED_IN
from ..core.progress import Progress
from ..core.session_totals import Kept
from ..core.storages import Place
from ..core.undo_log import Changes
from . import load as sync_load
from . import servers as sync_servers
from .load import LOADS, Size
from .result import (
    Checkpoint,
    ComparedServer,
    LoadName,
    Phase,
    SyncCell,
    SyncOptions,
    SyncResult,
)
from .servers import ServerSpec, SyncServer

if TYPE_CHECKING:
    import psycopg

OPERATIONS: tuple[Operation, ...] = ("write", "fsync")
DATA = "data"
_SEEDS = 1 << 31
_LINE = re.compile(
    r"checkpoint complete: wrote (\d+) buffers .*write=([\d.]+) s, sync=([\d.]+) s, "
    r"total=([\d.]+) s; sync files=(\d+)"
)


@dataclass(frozen=True)
class Setup:
    """What was asked for."""

    servers: Sequence[ServerSpec]
    size: Size
    runs: int
    wal: Place | None = None
    data: Place | None = None
    user: str = "postgres"
    probe_type: ProbeType | None = None

    @property
    def places(self) -> dict[str, Place]:
        """By what lies there; WAL lies with the data unless it has a place."""
        found = {"data": self.data or Place(DATA, BASE)}
        return found if self.wal is None else {**found, "wal": self.wal}

    def check(self) -> None:
        """Refuse what cannot go well, before anything is written. Raises PgtraceError's kinds."""
        check_root()
        clusters = sync_servers.check(self.servers, self.user)
        given = {what: place for what, place in (("data", self.data), ("wal", self.wal)) if place}
        sync_servers.check_places(given, clusters, self.user, 2 * (self.size.bytes + WORKED_IN))


@dataclass
class _Work:
    """What all turns have in common."""

    setup: Setup
    seed: int
    progress: Progress
    interruption: Interruption
    started: datetime
    kept: Kept = field(default_factory=Kept)
    settings: dict[str, dict[str, str]] = field(default_factory=dict)
    identities: dict[str, Server] = field(default_factory=dict)

    def turn(self, server: SyncServer, run: int) -> list[SyncCell]:
        """All that one server does in a run."""
        self.progress.step(f"run {run}, server {server.name}")
        server.start()
        with ExitStack() as stack:
            stack.callback(server.cluster.stop)
            with self.interruption.allowed():
                sync_load.make(server, self.setup.size)
                self.settings[server.name] = server.settings()
                self.identities[server.name] = server.identity()
                connection = stack.enter_context(server.connect())
                return [
                    cell
                    for load in LOADS
                    for cell in (
                        self._load(server, connection, run, load),
                        self._checkpoint(server, connection, run, load),
                    )
                ]

    def _load(
        self, server: SyncServer, connection: "psycopg.Connection[Any]", run: int, load: LoadName
    ) -> SyncCell:
        self._settle(server)
        # One seed of a run and load: both servers get the same keys
        seed = (self.seed + 3 * run + LOADS.index(load)) % _SEEDS
        return self._measure(
            server,
            self._cell(server, run, load, "load"),
            lambda cell: self._done(cell, server, connection, seed),
        )

    def _cell(self, server: SyncServer, run: int, load: LoadName, phase: Phase) -> SyncCell:
        """One that is still to be measured."""
        name = self.setup.places["data"].name
        return SyncCell(name, run, 0, server=server.name, load=load, phase=phase)

    def _done(
        self, cell: SyncCell, server: SyncServer, connection: "psycopg.Connection[Any]", seed: int
    ) -> None:
        done = sync_load.do(server, connection, cell.load, self.setup.size, seed)
        cell.elapsed_s, cell.tps, cell.reading_tps = done.elapsed_s, done.tps, done.reading_tps

    def _checkpoint(
        self, server: SyncServer, connection: "psycopg.Connection[Any]", run: int, load: LoadName
    ) -> SyncCell:
        def do(cell: SyncCell) -> None:
            begin = server.cluster.log_size()
            began = time.perf_counter()
            connection.execute("checkpoint")
            cell.elapsed_s = time.perf_counter() - began
            cell.checkpoint = logged(server.cluster.logged_since(begin))

        return self._measure(server, self._cell(server, run, load, "checkpoint"), do)

    def _measure(
        self, server: SyncServer, cell: SyncCell, do: Callable[[SyncCell], None]
    ) -> SyncCell:
        places = {place.name: server.directories[what] for what, place in self.setup.places.items()}
        with trace(
            server.cluster.postmaster_pid,
            probe_type=self.setup.probe_type,
            operations=OPERATIONS,
            queries="none",  # whose probes would slow each of them
            checkpoints=cell.phase == "checkpoint",
        ) as tracer:
            before = {name: device_work(directory) for name, directory in places.items()}
            cell.began_s = (datetime.now(UTC) - self.started).total_seconds()
            do(cell)
            if cell.checkpoint:
                _time(cell.checkpoint, tracer.checkpoint())
            after = {name: device_work(directory) for name, directory in places.items()}
        capture = tracer.capture()
        self.kept.keep(capture)
        cell.by_backend_type = by_backend_type(capture)
        worked = {name: since(before[name], after[name]) for name in places}
        cell.devices = {name: work for name, work in worked.items() if work}
        return cell

    @staticmethod
    def _settle(server: SyncServer) -> None:
        """Have the kernel write what it holds: with fsync off, what it held is of no load."""
        for directory in server.directories.values():
            subprocess.run(["/usr/bin/sync", "-f", directory], check=True)


def _time(found: Checkpoint, seen: CheckpointTimes) -> None:
    """Add what was traced."""

    def seconds(begin_ns: int, end_ns: int) -> float | None:
        return (end_ns - begin_ns) / 1e9 if begin_ns and end_ns else None

    found.write_s = seconds(seen.write_ns, seen.sync_ns)
    found.sync_s = seconds(seen.sync_ns, seen.synced_ns)
    found.total_s = seconds(seen.begin_ns, seen.end_ns)


def logged(text: str) -> Checkpoint:
    """What the server's log says of the last checkpoint in it."""
    lines = _LINE.findall(text)
    if not lines:
        return Checkpoint()
    buffers, write, sync, total, files = lines[-1]
    return Checkpoint(
        logged_write_s=float(write),
        logged_sync_s=float(sync),
        logged_total_s=float(total),
        buffers=int(buffers),
        files=int(files),
    )


def measure(setup: Setup, progress: Progress, interruption: Interruption) -> SyncResult:
    """Do it. Raises what Setup.check() does, and what Interruption.keeping() does until both
    servers had a whole turn; ended later, the result is partial.
    """
    setup.check()
    random = Random()
    seed = random.randrange(_SEEDS)
    names = [asked.name for asked in setup.servers]
    drawn = Random(seed)
    orders = [drawn.sample(names, len(names)) for _ in range(setup.runs)]
    work = _Work(setup, seed, progress, interruption, datetime.now(UTC))
    cells: list[SyncCell] = []
    partial = True
    with (
        interruption.keeping(lambda: {cell.server for cell in cells} == set(names)),
        Changes() as changes,
    ):
        progress.say("Preparing the servers")
        with sync_servers.servers(
            setup.servers, setup.places, changes=changes, user=setup.user
        ) as made:
            progress.tell(_plan(setup))
            by_name = {server.name: server for server in made}
            progress.plan(sum(map(len, orders)))
            for run, order in enumerate(orders, 1):
                for name in order:
                    cells += work.turn(by_name[name], run)
            partial = False
    return _result(work, cells, orders, partial=partial)


def _plan(setup: Setup) -> str:
    size, names = setup.size, " and ".join(asked.name for asked in setup.servers)
    turns = f"{setup.runs} {'turn' if setup.runs == 1 else 'turns'}"
    return (
        f"Plan: {names}, {turns} each: {size.rows:,} rows are loaded, "
        f"then {size.transactions:,} transactions write to all of them, as many to a few, and "
        f"{size.bulk_rows:,} rows come at once, each with a checkpoint after it. How long that "
        "takes, the first turn tells."
    )


def _result(
    work: _Work, cells: list[SyncCell], orders: Sequence[Sequence[str]], *, partial: bool
) -> SyncResult:
    setup, size = work.setup, work.setup.size
    return SyncResult(
        partial=partial,
        started=units.stamp(work.started),
        duration_s=(datetime.now(UTC) - work.started).total_seconds(),
        host=Host(platform.release(), os.cpu_count() or 1),
        server=work.identities[setup.servers[0].name],
        probes=work.kept.probes,
        lost=work.kept.lost,
        options=SyncOptions(
            servers=[_about(asked, work) for asked in setup.servers],
            differences=sync_servers.differences(
                {asked.name: work.settings[asked.name] for asked in setup.servers}
            ),
            wal_storage=setup.places.get("wal", setup.places["data"]).name,
            data_storage=setup.places["data"].name,
            runs=setup.runs,
            rows=size.rows,
            transactions=size.transactions // size.clients * size.clients,
            clients=size.clients,
            bulk_rows=size.bulk_rows,
            narrow_keys=size.keys("narrow"),
            seed=work.seed,
            order=[list(order) for order in orders],
        ),
        storages=[storages.describe(place) for place in setup.places.values()],
        cells=cells,
    )


def _about(asked: ServerSpec, work: _Work) -> ComparedServer:
    settings = work.settings[asked.name]
    return ComparedServer(
        asked.name,
        str(asked.bindir),
        work.identities[asked.name].version,
        dict(asked.settings),
        settings.get("fsync"),
        settings.get("wal_sync_method"),
    )
