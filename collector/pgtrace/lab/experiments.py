"""Experiments by their names, which are those of their folders: of each what is asked for is
imported, and nothing else.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ..model.lab_result import Result
    from .core.experiment import Experiment
    from .core.presentation import Presentation


def experiment(name: str) -> "Experiment[Any]":
    """Its command: of one of EXPERIMENTS, as below."""
    found: Experiment[Any] = import_module(f"{__package__}.{name}.experiment").EXPERIMENT
    return found


def result_of(name: str) -> "type[Result]":
    """What its file holds."""
    found: type[Result] = import_module(f"{__package__}.{name}.result").RESULT
    return found


def presentation(name: str) -> "Presentation[Any]":
    """How that is told."""
    found: Presentation[Any] = import_module(f"{__package__}.{name}.presentation").PRESENTATION
    return found
