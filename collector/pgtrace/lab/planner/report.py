"""The planner's sweep as a document: which random_page_cost costs least, and where plans cross."""

from collections.abc import Iterator, Sequence

from ...reporters.document import Block, Column, Paragraph, Section, Table, Value
from ..core.figures import label
from ..core.finding_text import capital, of_kind, verdict_of
from .charts import in_words, over_selectivity, over_values
from .result import Crossing, Range, RangeDetails, SweepResult

_SHOWN = (1.0, 1.1, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 256.0)
"""Values in the table; all are in the JSON."""
_HOW = (
    "Each query was run by a sequential, a bitmap and an index scan; what counts is elapsed time. "
    "The regret of a value is the time of the plans that the planner picks with it, less that of "
    "the fastest ones, as a share of these. seq_page_cost stays 1."
)


def sections(result: SweepResult) -> list[Section]:
    """Return the section; none if the planner was not swept."""
    blocks: list[Block] = []
    for storage in result.storages:
        own = [f for f in result.findings if f.storage == storage.name]
        current = None
        for found in of_kind(own, Range):
            blocks.append(Paragraph(f"{label(storage)}, random_page_cost: {verdict_of(found)}."))
            if found.details:
                blocks += _range(label(storage), found, found.details)
                current = found.details.current
        if crossings := of_kind(own, Crossing):
            blocks += over_selectivity(label(storage), crossings)
            blocks.append(_crossings(label(storage), crossings, current))
    if not blocks:
        return []
    lead = [Paragraph(_HOW)]
    if any(cell.stopped for cell in result.plans):
        lead.append(
            Paragraph("A plan that was stopped counts with the time that it takes at least.")
        )
    return [Section("planner", [*lead, *blocks], "What random_page_cost should be")]


def _range(name: str, finding: Range, details: RangeDetails) -> Iterator[Block]:
    if details.sql:
        yield Paragraph(details.sql)
    yield from over_values(name, finding, details)
    regrets = dict(zip(details.values, details.regret_s, strict=False))
    shown = [value for value in regrets if value in (*_SHOWN, details.current)]
    columns = [Column(f"{v:g}{'*' if v == details.current else ''}", "text") for v in shown]
    parts = [f"{100 * regrets[v] / (details.fastest_s or 1):.0f} %" for v in shown]
    caption = f"{name}: regret of values of random_page_cost"
    if shown:
        yield Table(caption, "value", columns, [("regret", parts)], named=True)
    runs = f"{finding.units or 0} {'run' if finding.units == 1 else 'runs'}"
    yield Paragraph(f"* the present value; {details.points} points, {runs}.")
    if out := details.held_out:
        yield Paragraph(
            f"Chosen on half of the points, a value makes the plans of the others "
            f"{100 * out.share:.0f} % (± {100 * out.spread:.0f} %) slower than the best one there."
        )


def _crossings(name: str, found: Sequence[Crossing], current: float | None) -> Table:
    rows: list[tuple[str, list[Value]]] = []
    told = ""
    for each in found:
        of = each.details
        if told != (told := in_words(of.circumstance, of.correlation)):
            rows.append((told, []))
        spread = "-"
        if each.low is not None and each.high is not None:
            spread = f"{100 * each.low:.2g} to {100 * each.high:.2g} %"
        elif each.value is not None and (each.units or 0) > 1:
            spread = "not in every run"
        ends = [_share(each.value), spread, _share(of.believed)]
        rows.append((f"  {of.first} and {of.then}", [*ends, f"{capital(each.verdict)}."]))
    believed = f"planner at {current:g}" if current else "planner"
    columns = [Column(title, "text") for title in ("measured", "95 % interval", believed)]
    columns.append(Column("what it says", "words", detail=True))
    caption = f"{name}: up to which share of the rows the first plan is faster"
    return Table(caption, "plans", columns, rows, named=True)


def _share(value: float | None) -> str:
    return "-" if value is None else f"{100 * value:.2g} %"
