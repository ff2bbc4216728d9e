"""What a process of PostgreSQL waits for, by the number that it has in my_wait_event_info.

The highest byte is the class, the lower 16 bits are the event in it; of the class LWLock they are
the lock's tranche. Each major version numbers them anew, its minor releases only add some at the
end of a class. The names are those of pg_stat_activity, one file for each version; servers were
asked for them by scripts/wait-events.
"""

from functools import cache
from pathlib import Path
from typing import NamedTuple

from .versions import SUPPORTED

_NAMES = Path(__file__).parent / "wait_event_names"
_LWLOCK = 0x01
"""PG_WAIT_LWLOCK, utils/wait_classes.h"""
_USED = 0xFF00FFFF
"""The bits between class and event say nothing."""


class WaitEvent(NamedTuple):
    """As pg_stat_activity shows it."""

    type: str
    """Such as IO; its number in hex, such as 0x0F, if no version is known to have it."""
    event: str
    """Such as DataFileRead; its number, such as `event 7` or `tranche 105`, if it is an extension's
    or not known: what an extension calls its own is in the server's memory alone."""


def name(major: int, info: int) -> WaitEvent | None:
    """What `info`, a number of 32 bits, is in this major version; None is no wait.

    Of versions that are not supported only the class is told: numbers of events differ.
    """
    if info == 0:
        return None
    events = _events(major) if major in SUPPORTED else {}
    return events.get(info & _USED) or _by_number(major, info)


def _by_number(major: int, info: int) -> WaitEvent:
    number = info >> 24
    kind = "tranche" if number == _LWLOCK else "event"
    type_ = _types(major).get(number, f"0x{number:02X}")
    return WaitEvent(type_, f"{kind} {info & 0xFFFF}")


@cache
def _types(major: int) -> dict[int, str]:
    """By class; of the version that comes nearest, if this one is not supported."""
    nearest = min(max(major, SUPPORTED[0]), SUPPORTED[-1])
    known = {info >> 24: found.type for info, found in _events(nearest).items()}
    # The class of what tests inject has no event of its own
    return known if nearest < 17 else known | {0x0B: "InjectionPoint"}


@cache
def _events(major: int) -> dict[int, WaitEvent]:
    """By number. A line of the file is the number in hex, the type and the event."""
    found = {}
    for line in (_NAMES / f"{major}.txt").read_text().splitlines():
        if not line.startswith("#"):
            number, type_, event = line.split()
            found[int(number, 16)] = WaitEvent(type_, event)
    return found
