"""The table of the planner's sweep: one heap, and three columns in different orders of it.

Fillfactor 10, as in Tomas Vondra, "The real cost of random I/O" (2026): few rows to a page, so that
pages are what a scan costs. Each column holds every number from 1 to the number of rows once.
"""

import os
from random import Random
from typing import TYPE_CHECKING, Any

from ..core.page_cache import opened, relation_files, residency
from ..core.private_server import LabServer
from ..core.tables import Table

if TYPE_CHECKING:
    import psycopg

NAME = "tbl_planner"
MOST_ROWS = 360_000
ROWS_TO_A_PAGE = 18
ROW_BYTES = 8192 // ROWS_TO_A_PAGE + 3 * 24
"""Of heap and indexes, rounded up."""
OTHER = {"scattered": "ordered", "partly": "ordered", "ordered": "scattered"}
"""The columns, and for each another one, so that the heap has to be read."""
_CHUNK_PAGES = 64
_FILL = f"""
insert into {NAME}
select i, row_number() over (order by i + random() * %(rows)s / 2), row_number() over (order by r)
from (select i, random() as r from generate_series(1, %(rows)s) as i) as drawn order by i
"""


def load(server: LabServer, storage: str, rows: int) -> Table:
    """Make it in the storage's tablespace."""
    space = server.spaces[storage]
    options = f"-c search_path={space.schema},pg_catalog -c default_tablespace={space.tablespace}"
    with server.connect(options) as connection:
        with connection.transaction():
            connection.execute(
                f"create table {NAME} (ordered int, partly int, scattered int)"
                " with (fillfactor = 10)"
            )
            connection.execute("select setseed(0.002)")
            connection.execute(_FILL, {"rows": rows})
            for column in OTHER:
                connection.execute(f"create index {NAME}_{column} on {NAME} ({column})")
        connection.execute(f"vacuum (freeze, analyze) {NAME}")
        connection.execute("checkpoint")
        files = relation_files(server.datadir, connection, NAME, space.location)
        return Table(storage, space, files, {})


def query(column: str, rows: int, wanted: int, begin: int) -> str:
    """One that finds `wanted` of the rows, from `begin` on; it has to look at each."""
    begin = min(begin, rows - wanted + 1)
    return (
        f"select count({OTHER[column]}) from {NAME} "
        f"where {column} between {begin} and {begin + wanted - 1}"
    )


def correlations(connection: "psycopg.Connection[Any]") -> dict[str, float]:
    """Of each column with the order of the heap, as the planner knows it."""
    rows = connection.execute(
        "select attname, correlation from pg_catalog.pg_stats where tablename = %s", (NAME,)
    )
    return {name: float(value) for name, value in rows}


def hold(table: Table, share: float, random: Random) -> float:
    """Have that share of its pages in the page cache: none, all, or pieces drawn at random.

    Return the share that is there. Raises PgtraceError as Table.bring() does.
    """
    if share in (0, 1):
        return table.bring("cached" if share else "cold")
    table.bring("cold")
    chunk = _CHUNK_PAGES * 8192
    for file in table.files:
        with opened(file) as stream:
            # Without it the kernel would read more than it is asked for
            os.posix_fadvise(stream, 0, 0, os.POSIX_FADV_RANDOM)
            for offset in range(0, os.fstat(stream).st_size, chunk):
                if random.random() < share:
                    os.pread(stream, chunk, offset)
    held, whole = (sum(pages) for pages in zip(*map(residency, table.files), strict=True))
    return float(held / whole)
