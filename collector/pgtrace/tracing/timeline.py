"""The session cut into pieces of about a second: what was done in each, by whom, and its cost."""

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from ..engines import (
    UNKNOWN_FILE,
    ByPower,
    File,
    StatementName,
    Sums,
    TaskSnapshot,
)
from ..engines.layout import OTHERS
from ..engines.slot_table import add_powers
from ..model.capture import (
    Cost,
    Interval,
    IntervalIo,
    Kind,
    Operation,
    Pattern,
    Performer,
    Size,
    Source,
)
from . import gains
from .gains import Told
from .heaviest import Heavy, Telling, Who

LENGTH_S = 1.0
MOST = 500
"""At so many, neighbours are put together, and each is twice as long from then on."""
MOST_OF_TIME = 0.05
"""Share of a CPU that looking may take; where it takes more, intervals are longer."""
_RELATIONS: frozenset[Kind] = frozenset(
    {"relation", "heap", "index", "toast", "visibility map", "free space map"}
)


class Summing(Protocol):
    """What is needed of an engine."""

    def files(self) -> Mapping[int, File]:
        """As Engine has it."""

    def sums(self) -> dict[int, dict[int, Sums]]:
        """As Engine has it."""

    def by_power(self) -> dict[int, ByPower]:
        """As Engine has it."""

    def statement(self, serial: int, query: int) -> StatementName | None:
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


_Totals = tuple[int, int, int]
"""Count, bytes, nanoseconds."""


@dataclass(slots=True)
class _Piece:
    """What was done in one interval."""

    costs: dict[_Kind, _Totals] = field(default_factory=dict)
    io: dict[tuple[Operation, Source], _Totals] = field(default_factory=dict)
    powers: ByPower = field(default_factory=dict)
    heavy: Heavy = field(default_factory=Heavy)

    def add(self, other: "_Piece") -> None:
        """Put the other's to it, which comes after it."""
        for kind, cost in other.costs.items():
            self.costs[kind] = _plus(self.costs.get(kind), cost)
        for told, totals in other.io.items():
            self.io[told] = _plus(self.io.get(told), totals)
        for told, powers in other.powers.items():
            add_powers(self.powers, told, powers)
        self.heavy.add(other.heavy)


