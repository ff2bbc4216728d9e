"""The read-ahead experiment as chapters of a page: over read-ahead, and each step's reads."""

from collections.abc import Sequence

from ... import units
from ...model.lab_result import Finding, Storage
from ...reporters.html.charts import Charts, Group, Layer, Line, Panel
from ...reporters.html.parts import Row, paragraphs, part, table
from ...reporters.html.reads import NAMES as SOURCES
from ..core.figures import label
from ..core.finding_text import capital, of_kind, verdict_of
from .figures import Step, steps
from .findings import found_in, throughput
from .knee import knee_of
from .report import SAID
from .result import HumpFinding, KneeFinding, ReadaheadResult

_X = "read-ahead, sectors"


def chapters(result: ReadaheadResult, charts: Charts) -> list[tuple[str, str, str]]:
    """Return (anchor, title, content), one chapter for each storage that has runs."""
    found = found_in(result)
    made = []
    for number, storage in enumerate(result.storages):
        own = [f for f in found if f.storage == storage.name]
        content = _storage(result, storage, own, charts)
        made.append((f"readahead-{number}", label(storage), content))
    return [chapter for chapter in made if chapter[2]]


def _storage(
    result: ReadaheadResult, storage: Storage, found: Sequence[Finding], charts: Charts
) -> str:
    scans = steps(result, storage.name, "sequential")
    by_index = {s.sectors: s for s in steps(result, storage.name, "random")}
    if not scans:
        return ""
    said = [f"{SAID[type(f)]}: {verdict_of(f)}." for f in found if type(f) in SAID]
    parts = [paragraphs(said), _over_read_ahead(storage, scans, by_index, found, charts)]
    for step in scans:
        about = [
            f"{capital(verdict_of(f))}."
            for f in of_kind(found, HumpFinding)
            if f.details.sectors == step.sectors
        ]
        layers = [
            Layer((SOURCES[source],), source, of.latencies)
            for source, of in step.by_source.items()
            if of.reads
        ]
        title = f"{label(storage)}, {step.sectors:,} sectors: latencies of the scan's reads"
        drawn = charts.latencies(title, [Group("", layers)], opened=False) if layers else ""
        parts.append(part(f"{step.sectors:,} sectors", paragraphs(about) + drawn, opened=True))
    return "\n".join(parts)


def _over_read_ahead(
    storage: Storage,
    scans: Sequence[Step],
    by_index: dict[int, Step],
    found: Sequence[Finding],
    charts: Charts,
) -> str:
    """Throughput and the index scan's time. Its axis has no place for no read-ahead at all."""
    drawn = [step for step in scans if step.sectors and throughput(step)]
    columns = ["MB/s of the scan", "its time", "by the best", "CPU", "waited", "requests",
               "index scan"]  # fmt: skip
    none = [step for step in scans if not step.sectors]
    without = table("Without read-ahead", _X, [("", columns)],
                    [_row(s, scans, by_index) for s in none]) if none else ""  # fmt: skip
    if len(drawn) < 2:
        return without
    content = table("At each read-ahead", _X, [("", columns)],
                    [_row(s, scans, by_index) for s in drawn])  # fmt: skip
    knee = next(iter(of_kind(found, KneeFinding)), None)
    name, band = _knee(knee, drawn)
    marks = [(knee.value, name)] if knee and knee.value else []
    rates = Line(
        "scan",
        "s0",
        [(float(s.sectors), _megabytes(s)) for s in drawn],
        [_rate_between(s) for s in drawn],
    )
    panels = [Panel("MB/s of the scan", "number", [rates], marks, band)]
    others = [by_index[s.sectors] for s in drawn if s.sectors in by_index]
    if len(others) == len(drawn):
        times = [(float(s.sectors), s.time.value * 1e9) for s in others]
        line = Line("index scan", "s1", times, [_time_between(s) for s in others])
        panels.append(Panel("time of the index scan", "time", [line]))
    title = f"{label(storage)}: over read-ahead"
    if any(rates.intervals):
        title += ", with 95 % intervals"
    if band:
        title += "; where the knee certainly lies is shaded"
    chart = charts.lines(
        title, panels, x=_X, unit="number", columns=columns, content=content
    )  # fmt: skip
    return f"{without}\n{chart}"


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


def _time_between(step: Step) -> tuple[float, float] | None:
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
    between = _time_between(step)
    ends = f" ({' to '.join(map(units.duration, between))})" if between else ""
    return f"{units.duration(step.time.value * 1e9)}{ends}"


def _row(step: Step, scans: Sequence[Step], by_index: dict[int, Step]) -> Row:
    knee, rate, other = knee_of(scans), throughput(step), by_index.get(step.sectors)
    ratio = knee.by_best.get(step.sectors) if knee else None
    return Row(
        f"{step.sectors:,}",
        [
            units.number(rate / 1e6) if rate else "-",
            _with_interval(step),
            units.number(ratio.value) if ratio else "-",
            "-" if step.cpu is None else units.share(min(1.0, step.cpu)),
            "-" if step.waited is None else units.share(min(1.0, step.waited)),
            "-" if step.requests is None else f"{step.requests:,.0f}",
            _with_interval(other) if other else "-",
        ],
    )
