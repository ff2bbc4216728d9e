"""Reports: the promised screen, and nothing lost, hidden or shown as zero that is not known."""

import re
from pathlib import Path
from typing import Any, Literal

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from captures import (
    CACHED,
    DEVICE,
    ISSUED,
    WAITED,
    some_backend,
    some_capture,
    some_histogram,
    some_query,
    some_reads,
)
from pgtrace.files.documents import load
from pgtrace.model.capture import (
    Backend,
    Excluded,
    Gap,
    Host,
    Interval,
    IntervalIo,
    Latencies,
    Lost,
    Probes,
)
from pgtrace.model.encoding import encode
from pgtrace.reporters import hlog
from pgtrace.reporters.terminal import capture_report
from pgtrace.reporters.terminal.block import block
from pgtrace.reporters.terminal.chart import chart

PROMISED = """\
■ 4.33 s    94,418 reads   737.6 MiB
  Reading took 1.36 s of 4.33 s (31 %), waiting for the device 0.47 s (11 %),
  other waits 25.7 ms.
            mean 14.4 µs   p50 9.5 µs   p99 88 µs   max 2.3 ms
            page cache 88,335   read-ahead issued 90   device 5,903   wait 90
            from device 737.9 MiB
  from        reads                                                       time
   4.1 µs       109                                                         0 %
   8.2 µs    86,181  ████████████████████████████████████████████████      59 %
  16.4 µs     2,045  █                                                      3 %
  32.8 µs        90                                                         0 %
  65.5 µs     5,903  ███                                                   35 %
   131 µs        72                                                         1 %
   262 µs         7                                                         0 %
   524 µs         9                                                         0 %
  1.05 ms         1                                                         0 %
  2.10 ms         1                                                         0 %
"""


def unfolded(report: str) -> str:
    """Sentences as lines of their own again."""
    return re.sub(r"\n  (?=\S)", " ", report)


def test_a_block_is_the_promised_screen() -> None:
    lines = block([CACHED, ISSUED, DEVICE, WAITED], 4_330_000_000, [], lead="■ 4.33 s")
    assert "\n".join(lines).splitlines() == PROMISED.splitlines()


def test_no_reads_is_said_and_not_drawn() -> None:
    assert block([], 10**9, [], lead="■ 1.00 s") == ["■ 1.00 s    no reads"]


def test_reads_without_probes_are_not_measured_rather_than_none() -> None:
    (line,) = block([], 10**9, ["reads: no probe"])
    assert line.strip() == "reads: not measured"


def test_an_unknown_source_is_never_shown_as_zero() -> None:
    drawn = "\n".join(block([some_reads([(5000, 3)], source="unknown")], 10**9, []))
    assert "where they were served: not measured" in drawn
    assert "waiting for the device: not measured" in drawn
    assert "device 0" not in drawn


def test_where_no_read_waited_for_the_device_it_says_never() -> None:
    """Not where some of them are not known."""
    said = " ".join(" ".join(block([CACHED, WAITED], 4_330_000_000, [])).split())
    assert "of 4.33 s (20 %), never waiting for the device, other waits 25.7 ms." in said
    unknown = some_reads([(5000, 3)], source="unknown")
    said = " ".join(" ".join(block([CACHED, unknown], 4_330_000_000, [])).split())
    assert "waiting for the device at least 0" in said


def test_partly_unknown_sources_make_the_wait_a_lower_bound() -> None:
    reads = [some_reads([(5000, 3)], source="unknown"), some_reads([(10**8, 1)], source="device")]
    drawn = "\n".join(block(reads, 10**9, [], width=100))
    assert "device 1   wait 0   unknown 3" in drawn
    assert "waiting for the device at least 0.10 s (10 %)" in drawn


def test_without_a_latency_the_shares_are_of_the_reading() -> None:
    reads = [some_reads([(3_000_000, 1)]), some_reads([(1_000_000, 1)], source="device")]
    sentence = " ".join(block(reads, None, [])[1].split())
    assert "Reading took 4.00 ms, waiting for the device 1.00 ms (25 % of it)." in sentence


