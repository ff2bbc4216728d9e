"""A server that comes in the place of another is traced, also where that fails at first."""

import math
import os
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from pgtrace.engines import Request, attachments
from pgtrace.errors import PgtraceError
from pgtrace.linux.process_events import Event
from pgtrace.linux.program_file import Program, identity
from pgtrace.postgres import discovery
from pgtrace.postgres.binary import Programs
from pgtrace.postgres.discovery import Place, Server
from pgtrace.postgres.proc import Process
from pgtrace.tracing import server_watch
from pgtrace.tracing.server_watch import Servers

BINARIES = Path("/bin/true"), Path("/bin/false")


def server(
    pid: int, directory: str = "/srv/data", *, binary: Path = BINARIES[0], version: str = "17.6"
) -> Server:
    process = Process(pid, 0, pid, 0, 0, "postgres", str(binary), False, "postgres", False)
    place = Place(directory, (1, hash(directory)), None)
    return Server(process, version, place, 8192, 5432, None, "")


class Watched:
    """Servers that are restarted by hand; the engine does as it is told."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *servers: Server) -> None:
        self.now = 1000.0
        self.runs = {each.postmaster_pid: each for each in servers}
        self.failing: set[int] = set()
        self.tried: list[tuple[int, int, str | None]] = []
        self.engine: Any = SimpleNamespace(
            not_measured=[],
            query_source="memory",
            follow_postmaster=self.follow,
            let_go_of_orphans=lambda: None,
        )
        patch = monkeypatch.setattr
        patch(server_watch, "Life", Life)
        patch(Process, "binary", property(lambda process: Path(process.exe)))
        patch(server_watch, "postmaster", lambda one, memory: one.postmaster_pid)
        patch(server_watch, "unfollowed", lambda *_: None)
        patch(Server, "runs", lambda one: one.postmaster_pid in self.runs)
        patch(Servers, "_learn", lambda *_: None)
        patch(discovery, "successor", self.successor)
        patch("time.monotonic", lambda: self.now)
        target: Any = SimpleNamespace(servers=servers, whole=True)
        programs = {found for each in BINARIES[:1] if (found := identity(each))}
        self.servers = Servers(self.engine, target, Request(programs=frozenset(programs)))

    def successor(self, of: Server) -> Server | None:
        there = (each for each in self.runs.values() if each.place.is_that_of(of.place))
        return next(there, None)

    def follow(self, old: int, new: int, binary: Program | None) -> None:
        self.tried.append((old, new, str(binary) if binary else None))
        if new in self.failing:
            raise PgtraceError("no room")

    def restart(self, old: int, new: Server) -> None:
        del self.runs[old]
        self.runs[new.postmaster_pid] = new

    def watch(self, seconds: int) -> int:
        """Look ten times a second, and return how often that failed."""
        failed = 0
        for _ in range(10 * seconds):
            self.now += 0.1
            try:
                self.servers.watch({})
            except PgtraceError:
                failed += 1
        return failed

    def traced(self) -> set[int]:
        return {each.postmaster_pid for each in self.servers.all()}


class Life:
    failure = None
    overflows = 0

    def __init__(self, postmasters: set[int]) -> None:
        self.heard: list[Event] = []

    def poll(self) -> list[Event]:
        heard, self.heard = self.heard, []
        return heard

    def follow(self, old: int, new: int) -> None:
        pass


def test_a_successor_is_traced(monkeypatch: pytest.MonkeyPatch) -> None:
    watched = Watched(monkeypatch, server(1))
    watched.restart(1, server(2, binary=BINARIES[1]))
    assert watched.watch(2) == 0
    assert watched.tried == [(1, 2, str(BINARIES[1]))]
    assert watched.traced() == {2}
    assert watched.servers.first(2) == 1
    watched.restart(2, server(3, binary=BINARIES[1]))
    watched.watch(2)
    assert watched.tried[1:] == [(2, 3, None)]
    assert watched.servers.first(3) == 1


def test_it_is_looked_soon_only_while_a_server_is_away(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its end is heard of, and no start of its successor."""
    watched = Watched(monkeypatch, server(1))
    watched.watch(2)
    assert watched.servers.due() == math.inf
    del watched.runs[1]
    life: Any = watched.servers._life
    life.heard = [Event(1, 5_000_000_000, True)]
    assert watched.servers.listen()
    watched.servers.hear({})
    assert watched.servers.due() <= watched.now, "at once"
    watched.watch(10)
    assert watched.now <= watched.servers.due() <= watched.now + 0.5
    watched.runs[2] = server(2)
    watched.watch(1)
    assert watched.servers.due() == math.inf
    (gap,) = watched.servers.gaps(lambda ns: datetime.fromtimestamp(ns / 1e9, UTC))
    assert gap.began == "1970-01-01T00:00:05.000000Z"


