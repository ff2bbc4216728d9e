"""The benchmark table and its two queries, on which reads are watched."""

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    import psycopg

TABLE = "tbl_cost_align"
INDEX = f"idx_{TABLE}_id"
FIRST_TIME = "timestamp '2014-03-12'"
HIGHEST_ID = 2_000_000_000
INDEX_ROWS = 5_000
_PIECES = 20

SEQUENTIAL = f"select * from {TABLE}"
COPY = f"copy {TABLE} to stdout"
INDEX_FIRST = "-c enable_seqscan=off -c enable_bitmapscan=off"
"""Settings of a session that takes the index wherever there is one."""


class Shape(NamedTuple):
    """How wide its rows are."""

    info: str
    """The expression that fills the column of this name."""
    row_bytes: int
    """Of table and index, rounded up."""


NARROW = Shape("md5(random()::text)", 110)
"""As published: 107 rows to a heap page, 366 entries to a leaf."""
WIDE = Shape("repeat('digoal', 100)", 720)
"""Wide: 12 rows to a heap page, so that a scan has little to do for each."""


def index_scan(rows: int, turn: int | None = None) -> str:
    """Return the query that reads about 5,000 of `rows` rows, in the order of a random id: the
    highest, or as many others each `turn`, from 1 on, until all had theirs.
    """
    width = HIGHEST_ID * min(INDEX_ROWS, rows) // rows
    if turn is None:
        return f"select * from {TABLE} where id > {HIGHEST_ID - width}"
    above = HIGHEST_ID - width * ((turn - 1) % (HIGHEST_ID // width) + 1)
    return f"select * from {TABLE} where id > {above} and id <= {above + width}"


def pieces(rows: int, smallest: int = 100_000) -> Iterator[range]:
    """The numbers from 1 to `rows`, a 20th of them at once, or more."""
    size = max(rows // _PIECES, smallest)
    for first in range(1, rows + 1, size):
        yield range(first, min(first + size, rows + 1))


def create_table(
    connection: "psycopg.Connection[Any]",
    rows: int,
    shape: Shape = NARROW,
    told: Callable[[int], None] = lambda rows: None,
) -> None:
    """Create and fill it where the session's settings say; the same rows every time. Needs
    autocommit. `told` is called with how many of the rows are there, while more are to come.

    Vacuumed, frozen and analysed, so that no scan has a hint bit to set or a page to prune, and
    written out, so that its files can be evicted. In one transaction, so that with minimal WAL
    none is written.
    """
    with connection.transaction():
        connection.execute(f"create table {TABLE} (id int, info text, crt_time timestamp)")
        connection.execute("select setseed(0.002)")
        for piece in pieces(rows):
            told(piece.start - 1)
            connection.execute(
                f"insert into {TABLE} select (random() * {HIGHEST_ID})::int, {shape.info}, "
                f"{FIRST_TIME} + i * interval '1 us' from generate_series(%s::int8, %s::int8) as i",
                (piece[0], piece[-1]),
            )
        connection.execute(f"create index {INDEX} on {TABLE} (id)")
    connection.execute(f"vacuum (freeze, analyze) {TABLE}")
    connection.execute("checkpoint")
