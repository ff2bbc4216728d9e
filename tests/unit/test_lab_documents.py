"""What is said of a lab result is one document: text and page have the same cells."""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

import lab_results
from html_page import HtmlPage
from pgtrace.lab import result_file, result_page, result_report, result_words
from pgtrace.lab.pages.findings import findings as pages_findings
from pgtrace.model.lab_result import Result
from pgtrace.reporters.document import Block, Column, Latencies, Paragraph, Part, Section, Table
from pgtrace.reporters.terminal.chapters import chapters

PUBLISHED = sorted((Path(__file__).parents[2] / "docs" / "experiments").glob("*.json"))
WIDE = 400
"""Columns in which no table has to be broken."""


def simulated() -> Result:
    result = lab_results.pages_result()
    result.findings = [*pages_findings(result), lab_results.crossing(0.03, 0.02, 0.04, 5)]
    return result


@pytest.fixture(params=[*PUBLISHED, None], ids=lambda path: path.stem if path else "made")
def result(request: pytest.FixtureRequest) -> Result:
    if request.param is None:
        return simulated()
    found = result_file.load_any(request.param)
    assert isinstance(found, Result)
    return found


def blocks(result: Result) -> list[Block]:
    def within(found: Sequence[Block]) -> Iterator[Block]:
        for block in found:
            yield block
            if isinstance(block, Part):
                yield from within(block.blocks)

    return list(within([b for s in result_words.sections(result) for b in s.blocks]))


def shown(columns: Sequence[Column], values: Sequence[object], unknown: str) -> list[str]:
    if not values:
        return []
    return [c.show(v, unknown) for c, v in zip(columns, values, strict=True)]  # type: ignore[arg-type]


def flat(text: str) -> str:
    return " ".join(text.split())


def test_every_cell_is_on_the_page(result: Result) -> None:
    found = HtmlPage(result_page.render(result)).tables
    told = [block for block in blocks(result) if isinstance(block, Table)]
    assert told
    for table in told:
        of_it = [each for each in found if each.caption == table.caption and not each.chart]
        assert any(
            each.head == [table.first, *(column.title for column in table.columns)]
            and each.listed
            == [(name, shown(table.columns, values, "not measured")) for name, values in table.rows]
            for each in of_it
        ), table.caption


def test_every_cell_but_details_is_in_the_text(result: Result) -> None:
    lines = result_report.render(result, width=WIDE).splitlines()
    for table in (block for block in blocks(result) if isinstance(block, Table)):
        start = lines.index(f"  {table.caption}")
        end = lines.index("", start)
        told = [re.split(r" {2,}", line.strip()) for line in lines[start + 1 : end]]
        figures = [c for c in table.columns if c.unit != "words" and not c.detail]
        heads = [*([table.first] if table.first else []), *(c.title for c in figures)]
        rows: list[list[str]] = [heads]
        for name, values in table.rows:
            own = dict(zip(table.columns, shown(table.columns, values, "?"), strict=bool(values)))
            rows.append([name.strip(), *(own[c] for c in figures if c in own)])
            rows += [[flat(own[c])] for c in own if c.unit == "words" and not c.detail]
        groups = [c.group for c in figures]
        if any(groups):
            rows.insert(0, list(dict.fromkeys(groups)))
        assert told[: len(rows)] == rows


def test_no_figure_is_left_out_where_it_is_narrow(result: Result) -> None:
    """Tables that are too wide go on below."""
    wide, narrow = (
        Counter(word for word in chapter.split() if re.search(r"\d", word))
        for chapter in (
            "\n".join(chapters(result_words.sections(result), width)) for width in (WIDE, 80)
        )
    )
    assert wide - narrow == Counter()


def test_sentences_and_histograms_are_in_both(result: Result) -> None:
    text = flat(result_report.render(result, width=WIDE))
    page = flat(HtmlPage(result_page.render(result)).text)
    for block in blocks(result):
        if isinstance(block, Paragraph):
            assert flat(block.text) in text
            assert flat(block.text) in page
        elif isinstance(block, Latencies):
            assert block.title in page
            assert (block.title in text) is not block.detail


def test_groups_of_columns_for_which_there_is_no_room_stand_below() -> None:
    columns = [Column("a column", "text", group) for group in ("one", "other") for _ in range(2)]
    cells = ["a long cell 1", "a long cell 2", "a long cell 3", "a long cell 4"]
    table = Table("Caption", "first", columns, [("heading", []), ("  row", cells)], named=True)
    drawn = chapters([Section("name", [table], "Title")], 60)
    assert [line.split() for line in drawn] == [
        [],
        ["Title"],
        ["Caption"],
        ["one"],
        ["first", "a", "column", "a", "column"],
        ["heading"],
        ["row", *cells[0].split(), *cells[1].split()],
        ["other"],
        ["first", "a", "column", "a", "column"],
        ["heading"],
        ["row", *cells[2].split(), *cells[3].split()],
    ]
    assert max(map(len, drawn)) <= 60


def test_a_name_that_is_too_long_has_a_line_of_its_own() -> None:
    columns = [Column("number"), Column("what it says", "words")]
    table = Table("", "of", columns, [("n" * 70, [12, "Words."])], named=True)
    drawn = chapters([Section("name", [table], "Title")], 72)
    assert [line.split() for line in drawn[3:]] == [["n" * 70], ["12"], ["Words."]]


def test_what_is_hostile_does_nothing() -> None:
    columns = [Column("\x1b[2J", "text", "\x1b[2J"), Column("words", "words")]
    table = Table("\x1b[2J", "\x1b[2J", columns, [("\x1b[2J", ["\x1b[2J"] * 2)], named=True)
    part = Part("\x1b[2J", [table, Paragraph("\x1b[2J")])
    assert "\x1b" not in "".join(chapters([Section("name", [part], "\x1b[2J")], 80))
