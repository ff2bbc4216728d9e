"""The answer of a comparison: what somebody would say aloud."""

from collections.abc import Sequence
from math import log

from ... import units
from ...comparing.comparison import Comparison, Condition, Finding, Share, StatementChange
from ...model.capture import Operation
from .answer import short
from .comparison_words import (
    SERVED,
    is_whole,
    margin_of,
    ratio_of,
    subject_words,
    times,
    values_of,
)

_DOING: dict[Operation, str] = {
    "read": "reading a block", "write": "writing a block", "fsync": "an fsync",
}  # fmt: skip
_MOST_RUNS = 10
_LEAST_CALLS = 10
_MUCH = 0.5
"""Of a change, the part that one statement has to have for it to be its."""
_NOTABLE_TIME = 0.1
"""Of the time of reading on one side, the part that a statement has to have to be told of."""
_NEARLY_ALL = 0.9
"""Of the time, so much of one kind is as much as all."""
_LEAST_MOVED = 0.02
"""Of all blocks, so many that came from elsewhere are worth a word."""


def answer(of: Comparison) -> list[str]:
    """What somebody would say aloud."""
    primary = next((each for each in of.findings if each.primary), None)
    asked = [_condition(each) for each in of.conditions]
    if of.experiment:
        return [*_of_runs(of), *asked]
    if primary is None:
        return ["Neither side did anything that could be compared.", *asked]
    first = _first(primary, of.margin)
    by: dict[str, Finding] = {
        each.metric: each for each in of.findings if is_whole(each, primary.of.operation)
    }
    said = []
    if primary.of.operation == "read":
        why, amount = _why(of, primary, by), [*_amount(by), *_statements_said(of)]
        # What differs stands before what does not
        decided = primary.outcome in ("more", "less")
        said = [first, *why, *amount] if decided else [*amount, first, *why]
        said += _percentiles_said(by, primary)
    return [*(said or [first]), *(_sentence(each) for each in _told_apart(of)), *asked]


def _percentiles_said(by: dict[str, Finding], primary: Finding) -> list[str]:
    """Where they tell another thing than the mean."""
    return [
        f"The {words} of all reads is {ratio_of(each)} as long{values_of(each)}."
        for name, words in (("p50", "median"), ("p99", "p99"))
        if (each := by.get(name)) and each.outcome in ("more", "less")
        and each.outcome != primary.outcome
    ]  # fmt: skip


def _of_runs(of: Comparison) -> list[str]:
    """What differs in a lab result, most first; then of how many it is not so, or not known."""
    elapsed = [each for each in of.findings if each.metric == "elapsed"]
    differ = [each for each in elapsed if each.outcome in ("more", "less")]
    differ.sort(key=lambda each: -abs(log(each.value or 1)))
    said = [
        f"{each.of.run}: {'slower' if each.outcome == 'more' else 'faster'} in B, elapsed "
        f"{ratio_of(each)}{values_of(each)}."
        for each in differ[:_MOST_RUNS]
    ]
    same = sum(each.outcome == "no_difference" for each in elapsed)
    open_ = len(elapsed) - len(differ) - same
    rest = [
        f"Of {units.count(len(elapsed))} measurements {units.count(len(differ))} differ, "
        f"{units.count(same)} do not by more than {margin_of(of.margin)}, "
        f"{units.count(open_)} are not decided."
    ]
    return [*said, *rest]


def _condition(condition: Condition) -> str:
    words = {"true": "true", "false": "not so", "not_decided": "not decided"}[condition.outcome]
    if condition.low is None or condition.high is None:
        return f"{condition.text}: {words}: {condition.why}."
    return f"{condition.text}: {words} ({times(condition.low, condition.high)})."


def _first(primary: Finding, margin: float) -> str:
    doing = _DOING[primary.of.operation]
    values = values_of(primary)
    if primary.low is None or primary.high is None:
        return f"Not decided whether {doing} takes longer: {primary.why}{values}."
    interval = times(primary.low, primary.high)
    if primary.outcome in ("more", "less"):
        word = "Slower" if primary.outcome == "more" else "Faster"
        return f"{word} in B: {doing} takes {interval} as long{values}."
    if primary.outcome == "no_difference":
        return f"No difference above {margin_of(margin)}: {doing} takes {interval} as long{values}."
    why = f"; {primary.why}" if primary.why else "; a longer capture would tell"
    return f"Not decided whether {doing} takes longer in B: {interval} as long{values}{why}."


def _why(of: Comparison, primary: Finding, by: dict[str, Finding]) -> list[str]:
    """By where blocks came from, or by how fast each was."""
    mix, speed = by.get("mix"), by.get("speed")
    if not mix or not speed or mix.low is None or speed.low is None:
        return []
    changed = {name: f.outcome in ("more", "less") for name, f in (("mix", mix), ("speed", speed))}
    same = {name: f.outcome == "no_difference" for name, f in (("mix", mix), ("speed", speed))}
    where = _moved(of.shares)
    if changed["speed"] and changed["mix"]:
        return [
            f"The same kinds of reads take {ratio_of(speed)} as long, and blocks came from "
            f"elsewhere, which makes it {ratio_of(mix)} as long{where}."
        ]
    if changed["speed"]:
        besides = "; blocks came from the same places" if same["mix"] else ""
        return [f"The same kinds of reads take {ratio_of(speed)} as long{besides}."]
    if changed["mix"]:
        besides = "; the same kinds of reads are as fast as in A" if same["speed"] else ""
        return [
            f"Blocks came from elsewhere, which makes it {ratio_of(mix)} as long{where}{besides}."
        ]
    if primary.outcome in ("more", "less"):
        return [
            f"Whether reads of the same kinds are slower ({ratio_of(speed)}), or blocks came from "
            f"elsewhere ({ratio_of(mix)}), is not decided."
        ]
    return []


