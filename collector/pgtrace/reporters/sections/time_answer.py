"""What statements spent their time on, in one sentence: CPU, locks, the client, the device."""

from collections import Counter, defaultdict
from collections.abc import Sequence

from ... import units
from ...model.capture import Capture, Io
from .sums import hidden_ns
from .time_parts import CPU, READING, RUN_QUEUE, STOLEN, WAITED, is_reading, sums_of

LEAST = 0.05
"""Share of their time; of what is less nobody is told, unless there is nothing more."""
MOST = 4
"""Classes in the sentence."""
_NEARLY_ALL = 0.95
_ALONE = {
    CPU: "CPU",
    RUN_QUEUE: "waiting for a CPU",
    STOLEN: "CPU that the hypervisor took",
    "IO:AioIoCompletion": "waiting for asynchronous reads",
}
_CLASSES = {
    "Lock": "locks",
    "LWLock": "lightweight locks",
    "Client": "waiting for the client",
}
"""Wait events that belong together for who asks what is slow; others are told by their names."""


def sentence(capture: Capture, reads: Sequence[Io], device: str) -> str | None:
    """What weighs most first; None where it was not measured, or nothing was in a statement.
    `reads` are those of the statements' own backends; `device` is what they waited for, in words.

    Of reading, what was not waiting was finding pages in the page cache, if the source is known.
    """
    own = [
        each
        for backend in capture.backends
        for each in backend.times
        if each.scope == "query" and each.performed_by == "backend"
    ]
    whole = sum(each.total_ns for each in own)
    if not whole:
        return None
    sums = sums_of(own, reads)
    slept = sum(each.total_ns for each in own if is_reading(each))
    reading = sums.pop(READING)
    asked = min(sum(r.total_ns for r in reads if r.source == "device"), reading)
    waited = max(sum(r.total_ns for r in reads if r.source in WAITED), slept)
    others = min(waited, reading) - asked
    told = _by_class(sums)
    told[f"waiting for {device}"] += asked
    told[f"waiting for {'other ' * bool(asked)}reads"] += others
    hidden = min(hidden_ns(reads), reading - asked - others)
    told["reads of which no source is known"] += hidden
    told["reading from the page cache"] += reading - asked - others - hidden
    (first, most), *more = told.most_common(MOST)
    said = [f"{units.percent(most, whole)} was {first}"]
    said += [f"{units.percent(ns, whole)} {name}" for name, ns in more if ns >= LEAST * whole]
    return f"Of {units.duration(whole)} in statements {', '.join(said)}."


def _by_class(sums: Counter[str]) -> Counter[str]:
    """A class of which nearly all was one event has the name of that."""
    found: Counter[str] = Counter()
    classes: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for name, ns in sums.items():
        type_ = name.partition(":")[0]
        if type_ in _CLASSES:
            classes[type_][name] += ns
        else:
            found[_ALONE.get(name, name)] += ns
    for type_, events in classes.items():
        (event, most), *_ = events.most_common(1)
        alone = type_ != "Client" and most >= _NEARLY_ALL * events.total()
        found[event if alone else _CLASSES[type_]] += events.total()
    return found
