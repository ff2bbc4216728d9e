"""Where reads were served: what each read tells adds up to what the kernel accounts."""

import os
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from copied_cluster import CopiedCluster
from fix_cluster import SETTINGS, Connection, make_cold
from fix_markers import PG_VERSION
from fix_reader import Reader
from fix_storage import READ_AHEAD_KIB
from pgtrace import trace
from pgtrace.engines import ProbeType
from pgtrace.lab.core.page_cache import evict, residency
from pgtrace.lab.core.private_cluster import PrivateCluster
from pgtrace.model.capture import Io
from scans import (
    ATTEMPTS,
    BLOCK,
    accounted,
    anything_lost,
    by_source,
    count,
    device_bytes,
    new_backend,
    only,
    the_query,
)
from worker import Worker

pytestmark = pytest.mark.vm

TABLE = "wide"
PAGES = 8192
"""64 MiB: of 512 read-aheads, the few smaller ones at the beginning are no more than 2 %."""
QUERY = f"select count(*) from {TABLE}"
ASKED = {"device", "readahead_issued"}


def make_table(connection: Connection) -> None:
    """A table of PAGES pages, with eight rows on each, and nothing left to vacuum."""
    connection.execute(f"create table {TABLE} (filler text)")
    connection.execute(f"alter table {TABLE} alter filler set storage plain")
    connection.execute(
        f"insert into {TABLE} select repeat('x', 980) from generate_series(1, {8 * PAGES})"
    )
    connection.execute(f"vacuum (freeze, analyze) {TABLE}")


@pytest.fixture(scope="module")
def scanned(storage: Path) -> Iterator[PrivateCluster]:
    """A server with that table, on that device."""
    with CopiedCluster(SETTINGS, version=PG_VERSION, directory=storage) as private:
        with private.connect() as connection:
            make_table(connection)
        yield private


def read_ahead_kib(path: Path) -> int:
    device = path.stat().st_dev
    bdi = Path(f"/sys/class/bdi/{os.major(device)}:{os.minor(device)}")
    return int((bdi / "read_ahead_kb").read_text())


def test_a_scan_is_from_the_device_once(scanned: PrivateCluster, way: ProbeType) -> None:
    """A cold sequential scan: its device bytes are at most those that the kernel accounts to the
    process, and at least 97 % of them; one read for each read-ahead of 128 KiB asked for them,
    within 2 %. A second, warm scan asks the device for nothing.
    """
    assert read_ahead_kib(scanned.datadir) == READ_AHEAD_KIB
    with new_backend(scanned) as backend:
        pid = backend.info.backend_pid
        backend.execute(f"explain {QUERY}")
        make_cold(scanned, backend, TABLE)

        def scan() -> tuple[list[Io], int]:
            """All of its reads, and what the kernel accounts to it."""
            before = accounted(pid)
            with trace(pid, probe_type=way, literals=True) as tracer:
                assert backend.execute(QUERY).fetchone() == (8 * PAGES,)
            grown = accounted(pid) - before
            capture = tracer.capture()
            assert not anything_lost(capture), capture.lost
            assert count(the_query(capture, QUERY).io) >= 0.95 * PAGES
            return only(capture).io, grown

        cold, grown = scan()
        for _ in range(ATTEMPTS):
            warm, grown_again = scan()
            if grown_again == 0:
                break
    from_device = device_bytes(cold)
    assert from_device >= PAGES * BLOCK
    assert 0.97 * grown <= from_device <= grown, f"{from_device} of {grown}"
    asked = [r for r in cold if r.source in ASKED]
    assert device_bytes(asked) == from_device
    whole = from_device / (READ_AHEAD_KIB << 10)
    assert abs(count(asked) - whole) <= 0.02 * whole, f"{by_source(cold)} for {whole}"
    assert by_source(cold)["page_cache"] > 0.9 * PAGES

    assert grown_again == 0
    assert device_bytes(warm) == 0
    assert by_source(warm).keys() == {"page_cache"}


