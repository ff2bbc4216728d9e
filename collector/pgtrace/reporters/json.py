"""A capture or a lab result as JSON: what load() reads, and write() writes."""

from typing import TYPE_CHECKING

from ..capture import Capture
from ..capture_file import encode

if TYPE_CHECKING:
    from ..lab.result import Result


def render(document: "Capture | Result") -> str:
    """Return the document, indented, with a line break at its end."""
    return encode(document).decode()
