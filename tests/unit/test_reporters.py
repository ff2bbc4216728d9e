"""Reports: the promised screen, and nothing lost, hidden or shown as zero that is not known."""

from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pgtrace.capture import Apart, Reads
from pgtrace.histogram import Histogram
from pgtrace.reporters.block import block, chart


def some_reads(latencies: Iterable[tuple[int, int]], **fields: Any) -> Reads:
    """Reads of one 8 KiB block each, from (ns, how many)."""
    histogram = Histogram()
    for ns, count in latencies:
        histogram.add(ns, count)
    count = histogram.count
    usual: dict[str, Any] = {
        "source": "page_cache",
        "pattern": "sequential",
        "size": "1",
        "scope": "query",
        "count": count,
        "bytes": count * 8192,
        "blocks": count,
        "device_bytes": 0,
        "total_ns": histogram.total_ns,
        "min_ns": histogram.min_ns or 0,
        "max_ns": histogram.max_ns or 0,
        "histogram": histogram.to_data(),
    }
    return Reads(**(usual | fields))


CACHED = some_reads([(6_000, 109), (9_400, 86_181), (23_000, 2_045)])
ISSUED = some_reads([(40_000, 90)], source="readahead_issued", device_bytes=11_796_480)
DEVICE = some_reads([(78_500, 4_948), (87_000, 955)], source="device", device_bytes=761_921_536)
WAITED = some_reads(
    [(200_000, 72), (300_000, 7), (600_000, 9), (1_500_000, 1), (2_300_000, 1)], source="wait"
)
PROMISED = """\
■ 4.33 s    94,418 reads   737.6 MiB   mean 14.4 µs   p50 9.5 µs   p99 88 µs   max 2.3 ms
            page cache 88,335   read-ahead issued 90   device 5,903   wait 90\
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
  Reading took 1.36 s of 4.33 s (31 %), waiting for the device 0.47 s (11 %), other waits 25.7 ms. \
Not measured: writes, fsync, locks, CPU."""


def test_a_block_is_the_promised_screen() -> None:
    lines = block([CACHED, ISSUED, DEVICE, WAITED], 4_330_000_000, [], lead="■ 4.33 s")
    assert "\n".join(lines).splitlines() == PROMISED.splitlines()


def test_no_reads_is_said_and_not_drawn() -> None:
    assert block([], 10**9, [], lead="■ 1.00 s") == [
        "■ 1.00 s    no reads",
        "  Not measured: writes, fsync, locks, CPU.",
    ]


def test_reads_without_probes_are_not_measured_rather_than_none() -> None:
    first, last = block([], 10**9, ["reads"])
    assert first.strip() == "reads: not measured"
    assert last == "  Not measured: reads, writes, fsync, locks, CPU."


def test_an_unknown_source_is_never_shown_as_zero() -> None:
    text = "\n".join(block([some_reads([(5000, 3)], source="unknown")], 10**9, []))
    assert "where they were served: not measured" in text
    assert "waiting for the device: not measured" in text
    assert "device 0" not in text


def test_partly_unknown_sources_make_the_wait_a_lower_bound() -> None:
    reads = [some_reads([(5000, 3)], source="unknown"), some_reads([(10**8, 1)], source="device")]
    text = "\n".join(block(reads, 10**9, []))
    assert "device 1   wait 0   unknown 3" in text
    assert "waiting for the device at least 0.10 s (10 %)" in text


def test_without_a_latency_the_shares_are_of_the_reading() -> None:
    reads = [some_reads([(3_000_000, 1)]), some_reads([(1_000_000, 1)], source="device")]
    sentence = block(reads, None, [])[-1]
    assert "Reading took 4.00 ms, waiting for the device 1.00 ms (25 % of it)." in sentence


def test_reads_by_other_processes_direct_ones_and_large_ones_are_marked() -> None:
    reads = [
        some_reads([(5000, 4)]),
        some_reads([(9000, 6)], performed_by="io worker", direct=True, blocks=96, size="16+"),
    ]
    lines = block(reads, 10**6, [])
    assert lines[2].strip() == "by backend 4, I/O workers 6   100 blocks, 740 ns a block   " + (
        "direct I/O 6"
    )
    assert "of 1.00 ms (7 %), all its processes added up" in lines[-1]


def test_plain_reads_of_the_backend_have_no_line_of_details() -> None:
    assert block([some_reads([(5000, 4)])], 10**6, [])[2].split() == ["from", "reads", "time"]


def test_failed_and_short_reads_have_their_own_line() -> None:
    lines = block([], None, [], failed=Apart(2, 0, 0, 12_000), short=Apart(1, 4096, 0, 3_000))
    assert lines[1].strip() == (
        "failed 2 in 12.0 µs   came short 1, got 4.0 KiB in 3.00 µs   (not counted above)"
    )
    assert block([], None, [], failed=Apart(), short=Apart()) == block([], None, [])


def test_writes_are_not_counted_as_reads() -> None:
    write = some_reads([(5000, 4)], operation="write")
    assert block([write], None, []) == block([], None, [])


def test_the_tails_are_not_cut_off() -> None:
    rows = chart(some_histogram([(3, 1), (9_000, 1_000_000), (10**9, 1)]))[1:]
    assert len(rows) == 29  # 2 ns, 4 ns ... 537 ms
    assert rows[0].split() == ["2", "ns", "1", "0", "%"]
    assert rows[-1].split() == ["537", "ms", "1", "10", "%"]


def some_histogram(latencies: Iterable[tuple[int, int]]) -> Histogram:
    histogram = Histogram()
    for ns, count in latencies:
        histogram.add(ns, count)
    return histogram


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
