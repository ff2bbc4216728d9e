"""A program's file, which may be anybody's: opened here, parsed by a child without privileges.

A path is `/proc/PID/exe`, the file that runs, whatever became of its name on disk; or one of
pgtrace's own choice. Probes are put where a file is that is held open for them.
"""

import errno
import os
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from ..linux import foreign_files, forked, in_time, unprivileged
from ..linux.process_user import who_answers_for
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
MOST_SECONDS = 5.0
"""For the programs of one user in a minute: of a server's a child reads what is needed in 40 ms."""
_MINUTE_S = 60.0

Where = Path | str | Program
_Key = tuple[int, ...]


class Known(NamedTuple):
    """What the child told of a file."""

    names: frozenset[str]
    """Symbols that were asked for."""
    kind: "elf.Kind"
    contents: "elf.Contents"


class NotLookedAtError(OSError):
    """Programs of that user took too long already, or the child told nothing of this one."""


_known: dict[_Key, Known] = {}
"""The user whose process runs it comes first in its key, 0 for a file of pgtrace's own choice."""
_spent: dict[int, tuple[float, float]] = {}
"""By users: when their minute began, and the seconds that were spent since."""
_left_out: set[int] = set()


def look(path: Where, name: str | None = None) -> Known:
    """What a program's file holds, with the address of a symbol `name`, if it is to be known.

    Raise OSError when there is no such file, or it may not be read; NotLookedAtError when what
    that user's processes run took too long already, or nothing came of the look, such as where the
    disk did not answer: then another one may succeed. A local user may start many programs, each of
    which takes its child seconds: that costs this user's servers, and little of anybody's time.
    """
    wanted = _ALWAYS | ({name} if name else set())
    pid = _process_of(path)
    if pid is None or isinstance(path, Program):
        with _opened(path) as file:
            return _remembered((_payer(pid), *_key(path, file)), wanted, file)
    running = in_time.program(pid)
    try:
        return _remembered((_payer(pid), *running), wanted, _opener(path, running))
    except NotLookedAtError:
        now = in_time.program(pid)
        if now == running:
            raise
    # As a shell that has become what it was to run
    return _remembered((_payer(pid), *now), wanted, _opener(path, now))


def _opener(path: Path | str, expected: in_time.Facts) -> Callable[[], int]:
    def open_it() -> int:
        file = os.open(path, foreign_files.READ)
        if in_time.facts(file) != expected:
            raise OSError(errno.ESTALE, "another program by now")
        return file

    return open_it


def _process_of(path: Where) -> int | None:
    """That of `/proc/PID/exe`; None for a file of pgtrace's own choice."""
    parts = str(path).split("/")
    is_one = parts[:2] == ["", "proc"] and len(parts) == 4 and parts[2].isdecimal()
    return int(parts[2]) if is_one else None


def _payer(pid: int | None) -> int:
    """Who runs it: it may be another user's file."""
    return 0 if pid is None else who_answers_for(pid)


def _remembered(key: _Key, wanted: frozenset[str], file: int | Callable[[], int]) -> Known:
    before = _known.get(key)
    if before is not None and wanted <= before.names:
        return before
    wanted |= before.names if before else frozenset()
    with _charged(key[0]):
        found = _look(file, wanted)
    if len(_known) >= _MOST_KNOWN:
        _forget_one()
    _known[key] = found
    return found


def left_out() -> list[int]:
    """Users of whom a program was not looked at lately, as they took too long."""
    return sorted(_left_out)


@contextmanager
def _charged(uid: int) -> Iterator[None]:
    began = time.monotonic()
    since, seconds = _spent.get(uid, (began, 0.0))
    if began - since >= _MINUTE_S:
        since, seconds = began, 0.0
        _left_out.discard(uid)
    if seconds >= MOST_SECONDS:
        _left_out.add(uid)
        what = f"to look at programs of user {uid} took too long; try again in a minute"
        raise NotLookedAtError(errno.EBUSY, what)
    try:
        yield
    finally:
        _spent[uid] = since, seconds + time.monotonic() - began


def _forget_one() -> None:
    """The oldest of the user who has most: nobody drives out another's."""
    ((most, _),) = Counter(key[0] for key in _known).most_common(1)
    del _known[next(key for key in _known if key[0] == most)]


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


def _key(path: Where, file: int) -> _Key:
    """By what a file is known again. The number of a device that the kernel made up, as for FUSE
    and overlays, may be another's after an unmount, and FUSE says of a file whatever its owner
    wants: what was found there is believed of no other file into which probes go.
    """
    facts = in_time.facts(file)
    made_up = not os.major(facts[0])
    return (path.number,) if isinstance(path, Program) and made_up else facts


def _look(file: int | Callable[[], int], names: frozenset[str]) -> Known:
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
    """What the child said of a file and these symbols, as far as it may be believed.

    Raise NotLookedAtError when not even its first line is to be believed.
    """
    import msgspec

    from . import elf

    contents = elf.Contents(problem=_UNREADABLE)
    lines = said.split(b"\n")
    try:
        kind = msgspec.json.decode(lines[0], type=elf.Kind)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        what = "nothing could be told of it; try again"
        raise NotLookedAtError(errno.EAGAIN, what) from error
    try:
        if len(lines) == 3:
            contents = msgspec.json.decode(lines[1], type=elf.Contents)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        pass
    if not (contents.problem or contents.elfclass):
        contents = elf.Contents(problem=_UNREADABLE)
    return Known(names, kind, contents)
