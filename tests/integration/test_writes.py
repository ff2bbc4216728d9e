"""Which writes and fsyncs are counted, and how: by each probe type, of a program that is known."""

from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from bpf_left import held_by, ours
from fix_reader import Reader
from pgtrace import trace
from pgtrace.engines import OPERATIONS, ProbeType
from pgtrace.model.capture import Capture, Io, Operation, Total, of_operation
from scans import BLOCK, histogram, only, patterns
from worker import Worker

pytestmark = pytest.mark.vm
counts = pytest.mark.vm(tracepoints=True, core=True)
by_tracepoints_too = pytest.mark.vm(tracepoints=True)

WRITES = 10_007
WRITE_CALLS = ["pwrite", "write", "writev", "pwritev", "pwritev2"]
SYNCS = ["fsync", "fdatasync", "sync_file_range"]
PREFIXES = {
    "tracepoint": ("pgt_tpw_", "pgt_tps_"),
    "kprobe": ("pgt_kw_", "pgt_ks_"),
    "fentry": ("pgt_fw_", "pgt_fs_"),
}


@pytest.fixture
def written(disk_directory: Path) -> Iterator[Path]:
    file = disk_directory / "written"
    yield file
    file.unlink(missing_ok=True)


@pytest.fixture
def process() -> Iterator[Worker]:
    with Worker() as one:
        yield one


def traced(
    one: Reader, way: ProbeType, *operations: Operation
) -> tuple[Capture, dict[Operation, list[Io]]]:
    """What one program did, by operation."""
    with trace(
        one.pid, any_process=True, probe_type=way, operations=operations or OPERATIONS
    ) as tracer:
        one.go()
    taken = tracer.capture()
    lost = taken.lost
    assert (lost.write, lost.fsync, any(lost.in_flight.values())) == (0, 0, False)
    everything = only(taken).io
    return taken, {each: of_operation(everything, each) for each in OPERATIONS}


def calls(fsyncs: list[Io]) -> dict[str | None, int]:
    found: Counter[str | None] = Counter()
    for each in fsyncs:
        found[each.call] += each.count
    return dict(found)


@counts
@pytest.mark.parametrize("call", WRITE_CALLS)
def test_every_write_is_counted(
    writer: Callable[..., Reader], written: Path, way: ProbeType, call: str
) -> None:
    """10,007 writes of 8 KiB are 10,007 in the totals, by every call; none is a read."""
    taken, found = traced(writer(written, "--call", call, "--count", WRITES), way)
    totals = taken.totals
    assert (totals["write"].count, totals["write"].bytes) == (WRITES, WRITES * BLOCK)
    assert (totals["write"].failed, totals["write"].short) == (0, 0)
    assert (totals["read"].count, totals["read"].bytes, totals["fsync"].count) == (0, 0, 0)
    assert histogram(found["write"]).count == WRITES
    assert sum(r.blocks for r in found["write"]) == WRITES
    assert {r.source for r in found["write"]} <= {"page_cache", "wait"}
    assert {r.size for r in found["write"]} == {"1"}
    # From the start of the file again after 2,048
    again = (WRITES - 1) // 2048
    assert patterns(found["write"]) == {
        "first": 1,
        "sequential": WRITES - 1 - again,
        "random": again,
    }


@counts
@pytest.mark.parametrize("call", SYNCS)
def test_every_fsync_is_counted(
    writer: Callable[..., Reader], written: Path, way: ProbeType, call: str
) -> None:
    """After each third of 99 writes: 33 of that call, and of no other."""
    options = ("--sync", call, "--every", 3, "--count", 99)
    taken, found = traced(writer(written, *options), way)
    assert (taken.totals["write"].count, taken.totals["fsync"].count) == (99, 33)
    assert calls(found["fsync"]) == {call: 33}
    assert histogram(found["fsync"]).count == 33
    assert {(r.bytes, r.size, r.pattern) for r in found["fsync"]} == {(0, None, "unknown")}
    assert {r.source for r in found["fsync"]} <= {"wait", "unknown"}
    if call != "sync_file_range":
        assert "wait" in {r.source for r in found["fsync"]}


@by_tracepoints_too
def test_a_write_with_o_dsync_is_counted_once(
    writer: Callable[..., Reader], written: Path, way: ProbeType
) -> None:
    """The fsync in it is the write's, whether writes are looked at or not."""
    taken, found = traced(writer(written, "--dsync", "--count", 50), way)
    assert (taken.totals["write"].count, taken.totals["fsync"].count) == (50, 0)
    assert {r.source for r in found["write"]} - {"unknown"} == {"device"}
    assert not any(r.direct for r in found["write"])
    taken, found = traced(writer(written, "--dsync", "--count", 50), way, "fsync")
    assert taken.totals == {"fsync": Total()}


