"""What a live screen shows of a server's seconds: sums of them, lists, and the answer."""

import os
import socket
from itertools import groupby

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from frames import BEGIN, FIRST_S, cached_read, device_read, hidden_read, some_frame
from pgtrace.live import head, link, tabs, text
from pgtrace.live.frame import Begin, Cell, Doing, Frame, Look, Place, Process, Said, Spent
from pgtrace.live.kept import Fact, Kept
from pgtrace.live.numbers import Numbers
from pgtrace.model.capture import Tablespace
from pgtrace.reporters.document import Value

MS = 1_000_000


def kept_of(*frames: Frame) -> Kept:
    kept = Kept()
    for frame in frames:
        kept.add(frame)
    return kept


def values(kept: Kept, kind: tabs.Kind, begin: Begin = BEGIN) -> dict[str, dict[str, Value]]:
    found = tabs.listing(kind, kept.window(1), kept, begin)
    titles = [column.title for column in found.columns]
    return {row.name: dict(zip(titles, row.values, strict=True)) for row in found.rows}


def test_a_second_is_told_per_second_however_long_it_was() -> None:
    """A late look makes a long one."""
    kept = kept_of(some_frame(1, [device_read(1, 1, 1, 100, 800 * MS)], length_s=2.0))
    (row,) = values(kept, "statement").values()
    assert row["device/s"] == 400 * MS
    assert row["reads/s"] == 50
    assert row["bytes/s"] == 50 * 8192


def test_each_list_adds_up_the_same_reads() -> None:
    cells = [
        device_read(1, 1, 1, 10, 30 * MS),
        device_read(1, 2, 2, 10, 10 * MS),
        cached_read(2, 2, 2, 30, MS),
    ]
    kept = kept_of(some_frame(1, cells))
    for kind in ("backend", "statement", "relation", "device"):
        rows = values(kept, kind).values()
        assert sum(row["reads/s"] for row in rows) == 50
        assert sum(row["device/s"] for row in rows) == 40 * MS
        assert sum(row["share"] for row in rows) == 1
    statements = values(kept, "statement")
    assert statements["select one"]["share"] == 0.75
    assert statements["select two"]["cached"] == 0.75
    assert values(kept, "device")["fast: nvme0n1, xfs, not rotational"]["reads/s"] == 40


def test_what_is_not_measured_is_not_nothing() -> None:
    kept = kept_of(some_frame(1, [hidden_read(1, 1, 1, 5, MS)], buffers=(30, 5), buffers_s=2.0))
    (row,) = values(kept, "statement").values()
    assert row["device/s"] is None
    assert row["share"] is None
    assert row["cached"] is None
    assert row["reads/s"] == 5
    window = kept.window(1)
    assert head.lines(BEGIN, window, kept, width=120)[2:] == [
        "Waiting for the device: not measured.",
        "Reads: 5.00/s, 40.0 KiB/s not known.",
        "Blocks found: 75 % shared_buffers, 25 % not known.",
        "Time of reads: 100 % not known.",
        "Device wait   (none known)",
    ]
    assert "--time" in tabs.listing("wait event", window, kept, BEGIN).empty


def test_reads_from_where_is_not_known_are_a_part_of_their_own() -> None:
    """As those that io_uring finds in the page cache, and those of NFS beside a local volume."""
    cells = [hidden_read(1, 1, 1, 90, 40 * MS), device_read(1, 1, 1, 10, 60 * MS)]
    kept = kept_of(some_frame(1, cells, buffers=(600, 100), buffers_s=2.0))
    assert head.lines(BEGIN, kept.window(1), kept, width=120)[2:] == [
        "Waiting for the device: at least 60.0 ms a second.",
        "Reads: 100/s, 80.0 KiB/s from device, 720.0 KiB/s not known.",
        "Blocks found: 75 % shared_buffers, 2.5 % device, 22 % not known.",
        "Time of reads: 60 % device, 40 % not known.",
        "Device wait █ (█: at least 60 ms a second)",
    ]


def test_that_nobody_waited_is_said_where_little_is_hidden() -> None:
    """As reports do."""
    for hidden, said in ((9, "none, as far as is known"), (11, "not measured")):
        cells = [hidden_read(1, 1, 1, 1, hidden * MS), cached_read(1, 1, 1, 1, (100 - hidden) * MS)]
        kept = kept_of(some_frame(1, cells))
        assert f"Waiting for the device: {said}." in head.lines(
            BEGIN, kept.window(1), kept, width=80
        )


