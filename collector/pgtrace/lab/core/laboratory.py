"""What the experiments share: a server with the benchmark table in each storage, and a runner."""

import os
import platform
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import TypeVar

from ... import sudo, units
from ...engines import ProbeType
from ...errors import PermissionDeniedError, UnsupportedError, UsageError
from ...model.capture import Host
from ...model.lab_result import QueryCell, TableOptions, TableResult
from ...postgres import proc
from ...postgres.versions import major_of
from ...tracing.tracer import trace
from . import benchmark_table, storages, tables
from .cpu_affinity import Pins
from .existing_server import Given, find, given_server
from .interruption import Interruption
from .private_server import (
    BASE,
    WORKED_IN,
    LabServer,
    check_private,
    memory_available,
    private_server,
)
from .progress import Progress
from .runner import Runner
from .storages import Place
from .tables import State, Table, Told
from .undo_log import Changes

DIRECT_IO = 16
"""The first version with debug_io_direct."""
R = TypeVar("R", bound=TableResult)
_DROP_CACHES = Path("/proc/sys/vm/drop_caches")


def check_root() -> None:
    """Raise PermissionDeniedError for anybody else."""
    if os.geteuid() != 0:
        raise PermissionDeniedError(
            "an experiment traces, empties page caches and starts a server as another user: "
            f"type: {sudo.as_root()}"
        )


@dataclass(frozen=True)
class Setup:
    """What was asked for, of every experiment."""

    places: Sequence[Place]
    rows: int
    pins: Pins = field(default_factory=Pins)
    bindir: Path | None = None
    user: str = "postgres"
    direct_io: bool = False
    drop_caches: bool = False
    probe_type: ProbeType | None = None
    settings: Mapping[str, object] = field(default_factory=dict)
    """Of the private server, on top of server.SETTINGS."""
    dsn: str | None = None
    """A server that is there already; else a private one is made."""
    shared_host: bool = False
    """It may have other clients."""
    planner_rows: int = 0
    """Of the table that the planner's sweep needs; 0 if it is not asked for."""
    bytes_beside: int = 0
    """What else each storage has to hold, beside the rows."""
    shape: benchmark_table.Shape = benchmark_table.NARROW
    """Of the table's rows."""
    check_given: Callable[["Setup", Given], None] = lambda _setup, _given: None
    """Raises what speaks against the server of --dsn in one experiment."""
    load: Callable[[LabServer, str, int, benchmark_table.Shape, Told], Table] = tables.load
    """Makes the table of one storage."""
    touched: bool = True
    """Whether each of the private server's shared buffers is touched before a run."""

    def check(self) -> Given | None:
        """Refuse what cannot go well, before anything is written; return what --dsn leads to.

        Raises PgtraceError's kinds.
        """
        check_root()
        self.pins.check()
        storages.check_apart(self.places)
        given, ids, user = self._look_at_server()
        for place in self.places:
            if place.has_tablespace:
                storages.check_usable(place, ids, user)
        size = self.rows * self.shape.row_bytes + self.bytes_beside
        own = Place("the server", given.server.directory.resolve() if given else BASE)
        storages.check_room([(own, WORKED_IN), *((place, size) for place in self.places)])
        held = sum(place.medium != "device" for place in self.places)
        if held and held * size > memory_available():
            raise UsageError(
                f"{units.size(held * size)} of tables cannot be held in memory: "
                f"{units.size(memory_available())} are free; take fewer --rows"
            )
        with trace(os.getpid(), any_process=True, probe_type=self.probe_type):
            pass  # what cannot be traced is said now, and not when everything is loaded
        return given

    def _look_at_server(self) -> tuple[Given | None, tuple[int, int], str]:
        """The user that it runs as, too."""
        if self.dsn is not None:
            given = find(self.dsn, shared_host=self.shared_host)
            self.check_given(self, given)
            return given, given.ids, given.user
        cluster = check_private(self.bindir, self.user)
        if self.direct_io:
            _check_direct_io(self.places, cluster.binary)
        return None, cluster.ids(), self.user


