"""Storages that are compared: named on the command line, checked before anything is written."""

import contextlib
import os
import pwd
import re
import shutil
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ... import units
from ...errors import PgtraceError, UsageError
from ...linux import as_user
from ...linux.storage import Storage as Found
from ...linux.storage import storage
from ...model.lab_result import Device, Medium, Storage
from .undo_log import Changes, Directory

MEMORY = "memory"
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,30}")
_NETWORK = {"afs", "beegfs", "ceph", "cifs", "glusterfs", "gpfs", "lustre", "nfs", "nfs4", "smb3"}
_NETWORK |= {f"fuse.{name}" for name in ("ceph", "glusterfs", "s3fs", "sshfs", "rclone")}
_BELONGS_TO_THE_FILE_SYSTEM = {"lost+found"}


@dataclass(frozen=True, slots=True)
class Place:
    """A storage that was asked for."""

    name: str
    directory: Path
    medium: Medium = "device"
    with_server: bool = False
    """Its table lies in the server's own directory."""

    @property
    def has_tablespace(self) -> bool:
        """The table held in the page cache needs none: it lies with the server."""
        return self.medium != "memory" and not self.with_server


def parse(text: str, option: str = "--storage") -> Place:
    """What `--storage NAME=DIR` says, or another option. Raises UsageError."""
    name, equals, directory = text.partition("=")
    if not equals or not directory:
        raise UsageError(f"{option} {text}: say it as in {option} ssd=/mnt/ssd")
    if not _NAME.fullmatch(name):
        raise UsageError(f"{option} {text}: a name has up to 31 letters, digits, _ and -")
    path = Path(directory)
    if not path.is_dir():
        why = "is not a directory" if path.exists() else "does not exist"
        raise UsageError(f"{option} {name}: {directory} {why}; name an empty one on that storage")
    path = path.resolve()
    return Place(name, path, "tmpfs" if storage(path).filesystem == "tmpfs" else "device")


def check_apart(places: Sequence[Place]) -> None:
    """Raise UsageError if two have one name, or one directory."""
    for name, times in Counter(place.name for place in places).items():
        if times > 1:
            also = "; --memory is one, too" if name == MEMORY else ""
            raise UsageError(f"two storages are named {name}{also}: give each a name of its own")
    known: dict[tuple[int, int], Place] = {}
    for place in places:
        status = place.directory.stat()
        other = known.setdefault((status.st_dev, status.st_ino), place)
        if other is not place:
            raise UsageError(
                f"--storage {other.name} and {place.name} are one directory, {place.directory}; "
                "to compare a storage with itself, name two directories on it"
            )


def check_usable(place: Place, ids: tuple[int, int], user: str, option: str = "--storage") -> None:
    """Raise UsageError unless it is empty, local, and the server's user may write there, or root
    makes the user a directory in it because nobody else may.
    """
    filesystem = storage(place.directory).filesystem
    if filesystem in _NETWORK:
        raise UsageError(
            f"{option} {place.name}: {place.directory} is on a network file system "
            f"({filesystem}), whose reads no device of this host serves; name a local one"
        )
    members = {entry.name for entry in os.scandir(place.directory)} - _BELONGS_TO_THE_FILE_SYSTEM
    if members:
        raise UsageError(
            f"{option} {place.name}: {place.directory} is not empty (it holds "
            f"{min(members)}); name an empty directory on that storage"
        )
    path = str(place.directory)
    with as_user.opened(place.directory) as opened:
        own = as_user.is_roots_own(opened, place.directory)
    try:
        as_user.run(ids, ["test", "-x", path, *([] if own else ["-a", "-w", path])])
    except PgtraceError:
        raise UsageError(
            f"{option} {place.name}: {place.directory} is not writable by the server's user "
            f"{user}: chown {_here(user, ids[0])} {place.directory}, and let {user} pass the "
            "directories above it"
        ) from None


def _here(user: str, uid: int) -> str:
    """What this root calls a user that may be another root's."""
    with contextlib.suppress(KeyError):
        if pwd.getpwnam(user).pw_uid == uid:
            return user
    return str(uid)


def check_room(needed: Sequence[tuple[Place, int]]) -> None:
    """Raise UsageError unless each file system has that many bytes free for all its places."""
    sums: dict[int, list[tuple[Place, int]]] = {}
    for place, size in needed:
        sums.setdefault(place.directory.stat().st_dev, []).append((place, size))
    for listed in sums.values():
        whole, free = (
            sum(size for _, size in listed),
            shutil.disk_usage(listed[0][0].directory).free,
        )
        if whole > free:
            names = ", ".join(f"{place.name} ({place.directory})" for place, _ in listed)
            raise UsageError(
                f"too little room for {names}: {units.size(whole)} are needed, {units.size(free)} "
                "are free; take fewer --rows, or another directory"
            )


def make_directories(
    changes: Changes, places: Sequence[Place], ids: tuple[int, int]
) -> dict[str, Path]:
    """Make a directory for the tablespace of each place that has one; theirs by name."""
    made = {p.name: p.directory / f"pgtrace-lab-{os.getpid()}" for p in places if p.has_tablespace}
    for directory in made.values():
        make_directory(changes, directory, ids)
    return made


def make_directory(changes: Changes, directory: Path, ids: tuple[int, int]) -> None:
    """Make one of the server's user, which is removed in the end."""
    with as_user.opened(directory.parent) as parent:
        # Nothing that was there before is to be removed
        if as_user.exists(parent, directory.name):
            raise PgtraceError(f"{directory} is there already: remove it")
        changes.will(Directory(str(directory), *ids))
        own = as_user.is_roots_own(parent, directory.parent)
        as_user.make_directory(ids, parent, directory.name, by_root=own)


def describe(place: Place) -> Storage:
    """What the report says of it."""
    found = storage(place.directory)
    return Storage(
        place.name,
        str(place.directory),
        simulated=bool(found.device and found.device.simulated),
        medium=place.medium,
        device=_device(found),
    )


def _device(found: Found) -> Device:
    below = found.device
    if below is None:
        return Device(kind=found.filesystem, filesystem=found.filesystem)
    return Device(
        kind=below.kind,
        filesystem=found.filesystem,
        name=below.name,
        rotational=below.rotational,
        read_ahead_kb=below.read_ahead_kb,
        scheduler=below.scheduler,
        queue_depth=getattr(below, "queue_depth", None),
        virtual=getattr(below, "virtual", None),
    )
