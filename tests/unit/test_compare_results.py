"""pgtrace compare of two results of an experiment: what is said of them beside the verdicts."""

from pathlib import Path
from typing import Any

import msgspec
import pytest

from pgtrace.comparing import results
from pgtrace.comparing.comparison import Comparison
from pgtrace.lab import result_file
from pgtrace.lab.pages.result import PagesResult
from pgtrace.model.capture import Lost
from pgtrace.model.lab_result import Storage

PUBLISHED = Path(__file__).parents[2] / "docs/experiments/pages.json"


def runs(slower: float, number: int) -> PagesResult:
    """The published runs, each so much slower; of only so many."""
    found = result_file.decode(PUBLISHED.read_bytes())
    assert isinstance(found, PagesResult)
    cells = [
        msgspec.structs.replace(cell, elapsed_s=slower * cell.elapsed_s)
        for cell in found.cells
        if cell.run <= number
    ]
    return msgspec.structs.replace(found, cells=cells, findings=[])


def of_results(a: PagesResult, b: PagesResult) -> Comparison:
    return results.compare(a, b, (a.cells, b.cells), results.query_called)


def test_single_runs_have_the_same_things_in_common() -> None:
    """They tell of no difference, but that is what is said."""
    found = of_results(runs(1.0, 1), runs(1.3, 1))
    elapsed = [each for each in found.findings if each.metric == "elapsed"]
    assert elapsed
    for each in elapsed:
        assert each.outcome == "not_decided" and each.why == "A has 1 of at least 10 runs"
        assert each.a and each.b and each.b / each.a == pytest.approx(1.3)


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"partial": True}, "B is partial: of the runs that were finished."),
        ({"lost": Lost(read=12, fsync=1)}, "Of B 12 reads and 1 fsync are in no number."),
        ({"lost": Lost(missed=3)}, "In B the kernel left out a probe 3 times: as many"),
        (
            {"lost": Lost(backends=1)},
            "In B there was no room for a backend: what it",
        ),
        (
            {"lost": Lost(backends=2)},
            "In B there was no room for 2 backends: what they",
        ),
        (
            {"storages": [Storage("ssd", "", simulated=True)]},
            "On simulated devices: storage ssd.",
        ),
    ],
)
def test_what_makes_results_doubtful_is_said(fields: dict[str, Any], said: str) -> None:
    a = msgspec.structs.replace(runs(1.0, 10), storages=[])
    b = msgspec.structs.replace(runs(1.3, 10), **({"storages": []} | fields))
    found = of_results(a, b)
    assert [each.words for each in found.cautions if each.words.startswith(said)]
    decided = {each.outcome for each in found.findings} - {"not_decided"}
    assert bool(decided) == ("no room" not in said)
