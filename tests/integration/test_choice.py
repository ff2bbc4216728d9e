"""Which probe type for reads is taken, where a kernel refuses some."""

import os
from typing import Any

import pytest

from fix_cluster import Connection
from pgtrace.engines import libbpf_engine, probes, select
from pgtrace.errors import UnsupportedError
from pgtrace.libbpf import trials
from pgtrace.tracing.tracer import trace


def test_a_way_that_was_refused_is_not_tried_again(
    connection: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the same process; who asks for it is told why not."""
    tried: list[str] = []

    def why_not(way: str) -> str | None:
        tried.append(way)
        return "out of order" if way == "fentry" else None

    monkeypatch.setattr(select, "_refused", {})
    monkeypatch.setattr(probes, "why_not", why_not)
    pid = connection.info.backend_pid
    for _ in range(2):
        with trace(pid) as tracer:
            connection.execute("select 1")
        assert tracer.capture().probes.type != "fentry"
    assert tried.count("fentry") == 1
    with pytest.raises(UnsupportedError, match="out of order"):
        trace(pid, probe_type="fentry").__enter__()
    assert tried.count("fentry") == 2


@pytest.mark.vm(engines=["libbpf"])
def test_a_program_that_does_nothing_tells_whether_fentry_is_denied(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As what is really meant would be; and then that is not built."""
    built: list[Any] = []

    class Counted(libbpf_engine.Object):
        def __init__(self, *arguments: Any) -> None:
            built.append(arguments)
            super().__init__(*arguments)

    monkeypatch.setattr(libbpf_engine, "Object", Counted)
    monkeypatch.setattr(select, "PROBE_TYPES", ("fentry",))
    denied = trials.denies_fentry()
    reason = select.probe_types(os.getpid())["fentry"]
    assert not (denied and built)
    monkeypatch.setattr(trials, "denies_fentry", lambda: False)
    assert select.probe_types(os.getpid())["fentry"] == reason
    assert denied == ("Operation not permitted" in (reason or ""))
