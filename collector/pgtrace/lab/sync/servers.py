"""The two servers that are compared: each a cluster of its own, of which one runs at a time.

Both begin with the same settings; those of its own each server gets by ALTER SYSTEM, so that what
it does not know, or does not take, it says itself.
"""

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...errors import PgtraceError, UnsupportedError, UsageError
from ...model.capture import Server
from ...postgres import proc
from ...postgres.versions import too_old
from ..core import storages
from ..core.private_cluster import PrivateCluster
from ..core.private_server import check_private, identity, show
from ..core.storages import Place
from ..core.undo_log import Changes, Cluster

if TYPE_CHECKING:
    import psycopg

SETTINGS: Mapping[str, object] = {
    # as published, scaled down with the tables; what is not named is the server's default
    "shared_buffers": "128MB",
    "bgwriter_delay": "200ms",
    "fsync": True,
    "synchronous_commit": True,
    "full_page_writes": True,
    "wal_buffers": "16MB",
    # checkpoints are those of the experiment, and vacuum is not a part of its work
    "checkpoint_timeout": "1d",
    "max_wal_size": "16GB",
    "autovacuum": False,
    "log_checkpoints": True,
}
_PROGRAMS = ("postgres", "initdb", "pg_ctl", "pgbench")
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,9}")
_OURS = frozenset({"port", "listen_addresses", "unix_socket_directories", "log_checkpoints"})
_ALIKE = ("block_size", "wal_block_size", "wal_segment_size", "segment_size")
_OF_THE_CLUSTER = (
    "%directory%", "%_file", "server_version%", "unix_socket_%", "TimeZone", "log_timezone",
    "lc_%", "%_preset", "application_name", "in_hot_standby", "shared_memory%", "huge_pages%",
    "num_os_semaphores",
)  # fmt: skip


@dataclass(frozen=True)
class ServerSpec:
    """What `--server` says."""

    name: str
    bindir: Path
    settings: Mapping[str, str] = field(default_factory=dict)


def parse(text: str) -> ServerSpec:
    """`NAME=BINDIR[,setting=value…]`. Raises UsageError."""
    name, equals, rest = text.partition("=")
    bindir, *pieces = rest.split(",")
    if not equals or not bindir:
        raise UsageError(
            f"--server {text}: say it as in --server A=/usr/lib/postgresql/15/bin,fsync=off"
        )
    if not _NAME.fullmatch(name):
        raise UsageError(f"--server {text}: a name has up to 10 letters, digits and _")
    settings: dict[str, str] = {}
    last = None
    for piece in pieces:
        setting, equals, value = piece.partition("=")
        if not equals and last is not None:  # a list is a value with commas
            settings[last] += f",{piece}"
            continue
        last = setting.strip().lower()
        if not equals or not last:
            raise UsageError(f"--server {name}: {piece!r} is no setting=value")
        if last in settings:
            raise UsageError(f"--server {name}: {last} is set twice; leave one out")
        if last in _OURS:
            raise UsageError(f"--server {name}: {last} is set by pgtrace itself; leave it out")
        settings[last] = value
    return ServerSpec(name, Path(bindir), settings)


def check(asked: Sequence[ServerSpec], user: str) -> list[PrivateCluster]:
    """Refuse what cannot be run, before anything is made; return what tells of each server.

    Raises UsageError for two of one name, UnsupportedError for what is no PostgreSQL.
    """
    if len(asked) != 2:
        raise UsageError(
            f"two servers are compared, {len(asked)} {'is' if len(asked) == 1 else 'are'} named: "
            "--server A=BINDIR --server B=BINDIR,fsync=off"
        )
    if asked[0].name == asked[1].name:
        raise UsageError(f"two servers are named {asked[0].name}: give each a name of its own")
    found = []
    for each in asked:
        option = f"--server {each.name}:"
        cluster = check_private(each.bindir, user, option=option, programs=_PROGRAMS)
        version = _version(cluster.binary)
        if version is None:
            raise UnsupportedError(
                f"{option} {cluster.binary} is not PostgreSQL; name the folder of a server's "
                "programs, such as /usr/lib/postgresql/15/bin"
            )
        if reason := too_old(version):
            raise UnsupportedError(f"{option} {reason}")
        found.append(cluster)
    return found


def _version(binary: Path) -> str | None:
    try:
        return proc.version_of(binary)
    except (OSError, ValueError):
        return None


