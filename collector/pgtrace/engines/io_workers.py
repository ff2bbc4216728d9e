"""Reads that I/O workers make: by which probes it is told who asked for them."""

from collections.abc import Callable
from dataclasses import dataclass, field

from ..libbpf.objects import Object
from ..linux import program_file
from ..linux.program_file import Program
from . import Postmaster, layout, probes


@dataclass(slots=True)
class _Binary:
    """Servers that run the same program."""

    links: list[Callable[[], object]]
    """Of the probe that each read meets that is asked for."""
    submitted: bool
    """Another sees what is handed to the workers."""
    owners: dict[int, int] = field(default_factory=dict)
    """The users of the servers, by the servers' places in layout.Live."""
    found: dict[int, int] = field(default_factory=dict)
    """Where in a handle it says what it reads, by these users: they may make theirs say anything,
    and are believed for their own servers."""


class IoWorkers:
    """Has a probe see each read that is asked for, until it is known where handles say what they
    read. From then on those are looked at that are handed to the workers, and a read that a backend
    makes itself meets no probe. Where that is never found out, the first stays.
    """

    def __init__(self, loaded: Object, live: layout.Live) -> None:
        self._object = loaded
        self._live = live
        self._binaries: dict[program_file.Identity, _Binary] = {}
        """By their identities."""

    def attach(self, program: Program, pid: int) -> str | None:
        """Attach the probes. Why it is not measured."""
        before = self._object.attached
        if missing := probes.attach_io_workers(self._object, program, pid):
            return missing
        links = self._object.since(before)
        submitted = probes.attach_submissions(self._object, program, pid)
        self._binaries[program.identity] = _Binary(links, submitted)
        return None

    def join(self, place: int, postmaster: Postmaster) -> None:
        """A server is traced, or comes in the place of one that was."""
        for each in self._binaries.values():
            each.owners.pop(place, None)
        handles = self._live.handles[place]
        handles.submitted = handles.agreed = handles.place = 0
        identity = program_file.identity(f"/proc/{postmaster.pid}/exe")
        known = self._binaries.get(identity) if identity else None
        if known is None or not known.submitted or not postmaster.io_workers:
            return
        known.owners[place] = postmaster.uid
        self._tell(known, place)
        handles.submitted = 1

    def look(self) -> None:
        """Let go of the first probe where it is known what handles say."""
        for each in self._binaries.values():
            if not each.owners:
                continue
            servers = {place: self._live.handles[place] for place in each.owners}
            for place, handles in servers.items():
                if handles.submitted and handles.agreed >= layout.CERTAIN:
                    each.found.setdefault(each.owners[place], handles.place)
            for place in servers:
                self._tell(each, place)
            if all(one.submitted and one.agreed >= layout.CERTAIN for one in servers.values()):
                self._object.let_go(each.links)
                each.links.clear()

    def close(self) -> None:
        """Let go of the memory: who handles an error may know this for longer."""
        del self._live

    def _tell(self, binary: _Binary, place: int) -> None:
        """What another server of the same user showed. `place` first: where it is certain, the
        kernel looks there.
        """
        found = binary.found.get(binary.owners[place])
        if not found and not binary.links:  # nothing else tells, of a server of another user since
            found = next(iter(binary.found.values()), 0)
        handles = self._live.handles[place]
        if found and handles.agreed < layout.CERTAIN:
            handles.place = found
            handles.agreed = layout.CERTAIN
