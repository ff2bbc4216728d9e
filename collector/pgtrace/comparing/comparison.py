"""What a comparison says, as data: its file is JSON, schema "pgtrace.comparison/1"."""

from typing import Literal

import msgspec

from ..model.capture import Kind, Operation, Pattern, Performer, Size, Source
from .decide import Outcome

SCHEMA = "pgtrace.comparison/1"

Metric = Literal[
    "time_per_block", "mix", "speed", "blocks_per_second", "time_per_second", "p50", "p99",
    "elapsed",
]  # fmt: skip
CautionName = Literal[
    "few_units", "short", "lost", "partial", "kernel", "version", "probe_type", "block_size",
    "cache_state", "simulated", "no_intervals", "same_time", "gap", "not_measured", "cpus",
    "nothing_in_common",
]  # fmt: skip


class Subject(msgspec.Struct, frozen=True, omit_defaults=True):
    """Of what; what is left out is not told apart."""

    operation: Operation = "read"
    source: Source | None = None
    pattern: Pattern | None = None
    size: Size | None = None
    tablespace: str | None = None
    performed_by: Performer | None = None
    statement: str | None = None
    """Its text."""
    other_files: bool = False
    """Not of relations: temporary files, WAL and what else there is."""
    run: str | None = None
    """Of a lab result: what of it."""


class Finding(msgspec.Struct, omit_defaults=True, kw_only=True):
    """B by A. Times are nanoseconds."""

    metric: Metric
    of: Subject
    outcome: Outcome
    primary: bool = False
    """It is the one that is looked at first, and so needs no correction for being many."""
    a: float | None = None
    b: float | None = None
    value: float | None = None
    """The ratio, with its 95 % interval."""
    low: float | None = None
    high: float | None = None
    units: int | None = None
    """How many blocks of intervals, or runs, stand behind it, on the side with fewer."""
    why: str | None = None
    """Why it is not decided, where the interval does not tell."""
    share: float | None = None
    """Of the time of its operation, on the side where that is more."""


class Share(msgspec.Struct, omit_defaults=True, kw_only=True):
    """Blocks of one source, tablespace, pattern or size of reads, by all that were read."""

    source: Source | None = None
    tablespace: str | None = None
    pattern: Pattern | None = None
    size: Size | None = None
    a: float
    b: float
    effect: float = 0.0
    """What the change of the share does to the time per block: nanoseconds, with the mean of both
    sides' times. Below 0: it makes it shorter."""


class Access(msgspec.Struct, omit_defaults=True, kw_only=True):
    """How one statement reads: shares of its blocks."""

    pattern: Pattern
    kind: Kind = "unknown"
    relation: str | None = None
    """None: not known."""
    a: float
    b: float


class StatementChange(msgspec.Struct, omit_defaults=True, kw_only=True):
    """One statement, as it was counted: no estimate."""

    text: str
    query_id: int | None = None
    """None: not known, or not the same on both sides."""
    a_calls_per_s: float | None = None
    b_calls_per_s: float | None = None
    """None: not measured, or it did not run."""
    a_blocks_per_call: float | None = None
    b_blocks_per_call: float | None = None
    a_block_ns: float | None = None
    b_block_ns: float | None = None
    a_ns_per_s: float = 0.0
    """Of reading."""
    b_ns_per_s: float = 0.0
    a_blocks_per_s: float = 0.0
    b_blocks_per_s: float = 0.0
    part_of_change: float | None = None
    """Of the change of all blocks read per second; None where there is none."""
    reads: list[Access] = []
    """Those first that changed most. A capture holds no plans: this is what shows of them."""


class Caution(msgspec.Struct):
    """What keeps the comparison from being as good as it seems."""

    name: CautionName
    words: str
    a: str | float | None = None
    b: str | float | None = None


class OneSide(msgspec.Struct, omit_defaults=True, kw_only=True):
    """What was compared."""

    started: str
    seconds: float
    part: str = ""
    """As --a or --b had it."""
    file: str = ""
    server: str | None = None
    kernel: str | None = None
    intervals: int | None = None
    runs: int | None = None


class Factor(msgspec.Struct, kw_only=True):
    """Time of reading per second is calls a second, times blocks a call, times time a block."""

    calls: float
    blocks_per_call: float
    block_time: float


class Condition(msgspec.Struct, omit_defaults=True, kw_only=True):
    """One --fail-if, and whether it was so."""

    text: str
    outcome: Literal["true", "false", "not_decided"]
    value: float | None = None
    low: float | None = None
    high: float | None = None
    why: str | None = None


class Comparison(msgspec.Struct, kw_only=True):
    """Everything that is said of B against A."""

    a: OneSide
    b: OneSide
    margin: float
    """Differences up to this ratio do not matter."""
    findings: list[Finding]
    cautions: list[Caution] = []
    shares: list[Share] = []
    statements: list[StatementChange] = []
    """Those first that changed most."""
    factor: Factor | None = None
    """None where calls are not known."""
    conditions: list[Condition] = []
    experiment: str | None = None
    """Of lab results."""
    schema: str = SCHEMA
