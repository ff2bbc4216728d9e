"""scripts/bench/gate: what it makes of verdicts. That it finds what is slow, --trial shows."""

import importlib
import math
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture
def gate(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(ROOT / "scripts/bench")
    return importlib.import_module("gate")


def measured(*runs: str) -> tuple[Callable[[int], list[dict[str, Any]]], list[int]]:
    """In each run the verdicts of two ratios: (m)et, not (d)ecided or (b)eyond; and its pairs."""
    words = {"m": "met", "d": "not decided", "b": "not met"}
    asked: list[int] = []
    left: Iterator[str] = iter(runs)

    def measure(pairs: int) -> list[dict[str, Any]]:
        asked.append(pairs)
        figures = {"value": 1.0, "low": 0.9, "high": 1.1, "goal": 1.0}
        return [
            {"name": name, **figures, "verdict": words[verdict]}
            for name, verdict in zip(("first", "second"), next(left), strict=True)
        ] + [{"name": "third", **figures, "goal": None, "verdict": "no goal"}]

    return measure, asked


def test_what_is_met_passes_at_once(gate: ModuleType) -> None:
    measure, asked = measured("mm")
    assert gate.is_passed(measure)
    assert asked == [80]


def test_what_is_beyond_fails_at_once(gate: ModuleType) -> None:
    measure, asked = measured("bd")
    assert not gate.is_passed(measure)
    assert asked == [80]


def test_what_is_met_stays_so(gate: ModuleType) -> None:
    measure, asked = measured("md", "bd", "dm")
    assert gate.is_passed(measure)
    assert asked == [80, 160, 320]


def test_what_is_never_decided_passes_with_a_warning(
    gate: ModuleType, capsys: pytest.CaptureFixture[str]
) -> None:
    measure, asked = measured("md", "md", "dd")
    assert gate.is_passed(measure)
    assert asked == [80, 160, 320]
    assert capsys.readouterr().out.splitlines()[-1] == "Warning: not decided: second"


def test_what_is_beyond_in_the_end_fails(gate: ModuleType) -> None:
    measure, asked = measured("dd", "dd", "db")
    assert not gate.is_passed(measure)
    assert asked == [80, 160, 320]


@pytest.mark.parametrize(
    ("low", "high", "rounds", "verdict"),
    [
        (1.2, 1.6, 80, "met"),
        (1.2, 2.1, 80, "not decided"),
        (1.9, 2.1, 80, "not met"),
        (1.9, 2.1, 9, "not decided"),
        (4.7, math.inf, 80, "not decided"),
    ],
)
def test_an_interval_decides_that_is_wholly_on_one_side(
    gate: ModuleType, low: float, high: float, rounds: int, verdict: str
) -> None:
    """One without an end does not: what it was divided by may as well be nothing."""
    assert gate.bench.Ratio("one", low, low, high, 1.8, rounds).verdict == verdict


def test_its_trial_slows_each_read(gate: ModuleType, tmp_path: Path) -> None:
    compiled = gate.slowed(tmp_path)
    text = (tmp_path / "bpf/reads.bpf.h").read_text()
    assert f">= {gate.SLOWED_NS}" in text and text.count(gate.SLOWER) == 1
    assert compiled.stat().st_size > 0


def test_its_trial_says_that_it_cannot_slow_what_it_does_not_find(
    gate: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gate, "BEFORE", "is in no program")
    with pytest.raises(gate.bench.BenchError, match=r"reads\.bpf\.h"):
        gate.slowed(tmp_path)