def test_what_failed_is_tried_again_but_not_all_the_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """With the same probes; until then all is as it was, and no gap has ended."""
    watched = Watched(monkeypatch, server(1))
    watched.failing = {2}
    watched.restart(1, server(2, binary=BINARIES[1]))
    assert watched.watch(20) == len(watched.tried) in range(3, 6)
    assert watched.traced() == {1}
    assert watched.servers.are_away()
    watched.failing.clear()
    assert watched.watch(6) == 0
    assert watched.traced() == {2}
    assert set(watched.tried) == {(1, 2, str(BINARIES[1]))}
    assert not watched.servers.are_away()
    assert watched.engine.not_measured == []


def test_another_comes_in_the_place_of_the_one_that_failed(monkeypatch: pytest.MonkeyPatch) -> None:
    watched = Watched(monkeypatch, server(1))
    watched.failing = {2}
    watched.restart(1, server(2))
    watched.watch(1)
    watched.restart(2, server(3))
    watched.watch(6)
    assert watched.traced() == {3}
    assert watched.servers.first(3) == 1


def test_one_that_fails_keeps_no_other_from_its_successor(monkeypatch: pytest.MonkeyPatch) -> None:
    watched = Watched(monkeypatch, server(1), server(11, "/srv/other"))
    watched.failing = {2}
    watched.restart(1, server(2))
    watched.restart(11, server(12, "/srv/other"))
    assert watched.watch(2) == 1
    assert watched.traced() == {1, 12}


@pytest.mark.parametrize("beside", ["17.6", "18.1"])
def test_a_newer_version_in_the_place_of_an_older_one(
    monkeypatch: pytest.MonkeyPatch, beside: str
) -> None:
    """Reads of its I/O workers are charged if there was a server with such when tracing began."""
    watched = Watched(monkeypatch, server(1), server(11, "/srv/other", version=beside))
    watched.restart(1, server(2, version="18.1"))
    watched.watch(2)
    assert (watched.servers.major(1), watched.servers.major(2)) == (17, 18)
    missing = ["charging reads of I/O workers: tracing began with an older server"]
    assert watched.engine.not_measured == (missing if beside == "17.6" else [])


@pytest.mark.parametrize("is_another", [False, True])
@pytest.mark.parametrize("error", [PgtraceError("no room"), OSError("gone")])
def test_of_probes_that_cannot_all_be_attached_none_stays(
    monkeypatch: pytest.MonkeyPatch, is_another: bool, error: Exception
) -> None:
    """What says why is not measured; all else is for who tries again."""
    links = ["of before"]
    loaded: Any = SimpleNamespace(
        attached=1, detach=lambda keep: links.__delitem__(slice(keep, None))
    )
    request: Any = SimpleNamespace(binaries=[], aio=True, query_ids=False)
    missing: list[str] = []
    tried = attachments.Attachments(loaded, request, "kprobe", missing, no_usdt=False, uring={})
    tried.query_source = "memory"

    def attach(*_: object) -> list[str]:
        links.append("half of it")
        raise error

    monkeypatch.setattr(tried, "_attach_asking", attach)
    new: Any = SimpleNamespace(pid=os.getpid(), io_workers=True, aio=True)
    with Programs() as programs:
        binary = programs.of(BINARIES[0]) if is_another else None
        for _ in range(2):
            if isinstance(error, OSError):
                with pytest.raises(OSError, match="gone"):
                    tried.follow(new, binary)
            else:
                tried.follow(new, binary)
                (reason,) = missing
                assert reason.endswith("of the server started since: no room")
            assert links == ["of before"]
