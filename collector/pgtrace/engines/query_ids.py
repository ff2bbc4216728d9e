"""The full tier: where backends keep the ids of their queries, so that no probe need tell them."""

import struct
from collections.abc import Callable
from dataclasses import dataclass, field

from ..errors import PgtraceError
from ..libbpf.objects import Object
from ..linux import program_file
from ..linux.program_file import Program
from ..postgres import binary
from . import Postmaster, layout, probes
from .calibration import Votes

_FEWEST = 4
"""An id is 64 bits of a hash: no other field has it by chance."""
_AT_ONCE = 4
"""Samples between two looks."""
NO_PROBE = (
    "query ids of the server started since: its program has no probe that tells where they are"
)
_LONGS = struct.Struct(f"<{layout.ENTRY // 8}Q")


@dataclass(slots=True)
class _Binary:
    """Servers that run the same program."""

    links: list[Callable[[], object]] = field(default_factory=list)
    """Of the probe that tells ids."""
    owners: dict[int, int] = field(default_factory=dict)
    """The users of the servers that compute ids, by the servers' places in layout.Live."""
    votes: dict[int, Votes] = field(default_factory=dict)
    """By these users: they may have theirs show anything, and are believed for their own."""
    found: dict[int, int] = field(default_factory=dict)
    """Where in a PgBackendStatus ids are, by these users."""

    def is_over(self, owner: int) -> bool:
        return owner in self.found or bool(self.votes[owner].failure())


class QueryIds:
    """Has a probe tell them until it is known where they are. Where that is never found out, as
    with track_activities = off, it stays.
    """

    def __init__(self, loaded: Object, live: layout.Live) -> None:
        self._object = loaded
        self._live = live
        self._binaries: dict[program_file.Identity, _Binary] = {}
        """By their identities."""

    def attach(self, program: Program, pid: int) -> list[str]:
        """Attach the probe. What is not measured."""
        before = self._object.attached
        missing = probes.attach_query_ids(self._object, program, pid)
        known = self._binaries.setdefault(program.identity, _Binary())
        known.links += self._object.since(before)
        return missing

    def join(self, place: int, postmaster: Postmaster) -> bool:
        """A server is traced, or comes in the place of one that was. Whether anything tells ids
        there: once the probe is gone, nothing does of another user's.
        """
        for each in self._binaries.values():
            each.owners.pop(place, None)
        identity = program_file.identity(f"/proc/{postmaster.pid}/exe")
        known = self._binaries.get(identity) if identity else None
        memory = self._live.memory[place]
        memory.query_id = memory.sampled = 0
        if known is None:
            return False
        owner = postmaster.uid
        if postmaster.entry and postmaster.query_ids:
            known.owners[place] = owner
            known.votes.setdefault(owner, Votes(_FEWEST))
            self._tell(known, place)
        return bool(known.links) or owner in known.found

    def take(self, data: bytes) -> None:
        """One sample: an entry in which the id is that was told of its query."""
        sample = layout.Sample.from_buffer_copy(data)
        place = self._live.place_of(sample.postmaster)
        longs = _LONGS.unpack(bytes(sample.entry))
        for each in self._binaries.values():
            owner = each.owners.get(place) if place is not None else None
            if owner is not None and not each.is_over(owner):
                found = (i * 8 for i, long in enumerate(longs) if long == sample.argument)
                each.votes[owner].add(found)

    def look(self) -> None:
        """Let go of the probe where it is known where ids are."""
        for each in self._binaries.values():
            if not each.links:
                continue
            users = set(each.owners.values())
            for owner in users - each.found.keys():
                if found := each.votes[owner].place():
                    each.found[owner] = found
            for place in each.owners:
                self._tell(each, place)
            if users and users <= each.found.keys():
                self._object.let_go(each.links)
                each.links.clear()

    def close(self) -> None:
        """Let go of the memory: who handles an error may know this for longer."""
        del self._live

    def _tell(self, binary: _Binary, place: int) -> None:
        """What servers of the same user showed."""
        owner, memory = binary.owners[place], self._live.memory[place]
        memory.query_id = binary.found.get(owner, 0)
        memory.sampled = _AT_ONCE if binary.links and not binary.is_over(owner) else 0

    def shown(self, task: layout.Task) -> int:
        """The id that a task shows of what it runs; 0: it shows none, or may not be looked into."""
        place = self._live.place_of(task.postmaster)
        if task.ended_ns or place is None or not self._live.memory[place].query_id:
            return 0  # of one that ended, the pid may be another's
        memory = self._live.memory[place]
        try:
            entry = task.seen.entry or binary.pointer(task.tgid, memory.entry)
            return binary.pointer(task.tgid, entry + memory.query_id) if entry else 0
        except PgtraceError:
            return 0
