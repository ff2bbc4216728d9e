"""A private PostgreSQL cluster: created for one purpose, and removed at whatever end.

It listens on a Unix socket in a folder of its own that only its owner and root can enter, and
touches no other server. A keeper process waits for the end of its maker, also by kill -9, so that
nothing is left behind.

Its programs may lie in another root, such as scripts/pg makes: then they run there, and the cluster
is put there as well (server_root.py).

Run by root it trusts nothing that the server's user may write: that user's own child makes, writes
and removes it all (linux/as_user.py).
"""

import os
import re
import secrets
import shlex
import signal
import subprocess
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from ...errors import PgtraceError, UnsupportedError, UsageError
from ...linux import as_user, foreign_files, whose_path
from ...linux.as_user import Ids
from ...postgres import discovery, proc
from ...postgres.connection import Connection
from ...postgres.versions import KNOWN, SUPPORTED
from . import cluster_keeper
from .cluster_keeper import keeper_command
from .server_root import ServerRoot, find_root

if TYPE_CHECKING:
    import psycopg

INSTALLED = ("/usr/lib/postgresql/{}/bin", "/usr/pgsql-{}/bin")
SOCKET_PATH_MAX = 107
WAIT_S = 180
"""Patience with initdb and pg_ctl: an emulated machine is thirty times slower."""

CONNECT_S = 60
"""The server answers by then, unless it is stopped, or another process listens in its place."""
_NOTHING_OF_OURS = {"passfile": "/dev/null/none", "sslmode": "disable", "gssencmode": "disable"}
"""For libpq: no password, certificate or ticket. A passfile that is there would be warned of."""
_REQUIRES_AUTH = 160_000
"""The first libpq with require_auth."""

OWN = Path("/run/pgtrace")
"""Root's own directory: nobody else may write there."""

SAY_INTO = 'log=$1; shift; exec "$@" >>"$log" 2>&1'
"""Run a server whose log its own user opens."""

SIGNALS = {"smart": signal.SIGTERM, "fast": signal.SIGINT, "immediate": signal.SIGQUIT}
_MOST_LOG = 1 << 20


def find_bindir(version: int | None = None) -> Path:
    """Return the folder of a server's binaries: of this major version, or the newest supported."""
    for major in (version,) if version else reversed(SUPPORTED):
        for pattern in INSTALLED:
            bindir = Path(pattern.format(major))
            if (bindir / "postgres").exists() and (bindir / "initdb").exists():
                return bindir
    wanted = str(version) if version else KNOWN
    package = f"postgresql-{version}" if version else "postgresql"
    package_of_pgdg = f"postgresql{version or max(SUPPORTED)}-server"
    raise UnsupportedError(
        f"no PostgreSQL server binaries found (version {wanted}, below /usr/lib/postgresql and "
        f"/usr/pgsql-*): apt-get install {package}, or dnf install {package_of_pgdg}"
    )


_environment = threading.Lock()


@contextmanager
def _without_libpqs_environment() -> Iterator[None]:
    """What libpq is not told otherwise it takes from there: passwords, hosts, services. Our own
    variables begin with PGTRACE_."""
    with _environment:
        names = [n for n in os.environ if n.startswith("PG") and not n.startswith("PGTRACE_")]
        kept = {name: os.environ.pop(name) for name in names}
        try:
            yield
        finally:
            os.environ.update(kept)