def test_reads_by_other_processes_direct_ones_and_large_ones_are_marked() -> None:
    reads = [
        some_reads([(5000, 4)]),
        some_reads([(9000, 6)], performed_by="io worker", direct=True, blocks=96, size="16+"),
    ]
    lines = block(reads, 10**6, [], width=200)
    assert lines[3].strip() == "by backend 4, I/O workers 6   100 blocks, 740 ns a block   " + (
        "direct I/O 6"
    )
    assert "Reading took 20.0 µs of 1.00 ms (2 %)" in lines[1]
    assert lines[1].endswith(". Overlapped: I/O workers 54.0 µs.")
    waited = block(reads[1:], 10**6, [], waited_ns=7000, width=200)[1]
    assert "The backend itself made no read. Overlapped: I/O workers 54.0 µs, " in waited
    assert "for which the backend waited 7.00 µs." in waited


def test_what_lay_in_an_io_workers_queue_is_told_apart_from_the_reading() -> None:
    waited = some_reads([(9000, 6)], performed_by="io worker", queued_ns=120_000)
    assert block([waited], 10**6, [])[3].strip() == (
        "by I/O workers 6   in the queue before that 120 µs"
    )


def test_plain_reads_of_the_backend_have_no_line_of_details() -> None:
    assert block([some_reads([(5000, 4)])], 10**6, [])[3].split() == ["from", "reads", "time"]


def test_failed_and_short_reads_have_their_own_line() -> None:
    lines = block([], None, [], failed=Excluded(2, 0, 0, 12_000), short=Excluded(1, 4096, 0, 3_000))
    assert [line.strip() for line in lines[1:]] == [
        "failed 2 in 12.0 µs   came short 1, got 4.0 KiB in 3.00 µs", "(not counted above)"
    ]  # fmt: skip
    assert block([], None, [], failed=Excluded(), short=Excluded()) == block([], None, [])


def test_writes_are_not_counted_as_reads() -> None:
    write = some_reads([(5000, 4)], operation="write")
    assert block([write], None, []) == block([], None, [])


def test_the_tails_are_not_cut_off() -> None:
    rows = chart(some_histogram([(3, 1), (9_000, 1_000_000), (10**9, 1)]))[1:]
    assert len(rows) == 29  # 2 ns, 4 ns ... 537 ms
    assert rows[0].split() == ["2", "ns", "1", "0", "%"]
    assert rows[-1].split() == ["537", "ms", "1", "10", "%"]


latencies = st.lists(st.tuples(st.integers(0, 2**42), st.integers(1, 10**12)), max_size=20)


@given(latencies, st.integers(40, 200))
def test_a_chart_shows_every_read_and_fits(sample: list[tuple[int, int]], width: int) -> None:
    lines = chart(some_histogram(sample), width)
    assert all(len(line) <= max(width, 54) for line in lines)
    counts = [int(line[9:].split()[0].replace(",", "")) for line in lines[1:]]
    assert sum(counts) == sum(n for _, n in sample)
    bars = [line.count("█") for line in lines[1:]]
    assert max(bars, default=0) <= 48
    for count, bar in zip(counts, bars, strict=True):
        assert bar == max(bars) or count < max(counts)


@pytest.mark.parametrize("width", [80, 60])
def test_the_longest_bar_fills_its_column(width: int) -> None:
    row = chart(some_histogram([(9_000, 5)]), width)[1]
    assert row.count("█") == {80: 48, 60: 28}[width]
    assert len(row) == {80: 79, 60: 60 - 1}[width]


def test_a_report_begins_with_the_answer_and_ends_with_how_it_was_measured() -> None:
    backend = some_backend(queries=[some_query(io=[CACHED, DEVICE])])
    lines = capture_report.render(some_capture(backend)).splitlines()
    assert lines[:2] == ["Capture of 2026-01-31 12:00:00 UTC, 10.0 s, kernel 6.1.0, 2 CPUs", ""]
    begin = lines.index("Backend 5167  postgres@digoal  client backend  PostgreSQL 15.18  psql")
    answer = " ".join(lines[2 : begin - 1])
    assert answer.startswith("Statements ran for 4.00 s in 10.0 s: they read for ")
    assert " of that waiting was for one statement: " in answer
    assert lines[-4:] == [
        "Reads by fentry (vfs_read, vfs_readv), queries by USDT, engine libbpf.",
        "The shortest read that was seen took 4.00 µs.",
        "Not measured: writes, fsync, locks, CPU.",
        "Lost: nothing.",
    ]


