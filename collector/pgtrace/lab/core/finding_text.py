"""Which findings a result has, and what is said of one in words, whichever experiment it is of."""

from collections.abc import Callable, Collection, Sequence

from ... import units
from ...model.lab_result import Finding, Result
from .figures import label

UNDECIDED = "not decided"
"""So begins what a finding says that is none."""


def findings_of(
    result: Result, names: Collection[str], compute: Callable[[Result], list[Finding]]
) -> list[Finding]:
    """Those of these names; computed where there are none, as of a result that was cut short."""
    return [f for f in result.findings if f.name in names] or compute(result)


def named(found: Sequence[Finding], name: str, **details: str) -> list[Finding]:
    """Those of a name whose details are these."""
    every = [f for f in found if f.name == name]
    return [f for f in every if all(f.details.get(key) == of for key, of in details.items())]


def verdict_of(f: Finding) -> str:
    """What it says, where it is said already that what it is of is simulated."""
    return f.verdict.removeprefix("simulated: ")


def interval(f: Finding, *, times: bool = False) -> str:
    """Return its interval, as durations or as plain numbers."""
    if f.low is None or f.high is None:
        return "one run: none"
    shown = units.duration if times else units.number
    return f"{shown(f.low)} to {shown(f.high)}"


def label_of(result: Result, name: str | None) -> str:
    """A storage's label, by its name."""
    return next((label(s) for s in result.storages if s.name == name), str(name))


def capital(text: str) -> str:
    """The text as a sentence begins."""
    return text[:1].upper() + text[1:]
