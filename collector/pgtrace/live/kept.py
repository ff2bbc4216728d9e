"""The last ten minutes, frame by frame, in little room."""

import zlib
from collections import deque
from dataclasses import dataclass, field
from itertools import chain
from typing import NamedTuple

import msgspec

from ..model.capture import Operation, Source, Tablespace
from .frame import Cell, Doing, Frame, Place, Process, Spent

MINUTES = 10
_MOST = MINUTES * 60
_FORGET_EVERY = 60
"""Frames after which it is looked which names nobody uses any more."""
_decode = msgspec.msgpack.Decoder(Frame).decode


class Fact(NamedTuple):
    """What is told apart, as Cell has it."""

    process: int
    statement: int
    place: int
    operation: Operation
    source: Source


@dataclass(slots=True)
class Sum:
    """Nanoseconds, and bytes."""

    count: int = 0
    bytes: int = 0
    total_ns: int = 0

    def add(self, count: int, size: int, total_ns: int) -> None:
        """Count so much more."""
        self.count += count
        self.bytes += size
        self.total_ns += total_ns


@dataclass(slots=True)
class Window:
    """What was done in a part of the session."""

    began: float = 0.0
    """Seconds since the epoch, as the end."""
    ended: float = 0.0
    seconds: float = 0.0
    facts: dict[Fact, Sum] = field(default_factory=dict)
    spent: dict[tuple[int, int], int] = field(default_factory=dict)
    """By process and what: nanoseconds."""
    doing: list[Doing] = field(default_factory=list)
    """At the end of it."""
    buffers: tuple[int, int] | None = None
    """Blocks that were found in shared_buffers, and that were not, as far as it was asked."""
    buffers_s: float = 0.0
    clients: int = 0
    away: bool = False


class Head(NamedTuple):
    """Of each frame what a line over time is drawn of."""

    at: float
    length_s: float
    device_ns: int
    reads: int


class Names:
    """What the numbers in frames are of."""

    def __init__(self) -> None:
        self.processes: dict[int, Process] = {}
        self.statements: dict[int, str] = {}
        self.places: dict[int, Place] = {}
        self.events: dict[int, tuple[str, str | None]] = {}
        self.became: dict[int, int] = {}

    def learn(self, frame: Frame) -> None:
        """Take over what a frame tells."""
        self.processes |= frame.processes
        self.statements |= frame.statements
        self.places |= frame.places
        self.events |= frame.events
        self.became |= frame.became

    def forget(self, processes: set[int], statements: set[int]) -> None:
        """Nobody uses these any more."""
        for process in processes:
            self.processes.pop(process, None)
        for statement in statements:
            self.became.pop(statement, None)
            self.statements.pop(statement, None)


class Kept:
    """Frames as they came, compressed; sums over those of a window."""

    def __init__(self) -> None:
        self._frames: deque[bytes] = deque(maxlen=_MOST)
        self.heads: deque[Head] = deque(maxlen=_MOST)
        self.names = Names()
        self.devices: list[Tablespace] = []
        self._came = 0
        self._used: tuple[dict[int, int], dict[int, int]] = {}, {}
        """Processes, and statements: which frame was the last that had each."""

    def __len__(self) -> int:
        return len(self._frames)

    def add(self, frame: Frame) -> None:
        """Keep one more; the oldest goes where there are too many."""
        self.names.learn(frame)
        self.devices = frame.devices or self.devices
        reads = [cell for cell in frame.cells if cell.operation == "read"]
        waited = sum(cell.total_ns for cell in reads if cell.source == "device")
        count = sum(cell.count for cell in reads)
        self.heads.append(Head(frame.at, frame.length_s, waited, count))
        frame.processes, frame.statements, frame.places, frame.events = {}, {}, {}, {}
        frame.devices = []
        self._frames.append(zlib.compress(msgspec.msgpack.encode(frame), 1))
        self._came += 1
        processes, statements = self._used
        for one in chain[Cell | Spent | Doing](frame.cells, frame.spent, frame.doing):
            processes[one.process] = self._came
        for cell in frame.cells:
            statements[cell.statement] = self._came
        for statement in frame.became.items():
            statements |= dict.fromkeys(statement, self._came)
        if self._came % _FORGET_EVERY == 0:
            self._forget()

    def window(self, frames: int, *, back: int = 0) -> Window:
        """The sums of so many frames, the last of which is so many before the newest."""
        end = max(len(self._frames) - back, 0)
        found = Window()
        for at in range(max(end - frames, 0), end):
            frame = _decode(zlib.decompress(self._frames[at]))
            if not found.began:
                found.began = frame.at - frame.length_s
            self._add(found, frame)
        return found

    def _add(self, found: Window, frame: Frame) -> None:
        became = self.names.became
        for cell in frame.cells:
            statement = became.get(cell.statement, cell.statement)
            fact = Fact(cell.process, statement, cell.place, cell.operation, cell.source)
            total = found.facts.get(fact)
            if total is None:
                total = found.facts[fact] = Sum()
            total.add(cell.count, cell.bytes, cell.total_ns)
        for spent in frame.spent:
            key = spent.process, spent.what
            found.spent[key] = found.spent.get(key, 0) + spent.total_ns
        found.seconds += frame.length_s
        found.ended, found.doing = frame.at, frame.doing
        found.clients, found.away = frame.clients, frame.away
        if frame.buffers is not None:
            hit, read = found.buffers or (0, 0)
            found.buffers = hit + frame.buffers[0], read + frame.buffers[1]
            found.buffers_s += frame.buffers_s

    def _forget(self) -> None:
        """Names that no frame has that is kept."""
        gone = []
        for used in self._used:
            old = {number for number, came in used.items() if came <= self._came - _MOST}
            for number in old:
                del used[number]
            gone.append(old)
        self.names.forget(*gone)
