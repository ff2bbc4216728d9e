"""How a result of the buffers experiment is told."""

from collections.abc import Iterator
from math import ceil

from ..core.finding_text import UNDECIDED, capital, of_kind, verdict_of
from ..core.presentation import Presentation
from . import report
from .findings import found_in
from .result import Blocks, BuffersResult, SizeRatio, StateRatio

_SAME = "no difference"
"""So begins what a comparison says that shows none."""


def _answer(result: BuffersResult) -> Iterator[str]:
    """Differences first; then how many comparisons show none, and how many do not decide."""
    found = found_in(result)
    sizes, states = of_kind(found, SizeRatio), of_kind(found, StateRatio)
    ratios: list[SizeRatio | StateRatio] = [*sizes, *states]
    for f in (f for f in ratios if not verdict_of(f).startswith((_SAME, UNDECIDED))):
        size = f"shared_buffers {f.details.shared_buffers}: " if isinstance(f, StateRatio) else ""
        yield f"{size}{report.told(f)}"
    for every, what in ((sizes, "sizes"), (states, "states")):
        of = f"of {len(every)} comparisons of {what}"
        if same := [f for f in every if verdict_of(f).startswith(_SAME)]:
            most = max(max(f.high or 1, 1 / (f.low or 1)) for f in same)
            percent = max(1, ceil(100 * (most - 1) - 1e-9))
            yield f"{len(same)} {of} showed no difference larger than {percent} %."
        if left := sum(verdict_of(f).startswith(UNDECIDED) for f in every):
            yield f"{left} {of} do not decide: more runs would."
    yield from (f"{capital(verdict_of(f))}." for f in of_kind(found, Blocks))


PRESENTATION = Presentation(
    title="shared_buffers",
    answer=_answer,
    sections=report.sections,
    method=report.runs,
)
