"""The kernel's tasks: what is known of each traced thread."""

import functools
import struct
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from ctypes import sizeof

from ..libbpf.mapped_array import load_barrier
from ..libbpf.objects import Object
from ..model.capture import Operation
from ..postgres import proc
from . import ExcludedCounts, Member, Postmaster, TaskSnapshot, begun_before, layout, task_times
from .slot_table import BEGUN_BEFORE

_SIZE = sizeof(layout.Task)
_NUMBER = struct.Struct("<I")
_FOLDING_AT = layout.Task.folding.offset
_TID_AT = layout.Task.tid.offset
_FILES_AT = layout.Task.files.offset
_STATE = sizeof(layout.FileState)
_ENTRY_AT = layout.FileState.entry.offset
_KNOWN_BY = layout.FileState.number.offset
"""So many bytes from its begin on tell which file it is: struct file *, struct inode *."""
_ENDED_AT = layout.Task.ended_ns.offset
_POSTMASTER_AT = layout.Task.postmaster.offset
_TIME = struct.Struct("<Q")
_BEGAN_AT = layout.Task.began_ns.offset
_TIMES_AT = layout.Task.times.offset
_QUERY_START_AT = layout.Task.query.offset + layout.QueryRecord.start_ns.offset
_IGNORED_AT = layout.Task.ignored.offset
_MISSED_AT = layout.Task.missed.offset
_WAS_IDLE_AT = layout.Task.was_idle.offset
_LOOKS = 5
"""A thread that runs already is looked at again if it fell asleep, or woke, meanwhile."""
_COPIES = 5
"""A task changes with each switch to or from it: a few µs later it mostly has not."""

assert _SIZE % _NUMBER.size == 0


