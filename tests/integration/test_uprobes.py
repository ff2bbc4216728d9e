"""Probes in the server's program: one link for many places, one for each, and libbpf's own USDT.

Which of them depends on the kernel; each is forced here, and must come to the same.
"""

import re
from collections.abc import Iterator

import pytest

from bpf_left import descriptors
from fix_cluster import Connection
from fix_engines import RELEASE
from fix_markers import matches
from pgtrace.lab.core.private_cluster import PrivateCluster
from pgtrace.libbpf import btf, uprobes
from pgtrace.model.capture import Capture
from pgtrace.tracing.tracer import trace

PROBE_TYPE = "tracepoint"
KIND = re.compile(r"^link_type:\s+(\w+)", re.M)
LONG = "select 'a', " + "1 + " * 150 + "1 as long"
PROBE_TYPES = (
    pytest.param("multi", marks=pytest.mark.kernel(">= 6.6")),
    pytest.param("single", marks=pytest.mark.kernel(">= 5.15")),
    "of libbpf",
)


@pytest.fixture(params=PROBE_TYPES)
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """How probes are attached."""
    chosen: str = request.param
    if chosen != "multi":
        monkeypatch.setattr(uprobes, "has_multi", lambda: False)
    if chosen == "of libbpf":
        monkeypatch.setattr(btf, "has_cookies", lambda: False)
    yield chosen


def links() -> set[str]:
    """Kinds of the links that this process holds, in the kernel's words."""
    return {kind for text in descriptors() for kind in KIND.findall(text)}


def work(connection: Connection) -> None:
    server = connection.pgconn
    for _ in range(3):
        server.exec_(b"select 1 as simple")
    server.exec_params(b"select $1::int as extended", [b"1"])
    server.exec_(LONG.encode())
    server.exec_(b"select 1/0 as failed")
    server.exec_params(b"select 1/$1::int as failed_too", [b"0"])


def seen(taken: Capture, pid: int) -> dict[tuple[str, str], tuple[int, int]]:
    (backend,) = [each for each in taken.backends if each.pid == pid]
    return {(q.text, q.protocol): (q.calls, q.errors) for q in backend.queries}


def test_each_way_comes_to_the_same(connection: Connection, way: str) -> None:
    with trace(connection.info.backend_pid, probe_type=PROBE_TYPE, literals=True) as tracer:
        kinds = links()
        work(connection)
    if not matches(RELEASE, "< 5.15"):  # where perf's are no links
        assert ("uprobe_multi" in kinds) == (way == "multi")
        assert "perf" in {kind.removesuffix("_event") for kind in kinds}
    taken = tracer.capture()
    assert (taken.probes.queries, taken.probes.not_measured) == ("usdt", [])
    assert seen(taken, connection.info.backend_pid) == {
        ("select 1 as simple", "simple"): (3, 0),
        ("select $1::int as extended", "extended"): (1, 0),
        (LONG, "simple"): (1, 0),
        ("select 1/0 as failed", "simple"): (1, 1),
        ("select 1/$1::int as failed_too", "extended"): (1, 1),
    }


def test_processes_to_come_are_followed(cluster: PrivateCluster, way: str) -> None:
    """Here also by what libbpf finds: it asks the kernel itself whether there are cookies."""
    tracing = trace(cluster.postmaster_pid, probe_type=PROBE_TYPE, literals=True)
    with tracing as tracer, cluster.connect() as connection:
        work(connection)
        pid = connection.info.backend_pid
    taken = tracer.capture()
    assert taken.probes.queries == ("uprobe" if matches(RELEASE, "< 5.15") else "usdt")
    found = seen(taken, pid)
    assert found["select 1 as simple", "simple"] == (3, 0)
    assert found["select $1::int as extended", "extended"] == (1, 0)
    assert found["select 1/$1::int as failed_too", "extended"] == (1, 1)


@pytest.mark.kernel(">= 5.15")
def test_an_argument_that_cannot_be_told_leaves_functions(
    connection: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pgtrace.engines.usdt.cookie", lambda _: None)
    with trace(connection.info.backend_pid, probe_type=PROBE_TYPE, literals=True) as tracer:
        work(connection)
    taken = tracer.capture()
    assert taken.probes.queries == "uprobe"
    assert seen(taken, connection.info.backend_pid)["select 1 as simple", "simple"] == (3, 0)
