"""The light tier: what the kernel half has to know of servers to look up what backends run."""

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from ..errors import PgtraceError
from ..libbpf.objects import Object
from ..linux import program_file
from ..linux.program_file import Program
from . import Postmaster, Request, layout, probes
from .calibration import Calibration
from .query_ids import NO_PROBE

_AT_FIRST_S = 0.1
"""So long the start of tracing waits for samples: of a busy server they are there by then."""
_LOOK_S = 0.005
_THREADS = 8
"""Of so many samples are taken between two looks: a busy server reports faster than anybody can
look at."""
_OTHERS_S = 60.0
"""So long those of other users are waited for once one user's servers showed all: an idle one would
keep probes in the queries of all."""
_TOO_FEW = "query ids: too few statements ran to find out where they are"
_TOO_LATE = "query ids of a server that ran too few statements while its program had probes"
_UNSEEN = "the statements of some reads: what their backends show of themselves was being changed"


@dataclass(slots=True)
class _Binary:
    """Servers that run the same program."""

    ids: bool
    """A probe tells them."""
    links: list[Callable[[], object]] = field(default_factory=list)
    owners: dict[int, int] = field(default_factory=dict)
    """The users of the servers, by the servers' places in layout.Live."""
    shown: dict[int, Calibration] = field(default_factory=dict)
    """By these users: they may have theirs show anything, and are believed for their own."""
    over: set[int] = field(default_factory=set)
    """Those of them whose servers need show no more."""
    until: float = math.inf
    """When the probes go at the latest."""

    def waiting(self) -> set[int]:
        """The users whose servers are to show more."""
        return set(self.owners.values()) - self.over if self.links else set()


class Light:
    """Has the fields of PgBackendStatus found by samples, and tells the kernel half."""

    def __init__(self, loaded: Object, live: layout.Live, request: Request) -> None:
        self._object = loaded
        self._live = live
        self._binaries: dict[program_file.Identity, _Binary] = {}
        """By their identities."""
        self.not_measured: list[str] = []
        for program, pid in request.calibrate:
            self._attach(program, pid, ids=program.identity in request.query_ids)
        for place, postmaster in enumerate(request.postmasters):
            self._join(place, postmaster)

    def wait(self, consume: Callable[[], object]) -> None:
        """Let the servers that are busy be calibrated before tracing begins."""
        end = time.monotonic() + _AT_FIRST_S
        while self.look() and time.monotonic() < end:
            time.sleep(_LOOK_S)
            consume()

    def look(self) -> bool:
        """Tell what the samples that were taken show; whether more are needed."""
        for each in self._binaries.values():
            if each.links:
                self._settle(each)
        return any(each.links for each in self._binaries.values())

    def take(self, data: bytes) -> None:
        """One sample."""
        sample = layout.Sample.from_buffer_copy(data)
        place = self._live.place_of(sample.postmaster)
        for each in self._binaries.values():
            if place in each.owners and each.owners[place] in each.waiting():
                shown = each.shown[each.owners[place]]
                shown.add(sample, time.time_ns() - time.monotonic_ns())

    def follow(self, place: int, new: Postmaster, binary: Program | None) -> None:
        """Another server comes in the place of one; `binary` is what it runs, if that is new."""
        for each in self._binaries.values():
            each.owners.pop(place, None)
        self._live.memory[place] = layout.Memory(wait=new.wait)
        if binary:
            self._attach(binary, -1, ids=new.query_ids)
        self._join(place, new)
        if not (new.entry and new.text):
            self._say("queries of the server started since: its binary lacks what is looked at")

    def finish(self) -> list[str]:
        """What was not measured, once tracing has ended."""
        for each in self._binaries.values():
            shown = [each.shown[owner] for owner in each.waiting()]
            if any(one.ids and one.samples for one in shown):
                self._say(_TOO_FEW)
        if self._live.unseen:
            self._say(_UNSEEN)
        return self.not_measured

    def close(self) -> None:
        """Let go of the memory: who handles an error may know this for longer."""
        del self._live

    def _say(self, missing: str) -> None:
        if missing not in self.not_measured:
            self.not_measured.append(missing)

    def _attach(self, program: Program, pid: int, *, ids: bool) -> None:
        before = self._object.attached
        try:
            missing = probes.attach_calibration(self._object, program, pid, ids=ids)
        except PgtraceError as error:
            missing = str(error)
        if missing:
            self._object.detach(keep=before)
            self._say(f"query ids: {missing}")
            return
        known = self._binaries.setdefault(program.identity, _Binary(ids))
        known.links += self._object.since(before)

    def _join(self, place: int, postmaster: Postmaster) -> None:
        memory = self._live.memory[place]
        memory.entry, memory.text = postmaster.entry, postmaster.text
        identity = program_file.identity(f"/proc/{postmaster.pid}/exe")
        known = self._binaries.get(identity) if identity else None
        if known is None or not postmaster.entry:
            return
        owner = known.owners[place] = postmaster.uid
        shown = known.shown.setdefault(owner, Calibration())
        if postmaster.query_ids and not shown.ids:
            if known.links and known.ids:
                shown.expect_ids()
                known.over.discard(owner)
            else:
                self._say(NO_PROBE)
        memory.sampled = _THREADS if owner in known.waiting() else 0
        self._tell(place, shown)

    def _settle(self, binary: _Binary) -> None:
        for owner in (before := binary.waiting()):
            if binary.shown[owner].is_over():
                self._conclude(binary, owner)
        waiting = binary.waiting()
        for place, owner in binary.owners.items():
            if owner in before:
                self._tell(place, binary.shown[owner])
                memory = self._live.memory[place]
                memory.sampled = _THREADS if owner in waiting else 0
                memory.round += 1
        if not waiting or time.monotonic() >= binary.until:
            self._let_go(binary)

    def _conclude(self, binary: _Binary, owner: int) -> None:
        """This user's servers need show no more."""
        binary.over.add(owner)
        binary.until = min(binary.until, time.monotonic() + _OTHERS_S)
        binary.shown[owner].close()
        for reason in binary.shown[owner].missing():
            self._say(f"query ids: {reason}")

    def _let_go(self, binary: _Binary) -> None:
        for owner in binary.waiting():
            if binary.shown[owner].ids:
                self._say(_TOO_LATE)
        self._object.let_go(binary.links)
        binary.links.clear()
        for place in binary.owners:
            self._live.memory[place].sampled = 0
        for shown in binary.shown.values():
            shown.close()

    def _tell(self, place: int, shown: Calibration) -> None:
        found = shown.offsets()
        if found is None:
            return
        memory = self._live.memory[place]
        memory.running, memory.changes = found.running, found.changes
        memory.state, memory.start = found.state, found.start
        memory.query_id, memory.pid = found.query_id or 0, found.pid
        memory.found = 1
