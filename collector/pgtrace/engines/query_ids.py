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
_LONGS = struct.Struct(f"<{layout.ENTRY // 8}Q")


@dataclass(slots=True)
class _Binary:
    """Servers that run the same program."""

    links: list[Callable[[], object]] = field(default_factory=list)
    """Of the probe that tells ids."""
    places: set[int] = field(default_factory=set)
    """Of the servers, in layout.Live."""
    votes: Votes = field(default_factory=lambda: Votes(_FEWEST))
    found: int = 0
    """Where in a PgBackendStatus they are; 0: not found."""

    @property
    def is_over(self) -> bool:
        return bool(self.found or self.votes.failure())


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

    def join(self, place: int, postmaster: Postmaster) -> None:
        """A server is traced, or comes in the place of one that was."""
        for each in self._binaries.values():
            each.places.discard(place)
        identity = program_file.identity(f"/proc/{postmaster.pid}/exe")
        known = self._binaries.get(identity) if identity else None
        memory = self._live.memory[place]
        memory.query_id = memory.sampled = 0
        if known is None or not postmaster.entry:
            return
        known.places.add(place)
        memory.query_id = known.found
        memory.sampled = 0 if known.is_over else _AT_ONCE

    def take(self, data: bytes) -> None:
        """One sample: an entry in which the id is that was told of its query."""
        sample = layout.Sample.from_buffer_copy(data)
        place = self._live.place_of(sample.postmaster)
        longs = _LONGS.unpack(bytes(sample.entry))
        for each in self._binaries.values():
            if place in each.places and not each.is_over:
                each.votes.add(i * 8 for i, long in enumerate(longs) if long == sample.argument)

    def look(self) -> None:
        """Let go of the probe where it is known where ids are."""
        for each in self._binaries.values():
            if each.is_over:
                continue
            each.found = each.votes.place() or 0
            for place in each.places:
                memory = self._live.memory[place]
                memory.sampled = 0 if each.is_over else _AT_ONCE
                memory.query_id = each.found
            if each.found:
                self._object.let_go(each.links)
                each.links.clear()

    def close(self) -> None:
        """Let go of the memory: who handles an error may know this for longer."""
        del self._live

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
