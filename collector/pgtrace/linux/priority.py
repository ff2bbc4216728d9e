"""How soon a thread that is ready to run does run."""

import contextlib
import os
from collections.abc import Iterator

NICE = -15
"""Where hundreds of others are ready to run at once, a thread of nice 0 gets less than a hundredth
of a processor; with this one it gets 29 times as much as each of them (sched_prio_to_weight in the
kernel's kernel/sched/core.c)."""


@contextlib.contextmanager
def soon() -> Iterator[None]:
    """Have the calling thread, and what it starts meanwhile, run before others.

    What it needs is little, but the kernel's room for those who end is emptied by nobody else.
    Without the permission nothing changes.
    """
    before = os.getpriority(os.PRIO_PROCESS, 0)  # in Linux, of the thread
    with contextlib.suppress(PermissionError):
        os.setpriority(os.PRIO_PROCESS, 0, min(NICE, before))
    try:
        yield
    finally:
        os.setpriority(os.PRIO_PROCESS, 0, before)
