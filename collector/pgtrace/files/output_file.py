"""Files that pgtrace writes for somebody: for their owner alone, whole or not at all.

Root makes none where another user could lead it elsewhere: where one may, the file is made by a
child that has become that user. linux/whose_path.py tells which.
"""

import errno
import os
import pwd
import stat
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from .. import interrupts
from ..errors import UsageError, reason
from ..linux import as_user, capabilities, whose_path
from . import output_stream

_MAKE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_MOST_SECONDS = 300
"""For a child to write the largest capture on a slow disk."""


def check(path: Path | str, force: bool = False) -> None:
    """Raise UsageError if write() would refuse `path`: asked before a long session, not after."""
    path = Path(path)
    descriptor = output_stream.descriptor(path)
    if descriptor is not None:
        output_stream.check(descriptor)
        return
    try:
        with whose_path.entered(path.parent) as (directory, uid):
            _check(path, directory, force)
            _check_permission(path, directory, uid)
    except FileNotFoundError:
        raise UsageError(f"{path.parent}: no such directory") from None
    except (OSError, ValueError) as error:
        raise UsageError(f"{path} cannot be written: {reason(error)}") from error


def check_apart(path: Path | str, read: Sequence[Path | str]) -> None:
    """Raise UsageError if `path` is one of the files that are read, "-" for stdin, by whatever
    name: --force overwrites what was written before, never what was measured."""
    written = _status(path)
    for each in read:
        if written and (status := _status(each)) and os.path.samestat(written, status):
            raise UsageError(
                f"{path} is the file that is read, and would be lost: name another with -o"
            )


def _status(path: Path | str) -> os.stat_result | None:
    """None of what is no regular file, or not there."""
    number = 0 if str(path) == "-" else output_stream.descriptor(path)
    try:
        found = Path(path).stat() if number is None else os.fstat(number)
    except (OSError, ValueError, OverflowError):
        return None
    return found if stat.S_ISREG(found.st_mode) else None


def write(data: bytes, path: Path | str, force: bool = False, temporary: str = "") -> str:
    """Write a file, and say that and as whom: nothing is written through a link, nor over a file
    without `force`; a stream of one's own is written as that is. Until it is whole it is called
    `temporary` beside that, which a caller who may be killed names: temporary_name().

    Raises UsageError if it cannot be.
    """
    path = Path(path)
    check(path, force)
    try:
        descriptor = output_stream.descriptor(path)
        if descriptor is not None:
            output_stream.write(descriptor, data)
            return f"Wrote {path}"
        with whose_path.entered(path.parent) as (directory, uid):
            if uid is None and output_stream.is_one(directory, path.name):
                output_stream.write_named(directory, path.name, data)
            else:
                meanwhile = temporary or temporary_name()
                _by(uid, lambda: _replace(data, directory, path.name, meanwhile, force), directory)
    except FileExistsError as error:
        raise UsageError(f"{path} exists; --force overwrites it") from error
    except OSError as error:
        raise UsageError(f"{path} cannot be written: {reason(error)}") from error
    return f"Wrote {path}" + (f" as {whose_path.user_name(uid)}" if uid is not None else "")


def keep(data: bytes, directory: Path) -> Path:
    """Write a file that is nobody else's yet, into a directory. Raises OSError or UsageError."""
    name = _new_name("pgtrace-", ".json")
    with whose_path.entered(directory) as (place, uid):
        meanwhile = temporary_name()
        _by(uid, lambda: _replace(data, place, name, meanwhile, force=False), place)
    return directory / name


def temporary_name() -> str:
    """One that nobody can guess, of a file that is not whole yet."""
    return _new_name(".pgtrace-", "")


def remove(path: Path) -> None:
    """Remove a file that write() made, or began, if it is there. Raises OSError or UsageError."""
    with whose_path.entered(path.parent) as (directory, uid), suppress(FileNotFoundError):
        _by(uid, lambda: os.unlink(path.name, dir_fd=directory), directory)


def _check(path: Path, directory: int, force: bool) -> None:
    """Raise UsageError for what has its name already."""
    try:
        status = os.stat(path.name or ".", dir_fd=directory, follow_symlinks=False)
    except FileNotFoundError:
        return
    if stat.S_ISLNK(status.st_mode):
        raise UsageError(f"{path} is a symbolic link; name the file that it stands for")
    if stat.S_ISCHR(status.st_mode) or stat.S_ISFIFO(status.st_mode):
        output_stream.check_named(path, directory, status)
    elif not stat.S_ISREG(status.st_mode):
        raise UsageError(f"{path} is not a file")
    elif not force:
        raise UsageError(f"{path} exists; --force overwrites it")
    elif os.geteuid() == 0 != status.st_uid and os.fstat(directory).st_uid == 0:
        who = whose_path.user_name(status.st_uid)
        raise UsageError(f"{path} belongs to {who}: name another file, or remove it before")


def _check_permission(path: Path, directory: int, uid: int | None) -> None:
    """Raise UsageError if no file can be made there."""

    def look() -> None:
        if not os.access(".", os.W_OK | os.X_OK, dir_fd=directory):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))

    try:
        _by(uid, look, directory)
    except PermissionError:
        who, why = "this user", ""
        if uid is not None:
            who = whose_path.user_name(uid)
            why = ", and root makes none where that user could lead it elsewhere"
        words = f"{path.parent}: files cannot be made there by {who}{why}; name another directory"
        raise UsageError(words) from None


def _by(uid: int | None, work: Callable[[], None], directory: int) -> None:
    """Do it, or have it done by a user. Raises OSError."""
    if uid is None:
        with capabilities.raised(capabilities.WRITING):
            work()
        return
    try:
        group = pwd.getpwuid(uid).pw_gid
    except KeyError:
        group = as_user.NO_GROUP
    as_user.call((uid, group), work, {directory}, _MOST_SECONDS)


def _replace(data: bytes, directory: int, name: str, temporary: str, force: bool) -> None:
    with interrupts.cleaned_up(), _removed(temporary, directory):
        handle = os.open(temporary, _MAKE, 0o600, dir_fd=directory)
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        if force or not _linked(temporary, directory, name):
            os.rename(temporary, name, src_dir_fd=directory, dst_dir_fd=directory)


@contextmanager
def _removed(name: str, directory: int) -> Iterator[None]:
    """At whatever end of the block, if it is still there."""
    try:
        yield
    finally:
        with suppress(FileNotFoundError):
            os.unlink(name, dir_fd=directory)


def _linked(temporary: str, directory: int, name: str) -> bool:
    """Give a file its name unless somebody else just took it; False where links cannot be."""
    try:
        os.link(temporary, name, src_dir_fd=directory, dst_dir_fd=directory, follow_symlinks=False)
    except FileExistsError:
        raise
    except OSError:
        return False
    return True


def _new_name(before: str, after: str) -> str:
    return f"{before}{os.urandom(8).hex()}{after}"
