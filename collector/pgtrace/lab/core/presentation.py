"""What an experiment's folder tells of a result of its own: for reports, whichever their form."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Generic, TypeVar

from ...model.lab_result import Result
from ...reporters.document import Section

R = TypeVar("R", bound=Result)


@dataclass(frozen=True, slots=True, kw_only=True)
class Presentation(Generic[R]):
    """Sentences are whole, each with its stop."""

    title: str
    answer: Callable[[R], Iterator[str]]
    """What was found, the most important first."""
    sections: Callable[[R], list[Section]]
    """All that is said of it, but how it was made."""
    method: Callable[[R], list[str]]
    """How it was made."""
