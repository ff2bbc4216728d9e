"""Reports of writes and fsyncs: beside reads, never among them."""

import csv
import json
import re
from itertools import pairwise
from pathlib import Path

import pytest
from test_reporters import CACHED, some_backend, some_capture, some_reads

import html_page
from captures import some_query
from html_page import HtmlPage
from pgtrace.engines import OPERATIONS
from pgtrace.errors import UsageError
from pgtrace.files.documents import load, write
from pgtrace.model.capture import (
    Backend,
    Capture,
    Excluded,
    Lost,
    Operation,
    Probes,
    Query,
    Total,
    of_operation,
)
from pgtrace.reporters import csv_form, hlog
from pgtrace.reporters.sections import top
from pgtrace.reporters.terminal import capture_report, files, form, server_report
from pgtrace.reporters.terminal.block import block
from pgtrace.reporters.view import Choice, Order, View

SYNC = {"operation": "fsync", "size": None, "pattern": "unknown", "bytes": 0, "blocks": 0}
WRITE = some_reads([(30_000, 12)], operation="write", kind="wal")
LASTING = some_reads([(2_000_000, 3)], **SYNC, call="fdatasync", source="wait", kind="wal")
RANGE = some_reads([(9_000, 5)], **SYNC, call="sync_file_range", source="unknown")
ALL = [CACHED, WRITE, LASTING, RANGE]
PROBES = Probes("libbpf", "tracepoint", "usdt", operations=list(OPERATIONS))


def test_a_block_shows_each_call_with_its_own_histogram() -> None:
    lines = block(ALL, 10**9, [], lead="■ 1.00 s", operations=OPERATIONS)
    reads = block([CACHED], 10**9, [], lead="■ 1.00 s")
    said = " ".join(" ".join(lines[1:3]).split())
    assert [lines[0], *lines[3:]][: len(reads) - 1] == [reads[0], *reads[2:]]
    bar = "█" * 48
    assert [" ".join(line.split()) for line in lines[len(reads) + 1 :]] == [
        "12 writes 96.0 KiB mean 30.0 µs p50 30 µs p99 30 µs max 30 µs",
        "page cache 12",
        "wal 12 in 360 µs",
        "from writes time",
        f"16.4 µs 12 {bar} 100 %",
        "3 fdatasync mean 2.00 ms p50 2.0 ms p99 2.0 ms max 2.0 ms",
        "waited 3",
        "wal 3 in 6.00 ms",
        "from calls time",
        f"1.05 ms 3 {bar} 100 %",
        "5 sync_file_range mean 9.00 µs p50 9.0 µs p99 9.0 µs max 9.0 µs",
        "from calls time",
        f"8.2 µs 5 {bar} 100 %",
    ]
    assert said.endswith("Writing took 360 µs (0 %). Fsync took 6.04 ms (1 %).")


@pytest.mark.parametrize(
    ("operations", "shown", "missing"),
    [
        (("read",), "no reads", "writes, fsync, locks, CPU"),
        (("write",), "no writes", "reads, fsync, locks, CPU"),
        (("fsync",), "no fsync", "reads, writes, locks, CPU"),
        (("read", "fsync"), "no reads|no fsync", "writes, locks, CPU"),
        (OPERATIONS, "no reads|no writes|no fsync", "locks, CPU"),
    ],
)
def test_what_was_not_asked_for_is_not_measured_and_not_none(
    operations: tuple[Operation, ...], shown: str, missing: str
) -> None:
    lines = block([], 10**9, [], lead="■ 1.00 s", operations=operations)
    assert "|".join(line.removeprefix("■ 1.00 s").strip() for line in lines) == shown
    assert lines[0].startswith("■ 1.00 s")
    probes = Probes("libbpf", "fentry", "usdt", operations=[*operations])
    assert f"\nNot measured: {missing}.\n" in capture_report.render(
        some_capture(some_backend(), probes=probes)
    )


