"""What is said of a comparison: the answer, why, what was compared, and what is to be doubted."""

from collections.abc import Sequence
from itertools import chain
from math import log

from ... import units
from ...comparing.comparison import (
    Comparison,
    Condition,
    Finding,
    OneSide,
    Share,
    StatementChange,
    Subject,
)
from ...model.capture import Operation
from ...terminal_text import ELLIPSIS
from ..document import Block, Column, Paragraph, Section, Table, Value
from .answer import short
from .sums import PERFORMERS

_FROM = {
    "page_cache": "from the page cache",
    "readahead_issued": "that issued read-ahead",
    "device": "from the device",
    "wait": "that waited for others",
}
_SERVED = {
    "page_cache": "the page cache",
    "readahead_issued": "the page cache, with read-ahead issued,",
    "device": "the device",
    "wait": "somebody else's read",
}
_PLURALS: dict[Operation, str] = {"read": "reads", "write": "writes", "fsync": "fsyncs"}
_DOING: dict[Operation, str] = {
    "read": "reading a block", "write": "writing a block", "fsync": "an fsync",
}  # fmt: skip
_NAMES = {
    "time_per_block": "time per block",
    "mix": "by where blocks came from",
    "speed": "by how fast the same kinds are",
    "blocks_per_second": "blocks a second",
    "time_per_second": "time in each second",
    "p50": "median",
    "p99": "p99",
    "elapsed": "elapsed time",
}
_VERDICTS = {
    "more": "more", "less": "less", "no_difference": "no difference",
    "not_decided": "not decided",
}  # fmt: skip
_OF_TIME = ("time_per_block", "p50", "p99", "elapsed")
_LEAST_CALLS = 10
_MUCH = 0.5
"""Of a change, the part that one statement has to have for it to be its."""
_NOTABLE_TIME = 0.1
"""Of the time of reading on one side, the part that a statement has to have to be told of."""
_MOST_STATEMENTS = 10
_NEARLY_ALL = 0.9
"""Of the time, so much of one kind is as much as all."""
_LEAST_MOVED = 0.02
"""Of all blocks, so many that came from elsewhere are worth a word."""


def sections(of: Comparison) -> list[Section]:
    """All of them, in their order."""
    found = [
        Section("head", [Paragraph(_side("A", of.a)), Paragraph(_side("B", of.b))]),
        Section("answer", [Paragraph(each) for each in answer(of)]),
        Section("cautions", [Paragraph(f"! {each.words}") for each in of.cautions]),
        Section("findings", _findings(of)),
        Section("shares", _shares(of.shares)),
        Section("statements", _statements(of)),
        Section("how", [Paragraph(_how(of))]),
    ]
    return [each for each in found if each.blocks]


def _side(name: str, side: OneSide) -> str:
    started = side.started[:19].replace("T", " ")
    words = [f"{side.file or 'a capture'}, {started} UTC"]
    if side.part:
        words.append(side.part)
    words.append(units.duration(side.seconds * 1e9))
    if side.intervals is not None:
        words.append(f"{units.count(side.intervals)} intervals")
    if side.runs is not None:
        words.append(f"{units.count(side.runs)} runs")
    return f"{name}: {', '.join(words)}"


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
        each.metric: each for each in of.findings if _is_whole(each, primary.of.operation)
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
        f"The {words} of all reads is {_interval(each)} as long{_values(each)}."
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
        f"{_interval(each)}{_values(each)}."
        for each in differ[:_MOST_STATEMENTS]
    ]
    same = sum(each.outcome == "no_difference" for each in elapsed)
    open_ = len(elapsed) - len(differ) - same
    rest = [
        f"Of {units.count(len(elapsed))} measurements {units.count(len(differ))} differ, "
        f"{units.count(same)} do not by more than {margin_of(of.margin)}, "
        f"{units.count(open_)} are not decided."
    ]
    return [*said, *rest]