def test_the_report_of_one_backend_shows_its_seconds() -> None:
    of_device = [IntervalIo("read", "device", 1, 8192, 1_000_000, {19: 1})]
    seconds = [Interval(float(n), [], 1.0, of_device) for n in range(4)]
    report = capture_report.render(some_capture(some_backend(), intervals=seconds, duration_s=4.0))
    assert "\nWaiting for the device each second (█: 1.00 ms)\n12:00:00 ████ 12:00:04\n" in report


def test_what_was_lost_or_not_measured_is_said_at_the_top() -> None:
    probes = Probes("bcc", "kprobe", "none", ["queries: no probes in the binary"])
    taken = some_capture(
        some_backend(), probes=probes, lost=Lost(1200, queries=1, in_flight={"read": 2})
    )
    report = unfolded(capture_report.render(taken))
    assert "Not measured: queries: no probes in the binary\n" in report
    assert re.search(
        r"Lost, and in no number below: 1,200 reads \(.*\) and 1 query.*\. Queries ended "
        r"faster than their records were fetched: ",
        report,
    )
    assert "Under way when tracing stopped: 2 reads.\n" in report
    assert "Lost: nothing" not in report
    assert "\nNot measured: writes, fsync, locks, CPU.\n" in report


def test_backends_that_were_lost_are_told_with_the_option_that_raises_their_number() -> None:
    report = capture_report.render(some_capture(some_backend(), lost=Lost(backends=8)))
    assert "Lost, and in no number below: 8 whole backends. " in report
    assert "raise --max-backends" in report
    assert "Lost: nothing" not in report
    lost = Lost(3, queries=2, backends=1)
    report = unfolded(capture_report.render(some_capture(some_backend(), lost=lost)))
    assert re.search(r"below: 3 reads \(.*\), 2 queries.* and 1 whole backend\. ", report)
    report = capture_report.render(some_capture(some_backend(), lost=Lost(3)))
    assert "--max-backends" not in report


def test_probes_that_the_kernel_left_out_are_told() -> None:
    report = unfolded(capture_report.render(some_capture(some_backend(), lost=Lost(missed=2084))))
    assert "2,084 times the kernel left out a probe" in report
    assert "Lost: nothing" not in report
    report = unfolded(capture_report.render(some_capture(some_backend(), lost=Lost(missed=1))))
    assert "Once the kernel left out a probe" in report


def test_gaps_are_told() -> None:
    """When a server was away, and whether it came back; what is its directory's name is escaped."""
    gaps = [
        Gap("/data", "2026-01-31T12:00:00.500000Z", "2026-01-31T12:00:03.000000Z"),
        Gap("/a\x1bb", "2026-01-31T12:00:04.000000Z", None),
        Gap("/data", "2026-01-31T12:00:05.000000Z", "2026-01-31T12:00:06.000000Z", "crash"),
    ]
    report = unfolded(capture_report.render(some_capture(some_backend(), gaps=gaps)))
    assert (
        "Not running, from 2026-01-31 12:00:00 UTC until 2026-01-31 12:00:03 UTC: "
        "the server in /data.\n"
    ) in report
    assert (
        "Not running, from 2026-01-31 12:00:04 UTC to the end: the server in /a\\x1bb.\n"
        "No connections after a crash, from 2026-01-31 12:00:05 UTC until 2026-01-31 12:00:06 UTC: "
        "the server in /data.\n"
    ) in report


def test_reads_in_queries_and_outside_are_kept_apart() -> None:
    report = capture_report.render(some_capture(some_backend()))
    assert f"In queries  {88_335 + 5_903:,} reads" in report
    assert "Outside     51 reads" in report


def test_without_query_probes_nothing_is_called_outside() -> None:
    report = capture_report.render(
        some_capture(some_backend(), probes=Probes("libbpf", "fentry", "none"))
    )
    assert f"All reads   {88_335 + 5_903 + 51:,} reads" in report
    assert "Outside" not in report
    assert "queries not measured" in report


def test_a_statement_has_its_calls_latencies_and_block() -> None:
    lines = capture_report.render(some_capture(some_backend())).splitlines()
    at = lines.index("▶ select $1")
    assert lines[at + 1] == (
        "  3 calls  1 error  extended protocol  latency p50 1.0 s  p99 2.0 s  max 2.0 s"
    )
    assert lines[at + 2].startswith("■ 4.00 s    88,335 reads   690.1 MiB")
    assert lines[at + 3].startswith("  Reading took 0.86 s of 4.00 s (21 %)")


