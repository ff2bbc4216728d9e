"""Where in a PgBackendStatus its fields are: found by calls whose effect is known, never assumed.

A sample is the structure at the entry of a call that changes it. So it shows what the calls before
have written: that of pgstat_report_activity() its state and, if it has a text, a new start of the
statement and no query id; that of pgstat_report_query_id() that id.
"""

import struct
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from . import layout

_FEWEST = 6
"""Samples of one field after which a single place that fits is taken for it."""
_FEWEST_IDS = 2
"""An id is 64 bits of a hash: no other field has it by chance."""
_MOST = 100
"""Samples of one field after which it is given up."""
_MOST_ALIKE = 1000
"""The same, while hardly any shows anything else than the others."""
_MOST_IN_ALL = 5000
"""Samples after which nothing more is waited for: a backend that shows nothing has no sample of any
field, nor one that reports no id any of that."""
_FEW = 10
"""Samples of one kind are no longer hardly any,"""
_FEWEST_ALIKE = 2
"""or enough to have to fit."""
_FITS = 0.9
"""In so many samples of a field its place fits: not all processes report as backends do."""
_STEPS = 64
"""By so much at most the count of changes grows between two samples."""
_SILENT = (
    "its backends show nothing of what they run, as with track_activities = off: statements are "
    "told by their texts"
)
_NO_IDS = "none was reported in the first statements, and later ones are not looked for"
_SLACK_US = 1000
_EPOCH_US = 946_684_800_000_000
"""2000-01-01, from where PostgreSQL counts, in microseconds of Unix time."""
_WORDS = struct.Struct(f"<{layout.ENTRY // 4}I")
_LONGS = struct.Struct(f"<{layout.ENTRY // 8}Q")
_HEAD_WORDS = layout.HEAD // 4
"""What is looked at of an entry at once: its count of changes and pid, its first fields from
PostgreSQL 14 to 19 (src/include/utils/backend_status.h), have to lie in it."""


class Offsets(NamedTuple):
    """Places of the fields, in bytes."""

    changes: int
    pid: int
    state: int
    start: int
    running: int
    """What the state is while a statement runs."""
    query_id: int | None
    """None: not found, or not looked for."""


@dataclass(slots=True)
class Votes:
    """How often each place had what the field should have."""

    fewest: int
    hits: Counter[int] = field(default_factory=Counter)
    samples: int = 0

    def add(self, places: Iterable[int]) -> None:
        """One sample, and where in it that is."""
        self.samples += 1
        self.hits.update(places)

    def fitting(self) -> list[int]:
        """The places that had it nearly always."""
        return [place for place, hits in self.hits.items() if hits >= _FITS * self.samples]

    def place(self) -> int | None:
        """Where it is; None: not known."""
        fitting = self.fitting()
        return fitting[0] if self.samples >= self.fewest and len(fitting) == 1 else None

    def failure(self) -> str | None:
        """Why it is given up; None: it is not."""
        return _failure(self) if self.samples >= _MOST else None


@dataclass(slots=True)
class _Apart:
    """The same, apart for what was expected, of so many kinds: nearly all samples of a busy server
    show the same, such as one state, which other fields have always. Each has to fit.
    """

    kinds: int
    votes: dict[int, Votes] = field(default_factory=dict)

    def add(self, expected: int, places: Iterable[int]) -> None:
        self.votes.setdefault(expected, Votes(_FEWEST)).add(places)

    def fitting(self) -> list[int]:
        fitting = [set(each.fitting()) for each in self._seen()]
        return list(set.intersection(*fitting)) if len(fitting) > 1 else []

    def place(self) -> int | None:
        fitting = self.fitting()
        return fitting[0] if self._samples() >= _FEWEST and len(fitting) == 1 else None

    def failure(self) -> str | None:
        often = [each for each in self.votes.values() if each.samples >= _FEW]
        needed = _MOST if len(often) >= self.kinds else _MOST_ALIKE
        return _failure(self) if self._samples() >= needed else None

    def _samples(self) -> int:
        return sum(each.samples for each in self.votes.values())

    def _seen(self) -> list[Votes]:
        """Others are too few to tell what fits."""
        return [each for each in self.votes.values() if each.samples >= _FEWEST_ALIKE]


def _failure(votes: Votes | _Apart) -> str | None:
    """Why there is no place, once there are samples enough."""
    if votes.place() is not None:
        return None
    return "at two places or more" if votes.fitting() else "at no place"


@dataclass(slots=True)
class _Thread:
    """What a thread has called so far; None is what is not known."""

    number: int
    entry: bytes
    state: int | None = None
    texted: bool = False
    """Its last call had a text."""
    reported: bool = False
    """Its last call was of a query id."""
    last_ns: int | None = None
    """When it last reported a state,"""
    began_ns: int | None = None
    """one with a text,"""
    earlier_ns: int | None = None
    """and the one before that."""
    query_id: int | None = None


