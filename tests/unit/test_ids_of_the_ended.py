"""The id of its query that a backend shows, where it is known where that stands."""

from typing import Any

import pytest

from pgtrace.engines import layout, query_ids
from pgtrace.engines.query_ids import QueryIds

ENTRY, AT, SHOWN = 0x7000, 96, 1234567


@pytest.mark.parametrize("ended_ns", [0, 5])
def test_of_one_that_ended_it_is_not_asked_of_who_has_its_pid(
    monkeypatch: pytest.MonkeyPatch, ended_ns: int
) -> None:
    live = layout.Live()
    live.postmasters[0] = 4711
    live.memory[0].query_id = AT
    task = layout.Task(postmaster=4711, tgid=4712, ended_ns=ended_ns)
    task.seen.entry = ENTRY
    memory = {(4712, ENTRY + AT): SHOWN}
    monkeypatch.setattr(query_ids.binary, "pointer", lambda *where: memory[where])
    loaded: Any = None
    assert QueryIds(loaded, live).shown(task) == (0 if ended_ns else SHOWN)
