"""What a page begins with: three figures, and a bar that is as long as the time it shows."""

import re
from html import unescape
from typing import Any

import pytest

from captures import CACHED, DEVICE, some_backend, some_capture, some_query, some_reads
from pgtrace.model.capture import Buffers, Capture, Executions, Io, Probes
from pgtrace.reporters.html.opening import opening
from some_times import probes, spent

MS = 1_000_000
SLOW = some_reads([(10 * MS, 100)], source="device")
"""One second of waiting, of the four that statements took."""
QUICK = some_reads([(MS, 300)])


def of_statements(*reads: Io, **fields: Any) -> Capture:
    query = some_query(io=list(reads))
    return some_capture(some_backend(io=list(reads), queries=[query]), **fields)


def light(*io: Io, **fields: Any) -> Capture:
    """The time of statements is not measured."""
    probes = Probes("libbpf", "fentry", "memory")
    return some_capture(some_backend(io=list(io), queries=[]), probes=probes, **fields)


def figures(capture: Capture) -> dict[str, str]:
    found = re.findall(r"<dt>(.*?)</dt><dd>(.*?)</dd>", opening(capture))
    return {name: unescape(value) for name, value in found}


def keys(capture: Capture) -> list[str]:
    return [unescape(key) for key in re.findall(r"</svg> (.*?)</li>", opening(capture))]


def test_of_statements_all_of_their_time_is_shown() -> None:
    capture = of_statements(SLOW, QUICK)
    assert figures(capture) == {
        "waiting for the device": "1.00 s, 25 % of statements",
        "blocks out of the page cache": "75 %",
        "p99 of reads that waited for it": "10 ms",
    }
    assert keys(capture) == [
        "device: 1.00 s, 25 %",
        "page cache: 300 ms, 7.5 %",
        "everything else, such as CPU and locks: 2.70 s, 68 %",
    ]


def test_the_rest_is_told_where_it_was_measured() -> None:
    """A read's sleep is the read, and what the page cache gave was work of a CPU: not twice."""
    times = [
        spent("sleep", 1000 * MS, ("IO", "DataFileRead")),
        spent("cpu", 1100 * MS),
        spent("run_queue", 200 * MS),
        spent("sleep", 900 * MS, ("Lock", "transactionid")),
        spent("sleep", 100 * MS, ("LWLock", "WALWrite")),
        spent("sleep", 400 * MS, ("Client", "ClientWrite")),
        spent("sleep", 300 * MS, ("Timeout", "PgSleep")),
        spent("cpu", 10**12, performed_by="parallel worker"),
    ]
    query = some_query(io=[SLOW, QUICK], times=times)
    capture = some_capture(some_backend(io=[SLOW, QUICK], queries=[query]), probes=probes())
    assert keys(capture) == [
        "device: 1.00 s, 25 %",
        "page cache: 300 ms, 7.5 %",
        "CPU: 800 ms, 20 %",
        "waiting for a CPU: 200 ms, 5.0 %",
        "locks: 1.00 s, 25 %",
        "the client: 400 ms, 10 %",
        "everything else: 300 ms, 7.5 %",
    ]


def test_what_helpers_read_meanwhile_is_no_part_of_that_time() -> None:
    beside = some_reads([(10 * MS, 900)], source="device", performed_by="io worker")
    assert keys(of_statements(SLOW, beside))[0] == "device: 1.00 s, 25 %"


def test_the_time_of_statements_may_be_what_the_server_has_counted() -> None:
    """Of those that were traced: it counts others', too."""
    query = some_query(io=[SLOW], query_id=5, calls=None, latency=None)
    counted = [Executions(5, 7, 2000 * MS), Executions(6, 7, 10**12)]
    capture = some_capture(
        some_backend(io=[SLOW], queries=[query]),
        probes=Probes("libbpf", "fentry", "memory"),
        executions=counted,
    )
    assert figures(capture)["waiting for the device"] == "1.00 s, 50 % of statements"
    assert keys(capture) == [
        "device: 1.00 s, 50 %", "everything else, such as CPU and locks: 1.00 s, 50 %",
    ]  # fmt: skip


