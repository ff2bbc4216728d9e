"""The sentences with which the report of an experiment begins."""

import re
from pathlib import Path

import pytest

import lab_results
from html_page import HtmlPage
from pgtrace.lab import result_file, result_page, result_report
from pgtrace.lab.answers import answer
from pgtrace.model.capture import Lost
from pgtrace.model.lab_result import Result

PUBLISHED = Path(__file__).parents[2] / "docs" / "experiments"
BEGIN = {
    "pages": r"hdd \(simulated\): a random block took [\d.]+ to [\d.]+ times as long",
    "random_page_cost": r"disk: random_page_cost should be \d+ to \d+: ",
    "readahead": r"hdd \(simulated\): more read-ahead stops to help at [\d,]+ sectors",
    "buffers": r"\w+, shared_buffers \w+ and \w+: \w+ takes [\d.]+ to [\d.]+ times as long as \w+"
    r"|\d+ of \d+ comparisons of sizes (?:do not decide|showed no difference)",
    "sync": r"Wide: (?:the load takes \d+ to \d+ % (?:less|more) time with B than with A"
    r"|the load, A and B: no difference larger than \d+ %"
    r"|whether the load takes longer with A or with B is not decided)",
}


def published(name: str) -> Result:
    result = result_file.load_any(PUBLISHED / f"{name}.json")
    assert isinstance(result, Result)
    return result


@pytest.mark.parametrize("name", BEGIN)
def test_what_was_published_begins_with_what_was_found(name: str) -> None:
    result = published(name)
    said = answer(result)
    assert re.match(BEGIN[name], said[0]), said
    text = re.sub(r"\s+", " ", result_report.render(result))
    page = re.sub(r"\s+", " ", HtmlPage(result_page.render(result)).text)
    for shown in text, page:
        places = [shown.index(words) for words in said]
        assert places == sorted(places)
        assert places[-1] < shown.rfind("How it was measured")


def test_without_findings_they_are_computed() -> None:
    result = lab_results.pages_result()
    assert result.findings == []
    assert re.match(BEGIN["pages"], answer(result)[0])


def test_nothing_is_said_where_no_run_was_finished() -> None:
    result = lab_results.pages_result()
    result.cells = []
    assert answer(result) == []
    assert "\n  No run was finished: there is nothing to show.\n" in result_report.render(result)


def test_losses_are_told_before_what_was_found() -> None:
    result = lab_results.pages_result()
    result.lost = Lost(read=12)
    text = re.sub(r"\s+", " ", result_report.render(result))
    assert text.index("Lost, and in no number here: 12 reads.") < text.index(answer(result)[0])
