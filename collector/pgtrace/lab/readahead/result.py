"""What the file of a read-ahead experiment holds."""

from typing import Annotated, Literal

import msgspec

from ...model.capture import Source
from ...model.lab_result import Details, Finding, QueryCell, TableOptions, TableResult

Sectors = Annotated[int, msgspec.Meta(ge=0, le=(1 << 63) - 1)]
"""Bounded as a capture's QueryId."""


class ReadaheadCell(QueryCell):
    """One run of one query at one read-ahead."""

    read_ahead_sectors: int
    """As it was set, in sectors of 512 bytes."""


class ReadaheadOptions(TableOptions):
    """`sectors` are the steps; `left_out` are storages whose read-ahead cannot be set, and why."""

    sectors: list[int] = []
    left_out: dict[str, str] = {}


class KneeDetails(Details):
    """The best step, and of each the time by that of the best one, with its interval."""

    best_sectors: int
    bytes_per_second: float | None = None
    by_best: dict[Sectors, tuple[float, float | None, float | None]] = {}


class KneeFinding(Finding, tag="knee", kw_only=True):
    """The read-ahead, in sectors, from which on more does not help."""

    details: KneeDetails


class TurnFinding(Finding, tag="turn"):
    """The read-ahead, in sectors, from which on the scan is slower again."""


Limiter = Literal["the CPU", "the device", "the client"]


class LimitDetails(Details):
    """At which step; `by` is what limits alone, and the others are shares of the time."""

    sectors: int
    by: Limiter | None = None
    cpu: float | None = None
    cpu_wait: float | None = None
    waited: float | None = None
    busy: float | None = None
    client: float | None = None


class Limit(Finding, tag="limit", kw_only=True):
    """The share of the time of what limits at the knee."""

    details: LimitDetails


class RandomDetails(Details):
    """The knee, and the step at which the index scan is fastest."""

    sectors: int
    fastest_sectors: int


class RandomReads(Finding, tag="random", kw_only=True):
    """The index scan's time at the knee by that at its fastest step."""

    details: RandomDetails


class BytesDetails(Details):
    """The same of each step."""

    by_sectors: dict[Sectors, float]


class Bytes(Finding, tag="bytes", kw_only=True):
    """What reads asked the device for, by the table's size, at the step that is farthest off."""

    details: BytesDetails


class HumpDetails(Details):
    """Of the scan at one step: reads that took low_ns <= time < high_ns."""

    sectors: int
    low_ns: int
    high_ns: int
    reads: int
    total_ns: int
    by_source: dict[Source, int]
    """Reads."""


class HumpFinding(Finding, tag="hump", kw_only=True):
    """The median of reads around one peak of the histogram, in nanoseconds."""

    details: HumpDetails


ReadaheadFinding = KneeFinding | TurnFinding | Limit | RandomReads | Bytes | HumpFinding


class ReadaheadResult(TableResult, tag="readahead", kw_only=True):
    """Of what read-ahead does to a scan, and to random reads."""

    options: ReadaheadOptions
    cells: list[ReadaheadCell]
    findings: list[ReadaheadFinding] = []


RESULT = ReadaheadResult
