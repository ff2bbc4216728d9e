"""A query is of the application that its session named when it began: behind a pooler each may be
of another one.
"""

import random
from collections import Counter

import pytest

from fix_cluster import Connection, PrivateCluster
from pgtrace.model.capture import Capture
from pgtrace.tracing.tracer import trace

READ_ANEW = 16
"""Queries: bpf/query_text.bpf.h, NAMED."""
CALL = "select current_date"


def names(taken: Capture) -> Counter[str | None]:
    """The calls by application_name."""
    (backend,) = taken.backends
    found: Counter[str | None] = Counter()
    for query in backend.queries:
        if query.text == CALL:
            found[query.application_name] += query.calls
    return found


def change(connection: Connection, chance: random.Random) -> None:
    """Give the session another name, or not, in each way in which that may go."""
    new = "".join(chance.choices("abc", k=chance.choice((1, 20, 20, 20, 40))))
    for text in chance.choice(
        (
            [f"set application_name = '{new}'"],
            ["set application_name = 'meanwhile'", f"set application_name = '{new}'"],
            [f"set application_name = 'meanwhile'; set application_name = '{new}'"],
            [f"begin; set application_name = '{new}'", "rollback"],
            [f"begin; set local application_name = '{new}'", "commit"],
            [f"select set_config('application_name', '{new}', false)"],
            ["reset application_name"],
            ["discard all"],
            [],
        )
    ):
        connection.pgconn.exec_(text.encode())


@pytest.mark.parametrize("per_query", [False, True])
def test_each_call_is_of_the_name_that_it_began_with(
    cluster: PrivateCluster, per_query: bool
) -> None:
    chance = random.Random(12)
    expected: Counter[str | None] = Counter()
    with cluster.connect(application_name="at first") as connection:
        server = connection.pgconn
        with trace(connection.info.backend_pid, per_query=per_query) as tracer:
            for _ in range(300):
                change(connection, chance)
                expected[connection.info.parameter_status("application_name")] += 1
                if chance.random() < 0.5:
                    server.exec_(CALL.encode())
                else:
                    server.exec_params(CALL.encode(), [])
        taken = tracer.capture()
    assert len(expected) > 20
    assert names(taken) == expected


def test_a_name_in_the_memory_of_the_one_before(cluster: PrivateCluster) -> None:
    """A procedure that commits between two changes has it there; soon that is found."""
    calls = 2 * READ_ANEW
    with cluster.connect(application_name="name a") as connection:
        server = connection.pgconn
        server.exec_(b"set application_name = 'name b'")
        with trace(connection.info.backend_pid) as tracer:
            server.exec_(CALL.encode())
            server.exec_(
                b"do $$ begin perform set_config('application_name', 'name c', false); commit;"
                b" perform set_config('application_name', 'name d', false); end $$"
            )
            for _ in range(calls):
                server.exec_(CALL.encode())
        taken = tracer.capture()
    found = names(taken)
    assert found["name b"] <= READ_ANEW
    assert found["name b"] + found["name d"] == calls + 1
