"""What a report says of the session's course: its worst moment, who pushed whom out."""

import re
from collections.abc import Sequence
from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from captures import HOSTILE, some_capture
from pgtrace.errors import UsageError
from pgtrace.model import encoding
from pgtrace.model.capture import (
    Backend,
    Capture,
    Heaviest,
    Interval,
    IntervalIo,
    IntervalTime,
    Operation,
    Query,
)
from pgtrace.model.decoding import decode_capture
from pgtrace.reporters.document import Paragraph, Section
from pgtrace.reporters.html import capture_page
from pgtrace.reporters.html import over_time as html_over_time
from pgtrace.reporters.sections import span
from pgtrace.reporters.sections.over_time import over_time
from pgtrace.reporters.terminal.drawing import lines
from pgtrace.reporters.view import Choice

MS = 1_000_000
SCAN = Query("select count(*) from archive", "simple", None, None, None, query_id=4)


def io(device: int, cached: int = 0, operation: Operation = "read") -> list[IntervalIo]:
    """Reads of 1 ms from the device, and of 2 µs from the page cache."""
    found = [
        IntervalIo(operation, "device", device, device * 8192, device * MS, {19: device}),
        IntervalIo(operation, "page_cache", cached, cached * 8192, cached * 2000, {10: cached}),
    ]
    return [each for each in found if each.count]


def of_scan(device: int, size: int = 0) -> Heaviest:
    return Heaviest(
        "read", device, size or device * 8192, device * MS, device, device * MS, query_id=4,
        kind="heap", relation="public.archive",
    )  # fmt: skip


def session(*pieces: tuple[Sequence[IntervalIo], Sequence[Heaviest]]) -> Capture:
    intervals = [
        Interval(float(n), [], 1.0, list(done), list(heaviest))
        for n, (done, heaviest) in enumerate(pieces)
    ]
    backends = Backend(1, "client backend", queries=[SCAN]), Backend(2, "client backend")
    return some_capture(*backends, intervals=intervals, duration_s=float(len(pieces)))


def nowhere(_: Heaviest) -> str:
    return ""


def said(capture: Capture) -> list[str]:
    blocks = over_time(capture)
    return [block.text for block in blocks if isinstance(block, Paragraph)]


def drawn(capture: Capture, width: int = 80) -> list[str]:
    return lines([Section("over-time", over_time(capture))], width)


QUIET = (io(0, 100), ())


def test_the_worst_second_is_named_with_who_waited_then() -> None:
    capture = session(QUIET, QUIET, (io(400, 100), [of_scan(300)]), QUIET)
    assert said(capture) == [
        "Most at 12:00:02: 400 ms of waiting for the device in 1.00 s, 75 % of it for "
        "select count(*) from archive (public.archive)."
    ]


def test_a_second_is_a_character() -> None:
    capture = session(QUIET, (io(100), ()), QUIET, (io(400), ()), QUIET)
    head, strip, *_ = drawn(capture)
    assert head == "Waiting for the device each second, of all processes together (█: 400 ms)"
    assert strip == "12:00:00 ·▂·█· 12:00:05"


