"""With A and B exchanged everything turns round: whole captures of whatever was done in them."""

from math import log

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pgtrace.comparing import conditions
from pgtrace.comparing.captures import compare
from pgtrace.comparing.comparison import Finding, Subject
from pgtrace.comparing.side import side_of
from pgtrace.model.capture import Capture, Host, Lost, Probes
from seeded_captures import at_once, seeded_capture

TURNED = {"more": "less", "less": "more"}
SECONDS = 14

LOADS = st.fixed_dictionaries(
    {
        "seed": st.integers(0, 10**6),
        "slower": st.sampled_from([0.02, 1.0, 1.05, 3.0]),
        "cached": st.sampled_from([0.0, 0.3, 1.0]),
        "calls": st.sampled_from([0.5, 3.0, 6.0]),
        "blocks_per_call": st.sampled_from([1, 5, 20]),
        "text": st.sampled_from(["select 1", "select 2", "select 3", None]),
        "tablespace": st.sampled_from(["ssd1", "ssd2", None]),
        "relation": st.sampled_from(["public.t", "public.u", None]),
        "pattern": st.sampled_from(["random", "sequential"]),
        "query_id": st.integers(1, 4),
    }
)
PROBES = st.sampled_from(["fentry", "fentry", "fentry", "tracepoint"]).map(
    lambda type_: Probes("libbpf", type_, "usdt")
)
CAPTURES = st.builds(
    lambda loads, probes, lost, cpus: at_once(
        *(
            seeded_capture(
                **load, seconds=SECONDS, probes=probes, lost=Lost(read=lost), host=Host("6", cpus)
            )
            for load in loads
        )
    ),
    st.lists(LOADS, min_size=1, max_size=6),
    PROBES,
    st.sampled_from([0, 0, 1, 10**6]),
    st.sampled_from([2, 4]),
)


def by(findings: list[Finding]) -> dict[tuple[str, Subject], Finding]:
    found = {(f.metric, f.of): f for f in findings}
    assert len(found) == len(findings)
    return found


def turned(ratio: float | None) -> object:
    return ratio if not ratio else pytest.approx(1 / ratio, rel=1e-6)


@given(CAPTURES, CAPTURES, st.sampled_from([1.02, 1.1, 2.0]))
@settings(max_examples=60, deadline=None)
def test_with_a_and_b_exchanged_all_of_it_turns_round(
    a: Capture, b: Capture, margin: float
) -> None:
    sides = side_of(a), side_of(b)
    one, other = compare(*sides, margin), compare(*sides[::-1], margin)
    here, there = by(one.findings), by(other.findings)
    assert here.keys() == there.keys()
    for key, finding in here.items():
        mirror = there[key]
        assert mirror.outcome == TURNED.get(finding.outcome, finding.outcome)
        assert mirror.primary == finding.primary
        assert (mirror.a, mirror.b) == (finding.b, finding.a)
        assert (mirror.value, mirror.low, mirror.high) == (
            turned(finding.value), turned(finding.high), turned(finding.low),
        )  # fmt: skip
        assert (mirror.why is None) == (finding.why is None)
    assert [c.name for c in one.cautions] == [c.name for c in other.cautions]
    assert [(s.source, s.tablespace, s.a, s.b) for s in one.shares] == [
        (s.source, s.tablespace, s.b, s.a) for s in other.shares
    ]
    statements = {(s.text, s.query_id): s for s in other.statements}
    for each in one.statements:
        mirror_of = statements[each.text, each.query_id]
        assert each.a_calls_per_s == mirror_of.b_calls_per_s
        assert each.a_blocks_per_call == mirror_of.b_blocks_per_call
        assert sorted(map(str, each.reads)) == sorted(
            str(type(r)(pattern=r.pattern, kind=r.kind, relation=r.relation, a=r.b, b=r.a))
            for r in mirror_of.reads
        )
    if one.factor and other.factor:
        whole = one.factor.calls * one.factor.blocks_per_call * one.factor.block_time
        assert log(one.factor.calls) == pytest.approx(-log(other.factor.calls), abs=1e-9)
        sums = [sum(s.total_ns for s in side.statements.values()) / side.seconds for side in sides]
        assert whole == pytest.approx(sums[1] / sums[0], rel=1e-9), "their product is the whole"
    assert (one.factor is None) == (other.factor is None)


@given(
    CAPTURES, CAPTURES,
    st.sampled_from(["mean", "speed", "mix", "blocks", "time", "p50", "p99", "mean(device)"]),
    st.sampled_from(["0.5", "0.8", "1", "1.25", "2"]),
)  # fmt: skip
@settings(max_examples=40, deadline=None)
def test_so_do_conditions(a: Capture, b: Capture, measure: str, ratio: str) -> None:
    inverse = {"0.5": "2", "0.8": "1.25", "1": "1", "1.25": "0.8", "2": "0.5"}[ratio]
    sides = side_of(a), side_of(b)
    one = conditions.evaluate(conditions.parse(f"{measure} > {ratio}x"), *sides)
    other = conditions.evaluate(conditions.parse(f"{measure} < {inverse}x"), *sides[::-1])
    assert one.outcome == other.outcome


def test_a_side_that_has_no_part_in_a_ratio_does_not_lend_it_its_rounding_errors() -> None:
    """Of one kind alone, A says nothing of the mix: what is left of it is 1e-16, and how that hangs
    together is chance."""
    load = {"tablespace": "ssd1", "seconds": SECONDS, "calls": 0.5, "seed": 0}
    a = side_of(seeded_capture(**load, blocks_per_call=1))
    b = side_of(seeded_capture(**load, blocks_per_call=5, cached=0.3, slower=0.02))
    (one,), (other,) = (
        [f for f in compare(*sides).findings if f.metric == "mix"] for sides in ((a, b), (b, a))
    )
    assert (one.low, one.high) == (turned(other.high), turned(other.low))
