"""What is said of a comparison: the cause that it has, in words that name it, and no other."""

import re
from typing import Any

import pytest

from captures import some_reads
from pgtrace.comparing.captures import compare
from pgtrace.comparing.comparison import Comparison, Finding, Share, Subject
from pgtrace.comparing.selection import Selection
from pgtrace.comparing.side import side_of
from pgtrace.model.capture import Capture, Executions, Pattern, Query
from pgtrace.reporters.comparison import text as drawn
from pgtrace.reporters.sections.comparison_answer import answer
from pgtrace.reporters.sections.comparison_causes import moved
from seeded_captures import at_once, seeded_capture

TURNED = {"more": "less", "less": "more"}


def compared(a: Capture, b: Capture) -> Comparison:
    return compare(side_of(a), side_of(b))


def said(a: Capture, b: Capture) -> str:
    return " ".join(answer(compared(a, b)))


def two_disks(name: str, slower: float = 1.0) -> Capture:
    return at_once(
        seeded_capture(f"{name} 1", tablespace="ssd1"),
        seeded_capture(f"{name} 2", tablespace="ssd2", slower=slower),
    )


def test_the_disk_that_became_slower_is_named_and_the_other_is_not() -> None:
    """Though in B it has nearly all of the time."""
    text = said(two_disks("a"), two_disks("b", slower=20.0))
    assert "Random reads of 1 block from the device on ssd2 take 19." in text
    assert "Random reads of 1 block from the device on ssd1 are as fast as in A." in text
    assert "The same kinds of reads together take 10." in text
    assert "The rest is as it was, within 10 %: where blocks came from" in text


def test_a_kind_that_is_the_whole_is_not_told_twice() -> None:
    text = said(seeded_capture("a"), seeded_capture("b", slower=2.0))
    assert "Random reads" not in text
    assert "The same kinds of reads take 1." in text


def test_how_fast_the_same_kinds_are_is_told_of_what_both_have() -> None:
    """A second disk, as slow as the first one has become, is in no index of how fast it is."""
    b = at_once(
        seeded_capture("b 1", tablespace="ssd1", slower=2.0),
        seeded_capture("b 2", tablespace="ssd2", slower=2.0),
    )
    found = compared(seeded_capture("a", tablespace="ssd1"), b)
    (speed,) = (f for f in found.findings if f.metric == "speed")
    assert speed.value == pytest.approx(2, rel=0.06)
    assert (speed.low or 0) < 2 < (speed.high or 0)
    text = " ".join(answer(found))
    assert "the same places" not in text
    assert "makes no difference: 50 % of them are on ssd2, in A 0 %." in text


def test_of_kinds_that_one_side_alone_has_nobody_says_that_they_are_as_fast() -> None:
    a, b = seeded_capture("a", tablespace="ssd1"), seeded_capture("b", tablespace="ssd2", slower=3)
    found = compared(a, b)
    assert {f.outcome for f in found.findings if f.metric in ("mix", "speed")} == {"not_decided"}
    text = " ".join(answer(found))
    assert text.startswith("Slower in B: ")
    assert (
        "Blocks came from elsewhere: 100 % of them are on ssd2, in A 0 %; how fast the same kinds "
        "of reads are is not known: A and B have no kind of reads in common."
    ) in text


@pytest.mark.parametrize("pattern", ["random", "sequential"])
def test_few_that_both_have_are_not_enough(pattern: Pattern) -> None:
    a = seeded_capture("a", tablespace="ssd1")
    b = at_once(
        seeded_capture("b 1", tablespace="ssd1", calls=10.0),
        seeded_capture("b 2", tablespace="ssd2", calls=50.0, pattern=pattern),
    )
    (speed,) = (f for f in compared(a, b).findings if f.metric == "speed")
    assert speed.outcome == "not_decided"
    assert speed.why == "few of B's reads are of kinds that both have"


def served(name: str, **calls: float) -> Capture:
    """So many calls a second for each source; those that issue read-ahead are as fast as cached."""
    parts = []
    for source, number in calls.items():
        part = seeded_capture(f"{name} {source}", calls=number, cached=float(source != "device"))
        own: list[Any] = [io for each in parts_of(part) for io in each]
        for each in own:
            each.source = source
        parts.append(part)
    return at_once(*parts)


def parts_of(capture: Capture) -> list[list[Any]]:
    """All that is told by source."""
    (backend,) = capture.backends
    return [backend.io, *([*each.costs, *each.io] for each in capture.intervals)]


