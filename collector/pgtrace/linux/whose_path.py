"""Whose a path is: who beside root may change where it leads, and what lies there.

A path leads through directories. Whoever owns one of them may put a link, or another directory, in
the place of any name in it, at any moment. So root goes along it one name after the other, each by
the descriptor of the directory before, and notes whose they are. Where only root may do that, root
may write; where one other user may, that user is to do it; else nobody.
"""

import errno
import os
import pwd
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ..errors import UsageError

_MOST_LINKS = 40
"""As many as the kernel follows."""
OTHERS_MAY_WRITE = 0o022
"""The group's bit is the mask of an access control list, too."""
_LOOK = os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC


@contextmanager
def entered(directory: Path) -> Iterator[tuple[int, int | None]]:
    """A descriptor of a directory, and whose it is: who is to write there, if not oneself.

    For who is not root, that is always oneself. Raises OSError, and UsageError if it is nobody.
    """
    if os.geteuid() != 0:
        descriptor = os.open(directory, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        users: set[int] = set()
    else:
        descriptor, users = _go(directory)
    try:
        if len(users) > 1:
            who = " and ".join(sorted(map(user_name, users)))
            raise UsageError(
                f"{directory} can be changed by {who}, so that root writes nothing there: name a "
                "directory of one user, or of root's"
            )
        yield descriptor, next(iter(users), None)
    finally:
        os.close(descriptor)


def temporary() -> Path:
    """Where files go that are for a moment: TMPDIR, unless another user leads there; else /tmp."""
    given = Path(os.environ.get("TMPDIR") or "/tmp")
    try:
        with entered(given) as (_, uid):
            return given if uid is None else Path("/tmp")
    except (OSError, UsageError):
        return Path("/tmp")


def is_shared(directory: int) -> bool:
    """Whether others than its owner may make files in it."""
    return bool(os.fstat(directory).st_mode & OTHERS_MAY_WRITE)


def user_name(uid: int) -> str:
    """As people know the user."""
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return f"user {uid}"


def _go(path: Path) -> tuple[int, set[int]]:
    """Where a path leads, and who else has a hand in it."""
    users: set[int] = set()
    todo, links = list(reversed(path.parts)), 0
    at = os.open(".", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        while todo:
            part = todo.pop()
            if part != "/":
                users |= _others(at)
            inner = os.open(part, _LOOK, dir_fd=at)
            if not stat.S_ISLNK(os.fstat(inner).st_mode):
                os.close(at)
                at = inner
                continue
            try:
                links += 1
                if links > _MOST_LINKS:
                    raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))
                if not users and is_shared(at):  # where also root's may be given a second name
                    raise UsageError(
                        f"{_named(at)}/{part} is a link in a directory of many users: name the "
                        "directory that it stands for"
                    )
                todo.extend(reversed(Path(os.readlink("", dir_fd=inner)).parts))
            finally:
                os.close(inner)
        if not stat.S_ISDIR(os.fstat(at).st_mode):
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR))
        users |= _others(at)
    except BaseException:
        os.close(at)
        raise
    return at, users


def _others(directory: int) -> set[int]:
    """Who but root may change what a name in a directory is; in a sticky one that is, for each
    directory there, its owner.
    """
    status = os.fstat(directory)
    shared = status.st_mode & OTHERS_MAY_WRITE and not status.st_mode & stat.S_ISVTX
    if status.st_uid == 0 and shared:
        raise UsageError(
            f"others may write in {_named(directory)}, so that root writes nothing there: name "
            "another directory, or `chmod go-w` it"
        )
    return {status.st_uid} - {0}


def _named(descriptor: int) -> str:
    return os.readlink(f"/proc/self/fd/{descriptor}")  # noqa: PTH115
