"""What removes a private server once its maker is gone: a process of the server's user."""

import glob
import subprocess
from pathlib import Path

from ...errors import PgtraceError
from ...linux import as_user
from ...linux.as_user import Ids

KEEPER = r"""
cat >/dev/null
send() {
    cd /
    find /proc -maxdepth 2 -name cwd \( -lname "$2" -o -lname "$2 (deleted)" \) 2>/dev/null |
        while read -r cwd; do kill -"$1" "${cwd//[!0-9]/}" 2>/dev/null && echo alive; done
}
end() {
    n=0
    while [ -n "$(send "$([ $n -lt 100 ] && echo QUIT || echo KILL)" "$1")" ] && [ $n -lt 200 ]; do
        n=$((n + 1)); sleep 0.1
    done
}
for _ in 1 2; do
    end "$2"
    rm -rf --one-file-system -- "$1"
done
"""
"""Wait for the maker's end of the pipe to close; end every process that works in the data
directory (SIGQUIT is PostgreSQL's immediate shutdown; found by their working directory, which
also finds a backend whose postmaster was killed, or whose data went first); remove everything.
Twice: a server that was being started went there after the first look, or finds nothing now.
It is the server's user, and works in the directory that holds the cluster's."""

ROOTS_KEEPER = r"""
name=$1 link=$2
shift 2
"$@"
[ -z "$link" ] || rm -f -- "$link"
[ -z "$name" ] || rmdir -- "$name"
"""
"""What root adds, in directories of its own alone: the empty directory, the link to the socket."""


def remove(base: Path, data: Path, socket_dir: Path, ids: Ids) -> None:
    """Remove a cluster whose maker and keeper are gone; the paths are as PrivateCluster has them,
    `ids` its user's.
    """
    with as_user.opened(base.parent) as place:
        link = socket_dir if socket_dir != base else None
        keeper = subprocess.Popen(
            keeper_command(base.name, data, ids, as_user.is_roots_own(place, base.parent), link),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            cwd=f"/proc/self/fd/{place}",
            start_new_session=True,
        )
        wait(keeper, base, place)


def wait(keeper: "subprocess.Popen[bytes]", base: Path, place: int) -> None:
    """Wait until a keeper, which was told to, has removed a cluster; `place` is the directory that
    holds it. Raises PgtraceError if something stays: its user can stop it, and then it is killed.
    """
    in_time = as_user.ended(keeper, as_user.PATIENCE_S)
    if as_user.exists(place, base.name):
        why = "" if in_time else f": what does did not end within {as_user.PATIENCE_S:g} s"
        raise PgtraceError(f"could not remove {base}{why}")


def keeper_command(
    name: str, data: Path, ids: Ids | None, roots_own: bool, link: Path | None
) -> list[str]:
    """The command that waits for the end of its input, and removes a cluster then. It is to run in
    the directory that holds it, which is `roots_own` or not.
    """
    pattern = glob.escape(str(data))
    words = [*as_user.become(ids), "bash", "-c", KEEPER, "pgtrace-keeper", f"./{name}", pattern]
    if ids is None or not (roots_own or link):
        return words
    own = f"./{name}" if roots_own else ""
    return ["bash", "-c", ROOTS_KEEPER, "pgtrace-keeper", own, str(link or ""), *words]
