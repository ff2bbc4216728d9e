"""The sync experiment's own parts: what --server says, the server's log, what counts as a sync,
and what is said of two servers, one of which may never do what the other does."""

from pathlib import Path
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lab_results import reads
from pgtrace.errors import UsageError
from pgtrace.lab.core.aggregate import merged
from pgtrace.lab.sync import findings as sync_findings
from pgtrace.lab.sync.findings import compared, is_difference, sync_count, sync_s_per_gib
from pgtrace.lab.sync.load import Size
from pgtrace.lab.sync.measuring import logged
from pgtrace.lab.sync.result import (
    Checkpoint,
    ComparedServer,
    DifferenceDetails,
    SyncCell,
    SyncOptions,
    SyncResult,
)
from pgtrace.lab.sync.servers import differences, parse
from pgtrace.linux.block_device import since
from pgtrace.model.capture import Host, Io, Lost, Probes, Server
from pgtrace.model.lab_result import DeviceWork

SYNCS = DifferenceDetails("wide", "load", "syncs", of="B", against="A")
COUNTS = st.dictionaries(st.integers(1, 9), st.floats(1, 1e9), min_size=1, max_size=9)


def sync(kind: str, count: int, mean_ns: float, call: str | None = "fdatasync") -> Io:
    found = reads(Random(1), "wait", "unknown", count, mean_ns, kind=kind)
    found.operation = "fsync" if call else "write"
    found.call = call  # type: ignore[assignment]
    return found


def result(method: str, *cells: SyncCell, fsync: str = "on") -> SyncResult:
    servers = [
        ComparedServer(name, "/bin", fsync=fsync, wal_sync_method=method) for name in ("A", "B")
    ]
    options = SyncOptions(
        servers, differences={}, wal_storage="disk", data_storage="disk", rows=1, transactions=1,
        clients=1, bulk_rows=1, narrow_keys=1,
    )  # fmt: skip
    return SyncResult(
        partial=False, started="2026-11-21T00:00:00.000000Z", duration_s=1.0,
        host=Host("6.1", 2), server=Server("15.1"),
        probes=Probes("libbpf", "tracepoint", "none"), lost=Lost(), options=options, storages=[],
        cells=list(cells),
    )  # fmt: skip


def cell_of(server: str, by_backend_type: dict[str, list[Io]]) -> SyncCell:
    return SyncCell(
        "disk", 1, 1.0, server=server, load="wide", phase="load", by_backend_type=by_backend_type
    )


def test_a_server_is_its_programs_and_settings() -> None:
    found = parse("A=/usr/lib/pg/bin,fsync=off,Shared_Preload_Libraries=a,b,search_path=")
    assert (found.name, found.bindir) == ("A", Path("/usr/lib/pg/bin"))
    assert dict(found.settings) == {
        "fsync": "off",
        "shared_preload_libraries": "a,b",
        "search_path": "",
    }
    for text in "A", "A=", "=/bin", "a b=/bin", "A=/bin,fsync", "A=/bin,=1", "A=/bin,port=1":
        with pytest.raises(UsageError):
            parse(text)


@pytest.mark.parametrize(
    ("line", "found"),
    [
        (
            "checkpoint complete: wrote 352 buffers (2.1%); 0 WAL file(s) added, 0 removed, 1 "
            "recycled; write=0.017 s, sync=0.037 s, total=0.102 s; sync files=12, longest=0.020 s",
            Checkpoint(None, None, None, 0.017, 0.037, 0.102, 352, 12),
        ),
        (  # PostgreSQL 18
            "checkpoint complete: wrote 3 buffers (0.0%), wrote 2 SLRU buffers; 0 WAL file(s) "
            "added, 0 removed, 0 recycled; write=1.002 s, sync=0.001 s, total=1.010 s; sync "
            "files=3, longest=0.001 s, average=0.001 s",
            Checkpoint(None, None, None, 1.002, 0.001, 1.01, 3, 3),
        ),
        ("checkpoint starting: immediate force wait", Checkpoint()),
    ],
)
def test_the_servers_line_of_a_checkpoint(line: str, found: Checkpoint) -> None:
    assert logged(f"2026 [1] LOG:  {line}\n") == found


