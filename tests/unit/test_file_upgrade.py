"""Files of schema /1: each number of theirs is found again in /2."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pgtrace.errors import UsageError
from pgtrace.files import documents
from pgtrace.lab import result_file
from pgtrace.model import encoding
from pgtrace.model.capture import Capture, Excluded, Lost, Total
from pgtrace.model.lab_result import Result

ROOT = Path(__file__).parents[2]
CAPTURE = ROOT / "tests" / "corpus" / "captures" / "capture-1.json"
RESULTS = sorted((ROOT / "tests" / "results_of_1").glob("*.json"))
"""One of each experiment, as it was published."""


def numbers(value: Any) -> Iterator[float]:
    """All of a document but those of buckets."""
    if isinstance(value, dict):
        for key, member in value.items():
            if key != "buckets":
                yield from numbers(member)
    elif isinstance(value, list):
        for member in value:
            yield from numbers(member)
    elif isinstance(value, (int, float)) and not isinstance(value, bool) and value:
        yield value


def test_each_column_of_a_capture_is_kept_under_its_operation() -> None:
    old, taken = json.loads(CAPTURE.read_text()), documents.load(CAPTURE)
    (backend, other) = taken.backends
    assert old["schema"] == "pgtrace.capture/1"
    assert taken.schema == "pgtrace.capture/2"
    assert taken.probes.type == old["probes"]["reads"]
    assert taken.lost == Lost(1, 4, 5, {"read": 3, "write": 6, "fsync": 7}, 2, 8, 9, 10, 11, 12, 13)
    assert backend.failed == {
        "read": Excluded(1, 2, 3, 4),
        "write": Excluded(9, 10, 11, 12),
        "fsync": Excluded(17, 18, 19, 20),
    }
    assert backend.short == {"read": Excluded(5, 6, 7, 8), "write": Excluded(13, 14, 15, 16)}
    assert taken.totals["write"] == Total(12, 12 * 8192, 12, 0, 360_000, failed=9, short=13)
    assert taken.totals["fsync"] == Total(3, 0, 0, 0, 6_000_000, failed=17)
    for new, given_reads in (
        (backend.io, old["backends"][0]["reads"]),
        (other.io, old["backends"][1]["reads"]),
        (backend.queries[0].io, old["backends"][0]["queries"][0]["reads"]),
    ):
        for each, was in zip(new, given_reads, strict=True):
            assert (each.count, each.total_ns) == (was["count"], was["total_ns"])
            assert (each.latency.min, each.latency.max) == (was["min_ns"], was["max_ns"])
            assert [list(b) for b in each.latency.buckets] == was["histogram"]["buckets"]
            assert each.operation == was["operation"]
    latency, was = backend.queries[0].latency, old["backends"][0]["queries"][0]["latency"]
    assert latency is not None
    assert (latency.count, latency.sum, latency.max) == (3, was["total_ns"], was["max_ns"])


@pytest.mark.parametrize("path", RESULTS, ids=lambda path: path.stem)
def test_published_results_keep_all_their_numbers(path: Path) -> None:
    old, result = json.loads(path.read_text()), result_file.load_any(path)
    assert old["schema"] == "pgtrace.lab/1"
    assert isinstance(result, Result)
    new = json.loads(encoding.encode(result))
    assert sorted(numbers(new)) == sorted(numbers(old))


@pytest.mark.parametrize("path", [CAPTURE, RESULTS[0]], ids=["capture", "lab"])
def test_what_was_upgraded_and_written_is_read_as_it_was(path: Path, tmp_path: Path) -> None:
    document = result_file.load_any(path)
    file = tmp_path / "new.json"
    file.write_bytes(encoding.encode(document))
    assert result_file.load_any(file) == document


@given(st.data())
def test_a_damaged_file_of_1_is_refused_in_words(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    """Whatever one of its members is replaced with, or if it is not there."""
    document = json.loads(CAPTURE.read_text())
    at: Any = document
    for _ in range(data.draw(st.integers(0, 6))):
        members = list(at.values()) if isinstance(at, dict) else at
        inner = [each for each in members if isinstance(each, (dict, list)) and each]
        if not inner:
            break
        at = data.draw(st.sampled_from(inner))
    key = data.draw(st.sampled_from(list(at) if isinstance(at, dict) else range(len(at))))
    if data.draw(st.booleans()):
        del at[key]
    else:
        at[key] = data.draw(
            st.sampled_from([None, [], {}, "x", -1, 1.5, True, [[]], [{}], {"a": 1}])
        )
    file = tmp_path_factory.mktemp("damaged") / "a.json"
    file.write_text(json.dumps(document))
    try:
        assert isinstance(result_file.load_any(file), Capture)
    except UsageError as error:
        assert str(error).startswith(f"{file} ")
