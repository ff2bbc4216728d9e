"""What a run changes outside of itself, written down before it is done, and undone at any end.

The list is a file below /run/pgtrace, for root alone. A normal end, Ctrl-C and an error undo it and
remove it; after kill -9 `pgtrace lab restore` does. What was not done, or was undone already, is
passed over, so that undoing twice is harmless. Settings go first, as nobody can hold them up.

It does not outlive the host, on purpose: then a device of that name may be another one, and a
directory be on another disk, or on none.
"""

import os
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from types import TracebackType, UnionType
from typing import Self

import msgspec

from ...errors import PgtraceError, UsageError
from ...linux import as_user
from ...postgres import proc
from ...postgres.connection import APPLICATION_NAME, OWN_PATH, TIMEOUT_S, Connection
from .cluster_keeper import remove as remove_cluster
from .private_cluster import OWN, PrivateCluster

FOLDER = OWN
_NAMES = "lab-*.json"
_STATEMENT_S = 600
"""Patience with a server: to drop may take a checkpoint, and locks that others have."""


class Cluster(msgspec.Struct, tag="cluster", frozen=True):
    """A private server: its keeper removes it, unless that was killed as well."""

    base: str
    data: str
    socket_directory: str
    uid: int
    gid: int
    """Of its user, who removes it."""

    @classmethod
    def of(cls, cluster: PrivateCluster) -> "Cluster":
        """One that is there."""
        base, data, socket = cluster.base, cluster.kernel_datadir, cluster.socket_dir
        return cls(str(base), str(data), str(socket), *cluster.ids())

    def __str__(self) -> str:
        return f"removing the server in {self.base}"

    def undo(self) -> str | None:
        """Return what was done, None if nothing had to be."""
        base, ids = Path(self.base), (self.uid, self.gid)
        there = base.exists()
        try:
            # Removed by its keeper or not: that may be ending a server that was just started
            remove_cluster(base, Path(self.data), Path(self.socket_directory), ids)
        except FileNotFoundError:
            return None
        return f"removed the server in {self.base}" if there else None


class Directory(msgspec.Struct, tag="directory", frozen=True):
    """A directory that is made."""

    path: str
    uid: int
    gid: int
    """Of the user whom it belongs to, and who removes it."""

    def __str__(self) -> str:
        return f"removing {self.path}"

    def undo(self) -> str | None:
        """As of Cluster."""
        path = Path(self.path)
        try:
            with as_user.opened(path.parent) as parent:
                if not as_user.exists(parent, path.name):
                    return None
                own = as_user.is_roots_own(parent, path.parent)
                as_user.remove_tree((self.uid, self.gid), parent, path.name, by_root=own)
        except FileNotFoundError:
            return None
        return f"removed {self.path}"


class Setting(msgspec.Struct, tag="setting", frozen=True):
    """A file of /sys or /proc that is written to; `value` is what it held."""

    path: str
    value: str

    def __str__(self) -> str:
        return f"setting {self.path} to {self.value.strip()}"

    def undo(self) -> str | None:
        """As of Cluster."""
        file = Path(self.path)
        if not file.exists() or file.read_text().strip() == self.value.strip():
            return None
        file.write_text(self.value)
        return f"set {self.path} to {self.value.strip()} again"


class Statement(msgspec.Struct, tag="statement", frozen=True):
    """Something made in a database: what drops it, and a query that has rows while it is there.

    The connection string holds no password: that comes from libpq's environment again.
    """

    conninfo: str
    present: str
    drop: str

    def __str__(self) -> str:
        return f"{self.drop} ({self.conninfo})"

    def undo(self) -> str | None:
        """As of Cluster. Raises psycopg.Error if the database cannot be reached."""
        import psycopg

        with (
            psycopg.connect(
                self.conninfo,
                autocommit=True,
                options=OWN_PATH,
                application_name=APPLICATION_NAME,
                connect_timeout=TIMEOUT_S,
            ) as connection,
            Connection(connection).given_up_after(_STATEMENT_S),
        ):
            if not connection.execute(self.present.encode()).fetchall():
                return None
            connection.execute(self.drop.encode())
        return f"did {self}"


