"""Sentences that fit a terminal."""

import textwrap

from ...terminal_text import escape

NARROWEST = 40


def sentence(text: str, width: int, indent: int = 0) -> list[str]:
    """Return it in lines of at most `width` columns, harmless to a terminal.

    The first is indented so far; the others too, or by two where that is nothing.
    """
    return textwrap.wrap(
        escape(text),
        max(width, NARROWEST),
        initial_indent=" " * indent,
        subsequent_indent=" " * (indent or 2),
        break_on_hyphens=False,
    )
