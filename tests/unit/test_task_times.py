"""What a task's time went to that the kernel half has not counted yet."""

import pytest

from pgtrace.engines import TimeSums, layout
from pgtrace.engines.slot_table import BEGUN_BEFORE
from pgtrace.engines.task_times import add_pending_time

CLIENT_READ = 0x06000000
STATEMENT = layout.STATEMENT + 5


@pytest.mark.parametrize(
    ("left_in", "before", "scope"),
    [
        (0, 0, "outside"),
        (STATEMENT, 0, "query"),
        (BEGUN_BEFORE, 0, "outside"),
        (BEGUN_BEFORE, BEGUN_BEFORE, "query"),
    ],
    ids=["idle", "in a statement", "idle when tracing began", "in one that began before"],
)
def test_a_wait_is_of_what_ran_when_it_began(left_in: int, before: int, scope: str) -> None:
    """Not of the statement that runs since it is over, and was looked at before the task left its
    CPU.
    """
    task = layout.Task()
    task.times = layout.Times(out_ns=10, in_ns=30, event=CLIENT_READ, query=left_in)
    task.seen = layout.Seen(looked_ns=31, statement=STATEMENT)
    sums: TimeSums = {}
    add_pending_time(sums, task, 100, before=before)
    assert sums == {
        ("sleep", scope, CLIENT_READ): 20,
        ("cpu", "query", 0): 70,
    }
