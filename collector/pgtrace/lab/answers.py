"""What an experiment found, and what was lost: the sentences with which its report begins."""

from collections.abc import Sequence

from .. import units
from ..model.lab_result import Result
from .experiments import presentation


def answer(result: Result) -> list[str]:
    """Return what was found, the most important first; nothing where no run was finished."""
    if not result.cells:
        return []
    return list(presentation(result.experiment).answer(result))


def lost(result: Result) -> Sequence[str]:
    """What was lost, if anything was."""
    of = result.lost
    kinds = (
        (of.read, "reads"), (of.queries, "queries"), (of.backends, "whole backends"),
        (sum(of.in_flight.values()), "reads under way when tracing stopped"),
    )  # fmt: skip
    parts = [f"{units.count(n)} {name}" for n, name in kinds if n]
    return [f"Lost, and in no number here: {', '.join(parts)}."] if parts else []
