"""The light tier: what the kernel half has to know of servers to look up what backends run."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field

from ..errors import PgtraceError
from ..libbpf.objects import Object
from ..linux import program_file
from ..linux.program_file import Program
from . import Postmaster, Request, layout, probes
from .calibration import Calibration

_AT_FIRST_S = 0.1
"""So long the start of tracing waits for samples: of a busy server they are there by then."""
_LOOK_S = 0.005
_THREADS = 8
"""Of so many samples are taken between two looks: a busy server reports faster than anybody can
look at."""
_UNSEEN = "the statements of some reads: what their backends show of themselves was being changed"


@dataclass(slots=True)
class _Binary:
    """Servers that run the same program."""

    calibration: Calibration
    links: list[Callable[[], object]] = field(default_factory=list)
    places: set[int] = field(default_factory=set)
    """Of the servers, in layout.Live."""
    over: bool = False


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
        waiting = [each for each in self._binaries.values() if not each.over]
        for each in waiting:
            self._settle(each)
        return any(not each.over for each in waiting)

    def take(self, data: bytes) -> None:
        """One sample."""
        sample = layout.Sample.from_buffer_copy(data)
        place = self._live.place_of(sample.postmaster)
        for each in self._binaries.values():
            if place in each.places and not each.over:
                each.calibration.add(sample, time.time_ns() - time.monotonic_ns())

    def follow(self, place: int, new: Postmaster, binary: Program | None) -> None:
        """Another server comes in the place of one; `binary` is what it runs, if that is new."""
        for each in self._binaries.values():
            each.places.discard(place)
        self._live.memory[place] = layout.Memory(wait=new.wait)
        if binary:
            self._attach(binary, -1, ids=new.query_ids)
        self._join(place, new)
        if not (new.entry and new.text):
            self._say("queries of the server started since: its binary lacks what is looked at")

    def finish(self) -> list[str]:
        """What was not measured, once tracing has ended."""
        for each in self._binaries.values():
            if each.calibration.ids and not each.over and each.calibration.samples:
                self._say("query ids: too few statements ran to find out where they are")
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
        known = self._binaries.setdefault(program.identity, _Binary(Calibration(ids=ids)))
        before = self._object.attached
        try:
            missing = probes.attach_calibration(self._object, program, pid, ids=ids)
        except PgtraceError as error:
            missing = str(error)
        if missing:
            self._object.detach(keep=before)
            self._say(f"query ids: {missing}")
        known.links += self._object.since(before)
        known.over = not known.links

    def _join(self, place: int, postmaster: Postmaster) -> None:
        memory = self._live.memory[place]
        memory.entry, memory.text = postmaster.entry, postmaster.text
        identity = program_file.identity(f"/proc/{postmaster.pid}/exe")
        known = self._binaries.get(identity) if identity else None
        if known is None or not postmaster.entry:
            return
        known.places.add(place)
        memory.sampled = 0 if known.over else _THREADS
        self._tell(known)

    def _settle(self, binary: _Binary) -> None:
        self._tell(binary)
        if not binary.calibration.is_over():
            for place in binary.places:
                memory = self._live.memory[place]
                memory.sampled, memory.round = _THREADS, memory.round + 1
            return
        binary.over = True
        for place in binary.places:
            self._live.memory[place].sampled = 0
        self._object.let_go(binary.links)
        binary.links.clear()
        binary.calibration.close()
        for reason in binary.calibration.missing():
            self._say(f"query ids: {reason}")

    def _tell(self, binary: _Binary) -> None:
        found = binary.calibration.offsets()
        if found is None:
            return
        for place in binary.places:
            memory = self._live.memory[place]
            memory.running, memory.changes = found.running, found.changes
            memory.state, memory.start = found.state, found.start
            memory.query_id, memory.pid = found.query_id or 0, found.pid
            memory.found = 1
