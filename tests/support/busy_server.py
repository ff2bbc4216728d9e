"""A capture of a busy server: clients with statements, every type of process, losses."""

from collections.abc import Collection, Sequence
from typing import Any

from hypothesis import strategies as st

from captures import some_backend, some_capture, some_histogram, some_query, some_reads
from pgtrace.engines import OPERATIONS
from pgtrace.model.capture import (
    Backend,
    Buffers,
    Capture,
    Excluded,
    Executions,
    Gap,
    Heaviest,
    Interval,
    IntervalIo,
    Io,
    Lost,
    Operation,
    Probes,
    Query,
    Scope,
    Tablespace,
    Time,
    TimeKind,
)

MS = 1_000_000
STATEMENTS = 40
TYPES = (
    "autovacuum launcher", "autovacuum worker", "logical replication launcher",
    "logical replication apply worker", "background writer", "checkpointer", "startup",
    "walreceiver", "walsender", "walwriter", "archiver", "io worker", "walsummarizer",
    "slotsync worker",
)  # fmt: skip
"""Of PostgreSQL 18, beside clients' backends."""
EVENTS = {
    "Lock": ("transactionid", "tuple", "relation", "extend"),
    "LWLock": ("WALWrite", "BufferMapping", "LockManager", "ParallelHashJoin"),
    "IO": ("DataFileRead", "WALSync", "BufFileRead", "BufFileWrite", "DataFileExtend"),
    "Client": ("ClientRead", "ClientWrite"),
    "IPC": ("ExecuteGather", "ParallelFinish"),
}
IDLE = ("logical replication launcher", "archiver", "slotsync worker")
LOSSES = Lost(
    read=1_204, write=88, fsync=12, in_flight={"read": 3, "write": 2, "fsync": 1}, backends=2,
    statements=512, no_slot=300, no_chunk=1_004, unplaced=2_048,
)  # fmt: skip
NOT_MEASURED = [
    "errors of extended queries: the binary does not export AbortCurrentTransaction",
    "waiting for asynchronous reads: the binary does not export pgaio_wref_wait",
]


def text(number: int) -> str:
    return (
        f"select o.id, o.placed_at, l.amount from orders o join lines_{number} l using (id) "
        "where o.customer = $1 order by o.placed_at desc limit $2"
    )


def reads(number: int, **fields: Any) -> list[Io]:
    """From the page cache, the device, a page on its way, and by an I/O worker."""
    of = {"kind": "heap", "relation": f"public.lines_{number}", "tablespace": "pg_default"}
    return [
        some_reads([(4_000, 900 + number)], **(of | fields)),
        some_reads([(900_000, 40 + number)], source="device", **(of | fields)),
        some_reads([(700_000, 30)], source="wait", **(of | fields)),
        some_reads([(500_000, 9)], source="device", performed_by="io worker", **(of | fields)),
    ]


def writes(number: int) -> list[Io]:
    sync = {"operation": "fsync", "size": None, "bytes": 0, "blocks": 0, "source": "wait"}
    return [
        some_reads([(30_000, 12 + number)], operation="write", kind="wal"),
        some_reads([(50_000, 8 + number)], operation="write", kind="relation"),
        some_reads([(2 * MS, 3 + number)], **sync, call="fdatasync", kind="wal"),
        some_reads([(3 * MS, 2)], **sync, call="fsync", kind="relation"),
        some_reads([(9_000, 5)], **sync, call="sync_file_range", kind="relation"),
    ]


def query(number: int, *, light: bool) -> Query:
    """The last of them is one of many calls a second."""
    calls = 9_000 if number == STATEMENTS - 1 else 30
    latency = some_histogram([(300_000 + number * 1_000, calls)]).to_data()
    counted = {"calls": calls, "errors": 0, "latency": latency, "waited_ns": 9 * MS}
    uncounted = {"calls": None, "errors": None, "latency": None}
    return some_query(
        text=text(number), query_id=number + 1, io=reads(number),
        **(uncounted if light else counted),
    )  # fmt: skip


def spent(number: int, scope: Scope = "query") -> list[Time]:
    """Running, waiting for a CPU, and for more events than a table has rows."""
    awake: dict[TimeKind, int] = {"cpu": 400_000, "run_queue": 90_000, "stolen": 30_000}
    found = [
        Time(kind, scope, some_histogram([(ns + number, 40)]).to_data())
        for kind, ns in awake.items()
    ]
    for type_, names in EVENTS.items():
        for event, name in enumerate(names):
            latency = some_histogram([(50_000 * (event + 1), 30 + number)]).to_data()
            found.append(Time("sleep", scope, latency, type_, name))
    return found


