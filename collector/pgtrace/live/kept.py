"""The last ten minutes, frame by frame, in little room."""

import zlib
from collections import deque
from dataclasses import dataclass, field
from typing import NamedTuple

import msgspec

from ..model.capture import Operation, Source, Tablespace
from .frame import Doing, Frame
from .names import MOST, SPARE, Names, Used, numbered

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
    saw_all: bool = True
    """Whether `doing` is of all."""
    away: bool = False


class Head(NamedTuple):
    """Of each frame what a line over time is drawn of."""

    at: float
    length_s: float
    device_ns: int
    reads: int
    hidden: int
    """Reads of which it is not known where they were served."""


class _Sums:
    """Of frames from one to another, by their numbers; as they came, under their first names."""

    def __init__(self, start: int) -> None:
        self.start = self.end = start
        """The first that is in them, and the first that is not any more."""
        self.facts: dict[Fact, Sum] = {}
        self.spent: dict[tuple[int, int], int] = {}
        self.seconds = 0.0
        self.buffers = [0, 0]
        self.buffers_s = 0.0
        self.buffers_asked = 0
        """In how many frames."""

    def add(self, frame: Frame, sign: int = 1) -> None:
        """Count it in; with -1 take it away, which was counted in."""
        facts, spent = self.facts, self.spent
        for cell in frame.cells:
            fact = Fact(cell.process, cell.statement, cell.place, cell.operation, cell.source)
            total = facts.get(fact)
            if total is None:
                total = facts[fact] = Sum()
            total.add(sign * cell.count, sign * cell.bytes, sign * cell.total_ns)
            if not total.count:
                del facts[fact]
        for each in frame.spent:
            key = each.process, each.what
            spent[key] = spent.get(key, 0) + sign * each.total_ns
            if not spent[key]:
                del spent[key]
        self.seconds += sign * frame.length_s
        if frame.buffers is not None:
            for at, blocks in enumerate(frame.buffers):
                self.buffers[at] += sign * blocks
            self.buffers_s += sign * frame.buffers_s
            self.buffers_asked += sign


class Kept:
    """Frames as they came, compressed; sums over those of a window."""

    def __init__(self) -> None:
        self._frames: deque[bytes] = deque(maxlen=MOST + SPARE)
        self.heads: deque[Head] = deque(maxlen=MOST)
        self.names = Names()
        self.devices: list[Tablespace] = []
        self.came = 0
        """So many there were, of which the newest are kept."""
        self._used = Used()
        self._sums = _Sums(0)
        """Those that were asked for last: the next are a frame more and one less."""

    def __len__(self) -> int:
        return min(len(self._frames), MOST)

    def add(self, frame: Frame) -> None:
        """Keep one more; the oldest goes where there are too many."""
        self.names.learn(frame)
        self.devices = frame.devices or self.devices
        reads = [cell for cell in frame.cells if cell.operation == "read"]
        waited = sum(cell.total_ns for cell in reads if cell.source == "device")
        count = sum(cell.count for cell in reads)
        hidden = sum(cell.count for cell in reads if cell.source == "unknown")
        self.heads.append(Head(frame.at, frame.length_s, waited, count, hidden))
        frame.processes, frame.statements, frame.places, frame.events = {}, {}, {}, {}
        frame.devices = []
        self._frames.append(zlib.compress(msgspec.msgpack.encode(frame), 1))
        self.came += 1
        if old := self._used.add(numbered(frame)):
            self.names.forget(old)

    def window(self, frames: int, *, back: int = 0) -> Window:
        """The sums of so many frames, the last of which is so many before the newest."""
        first = self.came - len(self)
        end = max(self.came - back, first)
        start = max(end - frames, first)
        if start == end:
            return Window()
        sums = self._summed(start, end)
        last = self._frame(end - 1)
        oldest = last if start == end - 1 else self._frame(start)
        return Window(
            began=oldest.at - oldest.length_s,
            ended=last.at,
            seconds=sums.seconds,
            facts=self._named(sums.facts),
            spent=dict(sums.spent),
            doing=last.doing,
            buffers=(sums.buffers[0], sums.buffers[1]) if sums.buffers_asked else None,
            buffers_s=sums.buffers_s,
            clients=last.clients,
            saw_all=last.saw_all,
            away=last.away,
        )

    def _frame(self, number: int) -> Frame:
        """Number 0 is the first of all; it has to be there yet."""
        first = self.came - len(self._frames)
        return _decode(zlib.decompress(self._frames[number - first]))

    def _summed(self, start: int, end: int) -> _Sums:
        """From what was summed up last if that is near."""
        sums = self._sums
        first = self.came - len(self._frames)
        forward = first <= sums.start <= start <= sums.end <= end
        if not forward or start - sums.start + end - sums.end >= end - start:
            sums = self._sums = _Sums(start)
        for number in range(sums.end, end):
            sums.add(self._frame(number))
        for number in range(sums.start, start):
            sums.add(self._frame(number), -1)
        sums.start, sums.end = start, end
        return sums

    def _named(self, facts: dict[Fact, Sum]) -> dict[Fact, Sum]:
        """Of queries that have ended since, under the statements that they were of."""
        became = self.names.became
        found: dict[Fact, Sum] = {}
        for fact, total in facts.items():
            statement = became.get(fact.statement)
            key = fact if statement is None else fact._replace(statement=statement)
            known = found.get(key)
            if known is None:
                found[key] = Sum(total.count, total.bytes, total.total_ns)
            else:
                known.add(total.count, total.bytes, total.total_ns)
        return found
