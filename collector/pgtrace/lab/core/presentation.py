"""What an experiment's folder tells of a result of its own: for reports, whichever their form."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, TypeVar

from ...model.lab_result import Result

if TYPE_CHECKING:
    from ...reporters.html.charts import Charts

R = TypeVar("R", bound=Result)
Chapter = tuple[str, str, str]
"""Anchor, title, content."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Presentation(Generic[R]):
    """Lines are those of a text of some width; a sentence is one of them, without a width."""

    title: str
    answer: Callable[[R], Iterator[str]]
    """What was found, in sentences, the most important first."""
    sections: Callable[[R, int], list[str]]
    """All that is said of it as text, but how it was made."""
    chapters: "Callable[[R, Charts], list[Chapter]]"
    """The same for a page: only then what draws one is imported."""
    method: Callable[[R], list[str]]
    """How it was made, in sentences."""
