"""Where time went as stacks: database, statement, type of wait, event; as flame graphs have it."""

from collections import Counter
from collections.abc import Iterator

from ...errors import UsageError
from ...model.capture import Capture, Time
from ...terminal_text import escape, without_end
from .time_parts import NAMES, is_idle

BETWEEN = "(between statements)"


def stacks(capture: Capture) -> Counter[tuple[str, ...]]:
    """Nanoseconds of each; waits for work are left out. A process without a database has its type
    in the place of that. Raise UsageError if time was not measured.
    """
    if not capture.probes.times:
        raise UsageError("where time went was not measured: capture it with --time")
    found: Counter[tuple[str, ...]] = Counter()
    for backend in capture.backends:
        who = _frame(backend.datname or backend.backend_type or "(not known)")
        left = Counter[tuple[str, ...]]()
        for time in _told(backend.times):
            left[_ends(time)] += time.total_ns
        for query in backend.queries:
            name = _frame(query.text or "") or f"(query_id {query.query_id})"
            for time in _told(query.times):
                found[who, name, *_ends(time)] += time.total_ns
                left[_ends(time)] -= time.total_ns
        for ends, ns in left.items():
            found[who, BETWEEN, *ends] += ns
    return +found


def _told(times: list[Time]) -> Iterator[Time]:
    return (each for each in times if not is_idle(each))


def _ends(time: Time) -> tuple[str, ...]:
    """The last frames: what it waited for; else what it did. Workers are beside their query."""
    who = () if time.performed_by == "backend" else (time.performed_by,)
    if time.kind != "sleep":
        return *who, NAMES[time.kind]
    return *who, _frame(time.wait_event_type or ""), _frame(time.wait_event or "")


def _frame(text: str) -> str:
    """In one line."""
    return " ".join(escape(without_end(text)).split())
