"""Paths of files, as the kernel tells their last components."""

import os
from dataclasses import replace
from operator import attrgetter
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from pgtrace.engines import File
from pgtrace.model.capture import Kind
from pgtrace.postgres import discovery
from pgtrace.postgres.proc import Process
from pgtrace.postgres.tablespaces import Space
from pgtrace.tracing.file_names import Place, Places, path_of

SERVER = discovery.Server(
    Process(1, 0, 1, 0, 0, "postgres", "/postgres", False, "postgres", False),
    "15.20",
    discovery.Place("/srv/data", (1, 2), None),
    8192,
    5432,
    None,
    "",
)
BASE = Space(SERVER, 1663, "base", "/srv/data", None)
GLOBAL = Space(SERVER, 1664, "global", "/srv/data", None)
FAST = Space(SERVER, 16400, "pg_tblspc/16400/PG_15_202209061", "/fast", None)


@pytest.mark.parametrize(
    ("kind", "path", "space", "expected"),
    [
        ("relation", "data/base/5/16385", BASE, "base/5/16385"),
        ("relation", "data/base/5/16385.12", BASE, "base/5/16385"),
        ("relation", "data/base/5/16385_init", BASE, "base/5/16385"),
        ("visibility map", "data/base/5/16385_vm", BASE, "base/5/16385"),
        ("free space map", "data/base/5/16385_fsm.1", BASE, "base/5/16385"),
        ("relation", "data/base/5/t3_16385.1", BASE, "base/5/t3_16385"),
        ("relation", "srv/data/global/1262", GLOBAL, "global/1262"),
        ("relation", "fast/PG_15_202209061/5/16385", FAST, f"{FAST.path}/5/16385"),
        ("relation", "PG_15_202209061/5/16385", FAST, f"{FAST.path}/5/16385"),
        # A cluster below a folder of the same name
        ("relation", "base/base/5/16385", BASE, "base/5/16385"),
        ("other", "data/base/5/pg_internal.init", BASE, "base/5/pg_internal.init"),
        ("other", "data/base/5/1_vm.1x", BASE, "base/5/1_vm.1x"),
        ("temporary", "data/base/pgsql_tmp/pgsql_tmp77.0", BASE, "base/pgsql_tmp"),
        ("temporary", "base/pgsql_tmp/p.fileset/i1of4.p0.0", BASE, "base/pgsql_tmp"),
        ("temporary", "fast/PG_15_202209061/pgsql_tmp/p1.0", FAST, f"{FAST.path}/pgsql_tmp"),
        ("temporary", "x/base/pgsql_tmp/pgsql_tmp77.0", None, "…/pgsql_tmp"),
        ("other", "tmp/\udce4.csv", None, "…/tmp/\\xe4.csv"),
        ("wal", "srv/data/pg_wal/000000010000000000000001", None, "pg_wal"),
        ("wal", "mnt/wal/000000010000000000000001", None, "pg_wal"),
        ("slru", "srv/data/pg_xact/0000", None, "pg_xact"),
        ("slru", "data/pg_multixact/offsets/0000", None, "pg_multixact/offsets"),
        ("other", "15/main/global/pg_control", None, "…/15/main/global/pg_control"),
        ("other", "tmp/x.csv", None, "…/tmp/x.csv"),
        # Nobody knows the server: the kernel's word is all there is
        ("relation", "data/base/5/16385.1", None, "…/data/base/5/16385"),
    ],
)
def test_a_path(kind: Kind, path: str, space: Space | None, expected: str) -> None:
    # The last four, as the kernel has them
    parts = tuple(path.split("/"))
    assert len(parts) <= 4
    assert path_of(File(kind, (8, 1), 77, 1, parts), space) == expected


def test_a_path_that_was_not_seen_is_none() -> None:
    assert path_of(File("relation", (8, 1), 77, 1, ()), BASE) is None


def test_what_is_not_known_is_unknown() -> None:
    places = Places(dict, list, lambda _: None, attrgetter("data_directory"), by_relation=True)
    assert places.place(-1) == Place("unknown")


def test_a_file_of_no_server_has_its_kind() -> None:
    files = {
        0: File("relation", (8, 1), 77, 9, ("data", "base", "5", "16385")),
        1: File("relation", (8, 1), 0, 9, ("data", "base", "5", "16385")),
        2: File("other", (8, 1), 78, 0, ("tmp", "x")),
    }
    places = Places(
        lambda: files, list, lambda _: None, attrgetter("data_directory"), by_relation=True
    )
    assert [places.place(index) for index in range(3)] == [
        Place("relation", None, "…/data/base/5/16385"),
        Place("relation"),
        Place("other", None, "…/tmp/x"),
    ]
    assert places.tablespaces() == []
    grouped = Places(
        lambda: files, list, lambda _: None, attrgetter("data_directory"), by_relation=False
    )
    assert {grouped.place(index).relation for index in range(3)} == {None}


def test_what_lies_elsewhere_has_its_whole_path_where_that_is_all() -> None:
    """The kernel tells the last four parts alone, and so of shorter paths all; whether it is all
    shows where the server has a file.
    """
    me = replace(SERVER, postmaster=replace(SERVER.postmaster, pid=os.getpid()))
    with TemporaryDirectory(prefix="pgt", dir="/tmp") as above:
        below = Path(above) / "a" / "b"
        below.mkdir(parents=True)
        files = {}
        for index, directory in enumerate((Path(above), below)):
            path = directory / "log"
            path.write_text("")
            found = path.stat()
            device = os.major(found.st_dev), os.minor(found.st_dev)
            files[index] = File("other", device, found.st_ino, 0, path.parts[1:][-4:])
        files[2] = files[0]._replace(inode=1)  # another's by now
        places = Places(
            lambda: files, lambda: [me], lambda _: None, attrgetter("cluster_name"),
            by_relation=True,
        )  # fmt: skip
        name = Path(above).name
        assert [places.place(index).relation for index in files] == [
            f"/tmp/{name}/log",
            f"…/{name}/a/b/log",
            f"…/tmp/{name}/log",
        ]
        (Path(above) / "log").unlink()
        assert not places._is_gone(0), "its name is kept"