class TaskTable:
    """Tasks by serial. A serial is given out once; a place is used again after release()."""

    def __init__(self, loaded: Object, count: int) -> None:
        self._memory = loaded.map("pgt_tasks").memory()
        self._indexes = loaded.map("pgt_indexes")
        self._places = loaded.map("pgt_places")
        self._free = loaded.map("pgt_free_tasks")
        self._leaders = loaded.map("pgt_leaders")
        self._count = count
        self._next_serial = 1
        self._place: dict[int, int] = {}
        self._serials = [0] * count
        """By their places: 0 is nobody's."""
        self._spare = list(range(count))
        self._members: list[tuple[int, Member]] = []
        self._refused: list[Member] = []
        self.ran: dict[int, begun_before.Ran] = {}
        """In the light tier, what those ran, by their serials, who ran already."""
        self._looked: tuple[list[int], list[int]] = [], []
        self._listed: list[tuple[int, int, int]] = []
        self._last: set[int] | None = None
        """Those that there were when tracing ended."""

    def add(self, member: Member, *, in_query: bool) -> int:
        """Take a thread that runs already; its serial. With `in_query`, a scope is open.

        The kernel counts nothing of it before begin().
        """
        index = self._spare.pop(0)
        task = self._prepared(index)
        task.tid, task.tgid, task.inner_tgid, task.postmaster, _ = member
        task.ignored = 1
        if in_query:
            task.query = layout.QueryRecord(
                record=layout.RECORD_QUERY,
                serial=task.serial,
                number=BEGUN_BEFORE,
                open=1,
                begun_before=1,
            )
        self._members.append((index, member))
        self._write(index, task)
        self._indexes.update(_NUMBER.pack(member.tid), _NUMBER.pack(index))
        leader = layout.LeaderKey(member.postmaster, member.inner_pid)
        self._leaders.update(bytes(leader), _NUMBER.pack(index))
        return int(task.serial)

    def begin(self, postmasters: Sequence[Postmaster], *, times: bool, light: bool) -> int:
        """Count what the threads do that run already, and return from when on. With `times`, it is
        measured where their time goes.

        Only once all probes are there: a query that ends while some are not yet is told wrong. Who
        ended before its end could be seen ends now: its pid may be another's.
        """
        servers = {each.pid: each for each in postmasters}
        now_ns = time.monotonic_ns()
        now = _TIME.pack(now_ns)
        # I/O workers, which come last, first: what is asked for while they are not looked at yet
        # would wait for one for ever
        for index, member in reversed(self._members):
            for at in (_BEGAN_AT, _QUERY_START_AT):
                self._set_time(index, at, now)
            if times:
                look = functools.partial(self._look_at, index, member, servers, now_ns, light=light)
                self._look_until_still(index, look)
            if _runs(member):
                self._set_ignored(index, 0)
            else:
                self._end(index, member, now)
        for member in self._refused:
            if not _runs(member):
                self._forget(member.tid, layout.NOBODY)
        return now_ns

    def _look_until_still(self, index: int, look: Callable[[], None]) -> None:
        """Look at a thread, and again if it fell asleep or woke meanwhile; then count its time."""
        for _ in range(_LOOKS):
            self._set_number(index, _MISSED_AT, 0)
            look()
            if self._number(index, _MISSED_AT):
                continue
            self._set_ignored(index, 0)
            load_barrier()
            if not self._number(index, _MISSED_AT):
                return
            self._set_ignored(index, 1)

    def _look_at(
        self,
        index: int,
        member: Member,
        servers: Mapping[int, Postmaster],
        now_ns: int,
        *,
        light: bool,
    ) -> None:
        """Let the kernel know where the time of a thread goes now, and for which query."""
        server = servers.get(member.postmaster)
        began = task_times.first(member, server.wait if server else 0, now_ns)
        # Of who is idle, what is counted there is outside queries
        serial = self._serials[index]
        began.query = self.read(serial).query.number
        self.ran.pop(serial, None)
        if light and (ran := begun_before.ran(member, servers)):
            self.ran[serial] = ran
            began.query = BEGUN_BEFORE
        first = index * _SIZE + _TIMES_AT
        self._memory[first : first + sizeof(began)] = bytes(began)

    def refuse(self, member: Member) -> None:
        """Never trace this thread."""
        self._refused.append(member)
        self._indexes.update(_NUMBER.pack(member.tid), _NUMBER.pack(layout.NOBODY))

    def offer_rest(self) -> None:
        """Let the kernel take the places that are left."""
        while self._spare:
            self._offer(self._spare.pop(0))

    def known(self) -> set[int]:
        """All serials that a task has, or will have that is not there yet."""
        return set(self._place)

    def has(self, serial: int) -> bool:
        """Whether it was not released yet."""
        return serial in self._place

    def serials(self) -> list[tuple[int, int, int]]:
        """(serial, tid, ended) of each task that was taken: cheap, for every look."""
        # The upper half of a time is enough to tell that it is there
        looked = self._tids(), self._column(_ENDED_AT + _NUMBER.size)
        if looked != self._looked:
            self._looked = looked
            self._listed = [
                (serial, tid, self._ended_ns(index) if ended else 0)
                for index, (serial, tid, ended) in enumerate(
                    zip(self._serials, *looked, strict=True)
                )
                if tid and serial and (self._last is None or serial in self._last)
            ]
        return self._listed

    def end(self) -> None:
        """Whoever comes from now on is nobody's: the kernel takes them until all is detached."""
        if self._last is None:
            self._last = {serial for serial, _, _ in self.serials()}

    def postmasters(self) -> set[int]:
        """Those of all tasks that were taken and run."""
        columns = (self._column(_ENDED_AT + _NUMBER.size), self._column(_POSTMASTER_AT))
        taken = zip(self._serials, self._tids(), *columns, strict=True)
        return {master for serial, tid, ended, master in taken if serial and tid and not ended}

    def read(self, serial: int) -> layout.Task:
        """A copy of all that the kernel knows of it."""
        return layout.Task.from_buffer_copy(self._memory, self._place[serial] * _SIZE)

    def read_for_times(self, serial: int) -> layout.Task:
        """The same, of one moment as to where its time goes: else one that waited for its client,
        and runs a query by the time when that part is copied, would have waited within the query.
        """
        found = self.read(serial)
        for _ in range(_COPIES):
            again = self.read(serial)
            if _moment(again) == _moment(found):
                break
            found = again
        return found

    def snapshot(self, serial: int) -> TaskSnapshot:
        """The same without its reads and its query."""
        task = self.read(serial)
        return TaskSnapshot(
            serial,
            task.tid,
            task.tgid,
            task.inner_tgid or task.tgid,
            task.postmaster,
            task.title,
            task.began_ns,
            task.ended_ns,
            task.born_ns,
            task.exit_code,
            failed=_apart(task.failed, task.completed.failed),
            short=_apart(task.cut_short, task.completed.cut_short),
            failed_writes=_apart(task.writes.failed),
            short_writes=_apart(task.writes.cut_short),
            failed_fsyncs=_apart(task.writes.failed_syncs),
            lost_reads=task.lost_reads + task.completed.lost,
            lost_writes=task.writes.lost_writes,
            lost_fsyncs=task.writes.lost_syncs,
            lost_queries=task.lost_queries,
            in_flight=_in_flight(task),
            requests=max(0, task.requests - task.completed.requests),
            application_name=task.query.application_name,
            started_for=0 if task.started_for & layout.TO_ASK else task.started_for,
        )

    def foldings(self) -> dict[int, int]:
        """Of each task that was taken, how often it began or ended to move reads; odd: it does."""
        load_barrier()
        found = {
            serial: _NUMBER.unpack_from(self._memory, index * _SIZE + _FOLDING_AT)[0]
            for index, (serial, tid) in enumerate(zip(self._serials, self._tids(), strict=True))
            if tid and serial
        }
        load_barrier()
        return found

    def forget_files(self, entries: Collection[int]) -> None:
        """Let no task remember files of these entries: they are looked up again.

        The thread itself may be about to remember another file in that place: that is looked up
        again, too.
        """
        for i in range(layout.FILES):
            at = _FILES_AT + i * _STATE
            for index, entry in enumerate(self._column(at + _ENTRY_AT)):
                if entry in entries:
                    first = index * _SIZE + at
                    self._memory[first : first + _KNOWN_BY] = bytes(_KNOWN_BY)

    def ignore(self, serial: int) -> None:
        """Count nothing more of it."""
        self._set_ignored(self._place[serial], 1)

    def was_idle(self, serial: int) -> None:
        """What it did until its first query is none: it takes no place of a statement."""
        self._set_number(self._place[serial], _WAS_IDLE_AT, 1)

    def close_scopes(self) -> None:
        """No scope is open after all: there are no probes to close it."""
        for serial in self._place:
            self.close_scope(serial)

    def close_scope(self, serial: int) -> None:
        """The same of one."""
        at = self._place[serial] * _SIZE + layout.Task.query.offset
        at += layout.QueryRecord.open.offset
        self._memory[at : at + 1] = b"\0"

    def release(self, serial: int) -> None:
        """Forget it, and offer its place to the next."""
        self._offer(self._place.pop(serial))

    def close(self) -> None:
        """Give back the memory."""
        self._memory.close()

    def _end(self, index: int, member: Member, now: bytes) -> None:
        """As the kernel would have, had it seen it."""
        self._forget(member.tid, index)
        leader = bytes(layout.LeaderKey(member.postmaster, member.inner_pid))
        if self._leaders.value(leader) == _NUMBER.pack(index):
            self._leaders.delete(leader)
        if not self._ended_ns(index):
            self._set_time(index, _ENDED_AT, now)

    def _forget(self, tid: int, index: int) -> None:
        """That this is the thread's index, unless its id is another's by now."""
        if self._indexes.value(_NUMBER.pack(tid)) == _NUMBER.pack(index):
            self._indexes.delete(_NUMBER.pack(tid))
            self._places.update(_NUMBER.pack(tid % layout.PLACES), bytes(_TIME.size))

    def _tids(self) -> list[int]:
        """Of every place, whose thread it is; 0: nobody took it."""
        return self._column(_TID_AT)

    def _column(self, at: int) -> list[int]:
        with memoryview(self._memory) as memory, memory.cast("I") as numbers:
            return numbers[at // _NUMBER.size :: _SIZE // _NUMBER.size].tolist()[: self._count]

    def _ended_ns(self, index: int) -> int:
        return int(_TIME.unpack_from(self._memory, index * _SIZE + _ENDED_AT)[0])

    def _set_time(self, index: int, at: int, time: bytes) -> None:
        at += index * _SIZE
        self._memory[at : at + _TIME.size] = time

    def _number(self, index: int, at: int) -> int:
        return int(_NUMBER.unpack_from(self._memory, index * _SIZE + at)[0])

    def _set_ignored(self, index: int, value: int) -> None:
        self._set_number(index, _IGNORED_AT, value)

    def _set_number(self, index: int, at: int, value: int) -> None:
        at += index * _SIZE
        self._memory[at : at + _NUMBER.size] = _NUMBER.pack(value)

    def _prepared(self, index: int) -> layout.Task:
        task = layout.Task(serial=self._next_serial, index=index)
        task.query.serial = self._next_serial
        self._place[self._next_serial] = index
        self._serials[index] = self._next_serial
        self._looked = [], []
        self._next_serial += 1
        return task

    def _offer(self, index: int) -> None:
        self._write(index, self._prepared(index))
        self._free.update(None, _NUMBER.pack(index))

    def _write(self, index: int, task: layout.Task) -> None:
        self._memory[index * _SIZE : (index + 1) * _SIZE] = bytes(task)


def _runs(member: Member) -> bool:
    known = member.start_time_ticks
    return not known or proc.runs(member.tid, known)


def _in_flight(task: layout.Task) -> Operation | None:
    if task.start_ns:
        return "read"
    if not task.other_ns:
        return None
    return "write" if layout.OPERATIONS[task.operation] == "write" else "fsync"


def _apart(*aparts: layout.Excluded) -> ExcludedCounts:
    if not any(each.count for each in aparts):
        return ExcludedCounts()
    return ExcludedCounts(
        sum(each.count for each in aparts),
        sum(each.bytes for each in aparts),
        sum(each.device_bytes for each in aparts),
        sum(each.total_ns for each in aparts),
    )


def _moment(task: layout.Task) -> tuple[bytes, bytes, int, int]:
    return bytes(task.times), bytes(task.seen), task.query.open, task.query.number
