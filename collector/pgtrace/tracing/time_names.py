"""What a sleeping process waited for, in words."""

from ..engines.layout import KERNEL_SLEEP
from ..postgres import wait_events
from ..postgres.wait_events import WaitEvent

KERNEL = "Kernel"
"""In the place of the server's type of wait event: it showed none."""
_STATES = {1: "interruptible sleep", 2: "uninterruptible sleep"}
"""TASK_INTERRUPTIBLE and TASK_UNINTERRUPTIBLE, include/linux/sched.h: since 2.6 the same."""


def named(major: int | None, event: int) -> WaitEvent:
    """Of a sleep, by what the kernel half has as its event. Of several servers, or one whose
    version is not known, events have their numbers.
    """
    if event & KERNEL_SLEEP == KERNEL_SLEEP:
        return WaitEvent(KERNEL, _STATES.get(event & ~KERNEL_SLEEP, "other sleep"))
    return wait_events.name(major or 0, event) or WaitEvent(KERNEL, "other sleep")
