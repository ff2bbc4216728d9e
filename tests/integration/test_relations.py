"""What is read by its relation: names of files, and totals that equal the server's own."""

import json
import math
import os
import re
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from functools import partial
from operator import attrgetter
from pathlib import Path
from typing import Any

import pytest

from child import state_of, stopped, wait_until_gone
from copied_cluster import CopiedCluster
from fix_cluster import Connection, Server, bindir, data_directory, explain_buffers
from fix_markers import PG_VERSION
from pgtrace import trace
from pgtrace.engines import File
from pgtrace.errors import DatabaseError
from pgtrace.failures import Failures
from pgtrace.lab.core import benchmark_table
from pgtrace.lab.core.private_cluster import PrivateCluster
from pgtrace.model.capture import Capture, Kind
from pgtrace.postgres import catalog, discovery
from pgtrace.postgres.catalog import Names
from pgtrace.postgres.connection import Asked, connect, system_identifier
from pgtrace.postgres.tablespaces import Spaces
from pgtrace.tracing import file_names as places_module
from pgtrace.tracing.file_names import GONE, Place, Places
from pgtrace_command import Pgtrace, wait_for
from pgtrace_command import run as pgtrace
from read_ahead import USUAL_KIB, read_ahead
from scans import ATTEMPTS, anything_lost, new_backend, only, patterns, prepare
from worker import Worker

pytestmark = pytest.mark.usefixtures("patient")

STRANGE = 'a "quoted" name\n\x1b[31m of $$ ünïcode'
LAST_S = catalog.LAST_S


def file_of(path: Path, space: Path, kind: Kind = "relation") -> File:
    """A file as the kernel tells of it."""
    status, above = path.stat(), space.stat()
    device = os.major(status.st_dev), os.minor(status.st_dev)
    return File(kind, device, status.st_ino, above.st_ino, path.resolve().parts[-4:])


def found_by(cluster: PrivateCluster, connection: Connection, relation: str) -> File:
    """The file of a relation of this connection's database, as the kernel tells of it."""
    row = connection.execute("select pg_relation_filepath(%s::regclass)", [relation]).fetchone()
    assert row is not None
    path = cluster.datadir / row[0]
    if row[0].startswith("pg_tblspc"):  # a link as the server sees it
        _, oid, *below = row[0].split("/")
        link = cluster.datadir / "pg_tblspc" / oid
        if link.is_symlink():
            path = cluster.datadir.parent.joinpath(link.readlink().name, *below)
    space = path.parent if row[0].startswith("global") else path.parents[1]
    return file_of(path, space)


class Files:
    """Files, and what they are called: an engine's side, and a session's."""

    def __init__(self, cluster: PrivateCluster, dsn: str | None) -> None:
        server = discovery.server(cluster.postmaster_pid)
        self.files: dict[int, File] = {}
        self.names = None if dsn is None else Names(partial(connect, dsn), [server], Failures())
        if self.names:
            self.names.start()
        self.places = Places(
            lambda: self.files,
            lambda: [server],
            lambda _: self.names,
            attrgetter("data_directory"),
            by_relation=True,
        )

    def add(self, file: File) -> int:
        number = len(self.files)
        self.files[number] = file
        self.places.look()
        return number

    def close(self) -> None:
        if self.names:
            self.names.close()


@pytest.fixture(scope="module")
def small(disk_directory: Path) -> Iterator[PrivateCluster]:
    where = data_directory(PG_VERSION, disk_directory)
    settings = {"autovacuum": False, "fsync": False}
    with CopiedCluster(settings, bindir=bindir(PG_VERSION), directory=where) as private:
        yield private


@pytest.fixture
def own(small: PrivateCluster) -> Iterator[Connection]:
    with small.connect() as connection:
        yield connection


@pytest.fixture
def tablespace(small: PrivateCluster, own: Connection) -> Iterator[tuple[str, int]]:
    """Its name and its oid."""
    directory = small.datadir.parent / "fast disk"
    directory.mkdir()
    os.chown(directory, small.datadir.stat().st_uid, -1)
    own.execute(f"create tablespace \"fast Ä\" location '{small.inside(directory)}'")
    row = own.execute("select oid from pg_tablespace where spcname = 'fast Ä'").fetchone()
    assert row is not None
    yield "fast Ä", row[0]
    own.execute('drop tablespace "fast Ä"')
    directory.rmdir()