def _is_whole(finding: Finding, operation: Operation) -> bool:
    return finding.of == Subject(operation=operation)


def _condition(condition: Condition) -> str:
    words = {"true": "true", "false": "not so", "not_decided": "not decided"}[condition.outcome]
    if condition.low is None or condition.high is None:
        return f"{condition.text}: {words}: {condition.why}."
    return f"{condition.text}: {words} ({times(condition.low, condition.high)})."


def times(low: float, high: float) -> str:
    """An interval in words: `1.82 to 2.10 times`."""
    one, other = units.number(low), units.number(high)
    return f"{one} times" if one == other else f"{one} to {other} times"


def margin_of(margin: float) -> str:
    """In percent, as it was given."""
    return f"{100 * (margin - 1):.3g} %"


def _first(primary: Finding, margin: float) -> str:
    doing = _DOING[primary.of.operation]
    values = _values(primary)
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


def _values(finding: Finding) -> str:
    if finding.a is None or finding.b is None:
        return ""
    return f" ({_value(finding, finding.b)}, in A {_value(finding, finding.a)})"


def _value(finding: Finding, value: float | None) -> str:
    if value is None:
        return "?"
    if finding.metric in ("time_per_second", *_OF_TIME):
        return units.duration(value)
    return units.number(value)


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
            f"The same kinds of reads take {_interval(speed)} as long, and blocks came from "
            f"elsewhere, which makes it {_interval(mix)} as long{where}."
        ]
    if changed["speed"]:
        besides = "; blocks came from the same places" if same["mix"] else ""
        return [f"The same kinds of reads take {_interval(speed)} as long{besides}."]
    if changed["mix"]:
        besides = "; the same kinds of reads are as fast as in A" if same["speed"] else ""
        return [
            f"Blocks came from elsewhere, which makes it {_interval(mix)} as long{where}{besides}."
        ]
    if primary.outcome in ("more", "less"):
        return [
            f"Whether reads of the same kinds are slower ({_interval(speed)}), or blocks came from "
            f"elsewhere ({_interval(mix)}), is not decided."
        ]
    return []


def _interval(finding: Finding) -> str:
    if finding.low is None or finding.high is None:
        return "?"
    return times(finding.low, finding.high)


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
        return f": {_SERVED.get(most.source, 'who is not known')} served {b} of them, in A {a}"
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
            f"Reading took up {word} of each second: {_interval(time)} as much{_values(time)}."
        )
    if blocks.outcome in ("more", "less"):
        word = "More" if blocks.outcome == "more" else "Fewer"
        because = ""
        block = by["time_per_block"].outcome
        opposite = {block, blocks.outcome} == {"more", "less"}
        if opposite and time.outcome == "no_difference":
            because = ": reading takes as much of each second, and a block another time"
        said.append(f"{word} blocks were read each second, {_interval(blocks)} as many{because}.")
    elif blocks.outcome == "no_difference" and time.outcome in ("more", "less"):
        said.append(f"As many blocks were read each second, {_interval(blocks)}.")
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
    return f"{name[0].upper()}{name[1:]} take {_interval(finding)} as long{_values(finding)}."


def subject_words(of: Subject) -> str:
    """What is compared: `random reads of 1 block from the device on ssd2`."""
    if of.run:
        return of.run
    words = [_PLURALS[of.operation]]
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


