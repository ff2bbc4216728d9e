"""Read-ahead of the device under a directory: where it is set, and who else would notice.

A file takes it from its file system's device when it is opened (file_ra_state_init() in
mm/readahead.c), and that is the device that is mounted: of a partition the whole disk, of LVM and
loop the device mapper's or loop device itself. What lies below those has a read-ahead of its own,
which no file of this file system asks for.
"""

import os
import stat
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from ...errors import PgtraceError, UnsupportedError, UsageError
from ...linux.storage import mounts, storage
from ..core.storages import Place
from ..core.undo_log import Changes, Setting

SECTOR = 512
_DEVICES = Path("/sys/dev/block")
_WHY_NOT = {
    "tmpfs": "tmpfs is memory, where nothing is read ahead",
    "ramfs": "ramfs is memory, where nothing is read ahead",
    "btrfs": "btrfs may lie on several devices, and reads ahead by a setting of its own",
    "bcachefs": "bcachefs may lie on several devices, and reads ahead by a setting of its own",
}


@dataclass(frozen=True, slots=True)
class ReadAhead:
    """That of one device."""

    disk: Path
    """In /sys: of a partition the whole disk."""

    @property
    def file(self) -> Path:
        """Where it is set, in KiB."""
        return self.disk / "queue/read_ahead_kb"

    def sectors(self) -> int:
        """What it is, in sectors of 512 bytes, as `blockdev --getra` has it."""
        return int(self.file.read_text()) * 1024 // SECTOR

    def set(self, sectors: int, changes: Changes) -> None:
        """For files that are opened from now on; undone with the other changes.

        Raises PgtraceError if the device takes another one.
        """
        changes.once(Setting(str(self.file), self.file.read_text().strip()))
        self.file.write_text(str(sectors * SECTOR // 1024))
        self.check(sectors)

    def check(self, sectors: int) -> None:
        """Raise PgtraceError if it is another one."""
        found = self.sectors()
        if found != sectors:
            raise PgtraceError(
                f"read-ahead of {self.disk.name} is {found} sectors where {sectors} were set: "
                "somebody else sets it, such as a rule of udev or tuned; end that"
            )


def read_ahead(place: Place) -> ReadAhead:
    """That of the device under a place. Raises UnsupportedError if it has none, or it cannot be
    set; nothing is changed.
    """
    found, number = storage(place.directory), place.directory.stat().st_dev
    why = _WHY_NOT.get(found.filesystem) or found.unknown_because
    if not why and os.major(number) == 0:
        why = f"{found.filesystem} shows no block device of its own"
    disk = _disk(f"{os.major(number)}:{os.minor(number)}")
    ahead = ReadAhead(disk) if disk else None
    if not why and (ahead is None or not ahead.file.exists()):
        why = "its device has no such setting"
    if not why and ahead:
        try:
            ahead.file.write_text(ahead.file.read_text())
        except OSError as error:
            why = f"{ahead.file} cannot be written ({error.strerror})"
    if why or not ahead:
        raise UnsupportedError(
            f"--storage {place.name}: read-ahead cannot be set under {place.directory}: {why}"
        )
    return ahead


def usable(places: Sequence[Place], *, shared_host: bool) -> tuple[list[Place], dict[str, str]]:
    """Return those whose read-ahead can be set, and of the others why not, by name.

    Raises UnsupportedError if none can, UsageError if others use a device and `shared_host` does
    not allow that.
    """
    good, bad = [], {}
    for place in places:
        try:
            ahead = read_ahead(place)
        except UnsupportedError as error:
            bad[place.name] = str(error)
            continue
        others = list(users(ahead.disk, place.directory.stat().st_dev))
        if others and not shared_host:
            raise UsageError(
                f"--storage {place.name}: {ahead.disk.name} is also used by {', '.join(others)}, "
                "whose reads change with its read-ahead, and disturb what is measured; "
                "--shared-host does it all the same"
            )
        good.append(place)
    if not good:
        raise UnsupportedError(f"{'; '.join(bad.values())}; name a directory on a block device")
    return good, bad


def users(disk: Path, own: int) -> Iterator[str]:
    """Whatever else uses a disk than the file system of device number `own`: the system's root,
    also if it is that one, other file systems, swap, and devices made of it.
    """
    numbers = {text.strip() for text in _texts(disk, "dev")}
    mine = f"{os.major(own)}:{os.minor(own)}"
    seen = set()
    for mounted_at, number in _mounts():
        if number in numbers and (number != mine or mounted_at == "/"):
            seen.add("the system itself, /" if mounted_at == "/" else mounted_at)
    yield from sorted(seen)
    for line in Path("/proc/swaps").read_text().splitlines()[1:]:
        area = line.split()[0]
        if _number_of(area) in numbers:
            yield f"swap on {area}"
    for pattern in ("holders/*", "*/holders/*"):
        yield from sorted(holder.name for holder in disk.glob(pattern))


def _disk(number: str) -> Path | None:
    """The whole disk of a device number, in /sys; None if it is no block device's."""
    directory = (_DEVICES / number).resolve()
    if not directory.is_dir():
        return None
    return directory.parent if (directory / "partition").exists() else directory


def _texts(disk: Path, name: str) -> Iterator[str]:
    """What files of this name say, of a disk and of its partitions."""
    yield (disk / name).read_text()
    for partition in disk.glob("*/partition"):
        yield (partition.parent / name).read_text()


def _mounts() -> Iterator[tuple[str, str]]:
    """Where file systems are mounted, here and for process 1, and the numbers of their devices."""
    for process in "1", "self":
        with suppress(OSError):
            for mount in mounts(process):
                number = mount.device_number
                if number.startswith("0:") and mount.source.startswith("/"):
                    number = _number_of(mount.source) or number
                yield mount.point, number


def _number_of(path: str) -> str | None:
    """Of a device, or of the one that a file lies on."""
    try:
        found = Path(path).stat()
    except OSError:
        return None
    number = found.st_rdev if stat.S_ISBLK(found.st_mode) else found.st_dev
    return f"{os.major(number)}:{os.minor(number)}"
