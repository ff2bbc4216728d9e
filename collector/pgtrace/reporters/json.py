"""A capture as JSON, schema "pgtrace.capture/1": what load() reads, and write() writes."""

from ..capture import Capture
from ..capture_file import encode


def render(capture: Capture) -> str:
    """Return the document, indented, with a line break at its end."""
    return encode(capture).decode()
