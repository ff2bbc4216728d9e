"""What the live screen asks: the next look is answered once the last has been paid for."""

import time
from types import SimpleNamespace
from typing import Any

from pgtrace.live.answers import Answers
from pgtrace.live.frame import Look, Told

COSTS_S = 0.05


def accounts() -> list[Any]:
    """As those of many backends, it takes a CPU for a while."""
    end = time.thread_time() + COSTS_S
    while time.thread_time() < end:
        pass
    return []


def test_a_look_that_comes_too_early_is_due_when_it_can_be_answered() -> None:
    tracer: Any = SimpleNamespace(accounts=accounts, started_ns=0)
    teller: Any = SimpleNamespace()
    answers, told = Answers(tracer, teller), list[Told]()
    first, second = Look("backend", 1), Look("backend", 2)
    assert answers.of([first], told.append) == []
    left = answers.of([second], told.append)
    assert left == [second]
    assert time.monotonic() < answers.due < time.monotonic() + 100 * COSTS_S
    time.sleep(max(0.0, answers.due - time.monotonic()))
    assert answers.of(left, told.append) == []
    assert [each.number for each in told] == [1, 2]  # type: ignore[union-attr]
