"""The chart over read-ahead: what is certain of each point, and where the knee lies."""

from pathlib import Path
from typing import Any

import msgspec
import pytest

from pgtrace.lab import result_file
from pgtrace.lab.readahead import report
from pgtrace.lab.readahead.findings import findings
from pgtrace.lab.readahead.result import KneeFinding, ReadaheadResult
from pgtrace.reporters.html.charts import Charts
from pgtrace.reporters.html.drawing import drawn

FILE = Path(__file__).parents[2] / "docs" / "experiments" / "readahead.json"


@pytest.fixture
def result() -> ReadaheadResult:
    found = result_file.load_any(FILE)
    assert isinstance(found, ReadaheadResult)
    return found


def chart(result: ReadaheadResult) -> dict[str, Any]:
    charts = Charts()
    drawn(report.sections(result), charts)
    return next(each for each in charts.data if each["kind"] == "lines")


def test_each_point_lies_in_its_interval(result: ReadaheadResult) -> None:
    told = chart(result)
    assert len(told["layers"]) == 2
    for layer in told["layers"]:
        assert len(layer["points"]) == len(layer["intervals"]) > 2
        for (_, y), (low, high) in zip(layer["points"], layer["intervals"], strict=True):
            assert low < y < high
    assert "95 % intervals" in told["title"]


def test_of_one_run_there_is_none(result: ReadaheadResult) -> None:
    result.cells = [cell for cell in result.cells if cell.run == 1]
    result.findings = findings(result)
    told = chart(result)
    assert {each for layer in told["layers"] for each in layer["intervals"]} == {None}
    assert "interval" not in told["title"]
    panel = told["panels"][0]
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
        msgspec.structs.replace(f, value=1024, low=low, high=high)
        if isinstance(f, KneeFinding)
        else f
        for f in result.findings
    ]
    told = chart(result)
    panel = told["panels"][0]
    assert panel["band"] == ((low, high) if shaded else None)
    assert panel["marks"] == [(1024, name)]
    assert ("certainly lies is shaded" in told["title"]) is shaded
