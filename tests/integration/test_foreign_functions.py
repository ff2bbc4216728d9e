"""Planning runs functions that others wrote. `report --planner --dsn` lends them nobody's rights.

The attack is played: eve, an ordinary role, leaves a function that is declared immutable and has
the server run a program where it may, after it took back whatever role was set.
"""

import shlex
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from psycopg.conninfo import conninfo_to_dict

from captures import some_backend, some_capture, some_query
from fix_cluster import Connection
from pgtrace.__main__ import main
from pgtrace.errors import PgtraceError, UsageError
from pgtrace.lab.core import existing_server
from pgtrace.lab.core.private_cluster import PrivateCluster
from pgtrace.model import encoding
from pgtrace.model.capture import Capture
from pgtrace.postgres import connection, explain

DATABASE = "shared"
ROLES = """
create role eve login;
create role bob login;
create role runner login in role pg_execute_server_program;
create role reader login noinherit in role pg_read_server_files;
create role writer login in role pg_write_server_files;
create role middle in role pg_execute_server_program;
create role hidden login noinherit in role middle;
create role chief login superuser;
create role heir login noinherit in role chief;
"""
FORBIDDEN = ("postgres", "chief", "heir", "runner", "reader", "writer", "hidden")
TAKEN_BACK = {
    "as it is": "",
    "reset role": "reset role;",
    "set role": "set role postgres;",
    "set_config": "perform set_config('role', 'none', false);",
    "session authorization": "reset session authorization; set session authorization postgres;",
}
TEXT = "select count(*) from eve.notes where id = eve.innocent()"


@pytest.fixture(scope="module")
def db(cluster: PrivateCluster) -> Iterator[Connection]:
    """A database which a superuser looks after, and in which eve has a schema."""
    with cluster.connect() as helper:
        for line in ROLES.strip().splitlines():
            helper.execute(line.encode())
        helper.execute(f"create database {DATABASE}")
        with cluster.connect(dbname=DATABASE) as chief:
            chief.execute("create schema eve authorization eve")
            chief.execute("create schema bob authorization bob")
            yield chief
        helper.execute(f"drop database {DATABASE} with (force)")
        for line in reversed(ROLES.strip().splitlines()):
            helper.execute(f"drop role {line.split()[2].rstrip(';')}".encode())


@pytest.fixture
def own_database(cluster: PrivateCluster, db: Connection) -> Iterator[str]:
    """A database that eve owns."""
    with cluster.connect() as chief:
        chief.execute("create database eves owner eve")
        yield "eves"
        chief.execute("drop database eves with (force)")


@pytest.fixture
def mark(cluster: PrivateCluster) -> Iterator[Path]:
    """What the attack leaves, if the server ran its program."""
    path = cluster.datadir / "ran"
    yield path
    path.unlink(missing_ok=True)


@pytest.fixture
def attack(cluster: PrivateCluster, db: Connection, mark: Path) -> Callable[[str], None]:
    """Leave the function. Whatever it may not do it keeps to itself, and goes on."""

    def leave(taken_back: str) -> None:
        run = f"copy (select 1) to program ''cat > {mark}''"
        steps = [*(f"{step.strip()};" for step in taken_back.split(";") if step.strip())]
        tried = "".join(f"begin {step} exception when others then null; end;" for step in steps)
        with cluster.connect(dbname=DATABASE, user="eve") as eve:
            eve.execute("create table if not exists eve.notes (id int)")
            eve.execute(
                "create or replace function eve.worker() returns int volatile language plpgsql as "
                f"$$ begin {tried} begin execute '{run}'; exception when others then null; end;"
                " return 1; end $$".encode()
            )
            eve.execute(
                "create or replace function eve.innocent() returns int immutable language plpgsql "
                "as $$ begin perform eve.worker(); return 1; end $$"
            )
            eve.execute("grant usage on schema eve to public; grant select on eve.notes to public")

    return leave