def test_without_a_connection_a_path_is_all(
    small: PrivateCluster, own: Connection, tablespace: tuple[str, int]
) -> None:
    files = Files(small, None)
    own.execute('create table there (id int) tablespace "fast Ä"')
    there = files.places.place(files.add(found_by(small, own, "there")))
    here = files.places.place(files.add(found_by(small, own, "pg_proc")))
    shared = files.places.place(files.add(found_by(small, own, "pg_database")))
    own.execute("drop table there")
    oid = str(tablespace[1])
    assert (there.kind, there.tablespace) == ("relation", oid)
    assert re.fullmatch(rf"pg_tblspc/{oid}/PG_\d+_\d+/\d+/\d+", there.relation or "")
    assert here.tablespace == "pg_default"
    assert re.fullmatch(r"base/\d+/\d+", here.relation or "")
    assert shared == Place("relation", "pg_global", "global/1262")
    spaces = {space.name: space for space in files.places.tablespaces()}
    assert list(spaces) == [oid, "pg_default", "pg_global"]
    assert spaces[oid].location == str(small.inside(small.datadir.parent / "fast disk"))
    assert spaces["pg_default"].location == discovery.server(small.postmaster_pid).data_directory
    for space in spaces.values():
        assert space.filesystem
        assert not space.simulated


def test_with_a_connection_relations_have_names(
    small: PrivateCluster, own: Connection, tablespace: tuple[str, int]
) -> None:
    own.execute('create table public.docs (id int primary key, body text) tablespace "fast Ä"')
    own.execute("create materialized view view as select 1 as one")
    own.execute("create sequence counter")
    own.execute("create temporary table passing (id int)")
    own.execute('create schema "My Schema"')
    quoted = '"' + STRANGE.replace('"', '""') + '"'
    own.execute(f'create table "My Schema".{quoted} (id int)')
    with closing(Files(small, small.dsn())) as files:
        toast = own.execute(
            "select reltoastrelid::regclass::text, i.indexrelid::regclass::text from pg_class c "
            "join pg_index i on indrelid = reltoastrelid where c.oid = 'docs'::regclass"
        ).fetchone()
        assert toast is not None
        expected = {
            "docs": Place("heap", "fast Ä", "public.docs"),
            toast[0]: Place("toast", "fast Ä", "public.docs"),
            toast[1]: Place("toast", "fast Ä", "public.docs"),
            "docs_pkey": Place("index", "pg_default", "public.docs_pkey"),
            "view": Place("heap", "pg_default", "public.view"),
            "counter": Place("heap", "pg_default", "public.counter"),
            "pg_class": Place("heap", "pg_default", "pg_catalog.pg_class"),
            "pg_database": Place("heap", "pg_global", "pg_catalog.pg_database"),
            f'"My Schema".{quoted}': Place("heap", "pg_default", f'"My Schema".{quoted}'),
        }
        indexes = {name: files.add(found_by(small, own, name)) for name in expected}
        temporary = files.add(found_by(small, own, "passing"))
        last = indexes["docs"]
        wait_for(lambda: files.places.place(last).kind == "heap")
        assert {name: files.places.place(i) for name, i in indexes.items()} == expected
        passing = files.places.place(temporary)
        assert passing.kind == "heap"
        assert re.fullmatch(r"pg_temp_\d+\.passing", passing.relation or "")
        assert files.names
        assert files.names.missing() == []
    own.execute('drop table docs; drop schema "My Schema" cascade; drop sequence counter')
    own.execute("drop materialized view view")


def test_other_databases_are_asked_when_they_are_read(
    small: PrivateCluster, own: Connection
) -> None:
    own.execute('create database "other DB"')
    with small.connect(dbname="other DB") as other, closing(Files(small, small.dsn())) as files:
        other.execute("create table things (id int primary key)")
        heap = files.add(found_by(small, other, "things"))
        index = files.add(found_by(small, other, "things_pkey"))
        shared = files.add(found_by(small, other, "pg_authid"))
        wait_for(lambda: files.places.place(heap).kind == "heap")
        named = '"other DB".public.things'
        assert files.places.place(heap) == Place("heap", "pg_default", named)
        assert files.places.place(index) == Place("index", "pg_default", f"{named}_pkey")
        assert files.places.place(shared).relation == "pg_catalog.pg_authid"
    own.execute('drop database "other DB"')


def test_old_files_keep_their_names_and_new_ones_are_asked_for(
    small: PrivateCluster, own: Connection
) -> None:
    own.execute("create table moved (id int); create table dropped (id int)")
    with closing(Files(small, small.dsn())) as files:
        assert files.names
        files.names.require()
        before = [files.add(found_by(small, own, name)) for name in ("moved", "dropped")]
        own.execute("vacuum full moved")
        own.execute("drop table dropped")
        own.execute("create table new (id int)")
        after = [files.add(found_by(small, own, name)) for name in ("moved", "new")]
        wait_for(lambda: files.places.place(after[1]).kind == "heap")
        shown = [files.places.place(index).relation for index in before + after]
        assert shown == ["public.moved", "public.dropped", "public.moved", "public.new"]
    own.execute("drop table moved, new")


