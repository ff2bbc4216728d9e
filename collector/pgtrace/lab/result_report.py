"""A lab result as text for a person: what was found, the figures, then how it was measured."""

from collections.abc import Iterable

from ..model.lab_result import Result
from ..reporters.terminal.chapters import chapters
from ..reporters.terminal.sentence import sentence
from ..reporters.view import WIDTH, View
from .answers import answer
from .result_words import head, how, sections


def report(result: Result, view: View) -> list[str]:
    """Return it in one."""
    return [render(result, width=view.width)]


def render(result: Result, *, width: int = WIDTH) -> str:
    """Return the report. Sentences and bars fit `width` columns; tables need 80."""
    lines = _folded(head(result), width)
    if found := answer(result):
        lines += ["", *_folded(found, width)]
    lines += chapters(sections(result), width)
    lines += ["", "How it was measured", *_folded(how(result), width)]
    return "\n".join(lines) + "\n"


def _folded(sentences: Iterable[str], width: int) -> list[str]:
    return [line for said in sentences for line in sentence(said, width)]
