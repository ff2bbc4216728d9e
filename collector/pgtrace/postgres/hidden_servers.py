"""Whether there may be servers that cannot be looked into: said wherever they would be missed."""

import os
from pathlib import Path

from .. import sudo
from ..errors import PermissionDeniedError
from ..linux import capabilities, in_time, namespaces
from ..linux.process_user import who_answers_for
from . import discovery, proc, program

_TITLE = b"postgres: "
_MOST_NAMED = 3
_USUAL_NAMES = {"postgres", "edb-postgres", "postmaster"}


def hidden_servers() -> str | None:
    """Words of what discovery.servers() cannot find, and what to type; None if nothing is."""
    return "; ".join(filter(None, (_not_to_be_looked_into(), _left_out(), _not_told()))) or None


def _left_out() -> str | None:
    users = ", ".join(map(str, program.left_out()))
    return users and (
        f"servers of user {users}, if there are more: this user's processes run programs that take "
        f"long to look at, {program.MOST_SECONDS:g} s in all"
    )


def _not_told() -> str | None:
    users = program.left_out()
    pids = [pid for pid in discovery.not_told() if who_answers_for(pid) not in users]
    if not pids:
        return None
    first = ", ".join(map(str, pids[:_MOST_NAMED]))
    more = f" and {len(pids) - _MOST_NAMED} more" if len(pids) > _MOST_NAMED else ""
    processes = "process" if len(pids) == 1 else "processes"
    work = "works" if len(pids) == 1 else "work"
    return (
        f"{processes} {first}{more}, which {work} in a directory with a server's lock file: "
        "nothing could be told of the binary, as where a disk did not answer in time; try again"
    )


def _not_to_be_looked_into() -> str | None:
    count, veiled = 0, not Path("/proc/1").exists()
    for pid in proc.pids():
        if _may_look_into(pid):
            continue
        try:
            name = Path(f"/proc/{pid}/comm").read_text(errors="replace").strip()
            title = in_time.command_line(pid, len(_TITLE))
        except PermissionError:
            veiled = True
            continue
        except OSError:
            continue
        count += name in _USUAL_NAMES or title == _TITLE
    if veiled:
        return f"/proc is mounted with hidepid: other users' processes are hidden. {sudo.how()}"
    if not count:
        return None
    what = "1 process looks" if count == 1 else f"{count} processes look"
    belong = "belongs" if count == 1 else "belong"
    lacking = " and ".join(capabilities.missing(capabilities.LOOKING))
    if not lacking:
        return (
            f"{what} like PostgreSQL, but what {'it works' if count == 1 else 'they work'} in may "
            "not be looked into, although pgtrace has all capabilities for it: a network file "
            "system that squashes root or does not answer, FUSE without allow_other, or a security "
            "module denies it"
        )
    return (
        f"{what} like PostgreSQL, but {belong} to another user, and you lack {lacking}. "
        f"{sudo.how()}"
    )


def no_server() -> str:
    """What to say where none was found."""
    if namespaces.in_first_pid_namespace():
        return "No PostgreSQL server runs here, as far as the processes of this host show."
    return (
        "No PostgreSQL server runs in this container, whose processes alone pgtrace sees: "
        f"{namespaces.SEE_ALL}."
    )


def _may_look_into(pid: int) -> bool:
    """Both at its binary and at the directory that it works in; or it has ended."""
    try:
        os.readlink(f"/proc/{pid}/exe")  # noqa: PTH115
        discovery.has_lock_file(pid)
    except (PermissionError, PermissionDeniedError):
        return False
    except OSError:
        return True
    return True
