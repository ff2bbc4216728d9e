"""How a result of the read-ahead experiment is told."""

from collections.abc import Iterator

from ..core.finding_text import UNDECIDED, label_of, verdict_of
from ..core.presentation import Presentation
from . import report
from .findings import found_in
from .result import KneeFinding, Limit, ReadaheadResult, TurnFinding


def _answer(result: ReadaheadResult) -> Iterator[str]:
    helps = "more read-ahead stops to help"
    for f in found_in(result):
        storage, words = label_of(result, f.storage), verdict_of(f)
        if isinstance(f, KneeFinding):
            told = f"where {helps} is" if words.startswith(UNDECIDED) else helps
            yield f"{storage}: {told} {words}."
        if isinstance(f, TurnFinding):
            yield f"{storage}: read-ahead at which a scan takes longer again: {words}."
        if isinstance(f, Limit):
            yield f"{storage}: {words}."


PRESENTATION = Presentation(
    title="Read-ahead",
    answer=_answer,
    sections=report.sections,
    method=report.runs,
)
