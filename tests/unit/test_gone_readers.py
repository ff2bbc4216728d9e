"""Who reads stdout may be gone: what was measured is kept, and the exit code as it would be."""

import os
import re
import subprocess
from pathlib import Path

import pytest

from pgtrace.files import documents
from pgtrace.lab import result_file
from pgtrace_command import patched, run
from seeded_captures import seeded_capture

SUPPORT = Path(__file__).parents[1] / "support"
RESULT = Path(__file__).parents[2] / "docs/experiments/pages.json"
MEASURED = f"""
import contextlib, sys
from types import SimpleNamespace
sys.path.append({str(SUPPORT)!r})
from captures import some_capture
from pgtrace.commands import notes, session
from pgtrace.failures import Failures
from pgtrace.model.capture import Lost, Probes
from pgtrace.tracing import run_loop

OF = {{
    "partial": {{"partial": ["names: it failed"]}},
    "lost": {{"lost": Lost(read=7)}},
    "nameless": {{"probes": Probes("libbpf", "fentry", "usdt", not_measured=["names: none"])}},
}}
taken = some_capture(**OF.get(sys.argv.pop(1), {{}}))

@contextlib.contextmanager
def attached(*_, **__):
    stopper = run_loop.Stopper(keeps=True)
    stopper.start()
    tracer = SimpleNamespace(target="it", failures=Failures(), rest=None, stop=lambda: taken)
    yield tracer, None, stopper
    stopper.restore()

session.attached = attached
notes.watch = lambda *_, **__: None
run_loop.run = lambda *_, **__: "duration"
"""
"""A capture that has been measured."""
EXPERIMENT = f"""
import sys
from pgtrace.commands.lab import experiment
from pgtrace.errors import DatabaseError
from pgtrace.lab import result_file
from pgtrace.lab.pages.experiment import EXPERIMENT

ended_by = {{"partial": DatabaseError("it went away")}}.get(sys.argv.pop(1))
result = result_file.load_any({str(RESULT)!r})
type(EXPERIMENT).prepare = lambda *_: None
experiment._measured = lambda *_: (result, ended_by)
"""
NO_ROOM = """
from pgtrace.files import rescue
rescue._directories = lambda near: iter(())
"""


def ended(code: str, *arguments: object, temporary: Path) -> tuple[int, list[str]]:
    """Its exit code, and the lines that it said, where nobody reads what it prints."""
    reading, writing = os.pipe()
    os.close(reading)
    try:
        done = subprocess.run(
            [*patched(code), *map(str, arguments)], stdout=writing, stderr=subprocess.PIPE,
            text=True, check=False, env=os.environ | {"TMPDIR": str(temporary)},
        )  # fmt: skip
    finally:
        os.close(writing)
    return done.returncode, done.stderr.splitlines()


COMMANDS = {"capture": (MEASURED, ["capture", "-q"]), "lab": (EXPERIMENT, ["lab", "pages", "-q"])}


@pytest.mark.parametrize("command", COMMANDS)
def test_what_was_to_be_printed_as_json_is_kept(tmp_path: Path, command: str) -> None:
    """As where the connection of `pgtrace capture --json | ssh backup 'cat > f'` broke."""
    measures, words = COMMANDS[command]
    code, said = ended(measures, "whole", *words, "--json", temporary=tmp_path)
    (kept,) = tmp_path.iterdir()
    printed, what = {"capture": ("report", "capture"), "lab": ("result", "result")}[command]
    assert code == 1
    assert said == [
        f"pgtrace: the {printed} could not be printed: [Errno 32] Broken pipe. "
        f"The {what} was kept: {kept}"
    ]
    assert (documents.load if command == "capture" else result_file.load_any)(kept)


@pytest.mark.parametrize("command", COMMANDS)
def test_nor_is_it_lost_without_words_where_there_is_no_room(tmp_path: Path, command: str) -> None:
    measures, words = COMMANDS[command]
    code, said = ended(measures + NO_ROOM, "whole", *words, "--json", temporary=tmp_path)
    assert (code, len(said), list(tmp_path.iterdir())) == (1, 1, [])
    assert re.search(
        r"could not be printed: .*Broken pipe\. (No file system has|There is no) room", said[0]
    )


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("json", ["", "--json"])
def test_what_is_in_the_file_of_o_is_enough(tmp_path: Path, command: str, json: str) -> None:
    measures, words = COMMANDS[command]
    told = ended(measures, "whole", *words, "-o", tmp_path / "F", *json.split(), temporary=tmp_path)
    assert told == (0, [])
    assert list(tmp_path.iterdir()) == [tmp_path / "F"]


@pytest.mark.parametrize("command", COMMANDS)
def test_who_has_seen_enough_of_a_report_says_so_by_leaving(tmp_path: Path, command: str) -> None:
    measures, words = COMMANDS[command]
    assert ended(measures, "whole", *words, temporary=tmp_path) == (0, [])
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("output", ["", "-o F --json"])
@pytest.mark.parametrize(
    ("of", "option", "code"),
    [("partial", "", 1), ("lost", "--strict", 6), ("nameless", "--require-names", 7)],
)
def test_what_was_not_complete_is_said_to_nobodys_loss(
    tmp_path: Path, of: str, option: str, code: int, output: str
) -> None:
    words = output.replace("F", str(tmp_path / "F")).split()
    found, said = ended(MEASURED, of, "capture", "-q", *option.split(), *words, temporary=tmp_path)
    assert (found, len(said)) == (code, 1), said


@pytest.mark.parametrize("output", ["", "-o F --json"])
def test_nor_is_what_ended_an_experiment(tmp_path: Path, output: str) -> None:
    words = output.replace("F", str(tmp_path / "F")).split()
    told = ended(EXPERIMENT, "partial", "lab", "pages", "-q", *words, temporary=tmp_path)
    assert told == (7, ["pgtrace: it went away"])


def test_an_experiment_into_a_file_needs_no_stdout(tmp_path: Path) -> None:
    command = ("bash", "-c", 'exec "$@" >&-', "bash", *patched(EXPERIMENT))
    told = run("whole", "lab", "pages", "-q", "-o", tmp_path / "F", command=command)
    assert told == (0, "", "")
    assert result_file.load_any(tmp_path / "F")


JUDGED = """
from pgtrace import doctor
from pgtrace.commands import doctor as command
doctor.groups = lambda _: [doctor.Group("kernel", [doctor.Ability("reads", False, "none")])]
command._server_groups = lambda _: []
"""


@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_what_doctor_says_by_its_code_is_said_to_who_does_not_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, unbuffered: str
) -> None:
    monkeypatch.setenv("PYTHONUNBUFFERED", unbuffered)
    assert ended(JUDGED, "doctor", temporary=tmp_path) == (5, [])


@pytest.mark.parametrize("form", ["text", "html"])
def test_a_condition_that_is_true_is_told_to_who_does_not_read(tmp_path: Path, form: str) -> None:
    a, b = tmp_path / "a", tmp_path / "b"
    documents.write(seeded_capture("a"), a)
    documents.write(seeded_capture("b", slower=2.0), b)
    words = ("compare", a, b, "--format", form, "--fail-if", "mean > 1.2x")
    assert ended("", *words, temporary=tmp_path) == (8, ["pgtrace: --fail-if: mean > 1.2x: true"])
