"""What an experiment found, in the sentences with which its report begins."""

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from .. import units
from ..model.lab_result import Finding, Result
from .buffers import findings as buffers_findings
from .buffers import report as buffers_report
from .core.finding_text import capital, label_of
from .pages import findings as pages_findings
from .planner import findings as planner_findings
from .readahead import findings as readahead_findings
from .sync import findings as sync_findings
from .sync import report as sync_report

_MOST_PAIRS = 3
_UNDECIDED = "not decided"
_STOPS = "more read-ahead stops to help"


def answer(result: Result) -> list[str]:
    """Return them, the most important first; none where no run was finished."""
    if not result.cells:
        return []
    of = _OF[result.experiment]
    return list(of.answer(result, result.findings or of.findings(result)))


def _named(found: Sequence[Finding], name: str, **details: str) -> list[Finding]:
    every = [f for f in found if f.name == name]
    return [f for f in every if all(f.details.get(key) == of for key, of in details.items())]


def _said(f: Finding) -> str:
    return f.verdict.removeprefix("simulated: ")


def _pages(result: Result, found: Sequence[Finding]) -> Iterator[str]:
    for f in _named(found, planner_findings.RANGE):
        yield f"{label_of(result, f.storage)}: random_page_cost should be {_said(f)}."
    for f in _named(found, pages_findings.RATIO, by="read latency"):
        blocks = _named(found, pages_findings.BLOCK, by="read latency")
        own = {b.details.get("pattern"): b.value for b in blocks if b.storage == f.storage}
        took = [own.get("random"), own.get("sequential")]
        means = [units.duration(ns) for ns in took if ns is not None]
        words = _said(f)
        if words.startswith(_UNDECIDED):
            words = f"whether random blocks take longer than sequential ones is {words}"
        elif not words.startswith("a random block"):
            words = f"random and sequential blocks: {words}"
        told = f" ({' and '.join(means)} per 8 KiB)" if len(means) == len(took) else ""
        yield f"{label_of(result, f.storage)}: {words}{told}."
    between = _named(found, pages_findings.BETWEEN, pattern="random", by="mean per 8 KiB")
    for f in between[:_MOST_PAIRS]:
        one, other = (label_of(result, name) for name in (f.storage, str(f.details.get("against"))))
        if _said(f).startswith(f"{one} is slower"):
            yield f"Random blocks: {_said(f)} as {other}."
        else:
            yield f"Random blocks, {one} and {other}: {_said(f)}."


def _readahead(result: Result, found: Sequence[Finding]) -> Iterator[str]:
    for f in found:
        storage, words = label_of(result, f.storage), _said(f)
        if f.name == readahead_findings.KNEE:
            undecided = words.startswith(_UNDECIDED)
            told = "where more read-ahead stops to help is" if undecided else _STOPS
            yield f"{storage}: {told} {words}."
        if f.name == readahead_findings.TURN:
            yield f"{storage}: read-ahead at which a scan takes longer again: {words}."
        if f.name == readahead_findings.LIMIT:
            yield f"{storage}: {words}."


def _buffers(result: Result, found: Sequence[Finding]) -> Iterator[str]:
    for name, what in ((buffers_findings.SIZE, "sizes"), (buffers_findings.STATE, "states")):
        every = _named(found, name)
        decided = [f for f in every if not _said(f).startswith(_UNDECIDED)]
        for f in decided:
            size = f.details.get("shared_buffers")
            of = f"shared_buffers {size}: " if name == buffers_findings.STATE else ""
            yield f"{of}{buffers_report.told(f)}"
        if left := len(every) - len(decided):
            yield f"{left} of {len(every)} comparisons of {what} do not decide: more runs would."
    yield from (f"{capital(_said(f))}." for f in _named(found, buffers_findings.BLOCKS))


def _sync(result: Result, found: Sequence[Finding]) -> Iterator[str]:
    if len(sync_findings.names(result)) != 2:
        return
    one, other = sync_findings.names(result)
    verdicts = sync_report.verdicts_of(result)
    for load in sync_report.loads(result):
        for phase, by, what in (
            ("load", "elapsed", "the load"),
            ("checkpoint", "CHECKPOINT", "CHECKPOINT"),
        ):
            f = verdicts.get((load, phase, by))
            if f is not None and f.value is not None:
                yield f"{capital(load)}: {_compared(f, what, one, other)}."


def _compared(f: Finding, what: str, one: str, other: str) -> str:
    words = _said(f)
    if words.startswith(_UNDECIDED):
        return f"whether {what} takes longer with {one} or with {other} is {words}"
    if not sync_findings.is_difference(f) or f.low is None or f.high is None:
        return f"{what}, {one} and {other}: {words}"
    ends = sorted(100 * abs(1 - end) for end in (f.low, f.high))
    more = "less" if f.high < 1 else "more"
    return f"{what} takes {ends[0]:.0f} to {ends[1]:.0f} % {more} time with {other} than with {one}"


class _Experiment(NamedTuple):
    answer: Callable[[Result, Sequence[Finding]], Iterator[str]]
    findings: Callable[[Result], list[Finding]]
    """Of a result that has none, as one that was cut short."""


_OF = {
    "pages": _Experiment(_pages, pages_findings.findings),
    "readahead": _Experiment(_readahead, readahead_findings.findings),
    "buffers": _Experiment(_buffers, buffers_findings.findings),
    "sync": _Experiment(_sync, sync_findings.findings),
}


def lost(result: Result) -> Sequence[str]:
    """What was lost, if anything was."""
    of = result.lost
    kinds = (
        (of.read, "reads"), (of.queries, "queries"), (of.backends, "whole backends"),
        (sum(of.in_flight.values()), "reads under way when tracing stopped"),
    )  # fmt: skip
    parts = [f"{units.count(n)} {name}" for n, name in kinds if n]
    return [f"Lost, and in no number here: {', '.join(parts)}."] if parts else []
