"""A lab result as text for a person: what was found, the figures, then how it was measured."""

from collections.abc import Iterable

from ..model.lab_result import Result
from ..reporters.terminal.sentence import sentence
from ..reporters.view import WIDTH, View
from .answers import answer
from .core.figures import label
from .experiments import experiment
from .result_words import about, head, how


def report(result: Result, view: View) -> list[str]:
    """Return it in one."""
    return [render(result, width=view.width)]


def render(result: Result, *, width: int = WIDTH) -> str:
    """Return the report. Sentences and bars fit `width` columns; tables need 80."""
    of = experiment(result.experiment).presentation
    lines = _folded(head(result), width)
    if found := answer(result):
        lines += ["", *_folded(found, width)]
    lines += of.sections(result, width)
    storages = [f"{label(storage)}: {about(storage)}" for storage in result.storages]
    made = [*storages, *of.method(result), *how(result)]
    lines += ["", "How it was measured", *_folded(made, width)]
    return "\n".join(lines) + "\n"


def _folded(sentences: Iterable[str], width: int) -> list[str]:
    return [line for said in sentences for line in sentence(said, width)]
