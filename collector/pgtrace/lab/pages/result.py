"""What the file of a pages experiment holds."""

from typing import Literal

import msgspec

from ...model.capture import Source
from ...model.lab_result import Details, Finding, Pattern, QueryCell
from ..planner.result import PlannerFinding, SweepResult

By = Literal["read latency", "elapsed time"]
Measured = Literal["mean per 8 KiB", "p50 of a read"]
"""Of read latency."""


class BlockDetails(Details):
    """Which blocks, and what of them."""

    pattern: Pattern
    by: By


class Block(Finding, tag="block", kw_only=True):
    """Nanoseconds per 8 KiB."""

    details: BlockDetails


class RatioDetails(Details):
    """Of what it is a ratio."""

    by: By


class Ratio(Finding, tag="ratio", kw_only=True):
    """Random by sequential, per 8 KiB."""

    details: RatioDetails


class BetweenDetails(Details):
    """Which blocks, and with which storage they are compared: the faster one."""

    pattern: Pattern
    against: str
    by: Measured


class Between(Finding, tag="between", kw_only=True):
    """Read latency of one storage by that of another, the slower one first."""

    details: BetweenDetails


class Share(msgspec.Struct):
    """Of all reads, and of their time."""

    reads: float
    time: float


class ServedDetails(Details):
    """`shares` are empty where it was not measured."""

    pattern: Pattern
    shares: dict[Source, Share] = {}


class Served(Finding, tag="served", kw_only=True):
    """The share of the time that is of reads which waited for the device."""

    details: ServedDetails


class CpuDetails(Details):
    """Which rows, and the same by a sequential block's read latency."""

    pattern: Pattern
    of_sequential_block: float | None = None


class Cpu(Finding, tag="cpu_per_tuple", kw_only=True):
    """Nanoseconds of CPU time per row."""

    details: CpuDetails


PagesFinding = Block | Ratio | Between | Served | Cpu


class PagesResult(SweepResult, tag="pages", kw_only=True):
    """Of what a sequential and a random page read cost, and of the planner's sweep."""

    cells: list[QueryCell]
    findings: list[PagesFinding | PlannerFinding] = []


RESULT = PagesResult
