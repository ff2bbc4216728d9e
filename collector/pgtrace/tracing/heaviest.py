"""Who read, wrote and synced longest in one interval."""

import operator
from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple, TypeVar

from ..engines import StatementName
from ..model.capture import Heaviest, Operation
from .file_names import Place
from .gains import Gain, Told

_Key = TypeVar("_Key")
MOST = 5
_MOST_ROWS = 10_000
"""In an interval that may last hours: of statements without ids each text is a row of its own."""
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


class _Told(NamedTuple):
    """A row as a capture tells it: of several rows it may be the same."""

    operation: Operation
    query_id: int | None
    text_hash: str | None
    backend_type: str | None
    place: Place


class Heavy:
    """All that was done in an interval, by who did it; once it is over the heaviest of that."""

    __slots__ = ("_rows",)

    def __init__(self) -> None:
        self._rows: dict[_Row, list[int]] = {}
        """Count, bytes, nanoseconds; of those that waited for the device count, nanoseconds."""

    def count(self, who: Who, gain: Gain) -> None:
        """Count what one has done."""
        waited = gain.key.source == "device"
        count, size, total = gain.totals
        row = _Row(who, gain.key.operation, gain.key.file)
        _add(self._rows, row, (count, size, total, count * waited, total * waited))
        if len(self._rows) > _MOST_ROWS:
            self._keep(_MOST_ROWS // 10)

    def add(self, other: "Heavy") -> None:
        """Count what the other has, too."""
        for row, sums in other._rows.items():
            _add(self._rows, row, sums)

    def keep_most(self) -> None:
        """Forget all but the heaviest."""
        self._keep(MOST)

    def _keep(self, most: int) -> None:
        if len(self._rows) > most:
            self._rows = dict(sorted(self._rows.items(), key=lambda item: -item[1][2])[:most])

    def rename(self, running: Told, who: Who) -> None:
        """What this query did was for that statement."""
        for row in [row for row in self._rows if row.who == running]:
            _add(self._rows, row._replace(who=who), self._rows.pop(row))

    def fold_files(self, instead: Mapping[int, int]) -> None:
        """Some files are gone; others stand for them."""
        for row in [row for row in self._rows if row.file in instead]:
            _add(self._rows, row._replace(file=instead[row.file]), self._rows.pop(row))

    def listed(self, telling: Telling) -> list[Heaviest]:
        """Those that took longest first."""
        found: dict[_Told, list[int]] = {}
        for row, sums in self._rows.items():
            _add(found, _told(row, telling), sums)
        ordered = sorted(found.items(), key=lambda item: -item[1][2])
        return [_heaviest(told, sums) for told, sums in ordered if sums[0]][:MOST]


def _heaviest(told: _Told, sums: list[int]) -> Heaviest:
    count, size, total_ns, device_count, device_ns = sums
    return Heaviest(
        told.operation,
        count,
        size,
        total_ns,
        device_count,
        device_ns,
        told.query_id,
        told.text_hash,
        told.backend_type,
        *told.place,
    )


def _told(row: _Row, telling: Telling) -> _Told:
    query_id = text_hash = None
    if isinstance(row.who, StatementName):
        query_id, text_hash = telling.statement(row.who)
    backend_type = row.who if isinstance(row.who, str) else None
    return _Told(row.operation, query_id, text_hash, backend_type, telling.place(row.file))


def _add(to: dict[_Key, list[int]], key: _Key, more: Iterable[int]) -> None:
    sums = to.get(key)
    to[key] = list(more) if sums is None else list(map(operator.add, sums, more))
