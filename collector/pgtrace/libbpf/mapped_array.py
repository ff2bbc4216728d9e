"""A large array shared with the kernel, mapped only as far as it is looked at."""

import math
import mmap
import threading

_AT_LEAST = 256 << 10
_AT_MOST = 32
"""Pieces: each holds a file descriptor."""


def load_barrier() -> None:
    """What is looked at, or written, before was so before what is looked at afterwards.

    x86 keeps loads in order, but not a load behind a store; arm64 keeps neither. CPython gives a
    lock back by a store-release and takes it by a load-acquire, which are ordered one after the
    other.
    """
    lock = threading.Lock()
    lock.acquire()
    lock.release()
    lock.acquire()


class Pieces:
    """The entries of an array; what is read there is live.

    The kernel counts a mapping as memory in use, touched or not. Most entries never are.
    """

    def __init__(self, fd: int, stride: int, count: int) -> None:
        self._fd = fd
        self._stride = stride
        self._size = -(-stride * count // mmap.PAGESIZE) * mmap.PAGESIZE
        step = math.lcm(stride, mmap.PAGESIZE)
        self._bytes = step * max(1, _AT_LEAST // step, -(-self._size // (step * _AT_MOST)))
        self.length = self._bytes // stride
        """Of a piece, in entries."""
        self._mapped: dict[int, mmap.mmap] = {}

    def at(self, index: int) -> tuple[mmap.mmap, int]:
        """Where an entry is: in this piece, from this offset on."""
        number, offset = divmod(index * self._stride, self._bytes)
        piece = self._mapped.get(number)
        if piece is None:
            start = number * self._bytes
            piece = mmap.mmap(self._fd, min(self._bytes, self._size - start), offset=start)
            self._mapped[number] = piece
        return piece, offset

    def close(self) -> None:
        """Give back the memory."""
        while self._mapped:
            self._mapped.popitem()[1].close()
