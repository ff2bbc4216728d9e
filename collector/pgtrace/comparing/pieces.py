"""What is compared, in pieces of time that follow each other."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from ..model.capture import Operation, Pattern, Performer, Size, Source
from ..stats.batch_means import Sum, add_up


class Stratum(NamedTuple):
    """What is alike in all of this, and so may be compared: reads, or writes, or fsyncs."""

    operation: Operation
    source: Source
    pattern: Pattern | None = None
    """None, as below: not told apart."""
    size: Size | None = None
    tablespace: str | None = None
    performed_by: Performer = "backend"
    statement: str | None = None
    """Its text, of what is known of one alone."""


Wanted = Callable[[Stratum], bool]


@dataclass(slots=True)
class Piece:
    """What was done in some time; of fsyncs a block is a call."""

    seconds: float
    sums: dict[Stratum, Sum] = field(default_factory=dict)

    def of(self, wanted: Wanted) -> "Piece":
        """The same of some strata."""
        return Piece(self.seconds, {key: each for key, each in self.sums.items() if wanted(key)})

    @property
    def whole(self) -> Sum:
        """Of all strata."""
        return add_up(self.sums.values())


def together(pieces: Iterable[Piece]) -> Piece:
    """All of them as one."""
    whole = Piece(0.0)
    for piece in pieces:
        whole.seconds += piece.seconds
        for key, each in piece.sums.items():
            before = whole.sums.get(key)
            whole.sums[key] = before.plus(each) if before else each
    return whole


def without(whole: Piece, part: Piece) -> Piece:
    """All but one of them."""
    sums = dict(whole.sums)
    for key, each in part.sums.items():
        left = Sum(*(a - b for a, b in zip(sums[key], each, strict=True)))
        if left == Sum():
            del sums[key]
        else:
            sums[key] = left
    return Piece(whole.seconds - part.seconds, sums)


def only(pieces: Sequence[Piece], wanted: Wanted) -> list[Piece]:
    """The same pieces, of some strata."""
    return [piece.of(wanted) for piece in pieces]