class PrivateCluster:
    """Created on entry, removed on exit. Root runs it as `user`, anyone else as themselves.

    In another root it lies below var/lib, or where `directory` says: a directory outside that root
    is shown to the server as a container's volume is. With `pid_namespace` the postmaster is
    process 1 of a namespace of its own, as in a container. `volumes` are further directories that
    the server has to reach, such as those of tablespaces: inside() has its names for them. `waldir`
    is where its WAL goes, a directory that is not there yet; it is not removed with the rest.
    """

    def __init__(
        self,
        settings: Mapping[str, object] | None = None,
        *,
        version: int | None = None,
        bindir: Path | None = None,
        root: Path | None = None,
        directory: Path | None = None,
        port: int = 54321,
        user: str = "postgres",
        pid_namespace: bool = False,
        volumes: Sequence[Path] = (),
        waldir: Path | None = None,
    ) -> None:
        bindir = (bindir or find_bindir(version)).absolute()
        root = (root or find_root(bindir)).absolute()
        user_or_we = user if os.geteuid() == 0 else None
        self._root = ServerRoot(root, user_or_we, volumes)
        self.bindir = self.root / bindir.relative_to(root)
        self.settings = dict(settings or {})
        self.directory = directory
        self.port = port
        self.pid_namespace = pid_namespace
        self.waldir = waldir
        if user_or_we is None and (self._root.is_another or pid_namespace):
            raise UnsupportedError("a server in another root or PID namespace needs root")
        self._place: int | None = None
        """The directory that holds the cluster's, open: its name may lead elsewhere later."""
        self._keeper: subprocess.Popen[bytes] | None = None
        self._server: subprocess.Popen[bytes] | None = None

    @property
    def root(self) -> Path:
        """The root in which its programs run, as seen from here."""
        return self._root.path

    @property
    def base(self) -> Path:
        """The directory that holds all of it."""
        return self._base

    @property
    def datadir(self) -> Path:
        """The data directory, as seen from here."""
        return self._base / "data"

    @property
    def kernel_datadir(self) -> Path:
        """The data directory as /proc/PID/cwd of its processes shows it."""
        return self.root / self._inner.relative_to("/") / "data"

    @property
    def log(self) -> Path:
        """What the server wrote."""
        return self._base / "log"

    @property
    def binary(self) -> Path:
        """The server's executable."""
        return self.bindir / "postgres"

    @property
    def postmaster_pid(self) -> int:
        """The running postmaster's pid, as seen from here."""
        if not self.pid_namespace:
            said = self._lock_file()[0].strip()
            with suppress(OSError):
                if said.isdecimal() and Path(f"/proc/{said}").stat().st_uid == self._uid():
                    return int(said)
            raise PgtraceError(f"the server does not run: no process {said[:20]} is its user's")
        for pid in proc.pids() if self._server else ():
            if self._server and proc.parent(pid) == self._server.pid:
                return pid
        raise PgtraceError("the server does not run")

    def dsn(self, **parameters: object) -> str:
        """Return a connection string, for libpq, psql and psycopg."""
        values = {"host": self.socket_dir, "port": self.port, "user": "postgres"}
        values |= {"dbname": "postgres"} | parameters
        quoted = {k: re.sub(r"(['\\])", r"\\\1", str(v)) for k, v in values.items()}
        return " ".join(f"{k}='{v}'" for k, v in quoted.items())

    def connect(self, **parameters: Any) -> "psycopg.Connection[Any]":
        """Connect with psycopg, in autocommit unless told otherwise.

        Its user may put another socket in the place of the server's. So nothing of ours is given
        away to who listens there, and nobody but the postmaster is asked anything. Raises
        psycopg.Error, and PgtraceError if it is another process.
        """
        import psycopg

        usual = {"autocommit": True, "connect_timeout": CONNECT_S} | _NOTHING_OF_OURS
        if psycopg.pq.version() >= _REQUIRES_AUTH:
            usual["require_auth"] = "none"
        with _without_libpqs_environment():
            connection = psycopg.connect(self.dsn(), **usual | parameters)
        try:
            if Connection(connection).peer_pid() != self.postmaster_pid:
                raise PgtraceError(
                    f"the socket in {self.socket_dir} is another process's, not the server's"
                )
        except BaseException:
            connection.close()
            raise
        return connection

    def __enter__(self) -> Self:
        if self.directory:
            directory = self.directory.absolute()
        else:
            usual = self.root / "var/lib" if self._root.is_another else whose_path.temporary()
            directory = usual.resolve()
        self._place = os.open(directory, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        self._name = f"pgtrace-{secrets.token_hex(4)}"
        try:
            own = as_user.is_roots_own(self._place, directory)
            as_user.make_directory(self.owner(), self._place, self._name, by_root=own)
        except BaseException as error:
            self._release()
            if isinstance(error, PgtraceError):
                raise UsageError(f"no server can be made in {directory}: {error}") from None
            raise
        self._base = Path(f"/proc/self/fd/{self._place}").resolve() / self._name
        self._inner = self._root.show(self._base, self._name)
        self.socket_dir = self._base
        if self._root.is_another and self._too_long(self._base):
            self.socket_dir = OWN / self._name
        try:
            link = self.socket_dir if self.socket_dir != self._base else None
            self._keeper = subprocess.Popen(
                keeper_command(self._name, self.kernel_datadir, self.owner(), own, link),
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
                cwd=f"/proc/self/fd/{self._place}",
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

    def _too_long(self, directory: Path) -> bool:
        return len(os.fsencode(directory / f".s.PGSQL.{self.port}")) > SOCKET_PATH_MAX

    def _create(self) -> None:
        if self._too_long(self._inner) or self._too_long(self.socket_dir):
            raise UsageError(f"{self._base} is too long a path for a Unix socket: name another")
        if self.socket_dir != self._base:
            OWN.mkdir(mode=0o700, exist_ok=True)
            self.socket_dir.symlink_to(self._base)
        self._root.open_volumes()
        self._initdb()
        own = {"listen_addresses": "", "port": self.port}
        own |= {"unix_socket_directories": self._inner}
        if self._root.is_another:  # there /dev/shm is a directory on the disk, or missing
            own |= {"dynamic_shared_memory_type": "mmap"}
        lines = []
        for name, value in (own | self.settings).items():
            text = ("off", "on")[value] if isinstance(value, bool) else str(value)
            lines.append("\n{} = '{}'".format(name, text.replace("'", "''")))
        conf = f"./{self._name}/data/postgresql.conf"
        self._as_owner("sh", "-c", 'cat >>"$1"', "sh", conf, data="".join([*lines, "\n"]))

    def _as_owner(self, *words: str, data: str = "") -> str:
        """Have the server's user do it, in the directory that holds the cluster's."""
        return as_user.run(self.owner(), words, directory=self._place, data=data.encode())

    def _initdb(self) -> None:
        waldir = ("--waldir", self.waldir) if self.waldir else ()
        self.run("initdb", "-D", self.datadir, "-U", "postgres", "-A", "trust", "--no-sync",
                 "--no-instructions", "--locale=C", "--encoding=UTF8", *waldir)  # fmt: skip

    def start(self) -> None:
        """Start the server and wait until it answers."""
        if self.pid_namespace:
            self._start_in_namespace()
        else:
            self._pg_ctl("start", "-l", self.log)

    def stop(self, mode: str = "fast") -> None:
        """Stop the server; the cluster stays until the end."""
        if self.pid_namespace:
            self._stop_in_namespace(mode)
        else:
            self._pg_ctl("stop", "-m", mode)

    def restart(self) -> None:
        """Stop, and start with nothing in shared buffers."""
        self.stop()
        self.start()

    def _pg_ctl(self, *arguments: str | Path) -> None:
        self.run("pg_ctl", *arguments, "-D", self.datadir, "-w", "-t", str(WAIT_S), "-s")

    def _start_in_namespace(self) -> None:
        if self._server and self._server.poll() is None:
            raise PgtraceError("the server runs already")
        # That of a server that was killed
        self._as_owner("rm", "-f", "--", f"./{self._name}/data/postmaster.pid")
        self._server = subprocess.Popen(
            self._command("postgres", "-D", self.datadir, pid_namespace=True),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,  # of what comes before the server, which has its log
            start_new_session=True,
            cwd="/",
        )
        assert self._server.stderr is not None
        os.set_blocking(self._server.stderr.fileno(), False)
        deadline = time.monotonic() + WAIT_S
        while not self._is_ready():
            if self._server.poll() is not None or time.monotonic() > deadline:
                early = (self._server.stderr.read() or b"").decode(errors="replace")
                raise PgtraceError(f"postgres did not start: {early}{self._log_end()}")
            time.sleep(0.02)

    def _is_ready(self) -> bool:
        try:
            return discovery.is_ready(self.datadir, self._uid())
        except FileNotFoundError:
            return False

    def _stop_in_namespace(self, mode: str) -> None:
        pid = self.postmaster_pid
        assert self._server is not None
        os.kill(pid, SIGNALS[mode])
        try:
            self._server.wait(WAIT_S)
        except subprocess.TimeoutExpired:
            raise PgtraceError(f"postgres did not stop: {self._log_end()}") from None

    def inside(self, path: Path) -> Path:
        """Return what the server calls a path of ours, such as one in its data directory."""
        for outer in (self._base, self.socket_dir):
            if path.is_relative_to(outer):
                return self._inner / path.relative_to(outer)
        return self._root.inside(path)

    def command(self, program: str, *arguments: str | Path) -> list[str]:
        """Return the command line that runs one of the server's programs, such as pgbench or psql.

        It connects to this cluster and becomes its user; every step is an exec, so that the pid is
        the program's. Paths among the arguments are ours; strings are passed on as they are.
        """
        if program == "pg_ctl" and self.pid_namespace:
            raise UsageError("pg_ctl would signal our process 1: use start() and stop()")
        return self._command(program, *arguments)

    def _command(
        self, program: str, *arguments: str | Path, pid_namespace: bool = False
    ) -> list[str]:
        words = self._root.entered(pid_namespace=pid_namespace)
        words += ["/usr/bin/env"]
        words += [f"--unset={name}" for name in os.environ if name.startswith(("PG", "LC_"))]
        if self._root.is_another:
            words += ["PATH=/usr/sbin:/usr/bin:/sbin:/bin"]
        words += ["LC_ALL=C", f"PGHOST={self._inner}", f"PGPORT={self.port}"]
        words += ["PGUSER=postgres", "PGDATABASE=postgres"]
        if pid_namespace:
            words += ["sh", "-c", SAY_INTO, "sh", self.inside(self.log)]
        words += [self.inside(self.bindir / program)]
        words += [self.inside(a) if isinstance(a, Path) else a for a in arguments]
        return [str(word) for word in words]

    def run(self, program: str, *arguments: str | Path) -> str:
        """Run one of the server's programs (pgbench, psql) on this cluster; return its output."""
        process = subprocess.Popen(
            self.command(program, *arguments),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
            cwd="/",
        )
        end = time.monotonic() + 2 * WAIT_S  # pg_ctl itself gives up after half of that
        output = ""
        try:
            with suppress(subprocess.TimeoutExpired):
                output = process.communicate(timeout=2 * WAIT_S)[0]
        finally:
            # After Ctrl-C too: a server half started would be missed by the keeper
            in_time = as_user.ended(process, end - time.monotonic())
        if not in_time:
            raise PgtraceError(f"{program} did not end within {2 * WAIT_S} s, and was killed")
        if process.returncode != 0:
            command = shlex.join(map(str, [program, *arguments]))
            said = f"{output}{self._log_end()}".strip()
            raise PgtraceError(f"{command} ended with {process.returncode}: {said}")
        return output

    def _lock_file(self) -> list[str]:
        """What postmaster.pid says, which the server's user may have replaced. Raises OSError."""
        said = foreign_files.read(self.datadir, "postmaster.pid", self._uid())
        return said.decode(errors="replace").split("\n")

    def log_size(self) -> int:
        """Where the log ends. Raises OSError."""
        return foreign_files.status(self._base, "log", self._uid()).st_size

    def logged_since(self, begin: int) -> str:
        """What was written there since, as far as 1 MiB goes. Raises OSError."""
        said = foreign_files.read(self._base, "log", self._uid(), _MOST_LOG, begin)
        return said.decode(errors="replace")

    def _log_end(self) -> str:
        with suppress(PgtraceError):
            return self._as_owner("timeout", "10", "tail", "-c", "2000", f"./{self._name}/log")
        return ""

    def owner(self) -> Ids | None:
        """Whose files they are, as seen from here; None if they are our own."""
        return self._root.owner()

    def _uid(self) -> int:
        """Of its files and processes, as seen from here: in a user namespace it has another."""
        owner = self.owner()
        return os.geteuid() if owner is None else owner[0]

    def ids(self) -> tuple[int, int]:
        """User and group id that the server runs as. Raises UnsupportedError if there is none."""
        return self._root.ids()

    def close(self) -> None:
        """End the server at once and remove the cluster. Does nothing the second time."""
        if self._keeper is None:
            return
        keeper, self._keeper = self._keeper, None
        assert keeper.stdin is not None
        keeper.stdin.close()
        assert self._place is not None
        try:
            cluster_keeper.wait(keeper, self._base, self._place)
        finally:
            if self._server:
                self._server.kill()  # one so young that it did not work in the data directory yet
                self._server.wait()
            self._release()

    def _release(self) -> None:
        self._root.close()
        if self._place is not None:
            os.close(self._place)
            self._place = None
