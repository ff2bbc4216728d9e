"""From a request to running probes: what an engine is, and what it hands over."""

from collections.abc import Mapping, Sequence
from typing import Literal, Protocol

from ..failures import Failures
from ..linux.program_file import Program
from ..model.capture import EngineName, Operation
from .counts import (
    UNKNOWN_FILE,
    ByPower,
    Counts,
    File,
    Key,
    ReadsByKey,
    Sums,
    TimeKey,
    TimeSums,
    add_reads,
    fold_files,
    io_of,
    times_of,
)
from .request import (
    BLOCK_SIZE,
    OPERATIONS,
    EngineOptions,
    Member,
    Postmaster,
    Probed,
    ProbeType,
    Request,
    Tier,
)
from .snapshot import (
    CheckpointTimes,
    ExcludedCounts,
    InUse,
    Losses,
    QueryEvent,
    StatementName,
    StatementTotal,
    TaskSnapshot,
)

__all__ = [
    "BLOCK_SIZE", "OPERATIONS", "UNKNOWN_FILE", "ByPower", "CheckpointTimes", "Counts", "Engine",
    "EngineName", "EngineOptions", "ExcludedCounts", "File", "InUse", "Key", "Losses", "Member",
    "Postmaster", "ProbeType", "Probed", "QueryEvent", "QuerySource", "ReadsByKey", "Request",
    "StatementName", "StatementTotal", "Sums", "TaskSnapshot", "Tier", "TimeKey", "TimeSums",
    "add_reads", "fold_files", "io_of", "times_of",
]  # fmt: skip

QuerySource = Literal["usdt", "uprobe", "memory", "none"]
"""memory: looked up in that of their backends, where these read."""


class Engine(Protocol):
    """Probes that run in the kernel."""

    name: EngineName
    note: str | None
    """What its user should know of why it was taken."""
    probe_type: ProbeType
    query_source: QuerySource
    not_measured: list[str]
    operations: tuple[Operation, ...]
    """What is measured, all by one probe type."""
    times: bool
    """Whether it is measured where the time of processes goes."""
    waits: set[int]
    """Postmasters of whose backends it is measured how long they wait for asynchronous reads."""
    began_ns: int
    """When all probes were there and counting began, as of time.monotonic_ns()."""
    failures: Failures
    """What went wrong while tracing: of one query or one task, the others are not touched."""

    def poll(self, *, settled: bool = True) -> list[QueryEvent]:
        """With Request.per_query the queries that ended since the last call; does not wait.

        Unless `settled`, also those that ended a moment ago, of which reads that others made
        may come to be counted yet.
        """

    def serials(self) -> list[tuple[int, int, int]]:
        """(serial, thread, when it ended or 0) of each traced thread: cheap.

        One whose queries were not all fetched has not ended yet.
        """

    def task(self, serial: int) -> TaskSnapshot:
        """One of them, without its reads."""

    def running(self, serial: int) -> QueryEvent | None:
        """What it runs now, without its reads; None if it is idle."""

    def snapshot(self) -> list[TaskSnapshot]:
        """What each traced thread did so far. Poll first."""

    def release(self, serials: Sequence[int]) -> list[TaskSnapshot]:
        """What each of these threads did in all; their places are free for others.

        Together they cost little more than one.
        """

    def ignore(self, serial: int) -> None:
        """Count nothing more of this thread."""

    def was_idle(self, serial: int, *, for_ever: bool = False) -> None:
        """That thread ran no query when tracing began: what it read then was outside. `for_ever`:
        it is of a kind that runs none, so that nothing would close the scope.
        """

    def follow_postmaster(self, old: int, new: Postmaster, binary: Program | None) -> None:
        """Trace the children of this postmaster in place of those of one that is gone.

        `binary` is what it runs, if probes have to be put there first.
        """

    def let_go_of_orphans(self) -> None:
        """Once no process is left of a postmaster that has ended, look for such no more: until then
        every task of the host is asked whether it is one. From then on its pid may be another's. To
        be called now and then: an end that comes just then is made good for by the next call.
        """

    def files(self) -> Mapping[int, File]:
        """What was read so far and is not forgotten; 0 is UNKNOWN_FILE, no number comes twice."""

    def forget(self, gone: Mapping[int, File]) -> dict[int, int]:
        """These files are gone. What was counted of each, and still is, counts for the one that
        stands for it, which has the number that is returned.
        """

    def sums(self) -> dict[int, dict[int, Sums]]:
        """Of the threads that are there, by serial and query, all that was measured since tracing
        began: cheap. The same object again, if nothing was since.
        """

    def by_power(self) -> dict[int, ByPower]:
        """The same by serial: how long everything took, coarsely."""

    def time_sums(self, until_ns: int) -> dict[int, TimeSums]:
        """The same by serial: where their time went, with what went on then, a moment ago. Empty
        where that is not measured.
        """

    def statement(self, serial: int, query: int) -> StatementName | None:
        """What sums() has under this number; None if it is no query, or not known any more."""

    def checkpoint(self) -> CheckpointTimes:
        """The last one that was traced, if the request asked for it."""

    def losses(self) -> Losses:
        """What was lost so far: cheap."""

    def missed(self) -> int:
        """How often the kernel left out a probe so far: it is asked of each program."""

    def statements_full(self) -> bool:
        """Whether there is no room for another statement now."""

    def in_use(self) -> InUse:
        """How much is taken now: what ended gives its own back."""

    def durations(self) -> list[int]:
        """Each read's time since the last call, if the request asked for them."""

    def detach(self) -> int:
        """Stop measuring; what was measured can still be read. Returns until when it was, by
        CLOCK_MONOTONIC.
        """

    def close(self, *, wait: bool = False) -> None:
        """Leave nothing behind in the kernel: within seconds, with `wait` when it returns."""
