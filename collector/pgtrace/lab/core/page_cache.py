"""The page cache: which pages of a relation's files it holds, and making it cold.

Per file, with posix_fadvise: dropping every cache of the host would slow everything on it, and
would also evict the catalogs and programs, whose reads no EXPLAIN line counts.
"""

import ctypes
import errno
import mmap
import os
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...errors import PgtraceError
from ...linux import foreign_files

if TYPE_CHECKING:
    import psycopg

MOST_BYTES = 1 << 40
"""Of one file: a segment has 1 GiB, unless the server was built with another --with-segsize."""
_WINDOW = 1 << 30
_PLACE = re.compile(r"(base/\d+|global|pg_tblspc/\d+/PG_\d+_\d+/\d+)/(t\d+_)?\d+", re.ASCII)
"""Of a relation, in the data directory."""
RELATION_PATHS = """
with tables as (
    select oid, reltoastrelid from pg_catalog.pg_class where oid = %(name)s::pg_catalog.regclass
), heaps as (
    select oid from tables union all select reltoastrelid from tables where reltoastrelid <> 0
)
select pg_catalog.pg_relation_filepath(oid) from heaps
union all
select pg_catalog.pg_relation_filepath(indexrelid) from pg_catalog.pg_index
where indrelid in (select oid from heaps)
"""


def relation_files(
    datadir: Path,
    connection: "psycopg.Connection[Any]",
    relation: str,
    tablespace: Path | None = None,
) -> list[Path]:
    """Return the files of a table, its TOAST table and their indexes: segments and forks too.

    `tablespace` is where theirs lies as seen from here, if links in the data directory do not lead
    there: those of a server in another root. Raises PgtraceError if the server says what is no
    place of a relation: it may be anybody who answers in its place.
    """
    files: list[Path] = []
    for (relative,) in connection.execute(RELATION_PATHS, {"name": relation}):
        if not isinstance(relative, str) or not _PLACE.fullmatch(relative):
            raise PgtraceError(f"{relative!r}, which the server names, is no relation's file")
        first = datadir / relative
        if tablespace and relative.startswith("pg_tblspc/"):
            first = tablespace.joinpath(*Path(relative).parts[2:])
        member = re.compile(rf"{re.escape(first.name)}(_fsm|_vm|_init)?(\.\d+)?")
        files += sorted(f for f in first.parent.iterdir() if member.fullmatch(f.name))
    return files


def evict(paths: Iterable[Path]) -> None:
    """Drop these files from the page cache: written back first, as dirty pages would stay.

    What the server has changed and not yet written is not in the files: CHECKPOINT before.
    """
    for path in paths:
        with opened(path) as fd:
            os.fsync(fd)
            os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)


@contextmanager
def opened(path: Path) -> Iterator[int]:
    """A descriptor of a relation's file, which is regular, no link, and no larger than one may be.

    It is the server's user who chooses what has its name. Raises OSError.
    """
    with foreign_files.opened(path.parent, path.name) as fd:
        if os.fstat(fd).st_size > MOST_BYTES:
            raise OSError(errno.EFBIG, os.strerror(errno.EFBIG), str(path))
        yield fd


def residency(path: Path) -> tuple[int, int]:
    """Return how many of a file's pages are in the page cache, and how many it has."""
    with opened(path) as fd:
        size = os.fstat(fd).st_size
        held = sum(
            _resident(fd, begin, min(_WINDOW, size - begin)) for begin in range(0, size, _WINDOW)
        )
    return held, -(-size // mmap.PAGESIZE)


def _resident(fd: int, begin: int, size: int) -> int:
    """How many pages of a part of a file are in the page cache."""
    # writable only because ctypes takes an address from nothing else; private, never written
    flags, access = mmap.MAP_PRIVATE, mmap.PROT_READ | mmap.PROT_WRITE
    with mmap.mmap(fd, size, flags=flags, prot=access, offset=begin) as mapping:
        vector = (ctypes.c_ubyte * -(-size // mmap.PAGESIZE))()
        start = ctypes.c_char.from_buffer(mapping)
        libc = ctypes.CDLL(None, use_errno=True)
        result = libc.mincore(
            ctypes.c_void_p(ctypes.addressof(start)), ctypes.c_size_t(size), vector
        )
        del start  # the mapping cannot be closed while an address of it is held
        if result != 0:
            error = ctypes.get_errno()
            raise OSError(error, os.strerror(error))
    return sum(byte & 1 for byte in vector)
