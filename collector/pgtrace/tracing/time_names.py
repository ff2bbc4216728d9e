"""What a sleeping process waited for, in words."""

from ..engines.layout import KERNEL_SLEEP
from ..postgres import wait_events
from ..postgres.wait_events import WaitEvent

KERNEL = "Kernel"
"""In the place of the server's type of wait event: it showed none."""
_STATES = {
    1: "interruptible sleep",
    2: "uninterruptible sleep",
    4: "stopped by a signal",
    8: "stopped by a debugger",
    0x8000: "frozen",
}
"""TASK_INTERRUPTIBLE and so on, include/linux/sched.h: since 2.6 the same. Of who is held up the
server's own wait event is not taken: it is over, or stands still."""


def named(major: int | None, event: int) -> WaitEvent:
    """Of a sleep, by what the kernel half has as its event. Where the server's version is not
    known, events have their numbers.
    """
    if event & KERNEL_SLEEP == KERNEL_SLEEP:
        return WaitEvent(KERNEL, _STATES.get(event & ~KERNEL_SLEEP, "other sleep"))
    return wait_events.name(major or 0, event) or WaitEvent(KERNEL, "other sleep")
