"""How a result of the sync experiment is told."""

from collections.abc import Iterator, Sequence

from ...model.lab_result import Finding, Result
from ...reporters.html.charts import Charts
from ...reporters.terminal.sentence import sentence
from ..core.finding_text import capital
from ..core.presentation import UNDECIDED, Chapter, Presentation, said
from . import findings as sync_findings
from . import page, report


def _answer(result: Result, _: Sequence[Finding]) -> Iterator[str]:
    if len(sync_findings.names(result)) != 2:
        return
    one, other = sync_findings.names(result)
    verdicts = report.verdicts_of(result)
    for load in report.loads(result):
        for phase, by, what in (
            ("load", "elapsed", "the load"),
            ("checkpoint", "CHECKPOINT", "CHECKPOINT"),
        ):
            f = verdicts.get((load, phase, by))
            if f is not None and f.value is not None:
                yield f"{capital(load)}: {_compared(f, what, one, other)}."


def _compared(f: Finding, what: str, one: str, other: str) -> str:
    words = said(f)
    if words.startswith(UNDECIDED):
        return f"whether {what} takes longer with {one} or with {other} is {words}"
    if not sync_findings.is_difference(f) or f.low is None or f.high is None:
        return f"{what}, {one} and {other}: {words}"
    ends = sorted(100 * abs(1 - end) for end in (f.low, f.high))
    more = "less" if f.high < 1 else "more"
    return f"{what} takes {ends[0]:.0f} to {ends[1]:.0f} % {more} time with {other} than with {one}"


def _chapters(result: Result, _: Charts) -> list[Chapter]:
    return page.chapters(result)


def _method(result: Result, width: int) -> list[str]:
    return [line for words in report.runs(result) for line in sentence(words, width)]


PRESENTATION = Presentation(
    title="fsync and checkpoints",
    answer=_answer,
    sections=report.sections,
    chapters=_chapters,
    method=_method,
    findings=sync_findings.findings,
    told=report.NAMES,
)
