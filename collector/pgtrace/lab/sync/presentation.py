"""How a result of the sync experiment is told."""

from collections.abc import Iterator

from ..core.finding_text import UNDECIDED, capital, verdict_of
from ..core.presentation import Presentation
from . import findings as sync_findings
from . import report
from .result import Difference, Phase, SyncResult

_ANSWERED: tuple[tuple[Phase, str, str], ...] = (
    ("load", "elapsed", "the load"),
    ("checkpoint", "CHECKPOINT", "CHECKPOINT"),
)
"""Of each load: phase, measure, and what that is called."""


def _answer(result: SyncResult) -> Iterator[str]:
    if len(sync_findings.names(result)) != 2:
        return
    one, other = sync_findings.names(result)
    verdicts = report.verdicts_of(result)
    for load in report.loads(result):
        for phase, by, what in _ANSWERED:
            f = verdicts.get((load, phase, by))
            if f is not None and f.value is not None:
                yield f"{capital(load)}: {_compared(f, what, one, other)}."


def _compared(f: Difference, what: str, one: str, other: str) -> str:
    words = verdict_of(f)
    if words.startswith(UNDECIDED):
        return f"whether {what} takes longer with {one} or with {other} is {words}"
    if not sync_findings.is_difference(f) or f.low is None or f.high is None:
        return f"{what}, {one} and {other}: {words}"
    ends = sorted(100 * abs(1 - end) for end in (f.low, f.high))
    more = "less" if f.high < 1 else "more"
    return f"{what} takes {ends[0]:.0f} to {ends[1]:.0f} % {more} time with {other} than with {one}"


PRESENTATION = Presentation(
    title="fsync and checkpoints",
    answer=_answer,
    sections=report.sections,
    method=report.runs,
)
