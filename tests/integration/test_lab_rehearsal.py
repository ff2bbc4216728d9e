"""What an experiment says before it begins: what is planned, and about how long it will take."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from fix_cluster import PrivateCluster
from pgtrace.lab import result_file
from pgtrace.lab.core import benchmark_table
from pgtrace.lab.core.benchmark_table import FIRST_TIME, HIGHEST_ID, TABLE, pieces
from pgtrace.model.lab_result import Result
from pgtrace_command import patched, run

pytestmark = pytest.mark.pg("15")

ROWS = 20_000
MANY = 200_000
SMALL = patched("from pgtrace.lab.core import rehearsal; rehearsal._BYTES = 2_000_000")
"""An experiment of 20 MB is a large one then. Not a smaller one: of 2 MB the rehearsal's random
read takes 2 ms and stands for 238 times as much, so that the 20 ms in which a busy neighbor had its
processor said 18 to 26 s of 8, in three of eight runs with both processors busy.
"""


@pytest.fixture
def place(disk_directory: Path) -> Iterator[Path]:
    """Root's own directory, which others may enter."""
    own = disk_directory / "storage"
    own.mkdir(mode=0o755)
    yield own
    own.rmdir()


@pytest.mark.alone
def test_a_large_experiment_says_how_long_it_will_take(place: Path, tmp_path: Path) -> None:
    """Within a half and the double of what it takes, without what comes before it."""
    file = tmp_path / "F"
    options = "--storage", f"ssd={place}", "--memory", "--rows", MANY, "--runs", 2, "-o", file
    ended = run("lab", "pages", *options, command=SMALL)
    assert ended.code == 0, ended.err
    plan, *_ = ended.err.splitlines()
    found = re.fullmatch(
        r"Plan: 200,000 rows, about 21\.0 MiB, in each of ssd, memory; 2 runs of 4 measurements\. "
        r"About (\d+) s: \d+ s to load, (\d+) s to measure, by what 18,181 rows took\.",
        plan,
    )
    assert found, plan
    result = result_file.load_any(file)
    assert isinstance(result, Result)
    began = [cell.began_s for cell in result.cells if cell.began_s is not None]
    took = (max(began) - min(began)) * len(began) / (len(began) - 1)
    assert took / 2 < int(found[2]) < took * 2
    assert len(result.cells) == 2 * 4, "what was tried is in the result"
    assert result.options.rows == MANY


def test_a_small_one_says_what_is_planned(place: Path, tmp_path: Path) -> None:
    options = "--storage", f"ssd={place}", "--rows", ROWS, "--runs", 1, "-o", tmp_path / "F"
    ended = run("lab", "pages", *options)
    first, *_ = ended.err.splitlines()
    assert first == "Plan: 20,000 rows, about 2.1 MiB, in ssd; 1 run of 2 measurements."


def test_nothing_is_said_with_quiet(place: Path, tmp_path: Path) -> None:
    options = "--storage", f"ssd={place}", "--rows", ROWS, "--runs", 1, "-o", tmp_path / "F"
    ended = run("lab", "pages", "-q", *options)
    assert (ended.code, ended.err) == (0, "")


def test_a_table_that_is_loaded_in_pieces_has_the_same_rows(cluster: PrivateCluster) -> None:
    """As one statement fills it, on which the published results stand; how far it is, is told."""
    rows, told = 250_000, list[int]()
    sums = f"select count(*), sum(hashtext(t::text)), min(ctid), max(ctid) from {TABLE} as t"
    with cluster.connect() as connection:
        connection.execute("create schema in_pieces; set search_path = in_pieces")
        benchmark_table.create_table(connection, rows, told=told.append)
        in_pieces = connection.execute(sums.encode()).fetchone()
        connection.execute(f"truncate {TABLE}")
        connection.execute("select setseed(0.002)")
        connection.execute(
            f"insert into {TABLE} select (random() * {HIGHEST_ID})::int, md5(random()::text), "
            f"{FIRST_TIME} + i * interval '1 us' from generate_series(1, {rows}) as i".encode()
        )
        at_once = connection.execute(sums.encode()).fetchone()
        connection.execute("drop schema in_pieces cascade")
    assert in_pieces == at_once
    assert told == [piece.start - 1 for piece in pieces(rows)] == [0, 100_000, 200_000]


@pytest.mark.parametrize("rows", [1, 99_999, 100_000, 100_001, 10_000_000, 10_000_001])
def test_pieces_are_all_rows_once(rows: int) -> None:
    found = list(pieces(rows))
    assert sum(map(len, found)) == rows
    assert [piece[0] for piece in found] == [1, *(piece[-1] + 1 for piece in found[:-1])]
    assert len(found) <= 21