def test_what_nobody_knows_yet_is_asked_for_less_and_less_often(
    small: PrivateCluster, own: Connection
) -> None:
    with small.connect(autocommit=False) as open_one, closing(Files(small, small.dsn())) as files:
        assert files.names
        files.names.require()
        open_one.execute("create table later (id int)")
        index = files.add(found_by(small, open_one, "later"))
        time.sleep(1.5)
        assert files.places.place(index).kind == "relation"
        assert re.fullmatch(r"base/\d+/\d+", files.places.place(index).relation or "")
        open_one.commit()
        files.names.finish()
        assert files.places.place(index).relation == "public.later"
    own.execute("drop table later")


def test_a_role_that_may_not_connect_everywhere(small: PrivateCluster, own: Connection) -> None:
    own.execute("create role somebody login")
    own.execute("create database closed")
    own.execute("revoke connect on database closed from public")
    dsn = small.dsn(user="somebody")
    with small.connect(dbname="closed") as closed, closing(Files(small, dsn)) as files:
        names = files.names
        assert names
        # Of shared catalogs and of its own database it has names, whatever it may read
        index = files.add(found_by(small, closed, "pg_class"))
        wait_for(names.missing)
        (missing,) = names.missing()
        assert missing.startswith("names of database closed: ")
        assert "permission denied for database" in missing
        assert re.fullmatch(r"base/\d+/\d+", files.places.place(index).relation or "")
        with pytest.raises(DatabaseError, match="may not connect to closed"):
            names.require()
        names.require(frozenset({"postgres"}))
    own.execute("drop database closed")
    own.execute("drop role somebody")


def test_a_connection_that_fails_says_why(small: PrivateCluster) -> None:
    with closing(Files(small, small.dsn(dbname="absent"))) as files:
        assert files.names
        with pytest.raises(DatabaseError, match=r'names: .*database "absent" does not exist'):
            files.names.require()
        assert len(files.names.missing()[0].splitlines()) == 1


def test_names_come_back_with_the_server(small: PrivateCluster) -> None:
    with small.connect() as connection:
        connection.execute("create table before (id int)")
    with closing(Files(small, small.dsn())) as files:
        assert files.names
        files.names.require()
        small.stop()
        files.names.met(time.monotonic_ns())  # while nobody comes, it is asked twice a minute
        wait_for(files.names.missing)
        small.start()
        with small.connect() as connection:
            connection.execute("create table after (id int)")
            wait_for(lambda: files.names and not files.names.missing())
            found = [files.add(found_by(small, connection, name)) for name in ("before", "after")]
            wait_for(lambda: files.places.place(found[1]).kind == "heap")
            assert files.places.place(found[0]).relation == "public.before"
            connection.execute("drop table before, after")


@contextmanager
def names_of(connected: PrivateCluster, *traced: discovery.Server) -> Iterator[Names]:
    """Those that a connection to one server tells of these; the first are there."""
    with closing(Names(partial(connect, connected.dsn()), traced, Failures())) as names:
        names.start()
        names.require()
        yield names


def test_names_of_another_server_are_none(small: PrivateCluster, cluster: PrivateCluster) -> None:
    here = discovery.server(cluster.postmaster_pid)
    there = discovery.server(small.postmaster_pid)
    with pytest.raises(DatabaseError, match="another"), names_of(small, here):
        pass
    with names_of(small, here, there) as names:
        assert (names.are_of(here.postmaster_pid), names.are_of(there.postmaster_pid)) == (
            False,
            True,
        )
        (missing,) = names.missing()
        assert missing.startswith(
            f"names in {here.data_directory}: the connection leads to another"
        )


