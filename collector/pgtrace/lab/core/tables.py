"""The benchmark table in one storage: loaded, made cold or warm, and proven so."""

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from ...errors import PgtraceError
from ...model.capture import Io, Kind
from . import benchmark_table
from .page_cache import evict, opened, relation_files, residency
from .private_server import LabServer, Space

if TYPE_CHECKING:
    import psycopg

Told = Callable[[int], None]
"""Is called with how many rows are there, while a table is loaded."""
State = Literal["cold", "cached"]
"""Of the page cache, before a run."""
ATTEMPTS = 5
"""A host may reclaim page cache at any moment, as it likes; a page under way cannot be evicted."""
_CHUNK = 1 << 20
_KINDS: dict[str, Kind] = {"r": "heap", "t": "toast", "i": "index"}


@dataclass(frozen=True)
class Table:
    """One that is there. `names` are kind and name of its relations by their path, as a capture
    without a connection has it."""

    storage: str
    space: Space
    files: list[Path]
    names: dict[str, tuple[Kind, str]]

    @property
    def options(self) -> str:
        """What finds it, for a connection's `options`."""
        return f"-c search_path={self.space.schema},pg_catalog"

    def bytes_of(self, kind: Kind) -> int:
        """How large its heap is, or its index, with all segments and no maps."""
        paths = {Path(path).name for path, (of, _) in self.names.items() if of == kind}
        return sum(file.stat().st_size for file in self.files if file.name.split(".")[0] in paths)

    def named(self, reads: list[Io]) -> list[Io]:
        """Its relations' paths replaced by their kinds and names."""
        return [self._named(each) for each in reads]

    def _named(self, reads: Io) -> Io:
        known = self.names.get(reads.relation or "")
        if known is None:
            return reads
        kind, name = known
        import msgspec

        return msgspec.structs.replace(
            reads,
            kind=kind if reads.kind == "relation" else reads.kind,
            relation=name,
            tablespace=self.storage,
        )

    def bring(self, state: State) -> float:
        """Have its files out of the page cache, or in it. Return the share of pages that is there.

        Raises PgtraceError if they do not come, or go.
        """
        for _ in range(ATTEMPTS):
            if state == "cold":
                evict(self.files)
            else:
                self._read()
            held, whole = self._pages()
            if held == (0 if state == "cold" else whole):
                return held / whole
        if state == "cold":
            raise PgtraceError(
                f"{held} of {whole} pages of {self.storage}'s table stay in the page cache: "
                "somebody else reads them, or its file system keeps them; end what does"
            )
        raise PgtraceError(
            f"{whole - held} of {whole} pages of {self.storage}'s table do not stay in the page "
            "cache: there is too little memory free; take fewer --rows"
        )

    def _pages(self) -> tuple[int, int]:
        """How many the page cache holds, and how many there are."""
        pages = [residency(file) for file in self.files]
        return sum(held for held, _ in pages), sum(whole for _, whole in pages)

    def _read(self) -> None:
        for file in self.files:
            with opened(file) as stream:
                while os.read(stream, _CHUNK):
                    pass


def load(
    server: LabServer,
    storage: str,
    rows: int,
    shape: benchmark_table.Shape,
    told: Told,
) -> Table:
    """Load it into the storage's tablespace."""
    space = server.spaces[storage]
    options = f"-c search_path={space.schema},pg_catalog -c default_tablespace={space.tablespace}"
    with server.connect(options) as connection:
        benchmark_table.create_table(connection, rows, shape, told)
        connection.execute(f"alter table {benchmark_table.TABLE} set (autovacuum_enabled = off)")
        files = relation_files(server.datadir, connection, benchmark_table.TABLE, space.location)
        return Table(storage, space, files, _names(connection))


def drop(server: LabServer, storage: str) -> None:
    """Remove what was loaded into the storage's tablespace."""
    from psycopg import sql

    schema = server.spaces[storage].schema
    with server.connect() as connection:
        rows = connection.execute(
            "select tablename from pg_catalog.pg_tables where schemaname = %s", (schema,)
        )
        for (name,) in rows.fetchall():
            connection.execute(sql.SQL("drop table {}").format(sql.Identifier(schema, name)))


def _names(connection: "psycopg.Connection[Any]") -> dict[str, tuple[Kind, str]]:
    rows = connection.execute(
        """
        with own as (select oid, reltoastrelid from pg_class where oid = %(name)s::regclass),
        tables as (select oid from own union all select reltoastrelid from own)
        select pg_relation_filepath(c.oid), c.relkind, c.relname
        from pg_class as c left join pg_index as i on i.indexrelid = c.oid
        where c.oid in (select oid from tables) or i.indrelid in (select oid from tables)
        """,
        {"name": benchmark_table.TABLE},
    )
    return {path: (_KINDS[kind], name) for path, kind, name in rows}
