"""Sums over reads that every form of a report shows."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple, Protocol, get_args

from ... import units
from ...model.capture import Backend, Call, Capture, Io, Operation, Source, of_operation

PERFORMERS = {
    "backend": "backend",
    "parallel worker": "parallel workers",
    "io worker": "I/O workers",
    "io_uring": "io_uring",
}
SOURCES = {
    "page_cache": "page cache",
    "readahead_issued": "read-ahead issued",
    "device": "device",
    "wait": "wait",
}
MOST_HIDDEN = 0.1
"""Share of reads of which it may be unknown where they were served, if others tell of them all."""
_MOST_UNCOUNTED = 2
"""Times the time of a statement's calls that were counted, it may have read for in all."""
PLURALS: dict[Operation, str] = {"read": "reads", "write": "writes", "fsync": "fsyncs"}


class Timed(Protocol):
    """What is needed of reads to tell how long they waited for a device."""

    @property
    def source(self) -> Source:
        """Where they were served."""

    @property
    def total_ns(self) -> int:
        """How long they took in all."""


def time_of(reads: Iterable[Timed]) -> int:
    """Nanoseconds of all of them."""
    return sum(r.total_ns for r in reads)


def own_of(every: Iterable[Io]) -> list[Io]:
    """What is part of the time of statements: helpers work beside them."""
    return [io for io in every if io.scope == "query" and io.performed_by == "backend"]


class Ended(NamedTuple):
    """Statements of which it is known how long they took."""

    io: list[Io]
    """What backends did themselves for them."""
    elapsed_ns: int
    all_known: bool
    """Whether none read for others: one that goes on has no time yet."""
    at_least: bool = False
    """Whether they took longer: by so much that they read, the server has not counted all."""


def timed(capture: Capture) -> Ended:
    """As far as that is known."""
    elapsed = traced_ns(capture)
    if not elapsed:
        return of_ended_calls(capture)
    queries = [query for backend in capture.backends for query in backend.queries]
    done = [io for query in queries if not query.unfinished for io in own_of(query.io)]
    going = [io for query in queries if query.unfinished for io in own_of(query.io)]
    return Ended(done, elapsed, not of_operation(going))


def traced_ns(capture: Capture) -> int:
    """How long the calls took that were traced from their beginning to their end."""
    queries = (query for backend in capture.backends for query in backend.queries)
    return sum(query.latency.sum for query in queries if query.latency)


def of_ended_calls(capture: Capture) -> Ended:
    """In the light tier.

    The server counts a call once it ended well: what one reads that goes on, was cancelled, or had
    ended before the server was first asked, is in no time. Where that is most of what a statement
    read, nothing is known of it; where it is little, the statement took at least as long as it
    read.
    """
    own: defaultdict[int | None, list[Io]] = defaultdict(list)
    for query in (query for backend in capture.backends for query in backend.queries):
        own[query.query_id] += own_of(query.io)
    found, elapsed, at_least = list[Io](), 0, False
    for each in capture.executions:
        did = own.get(each.query_id)
        if did is None or not each.calls:
            continue
        read_ns = time_of(of_operation(did))
        if read_ns <= _MOST_UNCOUNTED * each.total_ns:
            found += did
            elapsed += max(each.total_ns, read_ns)
            at_least |= read_ns > each.total_ns
            del own[each.query_id]
    all_known = not any(of_operation(did) for did in own.values())
    return Ended(found, elapsed, all_known, at_least)


def pid_of(backend: Backend) -> str:
    """By which it is called; many that ended and were added up, by their number."""
    if backend.merged:
        return f"{units.count(backend.merged)} backends that ended"
    return str(backend.pid)


def name_of(backend: Backend) -> str:
    """The same at the beginning of a line."""
    return pid_of(backend) if backend.merged else f"Backend {backend.pid}"


def found_in_buffers(capture: Capture) -> int | None:
    """How many blocks whoever was traced found in shared_buffers; None: it is not known."""
    if capture.probes.no_buffers or not capture.buffers:
        return None
    return sum(each.hit for each in capture.buffers)


def device_ns(reads: Sequence[Timed]) -> int | None:
    """How long those waited for a device of which it is known; None if it is known of none."""
    if reads and all(r.source == "unknown" for r in reads):
        return None
    return sum(r.total_ns for r in reads if r.source == "device")


def hidden_ns(reads: Iterable[Timed]) -> int:
    """How long those took of which it is not known where they were served."""
    return sum(r.total_ns for r in reads if r.source == "unknown")


def waited_ns(reads: Sequence[Timed]) -> int | None:
    """As device_ns(), of which at_least() is to be said; None also where nobody waited, but too
    much is hidden to say so.
    """
    waited = device_ns(reads)
    return waited if waited or hidden_ns(reads) <= MOST_HIDDEN * time_of(reads) else None


def at_least(reads: Iterable[Timed]) -> str:
    """What stands before a sum of which more may be hidden."""
    return "at least " if hidden_ns(reads) else ""


def written(capture: Capture) -> list[tuple[str, list[Io]]]:
    """Writes and fsyncs by what they are called: which call, of which files, by whom. Writes first,
    then each call; of those the ones that took longest first.
    """
    return _by_call(
        (r, f", {backend.backend_type or '(type not known)'}")
        for backend in capture.backends
        for r in backend.io
    )


def written_in(every: Iterable[Io]) -> list[tuple[str, list[Io]]]:
    """The same of some, of whom it is known: which call, of which files."""
    return _by_call((r, "") for r in every)


def _by_call(every: Iterable[tuple[Io, str]]) -> list[tuple[str, list[Io]]]:
    order = ("write", *get_args(Call))
    found: dict[tuple[int, str], list[Io]] = {}
    for r, who in every:
        if r.operation != "read":
            call = r.call or r.operation
            key = order.index(call), f"{call}, {file_of(r)}{who}"
            found.setdefault(key, []).append(r)
    keys = sorted(found, key=lambda key: (key[0], -time_of(found[key]), key[1]))
    return [(key[1], found[key]) for key in keys]


def relation_of(r: Io) -> str:
    """Its relation with its kind, as reports name it."""
    return f"{r.relation} ({r.kind})" if r.relation and r.kind != "wal" else f"({r.kind})"


def reads_of(capture: Capture) -> list[Io]:
    """Those of all backends."""
    return of_operation(r for backend in capture.backends for r in backend.io)


def file_of(r: Io) -> str:
    """What was read: its relation with its kind, or the kind alone, which says all of WAL."""
    return f"{r.relation} ({r.kind})" if r.relation and r.kind != "wal" else r.kind


def by_name(reads: Iterable[Io], name: Callable[[Io], str]) -> list[tuple[str, list[Io]]]:
    """Reads by what they are called."""
    found: defaultdict[str, list[Io]] = defaultdict(list)
    for r in reads:
        found[name(r)].append(r)
    return list(found.items())