@pytest.mark.parametrize("seconds", [30, 100, 500])
def test_the_strip_fits_and_keeps_the_highest(seconds: int) -> None:
    pieces = [(io(1), ())] * seconds
    pieces[seconds // 2] = (io(800), ())
    capture = session(*pieces)
    _, strip, *_ = drawn(capture)
    assert len(strip) <= 80
    assert strip.count("█") == 1
    assert "12:00:00 " in strip


def test_nobody_waited() -> None:
    capture = session(*[QUIET] * 4)
    assert said(capture) == ["Most at 12:00:00: 200 µs of reading in 1.00 s."]
    assert drawn(capture)[0].startswith("Reading each second")


@pytest.mark.parametrize("pieces", [0, 1, 3])
def test_of_few_seconds_nothing_is_said(pieces: int) -> None:
    assert over_time(session(*[QUIET] * pieces)) == []


def test_a_session_without_reads_has_no_course() -> None:
    assert over_time(session(*[([], [])] * 5)) == []


def test_seconds_in_which_nothing_was_done_have_a_course_too() -> None:
    """They are not in the file."""
    capture = session(QUIET, (io(400), ()))
    capture.duration_s = 6.0
    _, strip, *_ = drawn(capture)
    assert strip == "12:00:00 ·█···· 12:00:06"


GIB = 1 << 30


def test_who_pushed_the_others_out_of_the_page_cache_is_told() -> None:
    """Others wait for 50 ms in each second of the scan, for 20 ms in the one after it, and for 1 ms
    otherwise.
    """
    scanned, quiet = (io(60, 100), [of_scan(10, GIB)]), (io(1, 100), ())
    capture = session(quiet, quiet, scanned, scanned, (io(20, 100), ()), quiet)
    assert said(capture)[1:] == [
        "While select count(*) from archive (public.archive) read 2.0 GiB, between 12:00:02 and "
        "12:00:04, and just after it, all others waited for the device for 40.0 ms each second, "
        "otherwise for 1.00 ms."
    ]


def test_a_process_alone_has_no_others() -> None:
    """What it read next was read by itself, and after that."""
    quiet = (io(1, 100), ())
    capture = session(quiet, quiet, (io(60, 100), [of_scan(10, GIB)]), (io(20, 100), ()), quiet)
    assert len(said(capture)) == 2
    del capture.backends[1]
    assert len(said(capture)) == 1
    capture.backends[0].merged = 2
    assert len(said(capture)) == 2


def test_what_a_short_scan_pushed_out_may_be_missed_in_the_next_second() -> None:
    quiet = (io(1, 100), ())
    capture = session(quiet, (io(10), [of_scan(10, GIB)]), (io(99, 100), ()), quiet, quiet)
    assert "just after it, all others waited for the device for 49.5 ms" in said(capture)[1]


def test_a_scan_is_not_blamed_for_what_came_minutes_later() -> None:
    """What lies between is in no interval: nothing was done."""
    quiet = (io(1, 100), ())
    capture = session(quiet, (io(10), [of_scan(10, GIB)]), (io(99, 100), ()), quiet, quiet)
    for interval in capture.intervals[2:]:
        interval.second += 290
    capture.duration_s += 290
    assert said(capture)[1:] == []


def test_time_in_which_nothing_was_done_is_time_all_the_same() -> None:
    quiet = (io(2, 100), ())
    capture = session(quiet, (io(60, 100), [of_scan(10, GIB)]), quiet, quiet)
    capture.duration_s += 4
    (sentence,) = said(capture)[1:]
    assert sentence.endswith("26.0 ms each second, otherwise for 667 µs.")


def test_who_reads_more_all_the_time_is_not_taken_for_who_pushed_it_out() -> None:
    looked_up = Heaviest("read", 100, GIB, 0, text_hash="cc", relation="public.orders")
    quiet = (io(1, 100), [looked_up])
    scanned = (io(60, 100), [of_scan(10, GIB // 2), looked_up])
    capture = session(quiet, quiet, scanned, (io(20, 100), [looked_up]), quiet, quiet)
    (sentence,) = said(capture)[1:]
    assert sentence.startswith("While select count(*) from archive (public.archive) read 512.0 MiB")


@pytest.mark.parametrize(
    ("then", "otherwise", "size"),
    [
        (io(60, 100), io(40, 100), GIB),
        (io(30, 100), io(1, 100), GIB),
        (io(60, 100), io(1, 100), GIB // 100),
    ],
    ids=["they wait at other times too", "few wait", "it reads little"],
)
def test_nobody_is_accused_without_need(
    then: list[IntervalIo], otherwise: list[IntervalIo], size: int
) -> None:
    quiet = (otherwise, ())
    capture = session(quiet, quiet, (then, [of_scan(10, size)]), quiet, quiet)
    assert said(capture)[1:] == []


def test_the_page_draws_each_interval_with_its_numbers() -> None:
    capture = session(QUIET, (io(100, 5), [of_scan(90)]), QUIET, (io(400), [of_scan(400)]), QUIET)
    page = capture_page.render(capture)
    chapter = page[page.index('<section id="time">') : page.index('<section id="reads">')]
    titles = re.findall(r"<title>(.*?)</title>", chapter)
    assert "12:00:01 to 12:00:02, 524 µs to 1.05 ms: 100" in titles
    assert "12:00:01 to 12:00:02: 90.0 ms, select count(*) from archive (public.archive)" in titles
    assert "12:00:01 to 12:00:02: 10.0 ms, everything else" in titles
    rows = re.findall(
        r'<tr id="interval-(\d)"><th scope="row"><a href="#interval-\d">12:00:0', chapter
    )
    assert rows == [*"01234"]


SYNC = Heaviest("fsync", 90, 0, 300 * MS, text_hash="aa", kind="wal")
IMPORT = Query("insert into orders values ($1)", "simple", None, None, None, text_hash="aa")


def synced(count: int) -> list[IntervalIo]:
    """Each took 5 ms."""
    return [IntervalIo("fsync", "wait", count, 0, count * 5 * MS, {22: count})]


def of_operations(*pieces: tuple[Sequence[IntervalIo], Sequence[Heaviest]]) -> Capture:
    capture = session(*pieces)
    capture.probes.operations = ["read", "write", "fsync"]
    capture.backends[1].queries.append(IMPORT)
    return capture


def test_fsync_has_its_course_beside_reads_and_what_took_longest_comes_first() -> None:
    stalls = ([*io(40, 100), *synced(80)], [SYNC, of_scan(30)])
    capture = of_operations(QUIET, (io(100, 100), [of_scan(80)]), stalls, QUIET)
    shown = drawn(capture)
    heads = [line.partition(",")[0] for line in shown if "█:" in line]
    assert heads == ["Fsync each second", "Waiting for the device each second"]
    assert shown[1] == "12:00:00 ··█· 12:00:04"
    assert said(capture)[:2] == [
        "Most at 12:00:02: 400 ms of fsync in 1.00 s, 75 % of it for insert into orders values "
        "($1) (wal).",
        "Most at 12:00:01: 100 ms of waiting for the device in 1.00 s, 80 % of it for "
        "select count(*) from archive (public.archive).",
    ]


def test_what_took_little_beside_the_rest_has_no_course_in_text() -> None:
    little = of_operations(QUIET, (io(400), ()), ([*io(400), *synced(1)], ()), QUIET)
    assert [line for line in drawn(little) if "Fsync" in line] == []
    alone = of_operations(*[([], [])] * 2, (synced(1), ()), ([], []))
    assert drawn(alone)[0].startswith("Fsync each second")


def test_the_page_has_the_course_of_each_operation() -> None:
    """Whatever took longest: a heat map and whose time it was; in the table both, with links to
    where there is more.
    """
    stalls = ([*io(40, 100), *synced(80)], [SYNC, of_scan(30)])
    capture = of_operations(QUIET, QUIET, stalls, QUIET)
    page = capture_page.render(capture)
    chapter = page[page.index('<section id="time">') : page.index('<section id="reads">')]
    captions = re.findall(r"<figcaption>(.*?)</figcaption>", chapter)
    assert captions == [
        "Fsyncs by latency over time, stronger where there were more",
        "Fsync over time, by who did",
        "Reads by latency over time, stronger where there were more",
        "Waiting for the device over time, by who did",
    ]
    groups = re.findall(r'<th colspan="(\d)" scope="colgroup">(.*?)</th>', chapter)
    assert groups == [("2", "fsyncs"), ("4", "reads")]
    (row,) = re.findall(r'<tr id="interval-2">(.*?)</tr>', chapter)
    assert re.findall(r"<li>(.*?)</li>", row) == [
        '<a href="#statement-aa">fsync: insert into orders values ($1) (wal): 300 ms</a>',
        '<a href="#statement-4">reading: select count(*) from archive (public.archive): 30.0 ms, '
        "30.0 ms of it waiting for the device</a>",
    ]
    assert 'data-first="2"' in chapter


def with_times(capture: Capture, *times: IntervalTime) -> Capture:
    for interval in capture.intervals:
        interval.times = [*times]
    return capture


SPENT = (
    IntervalTime("sleep", 500 * MS, "Lock"),
    IntervalTime("cpu", 300 * MS),
    IntervalTime("sleep", 100 * MS, "Timeout"),
    IntervalTime("stolen", 50 * MS),
    IntervalTime("sleep", 40 * MS, "0x0F"),
)


def test_600_intervals_make_a_small_page() -> None:
    pieces = [(io(n % 50, 100), [of_scan(n % 50)]) for n in range(600)]
    capture = session(*pieces)
    assert len(capture_page.render(capture)) < 1_000_000
    assert len(capture_page.render(with_times(capture, *SPENT))) < 1_400_000


def test_the_page_shows_where_the_time_of_each_second_went() -> None:
    """By class, those that have no colour together; and in the table, too."""
    capture = session(*[QUIET] * 4)
    title = "Where the time of all processes went, but for waits for work"
    assert title not in html_over_time.over_time(capture, nowhere)
    chapter = html_over_time.over_time(with_times(capture, *SPENT), nowhere)
    figure = chapter[chapter.index(title) :].partition("</figure>")[0]
    first = re.findall(r"<title>12:00:00 to 12:00:01: ([^<]*)</title>", figure)
    assert first == ["300 ms, CPU", "500 ms, Lock", "190 ms, everything else"]
    heights = [float(h) for h in re.findall(r' height="([\d.]+)"><title>12:00:00', figure)]
    assert sum(heights) == pytest.approx(140, abs=0.2)
    row = chapter[chapter.index('<tr id="interval-0">') :].partition("</tr>")[0]
    assert re.findall(r"<td[^>]*>([^<]*)</td>", row)[-7:] == [
        "300 ms", "0 ns", "0 ns", "500 ms", "0 ns", "0 ns", "190 ms"
    ]  # fmt: skip


def test_a_second_of_locks_alone_is_drawn_and_nothing_is_said_of_reads() -> None:
    capture = with_times(session(*[([], [])] * 5), SPENT[0])
    assert over_time(capture) == []
    assert "500 ms, Lock" in html_over_time.over_time(capture, nowhere)


NUMBERS = st.integers(0, 1 << 64)
SECONDS = st.floats(0, 1e9)
KEYS = st.one_of(st.none(), st.sampled_from(["", "x", HOSTILE.replace("\ud800", "")]))
OPERATIONS = st.sampled_from(["read", "write", "fsync"])


@st.composite
def intervals(draw: st.DrawFn) -> Interval:
    """As a file may have one that is well-formed, and nothing else."""
    done = st.builds(
        IntervalIo,
        OPERATIONS,
        st.sampled_from(["page_cache", "readahead_issued", "device", "wait", "unknown"]),
        NUMBERS,
        NUMBERS,
        NUMBERS,
        st.dictionaries(st.integers(3, 40), NUMBERS, max_size=4),
    )
    heaviest = st.builds(
        Heaviest,
        OPERATIONS,
        NUMBERS,
        NUMBERS,
        NUMBERS,
        NUMBERS,
        NUMBERS,
        st.one_of(st.none(), st.just(4)),
        KEYS,
        KEYS,
        st.just("heap"),
        KEYS,
        KEYS,
    )
    spent = st.builds(
        IntervalTime, st.sampled_from(["cpu", "run_queue", "sleep", "stolen"]), NUMBERS, KEYS
    )
    return Interval(
        draw(SECONDS),
        [],
        draw(st.one_of(st.none(), SECONDS)),
        draw(st.lists(done, max_size=3)),
        draw(st.lists(heaviest, max_size=3)),
        draw(st.lists(spent, max_size=3)),
    )


@settings(max_examples=100, deadline=None)
@given(st.lists(intervals(), max_size=7), SECONDS, st.integers(1, 200))
def test_whatever_a_file_says_is_drawn(
    listed: list[Interval], duration_s: float, width: int
) -> None:
    capture = session(*[QUIET] * 2)
    capture.intervals, capture.duration_s = listed, duration_s
    decode_capture(encoding.encode(capture))
    drawn(capture, width)
    html_over_time.over_time(capture, nowhere)
    with suppress(UsageError):
        span.sections(capture, span.Span("12:00:00", None), Choice())


@pytest.mark.parametrize("power", [-1, 2, 41, 10**18])
def test_a_power_that_is_none(power: int) -> None:
    capture = session(*[QUIET] * 4)
    capture.intervals[0].io = [IntervalIo("read", "device", 1, 1, 1)]
    capture.intervals[0].io[0].powers = {power: 1}
    with pytest.raises(ValueError, match="powers"):
        decode_capture(encoding.encode(capture))


@pytest.mark.parametrize("started", ["9999-12-31T00:00:00Z", "0001-01-01T00:00:00Z"])
def test_a_session_at_the_end_of_all_calendars(started: str) -> None:
    capture = session(*[QUIET] * 4)
    capture.started = started
    with pytest.raises(ValueError, match="calendars"):
        decode_capture(encoding.encode(capture))
