"""Who ended is let go of, whatever becomes of another that ended with him."""

from collections.abc import Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from pgtrace.engines import Counts, Key, Request, TaskSnapshot
from pgtrace.failures import Failures
from pgtrace.postgres.titles import Title
from pgtrace.tracing.charging import Registry
from pgtrace.tracing.identities import Identities
from pgtrace.tracing.options import TraceOptions
from pgtrace.tracing.server_watch import Servers
from pgtrace.tracing.targets import Target
from pgtrace.tracing.traced_process import TracedProcess

BAD, GOOD = (2, 4), (1, 3, 5)
READ = Key("query", "backend", False, "1", "random", "device", 0)
READS = Counts({7: 11}, 1100, 100, 111, 11, 8192 * 11)


def task(serial: int) -> TaskSnapshot:
    title = b"bad" if serial in BAD else b"postgres: alice shop [local] idle"
    return TaskSnapshot(serial, 100 + serial, 100 + serial, 0, 0, title, 1, 1)


class Engine:
    """In which all have ended long ago who were not let go of."""

    failures = Failures()
    query_source = "memory"

    def __init__(self) -> None:
        self.there = sorted(BAD + GOOD)

    def poll(self, *, settled: bool) -> list[Any]:
        return []

    def serials(self) -> list[tuple[int, int, int]]:
        return [(serial, 100 + serial, 1) for serial in self.there]

    def task(self, serial: int) -> TaskSnapshot:
        return task(serial)

    def release(self, serials: Sequence[int]) -> list[TaskSnapshot]:
        self.there = [each for each in self.there if each not in serials]
        return [task(serial) for serial in serials]

    def let_go_of_orphans(self) -> None:
        pass

    def losses(self) -> Any:
        return SimpleNamespace(backends=1)


@pytest.fixture
def engine() -> Any:
    Engine.failures = Failures()
    return Engine()


@pytest.fixture
def registry(engine: Any) -> Registry:
    options = TraceOptions()
    return Registry(engine, Target(whole=True), options, None, Request(options))


def failing_with(bad: bytes) -> Any:
    def title(_: Identities, raw: bytes, postmaster: int) -> Title:
        if raw == bad:
            raise ValueError("Exceeds the limit")
        return Title("client backend")

    return title


@pytest.mark.parametrize("way", ["poll", "finish"])
def test_one_who_cannot_be_met(
    registry: Registry, engine: Any, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    monkeypatch.setattr(Identities, "title", failing_with(b"bad"))
    getattr(registry, way)()
    assert engine.there == list(BAD)
    (reason,) = engine.failures.reasons()
    assert "ValueError" in reason


def test_one_whose_end_fails(
    registry: Registry, engine: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = []

    def ended(_: Servers, process: TracedProcess, exit_code: int) -> None:
        if process.serial in BAD:
            raise ValueError("it")
        told.append(process.serial)

    monkeypatch.setattr(Servers, "child_ended", ended)
    registry.poll()
    assert engine.there == []
    assert told == list(GOOD)


def test_one_who_cannot_be_named(registry: Registry, monkeypatch: pytest.MonkeyPatch) -> None:
    named = []

    def name(_: Identities, process: TracedProcess) -> None:
        named.append(process.serial)
        if process.serial in BAD:
            raise ValueError("it")

    registry._processes = {serial: SimpleNamespace(serial=serial) for serial in BAD + GOOD}  # type: ignore[misc]
    monkeypatch.setattr(Identities, "name", name)
    monkeypatch.setattr(Identities, "are_new", lambda _: True)
    monkeypatch.setattr(Registry, "_look_for_ended", lambda *_: None)
    registry.poll()
    assert sorted(named) == sorted(BAD + GOOD)


@pytest.mark.parametrize("per_query", [False, True])
def test_a_leader_who_crashed_before_his_worker_is_not_kept(per_query: bool, engine: Any) -> None:
    """What the worker read is his all the same."""
    options = TraceOptions(per_query=per_query)
    registry = Registry(engine, Target(whole=True), options, None, Request(options))
    leader = TracedProcess(1, 101, 101, 0, Title("client backend"), 1, ended_ns=5)
    worker = TracedProcess(3, 103, 103, 0, Title("parallel worker"), 2, leader=leader)
    leader.helpers.append(worker)
    registry._processes = {3: worker}
    worker.final = replace(task(3), reads={READ: READS})
    registry._close(worker, worker.final)
    if not per_query:  # else each query takes them
        registry._fold_helpers()
        assert leader.helpers == []
        assert [reads.count for reads in leader.helped.values()] == [READS.count]
    assert registry._helped == {}
