"""What a report says was read: by kind or relation, by tablespace, nothing dropped."""

from typing import Any

import pytest
from test_reporters import some_capture, some_reads

from pgtrace.capture import Backend, Reads, Tablespace
from pgtrace.reporters import places, text


def read(ns: int, count: int = 1, **fields: Any) -> Reads:
    usual = {"kind": "heap", "tablespace": "pg_default"}
    return some_reads([(ns, count)], **usual | fields)


SCANS = [
    read(480_000, 4_544, pattern="random", source="device"),
    read(480_000, 19, pattern="first", source="device"),
    read(9_000, 1_000, kind="index", pattern="sequential"),
    read(9_000, 1_000, kind="index", pattern="random"),
    read(20_000, 10, kind="wal", tablespace=None, pattern="first", source="unknown"),
]
SPACES = [Tablespace("pg_default", "/srv/data", "ext4", "sda", rotational=True, read_ahead_kb=128)]


def test_kinds_and_tablespaces() -> None:
    capture = some_capture(Backend(1, reads=SCANS[:2]), Backend(2, reads=SCANS[2:]))
    capture.tablespaces = SPACES
    assert places.tables(capture) == [
        "By kind                      reads       size      mean      time  device random",
        "  heap                       4,563   35.6 MiB    480 µs    2.19 s   100 %  100 %",
        "  index                      2,000   15.6 MiB   9.00 µs   18.0 ms     0 %   50 %",
        "  wal                           10   80.0 KiB   20.0 µs    200 µs       ?      ?",
        "",
        "By tablespace                reads       size      mean      time  device random",
        "  pg_default                 6,563   51.3 MiB    336 µs    2.21 s    99 %   85 %",
        "    /srv/data: ext4 on sda, rotational, read-ahead 128 KiB",
        "  (no tablespace)               10   80.0 KiB   20.0 µs    200 µs       ?      ?",
    ]
    assert "\n".join(places.tables(capture)) in text.render(capture)


def test_relations_beyond_the_first_are_added_up() -> None:
    many = [read(1_000, 100 - i, relation=f"public.t{i}") for i in range(50)]
    lines = places.tables(some_capture(Backend(1, reads=[*many, SCANS[-1]])))
    assert lines[0].startswith("By relation")
    assert lines[1].startswith("  (wal)")
    assert lines[2].split()[:3] == ["public.t0", "(heap)", "100"]
    rest = lines[places.MOST_RELATIONS + 1]
    left = sum(100 - i for i in range(places.MOST_RELATIONS - 1, 50))
    assert rest.split()[:3] == ["31", "more", f"{left:,}"]


def test_names_cannot_act_on_a_terminal_and_are_left_whole() -> None:
    name = 'public."a\n\x1b[31mvery\u202e long name of a relation, longer than there is room"'
    lines = places.tables(some_capture(Backend(1, reads=[read(1_000, relation=name)])))
    assert lines[1] == (
        r'  public."a \x1b[31mvery\u202e long name of a relation, longer than there is room" (heap)'
    )
    assert lines[2].split()[:2] == ["1", "8.0"]


@pytest.mark.parametrize("width", [40, 80, 120])
def test_lines_fit(width: int) -> None:
    capture = some_capture(Backend(1, reads=SCANS))
    assert all(len(line) <= max(width, 79) for line in places.tables(capture, width=width))


def test_where_no_file_is_known_nothing_is_said() -> None:
    unknown = some_capture(Backend(1, reads=[read(1_000, kind="unknown", tablespace=None)]))
    assert places.tables(unknown) == []
    assert places.tables(some_capture()) == []
