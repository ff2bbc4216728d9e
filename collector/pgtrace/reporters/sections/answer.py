"""The answer of a report: how much of the time was waiting, for what, and for whom."""

from collections import Counter, defaultdict
from collections.abc import Sequence

from ... import units
from ...model.capture import Capture, Io, Operation, of_operation
from ...model.histogram import Histogram
from ...terminal_text import ELLIPSIS, shortened, without_end
from . import time_answer
from .statements import Statement
from .sums import (
    PERFORMERS,
    Ended,
    at_least,
    by_name,
    device_ns,
    file_of,
    hidden_ns,
    own_of,
    reads_of,
    time_of,
    timed,
    waited_ns,
    written,
)

_CLIENT = "client backend"
_NEARLY_ALL = 0.95
_NOT_LITTLE = 0.1
_OFTEN = 500
"""Calls of one statement in a second that are worth a sentence: many little ones, as of N+1."""


def verdict(capture: Capture, every: Sequence[Statement]) -> list[str]:
    """What the time went for, if that was measured; then how much of it was reading, how much of
    that waiting for which device, and for whom; how much was writing, and fsync. What took longest
    comes first.
    """
    operations, reads = capture.probes.operations, reads_of(capture)
    own = own_of(reads)
    of_all = time_answer.sentence(capture, own, _device_in_words(capture, own))
    first = [of_all] if of_all else []
    parts = [(time_of(reads), _of_reads(capture, every, reads))]
    for operation in ("write", "fsync"):
        if operation in operations:
            took, sentence = _lasting(capture, every, operation)
            parts.append((took, [sentence]))
    parts.sort(key=lambda part: -part[0])
    return [*first, *(sentence for _, sentences in parts for sentence in sentences)]


def _of_reads(capture: Capture, every: Sequence[Statement], reads: Sequence[Io]) -> list[str]:
    if "read" not in capture.probes.operations:
        return ["Reads were not measured."]
    if not reads:
        return ["Nothing was read."]
    ended_calls = timed(capture)
    named = of_operation(ended_calls.io) if ended_calls.elapsed_ns else reads
    return [
        _time_sentence(capture, reads, ended_calls),
        *_going_on(every),
        *_overlapped(every),
        *_heaviest(capture, every, reads, named),
        *_most_often(capture, every),
    ]


def _time_sentence(capture: Capture, reads: Sequence[Io], done: Ended) -> str:
    """Of all reads, or of those that were `done` by statements whose time is known."""
    elapsed = done.elapsed_ns
    own = of_operation(done.io) if elapsed else reads
    took, waited = time_of(own), waited_ns(own)
    span = units.duration(capture.duration_s * 1e9)
    if elapsed:
        which = "Statements" if capture.probes.queries != "memory" else "Statements that read"
        if not done.all_known:
            which = "Statements whose calls ended"
        share = units.percent(took, elapsed)
        words = (
            f"{which} ran for {'at least ' if done.at_least else ''}{units.duration(elapsed)} in "
            f"{span}: they read for "
            f"{units.duration_beside(took, elapsed)} of that ({share})"
        )
        whole = elapsed
    else:
        one = len(capture.backends) == 1
        who = "The process" if one else "All processes together"
        words = f"{who} read for {units.duration(took)} in {span}"
        whole = took
    if waited is None:
        return f"{words}; how much of it was waiting for the device is not measured."
    others = time_of(r for r in own if r.source == "wait")
    besides = ""
    if others > _NOT_LITTLE * took:
        so_long = units.duration_beside(others, whole)
        besides = f"for read-ahead on its way, locks or memory for {so_long}"
    if not device_ns(reads):
        besides = f"; they waited {besides}" if besides else ""
        known = ", as far as is known" if hidden_ns(own) else ""
        return f"{words}, and never waited for the device{known}{besides}."
    besides = f", and {besides}" if besides else ""
    share = units.percent(waited, whole)
    of = "" if elapsed else " of it"
    return (
        f"{words}, and waited for {_devices(capture, own)} for {at_least(own)}"
        f"{units.duration_beside(waited, whole)} ({share}{of}){besides}."
    )


def _going_on(every: Sequence[Statement]) -> list[str]:
    """What backends did themselves for statements that had not ended: it is in no time of those
    that had.
    """
    queries = [query for statement in every for query in statement.queries if query.unfinished]
    reads = of_operation(own_of([io for query in queries for io in query.io]))
    if not reads:
        return []
    who = "One that had not ended" if len(queries) == 1 else "Those that had not ended"
    return [f"{who} read for {units.duration(time_of(reads))}{_of_it_waiting(reads)}."]


def _of_it_waiting(reads: Sequence[Io]) -> str:
    waited = waited_ns(reads)
    if waited is None:
        return ""
    return f", {at_least(reads)}{units.duration(waited)} of it waiting for the device"


def _overlapped(every: Sequence[Statement]) -> list[str]:
    """What others read for statements at the same time; nothing if that was nothing, or if the
    time of statements is not known: then it is in the sum.
    """
    others = [r for statement in every for r in statement.reads if r.performed_by != "backend"]
    if not others or not any(statement.elapsed_ns for statement in every):
        return []
    who = [name for key, name in PERFORMERS.items() if any(r.performed_by == key for r in others)]
    waits = [q.waited_ns for s in every for q in s.queries if q.waited_ns is not None]
    own = f"; backends waited for that {units.duration(sum(waits))}" if waits else ""
    took = f"{units.duration(time_of(others))}{_of_it_waiting(others)}"
    return [f"Beside that {' and '.join(who)} read for them for {took}{own}."]


