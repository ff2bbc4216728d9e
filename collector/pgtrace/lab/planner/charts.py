"""Charts of the planner's sweep: time of each plan over selectivity, what each value loses.

All of it comes out of findings' details. Lists that do not belong together, as a file may hold
them, are not drawn.
"""

from collections.abc import Iterator, Mapping, Sequence

from ... import units
from ...reporters.document import Column, Line, Lines, Panel, Table, Value
from .points import Circumstance
from .regret import Plan
from .result import Crossing, CrossingDetails, Range, RangeDetails

_Between = Mapping[Plan, Sequence[tuple[float, float] | None]]
_COLOURS: dict[Plan, str] = {"sequential": "s0", "bitmap": "s2", "index": "s1"}


def over_values(name: str, finding: Range, of: RangeDetails) -> Iterator[Lines]:
    """What each random_page_cost loses."""
    if not _is_whole(of):
        return
    shares = [100 * max(0.0, regret) / of.fastest_s for regret in of.regret_s]
    rows: list[tuple[str, list[Value]]] = [
        (f"{value:g}", [max(0.0, regret) * 1e9, f"{share:.1f} %"])
        for value, regret, share in zip(of.values, of.regret_s, shares, strict=True)
    ]
    longer = "longer than the fastest plans"
    columns = [Column(longer, "ns"), Column("share", "text")]
    panel = Panel(
        longer,
        "percent",
        [Line("regret", "s1", list(zip(of.values, shares, strict=True)))],
        marks=[(of.current, "now")],
        band=(finding.low, finding.high) if finding.low and finding.high else None,
    )
    title = f"{name}: time lost at each random_page_cost; the best range is shaded"
    table = Table("Time lost, of all points", "random_page_cost", columns, rows, named=True)
    yield Lines(title, [panel], "random_page_cost", "number", table)


def _is_whole(of: RangeDetails) -> bool:
    """Can it be drawn: a loss for each value, and values that a logarithmic axis has?"""
    return of.fastest_s > 0 and len(of.values) == len(of.regret_s) and min(of.values, default=0) > 0


def over_selectivity(name: str, found: Sequence[Crossing]) -> Iterator[Lines]:
    """One chart for each circumstance, measured above, as the planner believes below."""
    told: dict[Circumstance, list[Crossing]] = {}
    for finding in found:
        if _fits(finding.details):
            told.setdefault(finding.details.circumstance, []).append(finding)
    for circumstance, crossings in told.items():
        pairs = [each.details for each in crossings]
        of = pairs[0]
        title = f"{name}: plans over selectivity, {in_words(circumstance, of.correlation)}"
        if any(any(each.between.values()) for each in pairs if each.between):
            title += ", with 95 % intervals"
        seconds = {plan: s for each in pairs for plan, s in each.seconds.items()}
        costs = {plan: c for each in pairs for plan, c in each.costs.items()}
        at = [100 * selectivity for selectivity in of.selectivities]
        times = {plan: [1e9 * one for one in each] for plan, each in seconds.items()}
        between = {plan: b for each in pairs for plan, b in (each.between or {}).items()}
        crossed = [
            (f"{c.first} | {c.then}", f.value, c.believed)
            for f, c in zip(crossings, pairs, strict=True)
        ]
        measured = [(100 * value, which) for which, value, _ in crossed if value]
        believed = [(100 * value, which) for which, _, value in crossed if value]
        panels = [
            Panel("measured time", "time", _lines(at, times, between), measured),
            Panel("planner's cost", "number", _lines(at, costs), believed),
        ]
        names = [plan for plan in _COLOURS if plan in seconds]
        rows: list[tuple[str, list[Value]]] = [
            (
                f"{share:g} %",
                [_with_interval(seconds[plan][n], between, plan, n) for plan in names]
                + [costs[plan][n] for plan in names],
            )
            for n, share in enumerate(at)
        ]
        columns = [Column(plan, "text", "measured time") for plan in names]
        columns += [Column(plan, "number", "planner's cost") for plan in names]
        table = Table("Each plan, over selectivity", "of the rows", columns, rows, named=True)
        yield Lines(title, panels, "share of the rows that is read", "percent", table)


def _fits(of: CrossingDetails) -> bool:
    """Is there a positive number for each selectivity, of plans that are known?"""
    lists = [of.selectivities, *of.seconds.values(), *of.costs.values()]
    plans = {of.first, of.then}
    between = of.between or {}
    ends = [each for one in between.values() for each in one if each]
    return (
        bool(of.selectivities)
        and between.keys() in (plans, set())
        and all(len(one) == len(of.selectivities) for one in between.values())
        and all(0 < low <= high for low, high in ends)
        and all(len(one) == len(of.selectivities) and min(one) > 0 for one in lists)
        and plans == of.seconds.keys() == of.costs.keys()
        and plans <= _COLOURS.keys()
    )


def _lines(
    at: Sequence[float], by_plan: Mapping[Plan, Sequence[float]], between: _Between | None = None
) -> list[Line]:
    """`between`: the intervals, in seconds."""
    return [
        Line(
            plan,
            colour,
            list(zip(at, by_plan[plan], strict=True)),
            [ends and (1e9 * ends[0], 1e9 * ends[1]) for ends in (between or {}).get(plan, ())],
        )
        for plan, colour in _COLOURS.items()
        if plan in by_plan
    ]


def _with_interval(seconds: float, between: _Between, plan: Plan, number: int) -> str:
    ends = between[plan][number] if between.get(plan) else None
    spread = f" ({' to '.join(units.duration(1e9 * end) for end in ends)})" if ends else ""
    return f"{units.duration(1e9 * seconds)}{spread}"


def in_words(circumstance: Circumstance, correlation: float | None) -> str:
    """What was the same for all of a curve; the correlation is that of its column."""
    words = [f"column {circumstance.column}"]
    if correlation is not None:
        words[0] += f" (correlation {round(correlation, 2) + 0.0:g})"
    words.append(f"{100 * circumstance.cached:.0f} % cached")
    words.append(f"effective_io_concurrency {circumstance.io_concurrency}")
    words.append(f"{circumstance.clients} client{'s' if circumstance.clients != 1 else ''}")
    return ", ".join(words)
