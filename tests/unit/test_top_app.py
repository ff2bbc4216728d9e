"""The live screen as an application: pictures of it, what keys ask for, and what it survives."""

import asyncio
import socket
import time
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import pytest
import textual.timer
from hypothesis import given
from hypothesis import strategies as st
from textual import events
from textual.pilot import Pilot

from frames import BEGIN, cached_read, device_read, some_frame
from pgtrace.live import head, rows, tabs
from pgtrace.live.frame import Doing, Frame, Histograms, Look, Place, Process, Said, Write
from pgtrace.live.link import drawing_end, tracing_end
from pgtrace.live.screen.app import TopApp
from pgtrace.live.screen.lines import Lines, one
from pgtrace.live.screen.plain import has_utf8, plain
from pgtrace.live.view import SPANS, View

MS = 1_000_000
LATENCIES = [("read", "device", 90 * MS, [(524288, 557056, 100), (4194304, 4456448, 9)])]


class Ends:
    """What traces, as far as the screen can tell."""

    def __init__(self) -> None:
        ours, theirs = socket.socketpair()
        self.tracing = tracing_end(ours)
        self.app = TopApp(BEGIN, drawing_end(theirs), "backend")

    async def tell(self, pilot: Pilot[None], frames: int = 30) -> None:
        for number in range(1, frames + 1):
            self.tracing.send(second(number))
        await pilot.pause(0.3)

    def run(
        self,
        work: Callable[[Pilot[None]], Awaitable[None]],
        size: tuple[int, int] = (100, 30),
        frames: int = 30,
    ) -> None:
        async def all() -> None:
            async with self.app.run_test(size=size) as pilot:
                await self.tell(pilot, frames)
                await work(pilot)

        asyncio.run(all())

    def screen(self) -> str:
        strips = self.app.screen._compositor.render_strips()
        return "\n".join("".join(segment.text for segment in strip) for strip in strips)


def second(number: int) -> Frame:
    waited = (number * 37 % 30 + 1) * 10 * MS
    cells = [device_read(1, 1, 1, 25, waited), cached_read(2, 2, 2, 75, 5 * MS)]
    return some_frame(number, cells, buffers=(600, 100), buffers_s=1.0)


@pytest.fixture
def ends() -> Iterator[Ends]:
    found = Ends()
    yield found
    found.tracing.close()


