"""Where a directory lies: file system, device, and whether reads there can be told apart.

Paths of a server, such as `/proc/PID/cwd`, lead into its own mount namespace: its own
/proc/PID/mountinfo knows them.
"""

import os
import re
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from .. import sudo
from ..errors import PermissionDeniedError, TargetError

_SYS = Path("/sys")
_IN_MEMORY = {"tmpfs", "ramfs"}
_SIMULATED = "simulated-"  # how scripts/storage names the file of its loop devices
_WITHOUT_BLOCK_DEVICE = {"btrfs"}  # it has several, and shows a number of its own instead
_ELSEWHERE = {
    "9p": "a 9p file system reads in its server",
    "ceph": "Ceph reads over the network, in threads of the kernel",
    "cifs": "SMB reads over the network, in threads of the kernel",
    "fuse": "a FUSE file system reads in a process of its own",
    "fuseblk": "a FUSE file system reads in a process of its own",
    "nfs": "NFS reads over the network, in threads of the kernel",
    "nfs4": "NFS reads over the network, in threads of the kernel",
    "overlay": "which file system lies below an overlay is not known while a read is measured",
    "smb3": "SMB reads over the network, in threads of the kernel",
    "virtiofs": "virtiofs reads in its server",
    "zfs": "ZFS reads in threads of its own, into a cache of its own",
}
# Where /sys has devices that are no hardware: of the kernel's own, virtio, Xen, Hyper-V. And what
# hypervisors call disks on buses of real ones: QEMU, VirtualBox, VMware, Google, Amazon.
_VIRTUAL_PATH = re.compile(r"/devices/virtual/|/virtio\d|/vbd-\d|/VMBUS:")
_VIRTUAL_MODEL = re.compile(
    r"QEMU|VBOX|Virtual|VMware|PersistentDisk|nvme_card|Elastic Block Store"
)
_KINDS = {
    "dm": "device mapper",
    "md": "RAID",
    "nvme": "NVMe",
    "ram": "memory",
    "sd": "SCSI",
    "vd": "virtio",
    "xvd": "Xen",
}


class Mount(NamedTuple):
    """A line of mountinfo, see proc_pid_mountinfo(5)."""

    mount_id: str
    device_number: str
    """`major:minor`."""
    point: str
    filesystem: str
    source: str


@dataclass(frozen=True, slots=True)
class Device:
    """A block device: the whole one, for a partition. None is what /sys does not say."""

    name: str
    """Such as `sda` or `dm-0`."""
    kind: str
    """Such as `SCSI`, `NVMe`, `loop`, `device mapper`."""
    rotational: bool | None
    read_ahead_kb: int | None
    """KiB that the kernel reads ahead at most in this file system."""
    scheduler: str | None
    beneath: tuple[str, ...]
    """What it is made of: devices, or the file of a loop device."""
    simulated: bool = False
    """Whether scripts/storage made it: its times say nothing of real storage."""
    queue_depth: int | None = None
    """Requests that it takes at once, or that the kernel holds for it where that is not said."""
    virtual: bool = False
    """Whether it is one of a virtual machine, or made of other devices: what is below is not
    seen."""


@dataclass(frozen=True, slots=True)
class Storage:
    """Where a directory lies."""

    directory: Path
    filesystem: str
    """Type, as mount(8) names it; `unknown` when its mount cannot be seen."""
    source: str
    """What is mounted, such as `/dev/sda1`."""
    mount_point: str
    """As its server sees it, or else as seen from here."""
    device: Device | None
    unknown_because: str | None
    """Why a read that reached no device is `unknown` there; None when its source is told."""


def storage(directory: Path, pid: int | None = None) -> Storage:
    """Find out where a directory lies, as process `pid` has it mounted.

    Without a pid that is the process of a path such as `/proc/PID/cwd`, or else pgtrace itself.
    Raise TargetError when there is no such directory, PermissionDeniedError when it may not be
    reached.
    """
    try:
        mount_id, number = _mount_of(directory)
        process = re.match(r"/proc/(\d+)/", str(directory))
        owner = pid or (process[1] if process else "self")
        # A chroot hides the mounts outside of it: then they may be our own.
        seen = [*mounts(owner), *mounts("self")]
    except PermissionError as error:
        raise PermissionDeniedError(
            f"{directory} may not be reached ({error.strerror}). {sudo.how()}"
        ) from error
    except OSError as error:
        raise TargetError(f"There is no directory {directory}: {error.strerror}.") from error
    for mount in seen:
        if mount.mount_id == mount_id:
            return Storage(
                directory,
                mount.filesystem,
                mount.source,
                mount.point,
                _device(mount.device_number, mount.filesystem, mount.source),
                unknown_because(mount.filesystem, mount.device_number),
            )
    # In a chroot of another mount namespace; a block device behind it is seen all the same.
    why = "its mount cannot be seen from here" if number.startswith("0:") else None
    return Storage(directory, "unknown", "", "", _device(number, "unknown", ""), why)


