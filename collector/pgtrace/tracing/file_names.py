"""What was read: from a file, as the kernel saw it, to its kind, its tablespace, its relation."""

import re
import time
from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from ..engines import File
from ..model.capture import Kind, Tablespace
from ..postgres.catalog import Names
from ..postgres.discovery import Server
from ..postgres.relations import Relation
from ..postgres.tablespaces import DEFAULT, GLOBAL, Space, Spaces
from ..terminal_text import ELLIPSIS, decode

_FORK_AND_SEGMENT = re.compile(r"(?:_(?:fsm|vm|init))?(?:\.\d+)?$")
_OF_RELATIONS = frozenset({"relation", "visibility map", "free space map"})
_BY_DIRECTORY = frozenset({"temporary", "wal"})
GONE = "(gone)"
"""The name of files that are gone, and whose own is not known."""
CHECK_S = 5.0
"""So often it is looked which files are gone."""
MOST_CHECKED = 5000
"""Files at once; more take several looks."""
MOST_NAMES = 1000
"""Names of relations that are kept when their files are gone; more are GONE."""


class Place(NamedTuple):
    """Of a read, what file it was of."""

    kind: Kind
    tablespace: str | None = None
    relation: str | None = None


class Places:
    """Resolves files of the engine; with a connection to their relations.

    Without `by_relation`, a place has no relation, and only a connection tells heap from index.
    """

    def __init__(
        self,
        files: Callable[[], Mapping[int, File]],
        servers: Callable[[], Iterable[Server]],
        names_of: Callable[[Server], Names | None],
        called: Callable[[Server], str],
        *,
        by_relation: bool,
    ) -> None:
        self._files = files
        self._whose = names_of
        self._called = called
        self._by_relation = by_relation
        self._several = len(list(servers())) > 1
        self._spaces = Spaces(servers)
        self._seen: dict[int, tuple[File, Space | None, str | None]] = {}
        self._unplaced: list[int] = []
        """Files of tablespaces that are not known, as of one that was just made."""
        self._relations: dict[int, Relation] = {}
        self._next_check = 0.0
        self._checked = 0
        self._names_of_gone: set[str] = set()

    def look(self) -> None:
        """Take in files that are new, and ask for their names; cheap, for every poll."""
        files = self._files()
        if len(files) != len(self._seen):
            for index in files.keys() - self._seen.keys():
                self._seen[index] = (files[index], None, None)
                self._see(index)
        if self._unplaced and self._spaces.renew():
            again, self._unplaced = self._unplaced, []
            for index in again:
                self._see(index)

    def place(self, file: int) -> Place:
        """Of a file by its index in the engine's list; what is not known is named as such."""
        if file < 0:
            return Place("unknown")
        if file not in self._seen:
            self.look()
        if file not in self._seen:  # its entry is about to be filled
            return Place("unknown")
        seen, space, path = self._seen[file]
        relation = self._relation(file)
        kind = relation.kind if relation and seen.kind == "relation" else seen.kind
        name = None
        if self._by_relation and seen.gone:
            name = seen.path[-1]
        elif self._by_relation and is_told(seen):
            name = relation.name if relation else path
            name = name and self._of_server(name, space)
        return Place(kind, space and self._of_server(self._name(space), space), name)

    def gone(self) -> dict[int, File]:
        """Which files are gone, some seconds later, and what each is told as from then on: under
        its name, if a connection told it or another file has its path now, or as one that is gone.
        """
        now = time.monotonic()
        if now < self._next_check:
            return {}
        self._next_check = now + CHECK_S
        self._spaces.look()
        all_here = self._spaces.are_here()
        known = list(self._seen)
        first = self._checked if self._checked < len(known) else 0
        self._checked = first + MOST_CHECKED
        return {
            index: self._stand_in(index)
            for index in known[first : self._checked]
            if self._is_gone(index, all_here=all_here)
        }

    def forget(self, gone: Iterable[int]) -> None:
        """The engine has forgotten these files."""
        for index in gone:
            file, space, path = self._seen.pop(index)
            self._relations.pop(index, None)
            names = self._names_of(file, space)
            if path and names:
                names.relations.forget(path)
        self._unplaced = [index for index in self._unplaced if index in self._seen]

    def _is_gone(self, index: int, *, all_here: bool = True) -> bool:
        """Of one of which it is not known where it lies, only while all directories are seen."""
        file, space, path = self._seen[index]
        if not file.inode or path is None:
            return False
        if space is None:
            if not all_here:
                return False
            gone = self._spaces.within(file.path, file.inode) is None
            # One that was gone before it was looked at is told as what lies elsewhere
            elsewhere = path.startswith((ELLIPSIS, "/"))
            return gone and (not elsewhere or self._spaces.was_within(file.path))
        inside = _below(file.path, space)
        return inside is not None and self._spaces.is_gone(
            file.device, file.space, file.inode, inside
        )

    def _stand_in(self, index: int) -> File:
        file, space, _ = self._seen[index]
        relation = self._relation(index)
        place = self.place(index)
        name = GONE if space is None else self._of_server(GONE, space)
        if (relation or file.kind == "slru") and place.relation:
            if len(self._names_of_gone) < MOST_NAMES:
                self._names_of_gone.add(place.relation)
            if place.relation in self._names_of_gone:
                name = place.relation
        return File(place.kind, file.device, 0, file.space, (name,), gone=True)

    def tablespaces(self) -> list[Tablespace]:
        """Those of which files were read."""
        found: dict[str, Tablespace] = {}
        for space in dict.fromkeys(space for _, space, _ in self._seen.values() if space):
            name = self._of_server(self._name(space), space)
            where = space.storage
            device = where.device if where else None
            found[name] = Tablespace(
                name,
                location=space.location,
                filesystem=where.filesystem if where else None,
                device=device.name if device else None,
                rotational=device.rotational if device else None,
                read_ahead_kb=device.read_ahead_kb if device else None,
                simulated=device.simulated if device else False,
            )
        return [found[name] for name in sorted(found)]

    def _see(self, index: int) -> None:
        file, _, _ = self._seen[index]
        space = self._spaces.find(file.device, file.space)
        path = None if file.gone else path_of(file, space)
        if file.kind == "other" and path and space is None:
            path = self._spaces.within(file.path, file.inode) or path
            if path.startswith(ELLIPSIS):
                whole = self._spaces.is_whole(file.path, file.device, file.inode)
                path = path.removeprefix(ELLIPSIS) if whole else path
        if file.space and space is None:
            self._unplaced.append(index)
        self._seen[index] = (file, space, path)
        names = self._names_of(file, space)
        if path and names:
            names.relations.wish(path)

    def _relation(self, index: int) -> Relation | None:
        # What was known of a file once is kept: its path may be another's later
        known = self._relations.get(index)
        if known:
            return known
        file, space, path = self._seen[index]
        names = self._names_of(file, space)
        if path and names:
            known = names.relations.known.get(path)
            if known:
                self._relations[index] = known
        return known

    def _names_of(self, file: File, space: Space | None) -> Names | None:
        """Who may know a file: one of a relation, of a server that there is a connection to."""
        if space is None or not file.inode or file.kind not in _OF_RELATIONS:
            return None
        return self._whose(space.server)

    def _name(self, space: Space) -> str:
        if space.oid in (DEFAULT, GLOBAL):
            return "pg_default" if space.oid == DEFAULT else "pg_global"
        names = self._whose(space.server)
        if names:
            return names.relations.tablespaces.get(space.oid, str(space.oid))
        return str(space.oid)

    def _of_server(self, name: str, space: Space | None) -> str:
        """Names of several servers are told apart by what these are called."""
        if not self._several or space is None:
            return name
        return f"{name} of {self._called(space.server)}"


