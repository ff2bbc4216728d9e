"""Slots are read while the kernel takes, moves and empties them."""

import threading
import time

from child import wait_for
from fix_cluster import Server
from pgtrace.engines.libbpf_engine import LibbpfEngine
from pgtrace.tracing.options import TraceOptions
from pgtrace.tracing.targets import Target
from pgtrace.tracing.tracer import Tracer, trace

FOR_S = 3.0
"""The first such slot was met within it, five times of five."""


def test_a_slot_that_is_being_emptied_is_of_nobody(server: Server) -> None:
    """Each query's end moves its slots to those of its statement; with many of these, long after
    they were listed."""
    small = server(compute_query_id="on", shared_buffers="1MB", max_wal_senders=0)
    with small.connect() as connection:
        found = connection.execute(
            "select oid::regclass from pg_class where relkind = 'r' and relname <> 'pg_statistic'"
        )
        names = [name for (name,) in found]
        ended = threading.Event()

        def load() -> None:
            while not ended.is_set():
                for name in names:
                    connection.execute(f"select 1 from {name} limit 1 offset 900")

        with trace(connection.info.backend_pid, by_relation=True) as tracer:
            assert isinstance(tracer.engine, LibbpfEngine)
            pool = tracer.engine._pool
            loading = threading.Thread(target=load)
            loading.start()
            try:
                end = time.monotonic() + FOR_S
                while time.monotonic() < end:
                    with tracer._lock:  # the tracer's own thread looks as well
                        pool.grouped()
                        pool.sums()
                        pool.by_power()
            finally:
                ended.set()
                loading.join()
            with tracer._lock:
                everybody = [serial for serial, _, _ in tracer.engine.serials()]
                # Who changed nothing is not looked at again; all are, if one asks for them
                assert pool.sums() == pool.sums(everybody) != {}
                assert pool.sums() == pool.sums(everybody)
        taken = tracer.capture()
    assert taken.partial == []
    # Each for itself, and from some time on prepared
    assert len({query.text for query in taken.backends[0].queries}) == len(names)


def test_files_that_are_gone_are_so_in_the_sums_of_who_has_no_slot(server: Server) -> None:
    """Its queries ended, and their slots were given back."""
    small = server(shared_buffers="1MB", max_wal_senders=0)
    with small.connect() as connection:
        target = Target.find(connection.info.backend_pid)
        tracer = Tracer(target, TraceOptions(by_relation=True, per_query=True))
        try:
            assert isinstance(tracer.engine, LibbpfEngine)
            pool = tracer.engine._pool
            connection.execute("select count(*) from pg_attribute")
            wait_for(tracer.poll)
            (serial,) = pool.sums()
            assert pool.in_use()[0] == 0
            files = {key.file for sums in pool.sums()[serial].values() for key in sums}
            pool.fold_files(dict.fromkeys(files, max(files) + 1))
            assert pool.sums() == pool.sums([serial]) != {}
        finally:
            tracer.stop()
