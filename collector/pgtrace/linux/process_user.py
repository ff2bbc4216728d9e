"""As which user a process runs, and who answers for what it does to those who look at it."""

import functools
import re
from pathlib import Path

_UID = re.compile(rb"^Uid:\t(\d+)", re.MULTILINE)
_SUBORDINATE = re.compile(r"[^:\n]+:(\d+):(\d+)")
NOBODYS = -1


def user_of(pid: int | str) -> int | None:
    """None once it is gone. The owner of /proc/PID is another: root, where a process lets nobody
    look into it, and who a program with the set-user-ID bit is of."""
    try:
        with open(f"/proc/{pid}/status", "rb", buffering=0) as file:  # noqa: PTH123
            found = _UID.search(file.readall())
    except (FileNotFoundError, ProcessLookupError):
        return None
    return int(found[1]) if found else None


def who_answers_for(pid: int | str) -> int:
    """Its user; of all those that one account can be in user namespaces (subuid(5)), the first.
    NOBODYS once it is gone."""
    uid = user_of(pid)
    if uid is None:
        return NOBODYS
    return next((ids.start for ids in _subordinate() if uid in ids), uid)


@functools.cache
def _subordinate() -> list[range]:
    try:
        lines = Path("/etc/subuid").read_text(errors="replace").splitlines()
    except OSError:
        return []
    found = filter(None, map(_SUBORDINATE.fullmatch, lines))
    return [range(int(each[1]), int(each[1]) + int(each[2])) for each in found]