@by_tracepoints_too
def test_a_directory_is_synced(process: Worker, written: Path, way: ProbeType) -> None:
    """So that a new file's name lasts; to read one is still no read."""
    process.do(f"fd = os.open({str(written.parent)!r}, os.O_RDONLY)")
    with trace(process.pid, any_process=True, probe_type=way, operations=OPERATIONS) as tracer:
        process.do("assert libc.pread(fd, long(address), long(8192), long(0)) == -1")
        process.do("os.fsync(fd)")
        process.do("os.fdatasync(fd)")
    assert calls(only(tracer.capture()).io) == {"fsync": 1, "fdatasync": 1}
    assert tracer.capture().totals["read"].failed == 0


def test_direct_writes_are_marked(
    writer: Callable[..., Reader], written: Path, way: ProbeType
) -> None:
    """They wait for the device."""
    taken, found = traced(writer(written, "--direct", "--count", 50), way)
    assert taken.totals["write"].count == 50
    assert {r.direct for r in found["write"]} == {True}
    assert {r.source for r in found["write"]} <= {"device", "unknown"}


def test_only_what_is_asked_for_is_loaded_and_counted(
    writer: Callable[..., Reader], written: Path, way: ProbeType
) -> None:
    """Reads alone load no program of the others."""
    for operations in (("read",), ("write",), ("read", "fsync")):
        one = writer(written, "--sync", "fsync", "--count", 100)
        with trace(one.pid, any_process=True, probe_type=way, operations=operations) as tracer:
            held = held_by()
            names = [name for which, name in ours().items() if which in held]
            one.go()
        totals = tracer.capture().totals
        assert tracer.capture().probes.operations == list(operations)
        for operation, prefix in zip(("write", "fsync"), PREFIXES[way], strict=True):
            loaded = any(name.startswith(prefix) for name in names)
            assert loaded == (operation in operations), (operations, names)
        assert list(totals) == list(operations)
        for operation, made in ("write", 100), ("fsync", 10):
            assert operation not in totals or totals[operation].count == made


def test_failed_and_short_writes_are_counted_apart(
    process: Worker, written: Path, way: ProbeType
) -> None:
    """What fails on a file is failed, what a limit cuts is short, and neither is a write."""
    process.do("import resource")
    process.do(f"fd = os.open({str(written)!r}, os.O_RDWR | os.O_CREAT)")
    process.do(f"unwritable = os.open({str(written)!r}, os.O_RDONLY)")
    process.do("r, w = os.pipe()")
    process.do("resource.setrlimit(resource.RLIMIT_FSIZE, (65536, resource.RLIM_INFINITY))")
    with trace(process.pid, any_process=True, probe_type=way, operations=OPERATIONS) as tracer:
        process.do("assert libc.pwrite(unwritable, long(address), long(8192), long(0)) == -1")
        process.do("assert libc.pwrite(fd, long(address), long(8192), long(65536)) == -1")
        process.do("assert libc.pwrite(fd, long(address), long(8192), long(61440)) == 4096")
        process.do("assert libc.pwrite(fd, long(address), long(8192), long(0)) == 8192")
        process.do("assert libc.pwrite(w, long(address), long(99), long(0)) == -1")
        process.do("assert os.write(w, b'x') == 1")
        process.do("assert libc.fsync(w) == -1")
        process.do("assert libc.sync_file_range(fd, long(0), long(0), 77) == -1")
        process.do("assert libc.fsync(fd) == 0")
    totals = tracer.capture().totals
    assert (totals["write"].count, totals["write"].failed, totals["write"].short) == (1, 2, 1)
    assert (totals["fsync"].count, totals["fsync"].failed) == (1, 1)
    backend = only(tracer.capture())
    assert (backend.short["write"].bytes, totals["write"].bytes) == (4096, 8192)
    assert (totals["read"].failed, totals["read"].short) == (0, 0)


def test_writes_do_not_change_the_pattern_of_reads(
    process: Worker, data_file: Path, way: ProbeType
) -> None:
    """A relation that is written between two reads is still read in order, and the reverse."""
    process.do(f"fd = os.open({str(data_file)!r}, os.O_RDWR)")
    with trace(process.pid, any_process=True, probe_type=way, operations=OPERATIONS) as tracer:
        for block in range(10):
            process.do(f"assert len(os.pread(fd, 8192, {block} * 8192)) == 8192")
            process.do(f"assert os.pwrite(fd, bytes(8192), (500 - 2 * {block}) * 8192) == 8192")
    reads = only(tracer.capture()).io
    assert patterns(of_operation(reads)) == {"first": 1, "sequential": 9}
    assert patterns(of_operation(reads, "write")) == {"first": 1, "random": 9}
