"""Which reads are counted, and how: by each probe type, of any program and of a PostgreSQL query.

The host's kernel lets only the tracepoints in; fentry and kprobe are for the virtual machine.
"""

import os
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from child import Child
from fix_cluster import explain_buffers
from fix_reader import Reader
from pgtrace import trace
from pgtrace.engines import ProbeType
from pgtrace.lab.core.private_cluster import PrivateCluster
from pgtrace.linux.storage import storage
from pgtrace.tracing.options import TraceOptions
from pgtrace.tracing.tracer import Tracer
from processes import Processes
from read_ahead import USUAL_KIB, read_ahead
from scans import (
    ATTEMPTS,
    BLOCK,
    MAY_EXCEED,
    SCANS,
    accounted,
    anything_lost,
    count,
    device_bytes,
    explain_traced,
    histogram,
    new_backend,
    only,
    patterns,
    prepare,
    the_query,
)
from worker import Worker

pytestmark = pytest.mark.vm
counts = pytest.mark.vm(tracepoints=True, core=True)
by_tracepoints_too = pytest.mark.vm(tracepoints=True)

READS = 104_729
FILES = 300
CALLS = ["pread", "read", "readv", "preadv", "preadv2"]


@pytest.fixture(scope="module", autouse=True)
def usual_read_ahead(disk_directory: Path) -> Iterator[None]:
    """Before any backend opens a file: what is near depends on it."""
    with read_ahead(disk_directory, USUAL_KIB):
        yield


# A program whose reads are known


@counts
@pytest.mark.parametrize("call", CALLS)
def test_every_read_is_counted(
    reader: Callable[..., Reader], data_file: Path, way: ProbeType, call: str
) -> None:
    """104,729 reads of 8 KiB are 104,729 in the totals, and as many in the histogram's buckets."""
    one = reader(data_file, "--call", call, "--count", READS, "--warm")
    with trace(one.pid, any_process=True, probe_type=way) as tracer:
        made = one.go()
    capture = tracer.capture()
    assert (made.full, made.short, made.failed) == (READS, 0, 0)
    assert capture.probes.type == way
    totals = capture.totals
    assert (totals["read"].count, totals["read"].failed, totals["read"].short) == (READS, 0, 0)
    assert (totals["read"].bytes, totals["read"].blocks) == (READS * BLOCK, READS)
    assert histogram(only(capture).io).count == READS
    assert not anything_lost(capture), capture.lost
    assert 0 < totals["read"].total_ns < made.nanoseconds, (
        "longer than the program took for all of it"
    )


