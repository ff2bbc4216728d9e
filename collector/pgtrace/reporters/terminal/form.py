"""Which text is printed of a capture."""

from collections.abc import Iterator

from ...errors import UsageError
from ...model.capture import Capture
from ..sections import span
from ..view import View
from . import capture_report, server_report

_OF_PART = {"statements": ("top-statements", "top-writing"), "relations": ("top-relations",)}


def report(capture: Capture, view: View) -> Iterator[str]:
    """Yield it.

    Raises UsageError if there is no such backend, statement or time in the capture.
    """
    if view.backend is not None:
        backends = [each for each in capture.backends if each.pid == view.backend]
        if not backends:
            raise UsageError(
                f"the capture has no backend {view.backend}: --backends shows those that it has"
            )
        yield capture_report.render_backends(capture, backends, width=view.width)
    elif view.statement is not None:
        found = capture_report.render_statements(capture, view.statement, width=view.width)
        if found is None:
            raise UsageError(
                f"the capture has no statement {view.statement!r}: --statements shows those that "
                "it has"
            )
        yield found
    elif view.since or view.until:
        yield server_report.render_span(
            capture, span.Span(view.since, view.until), view.choice, width=view.width
        )
    elif view.part in _OF_PART:
        yield server_report.render_some(capture, _OF_PART[view.part], view.choice, width=view.width)
    elif view.part == "backends" or len(capture.backends) < 2:
        yield capture_report.render(capture, view.choice, width=view.width)
    else:
        more = server_report.OF_REPORT
        yield server_report.render(capture, view.choice, more=more, width=view.width)
