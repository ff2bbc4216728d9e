"""Who of many processes is looked at in a second."""

from types import SimpleNamespace
from typing import Any

import pytest

from pgtrace.live.activities import MOST, Activities
from pgtrace.live.frame import Doing
from pgtrace.postgres.titles import Title
from pgtrace.tracing.traced_process import TracedProcess


def processes(number: int, backend_type: str = "client backend") -> dict[int, TracedProcess]:
    title = Title(backend_type)
    return {n: TracedProcess(n, 4000 + n, 4000 + n, 1, title, 0) for n in range(number)}


@pytest.fixture
def looks(monkeypatch: pytest.MonkeyPatch) -> Activities:
    """All that are looked at are active."""
    servers: Any = None
    monkeypatch.setattr(Activities, "_look", lambda _, each: Doing(each.serial, "active"))
    return Activities(servers)


def test_it_says_whether_all_were_looked_at(looks: Activities) -> None:
    assert len(looks.look(processes(MOST), [])) == MOST
    assert looks.saw_all
    assert len(looks.look(processes(MOST + 1), [])) == MOST
    assert not looks.saw_all
    looks.look(processes(2 * MOST, "walwriter"), [])
    assert looks.saw_all, "nobody looks at these"


def test_of_postmasters_that_are_gone_nothing_is_kept(looks: Activities) -> None:
    """Else one more with each start of a server; and a pid may be another's, who has other
    addresses."""
    servers: Any = SimpleNamespace(of={2: "it runs, and nobody is there"}.get)
    looker: Any = None
    looks._servers = servers
    looks._lookers = dict.fromkeys((1, 2, 3), looker)
    looks.look(processes(1), [])
    assert looks._lookers.keys() == {1, 2}
