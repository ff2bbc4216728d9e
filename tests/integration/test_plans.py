"""Which statements would change their plans: explained only, and nothing is ever executed."""

from collections.abc import Iterator

import pytest

from fix_cluster import Connection
from pgtrace.errors import DatabaseError
from pgtrace.lab.core.private_cluster import PrivateCluster
from pgtrace.model.capture import (
    Backend,
    Capture,
    Host,
    Latencies,
    Lost,
    Probes,
    Query,
    Server,
    Total,
)
from pgtrace.postgres import explain

SCHEMA = """
create table t (id int, filler text);
insert into t select random() * 100000, repeat('x', 200) from generate_series(1, 100000);
create index t_id on t (id);
create table log (at timestamptz default now());
create table parts (id int, filler text) partition by range (id);
create table parts_1 partition of parts for values from (0) to (50000);
create table parts_2 partition of parts for values from (50000) to (100001);
insert into parts select * from t;
create index parts_id on parts (id);
create function noted() returns int language sql volatile as
    'insert into log default values; select 1';
analyze;
"""


@pytest.fixture(scope="module")
def db(cluster: PrivateCluster) -> Iterator[Connection]:
    """A database of its own, whose tables do not change; its name is plans."""
    with cluster.connect() as helper:
        helper.execute("drop database if exists plans")
        helper.execute("create role planner login")
        helper.execute("create database plans owner planner")
        with cluster.connect(dbname="plans", user="planner") as connection:
            connection.execute("create schema planner")
            connection.execute(SCHEMA)
            yield connection
        helper.execute("drop database plans with (force)")
        helper.execute("drop role planner")


def capture_of(*queries: str | Query | None, datname: str = "plans") -> Capture:
    """A capture in which each of these texts ran once."""
    latency = Latencies(1, 1000, 1000, 1000)
    return Capture(
        started="2026-01-31T12:00:00.000000Z",
        duration_s=10.0,
        host=Host("6.1", 2),
        server=Server("15.18"),
        probes=Probes("libbpf", "fentry", "usdt"),
        lost=Lost(),
        totals={"read": Total()},
        backends=[
            Backend(
                1,
                datname=datname,
                usename="planner",
                queries=[
                    q if isinstance(q, Query) else Query(q, "simple", 1, 0, latency)
                    for q in queries
                ],
            )
        ],
    )


def explained(cluster: PrivateCluster, capture: Capture) -> explain.Plans:
    return explain.explain(cluster.dsn(dbname="plans", user="planner"), capture)


def test_a_statement_whose_plan_hangs_on_random_page_cost_is_found(
    cluster: PrivateCluster, db: Connection
) -> None:
    changing, steady = "select * from t where id < $1", "select count(*) from log"
    found = explained(cluster, capture_of(changing, steady))
    assert (found.database, found.random_page_cost, found.tried) == (
        "plans",
        4.0,
        [1.1, 2.0, 4.0, 8.0, 16.0],
    )
    assert (found.explained, found.failed, found.others) == (2, {}, 0)
    (statement,) = found.changed
    assert statement.text == changing
    (low, cheap), (high, dear) = statement.plans[0], statement.plans[-1]
    assert 1.1 in low
    assert 16.0 in high
    assert "t_id" in cheap
    assert dear == "Seq Scan on t"
    assert sorted(value for values, _ in statement.plans for value in values) == found.tried
    assert db.execute("show random_page_cost").fetchone() == ("4",)


def test_nothing_is_ever_executed(cluster: PrivateCluster, db: Connection) -> None:
    texts = [
        "insert into log default values",
        "delete from t where id = $1",
        "update t set id = $1",
        "select noted()",
        "with gone as (delete from t returning 1) select count(*) from gone",
        "select noted() from t where id = (select noted())",
        "select 1; drop table t",
        "select 1; commit; drop table t",
        "select 1) ; drop table t; --",
        "select * into copied from t",
        "drop table t",
        "create table made as select 1",
        "select pg_sleep(60)",
        "select pg_terminate_backend(pg_backend_pid())",
        "select nextval('numbers')",
    ]
    db.execute("create sequence if not exists numbers")
    before = db.execute(
        "select count(*), (select count(*) from log), sum(id), (select is_called from numbers),"
        " (select count(*) from pg_class) from t"
    ).fetchone()
    found = explained(cluster, capture_of(*texts))
    assert (
        before
        == db.execute(
            "select count(*), (select count(*) from log), sum(id), (select is_called from numbers),"
            " (select count(*) from pg_class) from t"
        ).fetchone()
    )
    assert found.others == 2
    assert found.failed["cannot insert multiple commands into a prepared statement"] == 2
    assert found.explained >= 9


