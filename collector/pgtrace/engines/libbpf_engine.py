"""The libbpf engine: the CO-RE object that ships in the package."""

import contextlib
import mmap
import time
from collections import deque
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import TypeVar

from ..errors import UnsupportedError
from ..failures import Failures
from ..libbpf import btf
from ..libbpf.objects import LibbpfError, Object, Ring
from ..linux.program_file import Program
from . import (
    ByPower,
    CheckpointTimes,
    EngineName,
    File,
    InUse,
    Losses,
    Postmaster,
    ProbeType,
    QueryEvent,
    QuerySource,
    Request,
    StatementName,
    Sums,
    TaskSnapshot,
    TimeSums,
    add_reads,
    layout,
    postmasters,
    probes,
    ring_records,
    task_times,
)
from .attachments import Attachments
from .file_table import FileTable
from .io_workers import IoWorkers
from .light import Light
from .map_sizes import Room
from .postmasters import Postmasters
from .query_ids import NO_PROBE, QueryIds
from .slot_sums import ReadsByQuery
from .slot_table import BEGUN_BEFORE, SlotPool
from .statement_table import StatementTable
from .task_table import TaskTable

OBJECT = Path(__file__).parent.parent / "objects" / "pgtrace.bpf.o"

_LOOKS = 3
"""So often a task is looked at again whose reads are just moved."""
_LEAVES_S = 5.0
"""So long after a file was forgotten nobody is in the midst of a read of it."""
_SETTLE_S = 0.1
"""Queries are handed over that much later: by then the reads that others made are counted."""
_K = TypeVar("_K")
_V = TypeVar("_V")


