"""What the process that traces tells the one that draws, and what that asks of it.

They are two, so that what draws may crash or hang, and nothing is lost; it has no privileges, and
nobody's screen waits for the kernel. Times are nanoseconds, sizes bytes.
"""

from typing import Literal

import msgspec

from ..model.capture import Kind as FileKind
from ..model.capture import Operation, Source, Tablespace

Kind = Literal["backend", "statement", "relation", "device", "wait event"]
"""What a row is of."""


class Begin(msgspec.Struct, array_like=True, tag=True):
    """What stays the same."""

    server: str
    """What is traced, in words."""
    version: str | None
    block_size: int
    cpus: int
    operations: list[Operation]
    times: bool
    """It is measured where the time of processes goes."""
    queries: Literal["usdt", "uprobe", "memory", "none"]
    by_relation: bool
    columns: int = 80
    """Of the screen, where none is drawn on."""
    no_buffers: str = "without a connection"
    """Why nothing is known of shared_buffers as long as that is so."""


class Process(msgspec.Struct, array_like=True, frozen=True):
    """One that is traced. None is what is not known."""

    pid: int
    backend_type: str | None
    datname: str | None
    usename: str | None
    application_name: str | None


class Place(msgspec.Struct, array_like=True, frozen=True):
    """What was read or written."""

    name: str
    """A relation with its kind, or a kind of files."""
    tablespace: str | None
    kind: FileKind = "unknown"


class Cell(msgspec.Struct, array_like=True, gc=False):
    """What one process did for one statement, in one place."""

    process: int
    statement: int
    """0: for none, or it is not known."""
    place: int
    operation: Operation
    source: Source
    count: int
    bytes: int
    total_ns: int


class Spent(msgspec.Struct, array_like=True, gc=False):
    """How long one process ran, could not, or slept; not what it waited for work."""

    process: int
    what: int
    total_ns: int


class Doing(msgspec.Struct, array_like=True, gc=False):
    """What one process that is not idle does at the end of a frame."""

    process: int
    state: str
    """In the words of pg_stat_activity."""
    seconds: float | None = None
    """How long it has been so; None, as of the others: it was not looked at."""
    wait_event_type: str | None = None
    query: str | None = None


class Frame(msgspec.Struct, array_like=True, tag=True):
    """About one second. Names are told once, those that are new or have changed."""

    at: float
    """When it ended, in seconds since the epoch."""
    length_s: float
    cells: list[Cell]
    spent: list[Spent]
    doing: list[Doing]
    clients: int
    """Backends of clients that there are."""
    saw_all: bool = True
    """Each was looked at; else there may be others that are not idle."""
    buffers: tuple[int, int] | None = None
    """Blocks that were found in shared_buffers, and that were not; None: not known."""
    buffers_s: float = 0.0
    """For how many seconds these are, which began before this frame: it is asked less often."""
    away: bool = False
    """The server is not there."""
    processes: dict[int, Process] = {}
    statements: dict[int, str] = {}
    places: dict[int, Place] = {}
    events: dict[int, tuple[str, str | None]] = {}
    """cpu, run_queue, stolen; or the type of a wait event, and the event."""
    became: dict[int, int] = {}
    """Statements that ran and have ended: under which number they were known before."""
    devices: list[Tablespace] = []
    """All of them, if there are new ones."""
    notices: list[str] = []
    """What was lost, and what else is to be said."""


class Histograms(msgspec.Struct, array_like=True, tag=True):
    """What was asked for by Look: of one row, all since the start of tracing."""

    kind: Kind
    number: int
    seconds: float
    by_source: list[tuple[Operation, Source, int, list[tuple[int, int, int]]]]
    """How long all of them took together, in nanoseconds; and buckets [low, high, count]."""


class Said(msgspec.Struct, array_like=True, tag=True):
    """An answer to Write, for people."""

    text: str
    good: bool = True


class Look(msgspec.Struct, array_like=True, tag=True):
    """Somebody looks at one row."""

    kind: Kind
    number: int


class Write(msgspec.Struct, array_like=True, tag=True):
    """Write the last minutes as a capture; where to is not for who draws to say."""

    minutes: int


Told = Begin | Frame | Histograms | Said
Asked = Look | Write
