"""Where a directory lies: mounts that are everywhere, and devices made of plain files."""

import os
import subprocess
from pathlib import Path

import pytest

from child import Child, wait_for
from pgtrace.errors import TargetError
from pgtrace.linux import storage as module
from pgtrace.linux.storage import storage, unknown_because


def test_memory() -> None:
    found = storage(Path("/dev/shm"))
    assert found.filesystem == "tmpfs"
    assert found.device is None
    assert found.unknown_because is None


def test_a_mount_whose_name_has_ends_of_lines_is_no_line_of_others(tmp_path: Path) -> None:
    """Anybody may mount something in a namespace of their own, and be called a server there. Each
    of these would be the line of the mount that is looked for, and is none."""
    numbers = "".join(f"\v{number}" for number in range(20, 820))
    script = 'mount -t tmpfs "$1" "$2" && mount -t tmpfs own "$2" && cd "$2" && echo && cat'
    with Child(
        "unshare", "-Urm", "bash", "-c", script, "x", numbers, tmp_path, stdin=subprocess.PIPE
    ) as child:
        wait_for(lambda: child.out)
        found = storage(Path(f"/proc/{child.pid}/cwd"))
    assert (found.filesystem, found.source) == ("tmpfs", "own")


def test_no_file_system_for_relations() -> None:
    assert storage(Path("/proc")).unknown_because == "no block device is behind proc"


def test_no_such_directory(tmp_path: Path) -> None:
    with pytest.raises(TargetError, match="no directory"):
        storage(tmp_path / "none")
    (tmp_path / "file").touch()
    with pytest.raises(TargetError, match="no directory"):
        storage(tmp_path / "file")


def test_a_path_through_proc_is_its_process_s() -> None:
    here = storage(Path.cwd())
    through = storage(Path(f"/proc/{os.getpid()}/cwd"))
    assert (through.filesystem, through.device, through.mount_point) == (
        here.filesystem,
        here.device,
        here.mount_point,
    )


@pytest.mark.parametrize("filesystem", ["ext4", "ext2", "xfs", "f2fs", "vfat"])
def test_on_a_block_device_sources_are_told(filesystem: str) -> None:
    assert unknown_because(filesystem, "254:0") is None


@pytest.mark.parametrize("filesystem", ["btrfs", "tmpfs", "ramfs"])
def test_without_a_device_number_sources_are_told(filesystem: str) -> None:
    assert unknown_because(filesystem, "0:42") is None


@pytest.mark.parametrize(
    ("filesystem", "number", "word"),
    [
        ("overlay", "0:42", "overlay"),
        ("fuse", "0:42", "FUSE"),
        ("fuse.sshfs", "0:42", "FUSE"),
        ("fuseblk", "8:1", "FUSE"),
        ("nfs4", "0:42", "NFS"),
        ("zfs", "0:42", "ZFS"),
        ("ceph", "0:42", "Ceph"),
        ("9p", "0:42", "9p"),
        ("of tomorrow", "0:42", "no block device is behind of tomorrow"),
    ],
)
def test_elsewhere_sources_are_unknown_and_it_says_why(
    filesystem: str, number: str, word: str
) -> None:
    assert word in (unknown_because(filesystem, number) or "")


@pytest.fixture
def sys_block(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "dev/block").mkdir(parents=True)
    monkeypatch.setattr(module, "_SYS", tmp_path)
    return tmp_path


def make_device(sys: Path, number: str, name: str, **files: str) -> Path:
    device = sys / "devices" / name
    (device / "queue").mkdir(parents=True)
    (sys / "dev/block" / number).symlink_to(device)
    for file, text in files.items():
        (device / "queue" / file).write_text(text + "\n")
    return device


def test_a_partition_is_its_disk(sys_block: Path) -> None:
    disk = make_device(
        sys_block,
        "8:0",
        "sda",
        rotational="1",
        read_ahead_kb="128",
        scheduler="none [mq-deadline]",
    )
    (disk / "sda1").mkdir()
    (disk / "sda1/partition").write_text("1\n")
    (sys_block / "dev/block/8:1").symlink_to(disk / "sda1")
    device = module._device("8:1", "ext4", "/dev/sda1")
    assert device == module.Device("sda", "SCSI", True, 128, "mq-deadline", ())


def test_a_mapped_device_names_what_it_is_made_of(sys_block: Path) -> None:
    mapped = make_device(sys_block, "253:0", "dm-0", rotational="0")
    (mapped / "slaves/nvme0n1").mkdir(parents=True)
    (mapped / "slaves/nvme1n1").mkdir(parents=True)
    device = module._device("253:0", "xfs", "/dev/mapper/data")
    assert device == module.Device(
        "dm-0", "device mapper", False, None, None, ("nvme0n1", "nvme1n1")
    )


def test_a_loop_device_names_its_file(sys_block: Path) -> None:
    loop = make_device(sys_block, "7:0", "loop0", read_ahead_kb="4096")
    (loop / "loop").mkdir()
    (loop / "loop/backing_file").write_text("/srv/disk image\n")
    device = module._device("7:0", "ext4", "/dev/loop0")
    assert device == module.Device("loop0", "loop", None, 4096, None, ("/srv/disk image",))


def test_a_simulated_device_is_known_by_its_file(sys_block: Path) -> None:
    loop = make_device(sys_block, "7:0", "loop0")
    (loop / "loop").mkdir()
    (loop / "loop/backing_file").write_text("/simulated-ssd\n")
    device = module._device("7:0", "ext4", "/dev/loop0")
    assert device is not None
    assert device.simulated


def test_the_depth_of_a_device_is_its_own_or_else_the_kernel_s(sys_block: Path) -> None:
    disk = make_device(sys_block, "8:0", "sda", nr_requests="256")
    assert module._device("8:0", "ext4", "/dev/sda").queue_depth == 256
    (disk / "device").mkdir()
    (disk / "device/queue_depth").write_text("32\n")
    assert module._device("8:0", "ext4", "/dev/sda").queue_depth == 32


@pytest.mark.parametrize(
    ("path", "model", "virtual"),
    [
        ("virtual/block/loop0", None, True),
        ("virtual/block/dm-0", None, True),
        ("pci0000:00/0000:00:02.0/virtio1/block/vda", None, True),
        ("vbd-51712/block/xvda", None, True),
        ("pci0000:00/0000:00:1f.2/ata1/host0/target0:0:0/0:0:0:0/block/sda", "ST9600204SS", False),
        ("pci0000:00/0000:00:1f.2/ata1/host0/target0:0:0/0:0:0:0/block/sda", "QEMU HARDDISK", True),
        ("pci0000:00/0000:00:1d.0/0000:3d:00.0/nvme/nvme0/nvme0n1", "INTEL SSDPE2KX010T8", False),
        ("pci0000:00/0000:00:04.0/nvme/nvme0/nvme0n1", "Amazon Elastic Block Store", True),
    ],
)
def test_virtual_devices(sys_block: Path, path: str, model: str | None, virtual: bool) -> None:
    device = make_device(sys_block, "8:0", path)
    if model:
        (device / "device").mkdir()
        (device / "device/model").write_text(f"{model}   \n")
    assert module._device("8:0", "ext4", "/dev/x").virtual is virtual


def test_a_device_that_is_not_in_sys(sys_block: Path) -> None:
    assert module._device("8:9", "ext4", "/dev/sda9") is None


def test_names_in_mountinfo_are_unescaped() -> None:
    assert module._unescape(r"/mnt/my\040disk\134x") == r"/mnt/my disk\x"
