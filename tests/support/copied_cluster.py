"""Private clusters of tests: copies of one that was made once, in a tenth of initdb's time.

The originals are kept, two for each build of PostgreSQL: with the benchmark table and without.
"""

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from kept import kept
from pgtrace.lab.core import benchmark_table
from pgtrace.lab.core.private_cluster import PrivateCluster

ROWS = 200_000
LOADING = {"autovacuum": False, "fsync": False, "wal_level": "minimal", "max_wal_senders": 0}
SYSTEM_IDENTIFIER = slice(24, 32)
"""Where a WAL file has it: XLogLongPageHeaderData.xlp_sysid."""


class CopiedCluster(PrivateCluster):
    """As PrivateCluster; with `table`, sample.TABLE of ROWS rows is in it."""

    def __init__(
        self, settings: Mapping[str, object] | None = None, *, table: bool = False, **options: Any
    ) -> None:
        super().__init__(settings, **options)
        self._table = table
        self._owner = options.get("user", "postgres")

    def _initdb(self) -> None:
        assert self.waldir is None, "the original has its WAL inside"
        built = (self.run("postgres", "--version"), str(self.root), self.ids())
        initdb = super()._initdb

        def make(to: Path) -> None:
            initdb()
            _copy(self.datadir, to)

        original = plain = kept("clusters", built, make)
        if self._table:
            loaded = (*built, ROWS, Path(benchmark_table.__file__).read_text())
            original = kept("clusters", loaded, lambda to: self._load(plain, to))
        shutil.rmtree(self.datadir, ignore_errors=True)
        _copy(original, self.datadir)
        _renew_identifier(self.datadir)

    def _load(self, plain: Path, to: Path) -> None:
        where = {"bindir": self.bindir, "root": self.root, "user": self._owner}
        with CopiedCluster(LOADING, **where) as loader:
            with loader.connect() as connection:
                benchmark_table.create_table(connection, ROWS)
            loader.stop()
            shutil.copyfile(plain / "postgresql.conf", loader.datadir / "postgresql.conf")
            _copy(loader.datadir, to)


def _copy(source: Path, to: Path) -> None:
    subprocess.run(["cp", "-a", "--reflink=auto", source, to], check=True)


def _renew_identifier(data: Path) -> None:
    """Let a server that does not run be another than the one that it was copied from.

    pgtrace tells servers apart by what initdb gave them. It comes first in pg_control, and is in
    each WAL file.
    """
    control = data / "global/pg_control"
    content = bytearray(control.read_bytes())
    before, content[:8] = content[:8], os.urandom(7) + b"\0"
    # The checksum is of all before it; how much that is depends on the version
    end = next(
        end
        for end in range(8, len(content), 4)
        if content[end : end + 4] == _crc32c(bytes(before) + content[8:end])
    )
    content[end : end + 4] = _crc32c(content[:end])
    control.write_bytes(content)
    for file in (data / "pg_wal").glob("0*"):
        with file.open("r+b") as wal:
            if wal.read(SYSTEM_IDENTIFIER.stop)[SYSTEM_IDENTIFIER] == before:
                wal.seek(SYSTEM_IDENTIFIER.start)
                wal.write(content[:8])


def _crc32c(content: bytes) -> bytes:
    """Castagnoli's, reflected, as src/port/pg_crc32c_sb8.c computes it."""
    crc = 0xFFFFFFFF
    for byte in content:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ 0x82F63B78 * (crc & 1)
    return (crc ^ 0xFFFFFFFF).to_bytes(4, sys.byteorder)
