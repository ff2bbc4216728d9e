"""The planner's sweep as text: which random_page_cost costs least, and where plans cross."""

from collections.abc import Sequence

from ...reporters.terminal.sentence import sentence
from ...terminal_text import escape
from ..core.figures import label
from ..core.finding_text import of_kind, verdict_of
from .result import Crossing, PlannerFinding, Range, RangeDetails, SweepResult

_SHOWN = (1.0, 1.1, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 256.0)
"""Values in the table; all are in the JSON."""
HOW = (
    "Each query was run by a sequential, a bitmap and an index scan; what counts is elapsed time. "
    "The regret of a value is the time of the plans that the planner picks with it, less that of "
    "the fastest ones, as a share of these. seq_page_cost stays 1."
)
_PLANS = 18


def sections(result: SweepResult, width: int) -> list[str]:
    """Return the section; no lines if the planner was not swept."""
    if not any(isinstance(f, PlannerFinding) for f in result.findings):
        return []
    lines = ["", "What random_page_cost should be", *sentence(HOW, width, 2)]
    for storage in result.storages:
        own = [f for f in result.findings if f.storage == storage.name]
        current = None
        for found in of_kind(own, Range):
            words = verdict_of(found)
            lines += ["", *sentence(f"{label(storage)}: {words}.", width, 2)]
            if found.details:
                lines += _range(found.details, found.units or 0, width)
                current = found.details.current
        crossings = of_kind(own, Crossing)
        if crossings:
            lines += ["", *_crossings(crossings, current)]
    return lines


def _range(details: RangeDetails, runs: int, width: int) -> list[str]:
    lines = [f"    {escape(details.sql)}"] if details.sql else []
    regrets = dict(zip(details.values, details.regret_s, strict=False))
    shown = [value for value in regrets if value in (*_SHOWN, details.current)]
    names = [f"{value:g}{'*' if value == details.current else ''}" for value in shown]
    parts = [f"{100 * regrets[v] / (details.fastest_s or 1):.0f} %" for v in shown]
    widths = [max(map(len, pair)) + 2 for pair in zip(names, parts, strict=True)]
    for title, row in (("value", names), ("regret", parts)):
        cells = "".join(f"{text:>{size}}" for text, size in zip(row, widths, strict=True))
        lines.append(f"    {title:<7}{cells}")
    made = f"{details.points} points, {runs} {'run' if runs == 1 else 'runs'}"
    lines.append(f"    * the present value; {made}")
    out = details.held_out
    if out:
        lines += sentence(
            f"Chosen on half of the points, a value makes the plans of the others "
            f"{100 * out.share:.0f} % (± {100 * out.spread:.0f} %) slower than the best one there.",
            width,
            4,
        )
    return lines


def _crossings(found: Sequence[Crossing], current: float | None) -> list[str]:
    believed = f"planner at {current:g}" if current else "planner"
    lines = [
        "    Up to which share of the rows the first plan is faster",
        f"    {'column':<10}{'cached':>7}{'prefetch':>9}{'clients':>8}  {'plans':<{_PLANS}}"
        f"{'measured':>9}{believed:>13}",
    ]
    for each in found:
        details = each.details
        unsure = each.value is not None and each.low is None and (each.units or 0) > 1
        about, plans = details.circumstance, f"{details.first}, {details.then}"
        lines.append(
            f"    {escape(about.column):<10}{100 * about.cached:>5.0f} %"
            f"{about.io_concurrency:>9}{about.clients:>8}  {plans:<{_PLANS}}"
            f"{_share(each.value) + '?' * unsure:>9}{_share(details.believed):>13}"
        )
    if any("%?" in line for line in lines):
        lines.append("    ? not in every run")
    return lines


def _share(value: float | None) -> str:
    return "-" if value is None else f"{100 * value:.2g} %"
