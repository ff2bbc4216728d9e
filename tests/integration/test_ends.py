"""Backends that end: in a query, between two, and all at once in a crash."""

import ctypes
import os
import signal
from contextlib import suppress
from typing import Any

import psycopg
import pytest
from test_no_usdt import no_notes as no_notes  # noqa: PLC0414  # a fixture
from test_partings import either as either  # noqa: PLC0414  # a fixture
from test_partings import ended, queries_of
from test_queries import PROBE_TYPE, own, wait_for

from child import wait_until_gone
from fix_cluster import Connection
from pgtrace import trace
from pgtrace.engines.attachments import Attachments
from pgtrace.engines.task_table import TaskTable
from pgtrace.lab.core.private_cluster import PrivateCluster
from pgtrace.model.capture import Query
from pgtrace.tracing.identities import Identities
from pgtrace.tracing.options import TraceOptions
from pgtrace.tracing.targets import Target
from pgtrace.tracing.traced_process import TracedProcess
from pgtrace.tracing.tracer import Tracer
from wire import FLUSH, SYNC, Wire, bind, execute, parse, query


def busy(server: PrivateCluster, *wires: Wire) -> None:
    """Wait until the server says that they are in the midst of a query."""
    with server.connect() as connection:
        for wire in wires:
            wait_for(
                lambda wire=wire: connection.execute(
                    "select 1 from pg_stat_activity where pid = %s and state = 'active' "
                    "and wait_event_type in ('Timeout', 'Lock')",
                    (wire.pid,),
                ).fetchone()
            )


def ready(server: PrivateCluster) -> bool:
    """Whether it lets anybody in."""
    try:
        server.connect().close()
    except psycopg.OperationalError:
        return False
    return True


def told(query: Query) -> tuple[str | None, str, int, int, bool]:
    return query.text, query.protocol, query.calls, query.errors, query.unfinished


