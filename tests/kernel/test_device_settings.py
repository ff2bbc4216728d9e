"""Which device's read-ahead counts below a directory, where this kernel has partitions and device
mapper: the host's may have neither."""

import struct
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from pgtrace.lab.core.storages import Place
from pgtrace.lab.core.undo_log import Changes
from pgtrace.lab.readahead.device_settings import read_ahead, usable, users

pytestmark = pytest.mark.vm(engines=["libbpf"])  # nothing is traced

SECTOR = 512
MIB = 1 << 20
START, LENGTH = 2048, 64 * MIB // SECTOR


def shell(*command: object) -> str:
    return subprocess.run(
        [str(word) for word in command], check=True, capture_output=True, text=True
    ).stdout.strip()


@pytest.fixture(scope="module")
def disk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A loop device with two partitions, by a table of its own making."""
    for module in ("loop", "dm_mod", "ext4"):
        shell("modprobe", module)
    image = tmp_path_factory.mktemp("disk") / "image"
    entries = (struct.pack("<8xII", START + number * LENGTH, LENGTH) for number in range(2))
    table = b"".join(entry[:4] + b"\x83" + entry[5:] for entry in entries)
    with image.open("wb") as file:
        file.truncate((START + 2 * LENGTH) * SECTOR + MIB)
        file.seek(446)
        file.write(table.ljust(64, b"\0") + b"\x55\xaa")
    device = shell("losetup", "--find", "--show", "--partscan", image)
    try:
        assert Path(f"{device}p2").exists()
        yield device
    finally:
        shell("losetup", "--detach", device)


@contextmanager
def mounted(device: str, at: Path) -> Iterator[Place]:
    at.mkdir(exist_ok=True)
    shell("mkfs.ext4", "-qF", device)
    shell("mount", device, at)
    try:
        yield Place("it", at)
    finally:
        shell("umount", at)


def of_block_device(device: str) -> int:
    """What blockdev(8) says, in sectors."""
    return int(shell("blockdev", "--getra", device))


def test_of_a_partition_it_is_the_whole_disks(disk: str, tmp_path: Path) -> None:
    with mounted(f"{disk}p1", tmp_path / "one") as place, Changes(tmp_path / "state") as changes:
        before, ahead = of_block_device(disk), read_ahead(place)
        assert ahead.disk.name == Path(disk).name
        ahead.set(before + 8, changes)
        assert of_block_device(disk) == of_block_device(f"{disk}p1") == before + 8
        ahead.set(0, changes)
    assert of_block_device(disk) == before


def test_another_partition_and_what_is_made_of_one_use_it_too(disk: str, tmp_path: Path) -> None:
    with ExitStack() as stack:
        place = stack.enter_context(mounted(f"{disk}p1", tmp_path / "one"))
        ahead, number = read_ahead(place), place.directory.stat().st_dev
        assert list(users(ahead.disk, number)) == []
        assert usable([place], shared_host=False) == ([place], {})
        with mounted(f"{disk}p2", tmp_path / "two"):
            assert list(users(ahead.disk, number)) == [str(tmp_path / "two")]
        shell("mkswap", f"{disk}p2")
        shell("swapon", f"{disk}p2")
        assert list(users(ahead.disk, number)) == [f"swap on {disk}p2"]
        shell("swapoff", f"{disk}p2")
        with mapped(f"{disk}p2") as made:
            assert list(users(ahead.disk, number)) == [Path(made).name]


def test_of_device_mapper_it_is_its_own(disk: str, tmp_path: Path) -> None:
    before = of_block_device(disk)
    with mapped(f"{disk}p2") as made, mounted(made, tmp_path / "mapped") as place:
        ahead = read_ahead(place)
        assert ahead.disk.name == Path(made).name
        assert ahead.disk.name.startswith("dm-")
        with Changes(tmp_path / "state") as changes:
            ahead.set(64, changes)
            assert of_block_device(made) == 64
            assert of_block_device(disk) == before, "which is left alone"
        assert of_block_device(made) != 64


@contextmanager
def mapped(device: str) -> Iterator[str]:
    """Device mapper's simplest device, as a logical volume is one."""
    table = f"0 {LENGTH} linear {device} 0"
    shell("dmsetup", "create", "pgtrace-test", "--table", table)
    try:
        # By the kernel's name: who names it below /dev/mapper, udev, is not there
        info = ("info", "--columns", "--noheadings", "-o", "blkdevname", "pgtrace-test")
        yield f"/dev/{shell('dmsetup', *info)}"
    finally:
        shell("dmsetup", "remove", "--retry", "pgtrace-test")
