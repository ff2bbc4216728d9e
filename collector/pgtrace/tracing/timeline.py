"""What reads of relations cost over time: the session cut into pieces of about a second."""

import time
from collections.abc import Callable, Mapping
from typing import NamedTuple, Protocol

from ..engines import UNKNOWN_FILE, File, Key
from ..model.capture import Cost, Interval, Kind, Pattern, Performer, Size, Source

LENGTH_S = 1.0
MOST = 500
"""At so many, neighbours are put together, and each is twice as long from then on."""
MOST_OF_TIME = 0.05
"""Share of the time that looking may take; where it takes more, intervals are longer."""
_RELATIONS: frozenset[Kind] = frozenset(
    {"relation", "heap", "index", "toast", "visibility map", "free space map"}
)


class Summing(Protocol):
    """What is needed of an engine."""

    def files(self) -> Mapping[int, File]:
        """As Engine has it."""

    def sums(self) -> dict[Key, tuple[int, int, int]]:
        """As Engine has it."""


class _Space(NamedTuple):
    """What stands for a tablespace: a directory's device and inode."""

    device: tuple[int, int]
    inode: int


class _Kind(NamedTuple):
    space: _Space
    pattern: Pattern
    source: Source
    size: Size
    performed_by: Performer


_Sums = dict[_Kind, tuple[int, int, int]]
"""Count, bytes, nanoseconds."""


class Intervals:
    """Differences of an engine's sums, about once a second; call look() more often."""

    def __init__(
        self, engine: Summing, began_ns: int, *, clock: Callable[[], int] = time.monotonic_ns
    ) -> None:
        self._engine = engine
        self._clock = clock
        self._began_ns = self._last_ns = began_ns
        self._every_ns = round(LENGTH_S * 1e9)
        self._due_ns = began_ns + self._every_ns
        self._before: _Sums = {}
        self._kept: list[tuple[int, _Sums]] = []
        self._files: dict[_Space, int] = {}
        """One file of each tablespace, which tells its name."""

    def look(self) -> None:
        """Cut off an interval, if it is time."""
        began = self._clock()
        if began < self._due_ns:
            return
        now = self._sums()
        self._kept.append((self._last_ns, _difference(now, self._before)))
        self._before, self._last_ns = now, began
        if len(self._kept) >= MOST:
            self._halve()
        ended = self._clock()
        pause_ns = round((ended - began) / MOST_OF_TIME)
        self._due_ns = max(began + self._every_ns, ended + pause_ns)

    def due(self) -> float:
        """When look() will have something to do, in seconds of its clock."""
        return self._due_ns / 1e9

    def fold_files(self, instead: Mapping[int, int]) -> None:
        """Some files are gone; others stand for them."""
        self._files = {space: instead.get(file, file) for space, file in self._files.items()}

    def listed(self, block_size: int, tablespace: Callable[[int], str | None]) -> list[Interval]:
        """All so far, the last of which may be short; those without reads are left out.

        `tablespace` names that of a file, by its index.
        """
        rest = _difference(self._sums(), self._before)
        names = {space: tablespace(file) for space, file in self._files.items()}
        return [
            Interval((at - self._began_ns) / 1e9, _costs(sums, names, block_size))
            for at, sums in [*self._kept, (self._last_ns, rest)]
            if sums
        ]

    def _sums(self) -> _Sums:
        # Files second: what was read for the first time meanwhile has its entry by then
        counted = self._engine.sums()
        found: _Sums = {}
        files = self._engine.files()
        for key, sums in counted.items():
            # An entry that another CPU is about to fill is seen at a later look
            file = files.get(key.file, UNKNOWN_FILE)
            if file.kind not in _RELATIONS or key.operation != "read":
                continue
            space = _Space(file.device, file.space)
            self._files.setdefault(space, key.file)
            kind = _Kind(space, key.pattern, key.source, key.size, key.performed_by)
            found[kind] = _plus(found.get(kind), sums)
        return found

    def _halve(self) -> None:
        """Put neighbours together."""
        pairs = zip(self._kept[::2], self._kept[1::2], strict=False)
        odd = self._kept[-1:] if len(self._kept) % 2 else []
        self._kept = [(at, _together(first, second)) for (at, first), (_, second) in pairs] + odd
        self._every_ns *= 2


def _difference(now: _Sums, before: _Sums) -> _Sums:
    found = {}
    for kind, sums in now.items():
        count, size, total = (a - b for a, b in zip(sums, before.get(kind, (0, 0, 0)), strict=True))
        # A count may be one ahead of its sums while it grows, and reads counted twice while
        # they are moved to their statement
        if count or size or total:
            found[kind] = (max(count, 0), max(size, 0), max(total, 0))
    return found


def _together(first: _Sums, second: _Sums) -> _Sums:
    found = dict(first)
    for kind, sums in second.items():
        found[kind] = _plus(found.get(kind), sums)
    return found


def _plus(before: tuple[int, int, int] | None, sums: tuple[int, int, int]) -> tuple[int, int, int]:
    if before is None:
        return sums
    return before[0] + sums[0], before[1] + sums[1], before[2] + sums[2]


def _costs(sums: _Sums, names: dict[_Space, str | None], block_size: int) -> list[Cost]:
    """Tablespaces of one name are one, such as base and global where no name is known."""
    found: dict[tuple[str | None, _Kind], tuple[int, int, int]] = {}
    nowhere = _Space((0, 0), 0)
    for kind, each in sums.items():
        key = names[kind.space], kind._replace(space=nowhere)
        found[key] = _plus(found.get(key), each)
    return [
        Cost(
            tablespace=name,
            pattern=kind.pattern,
            source=kind.source,
            size=kind.size,
            blocks=size // block_size,
            total_ns=total,
            reads=count,
            performed_by=kind.performed_by,
        )
        for (name, kind), (count, size, total) in found.items()
    ]
