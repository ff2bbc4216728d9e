"""Property tests over what attackers write: some cases in each run, many in scripts/fuzz."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import pytest
from hypothesis import HealthCheck, settings

CASES = int(os.environ.get("PGTRACE_FUZZ_CASES", "2000"))
CORPUS = Path(__file__).parents[1] / "corpus"

_Test = TypeVar("_Test", bound=Callable[..., None])


def fuzzed(test: _Test) -> _Test:
    """Above @given: as many cases as are wanted, however long one takes on a shared machine."""
    wanted = settings(max_examples=CASES, deadline=None, suppress_health_check=list(HealthCheck))
    return pytest.mark.fuzz(wanted(test))


def corpus() -> list[Path]:
    """Every file of tests/corpus/SUBJECT/: what was found once, and what is known to be hard."""
    return sorted(path for path in CORPUS.glob("*/*") if path.is_file())