@dataclass
class SyncServer:
    """One of them; between its turns it is stopped."""

    asked: ServerSpec
    cluster: PrivateCluster

    @property
    def name(self) -> str:
        """As it was asked for."""
        return self.asked.name

    @property
    def directories(self) -> dict[str, Path]:
        """Where its WAL and its data lie, by what is there."""
        data = self.cluster.datadir
        return {"wal": (data / "pg_wal").resolve(), "data": data}

    def start(self) -> None:
        """Its turn begins: with nothing in shared buffers."""
        self.cluster.start()

    def connect(self) -> "psycopg.Connection[Any]":
        """In autocommit."""
        return self.cluster.connect()

    def identity(self) -> Server:
        """What a result says of it, while it runs."""
        with self.connect() as connection:
            return identity(connection, self.cluster.postmaster_pid, self.cluster.datadir)

    def settings(self) -> dict[str, str]:
        """All that it was not told by its place, in its own words."""
        with self.connect() as connection:
            rows = connection.execute(
                "select name, setting from pg_settings where not name like any (%s)",
                (list(_OF_THE_CLUSTER),),
            )
            return dict(rows.fetchall())

    def set(self) -> None:
        """Give it its own settings. Raises UsageError with what it says of them."""
        import psycopg
        from psycopg import sql

        with self.connect() as connection:
            for name, value in self.asked.settings.items():
                statement = sql.SQL("alter system set {} = {}")
                names = [sql.Identifier(part) for part in name.split(".")]
                try:
                    connection.execute(
                        statement.format(sql.SQL(".").join(names), sql.Literal(value))
                    )
                except psycopg.Error as error:
                    said = ", ".join(
                        part
                        for part in (error.diag.message_primary, error.diag.message_hint)
                        if part
                    )
                    raise UsageError(f"--server {self.name}: {name}={value}: {said}") from error

    def try_settings(self) -> None:
        """Start it once with those that count from then on. Raises UsageError if it does not."""
        if not self.asked.settings:
            return
        try:
            self.cluster.start()
        except PgtraceError as error:
            own = ", ".join(f"{name}={value}" for name, value in self.asked.settings.items())
            said = re.findall(r"FATAL:  (.*)", str(error)) or [str(error)]
            raise UsageError(
                f"--server {self.name}: it does not start with {own}: {said[-1]}"
            ) from error
        self.cluster.stop()


@contextmanager
def servers(
    asked: Sequence[ServerSpec],
    places: Mapping[str, Place],
    *,
    changes: Changes,
    user: str,
) -> Iterator[list[SyncServer]]:
    """Make both, for the block; `places` are for `data` and, if that is another, for `wal`.

    Raises UsageError if a setting cannot be, or if the two cannot be compared.
    """
    with ExitStack() as stack:
        made = []
        for each in asked:
            ids = check_private(each.bindir, user).ids()
            own = {
                what: _directory(changes, place, each.name, ids) for what, place in places.items()
            }
            waldir = own["wal"] / "pg_wal" if "wal" in own else None
            cluster = PrivateCluster(
                SETTINGS,
                bindir=each.bindir,
                directory=own["data"],
                user=user,
                volumes=[own["wal"]] if waldir else [],
                waldir=waldir,
            )
            stack.enter_context(_private(cluster, changes))
            made.append(SyncServer(each, cluster))
        for one in made:
            one.set()
        _check_alike(made)
        for one in made:
            one.cluster.stop()
            one.try_settings()
        yield made


def _directory(changes: Changes, place: Place, name: str, ids: tuple[int, int]) -> Path:
    directory = place.directory / f"pgtrace-lab-{os.getpid()}-{name}"
    storages.make_directory(changes, directory, ids)
    return directory


@contextmanager
def _private(cluster: PrivateCluster, changes: Changes) -> Iterator[None]:
    cluster.__enter__()
    try:
        changes.will(Cluster.of(cluster))
        yield
    finally:
        cluster.close()


def _check_alike(made: Sequence[SyncServer]) -> None:
    found = []
    for one in made:
        with one.connect() as connection:
            found.append({setting: show(connection, setting) for setting in _ALIKE})
    for setting in _ALIKE:
        ours, theirs = (each[setting] for each in found)
        if ours != theirs:
            raise UsageError(
                f"--server {made[0].name} and {made[1].name} cannot be compared: their "
                f"{setting} are {ours} and {theirs}, so that one writes more for the same work; "
                "name two that agree in it"
            )


def differences(settings: Mapping[str, Mapping[str, str]]) -> dict[str, dict[str, str]]:
    """Settings in which they differ, whoever set them; those that one alone has are left out."""
    one, other = settings.values()
    return {
        name: {server: values[name] for server, values in settings.items()}
        for name in sorted(one.keys() & other.keys())
        if one[name] != other[name]
    }


def check_places(places: Mapping[str, Place], clusters: Sequence[PrivateCluster], user: str,
                 size: int) -> None:  # fmt: skip
    """Raise UsageError if a directory cannot be used, or holds too little for both servers."""
    storages.check_apart(list(places.values()))
    for what, place in places.items():
        if place.medium != "device":
            raise UsageError(
                f"--{what}-storage {place.name}: {place.directory} is memory (tmpfs), where "
                "nothing is made to last; name one on a device"
            )
        for cluster in clusters:
            storages.check_usable(place, cluster.ids(), user, f"--{what}-storage")
    try:
        storages.check_room([(place, size) for place in places.values()])
    except UsageError as error:
        said = str(error).replace("--rows", "--rows or --transactions")
        raise UsageError(said) from None
