"""Each experiment that has a name has all that an experiment is; and only its own is imported."""

import argparse
import inspect
import subprocess
import sys
from pathlib import Path

import pytest

import pgtrace.lab
from pgtrace.lab import EXPERIMENTS
from pgtrace.lab.experiments import experiment, presentation, result_of
from pgtrace.model.lab_result import Result

FOLDERS = Path(pgtrace.lab.__file__).parent


def test_each_folder_with_an_experiment_has_a_name() -> None:
    assert {file.parent.name for file in FOLDERS.glob("*/experiment.py")} - {"core"} == {
        *EXPERIMENTS
    }


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_its_file_is_told_by_its_name(name: str) -> None:
    assert issubclass(result_of(name), Result)
    assert result_of(name).__struct_config__.tag == name
    assert presentation(name).title


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_its_help_has_a_summary_examples_and_its_options(name: str) -> None:
    found = experiment(name)
    parser = argparse.ArgumentParser()
    found.prepare_parser(parser)
    assert inspect.getdoc(found)
    assert found.examples
    for example in found.examples:
        words = example.split()
        assert words[:4] == ["sudo", "pgtrace", "lab", name]
        parser.parse_args(words[4:])


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_its_help_loads_neither_what_measures_nor_another_experiment(name: str) -> None:
    program = (
        "import contextlib, io, sys; from pgtrace.__main__ import main\n"
        "with contextlib.redirect_stdout(io.StringIO()): main(['lab', sys.argv[1], '--help'])\n"
        "print(*sys.modules)"
    )
    command = [sys.executable, "-c", program, name]
    loaded = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
    of_lab = {each.split(".")[2] for each in loaded if each.startswith("pgtrace.lab.")}
    assert of_lab == {"core", "experiments", name}
    assert not {"msgspec", "psycopg", f"pgtrace.lab.{name}.measuring"} & {*loaded}
