"""One number of each entry of an array, as far as the kernel ever took entries."""

import struct
from collections.abc import Iterator
from typing import Any

from ..libbpf.mapped_array import Pieces

_NUMBER = 4


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

    def parts(self, *also: int) -> Iterator[tuple[int, list[list[int]]]]:
        """Piece by piece the index of its first entry, and the numbers; so those at the offsets
        that are given beside."""
        offsets = (self._offset, *(each // _NUMBER for each in also))
        for index, piece in self._pieces():
            with piece.cast("I") as numbers:
                yield index, [numbers[offset :: self._stride].tolist() for offset in offsets]

    def entries(self, form: struct.Struct) -> Iterator[tuple[int, Iterator[tuple[Any, ...]]]]:
        """Piece by piece the index of its first entry, and all of them in this form, as long as an
        entry is.
        """
        for index, piece in self._pieces():
            yield index, form.iter_unpack(piece)

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
