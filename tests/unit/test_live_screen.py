"""What attach says of who is before a query at a lock, from what is known of them."""

from types import SimpleNamespace
from typing import Any

import pytest

from pgtrace.commands.live_screen import TextScreen
from pgtrace.postgres.blockers import Blocker


def blocked(*holders: Blocker) -> str:
    tracer: Any = SimpleNamespace(blockers=lambda account: ("relation", 2 * 10**9, [*holders]))
    account: Any = SimpleNamespace(running=None)
    return " ".join(" ".join(TextScreen(tracer, 60, per_query=True)._blocked(account)).split())


@pytest.mark.parametrize(
    ("state", "state_s", "said"),
    [
        ("idle", 3.0, "postgres b, idle for 3.00 s: select 1"),
        ("idle", 0.0, "postgres b, idle for 0 ns: select 1"),
        ("idle", None, "postgres b, idle: select 1"),
        (None, None, "postgres b: select 1"),
        (None, 3.0, "postgres b: select 1"),
    ],
)
def test_how_long_one_is_in_its_state_is_said_where_it_is_known(
    state: str | None, state_s: float | None, said: str
) -> None:
    holder = Blocker(24891, "postgres", "b", state, state_s, "select 1")
    assert f"Process 24891 is before it: {said}" in blocked(holder)


def test_who_is_not_known_has_a_question_mark() -> None:
    assert "Process 7 is before it: ?: (not shown)" in blocked(
        Blocker(7, None, None, None, None, None)
    )
