"""How a result of the buffers experiment is told."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from ...model.lab_result import Result
from ..core.finding_text import UNDECIDED, capital, findings_of, named, verdict_of
from ..core.presentation import Chapter, Presentation
from . import findings as buffers_findings
from . import report

if TYPE_CHECKING:
    from ...reporters.html.charts import Charts


def _answer(result: Result) -> Iterator[str]:
    found = findings_of(result, report.NAMES, buffers_findings.findings)
    for name, what in ((buffers_findings.SIZE, "sizes"), (buffers_findings.STATE, "states")):
        every = named(found, name)
        decided = [f for f in every if not verdict_of(f).startswith(UNDECIDED)]
        for f in decided:
            size = f.details.get("shared_buffers")
            of = f"shared_buffers {size}: " if name == buffers_findings.STATE else ""
            yield f"{of}{report.told(f)}"
        if left := len(every) - len(decided):
            yield f"{left} of {len(every)} comparisons of {what} do not decide: more runs would."
    yield from (f"{capital(verdict_of(f))}." for f in named(found, buffers_findings.BLOCKS))


def _chapters(result: Result, charts: "Charts") -> list[Chapter]:
    from . import page

    return page.chapters(result, charts)


PRESENTATION = Presentation(
    title="shared_buffers",
    answer=_answer,
    sections=report.sections,
    chapters=_chapters,
    method=report.runs,
    told=report.NAMES,
)
