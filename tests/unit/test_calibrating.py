"""Probes that find out what backends show stay no longer than they tell something."""

import time
from collections.abc import Callable, Iterable
from types import SimpleNamespace
from typing import Any

import pytest
from test_calibration import AHEAD_NS, MANY, PLACES, Backend, busy

from pgtrace.engines import Postmaster, Request, layout, light

PROGRAM: Any = SimpleNamespace(identity=(1, 2))
SERVER = 10
"""The pid of its postmaster."""


class Kept:
    """An engine's object, of which nothing is in the kernel."""

    def __init__(self) -> None:
        self.links: list[str] = []

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
        time_ns=lambda: AHEAD_NS, monotonic_ns=lambda: 0, monotonic=time.monotonic
    )
    monkeypatch.setattr(light, "time", clock)
    monkeypatch.setattr(light, "probes", probes)
    monkeypatch.setattr(light.program_file, "identity", lambda _: PROGRAM.identity)
    return kept


def server(pid: int, *, ids: bool = True) -> Postmaster:
    return Postmaster(pid, entry=1, text=1, query_ids=ids)


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
    memory = live.memory[0]
    assert (memory.found, memory.state, memory.query_id) == (1, PLACES.state, PLACES.query_id)
    assert (kept.links, of.finish()) == ([], [])
