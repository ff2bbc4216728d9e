"""Findings by their kind, and what is said of one in words, whichever experiment it is of."""

from collections.abc import Iterable
from typing import TypeVar

from ... import units
from ...model.lab_result import Finding, Result
from ...stats.paired import Estimate
from .figures import label

F = TypeVar("F", bound=Finding)
UNDECIDED = "not decided"
"""So begins what a finding says that is none."""


def of_kind(found: Iterable[Finding], kind: type[F]) -> list[F]:
    """Those of a kind."""
    return [f for f in found if isinstance(f, kind)]


def verdict_of(f: Finding) -> str:
    """What it says, where it is said already that what it is of is simulated."""
    return f.verdict.removeprefix("simulated: ")


def numbers(found: Estimate) -> tuple[float, float | None, float | None, int]:
    """As a finding has them: value, interval, and how many runs stand behind it."""
    return found.value, found.low, found.high, found.runs


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
