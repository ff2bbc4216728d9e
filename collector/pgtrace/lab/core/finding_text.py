"""What is said of a finding in words, whichever experiment it is of."""

from ... import units
from ...model.lab_result import Finding, Result
from .figures import label


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
