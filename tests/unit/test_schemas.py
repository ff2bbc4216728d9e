"""JSON Schemas of the files: in docs as the structs have them, and true of what is written."""

import functools
import json
import operator
import os
from pathlib import Path

import jsonschema
import msgspec
import pytest

import captures
import lab_results
from pgtrace.comparing.captures import compare
from pgtrace.comparing.comparison import Comparison
from pgtrace.comparing.side import side_of
from pgtrace.lab import EXPERIMENTS
from pgtrace.lab.experiments import result_of
from pgtrace.model import encoding
from pgtrace.model.capture import Capture
from seeded_captures import seeded_capture

REFERENCE = Path(__file__).parents[2] / "docs" / "reference"
RESULTS = functools.reduce(operator.or_, (result_of(name) for name in EXPERIMENTS))
KINDS = {"capture": Capture, "lab-result": RESULTS, "comparison": Comparison}


def stored(kind: str) -> Path:
    return REFERENCE / f"{kind}.schema.json"


@pytest.mark.parametrize("kind", KINDS)
def test_a_schema_is_that_of_the_structs(kind: str) -> None:
    schema = {"$schema": "https://json-schema.org/draft/2020-12/schema"}
    text = json.dumps(schema | msgspec.json.schema(KINDS[kind]), indent=2, ensure_ascii=False)
    if "PGTRACE_UPDATE_DOCS" in os.environ:
        stored(kind).write_text(f"{text}\n")
    assert stored(kind).read_text() == f"{text}\n", "PGTRACE_UPDATE_DOCS=1 writes it anew"


def test_a_comparison_is_as_its_schema_says() -> None:
    a, b = (side_of(seeded_capture(name, seconds=20, slower=n)) for name, n in (("a", 1), ("b", 2)))
    validator = jsonschema.Draft202012Validator(json.loads(stored("comparison").read_text()))
    document = json.loads(msgspec.json.encode(compare(a, b)))
    validator.validate(document)
    document["findings"][0]["outcome"] = "magic"
    assert not validator.is_valid(document)


@pytest.mark.parametrize("kind", ["capture", "lab-result"])
def test_a_file_is_as_its_schema_says(kind: str) -> None:
    document = (
        captures.some_capture(captures.some_backend())
        if kind == "capture"
        else lab_results.pages_result(runs=2)
    )
    validator = jsonschema.Draft202012Validator(json.loads(stored(kind).read_text()))
    validator.validate(json.loads(encoding.encode(document)))
    damaged = json.loads(encoding.encode(document))
    damaged["probes"]["type"] = "magic"
    assert not validator.is_valid(damaged)