@by_tracepoints_too
def test_what_a_preempted_probe_misses_is_told(
    reader: Callable[..., Reader], data_file: Path, way: ProbeType
) -> None:
    """While one is interrupted, the kernel leaves it out for all others on that CPU (by fentry,
    with full or lazy preemption): no more reads are missing than it left out probes."""
    options = ("--count", READS // 8, "--warm")
    readers = [reader(data_file, *options) for _ in range(8)]
    target = Processes(tuple(one.pid for one in readers))
    tracer = Tracer(target, TraceOptions(probe_type=way))
    try:
        for one in readers:
            one.begin()
        made = sum(one.counts().full for one in readers)
    finally:
        taken = tracer.stop()
    unseen = made - taken.totals["read"].count - taken.lost.read - taken.lost.in_flight["read"]
    print(f"{made} reads, {unseen} unseen; {taken.lost}")
    assert 0 <= unseen <= taken.lost.missed


def test_direct_reads_are_marked_and_from_the_device(
    reader: Callable[..., Reader], data_file: Path, way: ProbeType
) -> None:
    """With O_DIRECT each read is the device's, to the byte; without it none is marked."""
    one = reader(data_file, "--direct", "--count", 500)
    with trace(one.pid, any_process=True, probe_type=way) as tracer:
        one.go()
    found = {(r.direct, r.source) for r in only(tracer.capture()).io}
    assert found == {(True, "device")}
    totals = tracer.capture().totals
    assert (totals["read"].count, totals["read"].bytes, totals["read"].device_bytes) == (
        500,
        500 * BLOCK,
        500 * BLOCK,
    )


@pytest.mark.parametrize("call", ["pread", "read", "readv", "preadv2"])
def test_order_is_told(
    reader: Callable[..., Reader], data_file: Path, way: ProbeType, call: str
) -> None:
    """In order, every read but the first is sequential; in random order nearly none is."""
    blocks = data_file.stat().st_size // BLOCK

    def order(*options: object) -> Counter[str]:
        one = reader(data_file, "--call", call, "--count", blocks, "--warm", *options)
        with trace(one.pid, any_process=True, probe_type=way) as tracer:
            one.go()
        return patterns(only(tracer.capture()).io)

    assert order() == {"first": 1, "sequential": blocks - 1}
    shuffled = order("--random", 7)
    assert shuffled["first"] == 1
    # Of 2,048 blocks, 16 are near ahead, and one is next
    assert shuffled["random"] > 0.97 * blocks, shuffled
    assert shuffled["sequential"] + shuffled["near"] > 0, shuffled
    assert shuffled.total() == blocks


# A process that does what it is told, so that one tracer can watch many kinds of reads


@by_tracepoints_too
def test_failed_and_short_reads_are_counted_apart(
    worker: Worker, data_file: Path, way: ProbeType
) -> None:
    """By every call: what fails on a file is failed, what the file's end cuts is short, and
    neither is a read with a latency; a descriptor of no file is nothing at all."""
    end = data_file.stat().st_size
    worker.do(f"fd = os.open({str(data_file)!r}, os.O_RDONLY)")
    worker.do(f"unreadable = os.open({str(data_file)!r}, os.O_WRONLY)")
    worker.do(f"folder = os.open({str(data_file.parent)!r}, os.O_RDONLY)")
    names = ", ".join(map(repr, CALLS))
    with trace(worker.pid, any_process=True, probe_type=way) as tracer:

        def each(expression: str, returns: int) -> tuple[int, int, int, int]:
            """What one call of each kind adds: reads, failed, short, bytes of the short."""
            before = tracer.capture()
            # long() makes a C int -1 of what Linux returned as an error
            worker.do(
                f"for name in [{names}]:\n"
                f"    os.lseek(fd, at, 0)\n"
                f"    got = {expression}\n"
                f"    assert got == {returns}, (name, got)"
            )
            after = tracer.capture()
            return (
                after.totals["read"].count - before.totals["read"].count,
                after.totals["read"].failed - before.totals["read"].failed,
                after.totals["read"].short - before.totals["read"].short,
                only(after).short["read"].bytes - only(before).short["read"].bytes,
            )

        worker.do("at = 0")
        assert each("call(name, fd)", BLOCK) == (5, 0, 0, 0)
        assert each("call(name, unreadable)", -1) == (0, 5, 0, 0)
        assert each("call(name, fd, base=4096)", -1) == (0, 5, 0, 0)  # never mapped: EFAULT
        worker.do(f"at = {end} - 100")
        assert each("call(name, fd, position=at)", 100) == (0, 0, 5, 500)
        worker.do(f"at = {end}")
        assert each("call(name, fd, position=at)", 0) == (0, 0, 5, 0)
        worker.do("at = 0")
        assert each("call(name, 999)", -1) == (0, 0, 0, 0)
        assert each("call(name, folder)", -1) == (0, 0, 0, 0)
        # after all of that
        assert each("call(name, fd)", BLOCK) == (5, 0, 0, 0)
    totals = tracer.capture().totals
    assert (totals["read"].count, totals["read"].failed, totals["read"].short) == (10, 10, 10)
    assert totals["read"].bytes == 10 * BLOCK


def test_a_vector_is_one_read_of_its_length(
    worker: Worker, data_file: Path, way: ProbeType
) -> None:
    """Of 1, 4, 15 and 16 blocks, in up to 256 parts, each is one read in its class of size; in up
    to 128 parts, PostgreSQL's most, one byte less than it asked for is known to be short."""
    end = data_file.stat().st_size
    vectors = (1, 1), (1, 2), (4, 4), (15, 15), (15, 5), (16, 16), (16, 32), (32, 64), (32, 256)
    known = (*range(1, 18), 31, 32, 33, 127, 128)
    worker.do(f"fd = os.open({str(data_file)!r}, os.O_RDONLY)")
    with trace(worker.pid, any_process=True, probe_type=way) as tracer:
        for blocks, parts in vectors:
            size = blocks * BLOCK
            worker.do(f"assert call('preadv', fd, {size}, 0, {parts}) == {size}")
        for parts in known:
            size = 16 * parts
            short = f"call('preadv', fd, {size}, {end - size + 1}, {parts})"
            worker.do(f"assert {short} == {size - 1}")
    sizes: Counter[str] = Counter()
    for reads in only(tracer.capture()).io:
        sizes[reads.size] += reads.count
    assert sizes == {"1": 2, "2-4": 1, "5-15": 2, "16+": 4}
    totals = tracer.capture().totals
    assert totals["read"].blocks == sum(blocks for blocks, _ in vectors)
    assert (totals["read"].failed, totals["read"].short) == (0, len(known))


@by_tracepoints_too
def test_each_pattern(worker: Worker, data_file: Path, way: ProbeType) -> None:
    """A file's next read is sequential at the last one's end, near within its read-ahead, else
    random; whatever is read of other files meanwhile, and by whatever descriptor."""
    device = storage(data_file.parent).device
    assert device and device.read_ahead_kb
    window = device.read_ahead_kb << 10
    other, sparse = data_file.with_name("other_file"), data_file.with_name("sparse_file")
    other.write_bytes(bytes(1 << 20))
    sparse.touch()
    os.truncate(sparse, 4 * window + (1 << 20))
    worker.do(f"fd = os.open({str(sparse)!r}, os.O_RDONLY)")
    worker.do(f"again = os.open({str(sparse)!r}, os.O_RDONLY)")
    worker.do(f"other = os.open({str(other)!r}, os.O_RDONLY)")
    with trace(worker.pid, any_process=True, probe_type=way) as tracer:

        def pattern(name: str, position: int) -> str:
            before = patterns(only(tracer.capture()).io)
            worker.do(f"call('pread', {name}, position={position})")
            (found,) = (patterns(only(tracer.capture()).io) - before).elements()
            return found

        kib = 1024
        assert pattern("fd", 0) == "first"
        assert pattern("fd", 8 * kib) == "sequential"
        assert pattern("other", 512 * kib) == "first"
        assert pattern("fd", 16 * kib) == "sequential"
        assert pattern("other", 520 * kib) == "sequential"
        assert pattern("again", 24 * kib) == "sequential"
        assert pattern("fd", 32 * kib + 1) == "near"
        assert pattern("fd", 40 * kib + 1 + window) == "near"
        assert pattern("fd", 48 * kib + 1 + 2 * window + 1) == "random"
        assert pattern("fd", 48 * kib + 1 + 2 * window + 1) == "random"
        assert pattern("fd", 40 * kib + 1 + 2 * window + 1) == "random"
        assert pattern("fd", 48 * kib + 1 + 2 * window + 1) == "sequential"
    other.unlink()
    sparse.unlink()


NOT_FILES = {
    "a pipe": "r, w = os.pipe(); os.write(w, b'x' * 99); assert os.read(r, 99)",
    "a signalfd": (
        "signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1])\n"
        "mask = ctypes.create_string_buffer(128)\n"
        "libc.sigemptyset(mask); libc.sigaddset(mask, signal.SIGUSR1)\n"
        "fd = libc.signalfd(-1, mask, 0)\n"
        "os.kill(os.getpid(), signal.SIGUSR1)\n"
        "assert len(os.read(fd, 128)) == 128"
    ),
    "an eventfd": "fd = os.eventfd(1); assert len(os.read(fd, 8)) == 8",
    "a device": "fd = os.open('/dev/zero', os.O_RDONLY); assert len(os.pread(fd, 99, 0)) == 99",
    "/proc": "fd = os.open('/proc/self/status', os.O_RDONLY); assert os.pread(fd, 99, 0)",
    "/sys": "fd = os.open('/sys/kernel/mm/ksm/run', os.O_RDONLY); assert os.read(fd, 99)",
    "tracefs": "fd = os.open('/sys/kernel/tracing/tracing_on', 0); assert os.read(fd, 9)",
}


def test_a_file_in_the_place_of_one_that_is_gone_is_another(
    disk_directory: Path, way: ProbeType
) -> None:
    """As of temporary tables: the kernel gives the next one the same structures."""
    place = disk_directory / "base" / "5"
    place.mkdir(parents=True)
    code = f"""
import os
print("ready", flush=True)
input()
for number in range({FILES}):
    path = f"{place}/{{100000 + number}}"
    file = os.open(path, os.O_RDWR | os.O_CREAT)
    os.write(file, b"x" * 8192)
    os.pread(file, 8192, 0)
    os.unlink(path)
    os.close(file)
print("done", flush=True)
input()
"""
    with Child(sys.executable, "-c", code) as child:
        assert child.line() == "ready\n"  # the interpreter has read its own files
        with trace(child.pid, any_process=True, by_relation=True, probe_type=way) as tracer:
            child.say("")
            assert child.line() == "done\n"
    place.rmdir()
    (process,) = tracer.capture().backends
    read = Counter[str | None]()
    for row in process.io:
        read[row.relation] += row.count
    assert Counter(read.values()) == {1: FILES}


@by_tracepoints_too
def test_only_files_count(worker: Worker, data_file: Path, way: ProbeType) -> None:
    """A pipe, a signalfd, a device, /proc and /sys are read, and do not count; files do."""
    worker.do(f"file = os.open({str(data_file)!r}, os.O_RDONLY)")
    with trace(worker.pid, any_process=True, probe_type=way) as tracer:

        def counted(code: str) -> tuple[int, int, int]:
            before = tracer.capture().totals
            worker.do(code)
            after = tracer.capture().totals
            return (
                after["read"].count - before["read"].count,
                after["read"].failed - before["read"].failed,
                after["read"].short - before["read"].short,
            )

        found = {name: counted(code) for name, code in NOT_FILES.items()}
        assert found == dict.fromkeys(NOT_FILES, (0, 0, 0))
        assert counted("call('pread', file)") == (1, 0, 0)
    assert tracer.capture().totals["read"].count == 1


def test_tmpfs_counts_as_page_cache(reader: Callable[..., Reader], way: ProbeType) -> None:
    """Its reads count, and none is from a device."""
    assert Path("/dev/shm").is_mount()
    file = Path(f"/dev/shm/pgtrace-test-{way}")
    try:
        file.write_bytes(bytes(1 << 20))
        one = reader(file, "--count", 1000)
        with trace(one.pid, any_process=True, probe_type=way) as tracer:
            one.go()
    finally:
        file.unlink()
    totals = tracer.capture().totals
    assert (totals["read"].count, totals["read"].device_bytes) == (1000, 0)
    assert {r.source for r in only(tracer.capture()).io} == {"page_cache"}


@pytest.mark.kernel("< 7.2")  # which leaves out some of several threads' on one emulated CPU
def test_every_thread_of_a_process(worker: Worker, data_file: Path, way: ProbeType) -> None:
    """Each thread is traced by itself: those that read at the same time, and those that do not."""
    worker.do(
        f"fd = os.open({str(data_file)!r}, os.O_RDONLY)\n"
        "go = threading.Event()\n"
        "def reads(count):\n"
        "    go.wait()\n"
        "    for i in range(count):\n"
        "        call('pread', fd, position=i % 2048 * 8192)\n"
        "threads = [threading.Thread(target=reads, args=[n]) for n in (0, 1000, 2000, 3000)]\n"
        "for thread in threads: thread.start()"
    )
    with trace(worker.pid, any_process=True, probe_type=way) as tracer:
        worker.do("go.set()\nfor thread in threads: thread.join()")
    capture = tracer.capture()
    counts = sorted(count(thread.io) for thread in capture.backends)
    assert counts == [0, 0, 1000, 2000, 3000], "the first of them is the main thread"
    assert capture.totals["read"].bytes == 6000 * BLOCK
    assert not anything_lost(capture), capture.lost


# A query of PostgreSQL 15

pg15 = pytest.mark.pg("15")
scans = pytest.mark.parametrize("scan", SCANS)


@pg15
@scans
@pytest.mark.parametrize("state", ["cold", "warm"])
def test_a_query_makes_the_reads_that_explain_counts(
    cluster: PrivateCluster, way: ProbeType, scan: str, state: str
) -> None:
    """The benchmark's two queries: `shared read`, planning included, and at most 16 more.

    All of its relations come from the device when they are cold, and none when they are warm;
    the reads take no longer than EXPLAIN says; a sequential scan is sequential, an index scan
    is not.
    """
    for _ in range(ATTEMPTS):
        with new_backend(cluster) as backend:
            query = prepare(cluster, backend, scan, state)
            before = accounted(backend.info.backend_pid)
            buffers, traced, capture = explain_traced(backend, query, way)
            grown = accounted(backend.info.backend_pid) - before
        if state == "cold" or grown == 0:
            break
    assert buffers.read > 1000
    reads = count(traced.io)
    assert 0 <= reads - buffers.read <= MAY_EXCEED, f"{reads} of {buffers.read}"
    assert 0 <= capture.totals["read"].count - reads <= MAY_EXCEED, "reads outside of the query"
    assert {(r.scope, r.size, r.direct) for r in traced.io} == {("query", "1", False)}

    from_device = device_bytes(traced.io)
    assert from_device <= grown
    if state == "cold":
        assert from_device >= buffers.read * BLOCK
    else:
        assert (from_device, grown) == (0, 0)
    read_ms = sum(r.total_ns for r in traced.io) / 1e6
    assert 0 < read_ms <= buffers.io_ms, f"{read_ms} ms of {buffers.io_ms}"

    of_pattern = patterns(traced.io)
    if scan == "sequential":
        assert of_pattern["sequential"] >= buffers.read - 1, of_pattern
    else:
        # How many are near ahead depends on the device's read-ahead
        assert of_pattern["random"] + of_pattern["near"] > 0.9 * reads, of_pattern
        assert of_pattern["random"] > 0.4 * reads, of_pattern


@pg15
def test_two_sessions_on_one_backend_are_both_right(
    cluster: PrivateCluster, way: ProbeType
) -> None:
    """Each has the query, with its reads and all of its device bytes; the second goes first."""
    with new_backend(cluster) as backend:
        query = prepare(cluster, backend, "sequential", "cold")
        pid = backend.info.backend_pid
        with trace(pid, probe_type=way, literals=True) as one:
            with trace(pid, probe_type=way, literals=True) as two:
                first = explain_buffers(backend, query)
            second = explain_buffers(backend, f"{query} where true")

    def found(tracer: Tracer, text: str) -> tuple[int, int]:
        traced = the_query(tracer.capture(), text)
        return count(traced.io), device_bytes(traced.io)

    reads, from_device = found(two, query)
    assert first.read > 1000
    assert 0 <= reads - first.read <= MAY_EXCEED, f"{reads} of {first.read}"
    assert from_device >= first.read * BLOCK
    assert found(one, query) == (reads, from_device)
    reads, _ = found(one, f"{query} where true")
    assert 0 <= reads - second.read <= MAY_EXCEED, f"{reads} of {second.read}"
    assert len(only(two.capture()).queries) == 1
