"""The parts of the main screen: which list, its rows, and what can be typed."""

from textual import events
from textual.app import ComposeResult
from textual.containers import Horizontal
from textual.message import Message
from textual.widgets import Input

from .. import rows
from ..tabs import KINDS, Listing
from ..view import TABS, View
from .lines import BOLD, CHOSEN, DIM, NOTICE, Lines, one, whole

_LEAST = 3
"""Rows that move when one goes a page up or down, at least."""


class Tabs(Lines):
    """The names of the lists, and what part of the session is seen."""

    class Chosen(Message):
        """Somebody clicked on the name of a list, the first of which is 0."""

        def __init__(self, number: int) -> None:
            super().__init__()
            self.number = number

    def __init__(self, *, id: str) -> None:
        super().__init__(id=id)
        self._ends: list[int] = []

    def look(self, view: View, width: int) -> None:
        """Show it; names that are not chosen are left out where there is no room for all."""
        names = [f" {n} {KINDS[kind]} " for n, kind in enumerate(TABS, 1)]
        chosen = TABS.index(view.tab)
        if sum(map(len, names)) > width:
            names = [name if n == chosen else f" {n + 1} " for n, name in enumerate(names)]
        self._ends = [sum(map(len, names[: n + 1])) for n in range(len(names))]
        line = [(name, CHOSEN if n == chosen else DIM) for n, name in enumerate(names)]
        where = view.where()
        room = width - self._ends[-1] - 1
        if room < len(where):
            where = "PAUSED" if view.paused and room >= len("PAUSED") else ""
        style = NOTICE if view.paused else DIM
        self.show([[*line, (" " * (room + 1 - len(where)), DIM), (where, style)]])

    def on_click(self, event: events.Click) -> None:
        """Choose what was clicked on."""
        for number, end in enumerate(self._ends):
            if event.x < end:
                self.post_message(self.Chosen(number))
                return


class Rows(Lines, can_focus=True):
    """A list, one row of which is chosen."""

    class Sorted(Message):
        """Somebody clicked on a head."""

        def __init__(self, title: str) -> None:
            super().__init__()
            self.title = title

    class Opened(Message):
        """Somebody clicked on the chosen row."""

    def __init__(self, *, id: str) -> None:
        super().__init__(id=id)
        self.listing: Listing | None = None
        self.chosen: int | None = None
        """The number of a row; None: the first, whichever it is."""
        self._at = self._top = 0
        self._drawn: rows.Drawn | None = None

    def look(self, view: View, listing: Listing) -> None:
        """Show it. The row that was chosen stays so, wherever it went."""
        self.listing = listing
        numbers = [row.number for row in listing.rows]
        if self.chosen in numbers:
            self._at = numbers.index(self.chosen)
        elif self.chosen is None:
            self._at = 0
        self._at = max(min(self._at, len(numbers) - 1), 0)
        self._draw(view)

    def row(self) -> int | None:
        """The number of the chosen row; None if there is none."""
        if self.listing is None or not self.listing.rows:
            return None
        return self.listing.rows[self._at].number

    def titles(self) -> list[str]:
        """The columns that are seen."""
        return [title for _, title in self._drawn.columns] if self._drawn else []

    def begin(self) -> None:
        """Choose the first row of another list."""
        self.chosen, self._at, self._top = None, 0, 0

    def move(self, step: int, *, pages: bool = False) -> None:
        """Choose another row, so many below, or above."""
        if self.listing is None or not self.listing.rows:
            return
        step *= max(self.size.height - 2, _LEAST) if pages else 1
        self._at = max(min(self._at + step, len(self.listing.rows) - 1), 0)
        self.chosen = self.row()

    def move_to_end(self, *, last: bool) -> None:
        """Choose the first, whichever it will be, or the last."""
        self.move(len(self.listing.rows) if self.listing and last else -self._at)
        if not last:
            self.begin()

    def _draw(self, view: View) -> None:
        assert self.listing is not None
        width, room = self.size.width, max(self.size.height - 1, 0)
        self._top = min(self._top, max(len(self.listing.rows) - room, 0))
        self._top = max(min(self._top, self._at), self._at - max(room, 1) + 1)
        order = view.order(self.listing)
        self._drawn = rows.drawn(self.listing, order, self._top, room, width)
        lines = [whole(self._drawn.head, width, BOLD)]
        for number, text in enumerate(self._drawn.lines, self._top):
            chosen = number == self._at and bool(self.listing.rows)
            lines.append(whole(text, width, CHOSEN) if chosen else one(text))
        self.show(lines[: room + 1])

    def on_click(self, event: events.Click) -> None:
        """Choose a row, open it by another click, or sort by the column."""
        if self._drawn is None or self.listing is None:
            return
        if event.y == 0:
            for end, title in self._drawn.columns:
                if event.x < end:
                    self.post_message(self.Sorted(title))
                    return
            return
        at = self._top + event.y - 1
        if at >= len(self.listing.rows):
            return
        again, self._at = at == self._at, at
        self.chosen = self.row()
        self.post_message(self.Opened() if again else self.Moved())

    class Moved(Message):
        """Another row is chosen."""

    def on_mouse_scroll_down(self) -> None:
        """Choose a row below."""
        self.move(1)
        self.post_message(self.Moved())

    def on_mouse_scroll_up(self) -> None:
        """Choose a row above."""
        self.move(-1)
        self.post_message(self.Moved())


class Prompt(Horizontal):
    """A line in which something is typed, behind the words for what."""

    what = ""
    """Those words; empty while it is not seen."""

    def compose(self) -> ComposeResult:
        """See textual.widget.Widget."""
        yield Lines()
        yield Input(select_on_focus=False, compact=True)

    def ask(self, what: str, value: str) -> None:
        """Let it be typed, beginning with `value`."""
        label, field = self.query_one(Lines), self.query_one(Input)
        self.what = what
        label.styles.width = len(what)
        label.show([one(what, BOLD)])
        field.value = value
        field.cursor_position = len(value)
        self.display = True
        self.screen.set_focus(field)  # at once: focus() would leave the next key to the list

    def close(self) -> None:
        """Nothing is typed any more."""
        self.what = ""
        self.display = False