def test_what_share_was_cached_is_told_where_it_is_known_of_nearly_all() -> None:
    """Else all that is from the page cache may be hidden, as with io_uring."""
    for hidden, cached in ((10, 80 / 90), (11, None)):
        cells = [hidden_read(1, 1, 1, hidden, MS), cached_read(1, 1, 1, 80, MS)]
        cells.append(device_read(1, 1, 1, 20 - hidden, MS))
        (row,) = values(kept_of(some_frame(1, cells)), "statement").values()
        assert row["cached"] == cached
        assert row["share"] == 1
        assert row["device/s"] == MS


def test_a_window_is_the_sum_of_its_seconds() -> None:
    frames = [some_frame(n, [device_read(1, 1, 1, n, n * MS)]) for n in range(1, 21)]
    kept = kept_of(*frames)
    window = kept.window(10, back=5)
    (total,) = window.facts.values()
    assert total.count == sum(range(6, 16))
    assert window.seconds == 10
    assert (window.began, window.ended) == (FIRST_S + 5, FIRST_S + 15)


def test_no_more_than_ten_minutes_are_kept_with_the_names_that_they_need() -> None:
    """Clients that come and go leave nothing behind."""
    kept = Kept()
    for n in range(1, 701):
        kept.add(
            some_frame(
                n,
                [device_read(n, n, 1, 1, MS)],
                processes={n: Process(n, "client backend", "shop", "web", None)},
                statements={n: f"select {n}"},
                doing=[],
            )
        )
    assert len(kept) == 600
    assert kept.window(600).began == FIRST_S + 100
    assert 600 <= len(kept.names.processes) <= 660
    assert kept.names.processes.keys() >= set(range(101, 701))
    assert kept.names.statements.keys() >= set(range(101, 701))


def test_a_query_that_ends_is_its_statement_from_the_start() -> None:
    running = some_frame(1, [device_read(1, 9, 1, 5, MS)], statements={1: "select one"})
    ended = some_frame(2, [device_read(1, 1, 1, 5, MS)], became={9: 1})
    kept = kept_of(running, ended)
    (row,) = tabs.listing("statement", kept.window(2), kept, BEGIN).rows
    assert row.name == "select one"


def test_a_row_of_its_own_has_its_parts() -> None:
    cells = [device_read(1, 1, 1, 10, 30 * MS), device_read(2, 1, 2, 10, 10 * MS)]
    kept = kept_of(some_frame(1, [*cells, device_read(2, 2, 2, 7, MS)]))
    window = kept.window(1)
    backends = tabs.listing("backend", window, kept, BEGIN, ("statement", 1))
    assert {row.number for row in backends.rows} == {1, 2}
    relations = tabs.listing("relation", window, kept, BEGIN, ("backend", 2))
    assert [(row.number, row.values[2]) for row in relations.rows] == [(2, 17)]
    of_device = tabs.listing("statement", window, kept, BEGIN, ("device", 1))
    assert [row.number for row in of_device.rows] == [1]


def test_a_list_keeps_still_where_rows_are_equal() -> None:
    cells = [device_read(1, number, 1, 1, MS) for number in (3, 1, 2)]
    names = {1: "b", 2: "c", 3: "a"}
    kept = kept_of(some_frame(1, cells, statements=names))
    found = tabs.listing("statement", kept.window(1), kept, BEGIN).sorted(0)
    assert [row.name for row in found.rows] == ["a", "b", "c"]


def test_a_filter_looks_into_all_that_is_text() -> None:
    kept = kept_of(some_frame(1, [device_read(1, 1, 1, 1, MS), device_read(2, 1, 1, 1, MS)]))
    found = tabs.listing("backend", kept.window(1), kept, BEGIN)
    assert [row.number for row in found.sorted(2, having="BATCH").rows] == [2]
    assert [row.number for row in found.sorted(2, having="4711").rows] == [1]
    assert [row.number for row in found.sorted(2, having="select ONE").rows] == [1]


