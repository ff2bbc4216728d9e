"""The session cut into pieces of about a second: what was done in each, by whom, and its cost."""

import sys
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
    TimeSums,
    times_of,
)
from ..engines.layout import OTHERS
from ..engines.slot_sums import add_powers, add_reads_powers
from ..engines.slot_table import add_time
from ..model.capture import (
    RELATIONS,
    Cost,
    Interval,
    IntervalIo,
    IntervalTime,
    Operation,
    Pattern,
    Performer,
    Scope,
    Size,
    Source,
    TimeKind,
    waits_for_work,
)
from ..postgres.wait_events import WaitEvent
from . import gains
from .gains import Gain, Told, Totals
from .heaviest import Heavy, Telling, Who

LENGTH_S = 1.0
_FIRST_S = 0.1
"""Of a live screen's first second, so that it shows something at once."""
MOST = 500
"""At so many, neighbours are put together, and each is twice as long from then on."""
_ROLLING = 660
"""So many are kept of a session that is only shown."""
MOST_OF_TIME = 0.05
"""Share of a CPU that looking may take; where it takes more, intervals are longer."""


class Summing(Protocol):
    """What is needed of an engine."""

    def files(self) -> Mapping[int, File]:
        """As Engine has it."""

    def sums(self) -> dict[int, dict[int, Sums]]:
        """As Engine has it."""

    def by_power(self) -> dict[int, ByPower]:
        """As Engine has it."""

    def time_sums(self, until_ns: int) -> dict[int, TimeSums]:
        """As Engine has it."""

    def statement(self, serial: int, query: int) -> StatementName | None:
        """As Engine has it."""


class Recorder(Protocol):
    """Who wants to know all of what an interval is made of, as `pgtrace top` does."""

    def count(self, serial: int, who: Who, gain: Gain) -> None:
        """So much more was done for this statement."""

    def spend(self, serial: int, spent: tuple[TimeKind, Scope, int], ns: int) -> None:
        """So much more time of a thread went there."""

    def rename(self, running: Told, who: Who) -> None:
        """What this query did was for that statement."""

    def fold_files(self, instead: Mapping[int, int]) -> None:
        """Some files are gone; others stand for them."""


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


@dataclass(slots=True)
class _Piece:
    """What was done in one interval."""

    costs: dict[_Kind, Totals] = field(default_factory=dict)
    io: dict[tuple[Operation, Source], Totals] = field(default_factory=dict)
    powers: ByPower = field(default_factory=dict)
    times: TimeSums = field(default_factory=dict)
    heavy: Heavy = field(default_factory=Heavy)

    def add(self, other: "_Piece") -> None:
        """Put the other's to it, which comes after it."""
        for kind, cost in other.costs.items():
            self.costs[kind] = _plus(self.costs.get(kind), cost)
        for told, totals in other.io.items():
            self.io[told] = _plus(self.io.get(told), totals)
        for told, powers in other.powers.items():
            add_powers(self.powers, told, powers)
        for spent, ns in other.times.items():
            self.times[spent] = self.times.get(spent, 0) + ns
        self.heavy.add(other.heavy)


@dataclass(slots=True)
class _Thread:
    """One that is traced, as it was at the last look."""

    told: dict[int, Sums] = field(default_factory=dict)
    """As the engine told it, if all of it was counted: most have done nothing since."""
    sums: dict[int, Sums] = field(default_factory=dict)
    powers: ByPower = field(default_factory=dict)
    times: TimeSums = field(default_factory=dict)
    """The most that was ever told of each: a sleep that goes on is told with the wait for a CPU
    that ends it."""
    names: dict[int, StatementName] = field(default_factory=dict)
    """Of its statements, and of its query that runs, by their numbers."""
    running: set[int] = field(default_factory=set)
    """Queries that are among the heaviest under their numbers yet."""


