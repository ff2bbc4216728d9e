"""Probes that find out what backends show stay no longer than they tell something."""

from collections.abc import Callable, Iterable
from types import SimpleNamespace
from typing import Any

import pytest
from test_calibration import AHEAD_NS, MANY, PLACES, Backend, busy

from pgtrace.engines import Postmaster, Request, layout, light
from pgtrace.engines.calibration import Offsets

PROGRAM: Any = SimpleNamespace(identity=(1, 2))
SERVER, SECOND, THIRD = 10, 20, 30
"""The pids of their postmasters."""
MINE, THEIRS = 100, 200
OTHER_PLACES = PLACES._replace(state=64, start=80, query_id=128)


class Kept:
    """An engine's object, of which nothing is in the kernel."""

    def __init__(self) -> None:
        self.links: list[str] = []
        self.passed_s = 0.0

    @property
    def attached(self) -> int:
        return len(self.links)

    def since(self, before: int) -> list[str]:
        return self.links[before:]

    def let_go(self, links: list[str]) -> None:
        self.links = [each for each in self.links if each not in links]


@pytest.fixture
def live() -> layout.Live:
    return layout.Live()


@pytest.fixture
def kept(monkeypatch: pytest.MonkeyPatch) -> Kept:
    kept = Kept()

    def attach(*_: object, ids: bool) -> None:
        kept.links += ["of activities"] + ["of ids"] * ids

    probes: Any = SimpleNamespace(attach_calibration=attach)
    clock: Any = SimpleNamespace(
        time_ns=lambda: AHEAD_NS,
        monotonic_ns=lambda: 0,
        monotonic=lambda: 1000.0 + kept.passed_s,
    )
    monkeypatch.setattr(light, "time", clock)
    monkeypatch.setattr(light, "probes", probes)
    monkeypatch.setattr(light.program_file, "identity", lambda _: PROGRAM.identity)
    return kept


def server(pid: int, uid: int = MINE, *, ids: bool = True) -> Postmaster:
    return Postmaster(pid, entry=1, text=1, uid=uid, query_ids=ids)


def traced(kept: Kept, live: layout.Live, *servers: Postmaster) -> light.Light:
    loaded: Any = kept
    for place, each in enumerate(servers):
        live.postmasters[place] = each.pid
    computing = {PROGRAM.identity for each in servers if each.query_ids}
    request = Request(
        postmasters=servers, calibrate=((PROGRAM, -1),), query_ids=frozenset(computing)
    )
    return light.Light(loaded, live, request)


def show(of: light.Light, samples: Iterable[layout.Sample], server: int = SERVER) -> None:
    """As the kernel half sends what backends of that server show."""
    for sample in samples:
        sample.postmaster = server
        of.take(bytes(sample))


def told(live: layout.Live, server: int) -> tuple[int, int, int] | None:
    """Where the kernel half looks for state, start and id of that server's backends."""
    memory = live.memory[server]
    return (memory.state, memory.start, memory.query_id) if memory.found else None


def places(of: Offsets) -> tuple[int, int, int | None]:
    return of.state, of.start, of.query_id


def silent() -> Backend:
    backend = Backend(7, PLACES)
    backend.silent = True
    while len(backend.samples) < MANY:
        backend.statement(5)
    return backend


def without_ids() -> Backend:
    backend = Backend(7, PLACES)
    while len(backend.samples) < MANY:
        backend.statement(0)
    return backend


@pytest.mark.parametrize(
    ("backend", "said"),
    [(silent, "track_activities = off"), (without_ids, "none was reported")],
)
def test_what_never_comes_keeps_no_probe(
    kept: Kept, live: layout.Live, backend: Callable[[], Backend], said: str
) -> None:
    of, samples = traced(kept, live, server(SERVER)), backend().samples
    show(of, samples[:1000])
    assert of.look()
    assert (len(kept.links), live.memory[0].sampled > 0) == (2, True)
    show(of, samples[1000:])
    assert not of.look()
    assert (kept.links, live.memory[0].sampled) == ([], 0)
    (missing,) = of.finish()
    assert missing.startswith("query ids: ")
    assert said in missing


def test_of_a_server_that_computes_no_ids_none_is_waited_for(kept: Kept, live: layout.Live) -> None:
    of = traced(kept, live, server(SERVER, ids=False))
    assert kept.links == ["of activities"]
    show(of, without_ids().samples[:100])
    assert not of.look()
    assert (kept.links, live.memory[0].found, of.finish()) == ([], 1, [])


