"""The kernel's entries of files that were read."""

import struct
from collections.abc import Collection, Mapping
from ctypes import sizeof

from ..libbpf.mapped_array import load_barrier
from ..libbpf.objects import Object
from . import UNKNOWN_FILE, File, layout
from .column import Column
from .slot_table import fill

_FILES = 2  # enum queue in bpf/free_lists.bpf.c
_MINOR_BITS = 20  # MINORBITS, include/linux/kdev_t.h
_SIZE = sizeof(layout.FileEntry)
_KIND_AT = layout.FileEntry.kind.offset
_NUMBER = struct.Struct("<I")

assert _SIZE % _NUMBER.size == 0


class FileTable:
    """Files by numbers of their own: an entry is another file's after it was given back.

    Entry 0 stands for all for which there was no room.
    """

    def __init__(self, loaded: Object, count: int) -> None:
        self._memory = loaded.map("pgt_files").pieces()
        self._indexes = loaded.map("pgt_file_indexes")
        self._free = loaded.map("pgt_free_files")
        self._count = count
        self._known = {0: UNKNOWN_FILE}
        self._numbers = [0] * count
        """By their entries; 0: it is nobody's, or not looked at yet."""
        self._entries: dict[int, int] = {}
        """The other way."""
        self._standing: dict[File, int] = {}
        self._last = 0
        device = layout.FileEntry.device.offset  # which stays
        self._kinds = Column(self._memory, _SIZE, _KIND_AT, device, range(1, count))
        self._looked: dict[int, list[int]] = {}
        fill(loaded, _FILES, count - 1, first=1)

    def files(self) -> dict[int, File]:
        """All so far, but for those that were forgotten."""
        for first, (kinds,) in self._kinds.parts() if self._count else ():
            if kinds != self._looked.get(first):
                self._looked[first] = kinds
                for index, kind in enumerate(kinds, first):
                    if kind and not self._numbers[index]:
                        self._meet(index)
        return self._known

    def number(self, index: int) -> int:
        """Of the file that has that entry, or of the one that stands for it."""
        return self._numbers[index] or (self._meet(index) if index else 0)

    def forget(self, gone: Mapping[int, File]) -> tuple[dict[int, int], set[int]]:
        """Let others stand for these; which do, and the entries, which stay taken.

        Whoever opens one of them again takes another entry.
        """
        instead, entries = {}, set()
        for number, file in gone.items():
            index = self._entries.pop(number, 0)
            if not index:
                continue
            if file not in self._standing:
                self._last += 1
                self._standing[file] = self._last
                self._known[self._last] = file
            instead[number] = self._numbers[index] = self._standing[file]
            entries.add(index)
            del self._known[number]
            self._drop_key(index)
        return instead, entries

    def give_back(self, entries: Collection[int]) -> None:
        """Of those that were forgotten: nobody counts there any more."""
        for index in entries:
            memory, at = self._memory.at(index)
            memory[at + _KIND_AT : at + _KIND_AT + _NUMBER.size] = bytes(_NUMBER.size)
            self._numbers[index] = 0
            self._free.update(None, _NUMBER.pack(index))
        self._looked.clear()

    def in_use(self) -> int:
        """How many entries are taken."""
        self.files()
        return 1 + sum(map(bool, self._numbers))

    def close(self) -> None:
        """Give back the memory; what is known by now stays known."""
        self.files()
        self._count = 0
        self._memory.close()

    def _meet(self, index: int) -> int:
        memory, at = self._memory.at(index)
        if not _NUMBER.unpack_from(memory, at + _KIND_AT)[0]:
            return 0  # it is being filled
        load_barrier()
        entry = layout.FileEntry.from_buffer_copy(memory, at)
        self._last += 1
        self._known[self._last] = _file(entry)
        self._numbers[index] = self._last
        self._entries[self._last] = index
        return self._last

    def _drop_key(self, index: int) -> None:
        entry = layout.FileEntry.from_buffer_copy(*self._memory.at(index))
        key = layout.FileKey(entry.inode, entry.generation, entry.device, entry.kind)
        self._indexes.delete(bytes(key))


def _file(entry: layout.FileEntry) -> File:
    parts = [bytes(part.value).decode("utf-8", "surrogateescape") for part in reversed(entry.path)]
    while parts and parts[0] in {"", "/"}:
        del parts[0]
    return File(
        layout.KINDS[entry.kind],
        (entry.device >> _MINOR_BITS, entry.device & ((1 << _MINOR_BITS) - 1)),
        entry.inode,
        entry.space,
        tuple(parts),
    )
