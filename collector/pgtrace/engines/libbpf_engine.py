"""The libbpf engine: the CO-RE object that ships in the package."""

import contextlib
import errno
import mmap
import os
import struct
from ctypes import sizeof
from pathlib import Path
from typing import Literal

from ..errors import PermissionDeniedError, PgtraceError, TargetError, UnsupportedError
from ..libbpf.objects import LibbpfError, Object, Ring
from . import QueriesWay, QueryEvent, ReadsWay, Request, TaskSnapshot, layout
from .slots import BEGUN_BEFORE, SlotPool

OBJECT = Path(__file__).parent.parent / "objects" / "pgtrace.bpf.o"
WAYS: tuple[ReadsWay, ...] = ("fentry", "kprobe", "tracepoint")

_PREFIX = {"fentry": "pgt_f_", "kprobe": "pgt_k_", "tracepoint": "pgt_tp_"}
_FUNCTIONS = ("read", "readv", "read_exit", "readv_exit")
_SYSTEM_CALLS = {
    "read": "pgt_tp_read",
    "pread64": "pgt_tp_pread",
    "readv": "pgt_tp_readv",
    "preadv": "pgt_tp_preadv",
    "preadv2": "pgt_tp_preadv",
}
_PROVIDER = "postgresql"
_QUERY_PROBES = {
    "statement__status": "pgt_q_status",
    "query__start": "pgt_q_start",
    "query__done": "pgt_q_done",
    "query__execute__start": "pgt_q_portal_start",
    "query__execute__done": "pgt_q_portal_done",
}
_SLOTS = 4096
_CHUNKS = 16384
_RING = 1 << 20
_TEXT_OFFSET = layout.QueryRecord.text.offset
_RECORD = struct.Struct("<QQQII8BII")


