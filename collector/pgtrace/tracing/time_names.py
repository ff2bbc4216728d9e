"""What a sleeping process waited for, in words."""

from ..engines import ReadsByKey, times_of
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


_VERSION_AT = 32
"""From this bit on an event may say of which major version it is."""


def tell_version(reads: ReadsByKey, major: int) -> None:
    """Have wait events say of which version they are: they come to be told with those of others,
    who may be another server's.
    """
    for key in times_of(reads):
        if key.kind == "sleep" and not key.event >> _VERSION_AT:
            reads[key._replace(event=key.event | major << _VERSION_AT)] = reads.pop(key)


def named(major: int | None, event: int) -> WaitEvent:
    """Of a sleep, by what the kernel half has as its event, which may say its version itself. Where
    none is known, events have their numbers.
    """
    major, event = event >> _VERSION_AT or major, event & ((1 << _VERSION_AT) - 1)
    if event & KERNEL_SLEEP == KERNEL_SLEEP:
        return WaitEvent(KERNEL, _STATES.get(event & ~KERNEL_SLEEP, "other sleep"))
    return wait_events.name(major or 0, event) or WaitEvent(KERNEL, "other sleep")