def test_names_of_a_standby_elsewhere_are_none(
    small: PrivateCluster, cluster: PrivateCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Which has the identifier of the one that is traced, as its primary has it."""
    here = discovery.server(cluster.postmaster_pid)
    there = discovery.server(small.postmaster_pid)
    shared = system_identifier(there)
    monkeypatch.setattr("pgtrace.postgres.catalog.system_identifier", lambda _: shared)
    with pytest.raises(DatabaseError, match="another"), names_of(small, here):
        pass
    with names_of(small, there, here) as names:
        assert names.server == there


def alone(rows: list[Any]) -> Any:
    """The only one; nothing while who served the test before has not ended yet."""
    return rows[0] if len(rows) == 1 else None


def test_the_connection_that_lasts_is_known_for_its_own_whatever_came_since(
    small: PrivateCluster,
) -> None:
    here = discovery.server(small.postmaster_pid)
    with names_of(small, here) as names:
        with small.connect() as connection:
            asked = "select pid from pg_stat_activity where application_name = 'pgtrace'"
            (pid,) = wait_for(lambda: alone(connection.execute(asked).fetchall()))
        for other in range(1_000_000, 1_002_000):
            names._note_own(names._own, other)
        assert names.is_own(pid, 0, 0)


def test_a_connection_that_is_lost_when_just_made_is_made_again(small: PrivateCluster) -> None:
    """As when the server is started again at that moment."""
    made: list[int] = []

    @contextmanager
    def unlucky(
        dbname: str | None = None, opened: Callable[[int], None] | None = None
    ) -> Iterator[Asked]:
        made.append(0)
        with connect(small.dsn(), dbname) as asked:
            if len(made) == 1:
                with small.connect() as other:
                    pid = asked.own_backend_pid()
                    other.execute("select pg_terminate_backend(%s, 10000)", (pid,))
                asked.own_backend_pid()
            yield asked

    here = discovery.server(small.postmaster_pid)
    with closing(Names(unlucky, [here], Failures())) as names:
        names.start()
        names.require()
        assert names.missing() == []
    assert len(made) == 2


def test_a_standby_that_lets_nobody_in_keeps_nobody_from_another_server(
    small: PrivateCluster, cluster: PrivateCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Which was stopped, and has another postmaster by now."""
    here = discovery.server(small.postmaster_pid)
    standby = discovery.server(cluster.postmaster_pid)
    monkeypatch.setattr(discovery.Server, "lets_in", lambda _: False)
    monkeypatch.setattr(discovery.Server, "runs", lambda one: one == standby)
    made: list[int] = []

    @contextmanager
    def again(
        dbname: str | None = None, opened: Callable[[int], None] | None = None
    ) -> Iterator[Asked]:
        made.append(0)
        if len(made) == 1:
            raise DatabaseError("the database system is shutting down")
        with connect(small.dsn(), dbname, opened) as asked:
            yield asked

    with closing(Names(again, [here, standby], Failures())) as names:
        names.start()
        names.require()
    assert len(made) == 2


def test_a_server_that_does_not_answer_holds_nobody_up(
    small: PrivateCluster, own: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(catalog, "LAST_S", LAST_S)
    with closing(Files(small, small.dsn())) as files:
        assert files.names
        files.names.require()
        ((pid, _),) = files.names._lasting
        with stopped(pid):
            files.names.finish()
            files.names.close()
            # It has not answered, and nobody waited until it did
            assert state_of(pid) == "T"
            missing = files.names.missing()
            assert missing == ["names: the server gave none within 3 s at the end"]


def test_ten_thousand_relations(small: PrivateCluster, own: Connection) -> None:
    own.execute("create database many")
    with small.connect(dbname="many") as many:
        for part in range(10):
            many.execute(";".join(f"create table t{part}_{i} (id int)" for i in range(1000)))
        rows = many.execute(
            "select relname, pg_relation_filepath(oid) from pg_class where relname ~ '^t\\d+_'"
        ).fetchall()
    base = small.datadir / "base"
    with closing(Files(small, small.dsn())) as files:
        assert files.names
        files.names.require()
        files.files |= enumerate(file_of(small.datadir / path, base) for _, path in rows)
        began = time.process_time()
        files.places.look()
        files.names.finish()
        places = [files.places.place(index) for index in range(len(rows))]
        assert time.process_time() - began < 3
        assert [place.relation for place in places] == [f"many.public.{name}" for name, _ in rows]
    own.execute("drop database many")


def test_a_database_without_an_encoding(small: PrivateCluster, own: Connection) -> None:
    own.execute("create database bytes encoding 'SQL_ASCII' template template0")
    with small.connect(dbname="bytes") as connection:
        connection.execute(b'create table "n\xe4me" (id int)')
        connection.execute("set application_name = 'me'")
        row = connection.execute(
            "select pg_relation_filepath(oid) from pg_class where relname ~ '^n.me'"
        ).fetchone()
        assert row is not None
        path = small.datadir / row[0].decode()
        with closing(Files(small, small.dsn(dbname="bytes"))) as files:
            index = files.add(file_of(path, path.parents[1]))
            wait_for(lambda: files.places.place(index).kind == "heap")
            assert files.places.place(index).relation == r'public."n\xe4me"'
            assert files.names
            name = wait_for(
                lambda: files.names and files.names.of(connection.info.backend_pid, 0, 0)
            )
            assert (name.datname, name.application_name) == ("bytes", "me")
    own.execute("drop database bytes")


def test_two_servers_are_told_apart(small: PrivateCluster, cluster: PrivateCluster) -> None:
    servers = [discovery.server(one.postmaster_pid) for one in (small, cluster)]
    of_each = [
        file_of(one.datadir / "base/1/2619", one.datadir / "base") for one in (small, cluster)
    ]
    files = dict(enumerate(of_each))
    places = Places(
        lambda: files,
        lambda: servers,
        lambda _: None,
        attrgetter("data_directory"),
        by_relation=True,
    )
    for index, server in enumerate(servers):
        of_it = f"of {server.data_directory}"
        expected = Place("relation", f"pg_default {of_it}", f"base/1/2619 {of_it}")
        assert places.place(index) == expected
    assert {space.location for space in places.tablespaces()} == {
        server.data_directory for server in servers
    }


def test_what_is_no_relation_goes_by_its_path_too(small: PrivateCluster, tmp_path: Path) -> None:
    files = Files(small, None)
    catalogs = small.datadir / "global/pg_filenode.map"
    elsewhere = tmp_path / "pg_filenode.map"
    elsewhere.write_text("")
    device, parts = (0, 0), catalogs.resolve().parts[-4:]
    known = files.add(File("other", device, catalogs.stat().st_ino, 0, parts))
    gone = files.add(File("other", device, 1, 0, parts))
    foreign = files.add(File("other", device, elsewhere.stat().st_ino, 0, ("pg_filenode.map",)))
    assert [files.places.place(index).relation for index in (known, gone, foreign)] == [
        "global/pg_filenode.map",
        "…/" + "/".join(parts),
        "…/pg_filenode.map",
    ]


def test_a_file_is_gone_when_its_name_is_no_longer_its_own(
    small: PrivateCluster, own: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a tablespace and beside one; not while nobody sees the directory that it was in. Another
    server that stays away keeps none of this one's."""
    monkeypatch.setattr(places_module, "CHECK_S", 0)
    own.execute("create table leaves (id int)")
    files = Files(small, None)
    replaced = small.datadir / "replaced"
    replaced.write_text("")
    device = (0, 0)
    stays = files.add(found_by(small, own, "pg_class"))
    relation = files.add(found_by(small, own, "leaves"))
    other = files.add(
        File("other", device, replaced.stat().st_ino, 0, replaced.resolve().parts[-4:])
    )
    late = files.add(File("other", device, 1, 0, ("global", "pg_internal.init.4711")))
    foreign = files.add(File("other", device, 1, 0, ("usr", "lib", "some.so")))
    assert set(files.places.gone()) == {late}
    own.execute("drop table leaves")
    own.execute("checkpoint")
    replaced.rename(small.datadir / "elsewhere")
    gone = files.places.gone()
    assert set(gone) == {relation, other, late}
    assert {file.path for file in gone.values()} == {(GONE,)}
    assert {file.kind for file in gone.values()} == {"relation", "other"}
    with monkeypatch.context() as patch:
        patch.setattr(Spaces, "are_here", lambda _: False)
        assert set(files.places.gone()) == {relation}, "of which it is known where it lay"
    index = files.add(gone[relation])
    files.places.forget([relation])
    del files.files[relation]
    assert files.places.place(index) == Place("relation", "pg_default", GONE)
    assert {stays, foreign}.isdisjoint(files.places.gone())
    (small.datadir / "elsewhere").unlink()


def test_a_tablespace_is_found_while_tracing(small: PrivateCluster, own: Connection) -> None:
    server = discovery.server(small.postmaster_pid)
    spaces = Spaces(lambda: [server])
    files = Files(small, None)
    files.add(File("relation", space=1))  # looked for in vain, and not again for a second
    due = files.places._spaces._next_look
    files.places._spaces._next_look = math.inf  # however long the next lines take
    own.execute("set allow_in_place_tablespaces = on")
    own.execute("create tablespace inside location ''")
    own.execute("create table within (id int) tablespace inside")
    file = found_by(small, own, "within")
    assert spaces.find(file.device, file.space) is None
    assert spaces.renew()
    space = spaces.find(file.device, file.space)
    assert space
    assert re.fullmatch(r"pg_tblspc/\d+/PG_\d+_\d+", space.path)
    assert spaces.find(file.device, 1) is None
    index = files.add(file)
    assert files.places.place(index).tablespace is None
    files.places._spaces._next_look = due

    def placed() -> bool:
        files.places.look()
        return files.places.place(index).tablespace is not None

    wait_for(placed)
    assert (files.places.place(index).relation or "").startswith("pg_tblspc/")
    own.execute("drop table within")
    own.execute("drop tablespace inside")


# What a workload reads

TABLES = """
create table wide (id int primary key, filler text) with (fillfactor = 50);
insert into wide select i, repeat('x', 500) from generate_series(1, 40000) as i;
create table docs (id int primary key, body text);
alter table docs alter body set storage external;
insert into docs select i, repeat(md5(i::text), 300) from generate_series(1, 3000) as i;
create table plain (id int, filler text);
insert into plain select i, repeat('y', 900) from generate_series(1, 40000) as i;
create index on plain (id);
vacuum (freeze, analyze) wide, docs, plain;
checkpoint;
"""
WORKLOAD = (
    "select count(filler) from plain",
    "select count(filler) from wide where id % 7 = 0",
    "select sum(length(md5(body))) from docs where id % 5 = 0",
    "update wide set filler = repeat('z', 500) where id between 100 and 900",
    "set enable_seqscan = off; set enable_bitmapscan = off",
    "select count(filler) from plain where id between 100 and 9000",
    "select count(*) from wide where id > 30000",
    "select sum(length(md5(body))) from docs where id between 10 and 200",
    "set enable_bitmapscan = on; set enable_indexscan = off; set enable_indexonlyscan = off",
    "select count(filler) from plain where id between 20000 and 24000",
)
STATISTICS = """
select relname, heap_blks_read, coalesce(idx_blks_read, 0), coalesce(toast_blks_read, 0),
       coalesce(tidx_blks_read, 0)
from pg_statio_user_tables where relname in ('wide', 'docs', 'plain')
"""
METHODS = [
    pytest.param({}, id="before 18", marks=pytest.mark.pg("< 18")),
    *(
        pytest.param({"io_method": method}, id=method, marks=pytest.mark.pg(">= 18"))
        for method in ("sync", "worker", "io_uring")
    ),
]


@pytest.fixture
def loaded(server: Server, request: pytest.FixtureRequest) -> PrivateCluster:
    """A server of the version under test, with three tables larger than its shared buffers."""
    cluster = server(**{"max_worker_processes": 8} | request.param)
    with cluster.connect() as connection:
        if connection.execute("select to_regclass('plain')").fetchone() == (None,):
            for statement in TABLES.strip().split(";\n"):
                connection.execute(statement)
    return cluster


def counted(cluster: PrivateCluster) -> dict[str, tuple[int, int]]:
    """Of each table, the blocks that the server read: itself and its indexes, and its TOAST."""
    with cluster.connect() as connection:
        rows = connection.execute(STATISTICS).fetchall()
    found = {}
    for name, heap, index, toast, toast_index in rows:
        found[name] = heap + index, toast + toast_index
    return found


def run(cluster: PrivateCluster, *settings: str) -> tuple[Capture, dict[str, tuple[int, int]]]:
    """The workload in a backend that is traced, and by how much the server's numbers grew."""
    cluster.restart()
    before = counted(cluster)
    with cluster.connect() as connection:
        for setting in settings:
            connection.execute(setting)
        pid = connection.info.backend_pid
        with trace(pid, by_relation=True, dsn=cluster.dsn()) as tracer:
            for statement in WORKLOAD:
                connection.execute(statement)
    capture = tracer.capture()
    assert not anything_lost(capture), capture.lost
    assert capture.probes.not_measured == []
    wait_until_gone(pid)  # at its end it hands over its numbers
    assert "pg_default" in {space.name for space in capture.tablespaces}
    after = counted(cluster)
    return capture, {
        name: (after[name][0] - before[name][0], after[name][1] - before[name][1]) for name in after
    }


def blocks(capture: Capture, table: str) -> tuple[int, int]:
    """Of a table, the blocks that were read: itself and its indexes, and its TOAST."""
    names = {f"public.{table}", f"public.{table}_pkey", f"public.{table}_id_idx"}
    reads = [r for backend in capture.backends for r in backend.io if r.relation in names]
    toast = sum(r.blocks for r in reads if r.kind == "toast")
    return sum(r.blocks for r in reads) - toast, toast


@pytest.mark.parametrize("loaded", METHODS[:2], indirect=True)
def test_relation_totals_are_the_servers_own(loaded: PrivateCluster) -> None:
    capture, grown = run(loaded)
    assert {table: blocks(capture, table) for table in grown} == grown
    assert all(own for own, _ in grown.values())
    assert grown["docs"][1]


@pytest.mark.parametrize("loaded", METHODS, indirect=True)
def test_with_workers_and_aio_they_are_within_half_a_percent(loaded: PrivateCluster) -> None:
    for _ in range(ATTEMPTS):  # on a busy host the leader may be through before its workers come
        capture, grown = run(
            loaded,
            "set max_parallel_workers_per_gather = 2",
            "set min_parallel_table_scan_size = 0",
            "set parallel_setup_cost = 0",
        )
        for table, (own, toast) in grown.items():
            read, read_toast = blocks(capture, table)
            assert read == pytest.approx(own, rel=0.005), table
            assert read_toast == pytest.approx(toast, rel=0.005, abs=1), table
        performers = {r.performed_by for r in only(capture).io}
        if "parallel worker" in performers:
            break
    assert "parallel worker" in performers


@pytest.mark.apart  # read-ahead is set of the disk that all tests use
@pytest.mark.parametrize("scan", ["index", "sequential"])
def test_heap_and_index_are_told_apart(cluster: PrivateCluster, scan: str) -> None:
    with read_ahead(cluster.datadir, USUAL_KIB), new_backend(cluster) as connection:
        query = prepare(cluster, connection, scan, "cold")
        pid = connection.info.backend_pid
        with trace(pid, by_relation=True, dsn=cluster.dsn()) as tracer:
            buffers = explain_buffers(connection, query)
    capture = tracer.capture()
    (found,) = only(capture).queries
    heap = [
        r for r in found.io if r.relation == f"public.{benchmark_table.TABLE}" and r.kind == "heap"
    ]
    index = [r for r in found.io if r.relation == f"public.idx_{benchmark_table.TABLE}_id"]
    assert {r.kind for r in index} <= {"index"}
    assert sum(r.blocks for r in heap + index) == buffers.read - buffers.planning_read
    seen = patterns(heap)
    assert seen["first"] == 1, (seen, heap)
    followed = seen["sequential"] + seen["near"] + seen["random"]
    if scan == "index":
        assert sum(r.blocks for r in index)
        assert seen["random"] >= 0.95 * followed
    else:
        assert not index
        assert seen["sequential"] >= 0.99 * followed


def test_without_a_connection_a_relation_is_its_path(cluster: PrivateCluster) -> None:
    with new_backend(cluster) as connection:
        path = "select pg_relation_filepath(%s::regclass)"
        row = connection.execute(path, [benchmark_table.TABLE]).fetchone()
        assert row is not None
        query = prepare(cluster, connection, "sequential", "cold")
        with trace(connection.info.backend_pid, by_relation=True) as tracer:
            buffers = explain_buffers(connection, query)
    (found,) = only(tracer.capture()).queries
    assert {(r.kind, r.tablespace, r.relation) for r in found.io} == {
        ("relation", "pg_default", row[0])
    }
    assert sum(r.blocks for r in found.io) == buffers.read


def test_without_being_asked_for_no_relation_is_told(cluster: PrivateCluster) -> None:
    with new_backend(cluster) as connection:
        query = prepare(cluster, connection, "index", "cold")
        with trace(connection.info.backend_pid, dsn=cluster.dsn()) as tracer:
            connection.execute(query)
    reads = only(tracer.capture()).io
    assert {"heap", "index"} <= {r.kind for r in reads}
    assert {r.relation for r in reads} == {None}


def test_a_spill_is_not_the_tables(cluster: PrivateCluster, connection: Connection) -> None:
    connection.execute("set work_mem = '64kB'")
    with trace(connection.info.backend_pid, by_relation=True, dsn=cluster.dsn()) as tracer:
        connection.execute(
            f"select count(*) from (select * from {benchmark_table.TABLE} order by info) t"
        )
    spilled = [r for r in only(tracer.capture()).io if r.kind == "temporary"]
    assert sum(r.bytes for r in spilled) > 1 << 20
    assert {(r.tablespace, r.relation) for r in spilled} == {("pg_default", "base/pgsql_tmp")}


def test_a_file_that_is_gone_has_the_name_that_it_had(disk_directory: Path) -> None:
    path = disk_directory / "gone"
    path.write_bytes(bytes(8192))
    with Worker() as one:
        one.do(f"file = open({str(path)!r}, 'rb')")
        path.unlink()
        with trace(one.pid, any_process=True, by_relation=True) as tracer:
            one.do("assert len(os.pread(file.fileno(), 8192, 0)) == 8192")
    names = {r.relation for r in only(tracer.capture()).io}
    assert any(name and name.endswith(f"/{disk_directory.name}/gone") for name in names), names


def test_wal_is_known_by_its_name_on_another_disk_too(disk_directory: Path) -> None:
    folder = disk_directory / "15"
    folder.mkdir()
    segments = ["000000010000000000000001", "00000001000000A9000000FF"]
    names = [*segments, f"{segments[1]}.partial", segments[1][:-2]]
    for name in names:
        (folder / name).write_bytes(bytes(8192))
    with Worker() as one, trace(one.pid, any_process=True, by_relation=True) as tracer:
        for name in names:
            one.do(f"open({str(folder / name)!r}, 'rb', buffering=0).read(8192)")
    shown = {Place(r.kind, r.tablespace, r.relation) for r in only(tracer.capture()).io}
    wal = sum(r.count for r in only(tracer.capture()).io if r.kind == "wal")
    assert (wal, Place("wal", None, "pg_wal") in shown) == (2, True)
    others = {place.relation for place in shown if place.kind == "other"}
    assert {name for name in others if name and "/15/" in name} == {
        f"…/{'/'.join((folder / name).resolve().parts[-4:])}" for name in names[2:]
    }
    assert not any(place.kind == "relation" for place in shown), shown


def test_a_text_is_the_servers_where_it_has_one(disk_directory: Path) -> None:
    settings = {"shared_preload_libraries": "pg_stat_statements", "fsync": False}
    long = "select " + ", ".join(f"{i} as column_{i}" for i in range(200))
    own_directory = data_directory(PG_VERSION, disk_directory)
    private = CopiedCluster(settings, bindir=bindir(PG_VERSION), directory=own_directory)
    with private, private.connect() as connection:
        connection.execute("create schema elsewhere")
        connection.execute("create extension pg_stat_statements schema elsewhere")
        with trace(connection.info.backend_pid, dsn=private.dsn()) as tracer:
            connection.execute(long)
            connection.execute("create role r password 'secret'")
        found = only(tracer.capture()).queries
        query, utility = sorted(found, key=lambda q: "create" in (q.text or ""))
        assert query.query_id
        assert not query.text_cut
        assert query.text == "select " + ", ".join(f"${i + 1} as column_{i}" for i in range(200))
        assert "secret" not in (utility.text or "")
        with trace(connection.info.backend_pid) as tracer:
            connection.execute(long)
        assert only(tracer.capture()).queries[0].text_cut


# The commands


def test_a_report_by_relation(small: PrivateCluster, own: Connection) -> None:
    quoted = '"' + STRANGE.replace('"', '""') + '"'
    own.execute(f"create table {quoted} as select generate_series(1, 10000) as id; checkpoint")
    small.restart()
    with small.connect() as connection:
        pid = connection.info.backend_pid
        options = (pid, "--by", "relation", "--dsn", small.dsn(), "--require-names")
        with Pgtrace("capture", *options) as started:
            started.attached()
            connection.execute(f"select count(*) from {quoted}")
            ended = started.stop()
        assert ended.code == 0, ended
        words = " ".join(ended.out.split())
        assert r' public."a ""quoted"" name \x1b[31m of $$ ünïcode" (heap)' in words
        assert re.search(r" pg_default: \S+.*, in /\S+\. ", words)
        with Pgtrace("capture", *options, "--json") as started:
            started.attached()
            connection.execute("select count(*) from pg_proc")
            ended = started.stop()
        assert "pg_catalog.pg_proc" in {
            reads["relation"] for reads in json.loads(ended.out)["backends"][0]["io"]
        }
        with Pgtrace("attach", *options) as started:
            started.attached()
            connection.execute("select count(*) from pg_depend")
            ended = started.stop()
        assert " pg_catalog.pg_depend (heap) " in " ".join(ended.out.split())
        connection.execute(f"drop table {quoted}")


def test_names_that_were_demanded_and_cannot_be_had(small: PrivateCluster, own: Connection) -> None:
    pid = own.info.backend_pid
    absent = ("--dsn", small.dsn(dbname="absent"))
    ended = pgtrace("capture", pid, *absent, "--require-names")
    assert (ended.code, ended.out) == (7, "")
    assert re.search(r'^pgtrace: names: .*database "absent" does not exist$', ended.err, re.M)
    own.execute("create database closed")
    own.execute("revoke connect on database closed from public")
    own.execute("create role somebody login")
    as_somebody = ("--dsn", small.dsn(user="somebody"))
    ended = pgtrace("capture", pid, *as_somebody, "--require-names")
    assert (ended.code, ended.out) == (7, "")
    assert "may not connect to closed" in ended.err
    ended = pgtrace("capture", pid, "--require-names")
    assert (ended.code, ended.out) == (2, "")
    # Without being demanded they are missing, and the capture says why
    ended = pgtrace("capture", pid, *absent, "--duration", 1, "--json")
    assert ended.code == 0
    (missing,) = json.loads(ended.out)["probes"]["not_measured"]
    assert re.match(r'names: .*database "absent" does not exist', missing)
    own.close()
    small.restart()
    with small.connect(dbname="closed") as closed:
        options = (closed.info.backend_pid, *as_somebody, "--datname", "closed", "--by", "relation")
        with Pgtrace("capture", *options, "--json") as started:
            started.attached()
            closed.execute("select count(*) from pg_proc, pg_class")
            ended = started.stop()
    (missing,) = json.loads(ended.out)["probes"]["not_measured"]
    assert re.match("names of database closed: .*permission denied", missing)
    with small.connect() as connection:
        connection.execute("drop database closed")
        connection.execute("drop role somebody")


def test_a_database_that_closes_while_names_are_demanded(small: PrivateCluster) -> None:
    with small.connect() as connection:
        connection.execute("create role somebody login")
        options = ("--server", small.datadir, "--dsn", small.dsn(user="somebody"))
        with Pgtrace("capture", *options, "--require-names", "--json") as started:
            started.attached()
            # Copied file by file, so that its catalogs have to be read
            connection.execute("create database closed strategy file_copy")
            connection.execute("revoke connect on database closed from public")
            with small.connect(dbname="closed") as closed:
                closed.execute("select count(*) from pg_class")
            ended = started.stop()
        assert ended.code == 7, ended.err
        assert re.search(r"^pgtrace: names of database closed: .*denied", ended.err, re.MULTILINE)
        assert json.loads(ended.out)["totals"]["read"]["count"]
        connection.execute("drop database closed")
        connection.execute("drop role somebody")
