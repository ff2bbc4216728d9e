"""The chart over read-ahead: what is certain of each point, and where the knee lies."""

from pathlib import Path
from typing import Any

import msgspec
import pytest

from pgtrace.lab import result_file
from pgtrace.lab.readahead import page
from pgtrace.lab.readahead.findings import findings
from pgtrace.lab.readahead.result import KneeFinding, ReadaheadResult
from pgtrace.reporters.html.charts import Charts

FILE = Path(__file__).parents[2] / "docs" / "experiments" / "readahead.json"


@pytest.fixture
def result() -> ReadaheadResult:
    found = result_file.load_any(FILE)
    assert isinstance(found, ReadaheadResult)
    return found


def chart(result: ReadaheadResult) -> dict[str, Any]:
    charts = Charts()
    page.chapters(result, charts)
    return next(each for each in charts.data if each["kind"] == "lines")


def test_each_point_lies_in_its_interval(result: ReadaheadResult) -> None:
    drawn = chart(result)
    assert len(drawn["layers"]) == 2
    for layer in drawn["layers"]:
        assert len(layer["points"]) == len(layer["intervals"]) > 2
        for (_, y), (low, high) in zip(layer["points"], layer["intervals"], strict=True):
            assert low < y < high
    assert "95 % intervals" in drawn["title"]


def test_of_one_run_there_is_none(result: ReadaheadResult) -> None:
    result.cells = [cell for cell in result.cells if cell.run == 1]
    result.findings = findings(result)
    drawn = chart(result)
    assert {each for layer in drawn["layers"] for each in layer["intervals"]} == {None}
    assert "interval" not in drawn["title"]
    panel = drawn["panels"][0]
    assert (panel["band"], panel["marks"][0][1]) == (None, "knee by the means")


@pytest.mark.parametrize(
    ("low", "high", "name", "shaded"),
    [
        (1024, 1024, "knee", True),
        (1024, 4096, "knee by the means", True),
        (64, 4096, "knee by the means, not decided", False),
    ],
)
def test_nothing_is_shaded_where_the_knee_may_be_nearly_anywhere(
    result: ReadaheadResult, low: int, high: int, name: str, *, shaded: bool
) -> None:
    result.findings = [
        msgspec.structs.replace(f, low=low, high=high) if isinstance(f, KneeFinding) else f
        for f in result.findings
    ]
    drawn = chart(result)
    panel = drawn["panels"][0]
    assert panel["band"] == ((low, high) if shaded else None)
    assert panel["marks"] == [(1024, name)]
    assert ("certainly lies is shaded" in drawn["title"]) is shaded