def _devices(capture: Capture, reads: Sequence[Io]) -> str:
    """By name, where nearly all of it was one."""
    of = {space.name: space.device for space in capture.tablespaces if space.device}
    simulated = {space.device for space in capture.tablespaces if space.simulated}
    waited: Counter[str | None] = Counter()
    for r in reads:
        if r.source == "device":
            waited[of.get(r.tablespace or "")] += r.total_ns
    if not waited:
        return "the device"
    (name, most), *_ = waited.most_common(1)
    if not name or most < _NEARLY_ALL * waited.total():
        return "devices" if len(waited) > 1 else "the device"
    return f"{name} (simulated)" if name in simulated else name


def _device_in_words(capture: Capture, reads: Sequence[Io]) -> str:
    found = _devices(capture, reads)
    return found if found in {"the device", "devices"} else f"the device {found}"


def _heaviest(
    capture: Capture, every: Sequence[Statement], reads: Sequence[Io], named: Sequence[Io]
) -> list[str]:
    """Which statement and which relation most of `that` was for, of which the sentence before has
    `named` the time; or of `all`, where that is more. Of the reading, where little of it was
    waiting for a device.
    """

    def length(own: Sequence[Io]) -> int:
        return (device_ns(own) or 0) if waiting else time_of(own)

    waiting = (device_ns(reads) or 0) > _NOT_LITTLE * time_of(reads)
    whole, what = length(reads), "waiting" if waiting else "reading"
    if not whole:
        return []
    parts: list[tuple[int, str]] = []
    took, statement = max(
        ((length(s.reads), s) for s in every), key=lambda each: each[0], default=(0, None)
    )
    if statement and took:
        parts.append((took, f"for one statement: {short(statement.text)}"))
    name, own = max(by_name(reads, file_of), key=lambda item: length(item[1]))
    if own[0].relation:
        parts.append((length(own), f"in {name}"))
    types = [(length(r), t) for t, r in _by_type(capture) if t != _CLIENT]
    took, kind = max(types, default=(0, ""))
    if took > _NOT_LITTLE * whole:
        parts.append((took, f"the {kind}'s"))
    which = "that" if length(named) >= _NEARLY_ALL * whole else "all"
    words = [
        f"{units.percent(took, whole)}{'' if i else f' of {which} {what}'} was {of_whom}"
        for i, (took, of_whom) in enumerate(parts)
    ]
    return [ended("; ".join(words))] if words else []


def _most_often(capture: Capture, every: Sequence[Statement]) -> list[str]:
    """The statement with most of the calls, if they were very many."""
    known = [(s.calls, s) for s in every if s.calls]
    if not known:
        return []
    calls, statement = max(known, key=lambda each: each[0])
    rate = calls / capture.duration_s if capture.duration_s else 0
    if rate < _OFTEN or calls < sum(number for number, _ in known) / 2:
        return []
    return [
        ended(
            f"One statement ran {units.count(round(rate))} times a second: {short(statement.text)}"
        )
    ]


def _by_type(capture: Capture) -> list[tuple[str, list[Io]]]:
    found: defaultdict[str, list[Io]] = defaultdict(list)
    for backend in capture.backends:
        found[backend.backend_type or _CLIENT] += of_operation(backend.io)
    return list(found.items())


def _lasting(capture: Capture, every: Sequence[Statement], operation: Operation) -> tuple[int, str]:
    """How long all processes wrote, or called fsync; what took most of that, and for whom."""
    found = [(name, own) for name, own in written(capture) if own[0].operation == operation]
    what = "Writing" if operation == "write" else "Fsync and its like"
    if not found:
        return 0, "Nothing was written." if operation == "write" else "Nobody called fsync."
    whole = sum(time_of(own) for _, own in found)
    name, own = max(found, key=lambda item: time_of(item[1]))
    total = Histogram.of(own)
    return whole, ended(
        f"{what} took {units.duration(whole)} of all processes together, "
        f"{units.percent(total.total_ns, whole)} of it as {name}: "
        f"{units.count(total.count)} {'call' if total.count == 1 else 'calls'}, "
        f"p99 {units.duration(total.percentile(99) or 0, 2)}, "
        f"at most {units.duration(total.max_ns or 0, 2)}{_of_statement(every, operation, whole)}"
    )


def _of_statement(every: Sequence[Statement], operation: Operation, whole: int) -> str:
    """For which statement most of such a time was, if that is not little; else ""."""
    found = [(time_of(of_operation(s.written, operation)), s) for s in every if s.written]
    took, statement = max(found, key=lambda each: each[0], default=(0, None))
    if statement is None or took < _NOT_LITTLE * whole:
        return ""
    return f"; {units.percent(took, whole)} was for one statement: {short(statement.text)}"


def ended(words: str) -> str:
    """A sentence, which may end in a statement that was cut."""
    return words if words.endswith(ELLIPSIS) else f"{words}."


def short(text: str, most: int = 60) -> str:
    """A statement in a sentence, which goes on behind it."""
    return shortened(" ".join(without_end(text).split()), most)
