"""How a result of the pages experiment is told."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from ... import units
from ...model.lab_result import Result
from ..core.finding_text import UNDECIDED, findings_of, label_of, named, verdict_of
from ..core.presentation import Chapter, Presentation
from ..planner import findings as planner_findings
from ..planner import report as planner_report
from . import findings as pages_findings
from . import report

if TYPE_CHECKING:
    from ...reporters.html.charts import Charts

_MOST_PAIRS = 3


def _answer(result: Result) -> Iterator[str]:
    found = findings_of(result, report.NAMES, pages_findings.findings)
    for f in named(result.findings, planner_findings.RANGE):
        yield f"{label_of(result, f.storage)}: random_page_cost should be {verdict_of(f)}."
    blocks = named(found, pages_findings.BLOCK, by="read latency")
    for f in named(found, pages_findings.RATIO, by="read latency"):
        own = {b.details.get("pattern"): b.value for b in blocks if b.storage == f.storage}
        took = [own.get("random"), own.get("sequential")]
        means = [units.duration(ns) for ns in took if ns is not None]
        words = verdict_of(f)
        if words.startswith(UNDECIDED):
            words = f"whether random blocks take longer than sequential ones is {words}"
        elif not words.startswith("a random block"):
            words = f"random and sequential blocks: {words}"
        told = f" ({' and '.join(means)} per 8 KiB)" if len(means) == len(took) else ""
        yield f"{label_of(result, f.storage)}: {words}{told}."
    between = named(found, pages_findings.BETWEEN, pattern="random", by="mean per 8 KiB")
    for f in between[:_MOST_PAIRS]:
        one, other = (label_of(result, name) for name in (f.storage, str(f.details.get("against"))))
        if verdict_of(f).startswith(f"{one} is slower"):
            yield f"Random blocks: {verdict_of(f)} as {other}."
        else:
            yield f"Random blocks, {one} and {other}: {verdict_of(f)}."


def _sections(result: Result, width: int) -> list[str]:
    return report.sections(result, width) + planner_report.sections(result, width)


def _chapters(result: Result, charts: "Charts") -> list[Chapter]:
    from ..planner import page as planner_page
    from . import page

    return page.chapters(result, charts) + planner_page.chapters(result, charts)


PRESENTATION = Presentation(
    title="Pages, sequential against random",
    answer=_answer,
    sections=_sections,
    chapters=_chapters,
    method=report.runs,
    told=report.NAMES | planner_findings.NAMES,
)
