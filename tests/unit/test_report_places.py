"""What a report says was read: by kind or relation, by tablespace, nothing dropped."""

from typing import Any

from captures import some_capture, some_reads
from pgtrace.model.capture import Backend, Io, Tablespace
from pgtrace.reporters.terminal import capture_report, files


def read(ns: int, count: int = 1, **fields: Any) -> Io:
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
    capture = some_capture(Backend(1, io=SCANS[:2]), Backend(2, io=SCANS[2:]))
    capture.tablespaces = SPACES
    assert files.tables(capture) == [
        "     reads       size     mean     time  device  random  kind",
        "     4,563   35.6 MiB   480 µs   2.19 s   100 %   100 %  heap",
        "     2,000   15.6 MiB  9.00 µs  18.0 ms     0 %    50 %  index",
        "        10   80.0 KiB  20.0 µs   200 µs       ?       ?  wal",
        "",
        "     reads       size     mean     time  device  random  tablespace",
        "     6,563   51.3 MiB   336 µs   2.21 s    99 %    85 %  pg_default",
        "        10   80.0 KiB  20.0 µs   200 µs       ?       ?  (no tablespace)",
        "pg_default: ext4 on sda, rotational, read-ahead 128 KiB, in /srv/data.",
    ]
    assert "\n".join(files.tables(capture)) in capture_report.render(capture)


def test_relations_beyond_the_first_are_added_up() -> None:
    many = [read(1_000, 100 - i, relation=f"public.t{i}") for i in range(50)]
    lines = files.tables(some_capture(Backend(1, io=[*many, SCANS[-1]])))
    assert lines[0].endswith("  relation")
    assert lines[1].endswith("  (wal)")
    assert lines[2].split()[0] == "100"
    assert lines[2].endswith("  public.t0 (heap)")
    rest = lines[files.MOST_RELATIONS + 1]
    left = sum(100 - i for i in range(files.MOST_RELATIONS - 1, 50))
    assert rest.split()[0] == f"{left:,}"
    assert rest.endswith("  (31 more)")


def test_names_cannot_act_on_a_terminal_and_are_folded() -> None:
    name = 'public."a\n\x1b[31mvery\u202e long name of a relation, longer than most are"'
    lines = files.tables(some_capture(Backend(1, io=[read(1_000, relation=name)])))
    shown = r'public."a \x1b[31mvery\u202e long name of a relation, longer than most are" (heap)'
    own = lines[1 : lines.index("")]
    assert " ".join(line[57:] for line in own) == shown
    assert [line[:57].strip() for line in own[1:]] == [""] * (len(own) - 1)


def test_a_name_without_spaces_is_never_broken_where_a_line_has_room_for_it() -> None:
    name = "public.a_table_with_quite_a_long_name"
    lines = files.tables(some_capture(Backend(1, io=[read(1_000, relation=name)])))
    assert lines[2] == f"{f'{name} (heap)':>80}"


def test_where_no_file_is_known_nothing_is_said() -> None:
    unknown = some_capture(Backend(1, io=[read(1_000, kind="unknown", tablespace=None)]))
    assert files.tables(unknown) == []
    assert files.tables(some_capture()) == []