def test_pids_are_sorted_as_numbers_and_what_is_unknown_comes_last() -> None:
    names = {
        1: Process(99, "client backend", None, None, None),
        2: Process(1234, "client backend", None, None, None),
    }
    cells = [device_read(1, 1, 1, 1, MS), hidden_read(2, 1, 1, 1, MS)]
    kept = kept_of(some_frame(1, cells, processes=names))
    found = tabs.listing("backend", kept.window(1), kept, BEGIN)
    assert [row.number for row in found.sorted(0).rows] == [2, 1]
    assert [row.number for row in found.sorted(2).rows] == [1, 2]


@pytest.mark.parametrize("width", [20, 40, 80, 132, 300])
def test_no_line_is_wider_than_the_screen(width: int) -> None:
    """But a list's, where what rows are of would have no room at all."""
    begin = msgspec.structs.replace(
        BEGIN, server="the server in /" + "very/long/" * 9, operations=["read", "write", "fsync"]
    )
    cells = [device_read(1, 1, 1, 12345, 987 * MS), cached_read(1, 1, 1, 123456, 87 * MS)]
    kept = kept_of(*(some_frame(n, cells, buffers=(5, 1), buffers_s=2.0) for n in range(99)))
    lines = head.lines(begin, kept.window(1), kept, width=width)
    assert max(map(len, lines)) <= width
    for kind in tabs.KINDS if width >= 80 else ():
        shown = text.screen(begin, kept, kind, rows=20, width=width).splitlines()
        assert max(map(len, shown)) <= width


def test_the_answer_stands_above() -> None:
    cells = [device_read(1, 1, 1, 25, 500 * MS), cached_read(1, 1, 1, 75, 5 * MS)]
    kept = kept_of(some_frame(1, cells, buffers=(600, 100), buffers_s=2.0))
    said = head.lines(BEGIN, kept.window(1), kept, width=100)
    assert said[:3] == [
        "12:00:01 UTC: 2 clients, 1 active.",
        "PostgreSQL 15.18, the server in /data.",
        "Waiting for the device: 500 ms a second.",
    ]
    # 300 a second in shared_buffers, 75 and 25 below
    assert "Blocks found: 75 % shared_buffers, 19 % page cache, 6.2 % device." in said


def test_blocks_are_those_of_relations() -> None:
    """As in a report: what else is read, such as temporary files, shared buffers never hold."""
    places = {
        1: Place("public.orders (heap)", "pg_default", "heap"),
        2: Place("temporary", "pg_default", "temporary"),
        3: Place("wal", None, "wal"),
        4: Place("unknown", None),
    }
    cells = [
        device_read(1, 1, 1, 10, 500 * MS),
        cached_read(1, 1, 1, 30, MS),
        cached_read(1, 1, 2, 1000, MS),
        device_read(1, 1, 3, 1000, MS),
        cached_read(1, 1, 4, 10, MS),
    ]
    kept = kept_of(some_frame(1, cells, places=places, buffers=(100, 50), buffers_s=2.0))
    said = head.lines(BEGIN, kept.window(1), kept, width=100)
    assert "Blocks found: 50 % shared_buffers, 40 % page cache, 10 % device." in said
    assert "Reads: 2,050/s, 8.1 MiB/s from page cache, 7.9 MiB/s from device." in said


def test_who_is_active_is_counted_of_clients_alone() -> None:
    """As those are that there are."""
    processes = {
        1: Process(11, "client backend", "shop", "web", None),
        2: Process(12, "autovacuum worker", "shop", None, None),
        3: Process(13, "client backend", "shop", "web", None),
    }
    doing = [Doing(1, "active"), Doing(2, "active"), Doing(3, "idle in transaction")]
    for saw_all, said in ((True, "2 clients, 1 active."), (False, "2 clients, at least 1 active.")):
        kept = kept_of(some_frame(1, [], processes=processes, doing=doing, saw_all=saw_all))
        assert head.lines(BEGIN, kept.window(1), kept, width=80)[0] == f"12:00:01 UTC: {said}"


@st.composite
def _seconds(draw: st.DrawFn) -> Frame:
    """Of a busy server, of one where nobody asks, and of one whose devices are not measured."""
    source = st.sampled_from(["device", "page_cache", "unknown"])
    cells = [
        Cell(1, 1, 1, "read", draw(source), count, 8192 * count, draw(st.integers(0, 10**12)))
        for count in draw(st.lists(st.integers(1, 10**5), max_size=3))
    ]
    buffers = draw(st.sampled_from([None, (0, 0), (10**6, 1), (1, 10**6)]))
    return some_frame(
        1, cells, buffers=buffers, buffers_s=1.0,
        away=draw(st.booleans()), saw_all=draw(st.booleans()),
    )  # fmt: skip


