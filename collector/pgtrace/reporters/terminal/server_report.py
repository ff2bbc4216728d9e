"""A capture of a whole server as text: the answer in one screen, then how it was measured."""

from collections.abc import Sequence
from dataclasses import replace

from ...model.capture import Capture
from ..document import Paragraph, Section, Table
from ..sections import server, span
from ..view import WIDTH, Choice
from . import capture_report
from .drawing import lines

OF_REPORT = "More: --top N, --sort KEY, --statements, --relations, --backends, --help."
OF_CAPTURE = "More: pgtrace capture -o FILE, and pgtrace report FILE --help."
LINES = 60
"""Of a screen."""
_TOPS = ("times", "top-statements", "top-writing", "top-relations", "top-writes", "processes")
"""Sections of which the tables have as many rows as there is room for."""
_FEW = 3
"""Rows, of which a table has fewer only if not even without empty lines there is room for them."""
_SPARE = ("times", "over-time", "top-writing", "top-writes", "processes")
"""Left out one after the other where there is none even then: --backends and --statements have
them."""


def render(
    capture: Capture,
    choice: Choice | None = None,
    *,
    more: str = OF_CAPTURE,
    width: int = WIDTH,
) -> str:
    """Return the report: one screen, as tables have no more rows than that has room for, unless
    so many were asked for.

    `more` tells how to see the rest.
    """
    choice = choice or Choice()
    lost = capture_report.lost_of(capture)
    notices = [*capture_report.partial_in_short(capture), *([" ".join(lost)] if lost else [])]
    head = _said("head", [capture_report.head(capture), *notices])
    how = _said("how", [*capture_report.how_in_short(capture), more])
    found = [head, *server.sections(capture, choice), how]
    drawn = lines(found, width)
    if not choice.exact and len(drawn) > LINES:
        most = _fitting(found, len(drawn) - LINES)
        dense = most < _FEW
        if dense:
            most = _fitting(found, len(drawn) - (len(found) - 1) - LINES)
        found = [head, *server.sections(capture, replace(choice, most=most)), how]
        drawn = lines(found, width, dense=dense)
        for spare in _SPARE:
            if len(drawn) > LINES:
                found = [each for each in found if each.name != spare]
                drawn = lines(found, width, dense=dense)
    return "\n".join(drawn) + "\n"


def _fitting(sections: Sequence[Section], over: int) -> int:
    """How many rows, beside that of the rest, make it shorter by so many lines; at least one."""
    rows = [
        len(block.rows)
        for section in sections
        if section.name in _TOPS
        for block in section.blocks
        if isinstance(block, Table)
    ]
    for most in range(max(rows, default=1) - 1, 1, -1):
        if sum(max(0, each - most - 1) for each in rows) >= over:
            return most
    return 1


def render_some(
    capture: Capture, names: Sequence[str], choice: Choice, *, width: int = WIDTH
) -> str:
    """Return the sections of these names alone."""
    notices = [*capture_report.partial(capture), *capture_report.lost_of(capture)]
    found = [part for part in server.sections(capture, choice) if part.name in names]
    if not found:
        found = [_said("none", ["Not measured." if capture.backends else "No backend was seen."])]
    sections = [_said("head", [capture_report.head(capture), *notices]), *found]
    return "\n".join(lines(sections, width, whole=True)) + "\n"


def render_span(capture: Capture, wanted: span.Span, choice: Choice, *, width: int = WIDTH) -> str:
    """Return what was done in a part of the session. Raises UsageError if it was not then."""
    notices = [*capture_report.partial(capture), *capture_report.lost_of(capture)]
    found = span.sections(capture, wanted, choice)
    head = _said("head", [capture_report.head(capture), *notices])
    return "\n".join(lines([head, *found], width, whole=True)) + "\n"


def _said(name: str, sentences: Sequence[str]) -> Section:
    return Section(name, [Paragraph(sentence) for sentence in sentences])