def test_who_ends_while_tracing_starts_has_ended(
    cluster: PrivateCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And whoever gets its pid is somebody else: how that ends is no end of a server's process."""
    connections = [cluster.connect() for _ in range(9)]
    pids = [each.info.backend_pid for each in connections]
    attach = Attachments.attach

    def late(*arguments: Any) -> None:
        for each in connections:
            each.close()
        wait_until_gone(*pids)
        attach(*arguments)

    monkeypatch.setattr(Attachments, "attach", late)
    tracer = Tracer(Target.find(cluster.postmaster_pid), TraceOptions())
    try:
        assert sum(map(became, pids))
    finally:
        taken = tracer.stop()
    assert taken.gaps == []
    assert [b.pid for b in taken.backends if b.pid in pids and not b.ended] == []


def test_who_begins_while_tracing_starts_counts_from_when_it_has_begun(
    cluster: PrivateCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the others, who ran before: what all did until then is in no number."""
    begin, connections = TaskTable.begin, list[Connection]()
    read = "select pg_read_binary_file('global/pg_control')"

    def late(*arguments: Any, **options: Any) -> int:
        for _ in range(5):
            connections.append(cluster.connect())
            connections[-1].execute(read)
        return begin(*arguments, **options)

    monkeypatch.setattr(TaskTable, "begin", late)
    tracer = Tracer(Target.find(cluster.postmaster_pid), TraceOptions(probe_type=PROBE_TYPE))
    try:
        for each in connections:
            each.execute(read)
    finally:
        taken = tracer.stop()
    pids = [each.info.backend_pid for each in connections]
    for each in connections:
        each.close()
    found = {backend.pid: backend for backend in taken.backends}
    for pid in pids:
        began = found[pid].began
        assert began is None or began >= taken.started
        # It reads more than that when it begins
        assert 1 <= sum(io.count for io in found[pid].io) <= 3


class CloneArguments(ctypes.Structure):
    """struct clone_args: clone(2)."""

    _fields_ = [
        (name, ctypes.c_uint64)
        for name in (
            "flags", "pidfd", "child_tid", "parent_tid", "exit_signal", "stack", "stack_size",
            "tls", "set_tid", "set_tid_size", "cgroup",
        )
    ]  # fmt: skip


CLONE3 = 435


def became(pid: int) -> bool:
    """Whether a process had that pid, and ended with a status as after a crash.

    Not by ns_last_pid: a busy neighbour takes one after the other while a fork is under way.
    """
    ids = (ctypes.c_int32 * 1)(pid)
    arguments = CloneArguments(
        exit_signal=signal.SIGCHLD, set_tid=ctypes.addressof(ids), set_tid_size=1
    )
    # With the GIL held, which in the child another thread would have for ever
    child = ctypes.PyDLL(None).syscall(
        CLONE3, ctypes.byref(arguments), ctypes.c_size_t(ctypes.sizeof(arguments))
    )
    if not child:
        os._exit(3)
    return child == pid and os.WEXITSTATUS(os.waitpid(pid, 0)[1]) == 3


SLOW = "select pg_sleep(60)"
EXTENDED = [parse(SLOW), bind(), execute(), SYNC]


@pytest.mark.parametrize("per_query", [True, False])
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL], ids=["terminated", "crashed"])
@pytest.mark.parametrize("protocol", ["simple", "extended"])
def test_query_in_which_its_backend_ends_is_an_error(
    either: PrivateCluster, protocol: str, number: int, per_query: bool
) -> None:
    with Wire(either) as wire, Wire(either) as other:
        target = Target.of_pids([wire.pid, other.pid])
        tracer = Tracer(
            target, TraceOptions(probe_type=PROBE_TYPE, per_query=per_query, literals=True)
        )
        try:
            wire.send(*([query(SLOW)] if protocol == "simple" else EXTENDED))
            other.send(query(SLOW))
            busy(either, wire, other)
            os.kill(wire.pid, number)
            ended(wire)
            if number == signal.SIGKILL:  # all others have to go too
                ended(other)
        finally:
            taken = tracer.stop()
    (mine,), (others,) = queries_of(taken, wire, other)
    assert told(mine) == (SLOW, protocol, 1, 1, False)
    assert 0 < mine.latency.sum < taken.duration_s * 1e9
    crashed = number == signal.SIGKILL
    assert told(others) == (SLOW, "simple", crashed, crashed, not crashed)
    if per_query:
        events = tracer.poll()
        assert [(e.pid, e.text, e.error) for e in events if e.pid == wire.pid] == [
            (wire.pid, SLOW.encode(), True)
        ]
    if crashed:
        wait_for(lambda: ready(either))
    else:
        with suppress(ProcessLookupError):  # it goes on without its client
            os.kill(other.pid, signal.SIGTERM)


def test_query_of_before_in_which_its_backend_ends_is_an_error(either: PrivateCluster) -> None:
    with Wire(either) as wire:
        wire.send(query(SLOW))
        busy(either, wire)
        with trace(wire.pid, probe_type=PROBE_TYPE, literals=True) as tracer:
            os.kill(wire.pid, signal.SIGTERM)
            ended(wire)
        (one,) = own(tracer.capture())
    assert (one.text, one.begun_before, one.calls, one.errors) == (SLOW, True, 1, 1)


def test_who_ends_before_it_is_asked_what_it_runs_costs_no_other_its_text(
    cluster: PrivateCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    running_text, gone = Identities.running_text, []

    def late(self: Identities, process: TracedProcess, *arguments: Any) -> Any:
        if not gone:
            gone.append(process.pid)
            os.kill(process.pid, signal.SIGTERM)
            wait_until_gone(process.pid)
        return running_text(self, process, *arguments)

    monkeypatch.setattr(Identities, "running_text", late)
    with Wire(cluster) as wire, Wire(cluster) as other:
        for each in wire, other:
            each.send(query(SLOW))
        busy(cluster, wire, other)
        target = Target.of_pids([wire.pid, other.pid])
        taken = Tracer(target, TraceOptions(probe_type=PROBE_TYPE, literals=True)).stop()
    for pid in {wire.pid, other.pid} - {*gone}:
        with suppress(ProcessLookupError):  # it goes on without its client
            os.kill(pid, signal.SIGTERM)
    (left,) = [backend for backend in taken.backends if backend.pid not in gone]
    assert [told(each) for each in left.queries] == [(SLOW, "unknown", 0, 0, True)]


@pytest.mark.parametrize(
    ("messages", "expected"),
    [
        pytest.param([parse("select 1"), FLUSH], [], id="parse"),
        pytest.param([parse("select 1"), bind(), FLUSH], [], id="bind"),
        # Nobody had it committed, so that it is undone
        pytest.param(
            [parse("select 1"), bind(), execute(), FLUSH],
            [("select 1", "extended", 1, 1, False)],
            id="execute",
        ),
    ],
)
def test_client_that_leaves_before_a_sync(
    either: PrivateCluster, messages: list[bytes], expected: list[object]
) -> None:
    with Wire(either) as wire, trace(wire.pid, probe_type=PROBE_TYPE, literals=True) as tracer:
        wire.send(*messages)
        wire.end()
        ended(wire)
    assert [told(one) for one in own(tracer.capture())] == expected


def test_query_that_waits_to_be_parsed_and_is_terminated(either: PrivateCluster) -> None:
    """No portal ran: that it was none of a prepare's making is told by how the backend ended."""
    with either.connect() as holder, Wire(either) as wire:
        holder.execute("create table if not exists held (a int)")
        with trace(wire.pid, probe_type=PROBE_TYPE, literals=True) as tracer, holder.transaction():
            holder.execute("lock table held")
            wire.send(parse("select * from held"), bind(), execute(), SYNC)
            busy(either, wire)
            os.kill(wire.pid, signal.SIGTERM)
            ended(wire)
    (one,) = own(tracer.capture())
    assert (one.text, one.calls, one.errors) == ("select * from held", 1, 1)
    assert not one.unfinished
