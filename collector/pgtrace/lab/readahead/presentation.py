"""How a result of the read-ahead experiment is told."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from ...model.lab_result import Result
from ..core.finding_text import UNDECIDED, findings_of, label_of, verdict_of
from ..core.presentation import Chapter, Presentation
from . import findings as readahead_findings
from . import report

if TYPE_CHECKING:
    from ...reporters.html.charts import Charts


def _answer(result: Result) -> Iterator[str]:
    helps = "more read-ahead stops to help"
    for f in findings_of(result, report.NAMES, readahead_findings.findings):
        storage, words = label_of(result, f.storage), verdict_of(f)
        if f.name == readahead_findings.KNEE:
            told = f"where {helps} is" if words.startswith(UNDECIDED) else helps
            yield f"{storage}: {told} {words}."
        if f.name == readahead_findings.TURN:
            yield f"{storage}: read-ahead at which a scan takes longer again: {words}."
        if f.name == readahead_findings.LIMIT:
            yield f"{storage}: {words}."


def _chapters(result: Result, charts: "Charts") -> list[Chapter]:
    from . import page

    return page.chapters(result, charts)


PRESENTATION = Presentation(
    title="Read-ahead",
    answer=_answer,
    sections=report.sections,
    chapters=_chapters,
    method=report.runs,
    told=report.NAMES,
)
