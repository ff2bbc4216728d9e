"""What root has done by another user: everything in a directory that others may write.

There root opens nothing for writing, makes, renames and removes nothing: whoever may write a
directory may put a link in the place of any name in it, at any moment. A child that has become the
user does it, who can do no more than its own processes can: all its ids are the user's, it has no
supplementary groups and no capabilities, no program gives it more (no_new_privs), and no terminal
of ours. Directories are handed to it by descriptor.
"""

import errno
import os
import select
import signal
import stat
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import PgtraceError
from . import capabilities, forked
from .whose_path import OTHERS_MAY_WRITE

if TYPE_CHECKING:
    import subprocess

Ids = tuple[int, int]
"""A user's and a group's id."""

NO_NEW_PRIVILEGES = ("setpriv", "--no-new-privs", "--inh-caps=-all", "--ambient-caps=-all")
"""Before a command of root's that becomes the user by itself."""
_ENVIRONMENT = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL": "C"}
_SAID_MAX = 4096
PATIENCE_S = 180.0
"""For a child to end: its user can stop it. To empty a large directory takes a slow disk long."""
COLLECTED_S = 5.0
"""For one that was killed to be collected: while another process debugs it, it cannot be."""
NO_GROUP = 65534
"""Of a user without an account."""


def become(ids: Ids | None) -> list[str]:
    """The words before a command that make it the user's; none are needed for None, oneself.

    Raises PgtraceError for root.
    """
    if ids is None:
        return []
    uid, gid = ids
    if uid == 0:
        raise PgtraceError("what is to be done by another user would be done by root")
    return [*NO_NEW_PRIVILEGES, f"--reuid={uid}", f"--regid={gid}", "--clear-groups", "--"]


def run(
    ids: Ids | None, command: Sequence[str], *, directory: int | None = None, data: bytes = b""
) -> str:
    """Run a short command as the user, in a directory that is open, with `data` as its input.

    Return the first 4 KiB of what it said. Raises PgtraceError with that if it fails, and if it has
    not ended after a while: then it is killed.
    """
    import subprocess  # here: a trace does without it, and without its memory

    end = time.monotonic() + PATIENCE_S
    process = subprocess.Popen(
        [*become(ids), *command],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        cwd="/" if directory is None else f"/proc/self/fd/{directory}",
        env=_ENVIRONMENT,
        start_new_session=True,  # else the user's processes could type into our terminal
    )
    try:
        said = _exchanged(process, data, end).decode(errors="replace").strip()
    finally:
        in_time = ended(process, end - time.monotonic())
    if not in_time:
        raise PgtraceError(f"{command[0]} did not end within {PATIENCE_S:g} s, and was killed")
    if process.returncode != 0:
        raise PgtraceError(said or f"{command[0]} ended with {process.returncode}")
    return said


def _exchanged(process: "subprocess.Popen[bytes]", data: bytes, end: float) -> bytes:
    """Write that to a child, and return the beginning of what it says, until its output is closed,
    or the time is over.
    """
    assert process.stdin is not None
    assert process.stdout is not None
    said = bytearray()
    with process.stdin as given, process.stdout as heard:
        os.set_blocking(given.fileno(), False)
        poll = select.poll()
        poll.register(heard, select.POLLIN)
        poll.register(given, select.POLLOUT)
        while len(said) < _SAID_MAX and (left := end - time.monotonic()) > 0:
            for descriptor, _ in poll.poll(1000 * left):
                if descriptor == heard.fileno():
                    part = os.read(descriptor, _SAID_MAX - len(said))
                    if not part:
                        return bytes(said)
                    said += part
                    continue
                try:
                    data = data[os.write(descriptor, data) :]
                except BrokenPipeError:
                    data = b""
                if not data:
                    poll.unregister(given)
                    given.close()
    return bytes(said)


def ended(process: "subprocess.Popen[Any]", seconds: float) -> bool:
    """Wait for the end of a child with a session of its own, whose user can stop it; return whether
    it came. Otherwise all of its session is killed.
    """
    import subprocess

    with suppress(subprocess.TimeoutExpired):
        process.wait(max(0.0, seconds))
        return True
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    with suppress(subprocess.TimeoutExpired):
        process.wait(COLLECTED_S)
    return False


def become_for_good(ids: Ids) -> None:
    """Be the user from here on, in a fork of pgtrace. Raises OSError if that is not allowed."""
    uid, gid = ids
    os.setgroups([])
    os.setresgid(gid, gid, gid)
    os.setresuid(uid, uid, uid)  # which takes all capabilities, and lets no debugger in
    if uid == 0:
        raise PermissionError(errno.EPERM, os.strerror(errno.EPERM))
    capabilities.no_new_privileges()


def call(ids: Ids, work: Callable[[], None], kept: Iterable[int], seconds: float) -> None:
    """Let a fork of pgtrace, with these descriptors, become the user and do something.

    Raises OSError as `work` does, and if it cannot become the user or takes too long.
    """

    def become_and_work(tell: forked.Tell) -> None:
        try:
            become_for_good(ids)
            forked.end_with_parent()
            work()
        except OSError as error:
            tell(b"%d" % (error.errno or errno.EIO))
        else:
            tell(b"0")

    with capabilities.raised():
        said = forked.told(become_and_work, kept, seconds)
    number = int(said or errno.ETIME)
    if number:
        raise OSError(number, os.strerror(number))


@contextmanager
def opened(directory: Path) -> Iterator[int]:
    """A descriptor of a directory, for what is done in it, wherever its name leads by then.

    Raises OSError.
    """
    descriptor = os.open(directory, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def is_roots_own(directory: int, path: Path) -> bool:
    """Whether nobody but root may write in it, and nobody chose it by what lies above: it was
    opened by this path, which goes through no link.
    """
    if Path(f"/proc/self/fd/{directory}").readlink() != path:
        return False
    whole = os.fstat(directory)
    if whole.st_uid != 0 or whole.st_mode & OTHERS_MAY_WRITE:
        return False
    for above in path.parents:
        status = above.stat()
        may_write = status.st_mode & OTHERS_MAY_WRITE and not status.st_mode & stat.S_ISVTX
        if status.st_uid != 0 or may_write:
            return False
    return True


def make_directory(ids: Ids | None, directory: int, name: str, *, by_root: bool = False) -> None:
    """Make a directory of the user's, for the user alone. Raises PgtraceError if it cannot be.

    Root makes it, and gives it away, where a directory is root's own.
    """
    if ids is None or not by_root:
        run(ids, ["mkdir", "-m", "700", "--", name], directory=directory)
        return
    os.mkdir(name, 0o700, dir_fd=directory)
    flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
    made = os.open(name, flags, dir_fd=directory)
    try:
        os.fchown(made, *ids)
    finally:
        os.close(made)


def exists(directory: int, name: str) -> bool:
    """Whether anything has this name, be it a link to nothing."""
    try:
        os.stat(name, dir_fd=directory, follow_symlinks=False)
    except FileNotFoundError:
        return False
    return True


def remove_tree(ids: Ids | None, directory: int, name: str, *, by_root: bool = False) -> None:
    """Remove what the user has below a name. Raises PgtraceError if something stays.

    The empty directory itself is root's to remove where make_directory() made it `by_root`.
    """
    if ids is not None and by_root:
        run(ids, ["find", f"./{name}", "-xdev", "-mindepth", "1", "-delete"], directory=directory)
        os.rmdir(name, dir_fd=directory)
        return
    run(ids, ["rm", "-rf", "--one-file-system", "--", f"./{name}"], directory=directory)
    if exists(directory, name):
        raise PgtraceError(f"{name} was made again")
