"""The root in which a private server's programs run, as whom, and which directories of ours are
shown to them there.

Where mounts are needed they are in a namespace that ends with the program.
"""

import os
import pwd
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from ...errors import UnsupportedError, UsageError
from ...linux import as_user, foreign_files
from ...linux.as_user import Ids

VOLUMES = """
root=$1 left=$2
shift 2
mount -t tmpfs -o mode=0755 tmpfs "$root/mnt"
while [ "$left" -gt 0 ]; do
    cd -P -- "$1"
    if [ "$(stat -c %d:%i .)" != "$2" ]; then
        echo "$1 is another directory by now" >&2
        exit 1
    fi
    mkdir "$root$3"
    mount -c --bind . "$root$3"
    shift 3
    left=$((left - 1))
done
cd /
exec "$@"
"""
"""Show directories in another root, whose own /mnt stays empty. In a mount namespace. Each
is the one that it was (its device and inode), whatever its name leads to (-c: `.` and no name)."""

_MOST_ACCOUNTS = 1 << 20


def find_root(bindir: Path) -> Path:
    """Return the root of the system that these programs belong to."""
    return next((up for up in bindir.parents if (up / "etc/os-release").exists()), Path("/"))


class ServerRoot:
    """`user` is None where programs run as we do."""

    def __init__(self, path: Path, user: str | None, volumes: Sequence[Path]) -> None:
        """`volumes` are shown there, but for those that lie in it."""
        self.path = path.resolve()
        self._user = user
        outside = [v.resolve() for v in volumes if not v.resolve().is_relative_to(self.path)]
        self._volumes = {volume: Path(f"/mnt/volume-{n}") for n, volume in enumerate(outside)}
        self._opened: dict[Path, int] = {}
        """The volumes, open: their names may lead elsewhere later."""

    @property
    def is_another(self) -> bool:
        """Whether it is not our own."""
        return self.path != Path("/")

    def show(self, directory: Path, name: str) -> Path:
        """Return what a directory of ours is called in it, which from now on is a volume, too, if
        it lies elsewhere.
        """
        if directory.is_relative_to(self.path):
            return Path("/") / directory.relative_to(self.path)
        self._volumes[directory] = Path("/mnt") / name
        return self._volumes[directory]

    def inside(self, path: Path) -> Path:
        """Return what its programs call a path of ours."""
        for outer, inner in (self._volumes | {self.path: Path("/")}).items():
            if path.is_relative_to(outer):
                return inner / path.relative_to(outer)
        return path

    def open_volumes(self) -> None:
        """Hold those that are there now. Raises UsageError if one is not the user's own: the server
        shall see nothing by it that its user could not see.
        """
        flags = os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
        for volume in self._volumes:
            self._opened[volume] = descriptor = os.open(volume, flags)
            if os.fstat(descriptor).st_uid != self.ids()[0]:
                raise UsageError(f"{volume} does not belong to the server's user {self._user}")

    def entered(self, *, pid_namespace: bool) -> list[str | Path]:
        """Return the words before a command that is to run there, as that user; every step is an
        exec but for that into a PID namespace.
        """
        words: list[str | Path] = [*as_user.NO_NEW_PRIVILEGES, "--"] if self._user else []
        # What the host unmounts meanwhile is not to be held there
        slave = ("--propagation", "slave")
        if pid_namespace:
            words += ["unshare", "--pid", "--fork", "--kill-child", *slave]
            words += [f"--mount-proc={self.path / 'proc'}"]
        elif self._volumes:
            words += ["unshare", "--mount", *slave]
        if self._volumes:
            words += ["sh", "-ec", VOLUMES, "sh", self.path, str(len(self._volumes))]
            for volume, inner in self._volumes.items():
                status = os.fstat(self._opened[volume])
                words += [volume, f"{status.st_dev}:{status.st_ino}", inner]
        if self._user:
            uid, gid = self.ids()
            words += ["chroot", f"--userspec=+{uid}:+{gid}", "--groups=", self.path]
        return words

    def owner(self) -> Ids | None:
        """Whose files they are, as seen from here; None if they are our own."""
        return self.ids() if self._user else None

    def ids(self) -> tuple[int, int]:
        """User and group id that programs run as. Raises UnsupportedError if there is none."""
        if self._user is None:
            return os.geteuid(), os.getegid()
        if self.is_another:
            owner = self.path.stat().st_uid
            accounts = foreign_files.read(self.path / "etc", "passwd", owner, _MOST_ACCOUNTS)
            for line in accounts.decode(errors="replace").splitlines():
                name, _, uid, gid, *_ = [*line.split(":"), "", "", "", ""]
                if name == self._user and uid.isdecimal() and gid.isdecimal():
                    return int(uid), int(gid)
        else:
            with suppress(KeyError):
                user = pwd.getpwnam(str(self._user))
                return user.pw_uid, user.pw_gid
        raise UnsupportedError(
            f"no user {self._user}, and PostgreSQL refuses root: apt-get install postgresql"
        )

    def close(self) -> None:
        """Hold no volume any more."""
        for descriptor in self._opened.values():
            os.close(descriptor)
        self._opened.clear()
