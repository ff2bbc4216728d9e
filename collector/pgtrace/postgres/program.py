"""A program's file, which may be anybody's: opened here, parsed by a child without privileges.

A path is `/proc/PID/exe`, the file that runs, whatever became of its name on disk; or one of
pgtrace's own choice. Probes are put where a file is that is held open for them.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from ..linux import forked, unprivileged
from ..linux.program_file import Program

if TYPE_CHECKING:
    from . import elf

_ALWAYS = frozenset(
    (
        "AbortCurrentTransaction",
        "CreateCheckPoint",
        "MyBEEntry",
        "PortalRun",
        "application_name",
        "compute_query_id",
        "debug_query_string",
        "io_method",
        "my_wait_event_info",
        "pgaio_submit_staged",
        "pgaio_wref_wait",
        "pgaio_worker_ops",
        "pgstat_report_activity",
        "pgstat_report_query_id",
        "query_id_enabled",
        "smgrstartreadv",
        "update_process_title",
    )
)
"""Symbols that are asked for of every server sooner or later: one look finds them all."""
_UNREADABLE = "its headers make no sense"
_MOST_KNOWN = 256

Where = Path | str | Program
_Key = tuple[int, ...]


class Known(NamedTuple):
    """What the child told of a file."""

    names: frozenset[str]
    """Symbols that were asked for."""
    kind: "elf.Kind | None"
    """None if it could not be told."""
    contents: "elf.Contents"


_known: dict[_Key, Known] = {}


def look(path: Where, name: str | None = None) -> Known:
    """What a program's file holds, with the address of a symbol `name`, if it is to be known.

    Raise OSError when there is no such file, or it may not be read.
    """
    wanted = _ALWAYS | ({name} if name else set())
    with _opened(path) as file:
        key = _key(path, os.fstat(file))
        before = _known.get(key)
        if before is None or not wanted <= before.names:
            wanted |= before.names if before else frozenset()
            if len(_known) >= _MOST_KNOWN:
                del _known[next(iter(_known))]
            _known[key] = _look(file, wanted)
        return _known[key]


def header(path: Where) -> bytes:
    """The first 20 bytes of its ELF header. Raise OSError as look()."""
    with _opened(path) as file:
        return os.pread(file, 20, 0)


@contextmanager
def _opened(path: Where) -> Iterator[int]:
    if isinstance(path, Program):
        yield path.file
        return
    program = Program(path)
    try:
        yield program.file
    finally:
        program.close()


def _key(path: Where, status: os.stat_result) -> _Key:
    """By what a file is known again. The number of a device that the kernel made up, as for FUSE
    and overlays, may be another's after an unmount, and FUSE says of a file whatever its owner
    wants: what was found there is believed of no other file into which probes go.
    """
    if isinstance(path, Program) and not os.major(status.st_dev):
        return (path.number,)
    return (
        status.st_dev,
        status.st_ino,
        status.st_size,
        status.st_mtime_ns,
        status.st_ctime_ns,
    )


def _look(file: int, names: frozenset[str]) -> Known:
    # What the child needs is imported by now: it can open no file.
    from . import elf  # noqa: F401

    return understood(names, unprivileged.told(lambda each, say: tell(each, names, say), file))


def tell(file: int, names: frozenset[str], say: forked.Tell) -> None:
    """In the child: two lines, of which the second may be missing. Raise anything."""
    import msgspec

    from . import elf

    say(msgspec.json.encode(elf.kind(file)) + b"\n")
    try:
        found = elf.contents(file, names)
    except Exception:
        found = elf.Contents(problem=_UNREADABLE)
    say(msgspec.json.encode(found) + b"\n")


def understood(names: frozenset[str], said: bytes) -> Known:
    """What the child said of a file and these symbols, as far as it may be believed."""
    import msgspec

    from . import elf

    kind, contents = None, elf.Contents(problem=_UNREADABLE)
    lines = said.split(b"\n")
    try:
        kind = msgspec.json.decode(lines[0], type=elf.Kind)
        if len(lines) == 3:
            contents = msgspec.json.decode(lines[1], type=elf.Contents)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        pass
    if not (contents.problem or contents.elfclass):
        contents = elf.Contents(problem=_UNREADABLE)
    return Known(names, kind, contents)
