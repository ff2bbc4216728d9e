"""A capture of a whole server as text: the answer in one screen, then how it was measured."""

from collections.abc import Sequence

from ...model.capture import Capture
from ..document import Paragraph, Section
from ..sections import server, span
from ..view import WIDTH, Choice
from . import capture_report
from .drawing import lines

OF_REPORT = (
    "More: --statements, --relations, --backends; --statement ID|TEXT, --backend PID; --top N, "
    "--sort KEY."
)
OF_CAPTURE = (
    "More, statement by statement and backend by backend: pgtrace capture -o FILE, and pgtrace "
    "report FILE --help."
)


def render(
    capture: Capture,
    choice: Choice | None = None,
    *,
    more: str = OF_CAPTURE,
    width: int = WIDTH,
) -> str:
    """Return the report; at 80 columns at most 60 lines, if tables have ten rows.

    `more` tells how to see the rest.
    """
    notices = [*capture_report.partial(capture), *capture_report.lost_of(capture)]
    sections = [
        _said("head", [capture_report.head(capture), *notices]),
        *server.sections(capture, choice or Choice()),
        _said("how", [*capture_report.how(capture), more]),
    ]
    return "\n".join(lines(sections, width)) + "\n"


def render_one(capture: Capture, name: str, choice: Choice, *, width: int = WIDTH) -> str:
    """Return the section of this name alone."""
    notices = [*capture_report.partial(capture), *capture_report.lost_of(capture)]
    found = [part for part in server.sections(capture, choice) if part.name == name]
    if not found:
        found = [_said(name, ["Not measured." if capture.backends else "No backend was seen."])]
    sections = [_said("head", [capture_report.head(capture), *notices]), *found]
    return "\n".join(lines(sections, width, whole=True)) + "\n"


def render_span(capture: Capture, wanted: span.Span, choice: Choice, *, width: int = WIDTH) -> str:
    """Return what was done in a part of the session. Raises TargetError if it was not then."""
    notices = [*capture_report.partial(capture), *capture_report.lost_of(capture)]
    found = span.sections(capture, wanted, choice)
    head = _said("head", [capture_report.head(capture), *notices])
    return "\n".join(lines([head, *found], width, whole=True)) + "\n"


def _said(name: str, sentences: Sequence[str]) -> Section:
    return Section(name, [Paragraph(sentence) for sentence in sentences])