def test_reads_that_were_not_asked_for_are_not_none_in_any_form() -> None:
    probes = Probes("libbpf", "fentry", "usdt", operations=["write", "fsync"])
    of = [each for each in ALL if each.operation != "read"]
    query = some_query(io=of)
    taken = some_capture(
        *(some_backend(pid=pid, io=of, queries=[query]) for pid in (1, 2)),
        some_backend(pid=3, io=[], queries=[]),
        probes=probes,
    )
    page = "".join(html_page.render(taken))
    assert "Reads: not measured." in page and "No reads" not in page
    assert "Nothing of what was measured: 3" in page
    head, *rows = csv.reader("".join(csv_form.report(taken, View(part="backends"))).splitlines())
    for row in rows:
        found = dict(zip(head, row, strict=True))
        assert {found[name] for name in head[head.index("device_ns") :]} == {""}


def test_totals_keep_reads_apart() -> None:
    apart = {
        "failed": {"write": Excluded(2), "fsync": Excluded(4)},
        "short": {"write": Excluded(1)},
    }
    taken = some_capture(some_backend(io=ALL, queries=[], **apart), probes=PROBES)
    totals, reads = taken.totals, of_operation(ALL)
    assert reads == [CACHED]
    device = CACHED.device_bytes
    assert totals == {
        "read": Total(CACHED.count, CACHED.bytes, CACHED.blocks, device, CACHED.total_ns),
        "write": Total(12, 12 * 8192, 12, 0, 360_000, failed=2, short=1),
        "fsync": Total(8, 0, 0, 0, 6_045_000, failed=4),
    }
    assert taken.probes.shortest_ns == CACHED.latency.min
    report = capture_report.render(taken)
    assert "writes:   failed 2 in 0 ns   came short 1, got 0 B in 0 ns" in report
    assert "fsync:   failed 4 in 0 ns" in report


def test_a_file_of_them_is_read_back_and_checked(tmp_path: Path) -> None:
    taken = some_capture(some_backend(io=ALL), probes=PROBES, lost=Lost(write=3, fsync=1))
    file = tmp_path / "capture.json"
    write(taken, file)
    assert load(file) == taken
    found = json.loads(file.read_text())
    found["totals"]["write"]["count"] = 13
    file.write_text(json.dumps(found))
    with pytest.raises(UsageError, match=r"totals\.write\.count is 13"):
        load(file)
    report = capture_report.render(taken)
    assert re.search(
        r"Lost, and in no number below: 3 writes \([\d.]+ % of all\) and "
        r"1 fsync \([\d.]+ % of all\)\.\n",
        report,
    )


def test_the_table_tells_call_file_and_type_of_backend() -> None:
    checkpointer = some_backend(
        backend_type="checkpointer",
        io=[some_reads([(5_000, 7)], operation="write", kind="relation"), RANGE],
        queries=[],
    )
    taken = some_capture(some_backend(io=ALL), checkpointer, probes=PROBES)
    shown = files.tables(taken)
    table = shown[next(i for i, line in enumerate(shown) if "what, of, by" in line) :]
    rows = [number for number, line in enumerate(table) if line[:55].strip()]
    folded = [" ".join(each[57:] for each in table[a:b]) for a, b in pairwise([*rows, len(table)])]
    assert folded == [
        "what, of, by",
        "write, wal, client backend",
        "write, relation, checkpointer",
        "fdatasync, wal, client backend",
        "sync_file_range, unknown, checkpointer",
        "sync_file_range, unknown, client backend",
    ]
    assert table[rows[1]].split()[:3] == ["12", "96.0", "KiB"]
    assert "KiB" not in table[rows[3]], "an fsync has no size"
    without = some_capture(some_backend())
    assert not any("what, of, by" in line for line in files.tables(without))


def test_a_log_tells_the_calls_apart() -> None:
    taken = some_capture(some_backend(io=ALL), probes=PROBES)
    lines = hlog.render(taken).splitlines()
    assert "latencies of reads, writes, fsync. Tag" in lines[1]
    tags = [line.partition(",")[0] for line in lines if line.startswith("Tag=")]
    assert tags == [
        "Tag=5167.fdatasync.wait.query",
        "Tag=5167.read.page_cache.query",
        "Tag=5167.sync_file_range.unknown.query",
        "Tag=5167.write.page_cache.query",
    ]