def test_without_the_time_of_statements_it_is_that_of_all_io() -> None:
    write = some_reads([(MS, 200)], operation="write")
    sync = some_reads(
        [(100 * MS, 5)], source="wait", operation="fsync", call="fdatasync", size=None
    )
    capture = light(SLOW, QUICK, write, sync, buffers=[Buffers("shop", 3600, 400)])
    assert figures(capture) == {
        "waiting for the device": "1.00 s, 77 % of reading",
        "blocks out of shared_buffers or the page cache": "98 %",
        "p99 of reads that waited for it": "10 ms",
    }
    assert keys(capture) == [
        "device: 1.00 s, 50 %", "page cache: 300 ms, 15 %", "writing: 200 ms, 10 %",
        "fsync: 500 ms, 25 %",
    ]  # fmt: skip


@pytest.mark.parametrize("capture", [of_statements(SLOW, QUICK), light(CACHED, DEVICE)])
def test_each_part_is_as_long_as_its_share_and_together_they_fill_the_bar(
    capture: Capture,
) -> None:
    bar = re.search(r"<svg role.*?</svg>", opening(capture))
    assert bar
    found = re.findall(r'x="([\d.]+)" width="([\d.]+)".*?<title>.*?, ([\d.]+) %', bar[0])
    at = 0.0
    for x, width, share in found:
        assert float(x) == pytest.approx(at, abs=0.02)
        assert float(width) == pytest.approx(10 * float(share), abs=6)
        at += float(width) + 1
    assert at == pytest.approx(1000, abs=0.1)


def test_what_is_not_measured_is_not_nothing() -> None:
    capture = light(some_reads([(MS, 300)], source="unknown"))
    assert figures(capture) == {
        "waiting for the device": "not measured",
        "blocks out of the page cache": "not measured",
        "p99 of reads": "1.0 ms",
    }
    assert keys(capture) == ["reads, of which no source is known: 300 ms, 100 %"]


def test_where_nobody_waited_it_is_all_reads_of_which_p99_is_told() -> None:
    told = figures(light(QUICK))
    assert told["waiting for the device"] == "0 ns, 0 % of reading"
    assert told["blocks out of the page cache"] == "100 %"
    assert told["p99 of reads"] == "1.0 ms"


def test_reads_that_took_no_time_have_no_bar() -> None:
    assert keys(light(some_reads([(0, 5)], source="device"))) == []


def test_of_nothing_there_is_nothing() -> None:
    assert opening(some_capture()) == ""
    assert opening(some_capture(some_backend(io=[]))) == ""


def test_the_figures_are_of_what_took_longest() -> None:
    """Of whatever that was, three."""
    sync = some_reads([(5 * MS, 40)], operation="fsync", source="wait", bytes=0, blocks=0)
    assert figures(light(QUICK, sync)) != figures(light(sync))
    assert figures(light(sync)) == {
        "in fsync": "200 ms, of all processes together",
        "fsyncs": "40, 4.00 a second",
        "p99 of fsyncs": "5.0 ms",
    }
    write = some_reads([(MS, 2)], operation="write")
    assert figures(light(write))["writing"] == "2.00 ms, of all processes together"


def test_of_what_the_server_counted_commits_are_no_part() -> None:
    """What a commit syncs is not in the time that pg_stat_statements has: what is left of that time
    would be too little. So the bar is of all that was measured.
    """
    sync = some_reads([(5 * MS, 100)], operation="fsync", source="wait", bytes=0, blocks=0)
    query = some_query(io=[QUICK, sync], calls=None, errors=None, latency=None, query_id=1)
    capture = light(QUICK, sync, executions=[Executions(1, 10, 600 * MS)])
    capture.backends[0].queries = [query]
    assert keys(capture) == ["page cache: 300 ms, 38 %", "fsync: 500 ms, 62 %"]
    assert "Where the time of all I/O went" in opening(capture)


def test_what_was_read_for_calls_that_did_not_end_is_no_share_of_the_time_of_others() -> None:
    """One was cancelled each time, which the server does not count."""
    queries = [
        some_query(io=[SLOW], query_id=number, calls=None, errors=None, latency=None)
        for number in (1, 2)
    ]
    capture = light(SLOW, SLOW, executions=[Executions(1, 10, 5_000 * MS), Executions(2, 0, 0)])
    capture.backends[0].queries = queries
    assert figures(capture)["waiting for the device"] == "1.00 s, 20 % of statements"
    assert keys(capture)[0] == "device: 1.00 s, 20 %"
    capture.executions[1] = Executions(2, 3, 3_000 * MS)
    assert figures(capture)["waiting for the device"] == "2.00 s, 25 % of statements"