class Intervals:
    """Differences of an engine's sums, about once a second; call look() more often."""

    def __init__(
        self,
        engine: Summing,
        began_ns: int,
        *,
        type_of: Callable[[int], str | None] = lambda serial: None,
        clock: Callable[[], int] = time.monotonic_ns,
        busy_clock: Callable[[], int] = time.thread_time_ns,
    ) -> None:
        """`type_of` tells the type of the process that a thread is of, by its serial."""
        self._engine = engine
        self._type_of = type_of
        self._clock = clock
        self._busy_clock = busy_clock
        self._began_ns = self._last_ns = began_ns
        self._every_ns = round(LENGTH_S * 1e9)
        self._due_ns = began_ns + self._every_ns
        self._counted: Mapping[int, object] = {}
        """What the engine said last."""
        self._sums: dict[int, dict[int, Sums]] = {}
        self._powers: dict[int, ByPower] = {}
        self._names: dict[Told, StatementName] = {}
        self._running: set[Told] = set()
        """Queries that are among the heaviest under their numbers yet."""
        self._next = _Piece()
        """What was done since the last look, as far as it is known."""
        self._kept: list[tuple[int, _Piece]] = []
        self._files: dict[_Space, int] = {}
        """One file of each tablespace, which tells its name."""

    def look(self) -> None:
        """Cut off an interval, if it is time."""
        began = self._clock()
        if began < self._due_ns:
            return
        busy = self._busy_clock()
        piece = self._piece()
        piece.heavy.keep_most()
        self._kept.append((self._last_ns, piece))
        self._last_ns = began
        if len(self._kept) >= MOST:
            self._halve()
        pause_ns = round((self._busy_clock() - busy) / MOST_OF_TIME)
        self._due_ns = max(began + self._every_ns, self._clock() + pause_ns)

    def due(self) -> float:
        """When look() will have something to do, in seconds of its clock."""
        return self._due_ns / 1e9

    def let_go(self, finals: Iterable[TaskSnapshot]) -> None:
        """These threads were read for the last time."""
        for final in finals:
            serial = final.serial
            sums, names = gains.of_final(final)
            self._count(self._next, serial, sums, self._sums.pop(serial, {}), names)
            powers = gains.by_power(final.reads)
            for told, more in gains.more_by_power(powers, self._powers.pop(serial, {})).items():
                add_powers(self._next.powers, told, more)
            for name in [name for name in self._names if name[0] == serial]:
                del self._names[name]

    def fold_files(self, instead: Mapping[int, int]) -> None:
        """Some files are gone; others stand for them."""
        self._files = {space: instead.get(file, file) for space, file in self._files.items()}
        for piece in self._pieces():
            piece.heavy.fold_files(instead)
        for by_query in self._sums.values():
            for query, sums in by_query.items():
                by_query[query] = gains.with_files(sums, instead)

    def listed(
        self, block_size: int, tablespace: Callable[[int], str | None], telling: Telling
    ) -> list[Interval]:
        """All so far, the last of which may be short; those in which nothing was done are left out.

        `tablespace` names that of a file, by its index; `telling` what the heaviest are.
        """
        rest = self._next = self._piece()
        names = {space: tablespace(file) for space, file in self._files.items()}
        pieces = [*self._kept, (self._last_ns, rest)]
        ends = [*(at for at, _ in pieces[1:]), self._clock()]
        return [
            Interval(
                second=(at - self._began_ns) / 1e9,
                length=(end - at) / 1e9,
                costs=_costs(piece.costs, names, block_size),
                io=_io(piece),
                heaviest=piece.heavy.listed(telling),
            )
            for (at, piece), end in zip(pieces, ends, strict=True)
            if piece.io
        ]

    def _pieces(self) -> list[_Piece]:
        return [*(piece for _, piece in self._kept), self._next]

    def _piece(self) -> _Piece:
        """What was done since the last look."""
        piece, self._next = self._next, _Piece()
        counted = self._engine.sums()
        if counted is not self._counted:
            self._counted = counted
            powers = self._engine.by_power()
            # Files after sums: what was read for the first time meanwhile has its entry by then,
            # but for one that another CPU is about to fill, which is seen at a later look
            files = self._engine.files()
            for serial, by_query in counted.items():
                now = {query: gains.of_files(sums, files) for query, sums in by_query.items()}
                self._count(piece, serial, now, self._sums.get(serial, {}), {})
                self._sums[serial] = now
            for serial, by_power in powers.items():
                more = gains.more_by_power(by_power, self._powers.get(serial, {}))
                for told, powers_more in more.items():
                    add_powers(piece.powers, told, powers_more)
                self._powers[serial] = by_power
        return piece

    def _count(
        self,
        piece: _Piece,
        serial: int,
        now: Mapping[int, Sums],
        before: Mapping[int, Sums],
        names: Mapping[int, StatementName],
    ) -> None:
        files = self._engine.files()
        more, became = gains.gains(serial, now, before)
        for gain in more:
            key = gain.key
            totals = gain.totals
            told = key.operation, key.source
            piece.io[told] = _plus(piece.io.get(told), totals)
            piece.heavy.count(self._who(gain.told, names), gain)
            file = files.get(key.file, UNKNOWN_FILE)
            if file.kind in _RELATIONS and key.operation == "read":
                space = _Space(file.device, file.space)
                self._files.setdefault(space, key.file)
                kind = _Kind(space, key.pattern, key.source, key.size, key.performed_by)
                piece.costs[kind] = _plus(piece.costs.get(kind), totals)
        for query, under in became.items():
            running = (serial, query)
            if running in self._running:
                self._running.remove(running)
                who = self._who((serial, under), names)
                for each in [*self._pieces(), piece]:
                    each.heavy.rename(running, who)

    def _who(self, told: Told, names: Mapping[int, StatementName]) -> Who:
        name = names.get(told[1]) or self._names.get(told)
        if name is None and (name := self._engine.statement(*told)):
            name = StatementName(name.query_id, None) if name.query_id else name
            if told[1] > OTHERS:
                self._names[told] = name
        if name:
            return name
        if 0 < told[1] < OTHERS:
            self._running.add(told)
            return told
        return self._type_of(told[0])

    def _halve(self) -> None:
        """Put neighbours together."""
        for (_, first), (_, second) in zip(self._kept[::2], self._kept[1::2], strict=False):
            first.add(second)
            first.heavy.keep_most()
        self._kept = self._kept[::2]
        self._every_ns *= 2


def _plus(before: _Totals | None, totals: _Totals) -> _Totals:
    if before is None:
        return totals
    return before[0] + totals[0], before[1] + totals[1], before[2] + totals[2]


def _io(piece: _Piece) -> list[IntervalIo]:
    return [
        IntervalIo(
            operation,
            source,
            *piece.io[operation, source],
            powers=dict(sorted(piece.powers.get((operation, source), {}).items())),
        )
        for operation, source in sorted(piece.io)
    ]


def _costs(
    sums: dict[_Kind, _Totals], names: dict[_Space, str | None], block_size: int
) -> list[Cost]:
    """Tablespaces of one name are one, such as base and global where no name is known."""
    found: dict[tuple[str | None, _Kind], _Totals] = {}
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
