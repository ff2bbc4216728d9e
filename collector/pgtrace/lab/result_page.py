"""A lab result as a page: what was found, the figures, then how it was measured."""

from ..model.lab_result import Result
from ..reporters.html import whole
from ..reporters.html.charts import Charts
from ..reporters.html.drawing import drawn
from ..reporters.html.parts import escaped, paragraphs, section
from ..reporters.view import View
from . import result_words
from .answers import answer
from .experiments import presentation


def report(result: Result, _: View) -> list[str]:
    """Return it in one."""
    return [render(result)]


def render(result: Result) -> str:
    """Return the page."""
    charts = Charts()
    head, *warnings = result_words.head(result)
    title = presentation(result.experiment).title
    chapters = result_words.sections(result)
    links = [*((each.name, each.title) for each in chapters), ("how", "How it was measured")]
    items = "".join(f'<li><a href="#{at}">{escaped(name)}</a></li>' for at, name in links)
    parts = [
        f"<header>\n<h1>{escaped(title)}</h1>",
        paragraphs([f"{head.partition(': ')[2]}."], "lead"),
        f'<nav aria-label="On this page"><ul>{items}</ul></nav>\n</header>',
        paragraphs(warnings, "warning"),
        paragraphs(answer(result)),
        drawn(chapters, charts),
        section("how", "How it was measured", paragraphs(result_words.how(result))),
    ]
    return whole(head, "\n".join(parts), charts)
