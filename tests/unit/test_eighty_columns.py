"""Whatever a capture holds, no line of its report is wider than it may be."""

from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from busy_server import ASKED, AWAY, LOSSES, MOST_LOST, server
from captures import some_reads
from pgtrace import units
from pgtrace.lab import result_file, result_report
from pgtrace.model.capture import Capture
from pgtrace.reporters.terminal.block import block
from pgtrace.reporters.terminal.form import report
from pgtrace.reporters.terminal.sentence import packed, row
from pgtrace.reporters.view import ORDERS, PARTS, Choice, View

EXPERIMENTS = Path(__file__).parents[2] / "docs" / "experiments"
LONG = "a_schema_with_a_long_name.and_a_table_that_has_sixty_three_characters_in_its_name"
WIDTHS = (80, 100, 132)


def view_of(capture: Capture, **fields: object) -> list[str]:
    return "".join(report(capture, View(**fields))).splitlines()  # type: ignore[arg-type]


def long_names(capture: Capture) -> Capture:
    for backend in capture.backends:
        backend.application_name = "an application that says very much of itself, and in one name"
        for each in backend.io:
            each.relation, each.tablespace = LONG, "fast_space"
    where = "/a/very/long/way/to/where/the/tablespace/is/kept/" * 2
    for space in capture.tablespaces:
        space.location = where
    return capture


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("light", [True, False], ids=["light", "full"])
@pytest.mark.parametrize("operations", ASKED, ids="+".join)
def test_every_view_is_as_wide_as_it_may_be(
    operations: tuple[str, ...], light: bool, width: int
) -> None:
    lost = MOST_LOST if width == 80 else LOSSES
    capture = long_names(server(operations, light=light, lost=lost, gaps=AWAY[:3]))  # type: ignore[arg-type]
    busy = next(each for each in capture.backends if each.backend_type == "client backend")
    views: list[dict[str, object]] = [{}, *({"part": part} for part in PARTS)]
    views += [{"choice": Choice(order=order)} for order in ORDERS]
    views += [{"backend": busy.pid}]
    if "read" in operations:
        views += [{"statement": "lines_3"}]
    for fields in views:
        lines = view_of(capture, width=width, **fields)
        assert len(lines) > 3
        assert [line for line in lines if len(line) > width] == [], fields


def test_one_backend_alone_is_as_narrow() -> None:
    capture = long_names(server(clients=1))
    del capture.backends[:-1]
    assert [line for line in view_of(capture) if len(line) > 80] == []


@pytest.mark.parametrize("result", sorted(EXPERIMENTS.glob("*.json")), ids=lambda path: path.stem)
def test_published_results_fit(result: Path) -> None:
    lines = result_report.render(result_file.load_any(result)).splitlines()
    assert [line for line in lines if len(line) > 80] == []


COUNTS = st.integers(1, 10**12)
SOURCES = st.sampled_from(["page_cache", "read_ahead", "device", "wait", "unknown"])


@st.composite
def many_reads(draw: st.DrawFn) -> list:  # type: ignore[type-arg]
    return [
        some_reads(
            [(draw(st.integers(100, 10**11)), draw(COUNTS))],
            source=draw(SOURCES),
            performed_by=draw(st.sampled_from(["backend", "parallel worker", "io worker"])),
            direct=draw(st.booleans()),
            kind=draw(st.sampled_from(["heap", "index", "temporary", "wal"])),
        )
        for _ in range(draw(st.integers(1, 6)))
    ]


@settings(max_examples=100, deadline=None)
@given(many_reads(), st.sampled_from(WIDTHS), st.text("■ 0123456789ms", max_size=20))
def test_a_block_of_any_size_fits(reads: list, width: int, lead: str) -> None:  # type: ignore[type-arg]
    lines = block(reads, 10**12, [], lead=lead, waited_ns=10**11, width=width)
    assert max(map(len, lines)) <= width


PARTS_OF_A_LINE = st.lists(st.text("abc 0123", min_size=1, max_size=18), min_size=1, max_size=12)


@given(PARTS_OF_A_LINE, st.sampled_from(WIDTHS))
def test_figures_side_by_side_are_all_there_and_in_their_order(
    parts: list[str], width: int
) -> None:
    lines = packed(parts, width, "■ 3 ms      ")
    assert max(map(len, lines)) <= width
    assert lines[0].startswith("■ 3 ms")
    words = "".join("".join(lines).split())
    assert words == "■3ms" + "".join("".join(parts).split())


@given(st.text("abcdefg_. 0", max_size=200), st.integers(30, 80))
@example("0" * 20, 30)  # as long as there is room below, and one more than beside the numbers
def test_a_name_is_folded_where_numbers_leave_room(name: str, width: int) -> None:
    numbers = f"{units.count(1_234):>11}"
    lines = row(numbers, name, width)
    assert lines[0].startswith(numbers)
    assert all(len(line) <= width for line in lines)
    named = "".join([lines[0].removeprefix(numbers), *lines[1:]])
    assert "".join(named.split()) == "".join(name.split())