def test_a_query_that_began_before_or_did_not_end_is_marked() -> None:
    query = some_query(begun_before=True, unfinished=True, calls=0, latency=Latencies())
    report = capture_report.render(some_capture(some_backend(queries=[query])))
    assert "  Begun before tracing: time and reads count from when tracing began.\n" in report
    assert "  Not ended when tracing stopped: its reads so far.\n" in report
    assert "latency" not in report
    assert "\n□           88,335 reads" in report
    assert "of 10.0 s" not in report.split("▶")[1]


def test_failed_and_short_reads_of_a_backend_are_shown() -> None:
    backend = Backend(9, failed={"read": Excluded(3, 0, 0, 9_000)})
    report = capture_report.render(some_capture(backend))
    assert "failed 3 in 9.00 µs   (not counted above)" in report
    assert "Backend 9\n" in report.replace("  PostgreSQL 15.18", "")


def test_quiet_backends_are_named_in_one_line() -> None:
    report = capture_report.render(some_capture(some_backend(), Backend(7), Backend(8)))
    assert "\nNeither reads nor queries: backends 7, 8\n" in report
    assert "Backend 7" not in report
    assert "\nNo backend was seen.\n" in capture_report.render(some_capture())


def test_statements_beyond_the_most_are_summed_up() -> None:
    queries = [some_query(text=f"select {n}") for n in range(23)]
    report = capture_report.render(some_capture(some_backend(queries=queries)))
    assert report.count("▶") == capture_report.MOST_STATEMENTS == 20
    assert f"3 more statements, in --format json: 9 calls, 12.0 s, {3 * 88_335:,} reads\n" in report


def test_names_and_texts_cannot_act_on_the_terminal() -> None:
    backend = some_backend(datname="a\x1b[2J", application_name="b\u202e", backend_type="c\x9b")
    backend.queries[0].text = "select \x1b]0;x\x07\n$1"
    probes = Probes("libbpf", "fentry", "usdt", ["a probe: \x1b"])
    report = capture_report.render(some_capture(backend, host=Host("6\x1b", 1), probes=probes))
    assert "\x1b" not in report
    assert "\u202e" not in report
    assert r"▶ select \x1b]0;x\x07 $1" in report
    assert r"postgres@a\x1b[2J  c\x9b" in report


@pytest.mark.parametrize(
    ("query", "shown"),
    [
        ({"text": None}, "▶ (text not known)\n"),
        ({"text": "select a", "text_cut": True}, "▶ select a …\n"),
        ({"text": "select a…", "text_cut": True}, "▶ select a…\n"),
        ({"text": "word " * 20}, "▶ " + "word " * 14 + "word\n  " + "word " * 4 + "word\n"),
    ],
)
def test_texts_are_folded_and_cuts_are_marked(query: dict[str, Any], shown: str) -> None:
    assert shown in capture_report.render(some_capture(some_backend(queries=[some_query(**query)])))


def test_a_narrow_report_has_shorter_bars() -> None:
    taken = some_capture(some_backend())
    rows = [line for line in capture_report.render(taken, width=60).splitlines() if "█" in line]
    assert max(map(len, rows)) == 59


def test_json_is_what_load_reads(tmp_path: Path) -> None:
    taken = some_capture(some_backend())
    (tmp_path / "a.json").write_bytes(encode(taken))
    assert load(tmp_path / "a.json") == taken


def intervals(path: Path) -> dict[str, Any]:
    """What HdrHistogram's own reader finds, by tag."""
    from hdrh.histogram import HdrHistogram
    from hdrh.log import HistogramLogReader

    reader = HistogramLogReader(str(path), HdrHistogram(1, 2**40, 3))
    found: dict[str, Any] = {}
    while (histogram := reader.get_next_interval_histogram()) is not None:
        assert histogram.get_tag() not in found
        found[histogram.get_tag()] = histogram
    assert reader.get_start_time_sec() == 1769860800.0
    reader.input_file.close()
    return found