def test_partitions_are_not_pruned_by_what_stands_for_parameters(
    cluster: PrivateCluster, db: Connection
) -> None:
    found = explained(cluster, capture_of("select * from parts where id < $1"))
    (statement,) = found.changed
    shapes = [shape for _, shape in statement.plans]
    assert all("parts_1" in shape and "parts_2" in shape for shape in shapes)
    assert "Seq Scan on parts_1" in shapes[-1]


def test_a_rule_may_make_no_plan_or_several(cluster: PrivateCluster, db: Connection) -> None:
    db.execute(
        "create table silent (id int);"
        "create rule silent as on insert to silent do instead nothing;"
        "create table loud (id int); create rule loud as on insert to loud do also"
        " insert into log select now() from t where id < new.id"
    )
    found = explained(
        cluster, capture_of("insert into silent values ($1)", "insert into loud values ($1)")
    )
    assert (found.explained, found.failed) == (2, {})
    (statement,) = found.changed
    assert statement.plans[0][1].startswith("Insert on loud (Result); Insert on log (")


def test_what_cannot_be_explained_is_counted_with_its_reason(
    cluster: PrivateCluster, db: Connection
) -> None:
    latency = Latencies(1, 1000, 1000, 1000)
    found = explained(
        cluster,
        capture_of(
            "select interval $1",
            "select * from gone",
            "select $1",
            None,
            "<unparsed 0123456789ab>",
            Query("select * from t or…", "simple", 1, 0, latency, text_cut=True),
            "begin",
            "",
        ),
    )
    assert found.explained == 1
    assert found.others == 2
    assert found.failed == {
        'syntax error at or near "$1"': 1,
        'relation "gone" does not exist': 1,
        "its text is not known": 1,
        "its text could not be told from its literals": 1,
        "its text was cut": 1,
    }


def test_only_statements_of_that_database_are_asked_for(
    cluster: PrivateCluster, db: Connection
) -> None:
    found = explained(cluster, capture_of("select 1", "select 2", datname="another"))
    assert (found.explained, found.elsewhere, found.failed) == (0, 2, {})


def test_nothing_is_left_in_the_session(cluster: PrivateCluster, db: Connection) -> None:
    with explain.connect(cluster.dsn(dbname="plans", user="planner")) as connection:
        explain._plans(connection, "select * from t where id < $1", [1.0, 9.0])
        with pytest.raises(DatabaseError, match="does not exist"):
            explain._plans(connection, "select * from gone", [1.0])
        with connection.undone() as session:
            rows = session.execute(
                "select name, current_setting('random_page_cost') from pg_prepared_statements"
            ).fetchall()
            assert rows == []
            setting = session.execute("show random_page_cost").fetchone()
            assert setting == ("4",)


def test_a_table_that_is_locked_does_not_hold_it_up(
    cluster: PrivateCluster, db: Connection
) -> None:
    with cluster.connect(dbname="plans", user="planner") as holder, holder.transaction():
        holder.execute("lock table log in access exclusive mode")
        found = explained(cluster, capture_of("select * from log", "select * from t"))
    assert found.explained == 1
    assert found.failed == {"canceling statement due to lock timeout": 1}


def test_a_connection_that_fails_is_an_error(cluster: PrivateCluster) -> None:
    with pytest.raises(DatabaseError):
        explain.explain("host=/nonexistent connect_timeout=1", capture_of("select 1"))


def test_tablespaces_with_costs_of_their_own_are_named(
    cluster: PrivateCluster, db: Connection
) -> None:
    with cluster.connect() as chief:
        chief.execute("alter tablespace pg_default set (random_page_cost = 1.5)")
        try:
            assert explained(cluster, capture_of("select 1")).own_costs == ["pg_default"]
        finally:
            chief.execute("alter tablespace pg_default reset (random_page_cost)")


@pytest.mark.parametrize(
    ("current", "sequential", "tried"),
    [
        (4, 1, [1.1, 2, 4, 8, 16]),
        (1.1, 1, [1, 1.1, 2, 4]),
        (100, 1, [16, 32, 100]),
        (0.2, 0.1, [0.1, 0.11, 0.2, 0.4, 0.8]),
        (1, 0, [1, 1.1, 2]),
    ],
)
def test_settings_around_the_present_one_are_tried(
    current: float, sequential: float, tried: list[float]
) -> None:
    assert explain.ladder(current, sequential) == tried
