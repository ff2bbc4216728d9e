"""A part of the screen that is lines of text: only those that changed are drawn anew."""

from collections.abc import Sequence

from rich.segment import Segment
from rich.style import Style
from textual.geometry import Region
from textual.message import Message
from textual.strip import Strip
from textual.widget import Widget

from ..rows import fitted
from .plain import plain

PLAIN = Style()
BOLD = Style(bold=True)
DIM = Style(dim=True)
CHOSEN = Style(reverse=True)
NOTICE = Style(bold=True, color="yellow")
Line = Sequence[tuple[str, Style]]
"""Pieces one behind the other."""


class Lines(Widget):
    """Shows the first of its lines that there is room for; what is not there is empty."""

    ascii_only = False

    class Resized(Message):
        """There is another number of lines or columns to fill."""

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._lines: list[list[tuple[str, Style]]] = []

    def show(self, lines: Sequence[Line]) -> None:
        """Let these be seen."""
        new = [[(self._shown(text), style) for text, style in line] for line in lines]
        old, self._lines = self._lines, new
        for y in range(max(len(old), len(new))):
            if old[y : y + 1] != new[y : y + 1]:
                self.refresh(Region(0, y, self.size.width, 1))

    def on_resize(self) -> None:
        """Tell the application."""
        self.post_message(self.Resized())

    def render_line(self, y: int) -> Strip:
        """See textual.widget.Widget."""
        width = self.size.width
        if y >= len(self._lines):
            return Strip.blank(width)
        segments = [Segment(text, style) for text, style in self._lines[y]]
        return Strip(segments).adjust_cell_length(width)

    def _shown(self, text: str) -> str:
        return plain(text) if self.ascii_only else text


def one(text: str, style: Style = PLAIN) -> Line:
    """A line in one style."""
    return [(text, style)]


def whole(text: str, width: int, style: Style) -> Line:
    """The same, in that style to the end of the line."""
    return [(fitted(text, width), style)]
