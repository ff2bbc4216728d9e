"""The libbpf engine: the CO-RE object that ships in the package."""

import contextlib
import mmap
import struct
import time
from collections import deque
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from ..errors import PgtraceError, UnsupportedError
from ..libbpf.objects import LibbpfError, Object, Ring
from . import QueriesWay, QueryEvent, ReadsWay, Request, TaskSnapshot, layout, probes
from .slots import SlotPool
from .tasks import TaskTable

OBJECT = Path(__file__).parent.parent / "objects" / "pgtrace.bpf.o"

_SLOTS_PER_TASK = 16
_CHUNKS_PER_SLOT = 4
_FEWEST_SLOTS = 1024
_RING = 2 << 20
"""Bytes of records, of about 300 each, that wait for the next poll: of one task, and of many."""
_RING_OF_MANY = 16 << 20
_SETTLE_S = 0.1
"""Queries are handed over that much later: by then the reads that others made are counted."""
_TEXT_OFFSET = layout.QueryRecord.text.offset
_RECORD = struct.Struct(f"<IIQQQI8BIII{layout.NAME}s")
_CHARGED = struct.Struct("<IIQII")


class LibbpfEngine:
    """Reads by one way in, query scopes by USDT, asynchronous I/O by uprobes and io_uring."""

    name: Literal["libbpf", "bcc"] = "libbpf"

    def __init__(self, request: Request, way: ReadsWay, *, no_usdt: bool = False) -> None:
        self._no_usdt = no_usdt
        self._aio = request.aio
        self.reads_way: ReadsWay = way
        self.queries_way: QueriesWay = "none"
        self.not_measured: list[str] = list(request.not_measured)
        self._ended: deque[tuple[float, bytes]] = deque()
        self._durations: list[int] = []
        self._detached = False
        reason = probes.why_not(way)
        if reason:
            raise UnsupportedError(f"reads by {way}: {reason}")
        with contextlib.ExitStack() as stack:
            self._object = stack.enter_context(Object(OBJECT))
            self._uring = probes.uring() if request.aio else {}
            self._prepare(request)
            try:
                self._object.load()
            except LibbpfError as error:
                raise probes.refusal(error, f"{way} programs") from error
            self._open(request)
            stack.callback(self.close)
            self._attach(request)
            self._tasks.begin()
            stack.pop_all()

    def poll(self, *, settled: bool = True) -> list[QueryEvent]:
        """The queries that ended since the last call; does not wait.

        Unless `settled`, also those that ended a moment ago, of which reads that others made
        may come to be counted yet.
        """
        self._records.consume()
        due = time.monotonic() - (_SETTLE_S if settled and not self._detached else 0)
        events = []
        while self._ended and self._ended[0][0] <= due:
            events.append(self._query(self._ended.popleft()[1], ended=True))
        return events

    def durations(self) -> list[int]:
        """Each read's time since the last call, if the request asked for them."""
        self._durations_ring.consume()
        times, self._durations = self._durations, []
        return times

    def was_idle(self, serial: int) -> None:
        """That thread ran no query when tracing began: what it read then was outside."""
        self._pool.idle.add(serial)

    def serials(self) -> list[tuple[int, int, int]]:
        """(serial, thread, when it ended or 0) of each traced thread: cheap.

        One whose queries were not all fetched has not ended yet.
        """
        pending = {int.from_bytes(data[4:8], "little") for _, data in self._ended}
        return [
            (serial, tid, 0 if serial in pending else ended)
            for serial, tid, ended in self._tasks.serials()
        ]

    def task(self, serial: int) -> TaskSnapshot:
        """One of them, without its reads."""
        return self._tasks.snapshot(serial)

    def snapshot(self) -> list[TaskSnapshot]:
        """What each traced thread did so far. Poll first."""
        totals = self._pool.totals()
        found = [self._tasks.snapshot(serial) for serial, _, _ in self._tasks.serials()]
        for task in found:
            task.reads = totals.get(task.serial, {})
            self._add_running(task)
        return found

    def release(self, serials: Sequence[int]) -> list[TaskSnapshot]:
        """What each of these threads did in all; their places are free for others.

        Together they cost little more than one.
        """
        tasks = [self._tasks.snapshot(serial) for serial in serials]
        for task in tasks:
            self._add_running(task)
        for task, reads in zip(tasks, self._pool.release(serials), strict=True):
            task.reads = reads
            self._tasks.release(task.serial)
        return tasks

    def ignore(self, serial: int) -> None:
        """Count nothing more of this thread."""
        self._tasks.ignore(serial)

    def follow_postmaster(
        self, old: int, pid: int, application_name: int, binary: str | None
    ) -> None:
        """Trace the children of this postmaster in place of those of one that is gone.

        `binary` is what it runs, if probes have to be put there first.
        """
        if binary:
            self._attach_to_another(binary)
        place = list(self._live.postmasters).index(old)
        self._live.application_name[place] = application_name
        self._live.postmasters[place] = pid

    def lost_tasks(self) -> int:
        """Threads that there was no room for."""
        return int(self._live.lost_tasks)

    def detach(self) -> None:
        """Stop measuring; what was measured can still be read."""
        for serial, _, _ in self._tasks.serials():
            self._tasks.ignore(serial)
        self._detached = True

    def close(self) -> None:
        """Leave nothing behind in the kernel."""
        self._records.close()
        self._durations_ring.close()
        self._pool.close()
        self._tasks.close()
        del self._live
        self._live_memory.close()
        self._object.close()

    def _prepare(self, request: Request) -> None:
        wanted = [probes.PREFIX[self.reads_way], probes.EXIT]
        wanted += [probes.QUERIES] if request.binaries else []
        wanted += [probes.NO_USDT] if self._no_usdt else []
        wanted += [probes.AIO] if request.aio else []
        wanted += self._uring.values()
        self._object.choose(lambda name: name.startswith(tuple(wanted)))
        options = layout.Options(
            near_window=request.near_window,
            only_tid=request.only,
            listed=request.listed,
            children=bool(request.postmasters),
            block_shift=request.block_size.bit_length() - 1,
            emit_durations=request.emit_durations,
            helpers_only=request.helpers_only,
            no_usdt=self._no_usdt,
        )
        self._object.map(".rodata.options").set_initial(bytes(options))
        self._live_initial(request)
        self._slot_count = max(_FEWEST_SLOTS, request.most_tasks * _SLOTS_PER_TASK)
        for name, size in {
            "pgt_tasks": request.most_tasks,
            "pgt_free_tasks": request.most_tasks,
            "pgt_indexes": request.most_tasks + 4096,
            "pgt_slots": self._slot_count,
            "pgt_free_slots": self._slot_count,
            "pgt_chunks": self._slot_count * _CHUNKS_PER_SLOT,
            "pgt_free_chunks": self._slot_count * _CHUNKS_PER_SLOT,
            "pgt_charged": self._slot_count if request.aio else 1,
            "pgt_handles": 16384 if request.aio else 1,
            "pgt_requests": 16384 if self._uring else 1,
            "pgt_records": _RING if request.only else _RING_OF_MANY,
            "pgt_durations": _RING if request.emit_durations else mmap.PAGESIZE,
        }.items():
            self._object.map(name).set_max_entries(size)

    def _live_initial(self, request: Request) -> None:
        live = layout.Live()
        for i, (pid, application_name) in enumerate(request.postmasters):
            live.postmasters[i], live.application_name[i] = pid, application_name
        self._object.map(".data.live").set_initial(bytes(live))

    def _open(self, request: Request) -> None:
        self._live_memory = mmap.mmap(self._object.map(".data.live").fd, mmap.PAGESIZE)
        self._live = layout.Live.from_buffer(self._live_memory)
        self._pool = SlotPool(self._object, self._slot_count, self._slot_count * _CHUNKS_PER_SLOT)
        self._records = Ring(self._object.map("pgt_records"), self._take_record)
        self._durations_ring = Ring(self._object.map("pgt_durations"), self._take_duration)
        self._tasks = TaskTable(self._object, request.most_tasks)
        for member in request.members:
            followed = request.binaries and member.postmaster not in request.unfollowed
            self._tasks.add(member, in_query=bool(followed))
        for pid in request.ignored:
            self._tasks.refuse(pid)
        self._tasks.offer_rest()

    def _attach(self, request: Request) -> None:
        # First what may be refused: links of uprobes take long to come and to go
        probes.attach_reads(self._object, self.reads_way)
        probes.attach_exit(self._object)
        self._attach_queries(request)
        if request.aio:
            self.not_measured += probes.attach_aio(
                self._object, list(request.askers), list(request.performers)
            )
        if self._uring:
            probes.attach_uring(self._object, self._uring)

    def _attach_queries(self, request: Request) -> None:
        if not request.binaries:
            return
        attach = probes.attach_functions if self._no_usdt else probes.attach_queries
        missing = [m for binary, pid in request.binaries for m in attach(self._object, binary, pid)]
        self.not_measured += dict.fromkeys(missing)
        if any(reason.startswith("queries:") for reason in missing):
            self._tasks.close_scopes()
        else:
            self.queries_way = "uprobe" if self._no_usdt else "usdt"

    def _attach_to_another(self, binary: str) -> None:
        before, everybody = self._object.attached, [(binary, -1)]
        attach = probes.attach_functions if self._no_usdt else probes.attach_queries
        missing = []
        try:
            if self.queries_way != "none":
                missing += attach(self._object, binary, -1)
            if self._aio:
                missing += probes.attach_aio(self._object, everybody, everybody)
        except (probes.MissingProbesError, PgtraceError) as error:
            self._object.detach(keep=before)
            missing = [f"queries of the server started since: {error}"]
        self.not_measured += [reason for reason in missing if reason not in self.not_measured]

    def _take_record(self, data: bytes) -> None:
        if data[0] == layout.RECORD_QUERY:
            self._ended.append((time.monotonic(), data))
        else:
            _, payer, query, place, _ = _CHARGED.unpack_from(data)
            self._pool.note_charged(payer, query, place)

    def _take_duration(self, data: bytes) -> None:
        self._durations.append(int.from_bytes(data, "little"))

    def _add_running(self, task: TaskSnapshot) -> None:
        query = self._tasks.read(task.serial).query
        if query.open and not (query.begun_before and task.serial in self._pool.idle):
            task.running = self._query(bytes(query), ended=False)

    def _query(self, data: bytes, *, ended: bool) -> QueryEvent:
        (_, serial, number, start, end, first, protocol, _, executed, done, failed, before, cut,
         bound, length, analysed, _, application) = _RECORD.unpack_from(data)  # fmt: skip
        event = QueryEvent(
            serial=serial,
            text=data[_TEXT_OFFSET : _TEXT_OFFSET + length],
            text_cut=bool(cut),
            application_name=application.partition(b"\0")[0],
            protocol=layout.PROTOCOLS[protocol],
            # Without AbortCurrentTransaction a simple query's missing query__done tells as much
            error=bool(failed) or (ended and protocol == layout.SIMPLE and not done),
            executed=bool(executed),
            begun_before=bool(before),
            start_ns=start,
            end_ns=end if ended else 0,
            reads={},
        )
        if self._no_usdt and not before and not bound:
            # Reported once: in one message. A text that failed to parse may have been in any.
            event.protocol = "simple" if executed or analysed or not failed else "unknown"
            event.executed = event.executed or not analysed
        if ended:
            outside = not event.is_call and not event.begun_before
            event.reads = self._pool.hand_over(serial, number, first, outside=outside)
        else:
            event.reads = self._pool.of_query(serial, number, first)
        return event
