"""Experiments by their names: each is imported when it is asked for, and no other."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .core.experiment import Experiment


def experiment(name: str) -> "Experiment[Any]":
    """That of the folder of this name, which is one of EXPERIMENTS."""
    found: Experiment[Any] = import_module(f"{__package__}.{name}.experiment").EXPERIMENT
    return found
