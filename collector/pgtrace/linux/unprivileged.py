"""A child that may do nothing, for work on what others wrote: it reads one file, and tells.

It has no capability and, if pgtrace may become another user, no id but nobody's; it can open,
write and start nothing, and has little memory and time. Whatever the file does to it, pgtrace
gets fewer bytes back, or none.
"""

import os
import resource
from collections.abc import Callable, Mapping

from . import capabilities, forked
from .forked import Tell

NOBODY = 65534
MOST_MEMORY = 256 << 20
"""In bytes, beside what pgtrace has itself."""
MOST_SECONDS = 5


def told(work: Callable[[int, Tell], None], file: int | Callable[[], int]) -> bytes:
    """What `work` tells of a file in a child, until it ends or is ended. It is open, or opened by
    this in the child, before that has no privileges any more.

    It is to import nothing there, and to trust nothing that it finds. Raise OSError when there
    can be no child.
    """

    def unprivileged(tell: Tell) -> None:
        handle = file if isinstance(file, int) else file()
        _drop_all()
        work(handle, tell)

    with capabilities.raised():
        kept = {file} if isinstance(file, int) else set[int]()
        return forked.told(unprivileged, kept, MOST_SECONDS)


def _drop_all() -> None:
    memory = mapped() + MOST_MEMORY
    become_nobody()
    forked.close_up()
    limit(
        {
            resource.RLIMIT_AS: memory,
            resource.RLIMIT_CPU: MOST_SECONDS,
            resource.RLIMIT_NOFILE: 0,
            resource.RLIMIT_NPROC: 0,
            resource.RLIMIT_FSIZE: 0,
            resource.RLIMIT_CORE: 0,
        }
    )


def become_nobody() -> None:
    """Have no capability and, where that is allowed, no id but nobody's, from here on."""
    capabilities.bound()
    try:
        os.setgroups([])
        os.setresgid(NOBODY, NOBODY, NOBODY)
        os.setresuid(NOBODY, NOBODY, NOBODY)
    except PermissionError:  # no root, or one without CAP_SETUID: then without capabilities alone
        pass
    capabilities.take()
    capabilities.no_new_privileges()


def limit(limits: Mapping[int, int]) -> None:
    """Have no more than this of each resource, by its RLIMIT_ number, from here on."""
    for number, most in limits.items():
        hard = resource.getrlimit(number)[1]
        least = most if hard == resource.RLIM_INFINITY else min(most, hard)
        resource.setrlimit(number, (least, least))


def mapped() -> int:
    """Bytes of memory that this process has mapped."""
    return int(_status("/proc/self/statm").split()[0]) * resource.getpagesize()


def _status(path: str) -> str:
    with open(path) as file:  # noqa: PTH123
        return file.read()
