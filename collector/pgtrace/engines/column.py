"""One number of each entry of an array, as far as the kernel ever took entries."""

from collections.abc import Iterator

from ..libbpf.mapped_array import Pieces

_NUMBER = 4
_AT_ONCE = 64
"""Entries that are compared at once: few of them change."""


class Column:
    """The 32-bit numbers at one offset of these entries.

    The kernel takes the lowest place first that was never taken. So where the first entry of a
    piece was never taken, which another number of it tells, none behind it was.
    """

    def __init__(self, memory: Pieces, size: int, offset: int, taken: int, entries: range) -> None:
        """`size` is that of an entry; of one that was ever taken, the number at `taken` or the
        one at `offset` is not 0."""
        self._memory = memory
        self._stride = size // _NUMBER
        self._offset = offset // _NUMBER
        self._taken = taken // _NUMBER
        self._entries = entries
        self._known: dict[int, bytes] = {}
        """Pieces at the last call of changed()."""

    def parts(self, *also: int) -> Iterator[tuple[int, list[list[int]]]]:
        """Piece by piece the index of its first entry, and the numbers; so those at the offsets
        that are given beside."""
        offsets = (self._offset, *(each // _NUMBER for each in also))
        for index, piece in self._pieces():
            with piece.cast("I") as numbers:
                yield index, [numbers[offset :: self._stride].tolist() for offset in offsets]

    def changed(self) -> Iterator[tuple[int, bytes]]:
        """The indexes of entries that are not as they were at the last call, and these."""
        size = self._stride * _NUMBER
        for index, piece in self._pieces():
            now, before = piece.tobytes(), self._known.get(index, b"")
            self._known[index] = now
            for block in range(0, len(now) if now != before else 0, _AT_ONCE * size):
                end = block + _AT_ONCE * size
                if now[block:end] == before[block:end]:
                    continue
                for at in range(block, min(end, len(now)), size):
                    entry = now[at : at + size]
                    if entry != before[at : at + size]:
                        yield index + at // size, entry

    def _pieces(self) -> Iterator[tuple[int, memoryview]]:
        index, size = self._entries.start, self._stride * _NUMBER
        while index < self._entries.stop:
            memory, at = self._memory.at(index)
            count = min(self._memory.length - at // size, self._entries.stop - index)
            with memoryview(memory)[at : at + count * size] as piece:
                with piece.cast("I") as numbers:
                    if not numbers[self._taken] and not numbers[self._offset]:
                        return
                yield index, piece
            index += count
