"""What is counted of reads, writes and fsyncs, and by what it is told apart."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple, Self

from ..model.capture import (
    Call,
    Kind,
    Operation,
    Pattern,
    Performer,
    PieceKind,
    Scope,
    Size,
    Source,
    TimeKind,
)
from ..model.histogram import Histogram


class Key(NamedTuple):
    """What is told apart of reads, writes and fsyncs."""

    scope: Scope
    performed_by: Performer
    direct: bool
    size: Size
    pattern: Pattern
    source: Source
    file: int = 0
    """Its number in Engine.files()."""
    operation: Operation = "read"
    call: Call | None = None
    """Of an fsync, which it was. It has no size, and no pattern."""


class TimeKey(NamedTuple):
    """What is told apart of where the time of a process went."""

    scope: Scope
    performed_by: Performer
    kind: PieceKind
    event: int = 0
    """Of a sleep, what the server showed as its wait_event_info, or layout.KERNEL_SLEEP and the
    state of the process."""
    file: int = 0
    """None."""


class File(NamedTuple):
    """What the kernel knows of a file that was read; or of all of one kind in one tablespace."""

    kind: Kind
    device: tuple[int, int] = (0, 0)
    """Major and minor number of the file system's."""
    inode: int = 0
    """0 where it stands for many: then the path is that of the first."""
    space: int = 0
    """Inode of the directory that stands for the tablespace: base, global, PG_15_202209061; 0:
    none."""
    path: tuple[str, ...] = ()
    """Its last components, at most four, outermost first; of one that stands for others its
    name."""
    gone: bool = False
    """It stands for files that are gone."""


UNKNOWN_FILE = File("unknown")
"""There was no room for more."""


@dataclass(slots=True)
class Counts(Histogram):
    """Reads, or writes or fsyncs, of one key: their latencies, and how many bytes they were."""

    count: int = 0
    """Also those for which there was no room in a bucket."""
    bytes: int = 0
    device_bytes: int = 0
    queued_ns: int = 0
    """How long those that another process performed lay waiting for it."""

    def take(self, other: Self) -> None:
        """Count the other's reads, too."""
        Histogram.take(self, other)  # first: it asks whether there were any
        self.count += other.count
        self.bytes += other.bytes
        self.device_bytes += other.device_bytes
        self.queued_ns += other.queued_ns


ReadsByKey = dict[Key | TimeKey, Counts]
"""Also how long a process ran, waited for a CPU, and slept: it is charged as reads are."""


def io_of(reads: "ReadsByKey") -> dict[Key, Counts]:
    """Reads, writes and fsyncs alone."""
    return {key: counts for key, counts in reads.items() if isinstance(key, Key)}


def times_of(reads: "ReadsByKey") -> dict[TimeKey, Counts]:
    """And the rest of them."""
    return {key: counts for key, counts in reads.items() if isinstance(key, TimeKey)}


def fold_files(reads: ReadsByKey, instead: Mapping[int, int]) -> None:
    """Count what was of some files on those that stand for them."""
    for key in [key for key in reads if key.file in instead]:
        counts = reads.pop(key)
        reads.setdefault(key._replace(file=instead[key.file]), Counts()).take(counts)


def add_reads(
    into: ReadsByKey,
    reads: ReadsByKey,
    *,
    scope: Scope | None = None,
    performed_by: Performer | None = None,
) -> None:
    """Add reads to others, under another scope or performer if one is given."""
    for key, counts in reads.items():
        if scope:
            key = key._replace(scope=scope)  # noqa: PLW2901
        if performed_by:
            key = key._replace(performed_by=performed_by)  # noqa: PLW2901
        into.setdefault(key, Counts()).take(counts)


Sums = dict[Key, tuple[int, int, int]]
"""Count, bytes, nanoseconds."""
TimeSums = dict[tuple[TimeKind, Scope, int], int]
"""Nanoseconds by what TimeKey has as kind, scope and event."""
ByPower = dict[tuple[Operation, Source], dict[int, int]]
"""How many there were of each power of two of nanoseconds, as IntervalIo.powers."""
