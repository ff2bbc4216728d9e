"""The live screen as a textual application: it is told frames, and asks for what a row did."""

import asyncio
import time
from collections import deque
from datetime import UTC, datetime
from textwrap import wrap
from typing import Any, ClassVar

from textual.app import App, ComposeResult
from textual.timer import Timer
from textual.widgets import Input

from ...terminal_text import escape
from .. import head, row_page
from ..frame import Asked, Begin, Frame, Histograms, Kind, Look, Said, Told, Write
from ..link import Link
from ..names import MINUTES
from ..view import TABS, View
from .keys import KEYS, before_focus, hints
from .lines import BOLD, CHOSEN, DIM, NOTICE, PLAIN, Line, Lines, one, whole
from .pages import Page
from .parts import Prompt, Rows, Tabs

_SAID_S = 12.0
"""So long it stands below what was said."""
_SAID = 100
"""So much of it stays, to be read with the keys."""
_LOOK_EVERY_S = 2.0
"""A row's latencies are asked for."""
_LEAST_ROWS = 8
"""Of a list with its head, where the screen is high enough; else half of it."""
_HEAD_STYLES = {1: DIM, 2: BOLD}
"""Which server that is need not be read again and again; how long is waited, it must."""
_FILTER, _WRITE = "Only rows with: ", f"Write the last minutes, 1 to {MINUTES}: "
_OF_LISTS = frozenset(
    {"filter", "all", "write", "open", "keys", "move", "move_pages", "move_to_end", "turn"}
    | {"sort_beside", "tab", "beside", "pause", "leave"}
)
_OF_PROMPT = frozenset({"quit", "beside", "all"})
"""All else that is typed there is text, or ends it, in its order."""