Change = Cluster | Directory | Setting | Statement


class _Document(msgspec.Struct):
    pid: int
    start_time_ticks: int
    """Of the process that makes the changes: tells whether it is still at work."""
    changes: list[Change] = []


class Changes:
    """Those of this process; undone, the last one first, when the block is left."""

    def __init__(self, folder: Path = FOLDER) -> None:
        self._folder = folder
        self._file = folder / f"lab-{os.getpid()}.json"
        own = proc.process(os.getpid())
        self._document = _Document(own.pid, own.start_time_ticks)

    def will(self, change: Change) -> None:
        """Write down what is about to be changed."""
        self._document.changes.append(change)
        _write(self._file, self._document)

    def once(self, setting: Setting) -> None:
        """The same for a setting that is changed again and again: its first value comes back."""
        paths = {each.path for each in self._document.changes if isinstance(each, Setting)}
        if setting.path not in paths:
            self.will(setting)

    def undo_settings(self) -> None:
        """Those alone: a device is not to wait for what others, such as a server's user, can hold
        up. What fails is tried again at the end.
        """
        with suppress(PgtraceError):
            for _ in _undo(self._file, self._document, Setting):
                pass

    def __enter__(self) -> Self:
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for _ in _undo(self._file, self._document):
            pass


def restore(folder: Path = FOLDER) -> Iterator[str]:
    """Undo what runs left that were killed, and say what was done: settings of all of them first.

    Raises, once the others are done, PgtraceError for what cannot be undone, a line for each run,
    and UsageError if one is still at work.
    """
    for file in sorted(folder.glob(_NAMES)):
        with suppress(
            OSError, msgspec.DecodeError, PgtraceError
        ):  # what fails, does so again below
            document = _read(file)
            if not proc.runs(document.pid, document.start_time_ticks):
                yield from _undo(file, document, Setting)
    alive, failed = [], []
    for file in sorted(folder.glob(_NAMES)):
        try:
            document = _read(file)
        except FileNotFoundError:
            continue  # its run has just ended
        except (OSError, msgspec.DecodeError) as error:
            failed.append(f"{file} cannot be read: {error}; look at it, and remove it")
            continue
        if proc.runs(document.pid, document.start_time_ticks):
            alive.append(document.pid)
            continue
        try:
            yield from _undo(file, document)
        except (OSError, PgtraceError) as error:
            failed.append(str(error))
    if failed:
        raise PgtraceError("\n".join(failed))
    if alive:
        raise UsageError(
            f"process {alive[0]} is still at work, and restores everything itself: "
            f"end it by kill -INT {alive[0]}"
        )


def _undo(
    file: Path, document: _Document, kind: type[Change] | UnionType = Change
) -> Iterator[str]:
    """Undo all of a kind that can be; what failed stays in the file, and is raised at the end."""
    failed: list[tuple[Change, Exception]] = []
    others = [change for change in document.changes if not isinstance(change, kind)]
    for change in reversed([each for each in document.changes if isinstance(each, kind)]):
        if failed and isinstance(change, Directory):
            failed.append((change, PgtraceError("what uses it is still there")))
            continue
        try:
            done = change.undo()
        except Exception as error:
            failed.append((change, error))
            continue
        if done:
            yield done
    document.changes = [*others, *(change for change, _ in reversed(failed))]
    if not document.changes:
        file.unlink(missing_ok=True)
        return
    _write(file, document)
    if not failed:
        return
    change, reason = failed[0]
    raise PgtraceError(
        f"{change} failed: {str(reason).splitlines()[0]}; mend that, then `pgtrace lab restore` "
        f"tries again ({file})"
    )


def _read(file: Path) -> _Document:
    return msgspec.json.decode(file.read_bytes(), type=_Document)


def _write(file: Path, document: _Document) -> None:
    handle, temporary = tempfile.mkstemp(prefix=".lab-", dir=file.parent)
    with os.fdopen(handle, "wb") as stream:
        stream.write(msgspec.json.encode(document))
    Path(temporary).replace(file)
