"""Which folder tells of which experiment's result: that of its name."""

from importlib import import_module
from typing import TYPE_CHECKING

from ..model.lab_result import Result

if TYPE_CHECKING:
    from .core.presentation import Presentation


def presentation(result: Result) -> "Presentation":
    """Import that of a result's experiment, and no other's. The name is one of model.lab_result's:
    reading a file makes sure of that.
    """
    module = import_module(f"{__package__}.{result.experiment}.presentation")
    found: Presentation = module.PRESENTATION
    return found