def test_what_was_found_is_told(kept: Kept, live: layout.Live) -> None:
    of = traced(kept, live, server(SERVER))
    show(of, busy().samples)
    assert not of.look()
    assert told(live, 0) == places(PLACES)
    assert (kept.links, of.finish()) == ([], [])


def test_of_the_same_user_one_tells_for_all(kept: Kept, live: layout.Live) -> None:
    of = traced(kept, live, server(SERVER), server(SECOND))
    show(of, busy().samples, SECOND)
    assert not of.look()
    assert told(live, 0) == told(live, 1) == places(PLACES)
    assert kept.links == []
    of.follow(0, server(THIRD), None)  # it was started again
    assert told(live, 0) == places(PLACES)
    assert (live.memory[0].sampled, of.finish()) == (0, [])


def test_another_user_tells_nothing_of_mine(kept: Kept, live: layout.Live) -> None:
    """Whoever may run the program may have its backends show anything."""
    of = traced(kept, live, server(SERVER, MINE), server(SECOND, THEIRS))
    show(of, busy(OTHER_PLACES).samples, SECOND)
    assert of.look()
    assert (told(live, 0), told(live, 1)) == (None, places(OTHER_PLACES))
    assert [memory.sampled > 0 for memory in live.memory[:2]] == [True, False]
    assert kept.links
    show(of, busy().samples, SERVER)
    assert not of.look()
    assert (told(live, 0), told(live, 1)) == (places(PLACES), places(OTHER_PLACES))
    assert kept.links == []
    of.follow(1, server(THIRD, MINE), None)
    assert told(live, 1) == places(PLACES)
    assert of.finish() == []


def test_one_who_shows_nothing_keeps_no_probe_in_the_queries_of_others(
    kept: Kept, live: layout.Live
) -> None:
    of = traced(kept, live, server(SERVER, MINE), server(SECOND, THEIRS))
    show(of, busy().samples, SERVER)
    assert of.look()
    kept.passed_s = 59
    assert of.look()
    kept.passed_s = 61
    assert not of.look()
    assert kept.links == []
    assert (told(live, 0), told(live, 1)) == (places(PLACES), None)
    assert [memory.sampled for memory in live.memory[:2]] == [0, 0]
    (missing,) = of.finish()
    assert missing.startswith("query ids of a server that ran too few statements")


def test_of_one_that_computes_no_ids_none_is_missed(kept: Kept, live: layout.Live) -> None:
    of = traced(kept, live, server(SERVER, MINE), server(SECOND, THEIRS, ids=False))
    show(of, busy().samples, SERVER)
    assert of.look()
    kept.passed_s = 61
    assert not of.look()
    of.follow(0, server(THIRD, THEIRS, ids=False), None)
    assert (told(live, 0), of.finish()) == (None, [])


def test_who_comes_once_the_probes_are_gone_is_not_told_of_others(
    kept: Kept, live: layout.Live
) -> None:
    of = traced(kept, live, server(SERVER, THEIRS))
    show(of, busy(OTHER_PLACES).samples)
    assert not of.look()
    of.follow(0, server(THIRD, MINE), None)
    assert (told(live, 0), live.memory[0].sampled) == (None, 0)
    (missing,) = of.finish()
    assert missing.startswith("query ids of the server started since")


def test_one_that_begins_to_compute_ids(kept: Kept, live: layout.Live) -> None:
    """As it is started again: it is asked for them if a probe tells any."""
    of = traced(kept, live, server(SERVER, MINE, ids=False), server(SECOND, THEIRS))
    show(of, without_ids().samples[:100], SERVER)
    assert of.look()
    assert told(live, 0) == (PLACES.state, PLACES.start, 0)
    of.follow(0, server(THIRD, MINE), None)
    live.postmasters[0] = THIRD
    show(of, busy().samples, THIRD)
    assert of.look()
    assert told(live, 0) == places(PLACES)
    assert of.finish() == []


def test_where_no_server_is_looked_at_no_probe_stays(kept: Kept, live: layout.Live) -> None:
    of = traced(kept, live, server(SERVER)._replace(entry=0))
    assert kept.links
    assert not of.look()
    assert kept.links == []
