"""Backends that part while they are idle, and those that serve pgtrace alone: no statement of
theirs is in a capture.
"""

import os
import signal
import time

import pytest
from test_no_usdt import no_notes as no_notes  # noqa: PLC0414  # a fixture
from test_queries import PROBE_TYPE

from child import wait_until_gone
from pgtrace.lab.core.private_cluster import PrivateCluster
from pgtrace.model.capture import Capture, Query
from pgtrace.reporters.terminal.capture_report import render
from pgtrace.tracing.options import TraceOptions
from pgtrace.tracing.targets import Target
from pgtrace.tracing.tracer import Tracer
from wire import SYNC, Wire, query


@pytest.fixture(scope="module", params=["usdt", "uprobe"])
def either(request: pytest.FixtureRequest) -> PrivateCluster:
    """With probes, and without."""
    found = request.getfixturevalue("cluster" if request.param == "usdt" else "no_notes")
    assert isinstance(found, PrivateCluster)
    return found


def ended(wire: Wire) -> None:
    wait_until_gone(wire.pid)


def queries_of(taken: Capture, *wires: Wire) -> list[list[Query]]:
    """By backend, all that was counted of these, and not in the report of others."""
    return [b.queries for wire in wires for b in taken.backends if b.pid == wire.pid]


@pytest.mark.parametrize("whole", [True, False])
@pytest.mark.parametrize("politely", [True, False])
def test_idle_backend_that_disconnects_leaves_no_statement(
    either: PrivateCluster, politely: bool, whole: bool
) -> None:
    """As each connection of a pool does in the end. A Sync alone is no query either."""
    with Wire(either) as used, Wire(either) as fresh, Wire(either) as syncing:
        used.ask(query("select 1"))
        three = used, fresh, syncing
        target = Target.of_pids([wire.pid for wire in three])
        if whole:
            target = Target.find(either.postmaster_pid)
        tracer = Tracer(target, TraceOptions(probe_type=PROBE_TYPE))
        try:
            syncing.ask(SYNC)
            for wire in three:
                if politely:
                    wire.end()
                else:
                    os.kill(wire.pid, signal.SIGTERM)
                ended(wire)
            time.sleep(0.3)  # so long one who ended is waited for
            meanwhile = queries_of(tracer.capture(), *three)
        finally:
            taken = tracer.stop()
    assert meanwhile == queries_of(taken, *three) == [[], [], []]
    assert "▶" not in render(taken)


@pytest.mark.parametrize("asked_for", [True, False])
def test_own_queries_are_left_out_unless_asked_for(
    cluster: PrivateCluster, asked_for: bool
) -> None:
    """Of the connections by --dsn alone: who bears the same name is somebody else."""
    target = Target.find(cluster.postmaster_pid)
    tracer = Tracer(
        target, TraceOptions(probe_type=PROBE_TYPE, dsn=cluster.dsn(), own_queries=asked_for)
    )
    try:
        assert tracer.names is not None
        tracer.names.require()
        with Wire(cluster, application_name="pgtrace") as wire:
            wire.ask(query("select 1"))
    finally:
        taken = tracer.stop()
    (mine,) = queries_of(taken, wire)
    assert [one.text for one in mine] == ["select $1"]
    others = [b for b in taken.backends if b.pid != wire.pid]
    own = [b for b in others if b.application_name == "pgtrace"]
    assert bool(own) == asked_for
    assert any(q.calls for b in others for q in b.queries) == asked_for