def capture_by(*roles: str | None, text: str = TEXT) -> Capture:
    return some_capture(
        *(
            some_backend(usename=role, datname=DATABASE, queries=[some_query(text=text)])
            for role in roles
        )
    )


def test_the_attack_is_one(
    cluster: PrivateCluster, db: Connection, attack: Callable[[str], None], mark: Path
) -> None:
    """Else nothing below shows anything: with `set role`, a superuser's session runs it."""
    attack(TAKEN_BACK["set_config"])
    with cluster.connect(dbname=DATABASE) as chief, chief.transaction():
        chief.execute("set transaction read only")
        chief.execute("set local role eve")
        chief.execute(f"explain {TEXT}".encode())
    assert mark.exists()


@pytest.mark.parametrize("how", TAKEN_BACK)
@pytest.mark.parametrize("options", ["", "-c role=eve", "-c session_authorization=eve"])
def test_no_superusers_session_is_lent(
    cluster: PrivateCluster,
    attack: Callable[[str], None],
    mark: Path,
    how: str,
    options: str,
) -> None:
    attack(TAKEN_BACK[how])
    with pytest.raises(UsageError, match="superuser"):
        explain.explain(cluster.dsn(dbname=DATABASE, options=options), capture_by("eve"))
    assert not mark.exists()


@pytest.mark.parametrize("role", FORBIDDEN)
def test_no_role_that_could_become_more_is_lent(
    cluster: PrivateCluster, attack: Callable[[str], None], mark: Path, role: str
) -> None:
    """Not for its own statements either: eve's function may stand in these."""
    attack("set role middle; set role chief; set role pg_execute_server_program;")
    with pytest.raises(UsageError, match=r"superuser|could become (chief|pg_)"):
        explain.explain(cluster.dsn(dbname=DATABASE, user=role), capture_by("eve", role))
    assert not mark.exists()


@pytest.mark.parametrize("how", TAKEN_BACK)
def test_the_role_that_ran_a_statement_has_it_explained(
    cluster: PrivateCluster, attack: Callable[[str], None], mark: Path, how: str
) -> None:
    attack(TAKEN_BACK[how])
    found = explain.explain(cluster.dsn(dbname=DATABASE, user="eve"), capture_by("eve"))
    assert (found.role, found.explained, found.failed) == ("eve", 1, {})
    assert not mark.exists()


def test_what_another_role_ran_is_not_run_as_oneself(
    cluster: PrivateCluster, db: Connection
) -> None:
    """eve's function reads what bob alone may read, if bob has it planned."""
    with cluster.connect(dbname=DATABASE, user="bob") as bob:
        bob.execute("create table bob.secrets (id int)")
    with cluster.connect(dbname=DATABASE, user="eve") as eve:
        eve.execute(
            "create function eve.reads() returns int immutable language plpgsql as $$ begin "
            "perform from bob.secrets; raise exception 'bob gave them away'; end $$"
        )
    capture = capture_by("eve", "eve", None, text="select eve.reads()")
    capture.backends += capture_by("bob", text="select 1").backends
    found = explain.explain(cluster.dsn(dbname=DATABASE, user="bob"), capture)
    assert (found.explained, found.of_others) == (1, {"eve": 2})
    assert found.failed == {"the role that ran it is not known": 1}