def test_the_source_that_made_it_slower_is_named_not_the_one_that_grew_most() -> None:
    """The page cache served more of them in B, too, in place of what is as fast."""
    a = served("a", page_cache=50.0, readahead_issued=48.0, device=2.0)
    b = served("b", page_cache=80.0, readahead_issued=14.0, device=6.0)
    text = said(a, b)
    assert "Blocks came from elsewhere, which makes it 1." in text
    assert "times as long: the device served 5.8 % of them, in A 2.0 %" in text


def test_what_explains_little_of_a_mix_is_not_named() -> None:
    """What a second disk took of the blocks is as fast: which of its kinds made it faster is what
    single shares do not tell."""
    mix = Finding(metric="mix", of=Subject(), outcome="less", value=0.5, low=0.45, high=0.55)
    primary = Finding(metric="time_per_block", of=Subject(), outcome="less", a=100.0, b=50.0)
    little = Share(source="page_cache", a=0.1, b=0.15, effect=-4.0)
    much = Share(source="page_cache", a=0.1, b=0.6, effect=-45.0)
    assert moved([little], mix, primary) == ("Blocks came from elsewhere", "")
    told = moved([little, much], mix, primary)[1]
    assert told == "the page cache served 60 % of them, in A 10 %"


def test_statements_are_named_by_their_ids() -> None:
    text = said(seeded_capture("a"), seeded_capture("b", calls=40.0))
    assert "Statement 4711 was called 1.9" in text
    assert "statements made 1.9" in text
    text = said(seeded_capture("a"), seeded_capture("b", calls=40.0, query_id=4712))
    assert "One statement was called 1.9" in text, "its id is another on each side"


def test_a_statement_that_reads_in_another_order_has_another_plan() -> None:
    a, b = seeded_capture("a"), seeded_capture("b", blocks_per_call=30, pattern="sequential")
    text = said(a, b)
    assert (
        "Statement 4711 reads 3.00 times as many blocks a call (30.0, in A 10.0), and in another "
        "order: 100 % in sequence, in A 0 %: its plan has probably changed. It is select * from t"
    ) in text
    text = said(a, seeded_capture("b", pattern="sequential"))
    assert "Statement 4711 reads in another order: 100 % in sequence, in A 0 %: its plan" in text


def test_a_statement_that_reads_another_relation_has_another_plan_if_the_order_is_another() -> None:
    a = seeded_capture("a", relation="public.t_pkey")
    b = seeded_capture("b", blocks_per_call=30, pattern="sequential", relation="public.t")
    assert "heap public.t_pkey no more" in said(a, b)
    assert "heap public.t in B alone" in said(a, b)


def test_what_may_be_chance_of_few_calls_is_no_cause() -> None:
    """Twelve calls on each side, that read a third more in B: calls differ among themselves."""

    def few(name: str, blocks: int) -> Capture:
        rare = seeded_capture(name, calls=0.2, blocks_per_call=blocks, noise=0.3)
        rare.backends[0].queries[0].calls = 12
        return rare

    assert "times as many blocks a call" not in said(few("a", 30), few("b", 40))
    assert "times as many blocks a call" in said(few("a", 10), few("b", 100))


def many(name: str, number: int) -> Capture:
    """Statements that are told apart, in another order on each side."""
    order = range(number) if name == "a" else range(number)[::-1]
    return at_once(
        *(
            seeded_capture(f"{name} {at}", text=f"select {at}", query_id=at + 1, seconds=20)
            for at in order
        )
    )


def test_statements_are_the_same_ones_with_a_and_b_exchanged() -> None:
    sides = [side_of(many(name, 8)) for name in ("a", "b")]
    one, other = compare(*sides), compare(*reversed(sides))
    by = {(f.metric, f.of): f for f in other.findings}
    assert sum(f.of.statement is not None for f in one.findings) == 10
    assert by.keys() == {(f.metric, f.of) for f in one.findings}
    for finding in one.findings:
        turned = by[finding.metric, finding.of]
        assert turned.outcome == TURNED.get(finding.outcome, finding.outcome)
    assert [s.text for s in one.statements] == [s.text for s in other.statements]


def test_statements_whose_text_is_not_known_are_not_taken_for_each_other() -> None:
    """Two of them on each side: by which would one be known?"""

    def unknown(name: str, ids: tuple[int, int]) -> Capture:
        found = at_once(
            seeded_capture(f"{name} 1", query_id=ids[0]),
            seeded_capture(f"{name} 2", query_id=ids[1], slower=5.0 if name == "b" else 1.0),
        )
        for backend in found.backends:
            backend.queries[0].text = None
        return found

    found = compared(unknown("a", (1, 2)), unknown("b", (3, 4)))
    assert not [f for f in found.findings if f.of.statement is not None]
    assert len(found.statements) == 4
    assert "nothing_in_common" not in {c.name for c in found.cautions}, "nobody knows"