@dataclass
class Laboratory:
    """All is there: runs can be made."""

    setup: Setup
    server: LabServer
    tables: Mapping[str, Table]
    runner: Runner
    progress: Progress
    started: datetime
    changes: Changes
    """For what an experiment changes on top."""

    def __post_init__(self) -> None:
        self._identity = self.server.identity
        self._shared_buffers = self.server.shared_buffers
        table = next(iter(self.tables.values()))
        self._table_bytes, self._index_bytes = table.bytes_of("heap"), table.bytes_of("index")
        self._storages = [storages.describe(place) for place in self.setup.places]

    def state_of(self, storage: str) -> State:
        """That its table is brought into for a run: memory is where it is cached."""
        media = {place.name: place.medium for place in self.setup.places}
        return "cold" if media[storage] == "device" else "cached"

    def result(
        self,
        kind: type[R],
        cells: Sequence[QueryCell],
        options: TableOptions,
        *,
        partial: bool,
    ) -> R:
        """What was measured; also when the server is gone."""
        setup = self.setup
        options.rows = setup.rows
        if options.shared_buffers is None:  # else it is what the experiment varies
            options.shared_buffers = self._shared_buffers
        options.restarted = self.server.restarts
        options.table_bytes, options.index_bytes = self._table_bytes, self._index_bytes
        options.cold_by = "drop_caches" if setup.drop_caches else "posix_fadvise"
        options.direct_io, options.drop_caches = setup.direct_io, setup.drop_caches
        options.pg_bin = str(setup.bindir) if setup.bindir else None
        options.cpu_server, options.cpu_tracer = setup.pins.server, setup.pins.tracer
        return kind(
            partial=partial,
            started=units.stamp(self.started),
            duration_s=(datetime.now(UTC) - self.started).total_seconds(),
            host=Host(platform.release(), os.cpu_count() or 1),
            server=self._identity,
            probes=self.runner.kept.probes,
            lost=self.runner.kept.lost,
            options=options,
            storages=self._storages,
            cells=cells,
        )


Rehearsal = Callable[[Callable[[Setup], Laboratory], Setup], None]
"""Is called before the tables are loaded, with what loads those of a smaller setup."""


@contextmanager
def laboratory(
    setup: Setup,
    progress: Progress,
    interruption: Interruption,
    rehearsal: Rehearsal = lambda _load, _setup: None,
) -> Iterator[Laboratory]:
    """Make everything that runs need; nothing of it is left after the block.

    Raises what Setup.check() does, and Interrupted.
    """
    given = setup.check()
    started = datetime.now(UTC)
    with ExitStack() as stack:
        stack.enter_context(setup.pins.for_tracer())
        changes = stack.enter_context(Changes())
        progress.say("Preparing the server")
        server = stack.enter_context(_server(setup, given, changes))

        def load(setup: Setup) -> Laboratory:
            made = {}
            for name in (place.name for place in setup.places):
                with interruption.allowed():
                    told = progress.loads(setup.rows, name)
                    made[name] = setup.load(server, name, setup.rows, setup.shape, told)
            runner = Runner(server, interruption, started, setup.probe_type)
            if setup.drop_caches:
                runner.prepare = _drop_caches
            return Laboratory(setup, server, made, runner, progress, started, changes)

        rehearsal(load, setup)
        yield load(setup)


@contextmanager
def _server(setup: Setup, given: Given | None, changes: Changes) -> Iterator[LabServer]:
    common = changes, setup.places, setup.pins
    if given:
        directories = storages.make_directories(changes, setup.places, given.ids)
        with given_server(*common, directories, given) as server:
            yield server
        return
    ids = check_private(setup.bindir, setup.user).ids()
    directories = storages.make_directories(changes, setup.places, ids)
    direct = {"debug_io_direct": "data"} if setup.direct_io else {}
    settings = {**setup.settings, **direct}
    with private_server(
        *common,
        directories,
        settings=settings,
        bindir=setup.bindir,
        user=setup.user,
        touched=setup.touched,
    ) as private:
        yield private


def _drop_caches() -> None:
    """Of the whole host: pages, and what is known of directories and files."""
    os.sync()
    _DROP_CACHES.write_text("3")


def _check_direct_io(places: Sequence[Place], binary: Path) -> None:
    """Raise UnsupportedError or UsageError if no block would be read past the page cache."""
    version = proc.version_of(binary)
    major = major_of(version)
    if major is not None and major < DIRECT_IO:
        raise UnsupportedError(
            f"--direct-io needs PostgreSQL {DIRECT_IO} or later, {binary} is {version}; "
            "name another by --pg-bin"
        )
    for place in places:
        if place.medium != "device":
            raise UsageError(
                f"--direct-io reads past the page cache, where {place.name} is held; "
                "leave one of them out"
            )