class Calibration:
    """Of one user's servers that run one binary. With `ids`, also of query ids."""

    def __init__(self, *, ids: bool = False) -> None:
        self.ids = ids
        self._threads: dict[int, _Thread] = {}
        self._running: Counter[int] = Counter()
        self._changes, self._pid = Votes(_FEWEST), Votes(_FEWEST)
        self._state = _Apart(kinds=2)
        self._start = _Apart(kinds=3 if ids else 2)
        self._query_id = Votes(_FEWEST_IDS)
        self.samples = 0

    def add(self, sample: layout.Sample, realtime_ns: int) -> None:
        """Take a sample; `realtime_ns` is what the clock of the day is ahead of the kernel's."""
        self.samples += 1
        entry = bytes(sample.entry)
        thread = self._threads.get(sample.tid)
        if thread is None or sample.number != (thread.number + 1) & 0xFFFFFFFF:
            thread = self._threads[sample.tid] = _Thread(sample.number, entry)
        else:
            if thread.entry == entry and not thread.reported:
                thread.state = None  # with track_activities = off nothing is written
            if thread.state is not None:
                self._look(thread, entry, realtime_ns)
            thread.number, thread.entry = sample.number, entry
        words = _WORDS.unpack(entry)[:_HEAD_WORDS]
        self._pid.add(i * 4 for i, word in enumerate(words) if word == sample.pid)
        if sample.of_id:
            _take_id(thread, sample)
        else:
            self._take_state(thread, sample)

    def offsets(self) -> Offsets | None:
        """What was found; None while it is not enough."""
        changes, pid = self._changes.place(), self._pid.place()
        state, start = self._state.place(), self._start.place()
        if changes is None or pid is None or state is None or start is None:
            return None
        ((running, _),) = self._running.most_common(1)
        return Offsets(changes, pid, state, start, running, self._query_id.place())

    def failures(self) -> list[str]:
        """What was given up, and why."""
        named: dict[str, Votes | _Apart] = {
            "st_changecount": self._changes,
            "st_procpid": self._pid,
            "st_state": self._state,
            "st_activity_start_timestamp": self._start,
        }
        if self.ids:
            named["st_query_id"] = self._query_id
        return [
            f"{name} was found {why}" for name, each in named.items() if (why := each.failure())
        ]

    def is_over(self) -> bool:
        """Whether more samples would tell nothing more."""
        if self.samples >= _MOST_IN_ALL:
            return True
        offsets, failures = self.offsets(), self.failures()
        if offsets is None:
            return bool(failures)
        return not self.ids or offsets.query_id is not None or bool(failures)

    def expect_ids(self) -> None:
        """From now on also of query ids."""
        self.ids = True
        self._start.kinds = 3

    def missing(self) -> list[str]:
        """Of ids, once it is over: why they are not known."""
        failures = [f"in the server's memory {each}" for each in self.failures()]
        offsets = self.offsets()
        if failures or not self.ids or (offsets and offsets.query_id is not None):
            return failures
        return [_NO_IDS if offsets else _SILENT]

    def close(self) -> None:
        """No more samples come: what they would be compared with is not kept."""
        self._threads.clear()

    def _look(self, thread: _Thread, entry: bytes, realtime_ns: int) -> None:
        words, before = _WORDS.unpack(entry), _WORDS.unpack(thread.entry)
        self._state.add(
            thread.state or 0, (i * 4 for i, word in enumerate(words) if word == thread.state)
        )
        if not thread.reported:
            self._changes.add(
                i * 4
                for i, (old, new) in enumerate(zip(before, words[:_HEAD_WORDS], strict=False))
                if 0 < new - old <= _STEPS and not old & 1 and not new & 1
            )
        longs, earlier = _LONGS.unpack(entry), _LONGS.unpack(thread.entry)
        if thread.query_id is not None and (thread.query_id or self._query_id.samples):
            self._query_id.add(i * 8 for i, long in enumerate(longs) if long == thread.query_id)
        if thread.began_ns is None or thread.earlier_ns is None:
            return
        low, high = (
            (ns + realtime_ns) // 1000 - _EPOCH_US for ns in (thread.earlier_ns, thread.began_ns)
        )
        changed = thread.texted and not thread.reported
        self._start.add(
            thread.texted + 2 * thread.reported,
            (
                i * 8
                for i, (old, new) in enumerate(zip(earlier, longs, strict=True))
                if low - _SLACK_US <= new <= high + _SLACK_US and (old != new) == changed
            ),
        )

    def _take_state(self, thread: _Thread, sample: layout.Sample) -> None:
        thread.state, thread.texted = sample.argument, bool(sample.flag)
        thread.reported = False
        if sample.flag:
            self._running[sample.argument] += 1
            thread.began_ns, thread.earlier_ns = sample.ns, thread.last_ns
            thread.query_id = 0
        thread.last_ns = sample.ns


def _take_id(thread: _Thread, sample: layout.Sample) -> None:
    thread.reported = True
    if thread.query_id is not None and (sample.flag or not thread.query_id):
        thread.query_id = sample.argument
