"""What the file of the planner's sweep holds, beside what the pages experiment has in it."""

import msgspec

from ...model.lab_result import Cell, Details, Finding, TableOptions, TableResult
from .points import Circumstance, Point
from .regret import Plan


class PlanCell(Cell, kw_only=True):
    """One run of one plan, at one point of the sweep."""

    plan: Plan
    point: int
    """An index into the options' points."""
    began_s: float | None = None
    """When, after Result.started."""
    stopped: bool = False
    """It was not waited for: it takes longer than `elapsed_s`."""
    shared_hits: int | None = None
    """Blocks found in shared_buffers; of several clients, all of them."""
    shared_reads: int | None = None
    resident_before: float | None = None
    """Share of the table's pages that the page cache held when the run began (mincore)."""


class PickedDetails(Details):
    """What the planner said of each point, at each of `values`, and of each plan at `current`."""

    values: list[float]
    """Of random_page_cost."""
    current: float
    picked: list[list[Plan]]
    costs: list[dict[Plan, float]]
    """In the planner's unit."""
    correlations: dict[str, float]
    """Of each column with the order of the heap."""


class Picked(Finding, tag="planner", kw_only=True):
    """What the planner picks, and why."""

    details: PickedDetails


class HeldOut(msgspec.Struct):
    """What a value chosen on half of the points costs on the others, more than the best one there.

    Shares of the fastest plans' time; `spread` is half of the 95 % interval.
    """

    share: float
    spread: float


class RangeDetails(Details):
    """`regret_s` is one for each of `values`, the mean of the runs."""

    values: list[float]
    regret_s: list[float]
    fastest_s: float
    """Of the fastest plans, all points added up."""
    current: float
    best: float
    points: int
    held_out: HeldOut | None = None
    sql: str | None = None


class Range(Finding, tag="random_page_cost", kw_only=True):
    """The values that cost least; without details where no run of the sweep is whole."""

    details: RangeDetails | None = None


class CrossingDetails(Details):
    """Both curves: where plan `first` gives way to plan `then`."""

    first: Plan
    then: Plan
    circumstance: Circumstance
    selectivities: list[float]
    seconds: dict[Plan, list[float]]
    costs: dict[Plan, list[float]]
    """In the planner's unit, at its present settings."""
    believed: float | None = None
    """Where they cross by the planner's costs; a share of the rows, as the finding's value."""
    correlation: float | None = None
    """Of the column with the order of the heap."""
    between: dict[Plan, list[tuple[float, float] | None]] | None = None
    """The 95 % intervals of `seconds`, by the runs; None of a plan that was stopped, or of one run.
    In files of before there were any, None for all."""


class Crossing(Finding, tag="crossing", kw_only=True):
    """Up to which share of the rows one plan is faster than another."""

    details: CrossingDetails


PlannerFinding = Picked | Range | Crossing


class SweepOptions(TableOptions):
    """`points` are those of the sweep; none if the planner was not asked for."""

    points: list[Point] = []


class SweepResult(TableResult, kw_only=True):
    """A result that may have a sweep in it."""

    options: SweepOptions
    plans: list[PlanCell] = []
    """Those of the sweep."""
