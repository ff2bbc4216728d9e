"""Room in the kernel: what is taken comes back, and what there is no room for is not lost quietly."""

import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from fix_cluster import Connection
from pgtrace.engines import Request, room
from pgtrace.engines.libbpf_engine import LibbpfEngine
from pgtrace.libbpf.objects import Map
from pgtrace.postgres.cluster import PrivateCluster
from pgtrace.targets import Target
from pgtrace.tracer import Tracer

SETTLED_S = 0.6
"""By then the places of who ended were given back."""


@contextmanager
def tracing(target: Target, *, every_s: float = 0.05, **options: Any) -> Iterator[Tracer]:
    """A tracer that somebody looks at, as the commands do."""
    tracer = Tracer(target, reads="tracepoint", **options)
    leave = threading.Event()

    def look() -> None:
        while not leave.wait(every_s):
            tracer.poll()

    thread = threading.Thread(target=look, daemon=True)
    thread.start()
    try:
        yield tracer
    finally:
        leave.set()
        thread.join()
        tracer.stop()


def engine_of(tracer: Tracer) -> LibbpfEngine:
    assert isinstance(tracer.engine, LibbpfEngine)
    return tracer.engine


@pytest.fixture
def little_room(monkeypatch: pytest.MonkeyPatch) -> None:
    """As few slots as the options allow."""
    monkeypatch.setattr(room, "_FEWEST_SLOTS", 256)
    monkeypatch.setattr(room, "_SLOTS_PER_TASK", 1)


def reconnect(cluster: PrivateCluster, tmp_path: Path, times: int, text: str) -> None:
    """Two clients, each of whose queries has a backend of its own."""
    script = tmp_path / "one.sql"
    script.write_text(text)
    subprocess.run(
        [cluster.bindir / "pgbench", "-n", "-C", "-c", "2", "-t", str(times // 2), "-f", script,
         cluster.dsn()],
        check=True,
        stdout=subprocess.DEVNULL,
    )  # fmt: skip


@pytest.mark.usefixtures("little_room")
def test_clients_that_reconnect_take_nothing_for_good(
    cluster: PrivateCluster, tmp_path: Path
) -> None:
    """Ten times as many as there is room for: no read is lost, and in use is what was before."""
    text = "select count(*) from pg_class;\nselect count(*) from pg_proc where oid < 2000;\n"
    with tracing(Target.find(cluster.postmaster_pid), most_backends=100, most_statements=32) as tracer:
        samples = []
        for _ in range(4):
            reconnect(cluster, tmp_path, 100, text)
            time.sleep(SETTLED_S)
            samples.append(engine_of(tracer).in_use())
    taken = tracer.capture()
    print(*samples, sep="\n")
    assert taken.lost.reads == taken.lost.backends == 0
    assert sum(query.calls for backend in taken.backends for query in backend.queries) == 800
    for name in ("tasks", "statements", "slots", "chunks"):
        first, *later = (getattr(sample, name) for sample in samples)
        assert max(later) <= first + 12, (name, samples)
