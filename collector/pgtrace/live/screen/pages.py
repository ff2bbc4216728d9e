"""Pages that lie over the main screen: a row's own, and the keys."""

from collections.abc import Callable, Sequence
from typing import ClassVar

from textual import events
from textual.app import ComposeResult
from textual.screen import Screen

from .keys import before_focus
from .lines import CHOSEN, Lines, one, whole

Text = Callable[[int], Sequence[str]]
"""Lines that fit a width."""
_LEAVE = "Esc leaves this page"


class Page(Screen[None]):
    """Lines to read, and to scroll through."""

    BINDINGS: ClassVar = before_focus(
        ("escape,q,enter", "leave"),
        ("down,j", "scroll_lines(1)"),
        ("up,k", "scroll_lines(-1)"),
        ("pagedown,space", "scroll_pages(1)"),
        ("pageup", "scroll_pages(-1)"),
        ("home", "scroll_lines(-1000000)"),
        ("end", "scroll_to_end"),
    )

    def __init__(self, text: Text) -> None:
        super().__init__()
        self._text = text
        self._top = 0
        self._at_end = False
        """As long as nobody scrolls on: also when there come more lines."""

    def compose(self) -> ComposeResult:
        """See textual.screen.Screen."""
        yield Lines(id="text")
        yield Lines(id="foot")

    def look(self) -> None:
        """Show it as it is now."""
        if not self.query(Lines):
            return  # its parts are not there yet, or no more
        width, height = self.app.size
        room = max(height - 1, 1)
        lines = self._text(width)
        last = max(len(lines) - room, 0)
        self._top = last if self._at_end else min(self._top, last)
        self.query_one("#text", Lines).show([one(line) for line in lines[self._top :][:room]])
        below = len(lines) - self._top - room
        more = f"; {below} more lines below" if below > 0 else ""
        self.query_one("#foot", Lines).show([whole(f"{_LEAVE}{more}", width, CHOSEN)])

    def action_leave(self) -> None:
        """Back to the lists."""
        if self.is_current:  # and not left already, by a key that came just before
            self.dismiss()

    def action_scroll_lines(self, lines: int) -> None:
        """Look further down, or up."""
        self._at_end = False
        self._top = max(self._top + lines, 0)
        self.look()

    def action_scroll_to_end(self) -> None:
        """Look at the last lines, and stay with them."""
        self._at_end = True
        self.look()

    def action_scroll_pages(self, pages: int) -> None:
        """The same, by what the screen holds."""
        self.action_scroll_lines(pages * max(self.app.size.height - 2, 1))

    def on_mouse_scroll_down(self, _: events.MouseScrollDown) -> None:
        """Look further down."""
        self.action_scroll_lines(3)

    def on_mouse_scroll_up(self, _: events.MouseScrollUp) -> None:
        """Look further up."""
        self.action_scroll_lines(-3)