def test_writes_of_wal_are_syncs_where_they_make_it_last() -> None:
    wal = [sync("wal", 3, 1e6), sync("wal", 5, 1e6, call=None)]
    data = [sync("relation", 7, 1e6, call="fsync"), sync("relation", 11, 1e6, call=None)]
    cell = cell_of("A", {"client backend": [*wal, *data]})
    for method, fsync, expected in (
        ("fdatasync", "on", 3),
        ("open_datasync", "on", 8),
        ("open_sync", "off", 3),
    ):
        assert sync_count(result(method, fsync=fsync), cell, "WAL") == expected
        assert sync_count(result(method, fsync=fsync), cell, "data") == 7
    time_s = wal[0].total_ns / 1e9
    of_gib = sync_s_per_gib(result("fdatasync"), cell, "WAL")
    assert of_gib == pytest.approx(time_s * (1 << 30) / wal[1].bytes)
    silent = cell_of("A", {"client backend": wal[:1]})
    assert sync_s_per_gib(result("fdatasync"), silent, "WAL") is None


def test_what_one_never_does_is_a_difference() -> None:
    never, some = {1: 0.0, 2: 0.0}, {1: 5.0, 2: 7.0}
    found = compared(SYNCS, some, never)
    assert found and found.verdict == "a difference: A has some in every run, B none"
    assert is_difference(found)
    found = compared(SYNCS, never, some)
    assert found and found.verdict == "a difference: B has some in every run, A none"
    assert compared(SYNCS, never, never) is None
    assert compared(SYNCS, {1: 1.0}, {2: 1.0}) is None
    found = compared(SYNCS, some, {1: 0.0, 2: 7.0})
    assert found and not is_difference(found)


@given(COUNTS)
def test_a_server_is_not_different_from_itself(values: dict[int, float]) -> None:
    found = compared(SYNCS, values, values)
    assert found and not is_difference(found)
    assert found.value == pytest.approx(1)


def test_ten_times_as_much_is_a_difference() -> None:
    ours = {1: 1.0, 2: 1.1, 3: 0.9}
    found = compared(SYNCS, ours, {run: 10 * value for run, value in ours.items()})
    assert found and is_difference(found)
    assert found.verdict.startswith("B has 10.0")


def test_processes_of_a_kind_are_added_up() -> None:
    one, two = sync("wal", 3, 1e6), sync("wal", 5, 2e6)
    other = sync("relation", 7, 1e6, call="fsync")
    found = merged([one, other, two])
    assert [(r.kind, r.count) for r in found] == [("wal", 8), ("relation", 7)]
    assert found[0].total_ns == one.total_ns + two.total_ns
    assert found[0].latency.min == min(one.latency.min, two.latency.min)
    assert found[0].latency.max == max(one.latency.max, two.latency.max)
    assert sum(n for _, _, n in found[0].latency.buckets) == 8


def test_syncs_are_grouped_by_file_process_and_call() -> None:
    cell = cell_of(
        "B",
        {
            "checkpointer": [sync("slru", 1, 1e6, call="fsync")],
            "client backend": [sync("wal", 3, 1e6), sync("wal", 2, 1e6, call=None)],
        },
    )
    found = sync_findings.groups(result("fdatasync", cell))
    assert [(tuple(group), list(by)) for group, by in found.items()] == [
        (("WAL", "client backend", "fdatasync"), ["B"]),
        (("data", "checkpointer", "fsync"), ["B"]),
    ]
    assert sync_findings.DURABLE_WRITE in {
        group.call for group in sync_findings.groups(result("open_sync", cell))
    }


def test_what_a_device_did_is_a_difference_of_its_counters() -> None:
    before, after = DeviceWork(1, 2, 3, 0.5), DeviceWork(11, 12, 13, 1.0, 4)
    assert since(before, after) == DeviceWork(10, 10, 10, 0.5)
    assert since(None, after) is None


def test_settings_that_differ_whoever_set_them() -> None:
    settings = {"A": {"fsync": "on", "port": "1", "old": "x"}, "B": {"fsync": "off", "port": "1"}}
    assert differences(settings) == {"fsync": {"A": "on", "B": "off"}}


def test_narrow_keys_are_at_most_those_that_there_are() -> None:
    assert Size(200, 10, 2, 1).keys("narrow") == 200
    assert Size(5000, 10, 2, 1).keys("narrow") == 1000
    assert Size(5000, 10, 2, 1).keys("wide") == 5000