class Intervals:
    """Differences of an engine's sums, about once a second; call look() more often."""

    def __init__(
        self,
        engine: Summing,
        began_ns: int,
        *,
        type_of: Callable[[int], str | None] = lambda serial: None,
        is_meant: Callable[[int], bool] = lambda serial: True,
        recorder: Recorder | None = None,
        clock: Callable[[], int] = time.monotonic_ns,
        busy_clock: Callable[[], int] = time.thread_time_ns,
    ) -> None:
        """`type_of` tells the type of the process that a thread is of, by its serial, `is_meant`
        whether what it does is to be told. With a
        `recorder` there is no end to the session: the last eleven minutes are kept,
        and not how long everything took.
        """
        self._engine = engine
        self._type_of = type_of
        self._is_meant = is_meant
        self._recorder = recorder
        self._clock = clock
        self._busy_clock = busy_clock
        self._began_ns = self._last_ns = self.counted_ns = began_ns
        """The last: at which look something was done."""
        self._every_ns = round(LENGTH_S * 1e9)
        self._due_ns = began_ns + (round(_FIRST_S * 1e9) if recorder else self._every_ns)
        self._counted: Mapping[int, object] = {}
        """What the engine said last."""
        self._threads: dict[int, _Thread] = {}
        """By their serials."""
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
        piece = self._piece(began)
        piece.heavy.keep_most()
        if piece.io or piece.times:
            self.counted_ns = began
        self._kept.append((self._last_ns, piece))
        self._last_ns = began
        if len(self._kept) >= MOST and not self._recorder:
            self._halve()
        elif len(self._kept) > _ROLLING:
            del self._kept[0]
        pause_ns = round((self._busy_clock() - busy) / MOST_OF_TIME)
        self._due_ns = max(began + self._every_ns, self._clock() + pause_ns)

    def end(self) -> None:
        """Cut off no more: tracing has ended."""
        self._due_ns = sys.maxsize

    @property
    def cut_ns(self) -> int:
        """Until when the last interval that was cut off went."""
        return self._last_ns

    def due(self) -> float:
        """When look() will have something to do, in seconds of its clock."""
        return self._due_ns / 1e9

    def let_go(self, finals: Iterable[TaskSnapshot]) -> None:
        """These threads were read for the last time."""
        files = self._engine.files()
        for final in finals:
            thread = self._threads.pop(final.serial, None) or _Thread()
            sums, names = gains.of_final(final)
            thread.names |= names
            piece = self._of(final.serial, self._next)
            self._count(piece, final.serial, thread, sums, files)
            if not self._recorder:
                powers: ByPower = {}
                add_reads_powers(powers, final.reads)
                _count_powers(piece, thread, powers)
            times: TimeSums = {}
            for key, counts in times_of(final.reads).items():
                add_time(times, key, counts.total_ns)
            self._count_times(piece, final.serial, thread, times)

    def fold_files(self, instead: Mapping[int, int]) -> None:
        """Some files are gone; others stand for them."""
        self._files = {space: instead.get(file, file) for space, file in self._files.items()}
        for piece in self._pieces():
            piece.heavy.fold_files(instead)
        for thread in self._threads.values():
            for query, sums in thread.sums.items():
                thread.sums[query] = gains.with_files(sums, instead)
        if self._recorder:
            self._recorder.fold_files(instead)

    def listed(
        self,
        block_size: int,
        tablespace: Callable[[int], str | None],
        telling: Telling,
        event: Callable[[int], WaitEvent],
        ended_ns: int,
    ) -> list[Interval]:
        """All until then, the last of which may be short; those in which nothing was done are left
        out. What took time after the end, to detach and to add up, is of no interval.

        `tablespace` names that of a file, by its index; `telling` what the heaviest are; `event`
        what a sleep was for.
        """
        rest = self._next = self._piece(ended_ns)
        names = {space: tablespace(file) for space, file in self._files.items()}
        pieces = [*self._kept, (self._last_ns, rest)]
        ends = [*(at for at, _ in pieces[1:]), ended_ns]
        return [
            Interval(
                second=(at - self._began_ns) / 1e9,
                length=(end - at) / 1e9,
                costs=_costs(piece.costs, names, block_size),
                io=_io(piece),
                times=times,
                heaviest=piece.heavy.listed(telling),
            )
            for (at, piece), end in zip(pieces, ends, strict=True)
            if (times := _times(piece.times, event)) or piece.io
        ]

    def _pieces(self) -> list[_Piece]:
        return [*(piece for _, piece in self._kept), self._next]

    def _piece(self, until_ns: int) -> _Piece:
        """What was done since the last look. To look takes its time: a sleep that goes on has its
        part of this piece up to then.
        """
        piece, self._next = self._next, _Piece()
        counted = self._engine.sums()
        if counted is not self._counted:
            self._counted = counted
            # A live screen looks each second, and shows none
            powers = {} if self._recorder else self._engine.by_power()
            # Files after sums: what was read for the first time meanwhile has its entry by then,
            # but for one that another CPU is about to fill, which is seen at a later look
            files = self._engine.files()
            for serial, by_query in counted.items():
                thread = self._thread(serial)
                if by_query == thread.told:
                    continue
                told = thread.told
                new = {query: sums for query, sums in by_query.items() if told.get(query) != sums}
                are_known = gains.are_of(new, files)
                of = None if are_known else files
                now = {
                    query: gains.of_files(sums, of) if query in new else thread.sums[query]
                    for query, sums in by_query.items()
                }
                self._count(self._of(serial, piece), serial, thread, now, files)
                thread.told = by_query if are_known else {}
            for serial, by_power in powers.items():
                _count_powers(self._of(serial, piece), self._thread(serial), by_power)
        for serial, times in self._engine.time_sums(until_ns).items():
            self._count_times(self._of(serial, piece), serial, self._thread(serial), times)
        return piece

    def _of(self, serial: int, piece: _Piece) -> _Piece:
        """It, or of a thread that is not meant one that nobody keeps."""
        return piece if self._is_meant(serial) else _Piece()

    def _thread(self, serial: int) -> _Thread:
        return self._threads.setdefault(serial, _Thread())

    def _count(
        self,
        piece: _Piece,
        serial: int,
        thread: _Thread,
        now: dict[int, Sums],
        files: Mapping[int, File],
    ) -> None:
        more, became = gains.gains(
            serial, now, thread.sums, lambda query: self._name(serial, thread, query)
        )
        for query in thread.sums.keys() - now.keys():
            thread.names.pop(query, None)
        thread.sums = now
        whose: dict[int, Who] = {}
        for gain in more:
            key, totals, query = gain.key, gain.totals, gain.told[1]
            told = key.operation, key.source
            piece.io[told] = _plus(piece.io.get(told), totals)
            if query not in whose:
                whose[query] = self._who(serial, thread, query)
            piece.heavy.count(whose[query], gain)
            if self._recorder:
                self._recorder.count(serial, whose[query], gain)
            file = files.get(key.file, UNKNOWN_FILE)
            if file.kind in RELATIONS and key.operation == "read":
                space = _Space(file.device, file.space)
                self._files.setdefault(space, key.file)
                kind = _Kind(space, key.pattern, key.source, key.size, key.performed_by)
                piece.costs[kind] = _plus(piece.costs.get(kind), totals)
        for query, under in became.items():
            if query in thread.running:
                thread.running.remove(query)
                who = self._who(serial, thread, under)
                for each in [*self._pieces(), piece]:
                    each.heavy.rename((serial, query), who)
                if self._recorder:
                    self._recorder.rename((serial, query), who)

    def _count_times(self, piece: _Piece, serial: int, thread: _Thread, now: TimeSums) -> None:
        for spent, ns in now.items():
            if (more := ns - thread.times.get(spent, 0)) > 0:
                piece.times[spent] = piece.times.get(spent, 0) + more
                thread.times[spent] = ns
                if self._recorder:
                    self._recorder.spend(serial, spent, more)

    def _who(self, serial: int, thread: _Thread, query: int) -> Who:
        name = self._name(serial, thread, query)
        if name:
            return name
        if 0 < query < OTHERS:
            thread.running.add(query)
            return serial, query
        return self._type_of(serial)

    def _name(self, serial: int, thread: _Thread, query: int) -> StatementName | None:
        """Also of a query that runs, and of one that did when it was asked first."""
        name = thread.names.get(query)
        if name is None and (name := self._engine.statement(serial, query)):
            name = StatementName.of(*name)
            if query != OTHERS:
                thread.names[query] = name
        return name

    def _halve(self) -> None:
        """Put neighbours together."""
        for (_, first), (_, second) in zip(self._kept[::2], self._kept[1::2], strict=False):
            first.add(second)
            first.heavy.keep_most()
        self._kept = self._kept[::2]
        self._every_ns *= 2


def _count_powers(piece: _Piece, thread: _Thread, now: ByPower) -> None:
    for told, more in gains.more_by_power(now, thread.powers).items():
        add_powers(piece.powers, told, more)
    thread.powers = now


def _plus(before: Totals | None, totals: Totals) -> Totals:
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


def _times(spent: TimeSums, event: Callable[[int], WaitEvent]) -> list[IntervalTime]:
    """By what was done, or the type of what was waited for."""
    found: dict[tuple[TimeKind, str | None], int] = {}
    for (kind, scope, number), ns in spent.items():
        named = event(number) if kind == "sleep" else None
        if named and waits_for_work(scope, *named):
            continue
        key = kind, named.type if named else None
        found[key] = found.get(key, 0) + ns
    ordered = sorted(found.items(), key=lambda item: -item[1])
    return [IntervalTime(kind, ns, type_) for (kind, type_), ns in ordered]


def _costs(
    sums: dict[_Kind, Totals], names: dict[_Space, str | None], block_size: int
) -> list[Cost]:
    """Tablespaces of one name are one, such as base and global where no name is known."""
    found: dict[tuple[str | None, _Kind], Totals] = {}
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
