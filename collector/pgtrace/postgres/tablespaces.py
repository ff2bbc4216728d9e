"""Directories of a server in which relations lie, known by their inodes: paths differ by mounts."""

import contextlib
import os
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from ..errors import PgtraceError
from ..linux import foreign_files
from ..linux.storage import Storage, storage
from ..terminal_text import decode
from .discovery import Server, tablespaces

DEFAULT, GLOBAL = 1663, 1664
"""Their oids: src/include/catalog/pg_tablespace.dat"""
_LEAST_PAUSE_S = 1.0


class Space(NamedTuple):
    """The part of a tablespace that is one server's."""

    server: Server
    oid: int
    path: str
    """Within the data directory: `base`, or `pg_tblspc/16400/PG_15_202209061`."""
    location: str
    """As the server sees it."""
    storage: Storage | None
    """None if that could not be found out."""


class Spaces:
    """Those of the servers that are traced, which may change."""

    def __init__(self, servers: Callable[[], Iterable[Server]]) -> None:
        self._servers = servers
        self._known: dict[tuple[int, int, int], Space] = {}
        self._directories: dict[tuple[int, int, int], Path] = {}
        """Where each is seen from here, now: servers are started again."""
        self._anonymous: dict[int, Space] = {}
        """Those of btrfs and the like by their inode alone: stat() shows numbers of its own."""
        self._next_look = 0.0
        self.look()

    def find(self, device: tuple[int, int], inode: int) -> Space | None:
        """The one with that directory, if it is known."""
        return self._known.get((*device, inode)) or (
            None if device[0] else self._anonymous.get(inode)
        )

    def renew(self) -> bool:
        """Look for new ones, once a second at most; whether there are any."""
        now, before = time.monotonic(), len(self._known)
        if now >= self._next_look:
            self._next_look = now + _LEAST_PAUSE_S
            self.look()
        return len(self._known) > before

    def is_gone(self, device: tuple[int, int], space: int, inode: int, path: Sequence[str]) -> bool:
        """Whether no file of that path in a directory of find() is that inode any more; not while
        the directory itself is not seen."""
        directory = self._directories.get((*device, space))
        if directory is None:
            return False
        try:
            # By itself: a pathlib.Path takes longer than the call, and there may be thousands
            return os.lstat("/".join((str(directory), *path))).st_ino != inode
        except FileNotFoundError:
            with contextlib.suppress(OSError):
                return directory.stat().st_ino == space
        except (OSError, ValueError):
            pass
        return False

    def was_within(self, path: Sequence[str]) -> bool:
        """Whether a file that is not there was in a data directory, as its directories tell."""
        return any(
            (server.directory / directory).is_dir()
            for server in self._servers()
            for directory in path[:-1]
        )

    def are_here(self) -> bool:
        """Whether all servers' data directories are seen."""
        return all(server.directory.exists() for server in self._servers())

    def within(self, path: tuple[str, ...], inode: int) -> str | None:
        """What of a path, of which only the end is known, lies in a data directory."""
        for server in self._servers() if inode else ():
            for first in range(len(path)):
                try:
                    found = os.stat("/".join((str(server.directory), *path[first:])))  # noqa: PTH116
                except (OSError, ValueError):
                    continue
                if found.st_ino == inode:
                    return "/".join(decode(os.fsencode(part)) for part in path[first:])
        return None

    def is_whole(self, path: Sequence[str], device: tuple[int, int], inode: int) -> bool:
        """Whether a server has the file by this path from its root on, so that it is no end of a
        longer one.
        """
        for server in self._servers() if inode else ():
            root = Path(f"/proc/{server.postmaster_pid}/root")
            with contextlib.suppress(OSError, ValueError):
                found = root.joinpath(*path).lstat()
                known = os.major(found.st_dev), os.minor(found.st_dev)
                # stat() shows numbers of its own where the device is none, see _anonymous
                if found.st_ino == inode and (not device[0] or known == device):
                    return True
        return False

    def look(self) -> None:
        """Look where they are now."""
        for server in self._servers():
            self._look_at(server)

    def _look_at(self, server: Server) -> None:
        for oid, path, location, directory in _directories(server):
            try:
                found = directory.stat()
            except OSError:
                continue
            key = os.major(found.st_dev), os.minor(found.st_dev), found.st_ino
            self._directories[key] = directory
            if key not in self._known:
                where = _storage(directory, server)
                space = Space(server, oid, path, location, where)
                self._known[key] = space
                if not os.major(found.st_dev):
                    self._anonymous[found.st_ino] = space


def _directories(server: Server) -> Iterator[tuple[int, str, str, Path]]:
    yield DEFAULT, "base", server.data_directory, server.directory / "base"
    yield GLOBAL, "global", server.data_directory, server.directory / "global"
    try:
        outside = tablespaces(server)
    except PgtraceError:
        return
    for space in outside:
        for name in _versions(space.path):
            path = f"pg_tblspc/{space.oid}/{name}"
            yield space.oid, path, space.location, space.path / name
    # Those of allow_in_place_tablespaces are no links
    for oid in _names(server.directory, "pg_tblspc"):
        place = f"pg_tblspc/{oid}"
        for name in _versions(server.directory, place) if oid.isdecimal() else ():
            path = f"{place}/{name}"
            yield int(oid), path, f"{server.data_directory}/{place}", server.directory / path


def _versions(directory: Path, name: str = "") -> list[str]:
    """A tablespace has a directory for each version of PostgreSQL that made something in it."""
    return [each for each in _names(directory, name) if each.startswith("PG_")]


def _names(directory: Path, name: str) -> list[str]:
    try:
        return foreign_files.names(directory, name)
    except OSError:  # also where it is a link
        return []


def _storage(directory: Path, server: Server) -> Storage | None:
    try:
        return storage(directory, server.postmaster_pid)
    except PgtraceError:
        return None
