"""What a message says to type works as it is printed."""

import shlex
import subprocess
import sys
from pathlib import Path

from pgtrace import remedies


def test_pip_is_that_of_the_interpreter_that_runs() -> None:
    words = shlex.split(remedies.with_pip("--version"))
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    assert str(Path(sys.prefix)) in done.stdout


def test_nothing_names_a_package_that_anybody_may_register() -> None:
    root = Path(__file__).parents[2]
    pages = [root / "README.md", *(root / "docs").rglob("*.md")]
    for file in [*(root / "collector").rglob("*.py"), *pages]:
        text = file.read_text()
        assert "install pgtrace" not in text.replace("then install pgtrace again", ""), file
        assert "pgtrace[" not in text, file