def test_a_log_is_tagged_and_commented(tmp_path: Path) -> None:
    (tmp_path / "a.hlog").write_text(hlog.render(some_capture(some_backend(), Backend(7))))
    lines = (tmp_path / "a.hlog").read_text().splitlines()
    assert lines[0] == "#[Histogram log format version 1.3]"
    assert (
        "#[StartTime: 1769860800.000 (seconds since epoch), 2026-01-31T12:00:00.000000Z]" in lines
    )
    assert lines[5].startswith('"StartTimestamp","Interval_Length"')
    assert [line.split(",")[:4] for line in lines[6:]] == [
        ["Tag=5167.read.device.query", "0.000", "10.000", "0.087000"],
        ["Tag=5167.read.page_cache.outside", "0.000", "10.000", "0.004000"],
        ["Tag=5167.read.page_cache.query", "0.000", "10.000", "0.023000"],
    ]
    found = intervals(tmp_path / "a.hlog")
    assert found["5167.read.device.query"].get_total_count() == 5_903
    assert found["5167.read.device.query"].get_start_time_stamp() == 1769860800_000
    assert found["5167.read.device.query"].get_end_time_stamp() == 1769860810_000


some_latencies = st.lists(
    st.tuples(st.integers(0, 2**42), st.integers(1, 10**9)), min_size=1, max_size=20
)


@given(some_latencies, some_latencies)
def test_hdrhistograms_reader_finds_the_same_counts_and_percentiles(
    tmp_path_factory: pytest.TempPathFactory,
    one: list[tuple[int, int]],
    other: list[tuple[int, int]],
) -> None:
    reads = [some_reads(one), some_reads(other, pattern="random")]
    path = tmp_path_factory.getbasetemp() / "some.hlog"
    path.write_text(hlog.render(some_capture(some_backend(io=reads))))
    both = some_histogram(one + other)
    (found,) = intervals(path).values()
    assert found.get_total_count() == both.count
    for p in (50, 90, 99, 99.9):
        rank = found.get_target_count_at_percentile(p)
        ours = both.percentile(100 * (rank - 0.5) / both.count)
        assert ours is not None
        if rank < both.count:  # the last is the greatest, which a log of middles cannot hold
            assert found.get_value_at_percentile(p) == pytest.approx(ours, rel=0.002, abs=1)


def test_the_backends_that_took_longest_are_drawn_and_the_others_added_up() -> None:
    backends = [
        some_backend(pid=1000 + n, io=[some_reads([(100_000 - n, 10)])], queries=[])
        for n in range(capture_report.MOST_BACKENDS + 3)
    ]
    shown = capture_report.render(some_capture(*reversed(backends)))
    drawn = [line for line in shown.splitlines() if line.startswith("Backend ")]
    assert len(drawn) == capture_report.MOST_BACKENDS
    assert drawn[0].startswith("Backend 1000 "), "the slowest first"
    assert drawn[-1].startswith(f"Backend {1000 + capture_report.MOST_BACKENDS - 1} ")
    last = shown.partition("\n3 more backends, one by one in --format json\n")[2]
    assert last.startswith("In queries  30 reads   ")


@pytest.mark.parametrize(
    ("queries", "words"),
    [
        ("usdt", "Neither reads nor queries: backend 99"),
        ("memory", "No reads: backend 99"),
        ("none", "No reads: backend 99"),
    ],
)
def test_backend_that_did_nothing_that_is_measured(
    queries: Literal["usdt", "memory", "none"], words: str
) -> None:
    """Of queries that nobody counted it is not said that there were none."""
    silent = msgspec.structs.replace(some_backend(), pid=99, io=[], queries=[])
    taken = some_capture(some_backend(), silent)
    taken.probes.queries = queries
    assert words in capture_report.render(taken)


def test_a_block_names_the_relation_in_which_reading_took_longest() -> None:
    """Where files are told apart; whoever read; and where there was one alone, that is said."""
    small = some_reads([(1_000, 5)], kind="index", relation="public.t_id")
    large = some_reads([(95_000, 1)], kind="heap", relation="public.t", performed_by="io worker")
    both = " ".join(" ".join(block([small, large], 10**6, [])).split())
    assert "Longest in public.t (heap): 1 read in 95.0 µs (95 % of reading)." in both
    assert "heap 1 in 95.0 µs index 5 in 5.00 µs" in both
    one = " ".join(" ".join(block([small, small], 10**6, [])).split())
    assert "All of it was in public.t_id (index)." in one
    assert "index 10 in" not in one
    none = " ".join(block([some_reads([(1_000, 5)])], 10**6, []))
    assert "Longest" not in none
    assert "All of it" not in none
