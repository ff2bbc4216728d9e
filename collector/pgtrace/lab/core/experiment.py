"""What an experiment is: a class in a folder of its own, of which everybody else knows this."""

import argparse
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Protocol, TypeVar

if TYPE_CHECKING:
    from ...model.lab_result import Result
    from .interruption import Interruption
    from .progress import Progress

R_co = TypeVar("R_co", bound="Result", covariant=True)


class Experiment(Protocol[R_co]):
    """The docstring of each is the help of its command. Its module has it as EXPERIMENT, and
    imports little: its help is shown without what measures, and its file without a server.
    """

    examples: Sequence[str]
    """Lines to type, which stand below the options."""

    def prepare_parser(self, parser: argparse.ArgumentParser) -> None:
        """Add the options."""

    def prepare(self, args: argparse.Namespace) -> "Callable[[Progress, Interruption], R_co]":
        """Return what measures, and says what follows. Raises PgtraceError's kinds for what cannot
        go well, before anything is written.
        """
