"""What is said of a comparison: the answer, why, what was compared, and what is to be doubted."""

from collections.abc import Sequence
from itertools import chain

from ... import units
from ...comparing.comparison import Comparison, Finding, OneSide, Share
from ...terminal_text import ELLIPSIS
from ..document import Block, Column, Paragraph, Section, Table, Value
from .comparison_answer import answer
from .comparison_words import SERVED, is_whole, margin_of, subject_words, value_of

_NAMES = {
    "time_per_block": "time per block",
    "mix": "effect of where blocks came from",
    "speed": "speed of the same kinds",
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
_MOST_STATEMENTS = 10


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
            values = [value_of(each, each.a), value_of(each, each.b)]
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
    return not is_whole(each, each.of.operation)


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
        return f"from {SERVED.get(each.source, 'where is not known').rstrip(',')}"
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
    what = "result" if of.experiment else "session"
    return (
        f"B by A, with 95 % intervals over {unit}, never over single reads; fewer than 10 decide "
        f"nothing. What is within {margin_of(of.margin)} is no difference. {which} are corrected "
        f"for being many. One {what} stands for each side: what changes from one to the next by "
        "itself is a difference too."
    )
