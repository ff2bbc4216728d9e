"""Where a task's time goes, as far as the kernel half has not counted it yet."""

from collections.abc import Iterator
from pathlib import Path

from ..errors import PgtraceError
from ..model.buckets import bucket_index
from ..model.capture import PieceKind
from ..postgres import binary
from . import Counts, Member, ReadsByKey, TimeKey, TimeSums, add_reads, layout
from .slot_table import BEGUN_BEFORE, add_time

_NUMBER, _POINTER = 4, 8
_STATES = {b"S": 1, b"D": 2, b"T": 4, b"t": 8}
"""TASK_INTERRUPTIBLE, TASK_UNINTERRUPTIBLE, and two of who is held up, by a signal or a debugger:
include/linux/sched.h."""
_HELD = 4 | 8


def first(member: Member, wait: int, now_ns: int) -> layout.Times:
    """What is known of a thread that runs already: what it shows that it waits for. `wait` is where
    in its memory the pointer to that is, or 0. Nothing, if it has ended since it was found.
    """
    run_delay = _run_delay(member.tid)
    if run_delay is None:
        return layout.Times()
    state = _sleep(member.tid)
    shown = 0 if state & _HELD else _event(member.pid, wait)
    event = shown or (layout.KERNEL_SLEEP | state if state else 0)
    if not event:
        return layout.Times(in_ns=now_ns)
    return layout.Times(out_ns=now_ns, event=event, run_delay=run_delay)


def add_pending(
    reads: dict[int, ReadsByKey], task: layout.Task, now_ns: int, *, before: int
) -> None:
    """Add what goes on, until then, to what was counted, by query. `before` is that which it ran
    when tracing began, or 0.
    """
    for query, kind, event, ns in _pending(task, now_ns, before):
        if ns > 0:
            key = TimeKey(layout.SCOPES[query > 0], "backend", kind, event)
            counts = Counts({bucket_index(ns): 1}, ns, ns, ns, 1)
            add_reads(reads.setdefault(query, {}), {key: counts})


def add_pending_time(sums: TimeSums, task: layout.Task, now_ns: int, *, before: int) -> None:
    """The same to sums."""
    for query, kind, event, ns in _pending(task, now_ns, before):
        if ns > 0:
            add_time(sums, TimeKey(layout.SCOPES[query > 0], "backend", kind, event), ns)


def asleep(task: layout.Task) -> int | None:
    """As TaskSnapshot has it."""
    times = task.times
    if task.ended_ns or not times.event or times.out_ns < times.in_ns:
        return None
    return int(times.event)


def _pending(
    task: layout.Task, now_ns: int, before: int
) -> Iterator[tuple[int, PieceKind, int, int]]:
    times = task.times
    # Who ended once tracing had has what went on then: nobody settled it
    if 0 < task.ended_ns <= now_ns or not (times.in_ns or times.out_ns):
        return
    arrived = times.in_ns if times.in_ns > times.out_ns else now_ns
    query = _query(task, before)
    if times.out_ns:
        # How much of it was waiting for a CPU the kernel tells when the task leaves that again
        queued: PieceKind = "run_queue_in_read" if times.in_read else "run_queue"
        left_in = before if times.query == BEGUN_BEFORE else times.query
        yield left_in, "sleep" if times.event else queued, times.event, arrived - times.out_ns
    yield query, "cpu", 0, now_ns - arrived


def _query(task: layout.Task, before: int) -> int:
    if task.query.open:
        return before if task.query.number == BEGUN_BEFORE else int(task.query.number)
    # In the light tier: nothing is known before the first look
    return int(task.seen.statement if task.seen.looked_ns else before)


def _event(pid: int, wait: int) -> int:
    if not wait:
        return 0
    try:
        pointer = binary.read_memory(pid, wait, _POINTER)
        shown = binary.read_memory(pid, int.from_bytes(pointer, "little"), _NUMBER)
    except PgtraceError:
        return 0
    return int.from_bytes(shown, "little")


def _sleep(tid: int) -> int:
    """The state of a thread that sleeps, or is held up; 0 if it could run."""
    try:
        stat = Path(f"/proc/{tid}/stat").read_bytes()
    except OSError:
        return 0
    return _STATES.get(stat.rpartition(b") ")[2][:1], 0)


def _run_delay(tid: int) -> int | None:
    """How long it waited for a CPU so far, nanoseconds: Documentation/scheduler/sched-stats.rst.
    0 where the kernel does not count it; None of a thread that is gone.
    """
    try:
        return int(Path(f"/proc/{tid}/schedstat").read_bytes().split()[1])
    except (FileNotFoundError, ProcessLookupError):
        return 0 if Path(f"/proc/{tid}").exists() else None
    except (OSError, IndexError, ValueError):
        return 0
