"""A device that answers while it is asked, so that nobody sleeps: memory that is one, zram."""

import errno
import os
import random
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from child import wait_for
from pgtrace import trace
from pgtrace.lab.core.page_cache import evict
from pgtrace.model.capture import Io
from read_ahead import read_ahead
from scans import BLOCK, by_source, device_bytes, only
from worker import Worker

CONTROL = Path("/sys/class/zram-control")
BLOCKS = 4096
"""Of the file."""

pytestmark = [
    pytest.mark.skipif(os.geteuid() != 0, reason="makes a device and mounts it: needs root"),
    pytest.mark.skipif(not CONTROL.exists(), reason="this kernel has no zram"),
]


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """On a file system on such a device."""
    number = (CONTROL / "hot_add").read_text().strip()
    block = Path(f"/sys/block/zram{number}")
    place = tmp_path_factory.mktemp("zram")
    try:
        (block / "disksize").write_text("128M")
        made = ["mkfs.ext4", "-q", "-E", "lazy_itable_init=0", f"/dev/zram{number}"]
        subprocess.run(made, check=True)
        subprocess.run(["mount", f"/dev/zram{number}", place], check=True)
        try:
            path = place / "file"
            path.write_bytes(os.urandom(BLOCKS * BLOCK))
            yield path
        finally:
            subprocess.run(["umount", place], check=True)
    finally:
        wait_for(lambda: is_gone(block, number))


def is_gone(block: Path, number: str) -> bool:
    """Remove the device; whatever looks at new ones may hold it for a moment."""
    try:
        (block / "reset").write_text("1")
        (CONTROL / "hot_remove").write_text(number)
    except OSError as error:
        assert error.errno == errno.EBUSY
        return False
    return True


def read(worker: Worker, file: Path, blocks: list[int], warm_up: int = 0) -> list[Io]:
    """One block after the other, of which none is in the page cache; before that, and untraced,
    so many in order by the same descriptor."""
    evict([file])
    worker.do(f"fd = os.open({str(file)!r}, os.O_RDONLY)")
    worker.do(f"for at in range({warm_up}): os.pread(fd, {BLOCK}, at * {BLOCK})")
    evict([file])
    with trace(worker.pid, any_process=True) as tracer:
        worker.do(f"for at in {blocks}: assert len(os.pread(fd, {BLOCK}, at * {BLOCK})) == {BLOCK}")
    worker.do("os.close(fd)")
    return only(tracer.capture()).io


@pytest.mark.parametrize("warm_up", [0, 200])
def test_what_is_read_at_random_is_from_the_device(
    worker: Worker, file: Path, warm_up: int
) -> None:
    """Each asks for itself alone, and none found its block; whatever was read in order before."""
    blocks = list(range(300, BLOCKS, 20))
    random.Random(0).shuffle(blocks)
    with read_ahead(file, 128):
        found = read(worker, file, blocks, warm_up)
    assert by_source(found) == {"device": len(blocks)}
    assert device_bytes(found) >= len(blocks) * BLOCK


def test_on_an_overlay_nothing_is_known_of_read_ahead(worker: Worker, file: Path) -> None:
    """It is that of the file below: in order what was there and what was not are one."""
    layers = [file.parent / name for name in ("lower", "upper", "work", "merged")]
    lower, upper, work, merged = layers
    for layer in layers:
        layer.mkdir(exist_ok=True)
    (lower / "below").write_bytes(os.urandom(BLOCKS * BLOCK))
    evict([lower / "below"])
    options = f"lowerdir={lower},upperdir={upper},workdir={work}"
    subprocess.run(["mount", "-t", "overlay", "-o", options, "overlay", merged], check=True)
    try:
        found = read(worker, merged / "below", list(range(BLOCKS)))
    finally:
        subprocess.run(["umount", merged], check=True)
    assert set(by_source(found)) == {"readahead_issued", "unknown"}


@pytest.mark.parametrize("kib", [8, 128, 1024])
def test_what_was_read_ahead_is_not(worker: Worker, file: Path, kib: int) -> None:
    """Of a file in order only the first block is missing when it is asked for, however little is
    asked for ahead."""
    with read_ahead(file, kib):
        found = read(worker, file, list(range(BLOCKS)))
    sources = by_source(found)
    assert sources.pop("device", 0) <= 1
    assert set(sources) <= {"page_cache", "readahead_issued"}
    assert sources["readahead_issued"] >= BLOCKS * BLOCK / (kib << 10) - 8


def test_without_read_ahead_all_of_it_is_from_the_device(worker: Worker, file: Path) -> None:
    with read_ahead(file, 0):
        assert by_source(read(worker, file, list(range(BLOCKS)))) == {"device": BLOCKS}
