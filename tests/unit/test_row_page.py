"""A row's own page says of latencies what is so: also where there are none."""

import pytest

from frames import BEGIN, cached_read, device_read, some_frame
from pgtrace.live import row_page
from pgtrace.live.frame import Frame, Histograms, Kind
from pgtrace.live.view import View

MS = 1_000_000


def page(frame: Frame, kind: Kind, number: int, *, asked: bool = True) -> str:
    view = View(BEGIN)
    view.kept.add(frame)
    none = Histograms(kind, number, 41.0, [])
    return "\n".join(row_page.lines(view, kind, number, none if asked else None, 80))


@pytest.mark.parametrize("asked", [True, False])
def test_of_what_is_outside_statements_they_are_not_kept(asked: bool) -> None:
    frame = some_frame(1, [device_read(1, 0, 1, 7, MS)])
    said = page(frame, "statement", 0, asked=asked)
    assert "(no statement)" in said
    assert "Latencies are kept of statements alone." in said
    assert "nothing was done" not in said
    assert not row_page.has_latencies("statement", 0)


def test_of_a_query_without_a_name_they_come_with_its_end() -> None:
    frame = some_frame(1, [device_read(1, 9, 1, 7, MS)])
    assert "Latencies: not known before it has ended." in page(frame, "statement", 9)


def test_of_a_file_that_is_gone_they_are_not_kept_any_more() -> None:
    frame = some_frame(1, [cached_read(1, 1, 2, 7, MS)])
    assert "Latencies: not kept of it any more." in page(frame, "relation", 2)


def test_of_who_has_done_nothing_there_are_none() -> None:
    frame = some_frame(1, [cached_read(2, 1, 2, 7, MS)])
    assert "Latencies: none since 41 s ago, when tracing began." in page(frame, "backend", 1)
    assert "looking" in page(frame, "backend", 1, asked=False)


def test_a_wait_event_has_none() -> None:
    assert "Latencies" not in page(some_frame(1, []), "wait event", 1)