def _findings(of: Comparison) -> list[Block]:
    order = {"more": 0, "less": 0, "no_difference": 1, "not_decided": 2}
    ranked = sorted(
        enumerate(of.findings),
        key=lambda each: (not each[1].primary, _is_part(each[1]), order[each[1].outcome], each[0]),
    )
    rows: list[tuple[str, list[Value]]] = []
    for _, each in ranked:
        name = f"{_NAMES[each.metric]}, {subject_words(each.of)}"
        if each.of.operation == "fsync":
            name = name.replace("block", "call")
        ratio = "" if each.low is None else _short_interval(each)
        verdict = _VERDICTS[each.outcome]
        values = ["", ""]  # these two are parts of a ratio, and of no side
        if each.metric not in ("mix", "speed"):
            values = [_value(each, each.a), _value(each, each.b)]
        rows.append((name, [*values, ratio, verdict]))
    columns = [
        Column("A", "text"), Column("B", "text"), Column("B by A", "text"),
        Column("verdict", "text"),
    ]  # fmt: skip
    why: dict[str, list[str]] = {}
    for each in of.findings:
        if each.why and each.outcome == "not_decided":
            why.setdefault(each.why, []).append(subject_words(each.of))
    parts = [
        f"{reason} ({names[0]}{f', and {len(names) - 1} more' if names[1:] else ''})"
        for reason, names in why.items()
    ]
    notes = [Paragraph(f"Not decided: {'; '.join(parts)}.")] if parts else []
    if not rows:
        return []
    return [Table("What was compared", "what", columns, rows), *notes]


def _is_part(each: Finding) -> bool:
    return not _is_whole(each, each.of.operation)


def _short_interval(each: Finding) -> str:
    return f"{units.number(each.low or 0)} to {units.number(each.high or 0)}"


def _shares(shares: Sequence[Share]) -> list[Block]:
    rows: list[tuple[str, list[Value]]] = []
    for each in shares:
        if max(each.a, each.b) >= 0.005:
            rows.append((_share_name(each), [each.a, each.b]))
    if not rows:
        return []
    return [
        Table("Where blocks came from", "of all blocks",
              [Column("A", "share"), Column("B", "share")], rows)
    ]  # fmt: skip


def _share_name(each: Share) -> str:
    if each.source:
        return f"from {_SERVED.get(each.source, 'where is not known').rstrip(',')}"
    if each.tablespace:
        return f"on {each.tablespace}"
    if each.pattern:
        return f"{each.pattern} pattern"
    return f"{each.size} block{'' if each.size == '1' else 's'} at once"


def _statements(of: Comparison) -> list[Block]:
    if not of.statements:
        return []
    rows: list[tuple[str, list[Value]]] = []
    for each in of.statements[:_MOST_STATEMENTS]:
        pairs = (
            (each.a_calls_per_s, each.b_calls_per_s),
            (each.a_blocks_per_call, each.b_blocks_per_call),
        )
        cells = [units.number(v) if v is not None else None for v in chain.from_iterable(pairs)]
        block = [each.a_block_ns, each.b_block_ns]
        name = " ".join(each.text.split())
        name = name if len(name) <= 200 else f"{name[:199]}{ELLIPSIS}"
        rows.append((name, [*cells, *block]))
    columns = [
        Column("calls/s A", "text"), Column("B", "text"), Column("blocks/call A", "text"),
        Column("B", "text"), Column("block A", "ns"), Column("B", "ns"),
    ]  # fmt: skip
    blocks: list[Block] = [Table("Statements, as counted", "statement", columns, rows)]
    if of.factor:
        f = of.factor
        whole = f.calls * f.blocks_per_call * f.block_time
        blocks.append(
            Paragraph(
                f"Of all statements: {units.number(f.calls)} times the calls a second × "
                f"{units.number(f.blocks_per_call)} times the blocks a call × "
                f"{units.number(f.block_time)} times the time a block = {units.number(whole)} "
                "times the time of reading a second, as counted."
            )
        )
    return blocks


def _how(of: Comparison) -> str:
    unit = "runs" if of.experiment else "blocks of intervals"
    which = "All" if of.experiment else "All but the first"
    return (
        f"B by A, with 95 % intervals over {unit}, never over single reads; fewer than 10 decide "
        f"nothing. What is within {margin_of(of.margin)} is no difference. {which} are corrected "
        "for being many. One session stands for each side: what changes from one to the next by "
        "itself is a difference too."
    )
