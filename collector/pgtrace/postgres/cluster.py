"""A private PostgreSQL cluster: created for one purpose, and removed at whatever end.

It listens on a Unix socket in a folder of its own that only its owner and root can enter, and
touches no other server. A keeper process waits for the end of its maker, also by kill -9, so that
nothing is left behind.
"""

import glob
import os
import re
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from ..errors import PgtraceError, UnsupportedError, UsageError

if TYPE_CHECKING:
    import psycopg

SUPPORTED = range(14, 19)
INSTALLED = ("/usr/lib/postgresql/{}/bin", "/usr/pgsql-{}/bin")
SOCKET_PATH_MAX = 107
WAIT_S = 180
"""Patience with initdb and pg_ctl: an emulated machine is thirty times slower."""

KEEPER = r"""
cat >/dev/null
send() {
    find /proc -maxdepth 2 -name cwd \( -lname "$2" -o -lname "$2 (deleted)" \) 2>/dev/null |
        while read -r cwd; do kill -"$1" "${cwd//[!0-9]/}" 2>/dev/null && echo alive; done
}
n=0
while [ -n "$(send "$([ $n -lt 100 ] && echo QUIT || echo KILL)" "$2")" ] && [ $n -lt 200 ]; do
    n=$((n + 1)); sleep 0.1
done
rm -rf -- "$1"
"""
"""Wait for the maker's end of the pipe to close; end every process that works in the data
directory (SIGQUIT is PostgreSQL's immediate shutdown; found by their working directory, which
also finds a backend whose postmaster was killed, or whose data went first); remove everything."""


def find_bindir(version: int | None = None) -> Path:
    """Return the folder of a server's binaries: of this major version, or the newest supported."""
    for major in (version,) if version else reversed(SUPPORTED):
        for pattern in INSTALLED:
            bindir = Path(pattern.format(major))
            if (bindir / "postgres").exists() and (bindir / "initdb").exists():
                return bindir
    wanted = str(version) if version else f"{SUPPORTED[0]} to {SUPPORTED[-1]}"
    package = f"postgresql-{version}" if version else "postgresql"
    raise UnsupportedError(
        f"no PostgreSQL server binaries found (version {wanted}, below /usr/lib/postgresql): "
        f"apt-get install {package}"
    )


class PrivateCluster:
    """Created on entry, removed on exit. Root runs it as `user`, anyone else as themselves."""

    def __init__(
        self,
        settings: Mapping[str, object] | None = None,
        *,
        version: int | None = None,
        bindir: Path | None = None,
        directory: Path | None = None,
        port: int = 54321,
        user: str = "postgres",
    ) -> None:
        self.bindir = bindir or find_bindir(version)
        self.settings = dict(settings or {})
        self.directory = directory
        self.port = port
        self._user = user if os.geteuid() == 0 else None
        self._keeper: subprocess.Popen[bytes] | None = None

    @property
    def datadir(self) -> Path:
        """The data directory."""
        return self.socket_dir / "data"

    @property
    def log(self) -> Path:
        """What the server wrote."""
        return self.socket_dir / "log"

    @property
    def binary(self) -> Path:
        """The server's executable."""
        return self.bindir / "postgres"

    @property
    def postmaster_pid(self) -> int:
        """The running postmaster's pid."""
        return int((self.datadir / "postmaster.pid").read_text().split()[0])

    def dsn(self, **parameters: object) -> str:
        """Return a connection string, for libpq, psql and psycopg."""
        values = {"host": self.socket_dir, "port": self.port, "user": "postgres"}
        values |= {"dbname": "postgres"} | parameters
        quoted = {k: re.sub(r"(['\\])", r"\\\1", str(v)) for k, v in values.items()}
        return " ".join(f"{k}='{v}'" for k, v in quoted.items())

    def connect(self, **parameters: Any) -> "psycopg.Connection[Any]":
        """Connect with psycopg, in autocommit unless told otherwise."""
        import psycopg

        return psycopg.connect(self.dsn(), **{"autocommit": True} | parameters)

    def __enter__(self) -> Self:
        base = (self.directory or Path(tempfile.gettempdir())).absolute()
        self.socket_dir = Path(tempfile.mkdtemp(prefix="pgtrace-", dir=base)).resolve()
        try:
            data = glob.escape(str(self.datadir))
            self._keeper = subprocess.Popen(
                ["bash", "-c", KEEPER, "pgtrace-keeper", self.socket_dir, data],
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
                cwd="/",
            )
            self._create()
            self.start()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _create(self) -> None:
        if len(str(self.socket_dir / f".s.PGSQL.{self.port}")) > SOCKET_PATH_MAX:
            raise UsageError(
                f"{self.socket_dir} is too long a path for a Unix socket: name another"
            )
        if self._user:
            try:
                shutil.chown(self.socket_dir, self._user)
            except LookupError:
                raise UnsupportedError(
                    f"no user {self._user}, and PostgreSQL refuses root: apt-get install postgresql"
                ) from None
        self.run("initdb", "-D", self.datadir, "-U", "postgres", "-A", "trust", "--no-sync",
                 "--no-instructions", "--locale=C", "--encoding=UTF8")  # fmt: skip
        own = {"listen_addresses": "", "port": self.port}
        own |= {"unix_socket_directories": self.socket_dir}
        with (self.datadir / "postgresql.conf").open("a") as conf:
            for name, value in (own | self.settings).items():
                text = ("off", "on")[value] if isinstance(value, bool) else str(value)
                conf.write("\n{} = '{}'".format(name, text.replace("'", "''")))
            conf.write("\n")

    def start(self) -> None:
        """Start the server and wait until it answers."""
        self._pg_ctl("start", "-l", self.log)

    def stop(self, mode: str = "fast") -> None:
        """Stop the server; the cluster stays until the end."""
        self._pg_ctl("stop", "-m", mode)

    def restart(self) -> None:
        """Stop, and start with nothing in shared buffers."""
        self._pg_ctl("restart", "-m", "fast", "-l", self.log)

    def _pg_ctl(self, *arguments: str | Path) -> None:
        self.run("pg_ctl", *arguments, "-D", self.datadir, "-w", "-t", str(WAIT_S), "-s")

    def run(self, program: str, *arguments: str | Path) -> str:
        """Run one of the server's programs (pgbench, psql) on this cluster; return its output."""
        environment = {k: v for k, v in os.environ.items() if not k.startswith(("PG", "LC_"))}
        environment |= {"LC_ALL": "C", "PGHOST": str(self.socket_dir), "PGPORT": str(self.port)}
        environment |= {"PGUSER": "postgres", "PGDATABASE": "postgres"}
        process = subprocess.Popen(
            [self.bindir / program, *arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env=environment,
            cwd="/",
            user=self._user,
            group=self._user,
            extra_groups=[] if self._user else None,
            start_new_session=True,
        )
        try:
            output = process.communicate()[0]
        finally:
            process.wait()  # after Ctrl-C too: a server half started would be missed by the keeper
        if process.returncode != 0:
            said = output + (self.log.read_text()[-2000:] if self.log.exists() else "")
            command = shlex.join(map(str, [program, *arguments]))
            raise PgtraceError(f"{command} ended with {process.returncode}: {said.strip()}")
        return output

    def close(self) -> None:
        """End the server at once and remove the cluster. Does nothing the second time."""
        if self._keeper is None:
            return
        keeper, self._keeper = self._keeper, None
        assert keeper.stdin is not None
        keeper.stdin.close()
        keeper.wait()
        if self.socket_dir.exists():
            raise PgtraceError(f"could not remove {self.socket_dir}")
