"""A probe that tells query ids is in the programs of servers that compute them, and in no other."""

from types import SimpleNamespace
from typing import Any

import pytest

from pgtrace.engines import Postmaster, Request, attachments, probes
from pgtrace.engines.attachments import Attachments

COMPUTING: Any = SimpleNamespace(identity=(1, 1))
OTHER: Any = SimpleNamespace(identity=(1, 2))


class Tried:
    """Probes of queries in both programs, of which nothing is in the kernel."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.attached: list[object] = []
        faked: Any = SimpleNamespace(
            tells_of_aborts=lambda _: True,
            attach_queries=lambda *_, **__: [],
            MissingProbesError=probes.MissingProbesError,
        )
        monkeypatch.setattr(attachments, "probes", faked)
        loaded: Any = SimpleNamespace(attached=0)
        request = Request(
            binaries=((COMPUTING, -1), (OTHER, -1)), query_ids=frozenset({COMPUTING.identity})
        )
        self.of = Attachments(loaded, request, "kprobe", [], no_usdt=False, uring={})
        monkeypatch.setattr(self.of, "_attach_ids", self.attach)
        self.of._attach_queries(lambda: None)

    def attach(self, program: object, _pid: int) -> list[str]:
        self.attached.append(program)
        return []


def test_when_tracing_begins(monkeypatch: pytest.MonkeyPatch) -> None:
    assert Tried(monkeypatch).attached == [COMPUTING]


@pytest.mark.parametrize("computes", [True, False])
def test_in_what_a_server_runs_that_is_started_again(
    monkeypatch: pytest.MonkeyPatch, computes: bool
) -> None:
    tried = Tried(monkeypatch)
    another: Any = SimpleNamespace(identity=(1, 3))
    tried.of.follow(Postmaster(7, query_ids=computes), another)
    assert tried.attached[1:] == [another] * computes