def test_the_words_to_type_name_a_connection_that_works(
    cluster: PrivateCluster,
    attack: Callable[[str], None],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    attack("")
    file = tmp_path / "a.json"
    file.write_bytes(encoding.encode(capture_by("chief", "eve")))
    assert main(["report", "--planner", "--dsn", cluster.dsn(dbname=DATABASE), str(file)]) == 2
    said = capsys.readouterr().err
    assert "role postgres is a superuser" in said
    named = shlex.split(said[said.index("--dsn '") :])[1]
    assert conninfo_to_dict(named)["user"] == "eve"
    assert main(["report", "--planner", "--dsn", named, str(file)]) == 0
    shown = capsys.readouterr().out
    assert "1 of 1 were explained" in shown
    assert "Statements of role chief: 1. They" in shown


def test_a_capture_of_superusers_alone_is_told_that_nothing_helps(
    cluster: PrivateCluster, db: Connection
) -> None:
    with pytest.raises(UsageError, match="no other role ran statements of database shared"):
        explain.explain(cluster.dsn(dbname=DATABASE), capture_by("postgres", "chief"))


@pytest.mark.parametrize("late_s", [0, 0.5])
def test_a_function_that_never_ends_does_not_hold_the_report_up(
    cluster: PrivateCluster, db: Connection, monkeypatch: pytest.MonkeyPatch, late_s: float
) -> None:
    """It catches the cancellation of the server's statement_timeout. Also where this thread is
    late once the time runs, as on a busy CPU."""
    start = threading.Timer.start

    def start_and_be_late(timer: threading.Timer) -> None:
        start(timer)
        time.sleep(late_s)

    monkeypatch.setattr(threading.Timer, "start", start_and_be_late)
    monkeypatch.setattr(explain, "MOST_S", 1.0)
    monkeypatch.setattr(explain, "SPARE_S", 1.0)
    with cluster.connect(dbname=DATABASE, user="eve") as eve:
        eve.execute(
            "create or replace function eve.stays() returns int immutable language plpgsql as $$ "
            "begin loop begin perform pg_catalog.pg_sleep(1); "
            "exception when query_canceled then null; end; end loop; end $$"
        )
        found = explain.explain(
            cluster.dsn(dbname=DATABASE, user="eve"), capture_by("eve", text="select eve.stays()")
        )
    assert (found.explained, found.failed) == (0, {"the server gave no answer in time": 1})
    with cluster.connect() as chief:
        chief.execute(
            "select pg_terminate_backend(pid) from pg_stat_activity where usename = 'eve'"
        )


def test_no_setting_of_a_databases_owner_leads_a_connection_of_ours_astray(
    cluster: PrivateCluster, own_database: str, mark: Path
) -> None:
    """Its search_path has eve's relations before those of pg_catalog."""
    run = f"copy (select 1) to program ''cat > {mark}''"
    with cluster.connect(dbname=own_database, user="eve") as eve:
        eve.execute(
            "create schema first; grant usage on schema first to public;"
            "create function first.run() returns int volatile language "
            f"plpgsql as $$ begin execute '{run}'; return 1; end $$;"
            "create view first.pg_roles as"
            " select first.run() = 1 as rolsuper, current_user as rolname;"
            "create view first.pg_namespace as select first.run() as oid, '' as nspname;"
            "create view first.pg_class as select first.run() as oid;"
            "grant select on first.pg_roles, first.pg_namespace, first.pg_class to public;"
            "alter database eves set search_path = first, pg_catalog".encode()
        )
    dsn = cluster.dsn(dbname=own_database)
    with connection.connect(dsn) as own:
        for query in ("relations", "extension", "databases", "cluster", "activity"):
            own.rows(connection.query_text(query), {})
    with pytest.raises(PgtraceError):
        existing_server.find(dsn, shared_host=False)
    assert not mark.exists()


SETTINGS = """
select pg_catalog.current_setting(name) from pg_catalog.unnest(array[
    'application_name', 'search_path', 'transaction_read_only', 'jit', 'max_parallel_workers',
    'statement_timeout', 'lock_timeout'
]) as name
"""


def test_every_question_is_asked_quietly(
    cluster: PrivateCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PGAPPNAME", "another")
    monkeypatch.setattr(connection, "_QUERIES", tmp_path)
    (tmp_path / "settings.sql").write_text(SETTINGS)
    with connection.connect(cluster.dsn()) as own:
        asked = [value for (value,) in own.ask("settings", tuple[str])]
        with own.undone() as session:
            undone = [value for (value,) in session.execute(SETTINGS).fetchall()]
    assert asked == ["pgtrace", "pg_catalog, pg_temp", "on", "off", "0", "10s", "1s"]
    assert undone == ["pgtrace", '"$user", public', "on", "off", "0", "5s", "500ms"]
