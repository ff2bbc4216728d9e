"""The kernel's entries of files that were read."""

from ..libbpf.objects import Object
from . import UNKNOWN_FILE, File, layout
from .slots import fill

_FILES = 2  # enum queue in bpf/fill.bpf.c
_MINOR_BITS = 20  # MINORBITS, include/linux/kdev_t.h


class FileTable:
    """Entries are taken one after the other, and never given back; 0 stands for all others."""

    def __init__(self, loaded: Object, count: int) -> None:
        self._memory = loaded.map("pgt_files").pieces()
        self._count = count
        self._known = [UNKNOWN_FILE]
        fill(loaded, _FILES, count - 1, first=1)

    def files(self) -> list[File]:
        """All so far."""
        while len(self._known) < self._count:
            entry = layout.FileEntry.from_buffer_copy(*self._memory.at(len(self._known)))
            if not entry.kind:
                break
            self._known.append(_file(entry))
        return self._known

    def close(self) -> None:
        """Give back the memory; what is known by now stays known."""
        self.files()
        self._count = 0
        self._memory.close()


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
