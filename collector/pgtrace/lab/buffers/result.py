"""What the file of a buffers experiment holds."""

from typing import Literal

from ...model.lab_result import Details, Finding, QueryCell, TableOptions, TableResult

State = Literal["cold", "cached", "prewarmed"]


class BuffersCell(QueryCell):
    """One run of the scan at one size of shared_buffers."""

    shared_buffers: str
    """As it was set."""


class BuffersOptions(TableOptions, kw_only=True):
    """`settings` are the server's that a scan's ring and its reads come from."""

    shared_buffers: dict[str, int] = {}
    """The sizes, and how many buffers each is."""
    settings: dict[str, str] = {}
    clock_ns: float | None = None
    """Of one look at the clock, by pg_test_timing."""


class BlocksDetails(Details):
    """In how many cells they are not."""

    unlike: int


class Blocks(Finding, tag="blocks", kw_only=True):
    """Whether hits and blocks read are those that EXPLAIN counts: without a value."""

    details: BlocksDetails


class ElapsedDetails(Details):
    """Of one size and state."""

    shared_buffers: str
    state: State


class Elapsed(Finding, tag="elapsed", kw_only=True):
    """Nanoseconds per block touched."""

    details: ElapsedDetails


class StateDetails(ElapsedDetails):
    """Of one size: two states."""

    against: State


class StateRatio(Finding, tag="state", kw_only=True):
    """Elapsed time in one state by that in another."""

    details: StateDetails


class SizeDetails(ElapsedDetails):
    """Of one state: two sizes."""

    against: str


class SizeRatio(Finding, tag="size", kw_only=True):
    """Elapsed time at one size by that at another."""

    details: SizeDetails


class TimingDetails(ElapsedDetails):
    """Nanoseconds per block read, but for `clock_ns`, which is of one look at the clock."""

    explained_ns: float
    traced_ns: float
    tracer_ns: tuple[float, float | None, float | None] | None = None
    """By how much it is larger than in scans that were not traced, with its interval."""
    clock_ns: float | None = None
    cpu_wait_ns: float | None = None
    """For which no CPU was free, in the whole query."""
    blocks_a_read: float | None = None


class Timing(Finding, tag="io_timing", kw_only=True):
    """EXPLAIN's I/O timing less the traced reads, nanoseconds per block read."""

    details: TimingDetails


class RingDetails(Details):
    """Of one size: its buffers, the table's blocks, and the growth that follows from a ring."""

    shared_buffers: str
    buffers: int
    blocks: int
    ring: bool
    computed: int


class Ring(Finding, tag="ring", kw_only=True):
    """By how many hits the second scan has more than the first."""

    details: RingDetails


BuffersFinding = Blocks | Elapsed | StateRatio | SizeRatio | Timing | Ring


class BuffersResult(TableResult, tag="buffers", kw_only=True):
    """Of what shared_buffers does to a scan."""

    options: BuffersOptions
    cells: list[BuffersCell]
    findings: list[BuffersFinding] = []


RESULT = BuffersResult
