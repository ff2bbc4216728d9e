"""Document 002's table and its two queries, on which reads are watched."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import psycopg

TABLE = "tbl_cost_align"
HIGHEST_ID = 2_000_000_000
INDEX_ROWS = 5_000

SEQUENTIAL = f"select * from {TABLE}"


def index_scan(rows: int) -> str:
    """Return the query that reads about 5,000 of `rows` rows, in the order of a random id."""
    above = HIGHEST_ID - HIGHEST_ID * min(INDEX_ROWS, rows) // rows
    return f"select * from {TABLE} where id > {above}"


def create_table(connection: "psycopg.Connection[Any]", rows: int) -> None:
    """Create and fill it; the same ids every time. Needs autocommit.

    Vacuumed, frozen and analysed, so that no scan has a hint bit to set or a page to prune, and
    written out, so that its files can be evicted.
    """
    connection.execute(f"create table {TABLE} (id int, info text, crt_time timestamp)")
    connection.execute("select setseed(0.002)")
    connection.execute(
        f"insert into {TABLE} select (random() * {HIGHEST_ID})::int, md5(random()::text), "
        "clock_timestamp() from generate_series(1, %s)",
        (rows,),
    )
    connection.execute(f"create index idx_{TABLE}_id on {TABLE} (id)")
    connection.execute(f"vacuum (freeze, analyze) {TABLE}")
    connection.execute("checkpoint")
