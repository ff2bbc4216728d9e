"""A part of a session: --since and --until."""

import re

import pytest
from msgspec.structs import replace
from test_over_time import QUIET, SYNC, io, of_scan, session, synced

from pgtrace.errors import UsageError
from pgtrace.model.capture import Capture
from pgtrace.reporters.sections.span import Span, check
from pgtrace.reporters.terminal import server_report
from pgtrace.reporters.view import Choice


@pytest.fixture
def capture() -> Capture:
    """From 12:00:00 on six seconds, of which the fourth and the fifth have a scan."""
    scanned = io(60, 100), [of_scan(50)]
    return session(QUIET, QUIET, QUIET, scanned, scanned, QUIET)


def shown(capture: Capture, since: str | None = None, until: str | None = None) -> list[str]:
    return server_report.render_span(capture, Span(since, until), Choice()).splitlines()[2:]


def test_what_was_done_then_is_added_up(capture: Capture) -> None:
    assert shown(capture, "12:00:03", "12:00:05") == [
        "From 12:00:03 to 12:00:05, 2.00 s:",
        "  time   share  calls      bytes  what, served where",
        "120 ms  99.7 %    120  960.0 KiB  reads, device",
        "400 µs   0.3 %    200    1.6 MiB  reads, page cache",
        "",
        "  time  device  calls      bytes  what, for whom",
        "100 ms  100 ms    100  800.0 KiB  reads, select count(*) from archive",
        "                                  (public.archive)",
        "Of each second the five that took longest are known; all else is in the sums",
        "alone.",
    ]


def test_what_is_not_known_to_have_waited_for_the_device_is_no_zero() -> None:
    """An fsync, which has no bytes either; and reads whose source no interval tells."""
    stalled = session(QUIET, ([*io(40, 100), *synced(80)], [SYNC, of_scan(30)]), QUIET)
    lines = [each for each in shown(stalled) if "fsyncs, " in each]
    assert lines == [
        " 400 ms   91 %     80             fsyncs, wait",
        " 300 ms        ?     90             fsyncs, a process (wal)",
    ]
    hidden = [replace(each, source="unknown") for each in io(40, 100)]
    (line,) = (each for each in shown(session((hidden, [of_scan(30)]))) if "select count" in each)
    assert re.match(r"[\d.]+ ms +\? ", line)


@pytest.mark.parametrize(
    ("since", "until", "said"),
    [
        ("12:00:04", None, "From 12:00:04 to 12:00:06, 2.00 s:"),
        (None, "12:00:02", "From 12:00:00 to 12:00:02, 2.00 s:"),
        ("12:00", "12:01", "From 12:00:00 to 12:00:06, 6.00 s:"),
        ("11:59:59", None, "From 12:00:00 to 12:00:06, 6.00 s:"),
    ],
)
def test_one_end_is_enough(
    capture: Capture, since: str | None, until: str | None, said: str
) -> None:
    assert shown(capture, since, until)[0] == said


def test_a_part_is_never_longer_than_the_session(capture: Capture) -> None:
    """The last interval of a file of before went on until all was added up."""
    capture.duration_s = 5.4
    capture.intervals[-1].length = 1.7
    assert shown(capture, "12:00:00")[0] == "From 12:00:00 to 12:00:05, 5.40 s:"
    assert shown(capture, "12:00:05")[0] == "From 12:00:05 to 12:00:05, 400 ms:"


def test_a_part_is_as_long_as_it_was_not_as_something_was_done(capture: Capture) -> None:
    """Of seconds in which nothing was, there is nothing in the file."""
    del capture.intervals[1:4]
    assert shown(capture)[0] == "From 12:00:00 to 12:00:06, 6.00 s, in 3.00 s of it:"


def test_a_session_goes_on_after_midnight(capture: Capture) -> None:
    capture.started = "2026-01-31T23:59:58.500000Z"
    assert shown(capture, "00:00:00")[0] == "From 23:59:59 to 00:00:04, 5.00 s:"
    assert shown(capture, None, "23:59:59")[0] == "From 23:59:58 to 23:59:59, 1.00 s:"


@pytest.mark.parametrize(
    ("since", "until"),
    [("12:00:06", None), ("13:00", None), (None, "11:59:30"), ("12:00:04", "12:00:02")],
)
def test_a_time_that_is_not_in_it(capture: Capture, since: str | None, until: str | None) -> None:
    with pytest.raises(UsageError, match="lasted from 12:00:00 to 12:00:06"):
        shown(capture, since, until)


def test_nothing_was_done_then(capture: Capture) -> None:
    del capture.intervals[1]
    found = shown(capture, "12:00:01", "12:00:02")
    assert found == ["Nothing was read, written or synced then."]


def test_a_file_without_seconds(capture: Capture) -> None:
    capture.intervals[0].length = None
    with pytest.raises(UsageError, match="second by second"):
        shown(capture, "12:00:01")


@pytest.mark.parametrize("text", ["", "24:00", "12", "12:60", "noon", "12:00:00Z", "1:2:3"])
def test_what_is_no_time_of_day(text: str) -> None:
    with pytest.raises(UsageError, match="say it as in --until 14:05:30"):
        check(Span(None, text))
