"""The planner's sweep as chapters of a page: where plans cross, and what a setting costs.

All of it comes out of findings' details, whose shape is that of lab/planner_findings.py. A file
may hold something else there: what does not fit is left out.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from .. import units
from ..lab.result import Finding, Result
from .html_charts import Charts, Line, Panel
from .html_parts import Row, paragraphs, table
from .lab_findings import capital, label_of

ASKED, RANGE, CROSSING = "planner", "random_page_cost", "crossing"
NAMES = frozenset({ASKED, RANGE, CROSSING})
_COLOURS = {"sequential": "s0", "bitmap": "s2", "index": "s1"}


class _Circumstance(msgspec.Struct, frozen=True):
    column: str = "scattered"
    cached: float = 0.0
    io_concurrency: int = 1
    clients: int = 1


class _Crossing(msgspec.Struct):
    """Two plans of one circumstance; seconds and costs by plan, one for each selectivity."""

    first: str
    then: str
    selectivities: list[float]
    seconds: dict[str, list[float]]
    costs: dict[str, list[float]]
    circumstance: _Circumstance = _Circumstance()
    believed: float | None = None
    correlation: float | None = None


class _Regret(msgspec.Struct):
    """How much longer all points take, in seconds, with the plans picked at each value."""

    values: list[float]
    regret_s: list[float]
    fastest_s: float
    current: float
    sql: str | None = None


def chapters(result: Result, charts: Charts) -> list[tuple[str, str, str]]:
    """Return (anchor, title, content): one chapter, or none."""
    parts = []
    for storage in result.storages:
        found = [f for f in result.findings if f.storage == storage.name]
        name = label_of(result, storage.name)
        parts += [_range(name, f, charts) for f in found if f.name == RANGE]
        parts += list(_crossings(name, [f for f in found if f.name == CROSSING], charts))
    return [("planner", "What follows for the planner", "\n".join(parts))] if parts else []


def _details(finding: Finding, kind: Any) -> Any:
    """None where the details are something else."""
    try:
        return msgspec.convert(finding.details, kind)
    except msgspec.ValidationError:
        return None


def _range(name: str, finding: Finding, charts: Charts) -> str:
    said = paragraphs([f"{name}, random_page_cost: {finding.verdict}."])
    of: _Regret | None = _details(finding, _Regret)
    if of is None or not of.fastest_s > 0 or len(of.values) != len(of.regret_s) or not of.values:
        return said
    if of.sql:
        said += paragraphs([of.sql])
    shares = [100 * max(0.0, regret) / of.fastest_s for regret in of.regret_s]
    rows = [
        Row(f"{value:g}", [units.duration(max(0.0, regret) * 1e9), f"{share:.1f} %"])
        for value, regret, share in zip(of.values, of.regret_s, shares, strict=True)
    ]
    panel = Panel(
        "longer than the fastest plans",
        "percent",
        [Line("regret", "s1", list(zip(of.values, shares, strict=True)))],
        marks=[(of.current, "now")],
        band=(finding.low, finding.high) if finding.low and finding.high else None,
    )
    columns = ["longer than the fastest plans", "share"]
    title = f"{name}: time lost at each random_page_cost; the best range is shaded"
    content = table("Time lost, of all points", "random_page_cost", [("", columns)], rows)
    return said + charts.lines(
        title, [panel], x="random_page_cost", unit="number", columns=columns, content=content
    )


def _crossings(name: str, found: Sequence[Finding], charts: Charts) -> Iterator[str]:
    """One chart for each circumstance, measured above, as the planner believes below."""
    told: dict[_Circumstance, list[tuple[Finding, _Crossing]]] = {}
    for finding in found:
        of: _Crossing | None = _details(finding, _Crossing)
        if of is not None and _fits(of):
            told.setdefault(of.circumstance, []).append((finding, of))
    for circumstance, pairs in told.items():
        of = pairs[0][1]
        title = f"{name}: plans over selectivity, {_words(circumstance, of.correlation)}"
        seconds = {plan: s for _, each in pairs for plan, s in each.seconds.items()}
        costs = {plan: c for _, each in pairs for plan, c in each.costs.items()}
        at = [100 * selectivity for selectivity in of.selectivities]
        times = {plan: [1e9 * one for one in each] for plan, each in seconds.items()}
        crossed = [(f"{c.first} | {c.then}", f.value, c.believed) for f, c in pairs]
        measured = [(100 * value, which) for which, value, _ in crossed if value]
        believed = [(100 * value, which) for which, _, value in crossed if value]
        panels = [
            Panel("measured time", "time", _lines(at, times), measured),
            Panel("planner's cost", "number", _lines(at, costs), believed),
        ]
        names = [plan for plan in _COLOURS if plan in seconds]
        rows = [
            Row(
                f"{share:g} %",
                [units.duration(1e9 * seconds[plan][n]) for plan in names]
                + [units.number(costs[plan][n]) for plan in names],
            )
            for n, share in enumerate(at)
        ]
        heads = [("measured time", names), ("planner's cost", names)]
        columns = [f"{head} {plan}" for head, plans in heads for plan in plans]
        content = table("Each plan, over selectivity", "of the rows", heads, rows)
        yield charts.lines(
            title, panels, x="share of the rows that is read", unit="percent", columns=columns,
            content=content,
        )  # fmt: skip
        yield _where([f for f, _ in pairs], [c for _, c in pairs])


def _fits(of: _Crossing) -> bool:
    """Is there a positive number for each selectivity, of plans that are known?"""
    lists = [of.selectivities, *of.seconds.values(), *of.costs.values()]
    plans = {of.first, of.then}
    return (
        bool(of.selectivities)
        and all(len(one) == len(of.selectivities) and min(one) > 0 for one in lists)
        and plans == of.seconds.keys() == of.costs.keys()
        and plans <= _COLOURS.keys()
    )


def _lines(at: Sequence[float], by_plan: Mapping[str, Sequence[float]]) -> list[Line]:
    return [
        Line(plan, colour, list(zip(at, by_plan[plan], strict=True)))
        for plan, colour in _COLOURS.items()
        if plan in by_plan
    ]


def _words(circumstance: _Circumstance, correlation: float | None) -> str:
    words = [f"column {circumstance.column}"]
    if correlation is not None:
        words[0] += f" (correlation {correlation:.2f})"
    words.append(f"{100 * circumstance.cached:.0f} % cached")
    words.append(f"effective_io_concurrency {circumstance.io_concurrency}")
    words.append(f"{circumstance.clients} client{'s' if circumstance.clients != 1 else ''}")
    return ", ".join(words)


def _where(found: Sequence[Finding], pairs: Sequence[_Crossing]) -> str:
    rows = []
    for finding, of in zip(found, pairs, strict=True):
        spread = "-"
        if finding.low is not None and finding.high is not None:
            spread = f"{100 * finding.low:.2g} to {100 * finding.high:.2g} %"
        measured, believed = (
            f"{100 * at:.2g} %" if at else "none" for at in (finding.value, of.believed)
        )
        words = f"{capital(finding.verdict)}."
        rows.append(Row(f"{of.first} and {of.then}", [measured, spread, believed, words]))
    columns = ["measured", "95 % interval", "by the planner", "what it says"]
    return table("Where plans cross", "", [("", columns)], rows, words=["what it says"])
