"""`pgtrace lab pages` on the version under test: from 17 on blocks are read together, on 18 by
I/O workers, and from 16 on past the page cache if asked to."""

from pathlib import Path

from fix_cluster import bindir
from fix_markers import PG_VERSION
from fix_storage import SimulatedSsd
from lab_runs import blocks, lab, loaded, usable

ROWS = 20_000


def test_reads_are_the_blocks_that_explain_counts_on_every_version(
    simulated_ssd: SimulatedSsd, tmp_path: Path
) -> None:
    place, file = usable(simulated_ssd.directory), tmp_path / "F"
    options = "--rows", ROWS, "--runs", 1, "--pg-bin", bindir(PG_VERSION)
    lab("pages", "--storage", f"ssd={place}", "--memory", *options, "-o", file)
    result = loaded(file)
    assert result.server.version is not None
    assert result.server.version.startswith(f"{PG_VERSION}")
    assert list(place.iterdir()) == []
    for cell in result.cells:
        assert blocks(cell.io) == cell.shared_reads
        assert {r.kind for r in cell.io} <= {"heap", "index"}
        assert {r.tablespace for r in cell.io} == {cell.storage}
    performers = {r.performed_by for cell in result.cells for r in cell.io}
    assert ("io worker" in performers) == (PG_VERSION >= 18)
    sizes = {r.size for cell in result.cells for r in cell.io}
    assert ("16+" in sizes) == (PG_VERSION >= 17)


def test_direct_io_asks_the_device_for_every_read(
    simulated_ssd: SimulatedSsd, tmp_path: Path
) -> None:
    place, file = usable(simulated_ssd.directory), tmp_path / "F"
    version = max(PG_VERSION, 17)  # 15 has no such setting
    options = "--rows", ROWS, "--runs", 1, "--pg-bin", bindir(version), "--direct-io"
    lab("pages", "--storage", f"ssd={place}", *options, "-o", file)
    result = loaded(file)
    assert result.options.direct_io
    for cell in result.cells:
        assert blocks(cell.io) == cell.shared_reads
        assert all(r.direct for r in cell.io)
        assert sum(r.device_bytes for r in cell.io) == sum(r.bytes for r in cell.io)
