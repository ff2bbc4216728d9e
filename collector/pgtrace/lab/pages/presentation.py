"""How a result of the pages experiment is told."""

from collections.abc import Iterator, Sequence

from ... import units
from ...model.lab_result import Finding, Result
from ...reporters.html.charts import Charts
from ..core.finding_text import label_of
from ..core.presentation import UNDECIDED, Chapter, Presentation, named, said
from ..planner import findings as planner_findings
from ..planner import page as planner_page
from ..planner import report as planner_report
from . import findings as pages_findings
from . import page, report

_MOST_PAIRS = 3


def _answer(result: Result, found: Sequence[Finding]) -> Iterator[str]:
    for f in named(found, planner_findings.RANGE):
        yield f"{label_of(result, f.storage)}: random_page_cost should be {said(f)}."
    for f in named(found, pages_findings.RATIO, by="read latency"):
        blocks = named(found, pages_findings.BLOCK, by="read latency")
        own = {b.details.get("pattern"): b.value for b in blocks if b.storage == f.storage}
        took = [own.get("random"), own.get("sequential")]
        means = [units.duration(ns) for ns in took if ns is not None]
        words = said(f)
        if words.startswith(UNDECIDED):
            words = f"whether random blocks take longer than sequential ones is {words}"
        elif not words.startswith("a random block"):
            words = f"random and sequential blocks: {words}"
        told = f" ({' and '.join(means)} per 8 KiB)" if len(means) == len(took) else ""
        yield f"{label_of(result, f.storage)}: {words}{told}."
    between = named(found, pages_findings.BETWEEN, pattern="random", by="mean per 8 KiB")
    for f in between[:_MOST_PAIRS]:
        one, other = (label_of(result, name) for name in (f.storage, str(f.details.get("against"))))
        if said(f).startswith(f"{one} is slower"):
            yield f"Random blocks: {said(f)} as {other}."
        else:
            yield f"Random blocks, {one} and {other}: {said(f)}."


def _sections(result: Result, width: int) -> list[str]:
    return report.sections(result, width) + planner_report.sections(result, width)


def _chapters(result: Result, charts: Charts) -> list[Chapter]:
    return page.chapters(result, charts) + planner_page.chapters(result, charts)


PRESENTATION = Presentation(
    title="Pages, sequential against random",
    answer=_answer,
    sections=_sections,
    chapters=_chapters,
    method=report.runs,
    findings=pages_findings.findings,
    told=report.NAMES | planner_findings.NAMES,
)
