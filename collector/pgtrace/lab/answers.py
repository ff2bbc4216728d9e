"""What an experiment found, and what was lost: the sentences with which its report begins."""

from collections.abc import Mapping, Sequence

from .. import units
from ..model.capture import Lost
from ..model.lab_result import Result
from ..reporters import losses
from .experiments import presentation

_LOST = {
    "read": "reads",
    "write": "writes",
    "fsync": "fsyncs",
    "queries": "queries",
    "backends": "whole backends",
    "times": "pieces of processes' time",
}
_IN_PART = {
    "statements": "calls without their statement",
    "unplaced": "reads, writes and fsyncs without their file",
    "latencies": "calls in no histogram",
}


def answer(result: Result) -> list[str]:
    """Return what was found, the most important first; nothing where no run was finished."""
    if not result.cells:
        return []
    return list(presentation(result.experiment).answer(result))


def lost(result: Result) -> Sequence[str]:
    """What was lost, if anything was: of an experiment, which has none of the options that help."""
    of = result.lost
    return [
        *_listed("Lost, and in no number here", _LOST, of),
        *_listed("Told in part", _IN_PART, of),
        *losses.under_way(of),
        *([losses.missed(of.missed, "here")] if of.missed else []),
    ]


def _listed(begin: str, names: Mapping[str, str], of: Lost) -> list[str]:
    numbers = {name: getattr(of, name) for name in names}
    parts = [f"{units.count(n)} {names[name]}" for name, n in numbers.items() if n]
    return [f"{begin}: {', '.join(parts)}."] if parts else []