class LibbpfEngine:
    """Reads by one probe type, query scopes by USDT, asynchronous I/O by uprobes and io_uring."""

    name: EngineName = "libbpf"
    note: str | None = None

    def __init__(self, request: Request, way: ProbeType, *, no_usdt: bool = False) -> None:
        self._no_usdt = no_usdt
        self._no_uring: str | None = None
        self._per_query = request.options.per_query
        self._light: Light | None = None
        self._query_ids: QueryIds | None = None
        self.probe_type: ProbeType = way
        self.operations = request.options.operations
        self.not_measured: list[str] = list(request.not_measured)
        self.failures = Failures()
        self._ended: deque[tuple[float, bytes]] = deque()
        self._durations: list[int] = []
        self._leaving: deque[tuple[float, set[int]]] = deque()
        """File entries that were forgotten, and when they are looked at again."""
        self._sums: dict[int, dict[int, Sums]] | None = None
        self._counts: list[object] = []
        self._detached = False
        self._ended_ns = 0
        reason = probes.why_not(way)
        if reason:
            raise UnsupportedError(f"reads by {way}: {reason}")
        probes.check_permitted(way)
        with contextlib.ExitStack() as stack:
            self._object = stack.enter_context(Object(OBJECT, self._types()))
            uring = self._find_uring(request)
            self._attachments = Attachments(
                self._object, request, way, self.not_measured, no_usdt=no_usdt, uring=uring
            )
            self._attachments.choose()
            self._prepare(request, uring=bool(uring))
            try:
                self._object.load()
            except LibbpfError as error:
                raise probes.load_refusal(error, f"{way} programs") from error
            self._open(request)
            stack.callback(self.close)
            if request.binaries and request.query_ids and not no_usdt:
                self._query_ids = QueryIds(self._object, self._live)
            self._attachments.attach(
                self._tasks.close_scopes,
                lambda: self._begin_light(request),
                self._attach_ids,
                self._attach_asking,
            )
            for place, each in enumerate(request.postmasters):
                self._join(place, each)
            self.query_source: QuerySource = self._attachments.query_source
            self.times = self._attachments.times
            self.waits = self._attachments.waits
            self._live.no_switch = request.options.times and not self.times
            self.began_ns = self._tasks.begin(
                request.postmasters, times=self.times, light=bool(self._light)
            )
            self._live.begun = 1
            stack.pop_all()

    def poll(self, *, settled: bool = True) -> list[QueryEvent]:
        """The queries that ended since the last call; does not wait.

        Unless `settled`, also those that ended a moment ago, of which reads that others made
        may come to be counted yet.
        """
        with self.failures.kept("files that are gone"):
            self._give_back_files()
        while self._records.consume() and self._detached:
            pass  # no more come
        if self._light:
            self._light.look()
        if self._query_ids:
            self._query_ids.look()
        self._io_workers.look()
        due = time.monotonic() - (_SETTLE_S if settled and not self._detached else 0)
        events = []
        while self._ended and self._ended[0][0] <= due:
            with self.failures.kept("a query that ended is in no list"):
                events.append(self._query(self._ended.popleft()[1], ended=True))
        return events

    def durations(self) -> list[int]:
        """Each read's time since the last call, if the request asked for them."""
        while self._durations_ring.consume():
            pass
        times, self._durations = self._durations, []
        return times

    def was_idle(self, serial: int, *, for_ever: bool = False) -> None:
        """See Engine."""
        if serial in self._tasks.ran:
            return
        self._pool.idle.add(serial)
        self._tasks.was_idle(serial)
        if for_ever:
            self._tasks.close_scope(serial)

    def serials(self) -> list[tuple[int, int, int]]:
        """(serial, thread, when it ended or 0) of each traced thread: cheap.

        One whose queries were not all fetched has not ended yet.
        """
        if not self._ended:
            return self._tasks.serials()
        pending = {int.from_bytes(data[4:8], "little") for _, data in self._ended}
        return [
            (serial, tid, 0 if serial in pending else ended)
            for serial, tid, ended in self._tasks.serials()
        ]

    def task(self, serial: int) -> TaskSnapshot:
        """One of them, without its reads."""
        return self._tasks.snapshot(serial)

    def running(self, serial: int) -> QueryEvent | None:
        """What it runs now, without its reads; None if it is idle."""
        return self._running(self._tasks.read(serial))

    def snapshot(self) -> list[TaskSnapshot]:
        """What each traced thread did so far. Poll first."""
        found = [self._tasks.snapshot(serial) for serial, _, _ in self._tasks.serials()]
        reads = self._settled(self._pool.grouped)
        statements = self._statements.of([task.serial for task in found])
        for task in found:
            with self._kept(task):
                self._complete(task, reads.get(task.serial, {}), statements[task.serial])
        return found

    def files(self) -> dict[int, File]:
        """See Engine."""
        return self._files.files()

    def forget(self, gone: Mapping[int, File]) -> dict[int, int]:
        """See Engine. Entries and slots come back when nobody can be counting in them any more."""
        instead, entries = self._files.forget(gone)
        self._tasks.forget_files(entries)
        self._pool.fold_files(instead)
        self._sums = None
        self._pool.retire(entries)
        self._leaving.append((time.monotonic() + _LEAVES_S, entries))
        return instead

    def sums(self) -> dict[int, dict[int, Sums]]:
        """See Engine."""
        counts = self._pool.counts()
        settled, self._counts = counts == self._counts, counts
        if settled and self._sums is not None:
            return self._sums
        sums = self._settled(self._pool.sums)
        # A count is ahead of its sums for a moment
        self._sums = sums if settled else None
        return sums

    def by_power(self) -> dict[int, ByPower]:
        """See Engine."""
        return self._settled(self._pool.by_power)

    def time_sums(self, until_ns: int) -> dict[int, TimeSums]:
        """See Engine."""
        if not self.times:
            return {}
        sums = self._settled(self._pool.time_sums)
        for serial, _, _ in self._tasks.serials():
            known = self._tasks.read_for_times(serial)
            before = self._before(known)
            task_times.add_pending_time(sums.setdefault(serial, {}), known, until_ns, before=before)
        return sums

    def statement(self, serial: int, query: int) -> StatementName | None:
        """See Engine."""
        if query > layout.STATEMENT:
            return self._statements.name(query - layout.STATEMENT - 1)
        if not 0 < query < layout.OTHERS or not self._tasks.has(serial):
            return None
        task = self._tasks.read(serial)
        if task.query.number != query:
            return None
        running = self._running(task)
        return StatementName(running.query_id, running.text, running.text_cut) if running else None

    def release(self, serials: Sequence[int]) -> list[TaskSnapshot]:
        """What each of these threads did in all; their places are free for others.

        Together they cost little more than one.
        """
        tasks = [self._tasks.snapshot(serial) for serial in serials]
        statements = self._statements.of(serials)
        others = self._tasks.known().difference(serials)
        for task, reads in zip(tasks, self._pool.release(serials, others), strict=True):
            with self._kept(task):
                self._complete(task, reads, statements[task.serial])
            self._pool.idle.discard(task.serial)
            self._tasks.ran.pop(task.serial, None)
            for index in statements[task.serial]:
                self._statements.release(index)
            chunks = self._tasks.read(task.serial).others.chunk
            self._tasks.release(task.serial)
            self._pool.give_back(chunks)
        return tasks

    def ignore(self, serial: int) -> None:
        """Count nothing more of this thread."""
        self._tasks.ignore(serial)

    def follow_postmaster(self, old: int, new: Postmaster, binary: Program | None) -> None:
        """Trace the children of this postmaster in place of those of one that is gone.

        `binary` is what it runs, if probes have to be put there first.
        """
        self._attachments.follow(new, binary)
        self._tell_missing_uring(new)
        place = self._postmasters.place(old)
        if self._light:
            self._light.follow(place, new, binary)
        told = self._join(place, new)
        if not told and NO_PROBE not in self.not_measured:
            self.not_measured.append(NO_PROBE)
        self._postmasters.follow(place, new)

    def let_go_of_orphans(self) -> None:
        """See Engine."""
        self._postmasters.let_go_of_orphans()

    def checkpoint(self) -> CheckpointTimes:
        """See Engine."""
        return CheckpointTimes(*self._live.checkpoint_ns)

    def losses(self) -> Losses:
        """What was lost so far: cheap."""
        live = self._live
        reads, writes, *fsyncs = live.lost
        return Losses(
            reads,
            writes,
            sum(fsyncs),
            live.lost_queries,
            live.lost_tasks,
            live.no_slot,
            live.no_chunk,
            live.lost_latencies,
            live.lost_times,
            live.by_kind,
        )

    def missed(self) -> int:
        """See Engine."""
        return self._object.misses()

    def statements_full(self) -> bool:
        """See Engine."""
        return self._statements.is_full()

    def in_use(self) -> InUse:
        """See Engine."""
        tasks = self._tasks.serials()
        lists = self._statements.of([serial for serial, _, _ in tasks]).values()
        statements = [index for indexes in lists for index in indexes]
        slots, chunks = self._pool.in_use()
        return InUse(
            tasks=len(tasks),
            statements=len(statements),
            slots=slots,
            chunks=chunks + self._statements.chunks(statements),
            files=self._files.in_use(),
        )

    def detach(self) -> int:
        """See Engine."""
        self._tasks.end()
        for serial, _, _ in self._tasks.serials():
            self._tasks.ignore(serial)
        # Not before: what the kernel counts until then would be beyond the end
        self._ended_ns = self._ended_ns or time.monotonic_ns()
        if self._light and not self._detached:
            self.not_measured += self._light.finish()
        self._detached = True
        return self._ended_ns

    def close(self, *, wait: bool = False) -> None:
        """Leave nothing behind in the kernel, soon, or when it returns."""
        self._records.close()
        self._durations_ring.close()
        self._pool.close()
        self._files.close()
        self._statements.close()
        self._tasks.close()
        for each in (self._light, self._query_ids, self._io_workers, self._postmasters):
            if each:
                each.close()  # they know self._live, too
        self._light = self._query_ids = None
        del self._live
        # The frames of an error may have some of it for longer, as where one stops in the midst
        with contextlib.suppress(BufferError):
            self._live_memory.close()
        self._object.close(wait=wait)

    def _types(self) -> Path | None:
        """What stands for the kernel's BTF; None: itself."""
        return None

    def _uring_programs(self) -> dict[str, str] | str:
        """By their tracepoints; or why there are none."""
        return probes.uring()

    def _find_uring(self, request: Request) -> dict[str, str]:
        found: dict[str, str] | str = "there was none when tracing began"
        if request.io_uring:
            found = self._uring_programs()
        if not isinstance(found, str):
            return found
        self._no_uring = found if "read" in request.options.operations else None
        for postmaster in request.postmasters:
            self._tell_missing_uring(postmaster)
        return {}

    def _tell_missing_uring(self, postmaster: Postmaster) -> None:
        missing = f"reads by io_uring: {self._no_uring}"
        if postmaster.io_uring and self._no_uring and missing not in self.not_measured:
            self.not_measured.append(missing)

    def _prepare(self, request: Request, *, uring: bool) -> None:
        self._room = room = Room.of(request)
        options = layout.Options(
            segment_bytes=request.segment_bytes,
            only_tid=request.only,
            listed=request.listed,
            children=bool(request.postmasters),
            block_shift=request.block_size.bit_length() - 1,
            emit_durations=request.options.emit_durations,
            helpers_only=request.helpers_only,
            no_usdt=self._no_usdt,
            by_file=request.by_file,
            per_query=request.options.per_query,
            page_bytes=mmap.PAGESIZE,
            literals=request.options.literals,
            writes="write" in request.options.operations,
            spare_slots=room.slots,
            spare_chunks=room.chunks,
            cookies=btf.has_cookies(),
            light=request.light,
            times=request.options.times,
            done=self._attachments.done,
            asked=request.aio,
        )
        self._object.map(".rodata.options").set_initial(bytes(options))
        self._live_initial(request)
        for name, size in room.sizes(request, uring=uring).items():
            self._object.map(name).set_max_entries(size)

    def _live_initial(self, request: Request) -> None:
        live = layout.Live()
        for place, postmaster in enumerate(request.postmasters):
            postmasters.tell(live, place, postmaster)
        self._object.map(".data.live").set_initial(bytes(live))

    def _open(self, request: Request) -> None:
        self._live_memory = mmap.mmap(self._object.map(".data.live").fd, mmap.PAGESIZE)
        self._live = layout.Live.from_buffer(self._live_memory)
        self._io_workers = IoWorkers(self._object, self._live)
        self._files = FileTable(self._object, self._room.files)
        self._pool = SlotPool(self._object, self._room, self._files.number)
        self._statements = StatementTable(self._object, self._pool, self._room.statements)
        self._pool.is_begun_before = self._statements.is_begun_before
        self._records = Ring(self._object.map("pgt_records"), self._take_record)
        self._durations_ring = Ring(self._object.map("pgt_durations"), self._take_duration)
        self._tasks = TaskTable(self._object, self._room.tasks)
        self._postmasters = Postmasters(self._live, request.postmasters, self._tasks.postmasters)
        for member in request.members:
            followed = request.binaries and member.postmaster not in request.unfollowed
            self._tasks.add(member, in_query=bool(followed))
        for member in request.ignored:
            self._tasks.refuse(member)
        self._tasks.offer_rest()

    def _begin_light(self, request: Request) -> bool:
        if not any(postmaster.text for postmaster in request.postmasters):
            return False  # it was said why
        self._light = Light(self._object, self._live, request)
        if not request.options.live:
            self._light.wait(self._records.consume)
        return True

    def _attach_ids(self, binary: Program, pid: int) -> list[str]:
        return self._query_ids.attach(binary, pid) if self._query_ids else []

    def _attach_asking(self, binary: Program, pid: int) -> str | None:
        return self._io_workers.attach(binary, pid)

    def _join(self, place: int, postmaster: Postmaster) -> bool:
        """Whether anything tells the query ids that it computes, in the full tier."""
        self._io_workers.join(place, postmaster)
        told = self._query_ids is None or self._query_ids.join(place, postmaster)
        return told or not postmaster.query_ids

    def _take_record(self, data: bytes) -> None:
        if data[0] == layout.RECORD_SAMPLE:
            if taker := self._light or self._query_ids:
                taker.take(data)
            return
        charged = ring_records.charged(data)
        if charged:
            self._pool.note_charged(*charged)
        else:
            self._ended.append((time.monotonic(), data))

    def _give_back_files(self) -> None:
        now = time.monotonic()
        while self._leaving and self._leaving[0][0] <= now:
            _, entries = self._leaving.popleft()
            if self._pool.settle(entries):
                self._files.give_back(entries)
                continue
            # Whoever was in the midst of a read, or of a query, has them
            self._pool.retire(entries)
            self._leaving.append((now + _LEAVES_S, entries))

    def _take_duration(self, data: bytes) -> None:
        self._durations.append(int.from_bytes(data, "little"))

    def _settled(
        self, look: Callable[[Collection[int] | None], dict[int, dict[_K, _V]]]
    ) -> dict[int, dict[_K, _V]]:
        """What `look` finds by task: of one whose query ended meanwhile, looked at again."""
        before = self._tasks.foldings()
        found = look(None)
        for _ in range(_LOOKS):
            now = self._tasks.foldings()
            moved = {serial for serial, n in now.items() if n & 1 or n != before.get(serial, 0)}
            if not moved:
                break
            before = now
            again = look(moved)
            found |= {serial: again.get(serial, {}) for serial in moved}
        return found

    def _complete(self, task: TaskSnapshot, reads: ReadsByQuery, statements: list[int]) -> None:
        """Add to what is known of a task its reads, its statements, and what it runs."""
        known = self._tasks.read_for_times(task.serial)
        if self.times:
            now_ns = self._ended_ns or time.monotonic_ns()
            task_times.add_pending(reads, known, now_ns, before=self._before(known))
            task.asleep = task_times.asleep(known)
        task.running, outside = self._running(known), set[int]()
        if (
            task.running
            and task.ended_ns
            and not (task.exit_code or task.running.is_call or task.running.begun_before)
        ):
            # Its client left after a prepare, and waited for no more
            task.running = None
            outside.add(known.query.number)
        if task.running:
            task.running.reads = {}
            add_reads(task.running.reads, reads.get(known.query.number, {}))
        totals = [self._statements.total(index, reads) for index in statements]
        ran = self._tasks.ran.get(task.serial)
        if ran and BEGUN_BEFORE in reads:
            totals.append(ran.total(reads[BEGUN_BEFORE]))
        if not self._per_query:  # there, these are of queries whose records were lost
            totals += self._statements.others(known, reads)
        for total in totals:
            if self._pool.is_outside(task.serial, total.statement):
                continue  # a message that was no query
            if total.latency.count or self._light:
                task.statements.append(total)
            elif task.running and total.statement == known.query.statement:
                # What others read for it is its statement's from the start
                add_reads(task.running.reads, total.reads)
            else:  # it was only prepared
                outside.add(total.statement)
        for query, each in reads.items():
            add_reads(task.reads, each, scope="outside" if query in outside else None)

    def _kept(self, task: TaskSnapshot) -> contextlib.AbstractContextManager[None]:
        return self.failures.kept(f"what process {task.tgid} did is not all in its numbers")

    def _before(self, task: layout.Task) -> int:
        """The query that a thread was in when tracing began, if it may be in it yet, or 0."""
        if self._light:
            return BEGUN_BEFORE if task.serial in self._tasks.ran else 0
        return BEGUN_BEFORE if task.query.open and task.serial not in self._pool.idle else 0

    def _running(self, task: layout.Task) -> QueryEvent | None:
        query = task.query
        if not query.open or (query.begun_before and task.serial in self._pool.idle):
            return None
        unknown = not (query.query_id or query.begun_before or query.executed)
        if self._query_ids and unknown and (shown := self._query_ids.shown(task)):
            now = self._tasks.read(task.serial).query
            if now.open and now.number == query.number:
                query.query_id = shown
        return self._query(bytes(query), ended=False)

    def _query(self, data: bytes, *, ended: bool) -> QueryEvent:
        event, number, first = ring_records.query(data, ended=ended)
        if ended:
            outside = not event.is_call and not event.begun_before
            event.reads = self._pool.hand_over(event.serial, number, first, outside=outside)
        elif self._per_query:
            event.reads = self._pool.of_query(event.serial, number, first)
        return event
