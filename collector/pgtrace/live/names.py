"""Until when names are kept of what is in frames: each is told once, with the first that has it.

Both processes see the same frames, and forget after the same one of them: what the process that
draws has forgotten is news again to the one that tells.
"""

from collections.abc import Set
from itertools import chain
from typing import NamedTuple, TypeVar

from .frame import Cell, Doing, Frame, Place, Process, Spent

_Name = TypeVar("_Name")
MINUTES = 10
MOST = MINUTES * 60
"""Frames that are looked at."""
SPARE = 10
"""Frames that are kept a little longer, so that they can be taken away from sums."""
_EVERY = 60
"""Frames after which it is looked which names nobody uses any more."""


class Numbered(NamedTuple):
    """Numbers of what has names."""

    processes: set[int]
    statements: set[int]
    places: set[int]
    events: set[int]


class Used:
    """Which numbers the frames that are kept have."""

    def __init__(self) -> None:
        self._frames = 0
        self._last: tuple[dict[int, int], ...] = {}, {}, {}, {}
        """As Numbered: which frame was the last that had each."""

    def add(self, frame: Numbered) -> Numbered | None:
        """Take in what the next frame has. Once in a while, return what is in none of those that
        are kept: it is to be forgotten.
        """
        self._frames += 1
        for last, numbers in zip(self._last, frame, strict=True):
            last.update(dict.fromkeys(numbers, self._frames))
        if self._frames % _EVERY:
            return None
        return Numbered(*(self._old(last) for last in self._last))

    def _old(self, last: dict[int, int]) -> set[int]:
        old = {number for number, at in last.items() if at <= self._frames - MOST - SPARE}
        for number in old:
            del last[number]
        return old


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

    def forget(self, old: Numbered) -> None:
        """Nobody uses these any more."""
        drop(self.processes, old.processes)
        drop(self.statements, old.statements)
        drop(self.became, old.statements)
        drop(self.places, old.places)
        drop(self.events, old.events)


def numbered(frame: Frame) -> Numbered:
    """What a frame has that needs a name."""
    became = frame.became
    return Numbered(
        {
            each.process
            for each in chain[Cell | Spent | Doing](frame.cells, frame.spent, frame.doing)
        },
        {cell.statement for cell in frame.cells} | became.keys() | set(became.values()),
        {cell.place for cell in frame.cells},
        {each.what for each in frame.spent},
    )


def drop(names: dict[int, _Name], old: Set[int]) -> None:
    """Forget the names of these numbers."""
    for number in old & names.keys():
        del names[number]