def test_a_page_has_them_in_a_part_of_their_own() -> None:
    """Where nobody asked for them it says so, and has no such part."""
    page = html_page.render(some_capture(some_backend(io=ALL), probes=PROBES))
    assert 'id="writes"' in page
    assert "fdatasync, wal, client backend" in page
    assert "Not measured: locks, CPU." in page
    without = html_page.render(some_capture(some_backend()))
    assert 'id="writes"' not in without
    assert "Not measured: writes, fsync, locks, CPU." in without


def of_statements() -> Capture:
    importing = [CACHED, WRITE, LASTING]
    insert = some_query(text="insert into orders values ($1)", query_id=1, calls=3, io=importing)
    delete = some_query(text="delete from orders", query_id=2, calls=1, io=[RANGE])
    return some_capture(
        some_backend(io=importing, queries=[insert]),
        some_backend(pid=2, io=[RANGE], queries=[delete]),
        probes=Probes("libbpf", "tracepoint", "usdt", operations=list(OPERATIONS)),
    )


def test_a_report_names_the_statement_that_waited_for_fsync() -> None:
    """In its first sentences, and with all others that wrote or synced in a table of their own."""
    text = server_report.render(of_statements())
    words = " ".join(text.split())
    assert "at most 2.0 ms; 99 % was for one statement: insert into orders values ($1)." in words
    (table,) = (part for part in text.split("\n\n") if "fsyncs  in fsync  calls" in part)
    assert [" ".join(line.split()) for line in table.splitlines()[1:]] == [
        "6.36 ms 99 % 3 6.00 ms 3 insert into orders values ($1)",
        "45.0 µs 0.7 % 5 45.0 µs 1 delete from orders",
    ]
    wide = server_report.render(of_statements(), width=120)
    assert "writes  writing  fsyncs  in fsync  calls  statement" in wide


def test_statements_are_shown_where_reads_were_not_measured() -> None:
    capture = of_statements()
    for backend in capture.backends:
        whole: list[Backend | Query] = [backend, *backend.queries]
        for one in whole:
            one.io = [r for r in one.io if r.operation != "read"]
    capture.probes.operations = ["write", "fsync"]
    shown = "".join(form.report(capture, View(part="statements")))
    assert "insert into orders values ($1)" in shown
    assert "Not measured" not in shown
    assert "insert into orders" in "".join(csv_form.report(capture, View()))


def test_writes_and_fsyncs_are_sorted_as_asked() -> None:
    """By how many, by bytes, by p99; else by how long they took."""
    many = some_reads([(1_000, 900)], operation="write", kind="relation")
    capture = some_capture(some_backend(io=[WRITE, LASTING, many]), some_backend(), probes=PROBES)

    def first(order: Order) -> str:
        (table,) = top.write_table(capture, Choice(order=order))
        return str(table.rows[0][0])

    assert first("device") == first("p99") == "fdatasync, wal, client backend"
    assert first("calls") == first("bytes") == first("reads") == "write, relation, client backend"


def test_the_page_has_writes_and_fsyncs_of_statements_and_backends() -> None:
    """Columns in their tables, and below each its own histogram and rows; of what was not asked
    for none.
    """
    page = HtmlPage(html_page.render(of_statements()))
    statements = page.table("Statements, those that took longest first")
    name = "1. insert into orders values ($1)"
    assert statements.rows[name][-6:] == ["12", "96.0 KiB", "360 µs", "3", "6.00 ms", "2.0 ms"]
    backends = page.table("Backends, those that read longest first")
    assert [row[-3:] for row in backends.rows.values()] == [
        ["3", "6.00 ms", "2.0 ms"],
        ["5", "45.0 µs", "9.0 µs"],
    ]
    rows = page.table("Writes and fsyncs of statement 1: which they were").rows
    assert [*rows] == ["write, wal", "fdatasync, wal"]
    titles = [chart["title"] for chart in page.charts if chart["kind"] == "latencies"]
    assert "Writes and fsyncs of 5167: how long a call took" in titles
    without = HtmlPage(html_page.render(some_capture(some_backend(), some_backend(pid=2))))
    assert "fsyncs" not in without.text
