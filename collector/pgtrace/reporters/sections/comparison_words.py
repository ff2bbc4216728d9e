"""What is compared and how much it differs, in words that the answer and the tables share."""

from collections.abc import Sequence

from ... import units
from ...comparing.comparison import Finding, Subject
from ...model.capture import Operation
from .answer import short
from .sums import PERFORMERS, PLURALS

_FROM = {
    "page_cache": "from the page cache",
    "readahead_issued": "that issued read-ahead",
    "device": "from the device",
    "wait": "that waited for others",
}
SERVED = {
    "page_cache": "the page cache",
    "readahead_issued": "the page cache, with read-ahead issued,",
    "device": "the device",
    "wait": "somebody else's read",
}
_TIMES = ("time_per_second", "time_per_block", "p50", "p99", "elapsed")


def subject_words(of: Subject) -> str:
    """What is compared: `random reads of 1 block from the device on ssd2`."""
    if of.run:
        return of.run
    words = [PLURALS[of.operation]]
    if of.statement is not None:
        return f"{words[0]} for {short(of.statement)}"
    if of.pattern and of.pattern != "unknown":
        words.insert(0, of.pattern)
    if of.other_files:
        words.append("of other files")
    if of.size:
        words.append(f"of {of.size} block{'' if of.size == '1' else 's'}")
    if of.source in _FROM and of.operation == "read":
        words.append(_FROM[of.source])
    elif of.source == "unknown" and of.operation == "read":
        words.append("from where is not known")
    elif of.source and of.operation != "read":
        words.append("that waited" if of.source in ("device", "wait") else "that did not wait")
    if of.performed_by and of.performed_by != "backend":
        words.append(f"by {PERFORMERS[of.performed_by]}")
    if of.tablespace:
        words.append(f"on {of.tablespace}")
    return " ".join(words)


def is_whole(finding: Finding, operation: Operation) -> bool:
    """Whether it is of all reads, or writes, or fsyncs."""
    return finding.of == Subject(operation=operation)


def times(low: float, high: float) -> str:
    """An interval in words: `1.82 to 2.10 times`."""
    one, other = units.number(low), units.number(high)
    return f"{one} times" if one == other else f"{one} to {other} times"


def listed(words: Sequence[str]) -> str:
    """All of them in a sentence: `a, b and c`."""
    *but_last, last = words
    return f"{', '.join(but_last)} and {last}" if but_last else last


def margin_of(margin: float) -> str:
    """In percent, as it was given."""
    return f"{100 * (margin - 1):.3g} %"


def ratio_of(finding: Finding) -> str:
    """B by A, with its uncertainty."""
    if finding.low is None or finding.high is None:
        return "?"
    return times(finding.low, finding.high)


def values_of(finding: Finding) -> str:
    """Those of both sides, as in ` (1.2 ms, in A 1.0 ms)`; "" where one is not known."""
    if finding.a is None or finding.b is None:
        return ""
    return f" ({value_of(finding, finding.b)}, in A {value_of(finding, finding.a)})"


def value_of(finding: Finding, value: float | None) -> str:
    """That of one side, in the unit of what it is."""
    if value is None:
        return "?"
    if finding.metric in _TIMES:
        return units.duration(value)
    return units.number(value)