@given(
    st.lists(_seconds(), min_size=2, max_size=2), st.integers(20, 132),
    st.sampled_from(
        ["yet", "without a connection", "of several servers", "but of whole databases"]
    ),
)  # fmt: skip
def test_the_head_is_as_high_whatever_the_numbers_are(
    frames: list[Frame], width: int, no_buffers: str
) -> None:
    """Else all that is below would jump from second to second."""
    begin = msgspec.structs.replace(BEGIN, no_buffers=no_buffers)
    kept = kept_of(*frames)
    one, other = (
        head.lines(begin, kept.window(1, back=back), kept, width=width, back=back)
        for back in (0, 1)
    )
    assert len(one) == len(other)
    assert max(map(len, [*one, *other])) <= width


def test_at_eighty_columns_a_sentence_of_the_head_is_a_line() -> None:
    """In the units of the lists below."""
    cells = [device_read(1, 1, 1, 55, 500 * MS), cached_read(1, 1, 1, 20_000, 5 * MS)]
    kept = kept_of(some_frame(1, cells, buffers=(600, 100), buffers_s=2.0))
    said = head.lines(BEGIN, kept.window(1), kept, width=80)
    assert "Reads: 20,055/s, 156.2 MiB/s from page cache, 440.0 KiB/s from device." in said
    assert len(said) == 7
    assert "" not in said


def test_where_nothing_was_read_it_stands_in_the_place_of_the_answer() -> None:
    kept = kept_of(some_frame(1, [], buffers=(600, 0), buffers_s=2.0))
    said = head.lines(BEGIN, kept.window(1), kept, width=80)
    assert said[2:6] == [
        "Nothing was read: all was found in shared_buffers, or nobody asked.",
        "Reads: 0/s, 0 B/s from page cache, 0 B/s from device.",
        "Blocks found: 100 % shared_buffers, 0 % page cache, 0 % device.",
        "Time of reads: none.",
    ]
    assert len(said) == 7


def test_what_is_not_known_of_shared_buffers_has_its_reason() -> None:
    kept = kept_of(some_frame(1, [cached_read(1, 1, 1, 3, MS)]))
    begin = msgspec.structs.replace(BEGIN, no_buffers="without a connection")
    for begun, reason in ((begin, "without a connection"), (BEGIN, "yet")):
        said = head.lines(begun, kept.window(1), kept, width=120)
        found = "Blocks found: 100 % page cache, 0 % device"
        assert f"{found}; shared_buffers not known {reason}." in said


def test_seconds_in_which_hits_are_not_known_are_no_seconds_without() -> None:
    """As after a reset of the server's numbers."""
    cells = [cached_read(1, 1, 1, 100, MS)]
    known = [some_frame(n, cells, buffers=(600, 100), buffers_s=2.0) for n in range(5)]
    kept = kept_of(*known, *(some_frame(n, cells, buffers_s=2.0) for n in range(5, 10)))
    said = head.lines(BEGIN, kept.window(10), kept, width=80)
    assert "Blocks found: 75 % shared_buffers, 25 % page cache, 0 % device." in said


def test_all_time_is_what_is_spent_but_waiting_for_work() -> None:
    begin = msgspec.structs.replace(BEGIN, times=True)
    frame = some_frame(
        1,
        [device_read(1, 1, 1, 25, 500 * MS)],
        spent=[Spent(1, 1, 500 * MS), Spent(1, 2, 300 * MS), Spent(2, 1, 200 * MS)],
        events={1: ("IO", "DataFileRead"), 2: ("cpu", None)},
    )
    kept = kept_of(frame)
    assert "50 % of all time" in " ".join(head.lines(begin, kept.window(1), kept, width=80))
    rows = values(kept, "wait event", begin)
    assert rows["IO:DataFileRead"]["share"] == 0.7
    assert rows["CPU"]["time/s"] == 300 * MS


def test_a_server_that_is_away_is_said_to_be() -> None:
    kept = kept_of(some_frame(1, [], away=True, doing=[], clients=0))
    assert "is away" in head.lines(BEGIN, kept.window(1), kept, width=80)[0]