@pytest.mark.vm(core=True)
@pytest.mark.parametrize("order", [(), ("--random", 7)], ids=["in_order", "random"])
def test_device_bytes_are_those_that_came_into_the_page_cache(
    reader: Callable[..., Reader], storage: Path, way: ProbeType, order: tuple[object, ...]
) -> None:
    """A cold file, of which mincore tells what is there afterwards; then all of it again."""
    file = storage / "file"
    file.write_bytes(os.urandom(8 << 20))

    def go() -> tuple[list[Io], int]:
        one = reader(file, "--count", 1000, *order)
        with trace(one.pid, any_process=True, probe_type=way) as tracer:
            before = accounted(one.pid)
            one.go()
            grown = accounted(one.pid) - before
        return only(tracer.capture()).io, grown

    for _ in range(ATTEMPTS):
        evict([file])
        assert residency(file)[0] == 0
        cold, grown = go()
        came = residency(file)[0] * 4096
        warm, grown_again = go()
        if (grown, grown_again) == (came, 0):
            break  # else something was reclaimed meanwhile
    file.unlink()
    assert (device_bytes(cold), device_bytes(warm)) == (came, 0), f"{grown}, {grown_again}"
    assert came >= 4 << 20
    assert by_source(cold)["device"] > 0
    assert all(r.device_bytes == 0 for r in cold if r.source not in ASKED)
    assert by_source(warm) == {"page_cache": 1000}


# A buffer whose memory comes 20 ms after it is touched: a read into it sleeps, whatever it reads
SLEEPY = """
import fcntl, platform, struct, time
number = {"x86_64": 323, "aarch64": 282}[platform.machine()]
uffd = libc.syscall(number, os.O_CLOEXEC)
assert uffd >= 0, "userfaultfd"
fcntl.ioctl(uffd, 0xC018AA3F, struct.pack("QQQ", 0xAA, 0, 0))  # UFFDIO_API
buffers = []
def sleepy():
    buffer = mmap.mmap(-1, 8192, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    buffers.append(buffer)
    start = ctypes.addressof(ctypes.c_char.from_buffer(buffer))
    fcntl.ioctl(uffd, 0xC020AA00, struct.pack("QQQQ", start, 8192, 1, 0))  # UFFDIO_REGISTER
    def serve():
        os.read(uffd, 32)
        time.sleep(0.02)
        fcntl.ioctl(uffd, 0xC020AA04, struct.pack("QQQq", start, 8192, 0, 0))  # UFFDIO_ZEROPAGE
    threading.Thread(target=serve).start()
    return start
"""


@pytest.mark.vm(core=True)
def test_a_read_that_slept_is_from_the_device_if_it_asked_it_and_else_waited(
    worker: Worker, storage: Path, way: ProbeType
) -> None:
    """Made to sleep where it stores what it read: from a cold file and from memory."""
    cold, memory = storage / "file", Path(f"/dev/shm/pgtrace-test-{way}")
    try:
        for file in cold, memory:
            file.write_bytes(os.urandom(BLOCK))
        evict([cold])
        worker.do(SLEEPY)
        worker.do(f"cold = os.open({str(cold)!r}, os.O_RDONLY)")
        worker.do(f"tmpfs = os.open({str(memory)!r}, os.O_RDONLY)")
        with trace(worker.pid, any_process=True, probe_type=way) as tracer:
            for name in "cold", "tmpfs", "tmpfs":
                worker.do(f"assert call('pread', {name}, base=sleepy()) == {BLOCK}")
            worker.do(f"assert call('pread', tmpfs) == {BLOCK}")
    finally:
        cold.unlink()
        memory.unlink()
    reads = only(tracer.capture()).io
    assert by_source(reads) == {"device": 1, "wait": 2, "page_cache": 1}
    least = {r.source: r.latency.min for r in reads}
    assert min(least["device"], least["wait"]) > 20_000_000, least


def test_on_an_overlay_it_is_unknown(
    reader: Callable[..., Reader], storage: Path, way: ProbeType
) -> None:
    """What lies below an overlay may read in threads of its own: its warm reads are counted, but
    never said to be from the page cache."""
    directory = Path(tempfile.mkdtemp(dir=storage))
    layers = [directory / name for name in ("lower", "upper", "work", "merged")]
    for layer in layers:
        layer.mkdir()
    lower, upper, work, merged = layers
    (lower / "file").write_bytes(bytes(1 << 20))
    options = f"lowerdir={lower},upperdir={upper},workdir={work}"
    subprocess.run(["mount", "-t", "overlay", "-o", options, "overlay", merged], check=True)
    try:
        for _ in range(ATTEMPTS):
            with (
                reader(merged / "file", "--count", 1000, "--warm") as one,
                trace(one.pid, any_process=True, probe_type=way) as tracer,
            ):
                before = accounted(one.pid)
                one.go()
                grown = accounted(one.pid) - before
            if grown == 0:
                break
    finally:
        subprocess.run(["umount", merged], check=True)
    assert grown == 0
    assert by_source(only(tracer.capture()).io) == {"unknown": 1000}
