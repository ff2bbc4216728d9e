"""Reads that I/O workers make: by which probes it is told who asked for them."""

from collections.abc import Callable
from dataclasses import dataclass, field

from ..libbpf.objects import Object
from ..linux import foreign_files
from . import Postmaster, layout, probes


@dataclass(slots=True)
class _Binary:
    """Servers that run the same program."""

    links: list[Callable[[], object]] = field(default_factory=list)
    """Of the probe that each read meets that is asked for."""
    submitted: bool = False
    """Another sees what is handed to the workers."""
    places: set[int] = field(default_factory=set)
    """Of the servers, in layout.Live."""
    found: int = 0
    """Where in a handle it says what it reads; 0: not found."""


class IoWorkers:
    """Has a probe see each read that is asked for, until it is known where handles say what they
    read. From then on those are looked at that are handed to the workers, and a read that a backend
    makes itself meets no probe. Where that is never found out, the first stays.
    """

    def __init__(self, loaded: Object, live: layout.Live) -> None:
        self._object = loaded
        self._live = live
        self._binaries: dict[tuple[int, int], _Binary] = {}
        """By their inodes."""

    def attach(self, path: str, pid: int) -> str | None:
        """Attach the probes. Why it is not measured."""
        before = self._object.attached
        if missing := probes.attach_io_workers(self._object, path, pid):
            return missing
        links = self._object.since(before)
        submitted = probes.attach_submissions(self._object, path, pid)
        if (inode := foreign_files.inode(path)) is not None:
            known = self._binaries.setdefault(inode, _Binary())
            known.links += links
            known.submitted |= submitted
        return None

    def join(self, place: int, postmaster: Postmaster) -> None:
        """A server is traced, or comes in the place of one that was."""
        for each in self._binaries.values():
            each.places.discard(place)
        handles = self._live.handles[place]
        handles.submitted = handles.agreed = handles.place = 0
        inode = foreign_files.inode(f"/proc/{postmaster.pid}/exe")
        known = self._binaries.get(inode) if inode else None
        if known is None or not known.submitted:
            return
        known.places.add(place)
        self._tell(known, place)
        handles.submitted = 1

    def look(self) -> None:
        """Let go of the first probe where it is known what handles say."""
        for each in self._binaries.values():
            servers = [self._live.handles[place] for place in each.places]
            if not each.links or not servers or not all(one.submitted for one in servers):
                continue
            each.found = next((s.place for s in servers if s.agreed >= layout.CERTAIN), 0)
            if each.found:
                for place in each.places:
                    self._tell(each, place)
                self._object.let_go(each.links)
                each.links.clear()

    def _tell(self, binary: _Binary, place: int) -> None:
        """`place` first: where it is certain, the kernel looks there."""
        if binary.found:
            handles = self._live.handles[place]
            handles.place = binary.found
            handles.agreed = layout.CERTAIN
