"""The file itself, part by part: the whole of a large one would take as much memory again."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from ..model import encoding
from ..model.capture import Capture
from .view import View

if TYPE_CHECKING:
    from ..model.lab_result import Result


def report(document: "Capture | Result", _: View) -> Iterator[str]:
    """Yield it."""
    return (part.decode() for part in encoding.encoded(document))
