"""The table: each row fills a page, so that rows, blocks and reads are one number."""

from pathlib import Path
from typing import TYPE_CHECKING

from ...errors import UnsupportedError
from ...postgres import proc
from ...postgres.versions import major_of
from ..core.benchmark_table import Shape, pieces
from ..core.page_cache import relation_files
from ..core.private_cluster import PrivateCluster
from ..core.private_server import LabServer
from ..core.tables import Table, Told

if TYPE_CHECKING:
    from typing import Any

    import psycopg

NAME = "t"
ROWS = 65_000
SCAN = f"select * from {NAME}"
PREWARM = f"select public.pg_prewarm('{NAME}')"
SHAPE = Shape("120 ^ 12345::numeric", 8192)
"""A number of 25,668 digits: 6.6 kB as it is stored, its zeros at the end left out."""
EXTENSIONS = ("share/extension", "share/postgresql/extension")
"""From the folder above the programs: of pgdg's RPMs, and of what was built from source."""
DISTRIBUTIONS = ("usr/share/postgresql/{}/extension", "usr/share/pgsql/extension")
"""From the root: Debian's, and Fedora's own."""


def check_prewarm(cluster: PrivateCluster) -> None:
    """Raise UnsupportedError if the server's extensions are there, and pg_prewarm is not."""
    major = major_of(proc.version_of(cluster.binary))
    folders = [cluster.bindir.parent / name for name in EXTENSIONS]
    folders += [cluster.root / name.format(major) for name in DISTRIBUTIONS]
    there = [folder for folder in folders if (folder / "plpgsql.control").is_file()]
    if there and not any((folder / "pg_prewarm.control").is_file() for folder in there):
        raise _missing(major, there[0])


def load(server: LabServer, storage: str, rows: int, shape: Shape, told: Told) -> Table:
    """Make it in the storage's tablespace. Raises UnsupportedError without pg_prewarm."""
    space = server.spaces[storage]
    options = f"-c search_path={space.schema},pg_catalog -c default_tablespace={space.tablespace}"
    with server.connect(options) as connection:
        _prewarm(connection)
        with connection.transaction():
            connection.execute(f"create table {NAME} (id numeric)")
            connection.execute(f"alter table {NAME} alter column id set storage plain")
            for piece in pieces(rows, 1000):
                told(piece.start - 1)
                connection.execute(
                    f"insert into {NAME} select {shape.info} from generate_series(1, %s::int8)",
                    (len(piece),),
                )
        connection.execute(f"vacuum (freeze, analyze) {NAME}")
        connection.execute("checkpoint")
        files = relation_files(server.datadir, connection, NAME, space.location)
        row = connection.execute(f"select pg_relation_filepath('{NAME}')").fetchone()
        assert row
        return Table(storage, space, files, {row[0]: ("heap", NAME)})


def _prewarm(connection: "psycopg.Connection[Any]") -> None:
    from psycopg import errors

    try:
        connection.execute("create extension if not exists pg_prewarm schema public")
    except (errors.UndefinedFile, errors.FeatureNotSupported):
        raise _missing(connection.info.server_version // 10_000, None) from None


def _missing(major: int | None, folder: Path | None) -> UnsupportedError:
    where = f": there is no pg_prewarm.control in {folder}" if folder else ""
    number = major or "NN"
    return UnsupportedError(
        f"pg_prewarm is not installed{where}; it comes with PostgreSQL's additional modules: "
        f"apt-get install --reinstall postgresql-{number} (Debian has them in it; "
        f"postgresql-contrib in older releases), or dnf install postgresql{number}-contrib"
    )