class LibbpfEngine:
    """Reads by one way in, query scopes by USDT, for one process."""

    name: Literal["libbpf", "bcc"] = "libbpf"

    def __init__(self, request: Request, way: ReadsWay) -> None:
        self.reads_way: ReadsWay = way
        self.queries_way: QueriesWay = "none"
        self.not_measured: list[str] = []
        self._events: list[QueryEvent] = []
        self._durations: list[int] = []
        self._tids = _threads(request.pid) if request.all_threads else [request.pid]
        with contextlib.ExitStack() as stack:
            self._object = stack.enter_context(Object(OBJECT))
            self._prepare(request)
            try:
                self._object.load()
            except LibbpfError as error:
                raise _refusal(error, f"{way} programs") from error
            self._open(request)
            stack.callback(self.close)
            # First what may be refused: to detach takes a tenth of a second for each probe
            self._attach_reads()
            if request.queries:
                self._attach_queries(request.pid)
            stack.pop_all()

    def poll(self) -> list[QueryEvent]:
        """The queries that ended since the last call; does not wait."""
        self._queries.consume()
        events, self._events = self._events, []
        return events

    def durations(self) -> list[int]:
        """Each read's time since the last call, if the request asked for them."""
        self._durations_ring.consume()
        times, self._durations = self._durations, []
        return times

    def was_idle(self, tid: int) -> None:
        """That thread ran no query when tracing began."""
        self._pool.idle.add(self._tids.index(tid))

    def snapshot(self) -> dict[int, TaskSnapshot]:
        """What each traced thread did so far, by thread id. Poll first."""
        totals = self._pool.totals()
        return {
            tid: self._task_snapshot(i, TaskSnapshot(reads=totals.get(i, {})))
            for i, tid in enumerate(self._tids)
        }

    def detach(self) -> None:
        """Stop measuring; what was measured can still be read."""
        self._object.detach()

    def close(self) -> None:
        """Leave nothing behind in the kernel."""
        self._object.detach()
        self._queries.close()
        self._durations_ring.close()
        self._pool.close()
        self._tasks.close()
        self._object.close()

    def _prepare(self, request: Request) -> None:
        self._object.choose(
            lambda name: name.startswith(
                (_PREFIX[self.reads_way], "pgt_q_"[: 6 * request.queries or None])
            )
        )
        options = layout.Options(
            near_window=request.near_window,
            only_tid=self._tids[0] if len(self._tids) == 1 else 0,
            max_slots=_SLOTS,
            max_chunks=_CHUNKS,
            block_shift=request.block_size.bit_length() - 1,
            emit_durations=request.emit_durations,
        )
        self._object.map(".rodata.options").set_initial(bytes(options))
        for name, size in {
            "pgt_tasks": len(self._tids),
            "pgt_indexes": len(self._tids),
            "pgt_slots": _SLOTS,
            "pgt_free": _SLOTS,
            "pgt_chunks": _CHUNKS,
            "pgt_queries": _RING,
            "pgt_durations": _RING if request.emit_durations else mmap.PAGESIZE,
        }.items():
            self._object.map(name).set_max_entries(size)

    def _open(self, request: Request) -> None:
        self._pool = SlotPool(self._object)
        self._queries = Ring(self._object.map("pgt_queries"), self._take_query)
        self._durations_ring = Ring(self._object.map("pgt_durations"), self._take_duration)
        self._tasks = self._object.map("pgt_tasks").memory()
        indexes = self._object.map("pgt_indexes")
        for i, tid in enumerate(self._tids):
            task = layout.Task(tid=tid)
            if request.queries:
                task.query = layout.QueryRecord(
                    number=BEGUN_BEFORE, tid=tid, open=1, begun_before=1, start_ns=_now()
                )
            start = i * sizeof(layout.Task)
            self._tasks[start : start + sizeof(layout.Task)] = bytes(task)
            indexes.update(struct.pack("<I", tid), struct.pack("<I", i))

    def _attach_reads(self) -> None:
        try:
            if self.reads_way == "tracepoint":
                for call, program in _SYSTEM_CALLS.items():
                    self._object.attach_tracepoint("pgt_tp_exit", "syscalls", f"sys_exit_{call}")
                    self._object.attach_tracepoint(program, "syscalls", f"sys_enter_{call}")
            else:
                for function in reversed(_FUNCTIONS):
                    self._object.attach(_PREFIX[self.reads_way] + function)
        except LibbpfError as error:
            raise _refusal(error, f"reads by {self.reads_way}") from error

    def _attach_queries(self, pid: int) -> None:
        binary = f"/proc/{pid}/exe"
        before = self._object.attached
        missing = []
        for probe, program in _QUERY_PROBES.items():
            try:
                self._object.attach_usdt(program, pid, binary, _PROVIDER, probe)
            except LibbpfError as error:
                if error.errno != errno.ENOENT:
                    raise _refusal(error, f"USDT probe {probe}", pid) from error
                _require_alive(pid)
                missing.append(probe)
        if missing:
            self._object.detach(keep=before)
            self._without_queries(missing)
            return
        self.queries_way = "usdt"
        try:
            self._object.attach_uprobe("pgt_q_abort", pid, binary, "AbortCurrentTransaction")
        except LibbpfError as error:
            if error.errno != errno.ENOENT:
                raise _refusal(error, "uprobe AbortCurrentTransaction", pid) from error
            _require_alive(pid)
            self.not_measured.append(
                "errors of extended queries: the binary exports no AbortCurrentTransaction"
            )

    def _without_queries(self, missing: list[str]) -> None:
        self.not_measured.append(f"queries: the binary has no USDT probe {', '.join(missing)}")
        for i in range(len(self._tids)):
            start = i * sizeof(layout.Task) + layout.Task.query.offset
            self._tasks[start : start + sizeof(layout.QueryRecord)] = bytes(
                layout.QueryRecord(number=BEGUN_BEFORE)
            )

    def _take_query(self, data: bytes) -> None:
        self._events.append(self._query(data, ended=True))

    def _take_duration(self, data: bytes) -> None:
        self._durations.append(int.from_bytes(data, "little"))

    def _query(self, data: bytes, *, ended: bool) -> QueryEvent:
        (
            _,
            start,
            end,
            tid,
            first,
            protocol,
            _,
            executed,
            done,
            failed,
            before,
            cut,
            _,
            _,
            length,
        ) = _RECORD.unpack_from(data)
        event = QueryEvent(
            tid=tid,
            text=data[_TEXT_OFFSET : _TEXT_OFFSET + length],
            text_cut=bool(cut),
            protocol=layout.PROTOCOLS[protocol],  # type: ignore[arg-type]
            # Without AbortCurrentTransaction a simple query's missing query__done tells as much
            error=bool(failed) or (ended and protocol == 1 and not done),
            executed=bool(executed),
            begun_before=bool(before),
            start_ns=start,
            end_ns=end if ended else 0,
            reads={},
        )
        if ended:
            outside = not event.is_call and not event.begun_before
            event.reads = self._pool.hand_over(first, outside=outside)
        else:
            event.reads = self._pool.of_query(first)
        return event

    def _task_snapshot(self, index: int, snapshot: TaskSnapshot) -> TaskSnapshot:
        start = index * sizeof(layout.Task)
        task = layout.Task.from_buffer_copy(self._tasks, start)
        for into, apart in ((snapshot.failed, task.failed), (snapshot.short, task.cut_short)):
            into.count, into.bytes = apart.count, apart.bytes
            into.device_bytes, into.total_ns = apart.device_bytes, apart.total_ns
        snapshot.lost_reads, snapshot.lost_queries = task.lost_reads, task.lost_queries
        snapshot.in_flight = task.start_ns != 0
        idle = task.query.begun_before and index in self._pool.idle
        if task.query.open and not idle:
            snapshot.running = self._query(bytes(task.query), ended=False)
        return snapshot


def _now() -> int:
    import time

    return time.monotonic_ns()


def _threads(pid: int) -> list[int]:
    return sorted(int(entry.name) for entry in Path(f"/proc/{pid}/task").iterdir())


def _require_alive(pid: int) -> None:
    if not Path(f"/proc/{pid}/exe").exists():
        raise TargetError(f"process {pid} ended before it could be traced")


def _refusal(error: LibbpfError, what: str, pid: int | None = None) -> PgtraceError:
    """The error to show for a refusal by the kernel; -v shows libbpf's whole log."""
    if pid is not None:
        with contextlib.suppress(PermissionError):
            _require_alive(pid)
    if error.errno in {errno.EPERM, errno.EACCES} and os.geteuid() != 0:
        return PermissionDeniedError(
            f"the kernel does not permit {what} to this user; run it as root: sudo pgtrace …"
        )
    if error.errno == errno.ENOENT and not Path("/sys/kernel/tracing/events").exists():
        return UnsupportedError(
            "tracefs is not mounted: mount -t tracefs tracefs /sys/kernel/tracing"
        )
    return UnsupportedError(f"the kernel refuses {what}: {os.strerror(error.errno or 0)}")