def mounts(process: int | str) -> Iterator[Mount]:
    """What a process has mounted. Raises OSError."""
    # By line feeds alone: the kernel writes other ends of lines as they are, and anybody may mount
    # something of such a name
    for line in Path(f"/proc/{process}/mountinfo").read_bytes().split(b"\n"):
        fields = os.fsdecode(line).split(" ")
        if "-" in fields[:-2]:
            filesystem, source = map(_unescape, fields[fields.index("-") + 1 :][:2])
            yield Mount(fields[0], fields[2], _unescape(fields[4]), filesystem, source)


def unknown_because(filesystem: str, device_number: str) -> str | None:
    """Why page cache and wait cannot be told apart on a file system; None when they can.

    device_number: `major:minor` as in mountinfo. The rule is that of bpf/files.bpf.h: a block
    device has to be behind it, whose requests the reading process itself submits, or memory.
    """
    if filesystem in _IN_MEMORY | _WITHOUT_BLOCK_DEVICE:
        return None
    elsewhere = _ELSEWHERE.get(filesystem.partition(".")[0])
    if elsewhere is None and device_number.startswith("0:"):
        return f"no block device is behind {filesystem}"
    return elsewhere


def _mount_of(directory: Path) -> tuple[str, str]:
    """Id of the mount, unique over all mount namespaces, and device number of a directory."""
    descriptor = os.open(directory, os.O_PATH | os.O_DIRECTORY)
    try:
        info = Path(f"/proc/self/fdinfo/{descriptor}").read_text()
        number = os.fstat(descriptor).st_dev
    finally:
        os.close(descriptor)
    mount_id = info.partition("mnt_id:")[2].split()[0]
    return mount_id, f"{os.major(number)}:{os.minor(number)}"


def _device(number: str, filesystem: str, source: str) -> Device | None:
    if number.startswith("0:"):
        try:
            found = Path(source).stat()
        except (OSError, ValueError):
            return None
        if not source.startswith("/") or not stat.S_ISBLK(found.st_mode):
            return None
        number = f"{os.major(found.st_rdev)}:{os.minor(found.st_rdev)}"
    directory = (_SYS / "dev/block" / number).resolve()
    if not directory.is_dir():
        return None
    own = directory.name
    if (directory / "partition").exists():
        directory = directory.parent
    rotational = _read(directory / "queue/rotational")
    ahead = _read(directory / "queue/read_ahead_kb")
    if filesystem == "btrfs":
        ahead = _read_ahead_of_btrfs(own) or ahead
    depth = _read(directory / "device/queue_depth") or _read(directory / "queue/nr_requests")
    beneath = _beneath(directory)
    scheduler = re.search(r"\[(.+)\]", _read(directory / "queue/scheduler") or "")
    prefix = re.match(r"[a-z]+", directory.name)
    kind = prefix[0] if prefix else directory.name
    return Device(
        directory.name,
        next(
            (
                _KINDS[key]
                for key in _KINDS
                if kind == key or re.fullmatch(key + "[a-z]{1,3}", kind)
            ),
            kind,
        ),
        None if rotational is None else rotational == "1",
        int(ahead) if ahead else None,
        scheduler[1] if scheduler else None,
        beneath,
        any(Path(file).name.startswith(_SIMULATED) for file in beneath),
        int(depth) if depth else None,
        _is_virtual(directory),
    )


def _is_virtual(directory: Path) -> bool:
    names = [_read(directory / "device" / file) or "" for file in ("vendor", "model")]
    return bool(_VIRTUAL_PATH.search(str(directory)) or any(map(_VIRTUAL_MODEL.search, names)))


def _beneath(directory: Path) -> tuple[str, ...]:
    file = _read(directory / "loop/backing_file")
    if file:
        return (file,)
    return tuple(sorted(slave.name for slave in directory.glob("slaves/*")))


def _read_ahead_of_btrfs(device: str) -> str | None:
    # Its read-ahead is its own, larger by default than that of its devices.
    for link in (_SYS / "fs/btrfs").glob(f"*/devices/{device}"):
        return _read(link.parent.parent / "bdi/read_ahead_kb")
    return None


def _read(file: Path) -> str | None:
    try:
        return file.read_text(errors="replace").rstrip("\n")
    except OSError:
        return None


def _unescape(field: str) -> str:
    """Undo what mountinfo does to space, tab, newline and backslash, see proc_pid_mountinfo(5)."""
    text = re.sub(r"\\([0-7]{3})", lambda match: chr(int(match[1], 8)), field)
    return text.encode(errors="surrogateescape").decode(errors="backslashreplace")
