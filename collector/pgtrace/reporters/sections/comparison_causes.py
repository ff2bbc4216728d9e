"""Why B is slower or faster: which kinds of reads, where blocks came from, and how many."""

from collections.abc import Sequence
from math import log

from ... import units
from ...comparing.comparison import Comparison, Factor, Finding, Share
from .comparison_words import (
    SERVED,
    listed,
    margin_of,
    ratio_of,
    subject_words,
    values_of,
)

_NOTABLE = 0.1
"""Of the time, the part that a kind of reads has to have to be told of."""
_ALIKE = log(1.05)
"""What differs by less on both sides is the whole, which has been told of."""
_MOST_KINDS = 3
_LEAST_MOVED = 0.05
"""Of all blocks, so many that came from elsewhere are worth a word."""
_LEAST_EFFECT = 0.2
"""Of what the mix did, the part that one share has to have for it to be named."""
_REST = {
    "mix": "where blocks came from",
    "speed": "how fast the same kinds of reads are",
    "blocks_per_second": "how many blocks are read each second",
    "time_per_second": "how much of each second reading takes",
}


def kinds(of: Comparison) -> list[str]:
    """Those that changed, what weighs most first; then that the others did not."""
    notable = _notable(of)
    changed = [each for each in notable if each.outcome in ("more", "less")]
    changed = [each for each in changed if not _is_the_whole(of, each)]
    changed.sort(key=_weight, reverse=True)
    said = [
        f"{_start(each)} take {ratio_of(each)} as long{values_of(each)}."
        for each in changed[:_MOST_KINDS]
    ]
    others = [each for each in notable if each.of.statement is None and each not in changed]
    of_kinds = any(each.of.statement is None for each in changed)
    if of_kinds and others and all(each.outcome == "no_difference" for each in others):
        which = _start(others[0]) if len(others) == 1 else "The other kinds that take up much time"
        said.append(f"{which} are as fast as in A.")
    return said


def _notable(of: Comparison) -> list[Finding]:
    return [
        each
        for each in of.findings
        if each.metric == "time_per_block"
        and not each.primary
        and (each.share is None or each.share >= _NOTABLE)
    ]


def _is_the_whole(of: Comparison, kind: Finding) -> bool:
    """Whether it is as fast as all reads on both sides: that has been said."""
    whole = next(each for each in of.findings if each.primary)
    pairs = ((kind.a, whole.a), (kind.b, whole.b))
    return all(one and other and abs(log(one / other)) < _ALIKE for one, other in pairs)


def _weight(kind: Finding) -> tuple[bool, float]:
    """Statements last: what they read is of a kind, too."""
    return kind.share is not None, (kind.share or 1) * abs(log(kind.value or 1))


def _start(kind: Finding) -> str:
    name = subject_words(kind.of)
    return f"{name[0].upper()}{name[1:]}"


def why(of: Comparison, primary: Finding, by: dict[str, Finding]) -> list[str]:
    """By where blocks came from, or by how fast each was."""
    mix, speed = by.get("mix"), by.get("speed")
    if not mix or not speed or primary.low is None or primary.why:
        return []
    how, where = moved(of.shares, mix, primary)
    if mix.low is None or speed.low is None:
        unknown = f"how fast the same kinds of reads are is not known: {speed.why}"
        return [f"{how}: {where}; {unknown}."] if where else []
    changed = {name: f.outcome in ("more", "less") for name, f in (("mix", mix), ("speed", speed))}
    differ = any(
        each.outcome in ("more", "less", "no_difference") and each.outcome != speed.outcome
        for each in _notable(of)
    )
    kinds_take = f"The same kinds of reads{' together' if differ else ''} take"
    shown = f": {where}" if where else ""
    said = ""
    if changed["speed"] and changed["mix"]:
        said = (
            f"{kinds_take} {ratio_of(speed)} as long, and {how[0].lower()}{how[1:]}, which "
            f"makes it {ratio_of(mix)} as long{shown}."
        )
    elif changed["speed"]:
        besides = ""
        if mix.outcome == "no_difference" and where:
            besides = f"; that {how[0].lower()}{how[1:]} makes no difference{shown}"
        said = f"{kinds_take} {ratio_of(speed)} as long{besides}."
    elif changed["mix"]:
        said = f"{how}, which makes it {ratio_of(mix)} as long{shown}."
    elif primary.outcome in ("more", "less"):
        said = (
            f"Whether reads of the same kinds are slower ({ratio_of(speed)}), or blocks came from "
            f"elsewhere ({ratio_of(mix)}), is not decided."
        )
    return [said] if said else []