def intervals(operations: Sequence[Operation]) -> list[Interval]:
    """A statement reads much for two seconds, and all others wait."""
    found = []
    for second in range(10):
        busy = 4 <= second < 6
        waited = 700 if busy else 20
        io = [
            IntervalIo(each, "device", waited, waited * 8192, waited * MS, {19: waited})
            for each in operations
        ]
        own = Heaviest(
            "read", 90_000, 720 << 20, 300 * MS, 100, 100 * MS, query_id=1, kind="heap",
            relation="public.lines_0",
        )  # fmt: skip
        found.append(Interval(float(second), [], 1.0, io, [own] if busy else []))
    return found


def background(name: str, pid: int, operations: Sequence[Operation], *, idle: bool) -> Backend:
    io = [] if idle else [*reads(pid % 7, scope="outside"), *writes(pid % 5)]
    return some_backend(
        pid=pid, backend_type=name, datname=None, usename=None, application_name=None, queries=[],
        io=[each for each in io if each.operation in operations],
    )  # fmt: skip


def server(
    operations: Sequence[Operation] = OPERATIONS,
    *,
    light: bool = True,
    clients: int = 36,
    lost: Lost | None = None,
    idle: Collection[str] = IDLE,
    times: bool = False,
    **fields: object,
) -> Capture:
    """A busy one: each client runs its statements, and every type of process is there."""
    asked = [*operations]
    backends = [background(name, 900 + n, asked, idle=name in idle) for n, name in enumerate(TYPES)]
    for pid in range(1_000, 1_000 + clients):
        own = range(pid % 9, STATEMENTS, 9)
        queries = [query(number, light=light) for number in own] if "read" in asked else []
        for one in queries if times else []:
            one.times = spent(pid % 7)
        io = [*(each for one in queries for each in one.io), *writes(pid % 11)]
        backends.append(
            some_backend(
                pid=pid,
                io=[each for each in io if each.operation in asked],
                queries=queries,
                failed={"read": Excluded(3)},
                times=[*spent(pid % 7), *spent(pid % 5, "outside")] if times else [],
            )
        )
    probes = Probes(
        "libbpf",
        "tracepoint",
        "memory" if light else "usdt",
        operations=asked,
        not_measured=NOT_MEASURED if lost else [],
        times=times,
        no_calls="pg_stat_statements had no room for some" if light and lost else None,
    )
    usual: dict[str, object] = {
        "probes": probes,
        "lost": lost or Lost(),
        "intervals": intervals(asked),
        "buffers": [Buffers("app", 8_000_000, 200_000)],
        "tablespaces": [Tablespace("pg_default", "/data", "ext4", "nvme0n1")],
        "executions": [
            Executions(number + 1, 9_000 if number == STATEMENTS - 1 else 30, 10**9)
            for number in reversed(range(STATEMENTS))
        ]
        if light
        else [],
    }
    return some_capture(*backends, **(usual | fields))


ASKED = [("read",), ("write", "fsync"), OPERATIONS]
MOST = 10**9
COUNTS = st.one_of(st.just(0), st.integers(1, MOST))
LOST = st.builds(
    Lost, read=COUNTS, write=COUNTS, fsync=COUNTS, queries=COUNTS, backends=COUNTS,
    statements=COUNTS, no_slot=COUNTS, no_chunk=COUNTS, unplaced=COUNTS, latencies=COUNTS,
    in_flight=st.dictionaries(st.sampled_from(OPERATIONS), COUNTS),
)  # fmt: skip
AWAY = [
    Gap("/var/lib/postgresql/18/main", f"2026-01-31T12:00:0{second}.000000Z", None, "crash")
    for second in range(9)
]


MOST_LOST = Lost(
    read=MOST, write=MOST, fsync=MOST, queries=MOST, backends=MOST, statements=MOST,
    no_slot=MOST, no_chunk=MOST, unplaced=MOST, latencies=MOST,
    in_flight=dict.fromkeys(OPERATIONS, MOST),
)  # fmt: skip
SERVERS = st.builds(
    server,
    st.sampled_from(ASKED),
    light=st.booleans(),
    times=st.booleans(),
    lost=st.none() | LOST,
    clients=st.integers(1, 40),
    idle=st.sets(st.sampled_from(TYPES)),
    gaps=st.sampled_from([AWAY[:number] for number in range(len(AWAY))]),
)