def is_told(file: File) -> bool:
    """Whether it is known of a read more than the kind of its file: that of one, or of several that
    are told by their directory alone."""
    return bool(file.inode) or file.gone or file.kind in _BY_DIRECTORY


def path_of(file: File, space: Space | None) -> str | None:
    """Where it is, from the data directory on: `base/5/16385`; None if that was not seen.

    Without the suffix of a fork and the number of a segment. Of temporary files, of WAL and of
    an SLRU it is the directory. What lies elsewhere begins with "…": it may not be all of its path.
    """
    if not file.path:
        return None
    *above, name = (decode(part.encode("utf-8", "surrogateescape")) for part in file.path)
    if file.kind == "wal":
        return "pg_wal"
    if file.kind == "slru":
        return "/".join(above[-2:] if above[-2:-1] == ["pg_multixact"] else above[-1:])
    if file.kind == "temporary":
        return f"{space.path if space else ELLIPSIS}/pgsql_tmp"
    if file.kind in _OF_RELATIONS:
        name = _FORK_AND_SEGMENT.sub("", name)
    inside = space and _below((*above, name), space)
    if space and inside:
        return "/".join([space.path, *inside])
    return "/".join([ELLIPSIS, *above, name])


def _below(path: tuple[str, ...], space: Space) -> tuple[str, ...] | None:
    """What of a path is below the tablespace's directory; None if that is not in it."""
    directory = space.path.rpartition("/")[2]
    above = path[:-1]
    if directory not in above:
        return None
    return path[len(above) - above[::-1].index(directory) :]
