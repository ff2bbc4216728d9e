"""A comparison in each of its forms, drawn from one document."""

from collections.abc import Callable

import msgspec

from ..comparing.comparison import Comparison
from .sections.comparison import sections
from .view import WIDTH


def text(of: Comparison, width: int = WIDTH) -> str:
    """For a terminal."""
    from .terminal.drawing import lines

    return "\n".join(lines(sections(of), width, whole=True)) + "\n"


def json(of: Comparison, _: int = WIDTH) -> str:
    """The document itself."""
    return msgspec.json.format(msgspec.json.encode(of), indent=2).decode() + "\n"


def html(of: Comparison, _: int = WIDTH) -> str:
    """A page that loads nothing."""
    from .html import drawing, whole
    from .html.charts import Charts

    charts = Charts()
    title = "Two sessions compared" if not of.experiment else f"Two results of {of.experiment}"
    body = f"<header>\n<h1>{title}</h1>\n</header>\n{drawing.drawn(sections(of), charts)}"
    return whole(title, body, charts)


FORMS: dict[str, Callable[[Comparison, int], str]] = {"text": text, "json": json, "html": html}
