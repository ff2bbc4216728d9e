"""What each statement did on both sides, as it was counted: exact, and no estimate."""

from .comparison import Access, Factor, StatementChange
from .side import Side, Statement

_MOST = 20
_MOST_READS = 6
_NEARLY_ALL = 0.95
"""Of the blocks, what those have read whose calls are known, for the others to be left out."""


def changes(a: Side, b: Side) -> list[StatementChange]:
    """Those first whose reading took up more or less of each second."""
    if not (a.io and b.io and a.seconds and b.seconds):
        return []
    if "none" in {a.capture.probes.queries, b.capture.probes.queries}:
        return []  # of whom they were not measured, nobody knows which it ran
    whole = sum(s.blocks for s in b.statements.values()) / b.seconds
    whole -= sum(s.blocks for s in a.statements.values()) / a.seconds
    pairs = paired(a, b)
    found = [_change(one, other, a.seconds, b.seconds, whole) for one, other in pairs]
    found = [each for each in found if each.a_ns_per_s or each.b_ns_per_s]
    found.sort(key=lambda each: (-abs(each.b_ns_per_s - each.a_ns_per_s), each.text))
    return found[:_MOST]


def paired(a: Side, b: Side) -> list[tuple[Statement | None, Statement | None]]:
    """By their texts, which are the same on another server."""
    keys = [*a.statements, *(key for key in b.statements if key not in a.statements)]
    return [(a.statements.get(key), b.statements.get(key)) for key in keys]


def _change(
    one: Statement | None, other: Statement | None, a_s: float, b_s: float, whole: float
) -> StatementChange:
    some = one or other
    assert some
    found = StatementChange(text=some.text, **_told("a", one, a_s), **_told("b", other, b_s))  # type: ignore[arg-type]
    ids = {number for each in (one, other) if each for number in each.query_ids}
    found.query_id = ids.pop() if len(ids) == 1 else None
    found.reads = _reads(one, other)
    if whole:
        found.part_of_change = (found.b_blocks_per_s - found.a_blocks_per_s) / whole
    return found


def _told(side: str, did: Statement | None, seconds: float) -> dict[str, float | None]:
    """What it did there, by StatementChange's names for that side."""
    if not did:
        return {}
    found: dict[str, float | None] = {
        f"{side}_ns_per_s": did.total_ns / seconds,
        f"{side}_blocks_per_s": did.blocks / seconds,
        f"{side}_block_ns": did.total_ns / did.blocks if did.blocks else None,
    }
    if did.calls is not None:
        found[f"{side}_calls_per_s"] = did.calls / seconds
        found[f"{side}_blocks_per_call"] = did.blocks / did.calls if did.calls else None
    return found


def _reads(one: Statement | None, other: Statement | None) -> list[Access]:
    """Of a statement that read on both sides."""
    if not (one and other and one.blocks and other.blocks):
        return []
    found = [
        Access(pattern=pattern, kind=kind, relation=relation,
               a=one.reads[pattern, kind, relation] / one.blocks,
               b=other.reads[pattern, kind, relation] / other.blocks)
        for pattern, kind, relation in one.reads.keys() | other.reads.keys()
    ]  # fmt: skip
    found.sort(key=lambda each: (-abs(each.b - each.a), str(each)))
    return found[:_MOST_READS]


def factor(a: Side, b: Side) -> Factor | None:
    """What the time of reading for statements is made of; None where calls are not known.

    Of the same statements on both sides, those that read on either: one that finds all it needs in
    shared_buffers on one side is called there, too.
    """
    pairs = [pair for pair in paired(a, b) if any(each and each.blocks for each in pair)]
    known = [(one, other) for one, other in pairs if _counts(a, one) and _counts(b, other)]
    sums = []
    for side, i in ((a, 0), (b, 1)):
        every, own = ([did for pair in of if (did := pair[i])] for of in (pairs, known))
        calls = sum(each.calls or 0 for each in own)
        blocks = sum(each.blocks for each in own)
        total_ns = sum(each.total_ns for each in own)
        if not (side.seconds and calls and total_ns):
            return None
        if blocks < _NEARLY_ALL * sum(each.blocks for each in every):
            return None
        sums.append((calls / side.seconds, blocks / calls, total_ns / blocks))
    (calls_a, blocks_a, time_a), (calls_b, blocks_b, time_b) = sums
    return Factor(
        calls=calls_b / calls_a, blocks_per_call=blocks_b / blocks_a, block_time=time_b / time_a
    )


def _counts(side: Side, did: Statement | None) -> bool:
    """Whether its calls there are known: in the light tier who reads nothing is in no list."""
    if did is None:
        return side.capture.probes.queries != "memory"
    return bool(did.calls) or (did.calls == 0 and not did.blocks)
