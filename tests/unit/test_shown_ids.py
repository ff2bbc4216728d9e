"""Where one server's backends keep query ids is believed of those of the same user alone."""

import random
from types import SimpleNamespace
from typing import Any

import pytest

from pgtrace.engines import Postmaster, layout, query_ids
from pgtrace.engines.libbpf_engine import LibbpfEngine
from pgtrace.engines.postmasters import Postmasters
from pgtrace.engines.query_ids import QueryIds
from unloaded_object import PROGRAM, Kept

MINE, THEIRS = 100, 200
PLACE, OTHER_PLACE = 424, 64
ENTRY, AT, SHOWN = 0x7000, 96, 1234567


@pytest.fixture
def live() -> layout.Live:
    return layout.Live()


@pytest.fixture
def kept(monkeypatch: pytest.MonkeyPatch) -> Kept:
    """All run one program."""
    probes: Any = SimpleNamespace(attach_query_ids=lambda *_: [])
    monkeypatch.setattr(query_ids, "probes", probes)
    monkeypatch.setattr(query_ids.program_file, "identity", lambda _: PROGRAM.identity)
    return Kept()


def server(pid: int, uid: int, *, ids: bool = True) -> Postmaster:
    return Postmaster(pid, entry=1, uid=uid, query_ids=ids)


def traced(kept: Kept, live: layout.Live, *servers: Postmaster) -> QueryIds:
    loaded: Any = kept
    found = QueryIds(loaded, live)
    assert found.attach(PROGRAM, -1) == []
    for place, each in enumerate(servers):
        live.postmasters[place] = each.pid
        assert found.join(place, each)
    return found


def show(ids: QueryIds, pid: int, *places: int, times: int = 4) -> None:
    """As the kernel half sends what backends of that server show."""
    chance = random.Random(pid)
    for _ in range(times):
        sample = layout.Sample(postmaster=pid, argument=chance.getrandbits(64) | 1)
        for place in places:
            sample.entry[place : place + 8] = list(sample.argument.to_bytes(8, "little"))
        ids.take(bytes(sample))
    ids.look()


def told(live: layout.Live) -> tuple[int, ...]:
    return tuple(memory.query_id for memory in live.memory[:2])


def sampled(live: layout.Live) -> tuple[bool, ...]:
    return tuple(memory.sampled > 0 for memory in live.memory[:2])


def test_of_the_same_user_one_tells_for_all(kept: Kept, live: layout.Live) -> None:
    ids = traced(kept, live, server(1, MINE), server(2, MINE))
    show(ids, 2, PLACE)
    assert (told(live), sampled(live)) == ((PLACE, PLACE), (False, False))
    assert kept.gone
    assert ids.join(1, server(3, MINE))  # it was started again
    assert told(live) == (PLACE, PLACE)


def test_another_user_tells_nothing_of_mine(kept: Kept, live: layout.Live) -> None:
    """Whoever may run the program may have its backends show anything."""
    ids = traced(kept, live, server(1, MINE), server(2, THEIRS))
    show(ids, 2, OTHER_PLACE)
    assert (told(live), sampled(live)) == ((0, OTHER_PLACE), (True, False))
    assert not kept.gone
    show(ids, 1, PLACE)
    assert (told(live), sampled(live)) == ((PLACE, OTHER_PLACE), (False, False))
    assert kept.gone
    assert ids.join(1, server(3, MINE))
    assert told(live) == (PLACE, PLACE)


def test_where_one_users_are_not_found_the_probe_stays(kept: Kept, live: layout.Live) -> None:
    ids = traced(kept, live, server(1, MINE), server(2, THEIRS))
    show(ids, 1, PLACE)
    show(ids, 2, PLACE, OTHER_PLACE, times=100)
    assert (told(live), sampled(live)) == ((PLACE, 0), (False, False))
    assert not kept.gone
    assert ids.join(1, server(3, MINE))  # it is gone
    ids.look()
    assert kept.gone


def test_a_server_that_computes_none_is_not_waited_for(kept: Kept, live: layout.Live) -> None:
    ids = traced(kept, live, server(1, MINE), server(2, THEIRS, ids=False))
    show(ids, 1, PLACE)
    assert told(live) == (PLACE, 0)
    assert kept.gone


def test_who_comes_once_the_probe_is_gone_is_told_nothing_of_others(
    kept: Kept, live: layout.Live
) -> None:
    ids = traced(kept, live, server(1, THEIRS))
    show(ids, 1, OTHER_PLACE)
    assert kept.gone
    assert not ids.join(0, server(3, MINE))
    ids.look()
    assert (told(live), sampled(live)) == ((0, 0), (False, False))


def test_it_is_said_where_nothing_tells_them(kept: Kept, live: layout.Live) -> None:
    ids = traced(kept, live, server(1, THEIRS))
    show(ids, 1, OTHER_PLACE)
    nothing: Any = SimpleNamespace(follow=lambda *_: None, join=lambda *_: None)
    engine = LibbpfEngine.__new__(LibbpfEngine)
    engine._attachments = engine._io_workers = nothing
    engine._live, engine._query_ids, engine._light = live, ids, None
    engine._postmasters = Postmasters(live, [server(1, THEIRS)], set)
    engine._no_uring, engine.not_measured = None, []
    engine.follow_postmaster(1, server(2, THEIRS), None)
    engine.follow_postmaster(2, server(3, MINE, ids=False), None)
    assert engine.not_measured == []
    for old in 3, 4:
        engine.follow_postmaster(old, server(old + 1, MINE), None)
        assert engine.not_measured == [query_ids.NO_PROBE]


@pytest.mark.parametrize("ended_ns", [0, 5])
def test_of_one_that_ended_it_is_not_asked_of_who_has_its_pid(
    live: layout.Live, monkeypatch: pytest.MonkeyPatch, ended_ns: int
) -> None:
    live.postmasters[0] = 4711
    live.memory[0].query_id = AT
    task = layout.Task(postmaster=4711, tgid=4712, ended_ns=ended_ns)
    task.seen.entry = ENTRY
    memory = {(4712, ENTRY + AT): SHOWN}
    monkeypatch.setattr(query_ids.binary, "pointer", lambda *where: memory[where])
    loaded: Any = None
    assert QueryIds(loaded, live).shown(task) == (0 if ended_ns else SHOWN)
