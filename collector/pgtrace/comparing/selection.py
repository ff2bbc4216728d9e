"""Which part of a capture is meant: --a and --b."""

from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Literal, get_args

from ..model.capture import Capture, Interval, Io, Query
from ..model.time_of_day import is_time, moment, second_of
from ..terminal_text import shown

Kind = Literal["interval", "backend", "statement", "relation", "tablespace"]
KINDS: tuple[Kind, ...] = get_args(Kind)
FORM = (
    "'interval 10:00-10:05', 'backend PID', 'statement ID|TEXT', 'relation NAME' or "
    "'tablespace NAME'"
)


class SelectionError(ValueError):
    """It cannot be understood, or the capture has nothing of it."""


@dataclass(frozen=True, slots=True)
class Selection:
    """All that is given has to be so; nothing given is the whole."""

    interval: tuple[str, str] | None = None
    backend: int | None = None
    statement: str | None = None
    relation: str | None = None
    tablespace: str | None = None

    def words(self) -> str:
        """As it may be typed again; "" is the whole."""
        parts = []
        if self.interval:
            parts.append(f"interval {'-'.join(self.interval)}")
        parts += [
            f"{kind} {value}" for kind in KINDS[1:] if (value := getattr(self, kind)) is not None
        ]
        return ", ".join(parts)

    def has(self, io: Io) -> bool:
        """Whether these operations are of its relation and tablespace."""
        return self.relation in (None, io.relation) and self.tablespace in (None, io.tablespace)

    def calls(self, query: Query) -> bool:
        """Whether its statement is the query id, or stands in the text."""
        words = self.statement
        if words is None or str(query.query_id) == words:
            return True
        return words.casefold() in shown(query.text, cut=query.text_cut).casefold()


def parse(texts: list[str]) -> Selection:
    """From what was typed, a part each. Raises SelectionError."""
    found = Selection()
    for text in texts:
        kind, _, value = text.strip().partition(" ")
        value = value.strip()
        if kind not in KINDS or not value:
            raise SelectionError(f"{text!r} is no part of a capture; it is {FORM}")
        if getattr(found, kind) is not None:
            raise SelectionError(f"two of {kind} are given: give one")
        if kind == "interval":
            first, dash, last = value.partition("-")
            if not dash or not is_time(first.strip()) or not is_time(last.strip()):
                raise SelectionError(
                    f"{value!r} is no interval: say it as in 'interval 10:00-10:05', in UTC"
                )
            found = replace(found, interval=(first.strip(), last.strip()))
        elif kind == "backend":
            if not value.isascii() or not value.isdecimal() or len(value) > 10:
                raise SelectionError(f"{value!r} is no pid: say it as in 'backend 4711'")
            found = replace(found, backend=int(value))
        else:
            found = replace(found, **{kind: value})  # type: ignore[arg-type]
    return found


def span(capture: Capture, selection: Selection) -> tuple[float, float]:
    """From which second of the session to which. Raises SelectionError if it was not then."""
    if selection.interval is None:
        return 0.0, capture.duration_s
    first, last = (second_of(capture, text) for text in selection.interval)
    if first >= last > 0:
        raise SelectionError(
            f"'{'-'.join(selection.interval)}' ends before it begins: the earlier time stands first"
        )
    if last <= 0 or first >= capture.duration_s:
        raise SelectionError(
            f"the capture lasted from {moment(capture, 0)} to "
            f"{moment(capture, capture.duration_s)} (UTC): an interval lies within that"
        )
    return max(first, 0.0), min(last, capture.duration_s)


def halves(capture: Capture) -> str:
    """Two parts of a capture as they may be typed."""
    times = [moment(capture, capture.duration_s * part / 2) for part in range(3)]
    a, b = (f"'interval {first}-{last}'" for first, last in pairwise(times))
    return f"--a {a} --b {b}"


def intervals(capture: Capture, selection: Selection) -> list[Interval]:
    """Those whose middle lies in it: one that begins in A and ends in B is of one of them alone."""
    first, last = span(capture, selection)
    return [
        each
        for each in capture.intervals
        if first <= each.second + (each.length or 0) / 2 < last or selection.interval is None
    ]
