"""The table of what is in which set leaves out no test."""

import ast
import importlib
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fix_markers import PG_VERSION, matches

ROOT = Path(__file__).parents[2]


@pytest.fixture
def parts(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(ROOT / "scripts"))
    monkeypatch.delitem(sys.modules, "parts", raising=False)
    return importlib.import_module("parts")


def marked(file: Path) -> Iterator[tuple[str, str]]:
    """Each `pg` mark of a file, and the test that has it; "": all of the file, or some of them."""
    tree = ast.parse(file.read_text())
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
    of = {id(each): function.name for function in functions for each in function.decorator_list}
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "pytest.mark.pg":
            (wanted,) = node.args
            yield of.get(id(node), ""), ast.literal_eval(wanted)


def test_what_the_usual_server_has_not_is_tried_on_others(parts: Any) -> None:
    """The rest of a set has a server of 15."""
    assert PG_VERSION == 15
    missing = [
        (file.name, test)
        for file in sorted((ROOT / "tests/integration").glob("test_*.py"))
        for test, wanted in marked(file)
        if not matches("15", wanted)
        for name in [file.stem.removeprefix("test_")]
        if not {name, f"{name}::{test}"} & {*parts.OF_SERVERS}
    ]
    assert not missing


def test_each_that_is_listed_is_there(parts: Any) -> None:
    some = (each for of in parts.SERVERS_BETWEEN.values() for each in of)
    for name in {*parts.OF_SERVERS, *some}:
        path, _, test = parts.path_of(name).partition("::")
        assert f"def {test}" in (ROOT / path).read_text()
