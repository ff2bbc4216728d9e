"""What an experiment's folder tells of a result of its own: for reports, whichever their form."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from ...model.lab_result import Finding, Result
from ...reporters.html.charts import Charts

Chapter = tuple[str, str, str]
"""Anchor, title, content."""
UNDECIDED = "not decided"
"""So begins what a finding says that is none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Presentation:
    """Lines are those of a text of some width; a sentence is one of them, without a width."""

    title: str
    answer: Callable[[Result, Sequence[Finding]], Iterator[str]]
    """What was found, in sentences, the most important first."""
    sections: Callable[[Result, int], list[str]]
    """All that is said of it as text, but how it was made."""
    chapters: Callable[[Result, Charts], list[Chapter]]
    """The same for a page."""
    method: Callable[[Result, int], list[str]]
    """How it was made."""
    findings: Callable[[Result], list[Finding]]
    """Of a result that has none, as one that was cut short."""
    told: frozenset[str]
    """Names of findings that are in `sections` and `chapters`."""


def said(f: Finding) -> str:
    """What it says, where what it is of says already that this is simulated."""
    return f.verdict.removeprefix("simulated: ")


def named(found: Sequence[Finding], name: str, **details: str) -> list[Finding]:
    """Those of a name whose details are these."""
    every = [f for f in found if f.name == name]
    return [f for f in every if all(f.details.get(key) == of for key, of in details.items())]