def moved(shares: Sequence[Share], mix: Finding, primary: Finding) -> tuple[str, str]:
    """In which way blocks came from elsewhere, and which share of them tells it: that which changed
    their time most, or if nothing did so, which grew most; a source's, unless another's did twice
    as much. "" if none did.
    """
    least = _LEAST_EFFECT * (primary.a or 0) * abs((mix.value or 1) - 1)
    sign = {"more": 1, "less": -1}.get(mix.outcome, 0)

    def much(share: Share) -> float:
        grew = share.b - share.a
        return (sign * share.effect if sign else grew) if grew > 0 else 0.0

    most = max(shares, key=much, default=None)
    if most is None or much(most) <= (least if sign else _LEAST_MOVED):
        return "Blocks came from elsewhere", ""
    source = max((each for each in shares if each.source), key=much, default=most)
    if 2 * much(source) >= much(most):
        most = source
    b, a = units.share(most.b), units.share(most.a)
    elsewhere = "Blocks came from elsewhere"
    if most.source:
        served = SERVED.get(most.source, "who is not known")
        return elsewhere, f"{served} served {b} of them, in A {a}"
    if most.tablespace:
        return elsewhere, f"{b} of them are on {most.tablespace}, in A {a}"
    if most.pattern:
        words = f"{b} of them in a {most.pattern} pattern, in A {a}"
        return "Blocks were read in another order", words
    return "Blocks were read in other sizes", f"{b} of them {most.size} at once, in A {a}"


def amount(of: Comparison, by: dict[str, Finding]) -> list[str]:
    """How much was read, and how much of each second that took."""
    time, blocks = by.get("time_per_second"), by.get("blocks_per_second")
    if not time or not blocks:
        return []
    said = []
    if time.outcome in ("more", "less"):
        said.append(
            f"Reading took up {time.outcome} of each second: {ratio_of(time)} as much"
            f"{values_of(time)}."
        )
    if blocks.outcome in ("more", "less"):
        word = "More" if blocks.outcome == "more" else "Fewer"
        said.append(
            f"{word} blocks were read each second, {ratio_of(blocks)} as many"
            f"{_factors(of.factor, blocks)}{_in_turn(by['time_per_block'], blocks, time)}."
        )
    return said


def _factors(factor: Factor | None, blocks: Finding) -> str:
    """By calls, or by blocks a call; "" if others than statements read much of it."""
    if not factor or not blocks.value:
        return ""
    if abs(log(factor.calls * factor.blocks_per_call / blocks.value)) > _ALIKE:
        return ""
    return (
        f": statements made {units.number(factor.calls)} times the calls, and a call read "
        f"{units.number(factor.blocks_per_call)} times the blocks, as counted"
    )


def _in_turn(block: Finding, blocks: Finding, time: Finding) -> str:
    """Of a client that reads without a pause: what is faster is done more often."""
    if time.outcome != "no_difference" or {block.outcome, blocks.outcome} != {"more", "less"}:
        return ""
    faster = "faster" if block.outcome == "less" else "slower"
    return f". Reading takes as much of each second as in A, at a {faster} pace"


def rest(of: Comparison, by: dict[str, Finding]) -> list[str]:
    """What is as it was, and what is not known to be."""
    found = [(name, by[metric]) for metric, name in _REST.items() if metric in by]
    same = [
        name
        for name, each in found
        if each.outcome == "no_difference"
        and not (each.metric == "mix" and moved(of.shares, each, each)[1])
    ]
    open_ = [
        f"{name} ({ratio_of(each)})"
        for name, each in found
        if each.outcome == "not_decided" and each.low is not None and not each.why
    ]
    said = []
    if same:
        which = "As it was" if open_ else "The rest is as it was"
        said.append(f"{which}, within {margin_of(of.margin)}: {listed(same)}.")
    if open_ and (same or any(each.outcome in ("more", "less") for _, each in found)):
        said.append(f"Not decided: {listed(open_)}.")
    return said