class TopApp(App[None]):
    """What is seen is in `view`; each frame, key and click leads to draw()."""

    CSS = """
    Screen { layout: vertical; background: ansi_default; overflow: hidden; }
    Lines { width: 100%; height: 1; }
    #rows, #text { height: 1fr; }
    Prompt { display: none; height: 1; }
    Prompt Lines { width: auto; }
    Prompt Input { width: 1fr; border: none; padding: 0; height: 1; background: ansi_default; }
    """
    TITLE = "pgtrace top"
    ENABLE_COMMAND_PALETTE = False
    BINDINGS: ClassVar = before_focus(
        ("q", "leave"),
        ("ctrl+c", "quit"),
        ("tab", "beside(1)"),
        ("shift+tab", "beside(-1)"),
        *((str(n), f"tab({n - 1})") for n in range(1, len(TABS) + 1)),
        ("down,j", "move(1)"),
        ("up,k", "move(-1)"),
        ("pagedown", "move_pages(1)"),
        ("pageup", "move_pages(-1)"),
        ("home", "move_to_end(False)"),
        ("end", "move_to_end(True)"),
        ("less_than_sign,left", "sort_beside(-1)"),
        ("greater_than_sign,right", "sort_beside(1)"),
        ("r", "turn"),
        ("slash", "filter"),
        ("escape", "all"),
        ("enter", "open"),
        ("t", "longer"),
        ("space", "pause"),
        ("left_square_bracket", "go(-1)"),
        ("right_square_bracket", "go(1)"),
        ("left_curly_bracket", "go(-60)"),
        ("right_curly_bracket", "go(60)"),
        ("w", "write"),
        ("question_mark,f1,h", "keys"),
    )

    def __init__(self, begin: Begin, link: Link[Asked, Told], tab: Kind) -> None:
        super().__init__(ansi_color=True)
        self.theme = "ansi-dark"  # the terminal's own colours, be it dark or light
        self.view = View(begin, tab=tab)
        self.failure: Exception | None = None
        self._link = link
        self._said: deque[tuple[float, str]] = deque(maxlen=_SAID)
        """When (time.time()), and what."""
        self._said_at = -_SAID_S
        self._page: tuple[Kind, int] | None = None
        """Of which row a page is open."""
        self._latencies: Histograms | None = None
        self._drawable = False

    def compose(self) -> ComposeResult:
        """See textual.app.App."""
        yield Lines(id="head")
        yield Tabs(id="tabs")
        yield Rows(id="rows")
        yield Lines(id="foot")
        yield Prompt()

    def on_mount(self) -> None:
        """Hear what comes from now on."""
        asyncio.get_running_loop().add_reader(self._link.fileno(), self._heard)
        self.rows.focus()
        self._drawable = True
        self.set_interval(_LOOK_EVERY_S, self._ask)
        self.call_after_refresh(self.hear)

    def on_lines_resized(self) -> None:
        """Draw for another size."""
        self.draw()

    @property
    def rows(self) -> Rows:
        """The list."""
        return self.screen_stack[0].query_one(Rows)

    def _heard(self) -> None:
        try:
            self.hear()
        except Exception as error:  # which asyncio would only note in a log
            self._handle_exception(error)

    def hear(self) -> None:
        """Take what has come; where nobody traces any more there is nothing to draw."""
        for told in self._link.receive():
            if isinstance(told, Frame):
                for notice in told.notices:
                    self.say(notice)
                self.view.kept.add(told)
            elif isinstance(told, Said):
                self.say(told.text)
            elif isinstance(told, Histograms) and self._page == (told.kind, told.number):
                self._latencies = told
        if self._link.closed:
            asyncio.get_running_loop().remove_reader(self._link.fileno())
            self.exit()
            return
        self.draw()

    def say(self, text: str) -> None:
        """Let it stand below for a while."""
        self._said.append((time.time(), text))
        self._said_at = time.monotonic()

    def draw(self) -> None:
        """Show what there is now, on the page that is open."""
        if not self.is_running:  # it leaves: its widgets and screens go, one after the other
            return
        if isinstance(self.screen, Page):
            self.screen.look()
            return
        if not self._drawable or not self.size.height:
            return
        width, height = self.size
        view, main = self.view, self.screen_stack[0]
        lines = head.lines(view.begin, view.window(), view.kept, width=width, back=view.back)
        room = max(height - 2 - max(min(_LEAST_ROWS, height // 2), 2), 1)
        top = main.query_one("#head", Lines)
        shown = lines[:room]
        if top.styles.height is None or top.styles.height.value != len(shown):
            top.styles.height = len(shown)
        top.show([one(line, _HEAD_STYLES.get(n, PLAIN)) for n, line in enumerate(shown)])
        main.query_one(Tabs).look(view, width)
        self.rows.look(view, view.listing())
        main.query_one("#foot", Lines).show([self._foot(width)])

    def _foot(self, width: int) -> Line:
        if time.monotonic() - self._said_at < _SAID_S:
            return whole(escape(self._said[-1][1]), width, NOTICE)
        return whole(hints(width), width, CHOSEN)

    def _ask(self) -> None:
        if self._page and row_page.has_latencies(*self._page):
            self._link.send(Look(*self._page))

    # What can be done

    def action_tab(self, number: int) -> None:
        """See another list."""
        self.view.tab = TABS[number]
        self.rows.begin()
        self.draw()

    def action_beside(self, step: int) -> None:
        """See the list beside this one."""
        self.action_tab((TABS.index(self.view.tab) + step) % len(TABS))

    def action_move(self, step: int) -> None:
        """Choose another row."""
        self.rows.move(step)
        self.draw()

    def action_move_pages(self, pages: int) -> None:
        """Choose one further away."""
        self.rows.move(pages, pages=True)
        self.draw()

    def action_move_to_end(self, last: bool) -> None:
        """Choose the first or the last."""
        self.rows.move_to_end(last=last)
        self.draw()

    def action_sort_beside(self, step: int) -> None:
        """Sort by another column."""
        self.view.sort_beside(self.view.listing(), self.rows.titles(), step)
        self.draw()

    def action_turn(self) -> None:
        """Sort the other way round."""
        listing = self.view.listing()
        self.view.sort_by(listing, self.view.order(listing).title)
        self.draw()

    def action_longer(self) -> None:
        """Add up more seconds."""
        self.view.longer()
        self.draw()

    def action_pause(self) -> None:
        """Look on at what is seen now."""
        self.view.pause()
        self.draw()

    def action_go(self, seconds: int) -> None:
        """Look at an earlier or a later moment."""
        self.view.go(seconds)
        self.draw()

    async def action_leave(self) -> None:
        """End, where there is no page to leave."""
        await self.action_quit()

    def action_open(self) -> None:
        """Open the page of a row."""
        number = self.rows.row()
        if number is None:
            return
        kind = self.view.tab
        self._page, self._latencies = (kind, number), None
        self._ask()

        def closed(_: None) -> None:
            self._page = None
            self.draw()

        self.push_screen(
            Page(lambda width: row_page.lines(self.view, kind, number, self._latencies, width)),
            closed,
        )

    def action_keys(self) -> None:
        """Tell the keys, and what was said."""
        self.push_screen(Page(self._keys), lambda _: self.draw())

    def _keys(self, width: int) -> list[str]:
        longest = max(len(key) for key, _ in KEYS) + 2
        told = [(f"{key:<{longest}}", what) for key, what in KEYS]
        told += [
            (f"{datetime.fromtimestamp(at, UTC):%H:%M:%S} UTC  ", escape(text))
            for at, text in self._said
        ]
        return [
            line
            for first, rest in told
            for line in wrap(
                rest, max(width, len(first) + 8),
                initial_indent=first, subsequent_indent=" " * len(first),
            )
        ]  # fmt: skip

    # What is typed

    def action_filter(self) -> None:
        """Type a text that rows are to have."""
        self._prompt.ask(_FILTER, self.view.having)

    def action_all(self) -> None:
        """See all rows again."""
        self._typed()
        self.view.having = ""
        self.draw()

    def action_write(self) -> None:
        """Type for how many minutes a capture is to be written."""
        self._prompt.ask(_WRITE, "1")

    def on_input_changed(self, event: Input.Changed) -> None:
        """See fewer rows while it is typed."""
        if self._prompt.what == _FILTER:
            self.view.having = event.value
            self.draw()

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Do what was typed."""
        what = self._prompt.what
        self._typed()
        if what == _WRITE:
            minutes = int(event.value) if event.value.strip().isdecimal() else 0
            if 1 <= minutes <= MINUTES:
                self.say(f"Writing the last {minutes} min …")
                self._link.send(Write(minutes))
            else:
                self.say(f"Nothing written: {event.value!r} is no number from 1 to {MINUTES}")
        self.draw()

    def _typed(self) -> None:
        self._prompt.close()
        self.screen_stack[0].set_focus(self.rows)

    @property
    def _prompt(self) -> Prompt:
        return self.screen_stack[0].query_one(Prompt)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool:
        """What is done to the main screen is not done while a page lies over it, and what is typed
        behind a prompt is none of these.
        """
        if isinstance(self.screen, Page):
            return action not in _OF_LISTS
        return not (self._drawable and self._prompt.what) or action in _OF_PROMPT

    # What is clicked

    def on_tabs_chosen(self, event: Tabs.Chosen) -> None:
        """See another list."""
        self.action_tab(event.number)

    def on_rows_moved(self) -> None:
        """Another row is chosen."""
        self.draw()

    def on_rows_opened(self) -> None:
        """Open the page of the row."""
        self.action_open()

    def on_rows_sorted(self, event: Rows.Sorted) -> None:
        """Sort by what was clicked on."""
        self.view.sort_by(self.view.listing(), event.title)
        self.draw()

    # What textual 8.2 gets wrong

    def set_timer(self, *arguments: Any, **settings: Any) -> Timer:
        """One that fires once leaves that out, for good, where it waits for a processor just then
        (textual/timer.py, Timer._run()); and no size of the terminal was taken after that."""
        timer = super().set_timer(*arguments, **settings)
        timer._skip = False
        return timer

    def _handle_exception(self, error: Exception) -> None:
        """textual 8.2 would print the values of all variables, which may be somebody's data."""
        asyncio.get_running_loop().remove_reader(self._link.fileno())
        self.failure = self.failure or error
        if self.is_headless:
            super()._handle_exception(error)
        else:
            self.panic()  # exit() is a message, which a loop that failed hears no more
