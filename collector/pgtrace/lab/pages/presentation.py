"""How a result of the pages experiment is told."""

from collections.abc import Iterator

from ... import units
from ...reporters.document import Section
from ..core.finding_text import UNDECIDED, label_of, of_kind, verdict_of
from ..core.presentation import Presentation
from ..planner import report as planner_report
from ..planner.result import Range
from . import report
from .findings import found_in
from .result import Between, Block, PagesResult, Ratio

_MOST_PAIRS = 3


def _answer(result: PagesResult) -> Iterator[str]:
    found = found_in(result)
    for best in of_kind(result.findings, Range):
        of = label_of(result, best.storage)
        yield f"{of}: random_page_cost should be {verdict_of(best)}."
    blocks = [b for b in of_kind(found, Block) if b.details.by == "read latency"]
    for f in (f for f in of_kind(found, Ratio) if f.details.by == "read latency"):
        own = {b.details.pattern: b.value for b in blocks if b.storage == f.storage}
        took = [own.get("random"), own.get("sequential")]
        means = [units.duration(ns) for ns in took if ns is not None]
        words = verdict_of(f)
        if words.startswith(UNDECIDED):
            words = f"whether random blocks take longer than sequential ones is {words}"
        elif not words.startswith("a random block"):
            words = f"random and sequential blocks: {words}"
        told = f" ({' and '.join(means)} per 8 KiB)" if len(means) == len(took) else ""
        yield f"{label_of(result, f.storage)}: {words}{told}."
    means_of_random = ("random", "mean per 8 KiB")
    between = [
        b for b in of_kind(found, Between) if (b.details.pattern, b.details.by) == means_of_random
    ]
    for b in between[:_MOST_PAIRS]:
        one, other = (label_of(result, name) for name in (b.storage, b.details.against))
        if verdict_of(b).startswith(f"{one} is slower"):
            yield f"Random blocks: {verdict_of(b)} as {other}."
        else:
            yield f"Random blocks, {one} and {other}: {verdict_of(b)}."


def _sections(result: PagesResult) -> list[Section]:
    return report.sections(result) + planner_report.sections(result)


PRESENTATION = Presentation(
    title="Pages, sequential against random",
    answer=_answer,
    sections=_sections,
    method=report.runs,
)