def test_a_number_is_told_once_and_again_once_it_was_forgotten() -> None:
    numbers: Numbers[str] = Numbers()
    assert numbers.of("a") == numbers.of("a") == 1
    assert numbers.take() == {1: "a"}
    assert numbers.take() == {}
    numbers.forget({1})
    assert numbers.known("a") == 0
    assert numbers.of("a") == 2
    assert numbers.take() == {2: "a"}


@given(st.lists(st.integers(1, 3000), max_size=8))
def test_messages_come_whole_and_in_order(sizes: list[int]) -> None:
    """Also where the other takes nothing for a while: nobody waits for it."""
    ours, theirs = socket.socketpair()
    ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
    tracing, drawing = link.tracing_end(ours), link.drawing_end(theirs)
    sent = [Said("x" * 97 * size) for size in sizes]
    for message in sent:
        tracing.send(message)
    came = []
    while tracing.waiting or len(came) < len(sent):
        tracing.flush()
        came += drawing.receive()
    assert came == sent
    drawing.send(Look("backend", 7))
    assert tracing.receive() == [Look("backend", 7)]
    drawing.close()
    tracing.receive()
    assert tracing.closed
    tracing.close()


def test_a_path_that_is_no_utf8_comes_as_files_have_it() -> None:
    """Such as a tablespace's; whatever else is in the message is as it was."""

    def told(location: str) -> Frame:
        return some_frame(0, [device_read(1, 1, 1, 1, 1)], devices=[Tablespace("fast", location)])

    ours, theirs = socket.socketpair()
    tracing, drawing = link.tracing_end(ours), link.drawing_end(theirs)
    tracing.send(told(os.fsdecode(b"/espac\xe9")))
    assert drawing.receive() == [told("/espac\\xe9")]
    tracing.close()
    drawing.close()


def test_what_is_no_message_is_refused() -> None:
    ours, theirs = socket.socketpair()
    drawing = link.drawing_end(theirs)
    ours.send(b"\xff\xff\xff\xff what")
    with pytest.raises(ValueError, match="a message of"):
        drawing.receive()
    ours.close()
    drawing.close()


_CELLS = st.builds(
    Cell,
    st.integers(1, 4), st.integers(0, 3), st.integers(1, 2),
    st.sampled_from(["read", "write", "fsync"]),
    st.sampled_from(["device", "page_cache", "unknown"]),
    st.integers(1, 9), st.integers(0, 99), st.integers(0, 99),
)  # fmt: skip


@given(st.lists(st.lists(_CELLS, max_size=9), max_size=9), st.integers(1, 9), st.integers(0, 9))
def test_sums_are_those_of_the_cells(seconds: list[list[Cell]], frames: int, back: int) -> None:
    kept = kept_of(*(some_frame(n, cells) for n, cells in enumerate(seconds)))
    end = max(len(seconds) - back, 0)
    wanted = [cell for cells in seconds[max(end - frames, 0) : end] for cell in cells]

    def fact(cell: Cell) -> Fact:
        return Fact(cell.process, cell.statement, cell.place, cell.operation, cell.source)

    found = kept.window(frames, back=back).facts
    for key, own in groupby(sorted(wanted, key=fact), key=fact):
        cells = list(own)
        total = found.pop(key)
        assert total.count == sum(cell.count for cell in cells)
        assert total.bytes == sum(cell.bytes for cell in cells)
        assert total.total_ns == sum(cell.total_ns for cell in cells)
    assert not found


def test_hostile_names_are_text() -> None:
    hostile = "\x1b[2J\u202e[red]</script>"
    kept = kept_of(
        some_frame(
            1,
            [device_read(1, 1, 1, 1, MS)],
            doing=[Doing(1, "active", 1.0, None, hostile)],
            statements={1: hostile},
            places={1: Place(hostile, hostile)},
            processes={1: Process(1, hostile, hostile, hostile, hostile)},
        )
    )
    for kind in tabs.KINDS:
        shown = text.screen(BEGIN, kept, kind, rows=9, width=300)
        assert "\x1b" not in shown
        assert "\u202e" not in shown
        if kind in ("statement", "relation"):
            assert r"\x1b[2J\u202e[red]</script>" in shown