@pytest.mark.parametrize(
    "name, keys, size",
    [
        ("backends", [], (100, 30)),
        ("statements, sorted, one chosen", ["2", "down", "greater_than_sign"], (100, 30)),
        ("paused in the past", ["3", "left_square_bracket", "t"], (100, 30)),
        ("a filter", ["2", "slash", "o", "n", "e"], (80, 24)),
        ("a row's own page", ["2", "enter"], (80, 40)),
        ("keys", ["question_mark"], (80, 24)),
        ("small", ["2"], (20, 5)),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_it_looks_as_it_did(
    ends: Ends,
    snap_compare: Callable[..., bool],
    name: str,
    keys: list[str],
    size: tuple[int, int],
) -> None:
    async def before(pilot: Pilot[None]) -> None:
        await ends.tell(pilot)
        await pilot.press(*keys)
        await pilot.pause(0.1)
        for asked in ends.tracing.receive():
            assert isinstance(asked, Look)
            ends.tracing.send(Histograms(asked.kind, asked.number, 30.0, LATENCIES))
        await pilot.pause(0.2)

    assert snap_compare(ends.app, run_before=before, terminal_size=size)


def test_a_row_that_was_chosen_stays_so_wherever_it_goes(ends: Ends) -> None:
    async def work(pilot: Pilot[None]) -> None:
        await pilot.press("2", "down")
        assert ends.app.rows.row() == 2
        ends.tracing.send(some_frame(31, [device_read(2, 2, 2, 25, 9000 * MS)]))
        await pilot.pause(0.2)
        assert ends.app.rows.row() == 2
        await pilot.press("home")
        ends.tracing.send(some_frame(32, [device_read(1, 1, 1, 25, 9000 * MS)]))
        await pilot.pause(0.2)
        assert ends.app.rows.row() == 1  # whichever is the first

    ends.run(work)


def test_a_screen_whose_process_waits_for_a_processor_takes_another_size(
    ends: Ends, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each look at the clock takes longer than textual waits before it takes a size."""

    def late() -> float:
        time.sleep(0.01)
        return time.monotonic()

    async def work(pilot: Pilot[None]) -> None:
        monkeypatch.setattr(textual.timer._time, "get_time", late)
        for width in 60, 90:
            await pilot.resize_terminal(width, 30)
            await pilot.pause(0.3)
            assert len(ends.screen().splitlines()[0]) == width

    ends.run(work)


def test_a_row_is_asked_for_while_its_page_is_open(ends: Ends) -> None:
    async def work(pilot: Pilot[None]) -> None:
        await pilot.press("2", "enter")
        await pilot.pause(0.1)
        # Again every two seconds, which may have gone by on a busy host
        asked = ends.tracing.receive()
        assert asked
        assert asked == [Look("statement", 1)] * len(asked)
        assert "Latencies: looking" in ends.screen()
        ends.tracing.send(Histograms("statement", 7, 30.0, LATENCIES))  # of another row
        await pilot.pause(0.1)
        assert "Latencies: looking" in ends.screen()
        ends.tracing.send(Histograms("statement", 1, 30.0, LATENCIES))
        await pilot.pause(0.1)
        assert "reads, device: 109, mean 826 µs" in ends.screen()
        ends.tracing.receive()
        await pilot.press("escape")
        ends.app._ask()
        assert ends.tracing.receive() == []

    ends.run(work, size=(100, 60))


def test_at_its_end_a_page_stays_there_as_it_grows(ends: Ends) -> None:
    """The latencies come when they come; from elsewhere it does not move."""

    async def work(pilot: Pilot[None]) -> None:
        async def answered(*keys: str) -> str:
            await pilot.press("2", "enter", *keys)
            await pilot.pause(0.1)
            assert "4.19 ms" not in ends.screen()
            ends.tracing.send(Histograms("statement", 1, 30.0, LATENCIES))
            await pilot.pause(0.2)
            shown = ends.screen()
            await pilot.press("escape")
            return shown

        assert "4.19 ms" in await answered("end")
        assert "lines below" in await answered("end", "up")
        assert "lines below" in await answered()

    ends.run(work, size=(100, 14))


@pytest.mark.parametrize("size", [(100, 30), (1, 1)])
def test_a_page_may_be_drawn_at_any_moment_of_its_life(ends: Ends, size: tuple[int, int]) -> None:
    """A frame comes when it comes: also before the page has its parts, or while it loses them."""

    async def work(pilot: Pilot[None]) -> None:
        for number in range(10):
            if number % 2:
                ends.app.screen.dismiss()
            else:
                ends.app.action_keys()
            for _ in range(50):
                ends.app.draw()
                await asyncio.sleep(0)
            await pilot.pause(0.1)

    ends.run(work, size=size)


def test_a_page_without_its_parts_is_not_drawn(ends: Ends) -> None:
    """As it was for a moment on a busy host, in a terminal of one character."""

    async def work(pilot: Pilot[None]) -> None:
        await pilot.press("question_mark")
        await pilot.pause(0.1)
        await ends.app.screen.remove_children()
        ends.app.draw()

    ends.run(work)


def test_what_is_typed_at_once_comes_in_its_order(ends: Ends) -> None:
    """Pasted, or while the machine was busy: no key gets ahead of another, or is lost."""

    async def at_once(pilot: Pilot[None], *keys: str) -> None:
        for key in keys:
            ends.app.post_message(events.Key(key, key if len(key) == 1 else characters.get(key)))
        await pilot.pause(0.2)

    async def work(pilot: Pilot[None]) -> None:
        await at_once(pilot, "2", "slash", *"two", "space", *"w/q1")
        assert ends.app.view.tab == "statement"
        assert ends.app.view.having == "two w/q1"
        await at_once(pilot, "escape", "3", "slash", "x", "enter")
        await at_once(pilot, "space", "1", "t")
        assert (ends.app.view.tab, ends.app.view.having) == ("backend", "x")
        assert ends.app.view.paused
        await at_once(pilot, "w", "0", "enter")
        await at_once(pilot, "question_mark", "q", "enter", "escape", "q")
        assert ends.tracing.receive() == [Write(10)]
        assert not ends.app.is_running

    characters = {"slash": "/", "space": " "}
    ends.run(work)


def test_minutes_are_asked_for_in_numbers(ends: Ends) -> None:
    async def work(pilot: Pilot[None]) -> None:
        for typed in ("0", "11", "x", "-1", ""):
            await pilot.press("w", "backspace", *typed.replace("-", "minus "), "enter")
            await pilot.pause(0.05)
            assert "Nothing written" in ends.screen()
        assert ends.tracing.receive() == []
        await pilot.press("w", "backspace", "1", "0", "enter")
        await pilot.pause(0.05)
        assert ends.tracing.receive() == [Write(10)]
        ends.tracing.send(Said("Wrote pgtrace-1.json: the last 600 s"))
        await pilot.pause(0.1)
        assert "Wrote pgtrace-1.json" in ends.screen()
        await pilot.press("question_mark")
        await pilot.pause(0.1)
        assert "UTC  Wrote pgtrace-1.json" in ends.screen()

    ends.run(work)


def test_letters_that_are_typed_are_no_keys(ends: Ends) -> None:
    async def work(pilot: Pilot[None]) -> None:
        await pilot.press("2", "slash", "q", "t", "1", "space")
        assert ends.app.view.having == "qt1 "
        assert ends.app.view.tab == "statement"
        await pilot.press("escape")
        assert ends.app.view.having == ""

    ends.run(work)


def test_it_leaves_when_nobody_traces_any_more(ends: Ends) -> None:
    async def work(pilot: Pilot[None]) -> None:
        ends.tracing.close()
        await pilot.pause(0.3)
        assert not ends.app.is_running

    ends.run(work)


def test_what_comes_while_it_leaves_is_drawn_no_more(ends: Ends) -> None:
    """Its widgets and screens go one after the other, which takes a moment on a busy host: here
    something comes in each turn of its loop.
    """
    came = 30

    def comes() -> None:
        nonlocal came
        came += 1
        ends.tracing.send(second(came))
        ends.app.hear()
        if ends.app.screen_stack:
            asyncio.get_running_loop().call_soon(comes)

    async def work(_: Pilot[None]) -> None:
        asyncio.get_running_loop().set_exception_handler(lambda _, what: failures.append(what))
        ends.app.exit()
        comes()

    failures: list[dict[str, Any]] = []
    ends.run(work)
    assert failures == []
    assert not ends.app.screen_stack
    assert came > 40
    assert ends.app.view.kept.came == came


def test_nothing_has_come_yet(ends: Ends) -> None:
    """No key does harm before the first second."""

    async def work(pilot: Pilot[None]) -> None:
        for keys in (["enter"], ["down", "end", "pagedown"], ["t", "space", "left_square_bracket"]):
            await pilot.press(*keys)
        await pilot.press("less_than_sign", "r", "5", "r", "greater_than_sign", "enter")
        assert "Wait events: Not measured: start with --time." in ends.screen()

    ends.run(work, frames=0)


@pytest.mark.parametrize("size", [(1, 1), (2, 2), (20, 5), (300, 100)])
def test_any_size_will_do(ends: Ends, size: tuple[int, int]) -> None:
    async def work(pilot: Pilot[None]) -> None:
        for key in ("2", "enter", "escape", "slash", "escape", "question_mark", "escape"):
            await pilot.press(key)
        await pilot.resize_terminal(120, 40)
        await pilot.pause(0.1)
        assert "select one" in ends.screen()

    ends.run(work, size=size)


def test_what_is_shown_is_text(ends: Ends) -> None:
    """Markup, terminals' commands and marks of direction do nothing."""
    hostile = "[bold]x[/] \x1b[2J\u202e</script>"

    async def work(pilot: Pilot[None]) -> None:
        ends.tracing.send(
            some_frame(
                31,
                [device_read(1, 1, 1, 25, 9 * MS)],
                doing=[Doing(1, "active", 1.0, None, hostile)],
                statements={1: hostile},
                places={1: Place(hostile, hostile)},
                processes={1: Process(1, "client backend", hostile, hostile, hostile)},
                notices=[hostile],
            )
        )
        await pilot.pause(0.2)
        for key in ("1", "2", "3", "4", "5"):
            await pilot.press(key)
            for more in ([], ["enter"], ["escape", "question_mark"], ["escape"]):
                await pilot.press(*more)
                shown = ends.screen()
                assert "\x1b" not in shown
                assert "\u202e" not in shown
            if key == "2":
                assert r"[bold]x[/] \x1b[2J\u202e</script>" in shown

    ends.run(work, size=(160, 50))


def test_plain_text_is_ascii() -> None:
    assert plain("▼device/s 12 µs … ██ é") == "vdevice/s 12 us ~ ## ?"


@pytest.mark.parametrize(
    "settings, found",
    [
        ({"LANG": "en_US.UTF-8"}, True),
        ({"LANG": "de_DE.utf8"}, True),
        ({"LANG": "en_US.UTF-8", "LC_ALL": "C"}, False),
        ({"LANG": "C", "LC_CTYPE": "C.UTF-8"}, True),
        ({"LANG": "en_US.ISO-8859-1"}, False),
        ({}, False),
    ],
)
def test_what_the_locale_can_show(
    monkeypatch: pytest.MonkeyPatch, settings: dict[str, str], found: bool
) -> None:
    for name in ("LC_ALL", "LC_CTYPE", "LANG"):
        monkeypatch.delenv(name, raising=False)
    for name, value in settings.items():
        monkeypatch.setenv(name, value)
    assert has_utf8() is found


def view_of(*frames: Frame) -> View:
    view = View(BEGIN)
    for frame in frames:
        view.kept.add(frame)
    return view


def test_a_pause_stays_at_its_moment() -> None:
    view = view_of(*(second(n) for n in range(1, 6)))
    view.pause()
    ended = view.window().ended
    view.kept.add(second(6))
    assert view.window().ended == ended
    assert view.where() == "PAUSED at 12:00:05, 1 s"
    said = head.lines(BEGIN, view.window(), view.kept, width=80, back=view.back)
    assert said[0] == "12:00:05 UTC, 1.0 s ago: 2 clients, 1 active."
    view.go(-2)
    assert view.window().ended == ended - 2
    view.go(10)
    assert not view.paused
    view.go(-1000)
    assert view.window().seconds == 1
    view.pause()
    assert view.where() == "last 1 s"


def test_a_moment_that_is_no_longer_kept_is_the_first_that_is() -> None:
    view = view_of(*(second(n) for n in range(1, 6)))
    view.go(-4)
    for number in range(6, 700):
        view.kept.add(second(number))
    assert view.back == 599
    assert view.window().seconds == 1


@given(
    st.lists(st.tuples(st.sampled_from([1, 10, 60, 600]), st.integers(-3, 3)), max_size=12),
    st.integers(0, 9),
)
def test_sums_do_not_hang_on_what_was_looked_at_before(
    steps: list[tuple[int, int]], more: int
) -> None:
    """Those that are kept up from one second to the next are those of frames added up anew."""
    assert set(SPANS) == {1, 10, 60, 600}
    view, number = view_of(second(1)), 1
    for seconds, back in steps:
        view.seconds = seconds
        view.go(back)
        for _ in range(more):
            number += 1
            view.kept.add(second(number))
        window = view.window()
        anew = view_of(*(second(n) for n in range(1, number + 1))).kept.window(
            seconds, back=view.back
        )
        assert window.facts == anew.facts
        assert window.seconds == pytest.approx(anew.seconds)
        assert (window.began, window.ended, window.buffers) == (
            anew.began,
            anew.ended,
            anew.buffers,
        )


@given(st.text(max_size=40), st.integers(0, 120), st.booleans())
def test_each_line_is_as_wide_as_the_screen(name: str, width: int, most_first: bool) -> None:
    """Whatever a statement is of: wide characters, marks that join, nothing."""
    from rich.cells import cell_len

    view = view_of(
        some_frame(1, [device_read(1, 1, 1, 12345, 99 * MS)], statements={1: name or "x"})
    )
    view.tab = "statement"
    listing = view.listing()
    order = view.order(listing)._replace(most_first=most_first)
    drawn = rows.drawn(listing, order, 0, 5, width)
    assert {cell_len(line) for line in (drawn.head, *drawn.lines)} == {width}


def test_a_sorted_column_is_marked_and_a_second_time_turned_round() -> None:
    view = view_of(second(1))
    view.tab = "relation"
    for marks in ("▼", "▲", "▼"):
        view.sort_by(view.listing(), "reads/s")
        listing = view.listing()
        drawn = rows.drawn(listing, view.order(listing), 0, 5, 100)
        assert f"{marks}reads/s" in drawn.head
    assert [row.values[2] for row in view.listing().rows] == [75, 25]
    assert {
        each.title for each in tabs.listing("relation", view.window(), view.kept, BEGIN).columns
    }


def head_line(ends: Ends) -> str:
    """That of the list."""
    return next(line for line in ends.screen().splitlines() if "reads/s" in line)


@pytest.mark.parametrize("width", [60, 80, 130])
def test_a_list_is_sorted_by_a_column_that_is_seen(ends: Ends, width: int) -> None:
    """Whichever are left out where there is little room; all that are seen have their turn."""

    async def work(pilot: Pilot[None]) -> None:
        await pilot.resize_terminal(width, 30)
        await pilot.pause(0.1)
        shown = head_line(ends).split()[:-5]  # without "state, and what it runs"
        for key, mark, step in (("greater_than_sign", "▼", 1), ("less_than_sign", "▼", -1)):
            came = []
            for _ in shown:
                await pilot.press(key)
                assert head_line(ends).count(mark) == 1
                came.append(head_line(ends).split(mark)[1].split()[0])
            first = [title.strip(mark) for title in shown]
            at = first.index("device/s") + step
            assert came == [first[(at + n * step) % len(first)] for n in range(len(first))]

    ends.run(work)


def test_the_column_of_the_order_stays_where_a_screen_shrinks(ends: Ends) -> None:
    async def work(pilot: Pilot[None]) -> None:
        await pilot.press("less_than_sign", "r")
        assert "▲who" in head_line(ends)
        await pilot.resize_terminal(50, 30)
        await pilot.pause(0.1)
        assert "▲who" in head_line(ends)
        await pilot.press("r")
        assert "▼who" in head_line(ends)

    ends.run(work, size=(130, 30))


def test_q_goes_back_from_a_page_and_leaves_from_a_list(ends: Ends) -> None:
    """As the keys have it."""

    async def work(pilot: Pilot[None]) -> None:
        for key in ("enter", "question_mark"):
            await pilot.press(key)
            await pilot.pause(0.1)
            assert "Esc leaves this page" in ends.screen()
            assert key == "enter" or "on a page, q goes back to the list" in ends.screen()
            await pilot.press("q")
            await pilot.pause(0.1)
            assert "reads/s" in ends.screen()
        await pilot.press("q")
        await pilot.pause(0.2)
        assert not ends.app.is_running

    ends.run(work)


def test_a_background_process_has_its_name_on_a_small_screen(ends: Ends) -> None:
    async def work(pilot: Pilot[None]) -> None:
        processes = {
            1: Process(11, "walwriter", None, None, None),
            2: Process(12, "checkpointer", None, None, None),
        }
        doing = [Doing(2, "active", None, "IO", None)]
        cells = [device_read(1, 0, 1, 25, 9 * MS), device_read(2, 0, 1, 25, 9 * MS)]
        ends.tracing.send(some_frame(31, cells, doing=doing, processes=processes))
        await pilot.pause(0.2)
        told = {line.split()[0]: line for line in ends.screen().splitlines() if line[:4].strip()}
        assert told["11"].rstrip().endswith("  walwriter")
        assert told["12"].rstrip().endswith("  checkpointer, active, IO")

    ends.run(work, size=(80, 24))


def test_lines_are_drawn_only_if_they_changed(monkeypatch: pytest.MonkeyPatch) -> None:
    lines, drawn = Lines(), list[int]()
    monkeypatch.setattr(lines, "refresh", lambda region: drawn.append(region.y))
    lines.show([one("a"), one("b")])
    lines.show([one("a"), one("c"), one("d")])
    lines.show([one("a")])
    assert drawn == [0, 1, 1, 2, 1, 2]