def test_that_no_statement_is_in_both_is_said() -> None:
    a, b = seeded_capture("a"), seeded_capture("b", text="select 2", query_id=2)
    assert "nothing_in_common" in {c.name for c in compared(a, b).cautions}
    assert "nothing_in_common" not in {c.name for c in compared(a, seeded_capture("c")).cautions}


def test_a_client_that_never_pauses_reads_more_where_blocks_are_faster() -> None:
    text = said(seeded_capture("a"), seeded_capture("b", slower=0.5, calls=40.0))
    assert "Reading takes as much of each second as in A, at a faster pace." in text


def of_light_tier(name: str, **fields: Any) -> Capture:
    """Its calls are those of pg_stat_statements, of the whole server: ten backends did as much."""
    found = seeded_capture(name, **fields)
    found.probes.queries = "memory"
    (query,) = found.backends[0].queries
    assert query.calls is not None and query.query_id is not None
    found.executions = [Executions(query.query_id, 10 * query.calls, 1)]
    query.calls = query.errors = query.latency = None
    return found


def with_much_called(name: str, *, reads: int) -> Capture:
    """Beside one that reads, one that is called fifty times as often, and reads so many blocks."""
    found = seeded_capture(name)
    (backend,) = found.backends
    (query,) = backend.queries
    assert query.calls is not None
    io = [some_reads([(1000, 1)], blocks=reads)] if reads else []
    other = Query("select 1", "extended", 50 * query.calls, 0, None, io, query_id=1)
    backend.queries.append(other)
    return found


def test_calls_of_who_read_on_one_side_alone_are_counted_on_both() -> None:
    """One of its 60,000 calls did not find its block in shared_buffers."""
    found = compared(with_much_called("a", reads=0), with_much_called("b", reads=1))
    assert found.factor
    assert found.factor.calls == pytest.approx(1, rel=0.05)
    assert found.factor.blocks_per_call == pytest.approx(1, rel=0.01)


@pytest.mark.parametrize("reads", [1, 1_000_000])
def test_who_is_in_no_list_of_the_light_tier_has_calls_all_the_same(reads: int) -> None:
    """How many is not known: where it read little, that is left out; else nothing is said."""
    a, b = of_light_tier("a"), of_light_tier("b")
    io = some_reads([(1000, 1)], blocks=reads)
    b.backends[0].queries.append(Query("select 1", "unknown", None, None, None, [io], query_id=1))
    b.executions.append(Executions(1, 60_000, 1))
    found = compared(a, b).factor
    if reads == 1:
        assert found and found.calls == pytest.approx(1, rel=0.05)
    else:
        assert found is None


def test_calls_of_the_whole_server_are_not_those_of_one_backend() -> None:
    """They are not known then: a tenth of the blocks a call were another plan."""
    a, b = of_light_tier("a"), seeded_capture("b")
    calls = a.executions[0].calls
    whole, part = side_of(a), side_of(a, Selection(backend=a.backends[0].pid))
    assert [each.calls for each in whole.statements.values()] == [calls]
    assert [each.calls for each in part.statements.values()] == [None]
    found = compare(part, side_of(b))
    assert found.factor is None
    (one,) = found.statements
    assert one.a_calls_per_s is None and one.a_blocks_per_call is None
    assert one.b_calls_per_s and one.b_blocks_per_call
    shown = drawn(found, 80)
    assert "blocks a call" not in shown
    assert re.search(r"^ +\? +\d+\.\d +\? +10\.0 ", shown, re.MULTILINE)


def test_a_semicolon_at_the_end_makes_no_other_statement() -> None:
    """Files of before have it where pg_stat_statements told no text."""
    a = seeded_capture("a", text="select * from t where id = $1;")
    b = seeded_capture("b", text="select * from t where id = $1")
    found = compared(a, b)
    assert [s.text for s in found.statements] == ["select * from t where id = $1"]
    assert found.statements[0].a_blocks_per_s and found.statements[0].b_blocks_per_s
    assert "nothing_in_common" not in {c.name for c in found.cautions}
    assert [f.of.statement for f in found.findings if f.of.statement] == [
        f.of.statement for f in compared(b, seeded_capture("c")).findings if f.of.statement
    ]
