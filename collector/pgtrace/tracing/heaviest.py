"""Who read, wrote and synced longest in one interval."""

from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from ..engines import Key, StatementName
from ..model.capture import Heaviest, Operation
from .file_names import Place
from .gains import Gain, Told

MOST = 5
Who = StatementName | Told | str | None
"""A statement; one that runs, and whose name is known when it ends; a type of processes."""


class Telling(NamedTuple):
    """What tells, at the end, what rows are of."""

    statement: Callable[[StatementName], tuple[int | None, str | None]]
    """Its query_id and text_hash, as the capture's queries have them."""
    place: Callable[[int], Place]
    """Where a file lies, by its index."""


class _Row(NamedTuple):
    who: Who
    operation: Operation
    file: int


class Heavy:
    """All that was done in an interval, by who did it; once it is over the heaviest of that."""

    __slots__ = ("_rows",)

    def __init__(self) -> None:
        self._rows: dict[_Row, list[int]] = {}
        """Count, bytes, nanoseconds; of those that waited for the device count, nanoseconds."""

    def count(self, who: Who, gain: Gain) -> None:
        """Count what one has done."""
        key: Key = gain.key
        sums = self._rows.setdefault(_Row(who, key.operation, key.file), [0] * 5)
        waited = key.source == "device"
        count, size, total = gain.totals
        more = (count, size, total, count * waited, total * waited)
        for at, number in enumerate(more):
            sums[at] += number

    def add(self, other: "Heavy") -> None:
        """Count what the other has, too."""
        for row, sums in other._rows.items():
            self._add(row, sums)

    def keep_most(self) -> None:
        """Forget all but the heaviest."""
        if len(self._rows) > MOST:
            self._rows = dict(sorted(self._rows.items(), key=lambda item: -item[1][2])[:MOST])

    def rename(self, running: Told, who: Who) -> None:
        """What this query did was for that statement."""
        for row in [row for row in self._rows if row.who == running]:
            self._add(row._replace(who=who), self._rows.pop(row))

    def fold_files(self, instead: Mapping[int, int]) -> None:
        """Some files are gone; others stand for them."""
        for row in [row for row in self._rows if row.file in instead]:
            self._add(row._replace(file=instead[row.file]), self._rows.pop(row))

    def listed(self, telling: Telling) -> list[Heaviest]:
        """Those that took longest first."""
        found: dict[tuple[object, ...], Heaviest] = {}
        for row, sums in self._rows.items():
            one = _told(row, sums, telling)
            same = (
                one.operation, one.query_id, one.text_hash, one.backend_type, one.kind,
                one.tablespace, one.relation,
            )  # fmt: skip
            before = found.setdefault(same, one)
            if before is not one:
                _put_together(before, one)
        ordered = sorted(found.values(), key=lambda each: -each.total_ns)
        return [each for each in ordered if each.count][:MOST]

    def _add(self, row: _Row, more: Iterable[int]) -> None:
        sums = self._rows.setdefault(row, [0] * 5)
        for at, number in enumerate(more):
            sums[at] += number


def _told(row: _Row, sums: list[int], telling: Telling) -> Heaviest:
    query_id = text_hash = None
    if isinstance(row.who, StatementName):
        query_id, text_hash = telling.statement(row.who)
    place = telling.place(row.file)
    count, size, total, device_count, device_ns = sums
    return Heaviest(
        operation=row.operation,
        count=count,
        bytes=size,
        total_ns=total,
        device_count=device_count,
        device_ns=device_ns,
        query_id=query_id,
        text_hash=text_hash,
        backend_type=row.who if isinstance(row.who, str) else None,
        kind=place.kind,
        tablespace=place.tablespace,
        relation=place.relation,
    )


def _put_together(first: Heaviest, second: Heaviest) -> None:
    first.count += second.count
    first.bytes += second.bytes
    first.total_ns += second.total_ns
    first.device_count += second.device_count
    first.device_ns += second.device_ns
