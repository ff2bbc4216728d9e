"""How a result of the read-ahead experiment is told."""

from collections.abc import Iterator, Sequence

from ...model.lab_result import Finding, Result
from ..core.finding_text import label_of
from ..core.presentation import UNDECIDED, Presentation, said
from . import findings as readahead_findings
from . import page, report

_STOPS = "more read-ahead stops to help"


def _answer(result: Result, found: Sequence[Finding]) -> Iterator[str]:
    for f in found:
        storage, words = label_of(result, f.storage), said(f)
        if f.name == readahead_findings.KNEE:
            undecided = words.startswith(UNDECIDED)
            told = "where more read-ahead stops to help is" if undecided else _STOPS
            yield f"{storage}: {told} {words}."
        if f.name == readahead_findings.TURN:
            yield f"{storage}: read-ahead at which a scan takes longer again: {words}."
        if f.name == readahead_findings.LIMIT:
            yield f"{storage}: {words}."


PRESENTATION = Presentation(
    title="Read-ahead",
    answer=_answer,
    sections=report.sections,
    chapters=page.chapters,
    method=report.runs,
    findings=readahead_findings.findings,
    told=report.NAMES,
)
