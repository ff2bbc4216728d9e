"""The chart over read-ahead: throughput of the scan, and the time of random reads."""

from collections.abc import Sequence

from ... import units
from ...model.lab_result import Finding
from ...reporters.document import Column, Line, Lines, Panel, Table, Value
from ..core.finding_text import of_kind
from .figures import Step
from .findings import throughput
from .result import KneeFinding

_X = "read-ahead, sectors"


def over_read_ahead(
    name: str, scans: Sequence[Step], by_index: Sequence[Step], found: Sequence[Finding]
) -> Lines | None:
    """Its axis has no place for no read-ahead at all; None of a single step."""
    drawn = [step for step in scans if step.sectors and throughput(step)]
    if len(drawn) < 2:
        return None
    knee = next(iter(of_kind(found, KneeFinding)), None)
    named, band = _knee(knee, drawn)
    marks = [(knee.value, named)] if knee and knee.value else []
    points = [(float(s.sectors), _megabytes(s)) for s in drawn]
    rates = Line("scan", "s0", points, [_rate_between(s) for s in drawn])
    panels = [Panel("MB/s of the scan", "number", [rates], marks, band)]
    by_sectors = {step.sectors: step for step in by_index}
    others = [by_sectors[s.sectors] for s in drawn if s.sectors in by_sectors]
    if len(others) == len(drawn):
        times = [(float(s.sectors), s.time.value * 1e9) for s in others]
        line = Line("index scan", "s1", times, [time_between(s) for s in others])
        panels.append(Panel("time of the index scan", "time", [line]))
    title = f"{name}: over read-ahead"
    if any(rates.intervals):
        title += ", with 95 % intervals"
    if band:
        title += "; where the knee certainly lies is shaded"
    columns = [Column("MB/s of the scan", "number"), Column("its time", "text")]
    columns.append(Column("index scan", "text"))
    rows: list[tuple[str, list[Value]]] = []
    for step in drawn:
        other = by_sectors.get(step.sectors)
        shown = [_with_interval(step), _with_interval(other) if other else "-"]
        rows.append((f"{step.sectors:,}", [_megabytes(step), *shown]))
    table = Table("At each read-ahead", _X, columns, rows, named=True)
    return Lines(title, panels, _X, "number", table)


def _knee(
    knee: KneeFinding | None, drawn: Sequence[Step]
) -> tuple[str, tuple[float, float] | None]:
    """Its name, and what is shaded; nothing is where it may be nearly anywhere."""
    if knee is None or knee.low is None or knee.high is None:
        return "knee by the means", None
    within = sum(knee.low <= step.sectors <= knee.high for step in drawn)
    if 2 * within > len(drawn):
        return "knee by the means, not decided", None
    return "knee" if knee.low == knee.high else "knee by the means", (knee.low, knee.high)


def time_between(step: Step) -> tuple[float, float] | None:
    """Nanoseconds."""
    low, high = step.time.low, step.time.high
    return None if low is None or high is None else (low * 1e9, high * 1e9)


def _megabytes(step: Step) -> float:
    """Per second; 0 if that is not known."""
    return (throughput(step) or 0) / 1e6


def _rate_between(step: Step) -> tuple[float, float] | None:
    """As _megabytes()."""
    low, high = step.time.low, step.time.high
    if not low or not high:
        return None
    amount = _megabytes(step) * step.time.value
    return amount / high, amount / low


def _with_interval(step: Step) -> str:
    between = time_between(step)
    ends = f" ({' to '.join(map(units.duration, between))})" if between else ""
    return f"{units.duration(step.time.value * 1e9)}{ends}"
