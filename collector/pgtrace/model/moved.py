"""Which rows of an earlier moment are in each of a later one, though files have other names by now.

A file's name may be learned late, or change; files that are gone are told together; and another may
have the name of one that is gone. What was done in it only grows, whatever it is called.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from operator import attrgetter

from .buckets import Buckets
from .capture import Io
from .combined import alike

_MEASURED = ("bytes", "blocks", "device_bytes", "latency", "queued_ns")
_place = attrgetter("kind", "tablespace", "relation")
_REST = [n for n in Io.__struct_fields__ if n not in (*_MEASURED, "kind", "tablespace", "relation")]
_rest = attrgetter(*_REST)


@dataclass(slots=True)
class Pair:
    """A later row, and the earlier ones that are in it."""

    row: Io
    before: list[Io] = field(default_factory=list)

    def has_room(self, more: Io) -> bool:
        """Whether this one can be in it, too."""
        row, parts = self.row, [*self.before, more]
        for name in ("count", "total_ns", "bytes", "device_bytes", "queued_ns"):
            if (getattr(row, name) or 0) < sum(getattr(part, name) or 0 for part in parts):
                return False
        now = Buckets.sums([Buckets(row.latency.buckets)])
        then = Buckets.sums(Buckets(part.latency.buckets) for part in parts)
        return all(now.get(index, 0) >= count for index, count in then.items())

    def left(self) -> int:
        """How many are in no earlier one."""
        return self.row.count - sum(part.count for part in self.before)


def paired(later: Iterable[Io], earlier: Iterable[Io]) -> list[Pair]:
    """Return the later rows with theirs. Those of which it cannot be told which of them an earlier
    one is in are one row, under the name of one of them.
    """
    before, found = _groups(earlier), list[Pair]()
    for key, rows in _groups(later).items():
        pairs = [Pair(row) for row in rows]
        known = {_place(pair.row): pair for pair in pairs}
        moved = []
        for old in before.get(key, []):
            same = known.get(_place(old))
            if same and same.has_room(old):
                same.before.append(old)
            else:
                moved.append(old)
        for old in sorted(moved, key=lambda each: -each.count):
            _put(old, pairs)
        found += pairs
    return found


def _groups(rows: Iterable[Io]) -> dict[object, list[Io]]:
    found: dict[object, list[Io]] = {}
    for row in rows:
        found.setdefault(_rest(row), []).append(row)
    return found


def _put(old: Io, pairs: list[Pair]) -> None:
    """Of several that it can be in, it is in the one of which it leaves least."""
    room = [pair for pair in pairs if pair.has_room(old)]
    if room:
        best = min(room, key=lambda pair: (pair.row.tablespace != old.tablespace, pair.left()))
        best.before.append(old)
        return
    pairs.sort(key=lambda pair: (_place(pair.row) != _place(old), -pair.left()))
    while len(pairs) > 1 and not pairs[0].has_room(old):
        pairs[:2] = [_together(pairs[:2])]
    pairs[0].before.append(old)


def _together(pairs: Sequence[Pair]) -> Pair:
    (row,) = alike([pair.row for pair in pairs], _REST)
    return Pair(row, [part for pair in pairs for part in pair.before])
