"""What one server showed of its I/O handles is believed of those of the same user alone."""

from types import SimpleNamespace
from typing import Any

import pytest

from pgtrace.engines import Postmaster, io_workers, layout
from unloaded_object import PROGRAM, Kept

MINE, THEIRS = 100, 200
PLACE, OTHER_PLACE = 120, 64


@pytest.fixture
def live() -> layout.Live:
    return layout.Live()


@pytest.fixture
def kept(monkeypatch: pytest.MonkeyPatch) -> Kept:
    """All run one program."""
    asked: Any = SimpleNamespace(
        attach_io_workers=lambda *_: None, attach_submissions=lambda *_: True
    )
    monkeypatch.setattr(io_workers, "probes", asked)
    monkeypatch.setattr(io_workers.program_file, "identity", lambda _: PROGRAM.identity)
    return Kept()


def server(pid: int, uid: int, *, io_workers: bool = True) -> Postmaster:
    return Postmaster(pid, uid=uid, io_workers=io_workers)


def traced(kept: Kept, live: layout.Live, *owners: int) -> io_workers.IoWorkers:
    """As many servers, of these users."""
    loaded: Any = kept
    found = io_workers.IoWorkers(loaded, live)
    assert found.attach(PROGRAM, -1) is None
    for place, uid in enumerate(owners):
        found.join(place, server(place + 1, uid))
    return found


def show(live: layout.Live, server: int, place: int) -> None:
    """As the kernel half writes down what reads of that server agreed on."""
    live.handles[server].place, live.handles[server].agreed = place, layout.CERTAIN


def told(live: layout.Live, server: int) -> int:
    handles = live.handles[server]
    return handles.place if handles.agreed >= layout.CERTAIN else 0


def test_of_the_same_user_one_tells_for_all(kept: Kept, live: layout.Live) -> None:
    workers = traced(kept, live, MINE, MINE)
    show(live, 0, PLACE)
    workers.look()
    assert told(live, 1) == PLACE
    assert kept.gone
    workers.join(1, server(7, MINE))  # it was started again
    assert (told(live, 1), live.handles[1].submitted) == (PLACE, 1)


def test_another_user_tells_nothing_of_mine(kept: Kept, live: layout.Live) -> None:
    """Whoever may run the program may have its handles say anything."""
    workers = traced(kept, live, MINE, THEIRS)
    show(live, 1, OTHER_PLACE)
    workers.look()
    assert told(live, 0) == 0
    assert not kept.gone
    show(live, 0, PLACE)
    workers.look()
    assert (told(live, 0), told(live, 1)) == (PLACE, OTHER_PLACE)
    assert kept.gone


def test_what_a_server_showed_itself_stays(kept: Kept, live: layout.Live) -> None:
    workers = traced(kept, live, MINE, MINE)
    show(live, 0, OTHER_PLACE)
    show(live, 1, PLACE)
    workers.look()
    assert (told(live, 0), told(live, 1)) == (OTHER_PLACE, PLACE)


def test_where_one_does_not_agree_the_probe_stays(kept: Kept, live: layout.Live) -> None:
    workers = traced(kept, live, MINE, THEIRS)
    show(live, 0, PLACE)
    live.handles[1].submitted = 0  # no two of its handles agreed
    workers.look()
    assert not kept.gone


def test_a_server_without_workers_is_not_waited_for(kept: Kept, live: layout.Live) -> None:
    workers = traced(kept, live, MINE)
    workers.join(1, server(2, THEIRS, io_workers=False))
    show(live, 0, PLACE)
    workers.look()
    assert kept.gone
    assert live.handles[1].submitted == 0


def test_once_the_probe_is_gone_who_comes_is_told(kept: Kept, live: layout.Live) -> None:
    """Else nothing of it would be noted, as when a server is started again by another user."""
    workers = traced(kept, live, MINE)
    show(live, 0, PLACE)
    workers.look()
    assert kept.gone
    workers.join(0, server(2, THEIRS))
    assert (told(live, 0), live.handles[0].submitted) == (PLACE, 1)
