"""Where time went as folded stacks, for flamegraph.pl, inferno, speedscope and their like:
`database;statement;type;event microseconds`, https://github.com/brendangregg/FlameGraph.
"""

from collections import Counter
from collections.abc import Iterator

from ..errors import TargetError
from ..model.capture import Capture, Time
from ..terminal_text import escape
from .sections.time_parts import NAMES, is_idle
from .view import View

_NS = 1000
"""In a microsecond."""
_BETWEEN = "(between statements)"


def report(capture: Capture, _: View) -> Iterator[str]:
    """Yield a line for each stack, in their order; waits for work are left out. Raise TargetError
    if time was not measured.
    """
    if not capture.probes.times:
        raise TargetError("where time went was not measured: capture it with --time")
    stacks: Counter[tuple[str, ...]] = Counter()
    for backend in capture.backends:
        who = _frame(backend.datname or backend.backend_type or "(not known)")
        left = Counter[tuple[str, ...]]()
        for time in _told(backend.times):
            left[_ends(time)] += time.total_ns
        for query in backend.queries:
            name = _frame(query.text or f"(query_id {query.query_id})")
            for time in _told(query.times):
                stacks[who, name, *_ends(time)] += time.total_ns
                left[_ends(time)] -= time.total_ns
        for ends, ns in left.items():
            stacks[who, _BETWEEN, *ends] += ns
    for stack, ns in sorted(stacks.items()):
        if ns >= _NS:
            yield f"{';'.join(stack)} {ns // _NS}\n"


def _told(times: list[Time]) -> Iterator[Time]:
    return (each for each in times if not is_idle(each))


def _ends(time: Time) -> tuple[str, ...]:
    """The last frames: what it waited for; else what it did. Workers are beside their query."""
    who = () if time.performed_by == "backend" else (time.performed_by,)
    if time.kind != "sleep":
        return *who, NAMES[time.kind]
    return *who, _frame(time.wait_event_type or ""), _frame(time.wait_event or "")


def _frame(text: str) -> str:
    """One that has no sign in it that ends a frame or a line."""
    return " ".join(escape(text.rstrip("; ")).replace(";", ",").split())
