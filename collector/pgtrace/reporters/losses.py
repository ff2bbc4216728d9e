"""What was lost, in words: its share, its cause, and what helps."""

from collections.abc import Callable, Iterable, Mapping
from typing import get_args

from .. import units
from ..model.capture import Lost, Operation, Total

OPERATIONS: tuple[Operation, ...] = get_args(Operation)
ROOM = "raise --max-statements"
"""The option by which there are more slots and chunks."""


def sentences(lost: Lost, totals: Mapping[Operation, Total], calls: int | None) -> list[str]:
    """One line for what is in no number, one for what is in a number with less detail; none if
    nothing was lost. `calls` are the queries that were not lost; None: they were not counted.
    """
    parts = [
        *(
            _part(getattr(lost, each), totals.get(each, Total()).count, each, f"{each}s")
            for each in OPERATIONS
        ),
        _part(lost.queries, calls or 0, "query", "queries"),
        _part(lost.backends, 0, "whole backend", "whole backends"),
    ]
    those = _listed([part for part in parts if part])
    found = []
    if those:
        found.append(" ".join([f"Lost, and in no number below: {those}.", *_causes(lost)]))
    if lost.statements:
        found.append(_unnamed(lost.statements, "read" if calls is None else "call"))
    if lost.unplaced:
        found.append(
            f"Of {units.count(lost.unplaced)} reads, writes and fsyncs the file is not told, only "
            f"its kind: there was no room to tell more files apart. {_sentence(ROOM)}"
        )
    if lost.latencies:
        found.append(
            f"{units.count(lost.latencies)} calls are in no histogram of latencies: no chunk was "
            f"left. {_sentence(ROOM)}"
        )
    if lost.times:
        found.append(
            f"{units.count(lost.times)} pieces of processes' time are in no number: there was no "
            f"room. {_sentence(ROOM)}"
        )
    if lost.missed:
        found.append(missed(lost.missed))
    return found


def missed(times: int, where: str = "below") -> str:
    """What it means that the kernel left out programs."""
    how_often = "Once" if times == 1 else f"{units.count(times)} times"
    return (
        f"{how_often} the kernel left out a probe, since the same had been interrupted on that "
        f"CPU: in no number {where} may be as many reads, writes, fsyncs or queries, or they were "
        "other processes'. With preempt=lazy or voluntary in the kernel's command line it is rarer."
    )


def _unnamed(number: int, what: str) -> str:
    """What it means that there was no room for a statement's name."""
    were = f"{what}, which is" if number == 1 else f"{what}s, which are"
    return (
        f"Lost: the statements of {units.count(number)} {were} counted without a text. There was "
        "no room for more statements: raise --max-statements."
    )


def under_way(lost: Lost) -> list[str]:
    """A line for what was in flight when tracing stopped; none if nothing was."""
    parts = [
        f"{units.count(number)} {what if number == 1 else f'{what}s'}"
        for what, number in lost.in_flight.items()
        if number
    ]
    return [f"Under way when tracing stopped: {', '.join(parts)}."] if parts else []


def excluded(
    operations: Iterable[Operation],
    failed: Mapping[Operation, int],
    short: Mapping[Operation, int],
) -> list[str]:
    """What is in no histogram, as parts of a sentence: how many of which failed, or came short."""
    return [
        f"{units.count(number)} {each if number == 1 else f'{each}s'} that {what}"
        for each in operations
        for what, number in (("failed", failed.get(each)), ("came short", short.get(each)))
        if number
    ]


def _causes(lost: Lost) -> list[str]:
    """Why, and what to do."""
    found = []
    if lost.no_slot or lost.no_chunk:
        parts = [
            f"no {what} was left for {units.count(number)}"
            for number, what in ((lost.no_slot, "slot"), (lost.no_chunk, "chunk"))
            if number
        ]
        found.append(f"{_sentence(', '.join(parts))[:-1]}: {ROOM}.")
    if lost.queries:
        found.append(
            "Queries ended faster than their records were fetched: `pgtrace capture` adds them up "
            "in the kernel."
        )
    if lost.backends:
        found.append("There was no room for more backends at once: raise --max-backends.")
    return found


def _part(lost: int, kept: int, one: str, many: str) -> str:
    if not lost:
        return ""
    text = f"{units.count(lost)} {one if lost == 1 else many}"
    return f"{text} ({share(lost, kept)} of all)" if kept else text


def share(lost: int, kept: int) -> str:
    """Of what happened, how much was lost; never 0 or all, unless it was."""
    percent = 100 * lost / (lost + kept)
    if percent < 0.1:
        return "less than 0.1 %"
    return f"{percent:.1f} %" if percent < 10 else f"{min(percent, 99.9 if kept else 100):.0f} %"


def _listed(parts: list[str]) -> str:
    if len(parts) < 2:
        return "".join(parts)
    return f"{', '.join(parts[:-1])} and {parts[-1]}"


def _sentence(text: str) -> str:
    return f"{text[0].upper()}{text[1:]}."


class Watch:
    """Says what is lost when it begins to be: each kind of loss once."""

    def __init__(
        self,
        look: Callable[[], Lost],
        sums: Callable[[], tuple[Mapping[Operation, Total], int]],
        say: Callable[[str], None],
    ) -> None:
        """`look` is cheap, and tells losses alone; `sums` what was not lost, and is not."""
        self._look = look
        self._sums = sums
        self._say = say
        self._said: set[str] = set()

    def tick(self) -> None:
        """Look."""
        lost = self._look()
        new = Lost(
            **{
                name: number
                for name in Lost.__struct_fields__
                if name not in self._said and (number := getattr(lost, name))
            }
        )
        if new == Lost():
            return
        self._said.update(name for name in Lost.__struct_fields__ if getattr(new, name))
        new.no_slot, new.no_chunk = lost.no_slot, lost.no_chunk
        totals, calls = self._sums()
        for line in sentences(new, totals, calls):
            self._say(f"pgtrace: {line.replace('Lost, and in no number below:', 'Lost so far:')}")