def _moved(shares: Sequence[Share]) -> str:
    """Which share of all blocks changed most: a source's, unless another's did twice as much."""
    most = max(shares, key=_change_of, default=None)
    if most is None or _change_of(most) < _LEAST_MOVED:
        return ""
    source = max((each for each in shares if each.source), key=_change_of, default=most)
    if 2 * _change_of(source) >= _change_of(most):
        most = source
    b, a = units.share(most.b), units.share(most.a)
    if most.source:
        return f": {SERVED.get(most.source, 'who is not known')} served {b} of them, in A {a}"
    if most.tablespace:
        return f": {b} of them are on {most.tablespace}, in A {a}"
    if most.pattern:
        return f": {b} of them were read in a {most.pattern} pattern, in A {a}"
    return f": {b} of them were read {most.size} at once, in A {a}"


def _change_of(share: Share) -> float:
    return abs(share.b - share.a)


def _amount(by: dict[str, Finding]) -> list[str]:
    """How much was read, and how much of each second that took."""
    time, blocks = by.get("time_per_second"), by.get("blocks_per_second")
    if not time or not blocks or time.low is None or blocks.low is None:
        return []
    said = []
    if time.outcome in ("more", "less"):
        word = "more" if time.outcome == "more" else "less"
        said.append(
            f"Reading took up {word} of each second: {ratio_of(time)} as much{values_of(time)}."
        )
    if blocks.outcome in ("more", "less"):
        word = "More" if blocks.outcome == "more" else "Fewer"
        because = ""
        block = by["time_per_block"].outcome
        opposite = {block, blocks.outcome} == {"more", "less"}
        if opposite and time.outcome == "no_difference":
            because = ": reading takes as much of each second, and a block another time"
        said.append(f"{word} blocks were read each second, {ratio_of(blocks)} as many{because}.")
    elif blocks.outcome == "no_difference" and time.outcome in ("more", "less"):
        said.append(f"As many blocks were read each second, {ratio_of(blocks)}.")
    return said


def _statements_said(of: Comparison) -> list[str]:
    """What was counted of statements that changed; no verdicts, and so without an interval."""
    a_whole = sum(each.a_ns_per_s for each in of.statements)
    b_whole = sum(each.b_ns_per_s for each in of.statements)
    said = []
    for each in of.statements:
        share = max(each.a_ns_per_s / (a_whole or 1), each.b_ns_per_s / (b_whole or 1))
        if share < _NOTABLE_TIME:
            continue
        said += _change(of, each)
    return said[:3]


def _change(of: Comparison, each: StatementChange) -> list[str]:
    name = short(each.text)
    if not each.a_ns_per_s or not each.b_ns_per_s:
        return [f"One statement read in {'B' if each.b_ns_per_s else 'A'} alone: {name}."]
    calls = _counted(each.a_calls_per_s, each.b_calls_per_s)
    blocks = _counted(each.a_blocks_per_call, each.b_blocks_per_call)
    few = min((each.a_calls_per_s or 0) * of.a.seconds, (each.b_calls_per_s or 0) * of.b.seconds)
    if calls is None or blocks is None or few < _LEAST_CALLS:
        return []
    rate = next((f for f in of.findings if f.metric == "blocks_per_second"), None)
    moved = rate is not None and rate.outcome in ("more", "less")
    said = []
    if not 1 / of.margin <= blocks <= of.margin:
        said.append(
            f"A call of one statement reads {units.number(blocks)} times as many blocks "
            f"({units.number(each.b_blocks_per_call or 0)}, in A "
            f"{units.number(each.a_blocks_per_call or 0)}): its plan, its data, or what "
            f"shared_buffers hold of it is another. It is {name}."
        )
    if moved and not 1 / of.margin <= calls <= of.margin and (each.part_of_change or 0) > _MUCH:
        said.append(
            f"One statement was called {units.number(calls)} times as often "
            f"({units.number(each.b_calls_per_s or 0)} a second, in A "
            f"{units.number(each.a_calls_per_s or 0)}): {name}."
        )
    return said


def _counted(a: float | None, b: float | None) -> float | None:
    return b / a if a and b else None


def _told_apart(of: Comparison) -> list[Finding]:
    """Kinds that changed, and take up much of the time; those that changed most first."""
    found = [
        each
        for each in of.findings
        if each.outcome in ("more", "less")
        and each.metric == "time_per_block"
        and not each.primary
        and (each.share is None or each.share >= _NOTABLE_TIME)
    ]
    if len(found) == 1 and (found[0].share or 0) > _NEARLY_ALL:
        return []  # which has been said
    return sorted(found, key=lambda each: -(each.share or 1))[:3]


def _sentence(finding: Finding) -> str:
    name = subject_words(finding.of)
    return f"{name[0].upper()}{name[1:]} take {ratio_of(finding)} as long{values_of(finding)}."
