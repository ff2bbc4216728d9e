"""How a result of the buffers experiment is told."""

from collections.abc import Iterator, Sequence

from ...model.lab_result import Finding, Result
from ..core.finding_text import capital
from ..core.presentation import UNDECIDED, Presentation, named, said
from . import findings as buffers_findings
from . import page, report


def _answer(result: Result, found: Sequence[Finding]) -> Iterator[str]:
    for name, what in ((buffers_findings.SIZE, "sizes"), (buffers_findings.STATE, "states")):
        every = named(found, name)
        decided = [f for f in every if not said(f).startswith(UNDECIDED)]
        for f in decided:
            size = f.details.get("shared_buffers")
            of = f"shared_buffers {size}: " if name == buffers_findings.STATE else ""
            yield f"{of}{report.told(f)}"
        if left := len(every) - len(decided):
            yield f"{left} of {len(every)} comparisons of {what} do not decide: more runs would."
    yield from (f"{capital(said(f))}." for f in named(found, buffers_findings.BLOCKS))


PRESENTATION = Presentation(
    title="shared_buffers",
    answer=_answer,
    sections=report.sections,
    chapters=page.chapters,
    method=report.runs,
    findings=buffers_findings.findings,
    told=report.NAMES,
)
